"""A stream, a lease table and the consumers of a check."""

import contextlib
import time

import readers
from expect import expect, wait_for
from leases import START, LeaseTable
from local import LOGS, client, kinesis_local
from records import Delivery, Position, digest


class World:
    """Kinesis and DynamoDB on loopback, and what was put into the stream."""

    stream = "orders"
    table = "probe-orders"

    def __init__(self, folder, kinesis_url, dynamodb_url):
        self.folder, self.kinesis_url, self.dynamodb_url = folder, kinesis_url, dynamodb_url
        self.kinesis = client("kinesis", kinesis_url)
        self.dynamodb = client("dynamodb", dynamodb_url)
        self.leases = LeaseTable(self.dynamodb, self.table)
        self.put = []  # a Delivery for each record, as it has to come
        self._processes = []
        self._numbers = {}

    # Consumers

    def probe(self, **options):
        return self._started(readers.start_probe, options)

    def java(self, **options):
        return self._started(readers.start_java, options)

    def _started(self, start, options):
        process = start(self, len(self._processes) + 1, **options)
        self._processes.append(process)
        return process

    # The stream

    def put_records(self, count, keys=20):
        """Puts records whose keys take turns, each with the next number of its key."""
        entries = []
        for turn in range(count):
            key = f"key-{turn % keys}"
            number = self._numbers[key] = self._numbers.get(key, -1) + 1
            entries.append({"PartitionKey": key, "Data": f"{key} {number}".encode()})
        for begin in range(0, count, 500):
            some = entries[begin : begin + 500]
            answer = self.kinesis.put_records(StreamName=self.stream, Records=some)
            expect(answer["FailedRecordCount"] == 0, f"puts failed: {answer}")
            for entry, result in zip(some, answer["Records"]):
                self._was_put(result, 0, entry["PartitionKey"], entry["Data"])

    def put_for(self, seconds):
        """Puts 200 records per second."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.put_records(20)
            time.sleep(0.1)

    def put_aggregate(self, aggregate, users):
        """Puts an aggregated record that holds these pairs of key and payload."""
        key, _, data = aggregate
        result = self.kinesis.put_record(StreamName=self.stream, PartitionKey=key, Data=data)
        for sub, (user_key, payload) in enumerate(users):
            self._was_put(result, sub, user_key, payload)

    def _was_put(self, result, sub, key, payload):
        position = Position(int(result["SequenceNumber"]), sub)
        self.put.append(Delivery(result["ShardId"], position, key, digest(payload)))

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
        bounds = self._shards()[shard]["HashKeyRange"]
        return bounds["StartingHashKey"], bounds["EndingHashKey"]

    def _shards(self):
        return {shard["ShardId"]: shard for shard in self.kinesis.list_shards(StreamName=self.stream)["Shards"]}

    def _children(self, parent):
        def children():
            status = self.kinesis.describe_stream_summary(StreamName=self.stream)
            if status["StreamDescriptionSummary"]["StreamStatus"] != "ACTIVE":
                return []
            parents = ("ParentShardId", "AdjacentParentShardId")
            return sorted(name for name, shard in self._shards().items() if parent in map(shard.get, parents))

        return wait_for(f"children of {parent}", children)

    # Progress

    def behind(self, rows):
        """The records behind the stored checkpoints: what whoever comes next has to get."""
        position = {shard: lease.position for shard, lease in rows.items()}
        return [record for record in self.put if record.position > position.get(record.shard, START)]

    def wait_until_stored(self, left=0, seconds=90):
        """Waits until only so many records are behind the stored checkpoints."""
        what = f"{left} of {len(self.put)} records behind the checkpoints"
        wait_for(what, lambda: len(self.behind(self.leases.rows())) == left, seconds)

    def close(self):
        for process in self._processes:
            process.discard()
        self.leases.abandon()


@contextlib.contextmanager
def local_world(shards):
    """Kinesis and DynamoDB of kinesis-local."""
    with kinesis_local("--stream", f"{World.stream}:{shards}") as local:
        with world_at(local.kinesis, local.dynamodb) as world:
            yield world


@contextlib.contextmanager
def world_at(kinesis_url, dynamodb_url):
    """A world at these addresses. At the end of the check, what the watch over the lease table saw counts, too."""
    world = World(LOGS, kinesis_url, dynamodb_url)
    try:
        yield world
        world.leases.close()
    finally:
        world.close()
