//! Calls that are refused, answered wrongly or not at all.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use actix_kinesis::consumer::{ConsumerNotice, ConsumerState};
use futures::future::join_all;
use kinesis_local::LocalAws;
use kinesis_local::faults::Fault;

use crate::support::*;

/// What may happen to any call and be over at the next: each a fault for one call.
const PASSING: [fn(Fault) -> Fault; 5] = [
    |fault| fault.error("ProvisionedThroughputExceededException"),
    |fault| fault.error("LimitExceededException"),
    |fault| fault.error("InternalFailure"),
    |fault| fault.error("ServiceUnavailable"),
    Fault::reset,
];

fn put_numbers(aws: &LocalAws, keys: &BTreeMap<String, String>, numbers: Range<usize>) {
    for number in numbers {
        for key in keys.values() {
            aws.put(STREAM, key, number.to_string()).unwrap();
        }
    }
}

/// Each key's records came once and in order, and nothing else happened to their shards.
fn assert_undisturbed(noted: &Noted, keys: &BTreeMap<String, String>, count: usize) {
    let wanted: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    for (shard, key) in keys {
        let deliveries = noted.deliveries.iter().filter(|delivery| delivery.key == *key);
        let payloads: Vec<&str> = deliveries.map(|delivery| delivery.payload.as_str()).collect();
        assert_eq!(payloads, wanted, "{shard}");
    }
    for notice in &noted.notices {
        let is_calm = matches!(notice, ConsumerNotice::Started { .. } | ConsumerNotice::ShardStarted { .. });
        assert!(is_calm, "{notice:?}");
    }
}

/// Every shard's row has the last of its records as checkpoint.
async fn assert_checkpoints(aws: &LocalAws, table: &str, noted: &Noted) {
    for (shard, row) in rows(aws, table).await {
        let last = noted.deliveries.iter().rev().find(|delivery| delivery.shard == shard);
        let last = last.map_or("TRIM_HORIZON", |delivery| &delivery.sequence);
        assert_eq!(text(&row, "checkpoint").as_deref(), Some(last), "{shard}");
    }
}

/// Each shard meets another of the passing failures once, in calls of this operation that are about it.
async fn one_failure_per_shard(operation: &str) {
    let aws = local_aws(PASSING.len() as u32).await;
    let keys = keys_by_shard(&aws);
    put_numbers(&aws, &keys, 0..5);
    let faults = keys.keys().zip(PASSING).map(|(shard, fail)| {
        let fault = Fault::on(operation).shard(shard).times(1);
        aws.faults().add(fail(fault))
    });
    let faults: Vec<_> = faults.collect();
    let notes = new_notes();
    let conf = quick_conf(&aws);
    let table = conf.table_name();
    let consumer = start_noting(conf, &notes);

    join_all(faults.iter().map(|fault| struck(fault, 1))).await;
    put_numbers(&aws, &keys, 5..10);
    notes.wait_for("all records", |noted| noted.deliveries.len() >= 10 * keys.len()).await;
    assert!(consumer.stop().await.unwrap().is_clean());
    let noted = notes.now();
    assert_undisturbed(&noted, &keys, 10);
    assert_checkpoints(&aws, &table, &noted).await;
}

#[actix::test]
async fn a_failed_read_costs_no_record_and_ends_no_shard() {
    one_failure_per_shard("GetRecords").await;
}

#[actix::test]
async fn an_iterator_that_is_not_given_at_first_costs_no_record_and_ends_no_shard() {
    one_failure_per_shard("GetShardIterator").await;
}

#[actix::test]
async fn a_list_of_shards_that_fails_at_first_costs_no_record_and_ends_no_shard() {
    join_all(PASSING.map(|fail| async move {
        let aws = local_aws(2).await;
        let keys = keys_by_shard(&aws);
        put_numbers(&aws, &keys, 0..5);
        let at_first = aws.faults().add(fail(Fault::on("ListShards").times(1)));
        let later = aws.faults().add(fail(Fault::on("ListShards").skip(1).times(1)));
        let notes = new_notes();
        let conf = quick_conf(&aws);
        let table = conf.table_name();
        let consumer = start_noting(conf, &notes);

        struck(&at_first, 1).await;
        struck(&later, 1).await;
        put_numbers(&aws, &keys, 5..10);
        notes.wait_for("all records", |noted| noted.deliveries.len() >= 10 * keys.len()).await;
        assert!(consumer.stop().await.unwrap().is_clean());
        let noted = notes.now();
        assert_undisturbed(&noted, &keys, 10);
        assert_checkpoints(&aws, &table, &noted).await;
    }))
    .await;
}

#[actix::test]
async fn it_starts_though_the_list_of_shards_is_throttled_again_and_again() {
    let aws = local_aws(1).await;
    let keys = keys_by_shard(&aws);
    put_numbers(&aws, &keys, 0..3);
    let throttled = aws.faults().add(Fault::on("ListShards").times(4).error("LimitExceededException"));
    let notes = new_notes();
    let consumer = start_noting(quick_conf(&aws), &notes);
    struck(&throttled, 3).await;
    assert_eq!(consumer.status().state, ConsumerState::Starting);
    notes.wait_for("all records", |noted| noted.deliveries.len() >= 3).await;
    assert!(consumer.stop().await.unwrap().is_clean());
    assert_undisturbed(&notes.now(), &keys, 3);
}

#[actix::test]
async fn a_key_that_cannot_be_used_for_a_while_skips_no_record_and_ends_no_shard() {
    let codes = [
        "KMSThrottlingException",
        "KMSAccessDeniedException",
        "KMSDisabledException",
        "KMSInvalidStateException",
        "KMSNotFoundException",
        "KMSOptInRequired",
    ];
    let aws = local_aws(codes.len() as u32).await;
    let keys = keys_by_shard(&aws);
    let notes = new_notes();
    let conf = quick_conf(&aws);
    let table = conf.table_name();
    let consumer = start_noting(conf, &notes);
    put_numbers(&aws, &keys, 0..5);
    notes.wait_for("the first records", |noted| noted.deliveries.len() >= 5 * keys.len()).await;

    let refused = keys
        .keys()
        .zip(codes)
        .map(|(shard, code)| aws.faults().add(Fault::on("GetRecords").shard(shard).times(3).error(code)));
    let refused: Vec<_> = refused.collect();
    put_numbers(&aws, &keys, 5..10);
    join_all(refused.iter().map(|fault| struck(fault, 3))).await;
    put_numbers(&aws, &keys, 10..15);
    notes.wait_for("all records", |noted| noted.deliveries.len() >= 15 * keys.len()).await;
    assert!(consumer.stop().await.unwrap().is_clean());
    let noted = notes.now();
    assert_undisturbed(&noted, &keys, 15);
    assert_checkpoints(&aws, &table, &noted).await;
}

#[actix::test]
async fn an_open_shard_is_read_on_after_replies_without_an_iterator() {
    let aws = local_aws(2).await;
    let keys = keys_by_shard(&aws);
    put_numbers(&aws, &keys, 0..5);
    let cut = Fault::on("GetRecords").rewrite(|reply| {
        if let Some(reply) = reply.as_object_mut() {
            reply.remove("NextShardIterator");
            reply.remove("ChildShards");
        }
    });
    // The first reply, which has records, and others that have none.
    let cut = aws.faults().add(cut.times(6));
    let notes = new_notes();
    let conf = quick_conf(&aws);
    let table = conf.table_name();
    let consumer = start_noting(conf, &notes);

    struck(&cut, 6).await;
    put_numbers(&aws, &keys, 5..10);
    notes.wait_for("all records", |noted| noted.deliveries.len() >= 10 * keys.len()).await;
    assert!(consumer.stop().await.unwrap().is_clean());
    let noted = notes.now();
    assert_undisturbed(&noted, &keys, 10);
    assert_checkpoints(&aws, &table, &noted).await;
}

#[actix::test]
async fn iterators_that_expire_again_and_again_lose_and_repeat_nothing() {
    let aws = local_aws(2).await;
    let keys = keys_by_shard(&aws);
    put_numbers(&aws, &keys, 0..5);
    let notes = new_notes();
    let consumer = start_noting(quick_conf(&aws), &notes);
    notes.wait_for("the first records", |noted| noted.deliveries.len() >= 5 * keys.len()).await;

    let faults = keys.keys().map(|shard| {
        let expired = Fault::on("GetRecords").shard(shard).times(3).error("ExpiredIteratorException");
        aws.faults().add(expired)
    });
    let faults: Vec<_> = faults.collect();
    put_numbers(&aws, &keys, 5..10);
    join_all(faults.iter().map(|fault| struck(fault, 3))).await;
    put_numbers(&aws, &keys, 10..15);
    notes.wait_for("all records", |noted| noted.deliveries.len() >= 15 * keys.len()).await;
    assert!(consumer.stop().await.unwrap().is_clean());
    assert_undisturbed(&notes.now(), &keys, 15);
}

#[actix::test]
async fn empty_pages_far_behind_the_tip_are_read_at_the_pace_that_is_allowed() {
    let aws = local_aws(1).await;
    let keys = keys_by_shard(&aws);
    let shard = keys.keys().next().unwrap();
    put_numbers(&aws, &keys, 0..5);
    let empty = aws.faults().add(Fault::on("GetRecords").empty_page());
    let behind = |reply: &mut _| {
        let reply: &mut serde_json::Value = reply;
        reply["MillisBehindLatest"] = 5000.into();
    };
    let behind = aws.faults().add(Fault::on("GetRecords").rewrite(behind));
    let notes = new_notes();
    let since = Instant::now();
    let consumer = start_noting(quick_conf(&aws), &notes);

    struck(&empty, 8).await;
    assert!(since.elapsed() >= Duration::from_millis(7 * 200), "five calls a second and shard");
    let status = consumer.status().shards.remove(0);
    assert_eq!((status.shard.as_str(), status.behind), (shard.as_str(), Some(Duration::from_secs(5))));
    empty.remove();
    behind.remove();
    notes.wait_for("all records", |noted| noted.deliveries.len() >= 5).await;
    assert!(consumer.stop().await.unwrap().is_clean());
    assert_undisturbed(&notes.now(), &keys, 5);
}

async fn one_shard_hangs(hang: fn(Fault) -> Fault) {
    let aws = local_aws(2).await;
    let keys = keys_by_shard(&aws);
    let (hung, free) = (keys.first_key_value().unwrap(), keys.last_key_value().unwrap());
    let notes = new_notes();
    let mut conf = quick_conf(&aws);
    conf.aws.request_timeout = Duration::from_secs(1);
    let hanging = aws.faults().add(hang(Fault::on("GetRecords").shard(hung.0)));
    let consumer = start_noting(conf, &notes);

    struck(&hanging, 1).await;
    for number in 0..10 {
        aws.put(STREAM, hung.1, number.to_string()).unwrap();
        aws.put(STREAM, free.1, number.to_string()).unwrap();
        let has_come = |delivery: &Delivery| {
            (delivery.key.as_str(), delivery.payload.as_str())
                == (free.1.as_str(), number.to_string().as_str())
        };
        notes.wait_for("the other shard", |noted| noted.deliveries.iter().any(has_come)).await;
    }
    assert_eq!(notes.now().deliveries.len(), 10);
    hanging.remove();
    notes.wait_for("all records", |noted| noted.deliveries.len() >= 20).await;
    assert!(consumer.stop().await.unwrap().is_clean());
    assert_undisturbed(&notes.now(), &keys, 10);
}

#[actix::test]
async fn a_read_that_hangs_holds_up_no_other_shard_and_is_given_up_after_its_time() {
    one_shard_hangs(Fault::hang).await;
}

#[actix::test]
async fn a_page_that_stops_in_the_middle_holds_up_no_other_shard_and_is_given_up_after_its_time() {
    one_shard_hangs(Fault::stall_body).await;
}

#[actix::test]
async fn a_read_that_hangs_does_not_hold_up_a_stop() {
    let aws = local_aws(2).await;
    let keys = keys_by_shard(&aws);
    let notes = new_notes();
    let mut conf = quick_conf(&aws);
    conf.aws.request_timeout = 10 * MINUTE;
    let table = conf.table_name();
    put_numbers(&aws, &keys, 0..5);
    let consumer = start_noting(conf, &notes);
    notes.wait_for("all records", |noted| noted.deliveries.len() >= 5 * keys.len()).await;
    let hanging = keys.keys().map(|shard| aws.faults().add(Fault::on("GetRecords").shard(shard).hang()));
    let hanging: Vec<_> = hanging.collect();
    join_all(hanging.iter().map(|fault| struck(fault, 1))).await;

    let stop = consumer.stop_within(60 * MINUTE);
    assert!(tokio::time::timeout(MINUTE, stop).await.unwrap().unwrap().is_clean());
    assert_checkpoints(&aws, &table, &notes.now()).await;
}

#[actix::test]
async fn a_checkpoint_whose_reply_is_lost_is_stored_and_so_are_those_after_it() {
    let aws = local_aws(1).await;
    let keys = keys_by_shard(&aws);
    let notes = new_notes();
    let conf = quick_conf(&aws);
    // The writes of this test are checkpoints, since no renewal is due.
    let table = conf.table_name();
    let consumer = start_noting(conf, &notes);
    let is_started = |notice: &ConsumerNotice| matches!(notice, ConsumerNotice::ShardStarted { .. });
    notes.wait_for("the start", |noted| noted.notices.iter().any(is_started)).await;

    let lost = aws.faults().add(Fault::on("UpdateItem").table(&table).times(1).lose_reply());
    for round in 0..3 {
        put_numbers(&aws, &keys, round * 5..round * 5 + 5);
        let noted = notes.wait_for("the round", |noted| noted.deliveries.len() >= round * 5 + 5).await;
        let last = noted.deliveries.last().map(|delivery| &delivery.sequence);
        eventually("the checkpoint is stored", async || {
            rows(&aws, &table).await.values().all(|row| text(row, "checkpoint").as_ref() == last)
        })
        .await;
    }
    assert_eq!(lost.fired(), 1);
    assert!(consumer.stop().await.unwrap().is_clean());
    let noted = notes.now();
    assert_undisturbed(&noted, &keys, 15);
    assert_checkpoints(&aws, &table, &noted).await;
}

#[actix::test]
async fn while_the_lease_table_is_throttled_delivery_goes_on_and_the_checkpoint_follows() {
    let aws = local_aws(2).await;
    let keys = keys_by_shard(&aws);
    let notes = new_notes();
    let mut conf = quick_conf(&aws);
    conf.checkpointer.backoff.min = Duration::from_millis(50);
    conf.checkpointer.backoff.max = Duration::from_millis(200);
    let table = conf.table_name();
    let consumer = start_noting(conf, &notes);
    let is_started = |notice: &&ConsumerNotice| matches!(notice, ConsumerNotice::ShardStarted { .. });
    notes.wait_for("the start", |noted| noted.notices.iter().filter(is_started).count() == 2).await;

    let throttled = aws.faults().add(Fault::on("UpdateItem").table(&table).throttle());
    put_numbers(&aws, &keys, 0..5);
    struck(&throttled, 3).await;
    put_numbers(&aws, &keys, 5..10);
    notes.wait_for("all records", |noted| noted.deliveries.len() >= 10 * keys.len()).await;
    for row in rows(&aws, &table).await.values() {
        assert_eq!(text(row, "checkpoint").as_deref(), Some("TRIM_HORIZON"));
    }
    throttled.remove();
    eventually("the checkpoints are stored", async || {
        let rows = rows(&aws, &table).await;
        rows.values().all(|row| text(row, "checkpoint").as_deref() != Some("TRIM_HORIZON"))
    })
    .await;
    assert!(consumer.stop().await.unwrap().is_clean());
    let noted = notes.now();
    assert_undisturbed(&noted, &keys, 10);
    assert_checkpoints(&aws, &table, &noted).await;
}

#[actix::test]
async fn a_reply_that_is_lost_or_cut_short_costs_nothing_whatever_the_call() {
    let calls = [
        "DescribeTable",
        "CreateTable",
        "Scan",
        "PutItem",
        "UpdateItem",
        "ListShards",
        "GetShardIterator",
        "GetRecords",
    ];
    let aws = local_aws(2).await;
    let keys = keys_by_shard(&aws);
    let notes = new_notes();
    let conf = quick_conf(&aws);
    let table = conf.table_name();
    put_numbers(&aws, &keys, 0..5);
    let lost = calls.map(|call| {
        let lost = aws.faults().add(Fault::on(call).times(1).lose_reply());
        aws.faults().add(Fault::on(call).times(1).half_body());
        lost
    });
    let consumer = start_noting(conf, &notes);
    notes.wait_for("the first records", |noted| noted.deliveries.len() >= 5 * keys.len()).await;
    put_numbers(&aws, &keys, 5..10);
    notes.wait_for("all records", |noted| noted.deliveries.len() >= 10 * keys.len()).await;
    assert!(consumer.stop().await.unwrap().is_clean());
    assert_eq!(lost.map(|fault| fault.fired()), [1; 8]);
    let noted = notes.now();
    assert_undisturbed(&noted, &keys, 10);
    assert_checkpoints(&aws, &table, &noted).await;
}

#[actix::test]
async fn a_checkpoint_that_hangs_holds_up_no_delivery_and_loses_no_lease() {
    let aws = local_aws(1).await;
    let keys = keys_by_shard(&aws);
    let notes = new_notes();
    let mut conf = quick_conf(&aws);
    conf.aws.request_timeout = Duration::from_secs(2);
    let table = conf.table_name();
    let consumer = start_noting(conf, &notes);
    let is_started = |notice: &ConsumerNotice| matches!(notice, ConsumerNotice::ShardStarted { .. });
    notes.wait_for("the start", |noted| noted.notices.iter().any(is_started)).await;

    let hanging = aws.faults().add(Fault::on("UpdateItem").table(&table).times(1).hang());
    put_numbers(&aws, &keys, 0..5);
    struck(&hanging, 1).await;
    put_numbers(&aws, &keys, 5..10);
    let noted = notes.wait_for("all records", |noted| noted.deliveries.len() >= 10).await;
    let last = noted.deliveries.last().map(|delivery| &delivery.sequence);
    eventually("the checkpoint is stored", async || {
        rows(&aws, &table).await.values().all(|row| text(row, "checkpoint").as_ref() == last)
    })
    .await;
    assert!(consumer.stop().await.unwrap().is_clean());
    assert_undisturbed(&notes.now(), &keys, 10);
}

#[actix::test]
async fn twenty_consumers_find_their_shards_without_describing_the_stream() {
    let aws = local_aws(2).await;
    let keys = keys_by_shard(&aws);
    put_numbers(&aws, &keys, 0..3);
    let described = ["DescribeStream", "DescribeStreamSummary"]
        .map(|call| aws.faults().add(Fault::on(call).error("LimitExceededException")));
    let consumers = (0..20).map(|number| {
        let notes = new_notes();
        let mut conf = quick_conf(&aws);
        conf.application_name = format!("application-{number}");
        (start_noting(conf, &notes), notes)
    });
    let consumers: Vec<_> = consumers.collect();
    for (_, notes) in &consumers {
        notes.wait_for("all records", |noted| noted.deliveries.len() == 6).await;
    }
    let listed = aws.faults().add(Fault::on("ListShards"));
    struck(&listed, 40).await;
    for stopped in join_all(consumers.iter().map(|(consumer, _)| consumer.stop())).await {
        assert!(stopped.unwrap().is_clean());
    }
    assert_eq!(described.map(|call| call.seen()), [0, 0]);
}
