"""Fan-out through boto3: consumers, and subscriptions from their start to the end of the shard."""

import datetime
import sys
import threading

from botocore.exceptions import EventStreamError

import contract
from expect import Failed, expect, wait_for
from sdk import ARN, LAST_KEY, expect_refused, local_sdk

STREAM = {"StreamARN": ARN + "orders"}
SHARD = "shardId-000000000000"
UNKNOWN, IN_USE = "ResourceNotFoundException", "ResourceInUseException"
EVENT = contract.MODEL.operation_model("SubscribeToShard").output_shape.members["EventStream"]


def registered(sdk, name):
    return sdk.kinesis.register_stream_consumer(**STREAM, ConsumerName=name)["Consumer"]


def consumers(sdk):
    kinesis = sdk.kinesis
    radar = registered(sdk, "radar")
    expect(radar["ConsumerStatus"] == "ACTIVE", f"a consumer: {radar}")
    expect_refused(IN_USE, "radar", registered, sdk, "radar")
    for named in ({"ConsumerARN": radar["ConsumerARN"]}, STREAM | {"ConsumerName": "radar"}):
        told = kinesis.describe_stream_consumer(**named)["ConsumerDescription"]
        expect(told == radar | STREAM, f"{named} is {told}")
    expect_refused("InvalidArgumentException", "", kinesis.describe_stream_consumer, ConsumerName="radar")
    expect_refused(UNKNOWN, "tower", kinesis.describe_stream_consumer, **STREAM, ConsumerName="tower")

    names = ["radar", *(f"tower-{number:02}" for number in range(19))]
    for name in names[1:]:
        registered(sdk, name)
    expect_refused("LimitExceededException", "20", registered, sdk, "one-too-many")
    pages = list(kinesis.get_paginator("list_stream_consumers").paginate(**STREAM, PaginationConfig={"PageSize": 8}))
    listed = [[consumer["ConsumerName"] for consumer in page["Consumers"]] for page in pages]
    expect(sum(listed, []) == names and list(map(len, listed)) == [8, 8, 4], f"pages of consumers: {listed}")
    for name in names[1:]:
        kinesis.deregister_stream_consumer(**STREAM, ConsumerName=name)
    kinesis.deregister_stream_consumer(ConsumerARN=radar["ConsumerARN"])
    expect_refused(UNKNOWN, "radar", kinesis.deregister_stream_consumer, ConsumerARN=radar["ConsumerARN"])
    again = registered(sdk, "radar")
    expect(again["ConsumerARN"] != radar["ConsumerARN"], "a consumer that was registered again has its old ARN")


def subscribe(sdk, consumer, kind, shard=SHARD, **position):
    start = {"Type": kind} | position
    reply = sdk.kinesis.subscribe_to_shard(ConsumerARN=consumer, ShardId=shard, StartingPosition=start)
    return reply["EventStream"]


def event(events):
    """The next event, which is one that the reference knows. Only the end of a shard has no continuation."""
    told = next(iter(events))
    [(kind, content)] = told.items()
    faults = list(contract.faults_of(EVENT.members[kind], content, kind))
    if content.get("ChildShards"):
        faults.remove(f"{kind} lacks ContinuationSequenceNumber")
    expect(not faults, "; ".join(faults))
    return content


def data(events, count):
    """The payloads of the next records, and the event with the last of them."""
    found = []
    while len(found) < count:
        content = event(events)
        found += [record["Data"].decode() for record in content["Records"]]
    return "".join(found), content


def subscriptions(sdk):
    sdk.created("orders")
    number = [sdk.put(STREAM, "a", f"{number}".encode())["SequenceNumber"] for number in range(4)]

    follower = registered(sdk, "follower")["ConsumerARN"]
    events = subscribe(sdk, follower, "TRIM_HORIZON")
    found, content = data(events, 4)
    expect(found == "0123" and content["MillisBehindLatest"] == 0, f"TRIM_HORIZON: {found}")
    expect(content["ContinuationSequenceNumber"] == number[3], f"where to go on: {content}")
    expect_refused(IN_USE, "active subscription", subscribe, sdk, follower, "TRIM_HORIZON")
    late = threading.Timer(0.2, sdk.put, [STREAM, "a", b"4"])
    late.start()
    found, content = data(events, 1)
    expect(found == "4", f"a record that came later: {found}")
    late.join()

    yesterday = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=1)
    places = [
        ("AT_SEQUENCE_NUMBER", {"SequenceNumber": number[2]}, "234"),
        ("AFTER_SEQUENCE_NUMBER", {"SequenceNumber": number[2]}, "34"),
        ("AT_TIMESTAMP", {"Timestamp": yesterday}, "01234"),
    ]
    for kind, position, expected in places:
        consumer = registered(sdk, kind)["ConsumerARN"]
        other = subscribe(sdk, consumer, kind, **position)
        found, _ = data(other, len(expected))
        expect(found == expected, f"{kind}: {found}")
        other.close()
    latest = subscribe(sdk, registered(sdk, "latest")["ConsumerARN"], "LATEST")
    sdk.put(STREAM, "a", b"5")
    expect(data(latest, 1)[0] == "5", "LATEST")

    sdk.kinesis.split_shard(**STREAM, ShardToSplit=SHARD, NewStartingHashKey=str(LAST_KEY // 2))
    for follows, left in ((events, "5"), (latest, "")):
        content = data(follows, len(left))[1] if left else None
        while not content or "ChildShards" not in content:
            content = event(follows)
        children = [(child["ShardId"], child["ParentShards"]) for child in content["ChildShards"]]
        expect(children == [(f"shardId-{n:012}", [SHARD]) for n in (1, 2)], f"the end of the shard: {content}")
        expect("ContinuationSequenceNumber" not in content, f"the end of the shard: {content}")
        expect(next(iter(follows), None) is None, "something came behind the end of the shard")


def refused(sdk):
    consumer = registered(sdk, "refused")["ConsumerARN"]
    invalid = "InvalidArgumentException"
    expect_refused(UNKNOWN, "shardId-000000000099", subscribe, sdk, consumer, "LATEST", "shardId-000000000099")
    expect_refused(UNKNOWN, "", subscribe, sdk, consumer + "0", "LATEST")
    expect_refused(invalid, "", subscribe, sdk, consumer, "AT_SEQUENCE_NUMBER", SequenceNumber="5")
    expect_refused(invalid, "", subscribe, sdk, consumer, "AT_TIMESTAMP")
    expect_refused("ValidationException", "consumerARN", subscribe, sdk, "nonsense", "LATEST")
    expect_refused("ValidationException", "startingPosition.type", subscribe, sdk, consumer, "NONSENSE")

    child = "shardId-000000000001"
    events = subscribe(sdk, consumer, "LATEST", child)
    sdk.kinesis.deregister_stream_consumer(ConsumerARN=consumer)
    expect_failure(UNKNOWN, events)
    consumer = registered(sdk, "faulty")["ConsumerARN"]
    for shard, code in ((child, "InternalFailureException"), ("shardId-000000000002", "KMSThrottlingException")):
        with sdk.fault({"on": "SubscribeToShard", "do": {"error_after": code}}):
            expect_failure(code, subscribe(sdk, consumer, "LATEST", shard))


def expect_failure(code, events):
    """The stream ends with this error."""
    try:
        told = list(events)
    except EventStreamError as error:
        expect(error.response["Error"]["Code"] == code, f"an end with {error}, not with {code}")
        expect(error.response["Error"]["Message"], f"{code} without a word")
    else:
        raise Failed(f"the stream ended without {code}: {told}")


def taken_over(sdk):
    """After five seconds another subscription of the same consumer takes over."""
    consumer, child = registered(sdk, "moves")["ConsumerARN"], "shardId-000000000001"
    old = subscribe(sdk, consumer, "LATEST", child)

    def again():
        try:
            return subscribe(sdk, consumer, "LATEST", child)
        except sdk.kinesis.exceptions.ResourceInUseException:
            return None

    new = wait_for("another subscription of the same consumer", again, seconds=15)
    expect_failure(IN_USE, old)
    new.close()


def check(way):
    with local_sdk(way) as sdk:
        sdk.created("orders")
        consumers(sdk)
        sdk.kinesis.delete_stream(**STREAM, EnforceConsumerDeletion=True)
        subscriptions(sdk)
        refused(sdk)
        taken_over(sdk)


check(*sys.argv[1:])
