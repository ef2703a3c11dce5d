"""The same requests in JSON and CBOR, over HTTP/1.1 and HTTP/2, get the same replies, errors and events.

In each form they go to a program of its own. What differs from one program to another (sequence numbers, iterators,
tokens, instants) is replaced by the order in which it came up.
"""

import datetime
import itertools
import re

from expect import expect
from local import kinesis_local
from wire import FORMS, INSTANTS, Wire

STREAM = "orders"
NAME = {"StreamName": STREAM}
ARN = f"arn:aws:kinesis:us-east-1:000000000000:stream/{STREAM}"
FIRST, SECOND = "shardId-000000000000", "shardId-000000000001"
AT_FIRST = NAME | {"ShardId": FIRST}
PAYLOAD = bytes(range(256))
KEY = {"EncryptionType": "KMS", "KeyId": "alias/aws/kinesis"}
YESTERDAY = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=1)
TOMORROW = YESTERDAY + datetime.timedelta(days=2)

# Operation and request. A function takes what it needs from the replies so far, the last of each operation.
CALLS = [
    ("CreateStream", NAME | {"ShardCount": 2, "Tags": {"team": "bläu", "empty": ""}}),
    ("CreateStream", NAME | {"ShardCount": 2}),
    ("CreateStream", {"StreamName": "own", "StreamModeDetails": {"StreamMode": "ON_DEMAND"}}),
    ("DescribeStream", NAME),
    ("DescribeStream", NAME | {"Limit": 1}),
    ("DescribeStreamSummary", {"StreamARN": ARN}),
    ("ListStreams", {"Limit": 1}),
    ("ListStreams", lambda seen: {"NextToken": seen["ListStreams"]["NextToken"]}),
    ("ListShards", NAME | {"MaxResults": 1}),
    ("ListShards", lambda seen: {"NextToken": seen["ListShards"]["NextToken"]}),
    ("ListShards", lambda seen: NAME | {"NextToken": "x"}),
    ("ListShards", NAME | {"ShardFilter": {"Type": "AT_TIMESTAMP", "Timestamp": YESTERDAY}}),
    ("ListShards", NAME | {"ShardFilter": {"Type": "FROM_TIMESTAMP", "Timestamp": YESTERDAY}}),
    ("ListShards", NAME | {"ShardFilter": {"Type": "AT_LATEST"}, "StreamCreationTimestamp": YESTERDAY}),
    ("PutRecord", NAME | {"PartitionKey": "a", "ExplicitHashKey": "0", "Data": PAYLOAD}),
    ("PutRecord", NAME | {"PartitionKey": "schlüssel \"\\\n", "ExplicitHashKey": "0", "Data": b""}),
    ("PutRecord", NAME | {"PartitionKey": "a", "ExplicitHashKey": str(2**128), "Data": b""}),
    ("PutRecord", NAME | {"PartitionKey": "a"}),
    ("PutRecord", NAME | {"PartitionKey": "a", "Data": bytes(1 << 21)}),
    ("PutRecords", NAME | {"Records": [{"PartitionKey": f"{number}", "Data": b"x"} for number in range(20)]}),
    ("PutRecords", NAME | {"Records": []}),
    ("GetShardIterator", AT_FIRST | {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": TOMORROW}),
    ("GetShardIterator", AT_FIRST | {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": "1"}),
    ("GetShardIterator", AT_FIRST | {"ShardIteratorType": "LATEST"}),
    ("GetRecords", lambda seen: seen["GetShardIterator"]),
    ("GetShardIterator", AT_FIRST | {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": YESTERDAY}),
    ("GetRecords", lambda seen: seen["GetShardIterator"] | {"Limit": 2}),
    ("GetRecords", lambda seen: {"ShardIterator": seen["GetRecords"]["NextShardIterator"]}),
    ("GetRecords", {"ShardIterator": "nonsense"}),
    ("StartStreamEncryption", NAME | KEY),
    ("PutRecord", NAME | {"PartitionKey": "a", "ExplicitHashKey": "0", "Data": b"hidden"}),
    ("GetRecords", lambda seen: {"ShardIterator": seen["GetRecords"]["NextShardIterator"]}),
    ("StopStreamEncryption", NAME | KEY),
    ("RegisterStreamConsumer", {"StreamARN": ARN, "ConsumerName": "radar"}),
    ("DescribeStreamConsumer", {"StreamARN": ARN, "ConsumerName": "radar"}),
    ("ListStreamConsumers", {"StreamARN": ARN}),
    ("AddTagsToStream", NAME | {"Tags": {"one": "1"}}),
    ("ListTagsForStream", NAME),
    ("TagResource", {"ResourceARN": ARN, "Tags": {"two": "2"}}),
    ("ListTagsForResource", {"ResourceARN": ARN}),
    ("RemoveTagsFromStream", NAME | {"TagKeys": ["one", "two"]}),
    ("PutResourcePolicy", {"ResourceARN": ARN, "Policy": '{"Version": "2012-10-17"}'}),
    ("GetResourcePolicy", {"ResourceARN": ARN}),
    ("EnableEnhancedMonitoring", NAME | {"ShardLevelMetrics": ["ALL"]}),
    ("DisableEnhancedMonitoring", NAME | {"ShardLevelMetrics": ["IncomingBytes"]}),
    ("IncreaseStreamRetentionPeriod", NAME | {"RetentionPeriodHours": 48}),
    ("DecreaseStreamRetentionPeriod", NAME | {"RetentionPeriodHours": 23}),
    ("SplitShard", NAME | {"ShardToSplit": FIRST, "NewStartingHashKey": str(2**126)}),
    ("SplitShard", NAME | {"ShardToSplit": FIRST, "NewStartingHashKey": str(2**126)}),
    ("MergeShards", NAME | {"ShardToMerge": "shardId-000000000003", "AdjacentShardToMerge": SECOND}),
    ("GetRecords", lambda seen: {"ShardIterator": seen["GetRecords"]["NextShardIterator"]}),
    ("UpdateShardCount", NAME | {"TargetShardCount": 4, "ScalingType": "UNIFORM_SCALING"}),
    ("UpdateShardCount", NAME | {"TargetShardCount": 40, "ScalingType": "UNIFORM_SCALING"}),
    ("ListShards", NAME),
    ("SubscribeToShard", lambda seen: subscription(seen, FIRST, "TRIM_HORIZON")),
    ("SubscribeToShard", lambda seen: subscription(seen, FIRST, "TRIM_HORIZON")),
    ("SubscribeToShard", lambda seen: subscription(seen, SECOND, "AT_TIMESTAMP", Timestamp=YESTERDAY)),
    ("SubscribeToShard", lambda seen: subscription(seen, SECOND, "AT_SEQUENCE_NUMBER", SequenceNumber="1")),
    ("SubscribeToShard", lambda seen: subscription(seen, "shardId-000000000099", "LATEST")),
    ("UpdateStreamMode", {"StreamARN": ARN, "StreamModeDetails": {"StreamMode": "ON_DEMAND"}}),
    ("DescribeLimits", {}),
    ("DescribeAccountSettings", {}),
    ("DeleteStream", NAME),
    ("DeleteStream", NAME | {"EnforceConsumerDeletion": True}),
    ("DescribeStream", NAME),
    ("NoSuchOperation", {}),
]

# Bodies that are not of the form, and of it without being a request.
ODD = {"Json": [b"", b"{", b"[]", b"5"], "Cbor": [b"", b"\xbf", b"\x80", b"\x05"]}

OPAQUE = {"NextToken", "ShardIterator", "NextShardIterator"}
LONG_NUMBER = re.compile(r"\d{50,}")
CONSUMER = re.compile(r"(?<=consumer/radar:)\d+")
INSTANT = re.compile(r"\d{10}\.\d{3}")


def subscription(seen, shard, kind, **start):
    arn = seen["RegisterStreamConsumer"]["Consumer"]["ConsumerARN"]
    return {"ConsumerARN": arn, "ShardId": shard, "StartingPosition": {"Type": kind} | start}


class Transcript:
    """What a form was answered, without what differs by its nature."""

    def __init__(self, wire, form):
        self._wire, self._form = wire, form
        self._numbers, self._counter = {}, itertools.count()
        self.lines = []
        self._play()

    def _play(self):
        seen = {}
        for operation, request in CALLS:
            request = request(seen) if callable(request) else request
            if operation == "SubscribeToShard":
                self._subscribe(request)
                continue
            reply = self._wire.call(operation, request)
            if reply.status == 200:
                seen[operation] = reply.body
            self._add(operation, reply.status, reply.body)
        for body in ODD[self._form.content.__name__]:
            reply = self._wire.send("PutRecord", body)
            self._add("PutRecord", reply.status, reply.code)

    def _subscribe(self, request):
        for event in self._wire.subscribe(request):
            if not isinstance(event, tuple):
                self._add("SubscribeToShard", event.status, event.body)
                return
            headers, payload = event
            expected = self._form.content.content_type
            expect(headers.pop(":content-type") == expected, f"an event is not {expected}")
            self._add("SubscribeToShard", headers, payload)

    def _add(self, operation, *answer):
        self.lines.append((operation, *map(self._plain, answer)))

    def _plain(self, value, member=None):
        if isinstance(value, dict):
            return {name: self._plain(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [self._plain(item) for item in value]
        if member in INSTANTS:
            return "an instant"
        if member in OPAQUE and isinstance(value, str):
            return member
        if member == "MillisBehindLatest":
            return value > 0
        if isinstance(value, str):
            text = LONG_NUMBER.sub(lambda number: self._number(number[0]), value)
            return INSTANT.sub("an instant", CONSUMER.sub("a consumer", text))
        return value

    def _number(self, number):
        if number not in self._numbers:
            self._numbers[number] = f"number {next(self._counter)}"
        return self._numbers[number]


def check():
    transcripts = {}
    for form in FORMS:
        with kinesis_local() as local, Wire(local.kinesis, form) as wire:
            transcripts[form] = Transcript(wire, form).lines
    first, *others = FORMS
    for line in transcripts[first]:
        print(*line)
    for form in others:
        for one, other in itertools.zip_longest(transcripts[first], transcripts[form]):
            expect(one == other, f"{first} was answered {one}, {form} {other}")


check()
