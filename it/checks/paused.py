"""One stands still past the failover time, the other takes its leases; then it goes on, and gives them up."""

import sys
import time

from compare import expect_all, expect_in_order, expect_silence_without_lease
from expect import wait_for
from world import local_world

OTHER = {"probe": "java", "java": "probe"}


def check(kind):
    with local_world(shards=2) as world:
        world.put_for(1)
        paused = getattr(world, kind)()
        world.wait_until_stored()
        world.put_for(1)
        paused.pause()
        other = getattr(world, OTHER[kind])()
        wait_for("both shards read", lambda: world.put_for(0.5) or len(other.shards_started()) == 2, 120)

        resumed = time.monotonic() - paused.started
        paused.resume()
        lost = lambda: {line["shard"] for line in paused.events("lease-lost")}
        wait_for("both leases lost", lambda: world.put_for(0.5) or len(lost()) == 2)
        given_up = max(line["at"] for line in paused.events("lease-lost"))
        late = [line["at"] - resumed for line in paused.events("delivery") if line["at"] > resumed]
        print(f"leases given up after {given_up - resumed:.3f} s, {len(late)} deliveries in between")
        world.put_for(2)
        world.wait_until_stored()
        expect_all(world.put, [paused, other])
        for reader in (paused, other):
            expect_in_order(reader)
            expect_silence_without_lease(reader)


check(*sys.argv[1:])
