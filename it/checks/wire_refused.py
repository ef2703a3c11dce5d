"""Whatever the API reference does not allow in a request is refused, with the error and the member's name.

The requests are made from the reference itself: a good one for each operation, and from it one for each rule of each
member, which breaks this rule.
"""

from contract import MODEL
from expect import expect
from local import kinesis_local
from wire import Wire

STREAM = "orders"
ARN = f"arn:aws:kinesis:us-east-1:000000000000:stream/{STREAM}"
SHARD = "shardId-000000000000"
MIDDLE = str(2**127)
TAGS = {"team": "blue"}
KEY = {"EncryptionType": "KMS", "KeyId": "alias/aws/kinesis"}
BY_NAME = {"StreamName": STREAM}
BY_ARN = {"StreamARN": ARN}
METRICS = {"ShardLevelMetrics": ["IncomingBytes"]}

GOOD = {
    "AddTagsToStream": BY_NAME | {"Tags": TAGS},
    "CreateStream": {
        "StreamName": "other",
        "ShardCount": 1,
        "StreamModeDetails": {"StreamMode": "PROVISIONED"},
        "Tags": TAGS,
        "MaxRecordSizeInKiB": 1024,
        "RecordDistributionStrategy": "USER_PARTITION_KEY",
    },
    "DecreaseStreamRetentionPeriod": BY_NAME | {"RetentionPeriodHours": 24},
    "DeleteResourcePolicy": {"ResourceARN": ARN},
    "DeleteStream": BY_ARN,
    "DeregisterStreamConsumer": BY_ARN | {"ConsumerName": "radar"},
    "DescribeAccountSettings": {},
    "DescribeLimits": {},
    "DescribeStream": BY_NAME | {"Limit": 1, "ExclusiveStartShardId": SHARD},
    "DescribeStreamConsumer": {"ConsumerARN": f"{ARN}/consumer/radar:1"},
    "DescribeStreamSummary": BY_ARN,
    "DisableEnhancedMonitoring": BY_NAME | METRICS,
    "EnableEnhancedMonitoring": BY_NAME | METRICS,
    "GetRecords": BY_ARN | {"ShardIterator": "x", "Limit": 1},
    "GetResourcePolicy": {"ResourceARN": ARN},
    "GetShardIterator": BY_NAME
    | {"ShardId": SHARD, "ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": "1"},
    "IncreaseStreamRetentionPeriod": BY_NAME | {"RetentionPeriodHours": 25},
    "ListShards": BY_NAME
    | {"MaxResults": 1, "ExclusiveStartShardId": SHARD, "ShardFilter": {"Type": "AFTER_SHARD_ID", "ShardId": SHARD}},
    "ListStreamConsumers": BY_ARN | {"MaxResults": 1, "NextToken": "x"},
    "ListStreams": {"Limit": 1, "ExclusiveStartStreamName": "a", "NextToken": "x"},
    "ListTagsForResource": {"ResourceARN": ARN},
    "ListTagsForStream": BY_NAME | {"ExclusiveStartTagKey": "a", "Limit": 1},
    "MergeShards": BY_NAME | {"ShardToMerge": SHARD, "AdjacentShardToMerge": SHARD},
    "PutRecord": BY_NAME
    | {"Data": b"", "PartitionKey": "a", "ExplicitHashKey": "0", "SequenceNumberForOrdering": "1"},
    "PutRecords": BY_NAME | {"Records": [{"Data": b"", "PartitionKey": "a", "ExplicitHashKey": "0"}]},
    "PutResourcePolicy": {"ResourceARN": ARN, "Policy": "{}"},
    "RegisterStreamConsumer": BY_ARN | {"ConsumerName": "radar", "Tags": TAGS},
    "RemoveTagsFromStream": BY_NAME | {"TagKeys": ["team"]},
    "SplitShard": BY_NAME | {"ShardToSplit": SHARD, "NewStartingHashKey": MIDDLE},
    "StartStreamEncryption": BY_NAME | KEY,
    "StopStreamEncryption": BY_NAME | KEY,
    "SubscribeToShard": {
        "ConsumerARN": f"{ARN}/consumer/radar:1",
        "ShardId": SHARD,
        "StartingPosition": {"Type": "AT_SEQUENCE_NUMBER", "SequenceNumber": "1"},
    },
    "TagResource": {"ResourceARN": ARN, "Tags": TAGS},
    "UntagResource": {"ResourceARN": ARN, "TagKeys": ["team"]},
    "UpdateMaxRecordSize": BY_ARN | {"MaxRecordSizeInKiB": 1024},
    "UpdateShardCount": BY_NAME | {"TargetShardCount": 1, "ScalingType": "UNIFORM_SCALING"},
    "UpdateStreamMode": BY_ARN | {"StreamModeDetails": {"StreamMode": "PROVISIONED"}},
    "UpdateStreamRecordDistributionStrategy": BY_ARN | {"RecordDistributionStrategy": "USER_PARTITION_KEY"},
}

# An odd value of another type than the member's.
OTHER_TYPE = {"string": 5, "integer": "five", "structure": "x", "list": "x", "map": "x", "blob": 5, "boolean": "x"}


def broken(shape, value, path):
    """Each way to break a rule of the reference in this value: the new value, the member and the error."""
    rules, kind = shape.metadata, shape.type_name
    yield OTHER_TYPE[kind], path, "SerializationException"
    if kind == "string":
        if rules.get("min"):
            yield "", path, "ValidationException"
        if "max" in rules:
            yield "0" * (rules["max"] + 1), path, "ValidationException"
        if "pattern" in rules:
            yield "not so", path, "ValidationException"
        if "enum" in rules:
            yield "NONSENSE", path, "ValidationException"
    elif kind == "integer":
        if "min" in rules:
            yield rules["min"] - 1, path, "ValidationException"
        if "max" in rules:
            yield rules["max"] + 1, path, "ValidationException"
    elif kind == "list":
        if rules.get("min"):
            yield [], path, "ValidationException"
        if "max" in rules:
            yield value * (rules["max"] + 1), path, "ValidationException"
        item = f"{path}.1.member" if shape.member.type_name == "structure" else path
        for other, member, error in broken(shape.member, value[0], item):
            yield [other], member, error
    elif kind == "map":
        if rules.get("min"):
            yield {}, path, "ValidationException"
        if "max" in rules:
            yield {f"key {number}": "" for number in range(rules["max"] + 1)}, path, "ValidationException"
        [(key, text)] = value.items()
        for other, _, error in broken(shape.key, key, path):
            if isinstance(other, str):
                yield {other: text}, path, error
        for other, _, error in broken(shape.value, text, path):
            yield {key: other}, path, error
    elif kind == "structure":
        for name in shape.required_members:
            rest = {other: value[other] for other in value if other != name}
            yield rest, member_path(path, name), "ValidationException"
        for name in value:
            for other, member, error in broken(shape.members[name], value[name], member_path(path, name)):
                yield value | {name: other}, member, error


def member_path(path, name):
    """The path of a member as the service tells it."""
    name = name[0].lower() + name[1:]
    return f"{path}.{name}" if path else name


def served(wire):
    return {name for name in MODEL.operation_names if wire.call(name, {}).code != "UnknownOperationException"}


def check():
    with kinesis_local("--stream", f"{STREAM}:1") as local, Wire(local.kinesis) as wire:
        expect(served(wire) == GOOD.keys(), f"what is served and not checked: {served(wire) ^ GOOD.keys()}")
        faults, count = [], 0
        for operation, good in GOOD.items():
            shape = MODEL.operation_model(operation).input_shape
            expect(all(name in shape.members for name in good), f"{operation} does not take {good}")
            for request, member, error in broken(shape, good, ""):
                reply, count = wire.call(operation, request), count + 1
                told = member in (reply.message or "") or error == "SerializationException"
                if reply.status != 400 or reply.code != error or not told:
                    answer = f"{reply.status} {str(reply.body)[:200]}"
                    faults.append(f"{operation}: {member}: {str(request)[:150]}: {answer}")
        print(*faults, sep="\n")
        print(f"{count} requests")
        expect(not faults, f"{len(faults)} of {count} requests were not refused as they should")


check()
