"""A fleet is changed in good order alone: no record comes twice, and no shard waits for long."""

import random
import time

from fleet import Fleet, arguments, expect_steady, judge
from history import History
from puts import SteadyPuts, even_keys
from world import local_world

CHOSEN = arguments(minutes=2.0, processes=4, shards=16)
LONGEST_SILENCE = 2  # seconds


def change(fleet, world, chance):
    live, shards = len(fleet.live()), len(world.open_shards())
    deeds = {
        fleet.start: live <= CHOSEN.processes,
        fleet.stop: live >= CHOSEN.processes,
        fleet.split: shards < 2 * CHOSEN.shards,
        fleet.merge: shards > CHOSEN.shards // 2,
    }
    chance.choice([deed for deed, is_possible in deeds.items() if is_possible])()


def check():
    chance = random.Random(CHOSEN.seed)
    with local_world(CHOSEN.shards, look_each=0.2) as world:
        fleet = Fleet(world, chance)
        for _ in range(CHOSEN.processes):
            fleet.start()
        fleet.settle(CHOSEN.processes)
        puts = SteadyPuts(world, even_keys(4 * CHOSEN.shards), random.Random(CHOSEN.seed))
        until = time.monotonic() + 60 * CHOSEN.minutes
        while time.monotonic() < until:
            change(fleet, world, chance)
            fleet.pass_time(chance.uniform(2, 8))

        seconds = fleet.settle(CHOSEN.processes)
        steady = expect_steady(world, fleet)
        puts.stop()
        world.wait_until_all_stored()
        faults = fleet.end()

        history = History(world, fleet.probes)
        silence, key, end = history.longest_silence()
        silences = {
            "even shares after": f"{seconds:.1f} s",
            "longest silence": f"{silence:.2f} s, {key} until {end:.3f}",
        }
        fleet.report(history, **silences)
        faults += [f"{again} came again after {former}" for former, again in history.repeats]
        if silence >= LONGEST_SILENCE:
            faults.append(f"{key} was silent for {silence:.2f} s until {end:.3f}")
        faults += history.faults()
        faults += fleet.faults()
        faults += [
            f"in one second, {shard} came to {names}" for shard, names in history.shared_seconds(*steady).items()
        ]
        faults += [f"{probe.name} lost {line}" for probe in fleet.probes for line in probe.events("lease-lost")]
        judge(world, faults)


check()
