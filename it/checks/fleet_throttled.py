"""The lease table is throttled to nothing for a while, then at random: the fleet recovers by itself."""

import random
import statistics
import time

from control import Control
from fleet import Fleet, arguments, expect_steady, judge
from history import History
from readers import FAILOVER_SECONDS
from puts import SteadyPuts, even_keys
from world import World, local_world

CHOSEN = arguments(minutes=1.0, processes=3, shards=12)
LIMIT = 2 * FAILOVER_SECONDS  # until all is read again
LONG = 5  # seconds, after which calls have to be fewer
WRITES = ("UpdateItem", "PutItem", "DeleteItem", "GetItem")  # and looks at a single row


def throttle(control, seconds, chance=1.0):
    """Throttles every call about the table."""
    control.add(
        [
            {"on": name, "table": World.table, "until_ms": int(1000 * seconds), "chance": chance, "do": "throttle"}
            for name in (*WRITES, "Scan")
        ]
    )


def count(control):
    return {name: control.calls(name) for name in (*WRITES, "Scan")}


def rates(control, fleet, seconds):
    """How many calls about the table are made in each second. Our own looks at it have to rest meanwhile."""
    totals = [sum(count(control).values())]
    for _ in range(int(seconds)):
        fleet.pass_time(1)
        totals.append(sum(count(control).values()))
    return [after - before for before, after in zip(totals, totals[1:])]


def check():
    chance = random.Random(CHOSEN.seed)
    with local_world(CHOSEN.shards, look_each=0.2) as world:
        control = Control(world.kinesis_url)
        fleet = Fleet(world, chance)
        faults, told = [], {}
        for _ in range(CHOSEN.processes):
            fleet.start()
        fleet.settle(CHOSEN.processes)
        puts = SteadyPuts(world, even_keys(4 * CHOSEN.shards), random.Random(CHOSEN.seed))
        fleet.pass_time(3)
        for name, seconds, share in [("2 s", 2, 1.0), ("7 s", 7, 1.0), ("at random", 60 * CHOSEN.minutes, 0.5)]:
            world.leases.is_watched = False
            usual = rates(control, fleet, 4)
            fleet.tell(f"throttled: {name}")
            throttle(control, seconds, share)
            meanwhile = rates(control, fleet, seconds)
            control.remove_faults()
            recovered = fleet.seconds_until_read(time.time())
            world.leases.is_watched = True
            fleet.tell(
                f"recovered after {recovered:.2f} s; calls in each second before: {usual}, meanwhile: {meanwhile}"
            )
            told[f"recovered after {name}"] = f"{recovered:.2f} s"
            told[f"calls in a second before and meanwhile, {name}"] = f"{statistics.mean(usual):.0f}, {meanwhile}"
            if seconds > LONG and statistics.mean(meanwhile[2:]) > statistics.mean(usual):
                faults.append(f"more calls while they are refused: {meanwhile} after {usual}")
            if recovered > LIMIT:
                faults.append(f"recovered from {name} only after {recovered:.2f} s")
            fleet.settle(CHOSEN.processes)
        steady = expect_steady(world, fleet)
        puts.stop()
        world.wait_until_all_stored()
        faults += fleet.end()

        history = History(world, fleet.probes)
        lost = sum(len(probe.events("lease-lost")) for probe in fleet.probes)
        fleet.report(
            history, **told, **{"leases lost": lost, "longest silence": f"{history.longest_silence()[0]:.2f} s"}
        )
        if fleet.counts["starts"] > CHOSEN.processes:
            faults.append("a process ended by itself")
        faults += history.faults(may_lose_leases=True)
        faults += fleet.faults()
        faults += [
            f"in one second, {shard} came to {names}" for shard, names in history.shared_seconds(*steady).items()
        ]
        judge(world, faults)


check()
