"""One of three processes is killed, again and again: how long until every shard is read again?"""

import random
import statistics
import time

from fleet import Fleet, arguments, judge
from history import History
from readers import FAILOVER_SECONDS
from world import local_world

CHOSEN = arguments(kills=20, processes=3, shards=12)
POLL_SECONDS = 0.25
LIMIT = 2 * FAILOVER_SECONDS + POLL_SECONDS


def check():
    chance = random.Random(CHOSEN.seed)
    with local_world(CHOSEN.shards, look_each=0.2) as world:
        fleet = Fleet(world, chance)
        times = []
        for _ in range(CHOSEN.kills):
            fleet.settle(CHOSEN.processes)
            fleet.seconds_until_read(time.time())
            # At any moment between two renewals.
            fleet.pass_time(chance.uniform(0, FAILOVER_SECONDS))
            killed_at = fleet.kill().killed_at
            seconds = fleet.seconds_until_read(killed_at)
            fleet.tell(f"all shards are read again after {seconds:.2f} s")
            times.append(seconds)
        fleet.settle(CHOSEN.processes)
        world.wait_until_all_stored()
        faults = fleet.end()
        history = History(world, fleet.probes)
        spread = f"{min(times):.2f}, {statistics.median(times):.2f}, {max(times):.2f} s"
        fleet.report(history, **{"read again after, least, median and most": spread})
        faults += [f"read again only after {seconds:.2f} s" for seconds in times if seconds >= LIMIT]
        faults += history.faults()
        faults += fleet.faults()
        judge(world, faults)


check()
