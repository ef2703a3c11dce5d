"""The lease table, and what has to hold of it whoever writes."""

import threading
import time
from collections import defaultdict

from expect import Failed
from records import Position

START = Position(-1, 0)  # before every record
END = Position(2**200, 0)  # behind every record
SENTINELS = {"TRIM_HORIZON": START, "SHARD_END": END}

REQUIRED = {
    "leaseKey": "S",
    "leaseCounter": "N",
    "ownerSwitchesSinceCheckpoint": "N",
    "checkpoint": "S",
    "checkpointSubSequenceNumber": "N",
    "startingHashKey": "S",
    "endingHashKey": "S",
}
OPTIONAL = {
    "leaseOwner": "S",
    "parentShardId": "SS",
    "childShardIds": "SS",
    "throughputKBps": "N",
    "checkpointOwner": "S",
    "entityType": "S",
    # Of the library alone:
    "acquisitionToken": "S",
    "ofStream": "S",
    "handOverTo": "S",
    "handOverOffered": "BOOL",
    # Of the KCL alone:
    "pendingCheckpoint": "S",
    "pendingCheckpointSubSequenceNumber": "N",
    "pendingCheckpointState": "B",
}
PENDING = {name for name in OPTIONAL if name.startswith("pending")}
# These come and go; all other attributes stay for ever.
PASSING = {"leaseOwner", "acquisitionToken", "checkpointOwner", "handOverTo", "handOverOffered"} | PENDING


class Lease:
    """A row."""

    def __init__(self, item):
        self.item = item
        self.types = {name: next(iter(value)) for name, value in item.items()}
        values = {name: next(iter(value.values())) for name, value in item.items()}
        self.shard = values["leaseKey"]
        self.owner = values.get("leaseOwner")
        self.counter = int(values["leaseCounter"])
        self.parents = sorted(values.get("parentShardId", []))
        self.children = sorted(values.get("childShardIds", []))
        self.hash_range = (values.get("startingHashKey"), values.get("endingHashKey"))
        self.checkpoint = values["checkpoint"]
        sub = int(values["checkpointSubSequenceNumber"])
        self.position = SENTINELS.get(self.checkpoint) or Position(int(self.checkpoint), sub)

    @property
    def ended(self):
        return self.position == END

    def faults(self):
        """What is wrong with this row by itself."""
        for name, kind in REQUIRED.items():
            if self.types.get(name) != kind:
                yield f"{self.shard}: {name} is {self.types.get(name)}, not {kind}"
        for name, kind in self.types.items():
            if {**REQUIRED, **OPTIONAL}.get(name) != kind:
                yield f"{self.shard}: {name} of type {kind} is unknown"

    def faults_after(self, before):
        """What may not have become of the earlier row."""
        if self.counter < before.counter:
            yield f"{self.shard}: the counter went back from {before.counter} to {self.counter}"
        if self.position < before.position:
            yield f"{self.shard}: the checkpoint went back from {before.checkpoint} to {self.checkpoint}"
        handed_over = "checkpointOwner" in self.types  # by the leader of a KCL 3.x, who leaves the counter as it is
        if self.owner != before.owner and self.counter == before.counter and not handed_over:
            yield f"{self.shard}: the owner changed from {before.owner} to {self.owner}, and the counter did not"
        if self.hash_range != before.hash_range or self.parents != before.parents:
            yield f"{self.shard}: hash range or parents changed"
        for name in before.types.keys() - self.types.keys() - PASSING:
            yield f"{self.shard}: {name} is gone"


class LeaseTable:
    """The rows, and a watch over how they change."""

    def __init__(self, dynamodb, table, look_each=0.03):
        self._dynamodb, self._table, self._look_each = dynamodb, table, look_each
        self._before, self._faults = {}, []
        self.finished = set()  # shards whose rows were seen at their end; the row may be deleted then
        self.stored = defaultdict(list)  # by shard: since when each position is stored at the latest, and the position
        self.moves = []  # when, shard, former owner, owner
        self.slowest = 0  # seconds that a look at the table took
        self.is_watched = True
        self._stop = threading.Event()
        self._watch = threading.Thread(target=self._watching, daemon=True)
        self._watch.start()

    def rows(self):
        """The rows by shard; none before the table is there."""
        try:
            pages = list(self._dynamodb.get_paginator("scan").paginate(TableName=self._table, ConsistentRead=True))
        except self._dynamodb.exceptions.ResourceNotFoundException:
            return {}
        return {lease.shard: lease for page in pages for lease in map(Lease, page["Items"])}

    def owners(self):
        return {shard: lease.owner for shard, lease in self.rows().items() if not lease.ended}

    def _watching(self):
        while not self._stop.wait(self._look_each):
            if self.is_watched:
                self._look()

    def _look(self):
        begin = time.monotonic()
        rows = self.rows()
        self.slowest = max(self.slowest, time.monotonic() - begin)
        for shard, before in self._before.items():
            if shard in rows:
                self._faults.extend(rows[shard].faults_after(before))
            elif not before.ended:
                self._faults.append(f"{shard}: the row is gone")
        now = time.time()
        for shard, lease in rows.items():
            self._faults.extend(lease.faults())
            stored = self.stored[shard]
            if not stored or stored[-1][1] != lease.position:
                stored.append((now, lease.position))
            if lease.ended:
                self.finished.add(shard)
            former = self._before.get(shard, lease).owner
            if former != lease.owner:
                self.moves.append((now, shard, former, lease.owner))
        self._before = rows

    def close(self):
        """Ends the watch, and fails if something was seen that may not be."""
        self.abandon()
        self._look()
        if self._faults:
            raise Failed("lease table: " + "; ".join(dict.fromkeys(self._faults)))

    def abandon(self):
        self._stop.set()
        self._watch.join()
