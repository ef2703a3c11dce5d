use std::collections::BTreeMap;
use std::time::Duration;

use kinesis_local::model::{
    CreateStreamRequest, DescribeLimitsResponse, EncryptionType, KinesisError, ListTagsForStreamRequest,
    Settings, StartingPosition::TrimHorizon, StreamMode, StreamStatus, StreamTarget, UpdateShardCountRequest,
};

use crate::{Bench, SHARD_0, SHARD_1, code};

const ARN: &str = "arn:aws:kinesis:us-east-1:000000000000:stream/flights";

fn flights() -> StreamTarget {
    StreamTarget::from("flights")
}

fn tags<const N: usize>(tags: [(&str, &str); N]) -> BTreeMap<String, String> {
    tags.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn keys<const N: usize>(keys: [&str; N]) -> Vec<String> {
    keys.map(str::to_owned).into()
}

fn add(bench: &mut Bench, new: BTreeMap<String, String>) -> Result<(), KinesisError> {
    bench.model.add_tags_to_stream(&flights(), new, bench.now)
}

#[test]
fn tags_are_added_replaced_removed_and_listed_by_key() {
    let mut bench = Bench::new(1);
    add(&mut bench, tags([("team", "red"), ("stage", "test"), ("cost", "")])).unwrap();
    add(&mut bench, tags([("team", "blue")])).unwrap();
    bench.model.remove_tags_from_stream(&flights(), &keys(["cost", "unknown"]), bench.now).unwrap();
    let mut list = |start: Option<&str>, limit| {
        let request = ListTagsForStreamRequest {
            stream: flights(),
            exclusive_start_tag_key: start.map(str::to_owned),
            limit,
        };
        let page = bench.model.list_tags_for_stream(request, bench.now).unwrap();
        (
            page.tags.into_iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>(),
            page.has_more_tags,
        )
    };
    assert_eq!(list(None, None), (keys(["stage=test", "team=blue"]), false));
    assert_eq!(list(None, Some(1)), (keys(["stage=test"]), true));
    assert_eq!(list(Some("stage"), Some(1)), (keys(["team=blue"]), false));
}

#[test]
fn a_resource_has_fifty_tags_of_allowed_characters() {
    let mut bench = Bench::new(1);
    let many = |from: u32, to: u32| (from..to).map(|key| (key.to_string(), String::new())).collect();
    assert_eq!(code(add(&mut bench, many(0, 51))), "ValidationException");
    add(&mut bench, many(0, 50)).unwrap();
    assert_eq!(code(add(&mut bench, many(49, 51))), "InvalidArgumentException");
    add(&mut bench, many(49, 50)).unwrap();
    let mut bench = Bench::new(1);
    for (key, value, expected) in [
        ("", "", "ValidationException"),
        (&*"x".repeat(129), "", "ValidationException"),
        ("x", &*"x".repeat(257), "ValidationException"),
        ("aws:x", "", "InvalidArgumentException"),
        ("a*b", "", "InvalidArgumentException"),
        ("a", "b&c", "InvalidArgumentException"),
    ] {
        assert_eq!(code(add(&mut bench, tags([(key, value)]))), expected, "{key:?} {value:?}");
    }
    assert_eq!(code(add(&mut bench, tags([]))), "ValidationException");
    let none = bench.model.remove_tags_from_stream(&flights(), &[], bench.now);
    assert_eq!(code(none), "ValidationException");
}

#[test]
fn streams_and_consumers_are_tagged_by_arn() {
    let mut bench = Bench::new(1);
    let consumer = bench.register("flights", "radar").unwrap().consumer_arn;
    for arn in [ARN, &consumer] {
        bench.model.tag_resource(arn, tags([("for", arn)]), bench.now).unwrap();
    }
    for arn in [ARN, &consumer] {
        assert_eq!(bench.model.list_tags_for_resource(arn, bench.now), Ok(tags([("for", arn)])));
        bench.model.untag_resource(arn, &keys(["for"]), bench.now).unwrap();
        assert_eq!(bench.model.list_tags_for_resource(arn, bench.now), Ok(tags([])));
    }
    let gone = ARN.replace("flights", "trains");
    assert_eq!(code(bench.model.list_tags_for_resource(&gone, bench.now)), "ResourceNotFoundException");
    assert_eq!(code(bench.model.list_tags_for_resource("flights", bench.now)), "ValidationException");
}

#[test]
fn a_stream_is_created_with_tags() {
    let mut bench = Bench::new(1);
    let request = CreateStreamRequest {
        stream_name: "trains".to_owned(),
        shard_count: Some(1),
        tags: tags([("team", "red")]),
        ..Default::default()
    };
    bench.model.create_stream(request, bench.now).unwrap();
    let arn = ARN.replace("flights", "trains");
    assert_eq!(bench.model.list_tags_for_resource(&arn, bench.now), Ok(tags([("team", "red")])));
}

#[test]
fn a_policy_is_kept_for_a_stream_or_consumer() {
    let mut bench = Bench::new(1);
    let consumer = bench.register("flights", "radar").unwrap().consumer_arn;
    for arn in [ARN, &consumer] {
        assert_eq!(code(bench.model.get_resource_policy(arn, bench.now)), "ResourceNotFoundException");
        let garbage = bench.model.put_resource_policy(arn, "[]", bench.now);
        assert_eq!(code(garbage), "InvalidArgumentException");
        bench.model.put_resource_policy(arn, "{\"Statement\":[]}", bench.now).unwrap();
        assert_eq!(bench.model.get_resource_policy(arn, bench.now).unwrap(), "{\"Statement\":[]}");
        bench.model.delete_resource_policy(arn, bench.now).unwrap();
        assert_eq!(code(bench.model.delete_resource_policy(arn, bench.now)), "ResourceNotFoundException");
    }
}

#[test]
fn records_say_whether_the_stream_encrypted_them_when_they_came() {
    let mut bench = Bench::new(1);
    assert_eq!(bench.put("a").encryption, EncryptionType::None);
    bench.model.start_stream_encryption(&flights(), "alias/aws/kinesis", bench.now).unwrap();
    let summary = bench.model.describe_stream_summary(&flights(), bench.now).unwrap();
    assert_eq!(
        (summary.encryption, summary.key_id.as_deref()),
        (EncryptionType::Kms, Some("alias/aws/kinesis"))
    );
    assert_eq!(bench.put("b").encryption, EncryptionType::Kms);
    bench.model.stop_stream_encryption(&flights(), "alias/aws/kinesis", bench.now).unwrap();
    bench.put("c");
    let summary = bench.model.describe_stream_summary(&flights(), bench.now).unwrap();
    assert_eq!((summary.encryption, summary.key_id), (EncryptionType::None, None));
    let page = bench.read(SHARD_0, TrimHorizon);
    let types: Vec<&str> = page.records.iter().map(|record| record.encryption.as_str()).collect();
    assert_eq!(types, ["NONE", "KMS", "NONE"]);
    assert_eq!(code(bench.model.start_stream_encryption(&flights(), "", bench.now)), "ValidationException");
}

#[test]
fn a_stream_that_changes_its_encryption_is_updating_for_a_while() {
    let mut bench = Bench::with(Settings { transition: Duration::from_secs(10), ..Default::default() }, 1);
    bench.pass(10_000);
    bench.model.start_stream_encryption(&flights(), "key", bench.now).unwrap();
    let summary = bench.model.describe_stream_summary(&flights(), bench.now).unwrap();
    assert_eq!(summary.status, StreamStatus::Updating);
    assert_eq!(
        code(bench.model.stop_stream_encryption(&flights(), "key", bench.now)),
        "ResourceInUseException"
    );
    bench.put("records still come and go");
}

#[test]
fn metrics_are_switched_one_by_one_or_all_together() {
    let mut bench = Bench::new(1);
    let names = keys(["OutgoingBytes", "IncomingBytes"]);
    let enabled = bench.model.enable_enhanced_monitoring(&flights(), &names, bench.now).unwrap();
    assert_eq!((enabled.current.len(), enabled.desired), (0, vec!["IncomingBytes", "OutgoingBytes"]));
    let enabled = bench.model.enable_enhanced_monitoring(&flights(), &keys(["ALL"]), bench.now).unwrap();
    assert_eq!((enabled.current.len(), enabled.desired.len()), (2, 7));
    let disabled = bench.model.disable_enhanced_monitoring(&flights(), &names, bench.now).unwrap();
    assert_eq!((disabled.current.len(), disabled.desired.len()), (7, 5));
    let summary = bench.model.describe_stream_summary(&flights(), bench.now).unwrap();
    assert_eq!(summary.metrics, disabled.desired);
    for names in [keys([]), keys(["Incoming"])] {
        let refused = bench.model.enable_enhanced_monitoring(&flights(), &names, bench.now);
        assert_eq!(code(refused), "ValidationException");
    }
}

#[test]
fn the_owner_of_an_on_demand_stream_does_not_change_its_shards_but_the_service_does() {
    let mut bench = Bench::new(2);
    bench.model.update_stream_mode(&ARN.into(), StreamMode::OnDemand, bench.now).unwrap();
    assert_eq!(code(bench.split(SHARD_0, 1_000)), "ValidationException");
    assert_eq!(code(bench.merge(SHARD_0, SHARD_1)), "ValidationException");
    let count = UpdateShardCountRequest { stream: flights(), target_shard_count: 4 };
    assert_eq!(code(bench.model.update_shard_count(count.clone(), bench.now)), "ValidationException");
    bench.model.scale(&flights(), 5, bench.now).unwrap();
    let summary = bench.model.describe_stream_summary(&flights(), bench.now).unwrap();
    assert_eq!((summary.mode, summary.open_shard_count), (StreamMode::OnDemand, 5));
    bench.model.update_stream_mode(&flights(), StreamMode::Provisioned, bench.now).unwrap();
    assert_eq!(bench.model.update_shard_count(count, bench.now).unwrap().current_shard_count, 5);
}

#[test]
fn the_limits_of_the_account_count_provisioned_shards_and_on_demand_streams() {
    let mut bench = Bench::new(3);
    bench.split(SHARD_0, 1_000).unwrap();
    let request = CreateStreamRequest {
        stream_name: "trains".to_owned(),
        mode: StreamMode::OnDemand,
        ..Default::default()
    };
    bench.model.create_stream(request, bench.now).unwrap();
    let expected = DescribeLimitsResponse {
        shard_limit: 20_000,
        open_shard_count: 4,
        on_demand_stream_count: 1,
        on_demand_stream_count_limit: 50,
    };
    assert_eq!(bench.model.describe_limits(bench.now), Ok(expected));
}
