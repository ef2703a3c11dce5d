"""The leader of a KCL 3.x fleet hands leases from one kind of worker to the other, in good order: no record comes twice.

It does so between workers that report to it, as the probe does, by what their shards carry.
"""

import sys

from compare import expect_all, expect_in_order, expect_silence_without_lease
from expect import expect, wait_for
from world import local_world


def check(to):
    with local_world(shards=4) as world:
        world.put_for(1)
        start = {"java": world.java, "probe": world.probe}
        has_all = start["probe" if to == "java" else "java"]()
        wait_for("four shards read", lambda: len(has_all.shards_started()) == 4, 60)
        joins = start[to]()

        def handed_over():
            world.put_for(2)
            return joins.shards_started()

        wait_for("a lease handed over", handed_over, 150)
        world.put_for(2)
        world.wait_until_stored()
        expect_all(world.put, [has_all, joins])
        for reader in (has_all, joins):
            expect_in_order(reader)
            expect_silence_without_lease(reader)
        twice = set(has_all.deliveries()) & set(joins.deliveries())
        expect(not twice, f"{len(twice)} records came to both")


check(*sys.argv[1:])
