"""A fleet of probes, and what is done to it."""

import argparse
import random
import time

from expect import Failed, expect, wait_for
from readers import FAILOVER_SECONDS, QUICK

# How long a fleet may take to share its shards evenly after the last change.
EVEN_SECONDS = 45


def arguments(**defaults):
    """What a check is called with: --seed, and these numbers with their defaults."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    chosen = parser.parse_args()
    print(f"arguments: {vars(chosen)}", flush=True)
    return chosen


class Fleet:
    """The probes of one application."""

    def __init__(self, world, chance, settings=QUICK):
        self._world, self._chance, self._settings = world, chance, settings
        self.probes = []
        self.counts = {}
        self._resume_at = {}
        self._begin = time.monotonic()

    def tell(self, what):
        print(f"{time.time():.3f} {time.monotonic() - self._begin:7.2f} {what}", flush=True)

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    # What may be done to it

    def start(self):
        probe = self._world.probe(settings=self._settings)
        self.probes.append(probe)
        self.count("starts")
        self.tell(f"{probe.name} starts")
        return probe

    def stop(self):
        probe = self._chance.choice(self.awake())
        self.count("stops")
        self.tell(f"{probe.name} is asked to stop")
        probe.ask_to_stop()

    def kill(self):
        probe = self._chance.choice(self.live())
        self._resume_at.pop(probe, None)
        self.count("kills")
        self.tell(f"{probe.name} is killed")
        probe.kill()
        return probe

    def pause(self, least=1, most=30):
        probe, seconds = self._chance.choice(self.awake()), self._chance.uniform(least, most)
        self.count("pauses")
        self.tell(f"{probe.name} stands still for {seconds:.1f} s")
        probe.pause()
        self._resume_at[probe] = time.monotonic() + seconds

    def split(self):
        shards = self._world.open_shards()
        # Not so small that it has no key.
        wide = max(last - first for first, last in shards.values()) // 2
        shard = self._chance.choice([name for name, (first, last) in shards.items() if last - first >= wide])
        self.count("splits")
        self.tell(f"{shard} is split into {self._world.split(shard)}")

    def merge(self):
        shards = list(self._world.open_shards())
        at = self._chance.randrange(len(shards) - 1)
        one, other = shards[at : at + 2]
        self.count("merges")
        self.tell(f"{one} and {other} are merged into {self._world.merge(one, other)}")

    # Its members

    def live(self):
        return [probe for probe in self.probes if probe.running() and not probe.is_leaving]

    def awake(self):
        return [probe for probe in self.live() if probe not in self._resume_at]

    def pass_time(self, seconds):
        """Lets time pass, and those that stand still go on when it is time."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for probe, at in list(self._resume_at.items()):
                if at <= time.monotonic():
                    self.resume(probe)
            time.sleep(0.05)

    def resume(self, probe):
        del self._resume_at[probe]
        self.tell(f"{probe.name} goes on")
        probe.resume()

    def settle(self, processes):
        """Lets all go on and end that are to, makes them as many as they should be, and waits for even shares."""
        for probe in list(self._resume_at):
            self.resume(probe)
        while len(self.live()) < processes:
            self.start()
        begin = time.monotonic()
        leaving = lambda: [probe for probe in self.probes if probe.is_leaving and probe.running()]
        wait_for("the stops", lambda: not leaving())
        wait_for("even shares", self.is_even, EVEN_SECONDS)
        seconds = time.monotonic() - begin
        self.tell(f"even shares after {seconds:.1f} s: {self.shares()}")
        return seconds

    def seconds_until_read(self, since):
        """Puts a record to each shard, and waits until all are delivered. Returns how long after `since` that was."""
        records = self._world.put_to_each_shard()
        wanted, seen = {(record.shard, str(record.position.sequence)) for record in records}, {}

        def all_seen():
            for probe in self.live():
                # The newest are enough, and quick to look through.
                for line in reversed(probe.lines):
                    if line["time"] < since:
                        break
                    if line["event"] == "delivery":
                        seen[line["shard"], line["seq"]] = line["time"]
            return wanted <= seen.keys()

        wait_for("a delivery of each shard", all_seen, 180)
        return max(seen[record] for record in wanted) - since

    def shares(self):
        owners = list(self._world.leases.owners().values())
        return {probe.name: owners.count(probe.name) for probe in self.live()} | {
            owner: owners.count(owner) for owner in owners
        }

    def is_even(self):
        """Whether each open shard has a live owner, and all have as many, within one."""
        owners, shares = self._world.leases.owners(), self.shares()
        names = {probe.name for probe in self.live()}
        return (
            owners.keys() == self._world.open_shards().keys()
            and shares.keys() == names
            and max(shares.values()) - min(shares.values()) <= 1
        )

    def end(self):
        """Asks all to stop, and says what was not in good order at any stop."""
        for probe in self.live():
            probe.ask_to_stop()
        faults = []
        for probe in self.probes:
            if probe.killed_at is None:
                code, stopped = probe.wait(), probe.events("stopped")
                if code != 0 and not probe.pauses:
                    faults.append(f"{probe.name} ended with {code}: {stopped}")
        return faults

    def faults(self):
        """What each process told that should not have happened."""
        for probe in self.probes:
            for line in probe.complaints():
                yield f"{probe.name} logged: {line[:300]}"
            for event in ("event-given-up", "gap", "aggregate-broken", "failure"):
                for line in probe.events(event):
                    yield f"{probe.name} told: {line}"

    def report(self, history, **more):
        told = {
            "records": len(self._world.put),
            "deliveries": len(history.told),
            "repeats": len(history.repeats),
            "lease moves": history.moves(),
            **self.counts,
            **more,
        }
        for what, figure in told.items():
            print(f"{what}: {figure}")


def expect_steady(world, fleet, seconds=5):
    """Each shard is read by one process, and no lease moves. Returns the time in which that was so."""
    time.sleep(2 * FAILOVER_SECONDS)
    owners, begin = world.leases.owners(), time.time()
    time.sleep(seconds)
    now = world.leases.owners()
    expect(
        now == owners, f"leases still move: {[(s, owners.get(s), now.get(s)) for s in now if owners.get(s) != now[s]]}"
    )
    expect(fleet.is_even(), f"the shares are not even any more: {fleet.shares()}")
    return begin, time.time()


def judge(world, faults):
    """Prints faults, and fails if there are any."""
    faults = list(dict.fromkeys(faults))
    for fault in faults[:100]:
        print(f"FAULT {fault}")
    # Where calls take as long as that, leases expire and shards wait for no fault of ours.
    slowest = f"{world.leases.slowest:.2f} s"
    print(f"slowest look at the lease table: {slowest}")
    if faults:
        raise Failed(
            f"{len(faults)} faults, the slowest look at the lease table took {slowest}, first fault: {faults[0]}"
        )
