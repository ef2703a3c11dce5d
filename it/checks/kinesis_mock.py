"""The probe reads kinesis-mock through a split and a merge."""

from compare import expect_all, expect_in_order, expect_keys_in_order
from expect import expect, wait_for
from mock_world import mock_world


def check():
    with mock_world(shards=2) as world:
        world.put_records(300)
        probe = world.probe()
        world.wait_until_stored()
        first, second = sorted(world.leases.rows())
        left, right = world.split(first)
        world.put_records(300)
        merged = world.merge(right, second)
        world.put_records(300)
        world.wait_until_stored()

        closed = {first, second, right}
        rows = wait_for("the parents' ends", lambda: ends(world, closed))
        expect(rows.keys() == closed | {left, merged}, f"the table has the shards {sorted(rows)}")
        expect({shard for shard in rows if rows[shard].ended} == closed, "a shard that is open is at its end")
        expect_all(world.put, [probe])
        expect_in_order(probe)
        expect_keys_in_order(probe, world.put)
        expect(probe.terminate() == 0, "the probe did not stop cleanly")


def ends(world, shards):
    rows = world.leases.rows()
    return rows if all(rows[shard].ended for shard in shards) else None


check()
