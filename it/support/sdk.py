"""Kinesis through boto3. Every reply and every error is held against the API reference."""

import contextlib

from botocore.exceptions import ClientError

import contract
from control import Control
from expect import Failed, expect
from local import LOGS, client, kinesis_local

LAST_KEY = 2**128 - 1
ARN = "arn:aws:kinesis:us-east-1:000000000000:stream/"


class Sdk:
    """A client, and how it names its streams."""

    def __init__(self, kinesis, by_arn, control):
        self.kinesis = kinesis
        self._by_arn, self._control = by_arn, control

    def named(self, stream):
        """The members of a request that name the stream."""
        return {"StreamARN": ARN + stream} if self._by_arn else {"StreamName": stream}

    def created(self, stream, shards=1):
        """Creates a stream, and gives the members that name it."""
        self.kinesis.create_stream(StreamName=stream, ShardCount=shards)
        self.kinesis.get_waiter("stream_exists").wait(StreamName=stream, WaiterConfig={"Delay": 1})
        return self.named(stream)

    def shards(self, stream, **options):
        """The shards by their ids."""
        return {shard["ShardId"]: shard for shard in self.kinesis.list_shards(**stream, **options)["Shards"]}

    def open_shards(self, stream):
        """The ids of the open shards, in the order of their hash keys."""
        shards = self.shards(stream, ShardFilter={"Type": "AT_LATEST"}).values()
        return [shard["ShardId"] for shard in sorted(shards, key=lambda shard: hash_keys(shard)[0])]

    def iterator(self, stream, shard, kind, **position):
        reply = self.kinesis.get_shard_iterator(**stream, ShardId=shard, ShardIteratorType=kind, **position)
        return reply["ShardIterator"]

    def read(self, iterator, limit=10_000):
        """All records from here on, and the last page: that of the shard's end, or the first without records."""
        records = []
        while True:
            page = self.kinesis.get_records(ShardIterator=iterator, Limit=limit)
            records += page["Records"]
            iterator = page.get("NextShardIterator")
            if not iterator or not page["Records"]:
                return records, page

    def put(self, stream, key, data=b"", **options):
        return self.kinesis.put_record(**stream, PartitionKey=key, Data=data, **options)

    @contextlib.contextmanager
    def fault(self, fault):
        """Sets a fault for a while."""
        self._control.add(fault)
        try:
            yield
        finally:
            self._control.remove_faults()


WAYS = ("by-name", "by-arn-under-tls")


@contextlib.contextmanager
def local_sdk(way, *options):
    """kinesis-local with nothing in it."""
    by_arn = WAYS.index(way)
    certificate = LOGS / "certificate.pem"
    with kinesis_local("--tls-port", "0", "--tls-cert-out", certificate, *options) as local:
        url = local.tls if by_arn else local.kinesis
        kinesis = client("kinesis", url, verify=str(certificate))
        contract.expect_kept(kinesis)
        yield Sdk(kinesis, by_arn, Control(local.kinesis))


def expect_refused(code, text, call, *arguments, **request):
    """The call is refused with this code and a message that has this text."""
    try:
        reply = call(*arguments, **request)
    except ClientError as error:
        told = error.response["Error"]
        expect(told["Code"] == code, f"{request} was refused with {told}, not with {code}")
        expect(text in told["Message"], f"{request} was refused with {told}, without {text!r}")
    else:
        raise Failed(f"{str(request)[:200]} was not refused with {code}: {reply}")


def hash_keys(shard):
    """The first and the last hash key of a shard."""
    bounds = shard["HashKeyRange"]
    return int(bounds["StartingHashKey"]), int(bounds["EndingHashKey"])


def expect_uniform(shards):
    """The shards have all hash keys, each one shard, and about as many."""
    ranges = sorted(map(hash_keys, shards))
    expect(ranges[0][0] == 0 and ranges[-1][1] == LAST_KEY, f"hash keys are without a shard: {ranges}")
    for (_, end), (start, _) in zip(ranges, ranges[1:]):
        expect(start == end + 1, f"hash keys are in no shard, or in two: {ranges}")
    sizes = [end - start + 1 for start, end in ranges]
    expect(max(sizes) - min(sizes) <= 10_000 * len(sizes), f"the shards are of different sizes: {ranges}")
