"""A stream, a lease table and the consumers of a check."""

import contextlib
import time

from aws_kinesis_agg.aggregator import RecordAggregator

import readers
from expect import expect, wait_for
from leases import END, START, LeaseTable
from local import LOGS, client, kinesis_local
from records import Delivery, Position, digest


def data(key, payloads):
    """The payload, or an aggregated record of several, made by software of others."""
    if len(payloads) == 1:
        return payloads[0]
    aggregator = RecordAggregator()
    for payload in payloads:
        aggregator.add_user_record(key, payload)
    return aggregator.clear_and_get().get_contents()[2]


class World:
    """Kinesis and DynamoDB on loopback, and what was put into the stream."""

    stream = "orders"
    table = "probe-orders"

    def __init__(self, folder, kinesis_url, dynamodb_url, look_each):
        self.folder, self.kinesis_url, self.dynamodb_url = folder, kinesis_url, dynamodb_url
        self.kinesis = client("kinesis", kinesis_url)
        self.dynamodb = client("dynamodb", dynamodb_url)
        self.leases = LeaseTable(self.dynamodb, self.table, look_each)
        self.put = []  # a Delivery for each record, as it has to come
        self.put_at = {}  # when, in seconds since 1970
        self.last_put = {}  # by shard
        self.processes = []
        self._numbers = {}

    # Consumers

    def probe(self, **options):
        return self._started(readers.start_probe, options)

    def java(self, **options):
        return self._started(readers.start_java, options)

    def _started(self, start, options):
        process = start(self, len(self.processes) + 1, **options)
        self.processes.append(process)
        return process

    # The stream

    def put_records(self, count, keys=20):
        """Puts records whose keys take turns, each with the next number of its key."""
        keys = [f"key-{turn % keys}" for turn in range(count)]
        for begin in range(0, count, 500):
            self.put_users([(key, [self.next_payload(key)]) for key in keys[begin : begin + 500]])

    def next_payload(self, key):
        """A payload with the next number of the key."""
        number = self._numbers[key] = self._numbers.get(key, -1) + 1
        return f"{key} {number}".encode()

    def put_users(self, users, hash_keys=()):
        """Puts pairs of a key and its payloads: one payload as a record, several as an aggregated one."""
        entries = [{"PartitionKey": key, "Data": data(key, payloads)} for key, payloads in users]
        for entry, hash_key in zip(entries, hash_keys):
            entry["ExplicitHashKey"] = str(hash_key)
        answer = self.kinesis.put_records(StreamName=self.stream, Records=entries)
        expect(answer["FailedRecordCount"] == 0, f"puts failed: {answer}")
        for (key, payloads), result in zip(users, answer["Records"]):
            for sub, payload in enumerate(payloads):
                self._was_put(result, sub, key, payload)

    def put_for(self, seconds):
        """Puts 200 records per second."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.put_records(20)
            time.sleep(0.1)

    def put_to_each_shard(self):
        """Puts a record to each open shard, and returns them."""
        shards, before = list(self.open_shards().items()), len(self.put)
        for begin in range(0, len(shards), 500):
            some = shards[begin : begin + 500]
            users = [(f"of-{shard}", [self.next_payload(f"of-{shard}")]) for shard, _ in some]
            self.put_users(users, [first for _, (first, _) in some])
        return self.put[before:]

    def put_aggregate(self, aggregate, users):
        """Puts an aggregated record that holds these pairs of key and payload."""
        key, _, data = aggregate
        result = self.kinesis.put_record(StreamName=self.stream, PartitionKey=key, Data=data)
        for sub, (user_key, payload) in enumerate(users):
            self._was_put(result, sub, user_key, payload)

    def _was_put(self, result, sub, key, payload):
        position = Position(int(result["SequenceNumber"]), sub)
        record = Delivery(result["ShardId"], position, key, digest(payload))
        self.put_at[record] = time.time()
        self.last_put[record.shard] = position
        self.put.append(record)

    def split(self, shard):
        """Splits a shard in the middle."""
        first, last = map(int, self.hash_range(shard))
        middle = (first + last + 1) // 2
        self.kinesis.split_shard(StreamName=self.stream, ShardToSplit=shard, NewStartingHashKey=str(middle))
        return self._children(shard)

    def merge(self, one, other):
        self.kinesis.merge_shards(StreamName=self.stream, ShardToMerge=one, AdjacentShardToMerge=other)
        return self._children(one)[0]

    def hash_range(self, shard):
        bounds = self.shards()[shard]["HashKeyRange"]
        return bounds["StartingHashKey"], bounds["EndingHashKey"]

    def open_shards(self):
        """Their first and last hash keys by their ids, in the order of their hash keys."""
        is_open = lambda shard: "EndingSequenceNumber" not in shard["SequenceNumberRange"]
        bounds = {name: shard["HashKeyRange"] for name, shard in self.shards().items() if is_open(shard)}
        keys = {name: (int(b["StartingHashKey"]), int(b["EndingHashKey"])) for name, b in bounds.items()}
        return dict(sorted(keys.items(), key=lambda item: item[1]))

    def shards(self):
        return {shard["ShardId"]: shard for shard in self.kinesis.list_shards(StreamName=self.stream)["Shards"]}

    def _children(self, parent):
        def children():
            status = self.kinesis.describe_stream_summary(StreamName=self.stream)
            if status["StreamDescriptionSummary"]["StreamStatus"] != "ACTIVE":
                return []
            parents = ("ParentShardId", "AdjacentParentShardId")
            return sorted(name for name, shard in self.shards().items() if parent in map(shard.get, parents))

        return wait_for(f"children of {parent}", children)

    # Progress

    def behind(self, rows):
        """The records behind the stored checkpoints: what whoever comes next has to get."""
        position = self._positions(rows)
        return [record for record in self.put if record.position > position.get(record.shard, START)]

    def _positions(self, rows):
        return dict.fromkeys(self.leases.finished, END) | {shard: lease.position for shard, lease in rows.items()}

    def wait_until_all_stored(self, seconds=90):
        """Waits until the last record of each shard is behind no stored checkpoint."""

        def are_stored():
            position = self._positions(self.leases.rows())
            return all(position.get(shard, START) >= last for shard, last in list(self.last_put.items()))

        wait_for("the checkpoints of all that was put", are_stored, seconds)

    def wait_until_stored(self, left=0, seconds=90):
        """Waits until only so many records are behind the stored checkpoints."""
        what = f"{left} of {len(self.put)} records behind the checkpoints"
        wait_for(what, lambda: len(self.behind(self.leases.rows())) == left, seconds)

    def close(self):
        for process in self.processes:
            process.discard()
        self.leases.abandon()


@contextlib.contextmanager
def local_world(shards, look_each=0.03):
    """Kinesis and DynamoDB of kinesis-local. The lease table is looked at each so many seconds."""
    with kinesis_local("--stream", f"{World.stream}:{shards}") as local:
        with world_at(local.kinesis, local.dynamodb, look_each) as world:
            yield world


@contextlib.contextmanager
def world_at(kinesis_url, dynamodb_url, look_each=0.03):
    """A world at these addresses. At the end of the check, what the watch over the lease table saw counts, too."""
    world = World(LOGS, kinesis_url, dynamodb_url, look_each)
    try:
        yield world
        world.leases.close()
    finally:
        world.close()
