"""What a fleet delivered, by all of its processes together, in the order of time."""

from collections import defaultdict
from dataclasses import dataclass

from leases import START
from readers import FAILOVER_SECONDS
from records import Delivery

# Before a process stands still, in seconds, it may have delivered what was not stored yet, and after that what it had
# under way.
AFTERMATH = 3


@dataclass(frozen=True)
class Told:
    """A delivery."""

    time: float
    reader: object
    record: Delivery

    def __str__(self):
        position = self.record.position
        return f"{self.reader.name} {self.record.shard} {position.sequence}/{position.sub} at {self.time:.3f}"


class History:
    def __init__(self, world, readers):
        self._world = world
        told = [
            Told(line["time"], reader, Delivery.of(line)) for reader in readers for line in reader.events("delivery")
        ]
        self.told = sorted(told, key=lambda told: told.time)  # keeps the order of each process
        starts = [
            (line["time"], reader, line["shard"]) for reader in readers for line in reader.events("shard-started")
        ]
        self.starts = sorted(starts, key=lambda start: start[0])
        self._losses = defaultdict(list)
        for reader in readers:
            for line in reader.events("lease-lost"):
                self._losses[reader, line["shard"]].append(line["time"])
        self.first, self.repeats = {}, []
        last = {}
        for index, told in enumerate(self.told):
            self.first.setdefault(told.record, (index, told))
            if told.record in last:
                self.repeats.append((last[told.record], told))
            last[told.record] = told

    def faults(self, may_lose_leases=None):
        """What no fleet may do, whatever is done to it.

        Where leases may be lost, records come again after that. If nobody says, they may where calls took so long that
        leases expired.
        """
        if may_lose_leases is None:
            may_lose_leases = self._world.leases.slowest > FAILOVER_SECONDS / 3
        put = self._world.put
        lost = [record for record in put if record not in self.first]
        if lost:
            yield f"{len(lost)} of {len(put)} records were delivered by nobody, first {lost[0]}"
        if len(self.first) > len(put) - len(lost):
            yield "records were delivered that were never put"
        yield from self._keys_out_of_order()
        yield from self._repeats_without_reason(may_lose_leases)
        yield from self._repeats_of_what_was_stored()
        yield from self._deliveries_after_another()

    def _keys_out_of_order(self):
        before = {}
        for record in self._world.put:
            if record in self.first:
                now = self.first[record]
                former = before.get(record.key)
                # Processes that deliver in the same millisecond cannot be told apart.
                if (
                    former
                    and now[0] < former[0]
                    and (now[1].reader is former[1].reader or now[1].time < former[1].time)
                ):
                    yield f"{record.key} came out of order: {now[1]} before {former[1]}"
                before[record.key] = now

    def _repeats_without_reason(self, may_lose_leases):
        for former, again in self.repeats:
            losses = self._losses[former.reader, former.record.shard] if may_lose_leases else []
            is_lost = any(former.time <= time <= again.time for time in losses)
            if not self.was_killed(former, again) and not is_lost and not self.had_stood_still(former, again):
                yield f"delivered again without a reason: {former} then {again}"

    def was_killed(self, former, again):
        """Whether the former one was killed before the record came again."""
        killed_at = former.reader.killed_at
        return killed_at is not None and killed_at <= again.time

    def had_stood_still(self, former, again):
        """Whether one of both was paused around the time between them."""
        pauses = {*map(tuple, former.reader.pauses), *map(tuple, again.reader.pauses)}
        return any(begin <= again.time and end >= former.time - AFTERMATH for begin, end in pauses)

    def _repeats_of_what_was_stored(self):
        """What comes again lies behind the checkpoint that was stored before its reader began."""
        began = {}
        for time, reader, shard in self.starts:
            began.setdefault((reader, shard), []).append(time)
        for _, again in self.repeats:
            shard = again.record.shard
            since = max((time for time in began[again.reader, shard] if time <= again.time), default=0)
            stored = [position for time, position in self._world.leases.stored[shard] if time < since]
            if again.record.position <= max(stored, default=START):
                yield f"delivered again though it was stored before: {again}"

    def _deliveries_after_another(self):
        """Once another process has begun with a shard, the former one is silent, unless it starts the shard again."""
        started = defaultdict(list)
        for time, reader, shard in self.starts:
            started[reader, shard].append(time)
        current, last = {}, {}
        for told in self.told:
            shard = told.record.shard
            owner = current.setdefault(shard, told.reader)
            if told.reader is not owner:
                former = last.get((shard, told.reader))
                is_anew = former is None or any(
                    former.time <= time <= told.time for time in started[told.reader, shard]
                )
                if is_anew:
                    current[shard] = told.reader
                elif not self.had_stood_still(former, told):
                    yield f"delivered though another had begun: {told}"
            last[shard, told.reader] = told

    def moves(self):
        """How often a shard was started that had been started before."""
        return len(self.starts) - len({shard for _, _, shard in self.starts})

    def longest_silence(self):
        """The longest time in which a key had a record to deliver, and none came: seconds, key, end."""
        longest, last = (0, None, None), {}
        for record in self._world.put:
            if record in self.first:
                time = self.first[record][1].time
                since = max(last.get(record.key, 0), self._world.put_at[record])
                longest = max(longest, (time - since, record.key, time), key=lambda silence: silence[0])
                last[record.key] = max(time, last.get(record.key, 0))
        return longest

    def shared_seconds(self, begin, end):
        """The shards that two processes delivered of in the same second."""
        readers = defaultdict(set)
        for told in self.told:
            if begin <= told.time <= end:
                readers[told.record.shard, int(told.time)].add(told.reader.name)
        return {shard: names for (shard, _), names in readers.items() if len(names) > 1}
