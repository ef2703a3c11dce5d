"""Two readers finish each other's reshards: one ends the parent and writes its children's rows, the other reads them.

A split, then a merge, so that each kind of reader is once the one who ends the parents.
"""

import sys

from compare import expect_exactly
from expect import expect, wait_for
from world import local_world

ORDERS = {"probe-then-java": ["probe", "java", "probe"], "java-then-probe": ["java", "probe", "java"]}

# A KCL 3.x that is killed keeps the lead for two minutes.
END = {"probe": lambda probe: probe.kill(), "java": lambda java: java.terminate()}


def ended(world, shards):
    rows = world.leases.rows()
    return all(shard in rows and rows[shard].ended for shard in shards)


def expect_children(world, parents, children):
    """The rows of children nobody has begun to read, as a KCL would write them."""
    rows = world.leases.rows()
    for parent in parents:
        expect(rows[parent].children == children, f"{parent} has the children {rows[parent].children}")
    for child in children:
        lease = rows[child]
        expect(lease.parents == parents, f"{child} has the parents {lease.parents}")
        expect(lease.checkpoint == "TRIM_HORIZON", f"{child} begins at {lease.checkpoint}")
        expect(lease.hash_range == world.hash_range(child), f"{child} has the hash range {lease.hash_range}")


def read_to_the_end(world, kind, reshard, parents):
    """A new reader, held behind what is in the stream, ends the parents; then it is ended itself."""
    behind = world.behind(world.leases.rows())
    reader = getattr(world, kind)(hold_after=len(behind))
    world.wait_until_stored()
    children = reshard()
    wait_for(f"SHARD_END of {parents}", lambda: ended(world, parents))
    world.put_records(200)
    # A KCL that is stopped while it starts shards does not come to an end.
    wait_for(f"the start of {children}", lambda: set(children) <= reader.shards_started().keys())
    END[kind](reader)
    expect_exactly(reader, behind, parents)
    expect_children(world, parents, children)
    return children


def check(order):
    first, second, third = ORDERS[order]
    with local_world(shards=1) as world:
        world.put_records(200)
        root = "shardId-000000000000"
        halves = read_to_the_end(world, first, lambda: world.split(root), [root])
        [whole] = read_to_the_end(world, second, lambda: [world.merge(*halves)], halves)
        behind = world.behind(world.leases.rows())
        expect({record.shard for record in behind} == {whole}, "something is left besides the merged shard")
        reader = getattr(world, third)()
        world.wait_until_stored()
        expect_exactly(reader, behind)


check(*sys.argv[1:])
