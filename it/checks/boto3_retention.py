"""Retention through boto3: records and shards go when they are older than it, and a reader goes on behind them.

The program keeps calls with their times in a file. Between two runs the check moves these times into the past, so that
nobody waits for a day.
"""

import datetime
import json
import sys

from expect import expect
from local import LOGS
from sdk import LAST_KEY, expect_refused, local_sdk

DATA = LOGS / "data"
HOUR = 3_600_000
FIRST = "shardId-000000000000"


def age(hours):
    """Makes all that was done so far older."""
    path = DATA / "kinesis.jsonl"
    calls = [json.loads(line) for line in path.read_text().splitlines()]
    for call in calls:
        call["at"] -= hours * HOUR
    path.write_text("".join(json.dumps(call) + "\n" for call in calls))


def found(sdk, stream, shard, kind="TRIM_HORIZON", **position):
    return sdk.read(sdk.iterator(stream, shard, kind, **position))[0]


def data(records):
    return [record["Data"] for record in records]


def check(way):
    options = ("--data", DATA)
    parent, *children = shards = [f"shardId-{number:012}" for number in range(3)]
    with local_sdk(way, *options) as sdk:
        day, days, whole = streams = [sdk.created(name) for name in ("day", "days", "whole")]
        for stream in streams:
            sdk.put(stream, "a", b"old")
        for stream in (days, whole):
            sdk.kinesis.increase_stream_retention_period(**stream, RetentionPeriodHours=48)
        for stream in (day, days):
            sdk.kinesis.split_shard(**stream, ShardToSplit=parent, NewStartingHashKey=str(LAST_KEY // 2))
    age(hours=20)
    with local_sdk(way, *options) as sdk:
        for stream in streams:
            expect(data(found(sdk, stream, parent)) == [b"old"], f"before retention: {stream}")
            sdk.put(stream, "a", b"new", ExplicitHashKey="0")
    age(hours=10)
    with local_sdk(way, *options) as sdk:
        expect(list(sdk.shards(days)) == shards, f"shards within retention: {list(sdk.shards(days))}")
        expect(data(found(sdk, days, parent)) == [b"old"], "a record within retention is gone")
        expect(list(sdk.shards(day)) == children, f"shards behind retention: {list(sdk.shards(day))}")
        expect_refused("ResourceNotFoundException", parent, sdk.iterator, day, parent, "TRIM_HORIZON")
        for stream in (day, days):
            [record] = found(sdk, stream, children[0])
            age_of_it = datetime.datetime.now(datetime.timezone.utc) - record["ApproximateArrivalTimestamp"]
            rounded = round(age_of_it.total_seconds() / 3_600)
            expect(record["Data"] == b"new" and rounded == 10, f"a child's record, {rounded} hours old: {record}")

        # Less retention takes records away at once. More brings none back.
        iterator = sdk.iterator(whole, parent, "TRIM_HORIZON")
        old, new = found(sdk, whole, parent)
        sdk.kinesis.decrease_stream_retention_period(**whole, RetentionPeriodHours=24)
        sdk.kinesis.increase_stream_retention_period(**whole, RetentionPeriodHours=48)
        expect(found(sdk, whole, parent) == [new], "what was behind retention is there")
        # A reader that was further back goes on with what is left.
        expect(sdk.read(iterator)[0] == [new], "an iterator from before the decrease")
        for kind in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"):
            records = found(sdk, whole, parent, kind, StartingSequenceNumber=old["SequenceNumber"])
            expect(records == [new], f"{kind} of a record that is gone: {records}")


check(*sys.argv[1:])
