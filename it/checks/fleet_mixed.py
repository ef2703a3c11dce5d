"""Two KCL workers and two probes share twelve shards. Then those of one kind go one by one, and the others read on.

Both kinds join while the other one has all there is, so that leases move both ways.
"""

import sys
import time
from random import Random

from compare import expect_all, expect_in_order, expect_silence_without_lease
from expect import expect, wait_for
from fleet import judge
from puts import SteadyPuts, even_keys
from readers import QUICK
from world import local_world

SHARDS = 12
OTHER = {"probe": "java", "java": "probe"}
QUIET_SECONDS = 30
MOST_MOVES = 4  # while nothing changes
JOINED_WITHIN = 120  # seconds; the leader of a KCL 3.x moves leases by figures that are half a minute old

# Those that start together make the same tables and indexes, and try again when another one was first.
AT_THE_START = "Caught exception when initializing LeaseCoordinator"
# And such a KCL in a 2.x mode trips over what it has not made when it is stopped.
AFTER_A_FAILED_START = "LeaderDecider uninitialized"
# A KCL in a 2.x mode counts leases without an owner as those of a worker without a name, until the failover time has
# passed since they were released. When that one has the most, it trips over it, and takes none until then.
ON_RELEASED_LEASES = '"mostLoadedWorkerIdentifier" is null'
OWN_TROUBLE = (AT_THE_START, AFTER_A_FAILED_START, ON_RELEASED_LEASES)


def shares(world):
    owners = [owner for owner in world.leases.owners().values() if owner]
    return {owner: owners.count(owner) for owner in sorted(set(owners))}


def moved_to(world, kind):
    is_of = lambda owner: owner is not None and owner.startswith(kind)
    return sum(is_of(to) and former is not None and not is_of(former) for _, _, former, to in world.leases.moves)


def check(stays):
    goes = OTHER[stays]
    with local_world(SHARDS, look_each=0.2) as world:
        start = {"probe": lambda: world.probe(settings=QUICK), "java": world.java}
        puts = SteadyPuts(world, even_keys(4 * SHARDS), Random(1))
        first = [start[goes](), start[goes]()]
        wait_for("all shards read", lambda: sum(shares(world).values()) == SHARDS, 90)
        print(f"alone: {shares(world)}", flush=True)
        last = [start[stays](), start[stays]()]
        wait_for("four readers", lambda: len(shares(world)) == 4, JOINED_WITHIN)
        time.sleep(QUIET_SECONDS)
        print(f"together: {shares(world)}", flush=True)

        since = time.time()
        time.sleep(QUIET_SECONDS)
        moves = [move for move in world.leases.moves if move[0] > since]
        print(f"later: {shares(world)}, moves meanwhile: {moves}", flush=True)
        expect(len(moves) <= MOST_MOVES, f"{len(moves)} leases moved in {QUIET_SECONDS} s: {moves}")
        expect(moved_to(world, stays) >= 2, f"too few leases came to those that joined: {world.leases.moves}")

        for reader in first:
            code = reader.terminate()
            expect(goes == "java" or code == 0, f"{reader.name} ended with {code}")
            print(f"without {reader.name}: {shares(world)}", flush=True)
            time.sleep(5)
        names = {reader.name for reader in last}
        theirs = lambda: set(shares(world)) <= names and sum(shares(world).values()) == SHARDS
        wait_for("those that stay have all", theirs, 60)
        time.sleep(5)
        puts.stop()
        world.wait_until_all_stored()
        print(f"in the end: {shares(world)}", flush=True)
        expect_all(world.put, first + last)
        for reader in first + last:
            expect_in_order(reader)
            expect_silence_without_lease(reader)
        deliveries = sum(len(reader.deliveries()) for reader in first + last)
        print(f"records: {len(world.put)}, deliveries: {deliveries}, moves: {len(world.leases.moves)}")
        told = [f"{reader.name} logged: {line}" for reader in first + last for line in reader.complaints()]
        judge(world, (line for line in told if not any(own in line for own in OWN_TROUBLE)))


check(*sys.argv[1:])
