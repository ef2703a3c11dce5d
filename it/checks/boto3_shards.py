"""Shards through boto3: split, merged, scaled, listed with every filter, and read from root to leaf."""

import datetime
import sys
import time

from expect import expect
from sdk import LAST_KEY, expect_refused, expect_uniform, hash_keys, local_sdk

KEYS = [f"key-{number}" for number in range(100)]


def shard_id(number):
    return f"shardId-{number:012}"


def now():
    """An instant that is not the same millisecond as what was done before and will be done."""
    time.sleep(0.005)
    instant = datetime.datetime.now(datetime.timezone.utc)
    time.sleep(0.005)
    return instant


def put_all(sdk, stream):
    for key in KEYS:
        sdk.put(stream, key, key.encode())


def split(sdk, stream, shard):
    """Splits a shard in the middle."""
    first, last = hash_keys(sdk.shards(stream)[shard])
    middle = str((first + last + 1) // 2)
    sdk.kinesis.split_shard(**stream, ShardToSplit=shard, NewStartingHashKey=middle)


def merge(sdk, stream, one, other):
    sdk.kinesis.merge_shards(**stream, ShardToMerge=one, AdjacentShardToMerge=other)


def scale(sdk, stream, count):
    return sdk.kinesis.update_shard_count(**stream, TargetShardCount=count, ScalingType="UNIFORM_SCALING")


def lineage(sdk, stream):
    """Splits shard 0 into 2 and 3, merges 3 and 1 into 4. Gives the instants between."""
    fresh = now()
    put_all(sdk, stream)
    split(sdk, stream, shard_id(0))
    after_split = now()
    put_all(sdk, stream)
    merge(sdk, stream, shard_id(3), shard_id(1))
    after_merge = now()
    put_all(sdk, stream)

    shards = sdk.shards(stream)
    expect(list(shards) == list(map(shard_id, range(5))), f"shards: {list(shards)}")
    parents = {name: (shard.get("ParentShardId"), shard.get("AdjacentParentShardId")) for name, shard in shards.items()}
    expected = [(None, None)] * 2 + [(shard_id(0), None)] * 2 + [(shard_id(3), shard_id(1))]
    expect(list(parents.values()) == expected, f"parents: {parents}")
    closed = {name for name, shard in shards.items() if "EndingSequenceNumber" in shard["SequenceNumberRange"]}
    expect(closed == {shard_id(0), shard_id(1), shard_id(3)}, f"closed: {closed}")
    for child in (2, 3, 4):
        for parent in filter(None, parents[shard_id(child)]):
            numbers = shards[parent]["SequenceNumberRange"], shards[shard_id(child)]["SequenceNumberRange"]
            end, start = int(numbers[0]["EndingSequenceNumber"]), int(numbers[1]["StartingSequenceNumber"])
            expect(end < start, f"shard {child} starts before its parent ends")
    return fresh, after_split, after_merge


def pages_of_shards(sdk, size, **request):
    """The ids on each page. The paginator of boto3 repeats the stream beside the token, which is refused."""
    pages = []
    while request:
        page = sdk.kinesis.list_shards(**request, MaxResults=size)
        pages.append([shard["ShardId"] for shard in page["Shards"]])
        request = {"NextToken": page["NextToken"]} if "NextToken" in page else None
    return pages


def filtered(sdk, stream, fresh, after_split, after_merge):
    filters = [
        ({"Type": "FROM_TRIM_HORIZON"}, [0, 1, 2, 3, 4]),
        ({"Type": "AT_TRIM_HORIZON"}, [0, 1]),
        ({"Type": "AT_LATEST"}, [2, 4]),
        ({"Type": "AFTER_SHARD_ID", "ShardId": shard_id(1)}, [2, 3, 4]),
        ({"Type": "AT_TIMESTAMP", "Timestamp": fresh}, [0, 1]),
        ({"Type": "AT_TIMESTAMP", "Timestamp": after_split}, [1, 2, 3]),
        ({"Type": "AT_TIMESTAMP", "Timestamp": after_merge}, [2, 4]),
        ({"Type": "FROM_TIMESTAMP", "Timestamp": fresh}, [0, 1, 2, 3, 4]),
        ({"Type": "FROM_TIMESTAMP", "Timestamp": after_split}, [1, 2, 3, 4]),
        ({"Type": "FROM_TIMESTAMP", "Timestamp": after_merge}, [2, 4]),
    ]
    for chosen, numbers in filters:
        for size in (1, 2, 10):
            listed = pages_of_shards(sdk, size, **stream, ShardFilter=chosen)
            expect(sum(listed, []) == list(map(shard_id, numbers)), f"{chosen} lists {listed}")
            expect(all(len(page) <= size for page in listed), f"pages of {size}: {listed}")
    expect(list(sdk.shards(stream, ExclusiveStartShardId=shard_id(2))) == [shard_id(3), shard_id(4)], "start")
    # Ids of shards that are gone, or not there yet, are good for a start as well.
    expect(not sdk.shards(stream, ExclusiveStartShardId=shard_id(99)), "start behind the last")

    list_shards, invalid = sdk.kinesis.list_shards, "InvalidArgumentException"
    token = list_shards(**stream, MaxResults=1)["NextToken"]
    again = list_shards(NextToken=token, MaxResults=2)
    expect([shard["ShardId"] for shard in again["Shards"]] == [shard_id(1), shard_id(2)], f"by a token: {again}")
    created = sdk.kinesis.describe_stream_summary(**stream)["StreamDescriptionSummary"]["StreamCreationTimestamp"]
    others = [stream, {"ExclusiveStartShardId": shard_id(0)}, {"ShardFilter": {"Type": "AT_LATEST"}}]
    for other in [*others, {"StreamCreationTimestamp": created}]:
        expect_refused(invalid, "NextToken", list_shards, NextToken=token, **other)
    expect_refused(invalid, "NextToken", list_shards, NextToken="nonsense")
    expect_refused(invalid, "", list_shards)
    expect(len(list_shards(**stream, StreamCreationTimestamp=created)["Shards"]) == 5, "by creation")
    other = {"StreamCreationTimestamp": created - datetime.timedelta(days=1)}
    expect_refused("ResourceNotFoundException", "", list_shards, **stream, **other)
    for kind in ("AT_TIMESTAMP", "FROM_TIMESTAMP"):
        tomorrow = {"Type": kind, "Timestamp": fresh + datetime.timedelta(days=1)}
        expect_refused(invalid, "future", list_shards, **stream, ShardFilter=tomorrow)
        expect_refused(invalid, "Timestamp", list_shards, **stream, ShardFilter={"Type": kind})
    expect_refused(invalid, "ShardId", list_shards, **stream, ShardFilter={"Type": "AFTER_SHARD_ID"})


def refused(sdk, stream):
    split_shard, merge_shards = sdk.kinesis.split_shard, sdk.kinesis.merge_shards
    invalid, unknown = "InvalidArgumentException", "ResourceNotFoundException"
    first, last = hash_keys(sdk.shards(stream)[shard_id(4)])
    for key in (0, first, last + 1, LAST_KEY + 1):
        some = {"ShardToSplit": shard_id(4), "NewStartingHashKey": str(key)}
        expect_refused(invalid, "", split_shard, **stream, **some)
    closed = {"ShardToSplit": shard_id(0), "NewStartingHashKey": str(LAST_KEY // 4)}
    expect_refused(invalid, "already been merged or split", split_shard, **stream, **closed)
    missing = {"ShardToSplit": shard_id(99), "NewStartingHashKey": "5"}
    expect_refused(unknown, f"Shard {shard_id(99)}", split_shard, **stream, **missing)
    for one, other, code in [(2, 2, invalid), (4, 2, invalid), (2, 1, invalid), (2, 99, unknown)]:
        pair = {"ShardToMerge": shard_id(one), "AdjacentShardToMerge": shard_id(other)}
        expect_refused(code, "", merge_shards, **stream, **pair)
    expect_refused("LimitExceededException", "double", scale, sdk, stream, 5)
    expect_refused("ValidationException", "targetShardCount", scale, sdk, stream, 0)


def read_from_the_roots(sdk, stream):
    """Reads each shard to its end, then those of its children whose parents have all been read, as a reader does."""
    listed = sdk.shards(stream)
    waiting = [name for name, shard in listed.items() if "ParentShardId" not in shard]
    done, records = set(), []
    while waiting:
        shard = waiting.pop()
        found, page = sdk.read(sdk.iterator(stream, shard, "TRIM_HORIZON"), limit=7)
        records += found
        done.add(shard)
        closed = "EndingSequenceNumber" in listed[shard]["SequenceNumberRange"]
        ended = bool(page.get("ChildShards")), "NextShardIterator" not in page
        expect(ended == (closed, closed), f"the end of {shard}: {page}")
        expect(page["MillisBehindLatest"] == 0, f"the end of {shard} is behind")
        for child in page.get("ChildShards", []):
            expect(child["HashKeyRange"] == listed[child["ShardId"]]["HashKeyRange"], f"a child: {child}")
            ready = done >= set(child["ParentShards"]) and child["ShardId"] not in waiting
            waiting += [child["ShardId"]] if ready else []
    expect(done == listed.keys(), f"not reached from the roots: {listed.keys() - done}")
    return records


def scaled(sdk, stream, rounds):
    for count in (4, 8, 5, 3, 2, 1):
        before = len(sdk.open_shards(stream))
        reply = scale(sdk, stream, count)
        told = reply["CurrentShardCount"], reply["TargetShardCount"]
        expect(told == (before, count), f"{before} to {count}: {reply}")
        opened = sdk.shards(stream, ShardFilter={"Type": "AT_LATEST"})
        expect(len(opened) == count, f"{len(opened)} shards, not {count}")
        expect_uniform(opened.values())
        put_all(sdk, stream)
        rounds += 1
    records = read_from_the_roots(sdk, stream)
    for key in KEYS:
        numbers = [int(record["SequenceNumber"]) for record in records if record["PartitionKey"] == key]
        expect(len(numbers) == rounds, f"{key} came {len(numbers)} times, not {rounds}")
        expect(numbers == sorted(numbers), f"{key} came in another order")


def check(way):
    with local_sdk(way) as sdk:
        stream = sdk.created("orders", shards=2)
        instants = lineage(sdk, stream)
        filtered(sdk, stream, *instants)
        refused(sdk, stream)
        scaled(sdk, stream, rounds=3)


check(*sys.argv[1:])
