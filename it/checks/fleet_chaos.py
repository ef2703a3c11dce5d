"""A fleet is killed, paused, stopped, started and resharded at random. Nothing is lost, and all comes to rest."""

import random
import time

from fleet import Fleet, arguments, expect_steady, judge
from history import History
from puts import SteadyPuts, even_keys
from world import local_world

CHOSEN = arguments(minutes=2.0, processes=4, shards=16)


def disturb(fleet, world, chance):
    """Does something to the fleet that can be done now."""
    live, awake, shards = len(fleet.live()), len(fleet.awake()), len(world.open_shards())
    deeds = [
        (fleet.start, 3 if live < CHOSEN.processes else 1, live < CHOSEN.processes + 2),
        (fleet.kill, 3, live > 2),
        (fleet.pause, 3, awake > 1),
        (fleet.stop, 3, live > 2 and awake > 1),
        (fleet.split, 2, shards < 2 * CHOSEN.shards),
        (fleet.merge, 2, shards > CHOSEN.shards // 2),
    ]
    possible = [(deed, weight) for deed, weight, is_possible in deeds if is_possible]
    [deed] = chance.choices([deed for deed, _ in possible], [weight for _, weight in possible])
    deed()


def check():
    chance = random.Random(CHOSEN.seed)
    with local_world(CHOSEN.shards, look_each=0.2) as world:
        fleet = Fleet(world, chance)
        puts = SteadyPuts(world, even_keys(4 * CHOSEN.shards), random.Random(CHOSEN.seed))
        for _ in range(CHOSEN.processes):
            fleet.start()
        until = time.monotonic() + 60 * CHOSEN.minutes
        fleet.pass_time(8)
        while time.monotonic() < until:
            disturb(fleet, world, chance)
            fleet.pass_time(chance.uniform(0.5, 5))

        seconds = fleet.settle(CHOSEN.processes)
        steady = expect_steady(world, fleet)
        puts.stop()
        world.wait_until_all_stored()
        faults = fleet.end()

        history = History(world, fleet.probes)
        crashes = [(former, again) for former, again in history.repeats if history.was_killed(former, again)]
        fleet.report(
            history,
            **{
                "repeats after kills": len(crashes),
                "repeats after pauses and losses": len(history.repeats) - len(crashes),
                "even shares after": f"{seconds:.1f} s",
                "longest silence": f"{history.longest_silence()[0]:.2f} s",
                "rows cleaned up": len(world.leases.finished - world.leases.rows().keys()),
            },
        )
        faults += history.faults()
        faults += fleet.faults()
        faults += [
            f"in one second, {shard} came to {names}" for shard, names in history.shared_seconds(*steady).items()
        ]
        faults += closed_and_unfinished(world)
        judge(world, faults)


def closed_and_unfinished(world):
    rows = world.leases.rows()
    for shard in world.shards().keys() - world.open_shards().keys():
        if shard in rows and not (rows[shard].ended and rows[shard].children):
            yield f"{shard} is closed, and its row is {rows[shard].item}"
        if shard not in rows and shard not in world.leases.finished:
            yield f"{shard} is closed, and had no row"


check()
