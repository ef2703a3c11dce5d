"""The Java worker reads a part and ends; the probe goes on exactly behind its checkpoints."""

import sys

from compare import expect_exactly, expect_taken_after_expiry, expect_taken_over
from world import local_world

ENDS = {"stopped": lambda java: java.terminate(), "killed": lambda java: java.kill()}


def check(end):
    with local_world(shards=2) as world:
        world.put_records(1_000)
        java = world.java(hold_after=377)
        world.wait_until_stored(left=1_000 - 377)
        ENDS[end](java)

        rows = world.leases.rows()
        behind = world.behind(rows)
        probe = world.probe()
        world.put_records(200)
        world.wait_until_stored()
        expect_exactly(probe, behind + world.put[1_000:])
        expect_taken_after_expiry(probe, rows)
        expect_taken_over(probe, rows, world.leases.rows())


check(*sys.argv[1:])
