use std::time::Duration;

use kinesis_local::model::StartingPosition::{
    AfterSequenceNumber, AtSequenceNumber, AtTimestamp, Latest, TrimHorizon,
};
use kinesis_local::model::subscribe::MAX_SUBSCRIPTIONS;
use kinesis_local::model::{
    ConsumerTarget, NextEvent, PutRecordsEntry, PutRecordsRequest, Settings, ShardEnd, StreamTarget,
    SubscribeToShardEvent, SubscriptionEnd, Timestamp, UpdateShardCountRequest,
};

use crate::radar::Radar;
use crate::{HOUR, SHARD_0, SHARD_1, SHARD_2, code};

fn texts(event: &SubscribeToShardEvent) -> Vec<&str> {
    event.records.iter().map(|record| std::str::from_utf8(&record.data).unwrap()).collect()
}

#[test]
fn a_subscription_starts_at_each_kind_of_position() {
    let expected: [&[&str]; 5] =
        [&["a", "b", "c", "d"], &["d"], &["b", "c", "d"], &["c", "d"], &["b", "c", "d"]];
    for (kind, expected) in expected.into_iter().enumerate() {
        let mut radar = Radar::ready(1);
        radar.bench.put("a");
        radar.bench.pass(1_000);
        let instant = radar.bench.now;
        let number = radar.bench.put("b").sequence_number.to_string();
        radar.bench.put("c");
        let position = match kind {
            0 => TrimHorizon,
            1 => Latest,
            2 => AtSequenceNumber(number),
            3 => AfterSequenceNumber(number),
            _ => AtTimestamp(instant),
        };
        let id = radar.subscribe(SHARD_0, position.clone()).unwrap();
        radar.bench.put("d");
        assert_eq!(texts(&radar.event(id)), expected, "{position:?}");
    }
}

#[test]
fn records_are_given_as_they_come_and_a_sign_of_life_every_five_seconds() {
    let mut radar = Radar::ready(1);
    let id = radar.subscribe(SHARD_0, Latest).unwrap();
    assert_eq!(radar.wait(id), 5_000);
    radar.bench.pass(3_000);
    radar.bench.put("a");
    let event = radar.event(id);
    assert_eq!((texts(&event), event.millis_behind_latest), (vec!["a"], 0));
    assert_eq!(radar.wait(id), 5_000);
    radar.bench.pass(4_999);
    assert_eq!(radar.wait(id), 1);
    radar.bench.pass(1);
    let event = radar.event(id);
    assert!(event.records.is_empty() && event.child_shards.is_empty());
    assert!(event.continuation_sequence_number.is_some());
    assert_eq!(radar.wait(id), 5_000);
}

#[test]
fn only_subscriptions_with_news_are_woken() {
    let mut radar = Radar::ready(2);
    let first = radar.subscribe(SHARD_0, Latest).unwrap();
    let second = radar.subscribe(SHARD_1, Latest).unwrap();
    assert!(radar.bench.model.take_woken().is_empty());
    let expected = if radar.bench.put("x").shard_id.as_str() == SHARD_0 { first } else { second };
    assert_eq!(Vec::from_iter(radar.bench.model.take_woken()), [expected]);
    assert!(radar.bench.model.take_woken().is_empty(), "told once");
    let records = (0..20).map(|key| PutRecordsEntry::new(key.to_string(), "x")).collect();
    let request = PutRecordsRequest { stream: "flights".into(), records };
    radar.bench.model.put_records(request, radar.bench.now).unwrap();
    assert_eq!(Vec::from_iter(radar.bench.model.take_woken()), [first, second]);
    radar.bench.merge(SHARD_0, SHARD_1).unwrap();
    assert_eq!(Vec::from_iter(radar.bench.model.take_woken()), [first, second]);
    let count = UpdateShardCountRequest { stream: "flights".into(), target_shard_count: 2 };
    radar.bench.model.update_shard_count(count, radar.bench.now).unwrap();
    assert_eq!(radar.bench.model.take_woken().len(), 2);
    radar.bench.model.cancel_subscription(first);
    let arn = radar.arn.clone();
    radar.bench.model.deregister_stream_consumer(&ConsumerTarget::by_arn(arn), radar.bench.now).unwrap();
    assert_eq!(Vec::from_iter(radar.bench.model.take_woken()), [second]);
}

#[test]
fn the_number_of_an_event_leads_to_the_next_record_even_where_nothing_was_written() {
    let mut radar = Radar::ready(1);
    radar.bench.put("old");
    for position in [Latest, TrimHorizon] {
        radar.bench.pass(5_000);
        let id = radar.subscribe(SHARD_0, position.clone()).unwrap();
        radar.bench.pass(5_000);
        let number = radar.event(id).continuation_sequence_number.unwrap().to_string();
        let written = radar.bench.put("new");
        let after = radar.bench.read(SHARD_0, AfterSequenceNumber(number));
        assert_eq!(after.records[0].sequence_number, written.sequence_number, "{position:?}");
    }
}

#[test]
fn a_subscription_ends_after_five_minutes_and_the_next_goes_on_where_it_stopped() {
    let mut radar = Radar::ready(1);
    let id = radar.subscribe(SHARD_0, TrimHorizon).unwrap();
    radar.bench.put("a");
    let number = radar.event(id).continuation_sequence_number.unwrap().to_string();
    radar.bench.pass(298_000);
    radar.event(id);
    assert_eq!(radar.wait(id), 2_000);
    radar.bench.pass(2_000);
    radar.bench.put("b");
    assert_eq!(radar.end(id), SubscriptionEnd::Expired);
    assert_eq!(radar.end(id), SubscriptionEnd::Unknown);
    let id = radar.subscribe(SHARD_0, AfterSequenceNumber(number)).unwrap();
    assert_eq!(texts(&radar.event(id)), ["b"]);
}

#[test]
fn the_end_of_a_shard_comes_with_its_children_and_without_a_number() {
    for (shard_end, events) in [(ShardEnd::WithLastRecord, 1), (ShardEnd::AfterLastRecord, 2)] {
        let mut radar = Radar::new(Settings { shard_end, ..Default::default() }, 1);
        let id = radar.subscribe(SHARD_0, TrimHorizon).unwrap();
        radar.bench.put("a");
        radar.bench.split(SHARD_0, 1_000).unwrap();
        let mut event = radar.event(id);
        assert_eq!(texts(&event), ["a"]);
        if events == 2 {
            assert!(event.continuation_sequence_number.is_some() && event.child_shards.is_empty());
            event = radar.event(id);
            assert!(event.records.is_empty());
        }
        assert_eq!(event.continuation_sequence_number, None);
        let children: Vec<&str> = event.child_shards.iter().map(|child| child.shard_id.as_str()).collect();
        assert_eq!(children, [SHARD_1, SHARD_2]);
        assert_eq!(radar.end(id), SubscriptionEnd::ShardEnd);
    }
}

#[test]
fn a_closed_shard_of_many_events_ends_with_the_last_of_them() {
    let mut radar = Radar::ready(1);
    for _ in 0..5 {
        radar.bench.put_entry(PutRecordsEntry::new("k", vec![0; (1 << 20) - 1])).unwrap();
        radar.bench.pass(10);
    }
    radar.bench.split(SHARD_0, 1_000).unwrap();
    let id = radar.subscribe(SHARD_0, TrimHorizon).unwrap();
    let events = [(); 3].map(|()| radar.event(id));
    let seen = events.each_ref().map(|event| {
        (event.records.len(), event.millis_behind_latest, event.continuation_sequence_number.is_some())
    });
    assert_eq!(seen, [(2, 40, true), (2, 20, true), (1, 0, false)]);
    assert!(events[1].child_shards.is_empty());
    assert_eq!(radar.end(id), SubscriptionEnd::ShardEnd);
}

#[test]
fn a_running_subscription_is_told_of_the_end_at_once() {
    let mut radar = Radar::ready(2);
    let id = radar.subscribe(SHARD_0, Latest).unwrap();
    radar.bench.merge(SHARD_0, SHARD_1).unwrap();
    let event = radar.event(id);
    assert!(event.records.is_empty());
    assert_eq!(event.child_shards[0].parent_shards.len(), 2);
}

#[test]
fn records_that_the_retention_has_outlived_are_not_given_even_to_who_is_subscribed() {
    let mut radar = Radar::ready(1);
    radar.bench.put("old");
    radar.bench.pass(24 * HOUR - 1_000);
    radar.bench.put("new");
    let id = radar.subscribe(SHARD_0, TrimHorizon).unwrap();
    radar.bench.pass(2_000);
    assert_eq!(texts(&radar.event(id)), ["new"]);
}

#[test]
fn a_second_subscription_is_refused_for_five_seconds_and_then_takes_over() {
    let mut radar = Radar::ready(2);
    let first = radar.subscribe(SHARD_0, Latest).unwrap();
    radar.subscribe(SHARD_1, Latest).unwrap();
    radar.bench.pass(4_999);
    assert_eq!(code(radar.subscribe(SHARD_0, Latest)), "ResourceInUseException");
    radar.bench.pass(1);
    let second = radar.subscribe(SHARD_0, Latest).unwrap();
    assert_eq!(Vec::from_iter(radar.bench.model.take_woken()), [first]);
    let SubscriptionEnd::Failed(error) = radar.end(first) else { panic!("still running") };
    assert_eq!(error.code(), "ResourceInUseException");
    assert_eq!(radar.wait(second), 5_000);
}

#[test]
fn a_reader_that_hangs_up_does_not_shorten_the_five_seconds() {
    let mut radar = Radar::ready(1);
    let first = radar.subscribe(SHARD_0, Latest).unwrap();
    radar.bench.model.cancel_subscription(first);
    assert_eq!(radar.end(first), SubscriptionEnd::Unknown);
    assert_eq!(code(radar.subscribe(SHARD_0, Latest)), "ResourceInUseException");
    radar.bench.pass(5_000);
    radar.subscribe(SHARD_0, Latest).unwrap();
}

#[test]
fn two_consumers_read_a_shard_without_disturbing_each_other() {
    let mut radar = Radar::ready(1);
    let first = radar.subscribe(SHARD_0, TrimHorizon).unwrap();
    radar.arn = radar.bench.register("flights", "tower").unwrap().consumer_arn;
    let second = radar.subscribe(SHARD_0, TrimHorizon).unwrap();
    radar.bench.put("a");
    assert_eq!(texts(&radar.event(first)), ["a"]);
    assert_eq!(texts(&radar.event(second)), ["a"]);
}

#[test]
fn a_consumer_subscribes_only_while_it_is_active() {
    let transition = Duration::from_secs(10);
    let mut radar = Radar::new(Settings { transition, ..Default::default() }, 1);
    assert_eq!(code(radar.subscribe(SHARD_0, Latest)), "ResourceInUseException");
    radar.bench.pass(10_000);
    let id = radar.subscribe(SHARD_0, Latest).unwrap();
    let target = ConsumerTarget::by_arn(radar.arn.clone());
    radar.bench.model.deregister_stream_consumer(&target, radar.bench.now).unwrap();
    let SubscriptionEnd::Failed(error) = radar.end(id) else { panic!("still running") };
    assert_eq!(error.code(), "ResourceNotFoundException");
    radar.bench.pass(5_000);
    assert_eq!(code(radar.subscribe(SHARD_0, Latest)), "ResourceInUseException");
    radar.bench.pass(5_000);
    assert_eq!(code(radar.subscribe(SHARD_0, Latest)), "ResourceNotFoundException");
}

#[test]
fn a_subscription_ends_with_its_stream() {
    let mut radar = Radar::ready(1);
    let id = radar.subscribe(SHARD_0, Latest).unwrap();
    let flights = StreamTarget::from("flights");
    assert_eq!(code(radar.bench.model.delete_stream(&flights, radar.bench.now)), "ResourceInUseException");
    radar.bench.model.delete_stream_and_consumers(&flights, radar.bench.now).unwrap();
    assert_eq!(Vec::from_iter(radar.bench.model.take_woken()), [id]);
    let SubscriptionEnd::Failed(error) = radar.end(id) else { panic!("still running") };
    assert_eq!(error.code(), "ResourceNotFoundException");
}

#[test]
fn a_stream_that_is_being_deleted_serves_no_subscription() {
    let transition = Duration::from_secs(10);
    let mut radar = Radar::new(Settings { transition, ..Default::default() }, 1);
    radar.bench.pass(10_000);
    let id = radar.subscribe(SHARD_0, Latest).unwrap();
    radar.bench.pass(5_000);
    radar.bench.model.delete_stream_and_consumers(&"flights".into(), radar.bench.now).unwrap();
    let SubscriptionEnd::Failed(error) = radar.end(id) else { panic!("still running") };
    assert_eq!(error.code(), "ResourceNotFoundException");
    assert_eq!(code(radar.subscribe(SHARD_0, Latest)), "ResourceNotFoundException");
}

#[test]
fn a_position_that_the_shard_cannot_have_is_refused() {
    let mut radar = Radar::ready(2);
    let elsewhere = radar.bench.put("x");
    let other = if elsewhere.shard_id.as_str() == SHARD_0 { SHARD_1 } else { SHARD_0 };
    let later = Timestamp::from_millis(radar.bench.now.as_millis() + 1);
    for position in [
        AtSequenceNumber("1".to_owned()),
        AfterSequenceNumber(elsewhere.sequence_number.to_string()),
        AtTimestamp(later),
    ] {
        assert_eq!(code(radar.subscribe(other, position)), "InvalidArgumentException");
    }
    assert_eq!(code(radar.subscribe("shardId-000000000007", Latest)), "ResourceNotFoundException");
    radar.arn = radar.arn.replace("radar", "tower");
    assert_eq!(code(radar.subscribe(SHARD_0, Latest)), "ResourceNotFoundException");
    radar.arn = "radar".to_owned();
    assert_eq!(code(radar.subscribe(SHARD_0, Latest)), "ValidationException");
}

#[test]
fn under_limits_a_subscription_gives_two_mebibytes_a_second() {
    let mut radar = Radar::new(Settings { limits: true, ..Default::default() }, 1);
    for _ in 0..16 {
        radar.bench.put_entry(PutRecordsEntry::new("k", vec![0; (1 << 20) - 1])).unwrap();
        radar.bench.pass(1_000);
    }
    let id = radar.subscribe(SHARD_0, TrimHorizon).unwrap();
    let (start, mut bytes) = (radar.bench.now, 0);
    while bytes < 16 << 20 {
        match radar.next(id) {
            NextEvent::Event(event) => {
                bytes += event.records.iter().map(|record| record.size()).sum::<usize>();
            }
            NextEvent::NotBefore(instant) => radar.bench.now = instant,
            NextEvent::Ended(end) => panic!("{end:?}"),
        }
    }
    let took = radar.bench.now.millis_since(start);
    assert!((6_000..9_000).contains(&took), "{took} ms");
}

#[test]
fn subscriptions_are_bounded_and_one_that_ends_makes_room_for_another() {
    let shards = u32::try_from(MAX_SUBSCRIPTIONS).unwrap();
    let mut radar = Radar::ready(shards);
    let shard = |number: usize| format!("shardId-{number:012}");
    let ids: Vec<_> =
        (0..MAX_SUBSCRIPTIONS).map(|number| radar.subscribe(&shard(number), Latest).unwrap()).collect();
    radar.arn = radar.bench.register("flights", "another").unwrap().consumer_arn;
    assert_eq!(code(radar.subscribe(SHARD_0, Latest)), "LimitExceededException");
    radar.bench.model.cancel_subscription(ids[7]);
    radar.subscribe(SHARD_0, Latest).unwrap();
}
