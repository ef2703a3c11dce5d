"""Both read four shards at once while records are put and a shard is split; then the probe leaves, and Java goes on.

KCL 2.x steals its share from the probe. The leader of a KCL 3.x fleet moves only leases of workers that report metrics:
there the probe takes no more than two, and Java the others.
"""

import os

from compare import expect_all, expect_in_order, expect_silence_without_lease
from expect import expect, wait_for
from readers import PATIENT
from world import local_world

SECONDS = 25
FIRST = "shardId-000000000000"


def shares(world):
    """How many open shards each reader owns, without those of nobody."""
    owners = list(world.leases.owners().values())
    return {owner: owners.count(owner) for owner in owners if owner}


def expect_one_reader_per_shard(world, readers):
    """New records come from one reader for each shard: its owner."""
    seen = {reader: len(reader.deliveries()) for reader in readers}
    owners = world.leases.owners()
    put = len(world.put)
    world.put_for(3)
    world.wait_until_stored()
    expect(world.leases.owners() == owners, "leases still wander")
    recent = set(world.put[put:])
    for reader in readers:
        for delivery in reader.deliveries()[seen[reader] :]:
            if delivery in recent:
                owner = owners[delivery.shard]
                expect(owner == reader.name, f"{reader.name} delivered of {delivery.shard}, which {owner} owns")


def check(steals):
    with local_world(shards=4) as world:
        probe = world.probe(settings=PATIENT if steals else f"{PATIENT} lease.max-leases = 2")
        world.put_for(5)
        java = world.java()
        # A KCL in a 2.x mode steals no lease whose counter changes between its look and its write. Checkpoints do that.
        wait_for("two readers", lambda: world.put_for(0.5) or len(shares(world)) == 2, 120)
        world.put_for(SECONDS)
        world.split(FIRST)
        world.put_for(SECONDS)
        world.wait_until_stored()
        print(f"shares: {shares(world)}")
        expect(min(shares(world).values()) >= 2, "Java did not get its share")
        expect_one_reader_per_shard(world, [probe, java])
        lost = probe.events("lease-lost")
        expect(bool(lost) == steals, f"leases that the probe lost: {lost}")

        expect(probe.terminate() == 0, "the probe did not stop cleanly")
        world.put_for(1)
        world.wait_until_stored()
        expect(set(shares(world)) == {java.name}, f"Java does not own all: {shares(world)}")
        expect_all(world.put, [probe, java])
        for reader in (probe, java):
            expect_in_order(reader)
            expect_silence_without_lease(reader)


check(steals=os.environ.get("IT_CLIENT_VERSION") != "CLIENT_VERSION_CONFIG_3X")
