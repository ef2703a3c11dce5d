"""Streams through boto3: made, described, listed, labelled, changed, deleted."""

import sys

from expect import expect
from sdk import ARN, expect_refused, expect_uniform, local_sdk

HUGE = "x" * 128
KEY = {"EncryptionType": "KMS", "KeyId": "alias/aws/kinesis"}


def summary(sdk, stream):
    return sdk.kinesis.describe_stream_summary(**stream)["StreamDescriptionSummary"]


def description(sdk, stream, **options):
    return sdk.kinesis.describe_stream(**stream, **options)["StreamDescription"]


def expect_members(value, **members):
    for name, member in members.items():
        expect(value.get(name) == member, f"{name} is {value.get(name)!r}, not {member!r}")


def made(sdk):
    stream = sdk.created("orders", shards=3)
    whole = description(sdk, stream)
    fresh = {"RetentionPeriodHours": 24, "EncryptionType": "NONE", "StreamStatus": "ACTIVE"}
    fresh |= {"StreamModeDetails": {"StreamMode": "PROVISIONED"}, "StreamARN": ARN + "orders"}
    expect_members(whole, StreamName="orders", HasMoreShards=False, **fresh)
    expect([shard["ShardId"] for shard in whole["Shards"]] == [f"shardId-{n:012}" for n in range(3)], str(whole))
    expect_uniform(whole["Shards"])
    expect(all("EndingSequenceNumber" not in shard["SequenceNumberRange"] for shard in whole["Shards"]), str(whole))
    expect_members(summary(sdk, stream), OpenShardCount=3, ConsumerCount=0, MaxRecordSizeInKiB=1024, **fresh)

    sdk.kinesis.create_stream(StreamName="demand", StreamModeDetails={"StreamMode": "ON_DEMAND"})
    demand = summary(sdk, sdk.named("demand"))
    expect_members(demand, StreamModeDetails={"StreamMode": "ON_DEMAND"}, OpenShardCount=4)

    expect_refused("ResourceInUseException", "already exists", sdk.created, "orders")
    missing = sdk.named("missing")
    text = "Stream missing under account 000000000000 not found"
    for call in (sdk.kinesis.describe_stream, sdk.kinesis.describe_stream_summary, sdk.kinesis.list_shards):
        expect_refused("ResourceNotFoundException", text, call, **missing)
    expect_refused("ResourceNotFoundException", text, sdk.put, missing, "a")
    expect_refused("ResourceNotFoundException", text, sdk.kinesis.delete_stream, **missing)


def listed(sdk):
    names = sorted(["demand", "orders", *(f"stream-{number}" for number in range(5))])
    for name in names[2:]:
        sdk.created(name)
    pages = list(sdk.kinesis.get_paginator("list_streams").paginate(PaginationConfig={"PageSize": 3}))
    expect([len(page["StreamNames"]) for page in pages] == [3, 3, 1], f"pages of streams: {pages}")
    expect([name for page in pages for name in page["StreamNames"]] == names, f"pages of streams: {pages}")
    for page in pages:
        told = [stream["StreamName"] for stream in page["StreamSummaries"]]
        expect(told == page["StreamNames"], f"summaries of {told}")
        expect(page["HasMoreStreams"] == (page is not pages[-1]), f"HasMoreStreams on {page}")
        expect(("NextToken" in page) == page["HasMoreStreams"], f"NextToken on {page}")
    token = sdk.kinesis.list_streams(NextToken=pages[0]["NextToken"])
    expect(token["StreamNames"] == names[3:], f"behind a token: {token}")
    behind = sdk.kinesis.list_streams(ExclusiveStartStreamName="stream-1")
    expect(behind["StreamNames"] == names[4:], f"behind a name: {behind}")
    expect_refused("InvalidArgumentException", "NextToken", sdk.kinesis.list_streams, NextToken="nonsense")

    orders = sdk.named("orders")
    first = description(sdk, orders, Limit=2)
    rest = description(sdk, orders, ExclusiveStartShardId=first["Shards"][-1]["ShardId"])
    expect([first["HasMoreShards"], rest["HasMoreShards"]] == [True, False], "HasMoreShards")
    expect([len(first["Shards"]), len(rest["Shards"])] == [2, 1], "pages of shards")


def changed(sdk):
    orders, kinesis = sdk.named("orders"), sdk.kinesis

    kinesis.increase_stream_retention_period(**orders, RetentionPeriodHours=8_760)
    expect_members(summary(sdk, orders), RetentionPeriodHours=8_760)
    invalid = "InvalidArgumentException"
    for hours in (24, 8_761):
        expect_refused(invalid, "", kinesis.increase_stream_retention_period, **orders, RetentionPeriodHours=hours)
    for hours in (23, 9_000):
        expect_refused(invalid, "", kinesis.decrease_stream_retention_period, **orders, RetentionPeriodHours=hours)
    kinesis.decrease_stream_retention_period(**orders, RetentionPeriodHours=24)
    expect_members(summary(sdk, orders), RetentionPeriodHours=24)

    kinesis.start_stream_encryption(**orders, **KEY)
    expect_members(summary(sdk, orders), **KEY)
    put = sdk.put(orders, "a")
    expect_members(put, EncryptionType="KMS")
    [record], _ = sdk.read(sdk.iterator(orders, put["ShardId"], "TRIM_HORIZON"))
    expect_members(record, EncryptionType="KMS")
    kinesis.stop_stream_encryption(**orders, **KEY)
    expect_members(summary(sdk, orders), EncryptionType="NONE")
    expect("EncryptionType" not in sdk.put(orders, "a"), "a record is encrypted that should not be")

    more = kinesis.enable_enhanced_monitoring(**orders, ShardLevelMetrics=["IncomingBytes", "OutgoingBytes"])
    expect_members(more, CurrentShardLevelMetrics=[], DesiredShardLevelMetrics=["IncomingBytes", "OutgoingBytes"])
    less = kinesis.disable_enhanced_monitoring(**orders, ShardLevelMetrics=["ALL"])
    expect_members(less, DesiredShardLevelMetrics=[])

    by_arn = {"StreamARN": ARN + "orders"}
    kinesis.update_stream_mode(**by_arn, StreamModeDetails={"StreamMode": "ON_DEMAND"})
    expect_members(summary(sdk, orders), StreamModeDetails={"StreamMode": "ON_DEMAND"})
    count = {"TargetShardCount": 2, "ScalingType": "UNIFORM_SCALING"}
    expect_refused("ValidationException", "", kinesis.update_shard_count, **orders, **count)
    kinesis.update_stream_mode(**by_arn, StreamModeDetails={"StreamMode": "PROVISIONED"})

    kinesis.update_max_record_size(**by_arn, MaxRecordSizeInKiB=2_048)
    expect_members(summary(sdk, orders), MaxRecordSizeInKiB=2_048)
    sdk.put(orders, "a", bytes(2_048 * 1_024 - 1))

    limits = kinesis.describe_limits()
    expect(limits["OpenShardCount"] == 3 + 5 and limits["OnDemandStreamCount"] == 1, f"limits: {limits}")
    kinesis.describe_account_settings()


def labelled(sdk):
    orders, kinesis, arn = sdk.named("orders"), sdk.kinesis, ARN + "orders"
    tags = {f"key-{number:02}": "välue / _.:=+-@" for number in range(30)}
    kinesis.add_tags_to_stream(**orders, Tags=tags)
    pages, start = [], {}
    while True:
        page = kinesis.list_tags_for_stream(**orders, **start, Limit=20)
        pages += [(tag["Key"], tag["Value"]) for tag in page["Tags"]]
        if not page["HasMoreTags"]:
            break
        start = {"ExclusiveStartTagKey": pages[-1][0]}
    expect(dict(pages) == tags, f"tags: {pages}")
    kinesis.tag_resource(ResourceARN=arn, Tags={f"more-{number}": "" for number in range(20)})
    fifty = "50 tags"
    expect_refused("InvalidArgumentException", fifty, kinesis.add_tags_to_stream, **orders, Tags={"one too many": ""})
    expect_refused("InvalidArgumentException", "", kinesis.tag_resource, ResourceARN=arn, Tags={"bad?": ""})
    kinesis.untag_resource(ResourceARN=arn, TagKeys=[f"more-{number}" for number in range(20)])
    kinesis.remove_tags_from_stream(**orders, TagKeys=[*list(tags)[1:], "never there"])
    expect(len(kinesis.list_tags_for_resource(ResourceARN=arn)["Tags"]) == 1, "tags were not removed")

    kinesis.put_resource_policy(ResourceARN=arn, Policy='{"Version": "2012-10-17"}')
    expect(kinesis.get_resource_policy(ResourceARN=arn)["Policy"] == '{"Version": "2012-10-17"}', "another policy")
    kinesis.delete_resource_policy(ResourceARN=arn)


def deleted(sdk):
    kinesis = sdk.kinesis
    huge = sdk.created(HUGE)
    # All opaque texts have the stream's name in them, and limits to their length.
    kinesis.list_streams(Limit=1, ExclusiveStartStreamName="stream-4")
    sdk.iterator(huge, "shardId-000000000000", "LATEST")
    consumer = kinesis.register_stream_consumer(StreamARN=ARN + HUGE, ConsumerName=HUGE)["Consumer"]
    expect(consumer["ConsumerName"] == HUGE, str(consumer))
    expect_refused("ResourceInUseException", "consumers", kinesis.delete_stream, **huge)
    kinesis.delete_stream(**huge, EnforceConsumerDeletion=True)
    kinesis.get_waiter("stream_not_exists").wait(StreamName=HUGE, WaiterConfig={"Delay": 1})
    fresh = summary(sdk, sdk.created(HUGE))
    expect_members(fresh, ConsumerCount=0, OpenShardCount=1)


def check(way):
    with local_sdk(way) as sdk:
        for part in (made, listed, changed, labelled, deleted):
            print(part.__name__)
            part(sdk)


check(*sys.argv[1:])
