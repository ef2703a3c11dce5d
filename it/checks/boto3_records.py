"""Records through boto3: put by key and hash key, within the limits of sizes, and read from every kind of place."""

import datetime
import hashlib
import sys
import time

from expect import expect
from sdk import LAST_KEY, expect_refused, hash_keys, local_sdk

FIRST, SECOND = "shardId-000000000000", "shardId-000000000001"
MIB = 1 << 20
INVALID, VALIDATION = "InvalidArgumentException", "ValidationException"


def sequence_number(record):
    return int(record["SequenceNumber"])


def put(sdk, stream):
    ranges = {name: hash_keys(shard) for name, shard in sdk.shards(stream).items()}
    last = {}
    for number in range(50):
        key = f"schlüssel-{number}"
        place = int.from_bytes(hashlib.md5(key.encode()).digest(), "big")
        reply = sdk.put(stream, key, b"by key")
        first, end = ranges[reply["ShardId"]]
        expect(first <= place <= end, f"{key} went to {reply['ShardId']}")
        expect(sequence_number(reply) > last.get(reply["ShardId"], 0), f"the number of {key} is not above those before")
        last[reply["ShardId"]] = sequence_number(reply)
    middle = ranges[SECOND][0]
    for key, shard in [(0, FIRST), (middle - 1, FIRST), (middle, SECOND), (LAST_KEY, SECOND)]:
        reply = sdk.put(stream, "any", ExplicitHashKey=str(key))
        expect(reply["ShardId"] == shard, f"the hash key {key} went to {reply['ShardId']}")
    for key, code in [(LAST_KEY + 1, INVALID), (-1, VALIDATION), ("00", VALIDATION), ("", VALIDATION)]:
        expect_refused(code, "explicitHashKey", sdk.put, stream, "any", ExplicitHashKey=str(key))
    before = sdk.put(stream, "ordered")
    after = sdk.put(stream, "ordered", SequenceNumberForOrdering=before["SequenceNumber"])
    expect(sequence_number(after) > sequence_number(before), "SequenceNumberForOrdering was not kept")
    expect_refused(INVALID, "SequenceNumberForOrdering", sdk.put, stream, "a", SequenceNumberForOrdering="5")


def put_many(sdk, stream):
    entries = [{"PartitionKey": f"{number}", "Data": f"{number}".encode()} for number in range(500)]
    entries[7]["ExplicitHashKey"] = "0"
    reply = sdk.kinesis.put_records(**stream, Records=entries)
    expect(reply["FailedRecordCount"] == 0 and len(reply["Records"]) == 500, "PutRecords of 500")
    expect(reply["Records"][7]["ShardId"] == FIRST, "the hash key of an entry was not looked at")
    for shard in (FIRST, SECOND):
        numbers = [sequence_number(result) for result in reply["Records"] if result["ShardId"] == shard]
        expect(numbers == sorted(set(numbers)), f"the numbers of a call are not in its order in {shard}")
    for count in (0, 501):
        some = (entries * 2)[:count]
        expect_refused(VALIDATION, "records", sdk.kinesis.put_records, **stream, Records=some)
    bad = [*entries[:2], {"PartitionKey": "x" * 257, "Data": b""}]
    expect_refused(VALIDATION, "records.3.member.partitionKey", sdk.kinesis.put_records, **stream, Records=bad)

    with sdk.fault({"on": "PutRecords", "times": 1, "do": {"fail_records": {"places": [0, 2]}}}):
        reply = sdk.kinesis.put_records(**stream, Records=entries[:4])
    failed = [result.get("ErrorCode") for result in reply["Records"]]
    throttled = "ProvisionedThroughputExceededException"
    expect(reply["FailedRecordCount"] == 2 and failed == [throttled, None, throttled, None], f"failures: {reply}")
    for result in reply["Records"]:
        expect(("ErrorMessage" in result) != ("SequenceNumber" in result), f"both or nothing: {result}")


def sizes(sdk, stream):
    for key in ("k" * 256, "ü" * 256):
        sdk.put(stream, key)
    for key in ("", "k" * 257):
        expect_refused(VALIDATION, "partitionKey", sdk.put, stream, key)
    sdk.put(stream, "four", bytes(MIB - 4))
    expect_refused(INVALID, "1048576", sdk.put, stream, "fives", bytes(MIB - 4))
    expect_refused(VALIDATION, "data", sdk.put, stream, "a", bytes(MIB + 1))
    tenth = {"PartitionKey": "a", "Data": bytes(MIB - 1)}
    expect(sdk.kinesis.put_records(**stream, Records=[tenth] * 10)["FailedRecordCount"] == 0, "10 MiB in a call")
    over = [tenth] * 10 + [{"PartitionKey": "b", "Data": b""}]
    expect_refused(INVALID, "10485760", sdk.kinesis.put_records, **stream, Records=over)
    # What was put here is more than a reply has room for: 10 MiB.
    shard = sdk.put(stream, "a", b"x")["ShardId"]
    iterator = sdk.iterator(stream, shard, "TRIM_HORIZON")
    page = sdk.kinesis.get_records(ShardIterator=iterator)
    size = sum(len(record["Data"]) + len(record["PartitionKey"].encode()) for record in page["Records"])
    expect(8 * MIB < size <= 10 * MIB, f"a reply with {size} bytes")
    expect(page["MillisBehindLatest"] > 0, "a reply that is not the last is not behind")
    records, last = sdk.read(iterator)
    expect(records[-1]["Data"] == b"x" and last["MillisBehindLatest"] == 0, f"the last record: {last}")


def read(sdk, stream):
    number = [sdk.put(stream, "a", f"{number}".encode())["SequenceNumber"] for number in range(3)]
    time.sleep(0.005)
    between = datetime.datetime.now(datetime.timezone.utc)
    time.sleep(0.005)
    number += [sdk.put(stream, "a", f"{number}".encode())["SequenceNumber"] for number in range(3, 6)]
    latest = sdk.iterator(stream, FIRST, "LATEST")
    sdk.put(stream, "a", b"6")

    def data(kind, **position):
        records, _ = sdk.read(sdk.iterator(stream, FIRST, kind, **position))
        expect(all(record["PartitionKey"] == "a" for record in records), "another partition key")
        return "".join(record["Data"].decode() for record in records)

    expect(data("TRIM_HORIZON") == "0123456", "TRIM_HORIZON")
    expect(data("AT_SEQUENCE_NUMBER", StartingSequenceNumber=number[2]) == "23456", "AT_SEQUENCE_NUMBER")
    expect(data("AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=number[2]) == "3456", "AFTER_SEQUENCE_NUMBER")
    expect(data("AT_TIMESTAMP", Timestamp=between) == "3456", "AT_TIMESTAMP")
    first = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)
    expect(data("AT_TIMESTAMP", Timestamp=first) == "0123456", "AT_TIMESTAMP before all records")
    expect(data("LATEST") == "", "LATEST")
    expect([record["Data"] for record in sdk.read(latest)[0]] == [b"6"], "LATEST from before a record was put")
    start = sdk.shards(stream)[FIRST]["SequenceNumberRange"]["StartingSequenceNumber"]
    expect(data("AT_SEQUENCE_NUMBER", StartingSequenceNumber=start) == "0123456", "from the shard's own start")

    page = sdk.kinesis.get_records(ShardIterator=sdk.iterator(stream, FIRST, "TRIM_HORIZON"), Limit=2)
    expect(len(page["Records"]) == 2 and page["MillisBehindLatest"] > 0, f"Limit=2: {page}")
    again = [sdk.kinesis.get_records(ShardIterator=page["NextShardIterator"], Limit=1)["Records"] for _ in range(2)]
    expect(again[0] == again[1] and again[0][0]["Data"] == b"2", "an iterator is good for more than one call")
    arrival = again[0][0]["ApproximateArrivalTimestamp"]
    expect(abs(between - arrival) < datetime.timedelta(minutes=1), f"arrival at {arrival}")
    return number


def closed(sdk, stream):
    middle = str(LAST_KEY // 2)
    sdk.kinesis.split_shard(**stream, ShardToSplit=FIRST, NewStartingHashKey=middle)
    shard = sdk.shards(stream)[FIRST]
    ending = shard["SequenceNumberRange"]["EndingSequenceNumber"]
    for kind, position, count in [
        ("TRIM_HORIZON", {}, 7),
        ("LATEST", {}, 0),
        ("AT_SEQUENCE_NUMBER", {"StartingSequenceNumber": ending}, 0),
        ("AFTER_SEQUENCE_NUMBER", {"StartingSequenceNumber": ending}, 0),
    ]:
        records, page = sdk.read(sdk.iterator(stream, FIRST, kind, **position), limit=7)
        expect(len(records) == count and "NextShardIterator" not in page, f"{kind} of a closed shard: {page}")
        children = [(child["ShardId"], child["ParentShards"]) for child in page["ChildShards"]]
        expect(children == [(SECOND, [FIRST]), ("shardId-000000000002", [FIRST])], f"children: {children}")
    expect(sdk.put(stream, "a")["ShardId"] != FIRST, "a record went to a closed shard")


def refused(sdk, stream, other, numbers):
    iterator = sdk.kinesis.get_shard_iterator
    here = stream | {"ShardId": SECOND}
    for kind in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"):
        some = here | {"ShardIteratorType": kind}
        expect_refused(INVALID, FIRST, iterator, **some, StartingSequenceNumber=numbers[0])
        expect_refused(INVALID, "invalid", iterator, **some, StartingSequenceNumber="5")
        expect_refused(VALIDATION, "startingSequenceNumber", iterator, **some, StartingSequenceNumber="garbage")
        expect_refused(INVALID, kind, iterator, **some)
    foreign = other | {"ShardId": FIRST, "ShardIteratorType": "AT_SEQUENCE_NUMBER"}
    expect_refused(INVALID, "is invalid", iterator, **foreign, StartingSequenceNumber=numbers[0])
    tomorrow = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
    expect_refused(INVALID, "future", iterator, **here, ShardIteratorType="AT_TIMESTAMP", Timestamp=tomorrow)
    expect_refused(INVALID, "", iterator, **here, ShardIteratorType="AT_TIMESTAMP")
    expect_refused(INVALID, "", iterator, **here, ShardIteratorType="LATEST", StartingSequenceNumber=numbers[0])
    for shard in ("shardId-000000000099", "nonsense"):
        text = f"Shard {shard} in stream"
        expect_refused("ResourceNotFoundException", text, iterator, **stream, ShardId=shard, ShardIteratorType="LATEST")
    expect_refused(VALIDATION, "shardId", iterator, **stream, ShardId="not so", ShardIteratorType="LATEST")

    get_records = sdk.kinesis.get_records
    good = sdk.iterator(stream, SECOND, "TRIM_HORIZON")
    for text in ("nonsense", good[:-4], good.swapcase()):
        expect_refused(INVALID, "Invalid ShardIterator", get_records, ShardIterator=text)
    for limit in (0, 10_001):
        expect_refused(VALIDATION, "limit", get_records, ShardIterator=good, Limit=limit)
    with sdk.fault({"on": "GetRecords", "do": {"expire_iterators_ms": 0}}):
        time.sleep(0.005)
        expect_refused("ExpiredIteratorException", "Iterator expired", get_records, ShardIterator=good)
    with sdk.fault({"on": "GetRecords", "do": "throttle"}):
        code = "ProvisionedThroughputExceededException"
        expect_refused(code, "Rate exceeded", get_records, ShardIterator=good)
    with sdk.fault({"on": "GetRecords", "do": {"error": "InternalFailure"}}):
        expect_refused("InternalFailure", "", get_records, ShardIterator=good)
    get_records(ShardIterator=good)
    sdk.kinesis.delete_stream(**stream)
    expect_refused("ResourceNotFoundException", "", get_records, ShardIterator=good)


def check(way):
    with local_sdk(way) as sdk:
        stream = sdk.created("orders", shards=2)
        put(sdk, stream)
        put_many(sdk, stream)
        sizes(sdk, stream)
        stream, other = sdk.created("few"), sdk.created("other")
        numbers = read(sdk, stream)
        closed(sdk, stream)
        refused(sdk, stream, other, numbers)


check(*sys.argv[1:])
