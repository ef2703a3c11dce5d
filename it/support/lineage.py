"""A stream that is split and merged under a reader."""

from compare import expect_all, expect_in_order, expect_keys_in_order
from expect import expect, wait_for


def read_through_a_split_and_a_merge(world, start):
    """The reader, started by `start`, ends the parents of a split and a merge and reads the children, in order."""
    world.put_records(300)
    reader = start()
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
    expect_all(world.put, [reader])
    expect_in_order(reader)
    expect_keys_in_order(reader, world.put)
    return reader


def ends(world, shards):
    rows = world.leases.rows()
    return rows if all(rows[shard].ended for shard in shards) else None
