"""The probe reads a part and ends; the Java worker goes on exactly behind its checkpoints."""

import sys

from compare import expect_exactly, expect_taken_over
from expect import expect
from world import local_world


def stopped(world):
    """What was delivered is stored, and the leases are released."""
    world.put_records(500)
    probe = world.probe()
    world.wait_until_stored()
    expect(probe.terminate() == 0, "the probe did not stop cleanly")
    owners = set(world.leases.owners().values())
    expect(owners == {None}, f"leases were not released: {owners}")
    world.put_records(500)


def killed(world):
    """Events are delivered and not answered."""
    world.put_records(1_000)
    probe = world.probe(hold_after=377)
    world.wait_until_stored(left=1_000 - 377)
    probe.kill()


def check(end):
    with local_world(shards=2) as world:
        end(world)
        rows = world.leases.rows()
        behind, put = world.behind(rows), len(world.put)
        java = world.java()
        world.put_records(200)
        world.wait_until_stored()
        expect_exactly(java, behind + world.put[put:])
        expect_taken_over(java, rows, world.leases.rows())


check({"stopped": stopped, "killed": killed}[sys.argv[1]])
