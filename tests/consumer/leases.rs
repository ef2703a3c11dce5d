//! The lease table: what is taken, kept, released and left alone.

use std::time::{Duration, SystemTime};

use actix::Actor;
use actix_kinesis::config::InitialPosition;
use actix_kinesis::consumer::{ConsumerNotice, ConsumerState, EventProcessed, ShutdownReason};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use kinesis_local::LocalAws;
use kinesis_local::faults::Fault;

use crate::support::*;

/// Creates the lease table as a KCL would.
async fn create_table(aws: &LocalAws, table: &str) {
    let key =
        AttributeDefinition::builder().attribute_name("leaseKey").attribute_type(ScalarAttributeType::S);
    let schema = KeySchemaElement::builder().attribute_name("leaseKey").key_type(KeyType::Hash);
    dynamodb(aws)
        .create_table()
        .table_name(table)
        .attribute_definitions(key.build().unwrap())
        .key_schema(schema.build().unwrap())
        .billing_mode(BillingMode::PayPerRequest)
        .send()
        .await
        .unwrap();
}

/// Writes a row as KCL 1.x does: without hash keys.
async fn seed(aws: &LocalAws, table: &str, shard: &str, owner: Option<&str>, counter: i64, checkpoint: &str) {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let number = |number: i64| AttributeValue::N(number.to_string());
    let mut put = dynamodb(aws)
        .put_item()
        .table_name(table)
        .item("leaseKey", text(shard))
        .item("leaseCounter", number(counter))
        .item("ownerSwitchesSinceCheckpoint", number(0))
        .item("checkpoint", text(checkpoint))
        .item("checkpointSubSequenceNumber", number(0))
        .item("somethingElse", text("kept"));
    if let Some(owner) = owner {
        put = put.item("leaseOwner", text(owner));
    }
    put.send().await.unwrap();
}

fn shard_id(aws: &LocalAws, index: usize) -> String {
    aws.shards(STREAM).unwrap()[index].id.to_string()
}

#[actix::test]
async fn rows_are_as_the_kcl_writes_them() {
    let aws = local_aws(1).await;
    aws.put(STREAM, "key", "only").unwrap();
    let parent = shard_id(&aws, 0);
    let notes = new_notes();
    let conf = quick_conf(&aws);
    let table = conf.table_name();
    let consumer = builder(conf, Recorder::new(&notes).start()).start().unwrap();
    notes.wait_for("the record", |noted| !noted.deliveries.is_empty()).await;
    let children = aws.split(STREAM, &parent).unwrap();
    eventually("the children are leased", async || rows(&aws, &table).await.len() == 3).await;
    eventually("the parent is at its end", async || {
        text(&rows(&aws, &table).await[&parent], "checkpoint").as_deref() == Some("SHARD_END")
    })
    .await;
    let rows = rows(&aws, &table).await;
    let child = &rows[children[0].as_str()];
    assert_eq!(text(child, "checkpoint").as_deref(), Some("TRIM_HORIZON"));
    assert_eq!(number(child, "checkpointSubSequenceNumber"), Some(0));
    assert_eq!(child["parentShardId"], AttributeValue::Ss(vec![parent.clone()]));
    assert_eq!(text(child, "startingHashKey").as_deref(), Some("0"));
    let AttributeValue::Ss(mut listed) = rows[&parent]["childShardIds"].clone() else {
        panic!("a string set")
    };
    listed.sort();
    assert_eq!(listed, children.map(|child| child.to_string()));
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn the_lease_of_a_dead_worker_is_taken_after_the_failover_time_behind_its_checkpoint() {
    let aws = local_aws(1).await;
    let sequences: Vec<String> = (0..10)
        .map(|index| aws.put(STREAM, "key", index.to_string()).unwrap().sequence_number.to_string())
        .collect();
    let notes = new_notes();
    let mut conf = quick_conf(&aws);
    conf.lease.failover_time = SHORT_LEASE;
    let table = conf.table_name();
    create_table(&aws, &table).await;
    seed(&aws, &table, &shard_id(&aws, 0), Some("ghost"), 7, &sequences[3]).await;
    let consumer = builder(conf, Recorder::new(&notes).start()).start().unwrap();
    let noted = notes.wait_for("the rest", |noted| noted.payloads().contains(&"9")).await;
    // On a machine that stands still, a lease so short is lost and its records come again.
    assert_eq!(noted.first_by_key()["key"], ["4", "5", "6", "7", "8", "9"]);
    let row = rows(&aws, &table).await.remove(&shard_id(&aws, 0)).unwrap();
    assert!(number(&row, "leaseCounter").unwrap() > 7, "the counter goes on, never back");
    assert_eq!(text(&row, "somethingElse").as_deref(), Some("kept"));
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_checkpoint_at_the_very_end_of_a_closed_shard_is_its_end_though_the_service_refuses_it() {
    let aws = local_aws(1).await;
    let parent = shard_id(&aws, 0);
    (0..3).for_each(|number| drop(aws.put(STREAM, "key", number.to_string()).unwrap()));
    let children = aws.split(STREAM, &parent).unwrap();
    let keys = keys_by_shard(&aws);
    children.iter().for_each(|child| drop(aws.put(STREAM, &keys[child.as_str()], "of a child").unwrap()));
    let end = aws.shards(STREAM).unwrap()[0].ending_sequence.clone().unwrap();
    let notes = new_notes();
    let conf = quick_conf(&aws);
    let table = conf.table_name();
    create_table(&aws, &table).await;
    seed(&aws, &table, &parent, None, 5, end.as_str()).await;
    let refused =
        aws.faults().add(Fault::on("GetShardIterator").shard(&parent).error("InvalidArgumentException"));
    let consumer = start_noting(conf, &notes);
    let noted = notes.wait_for("the children", |noted| noted.deliveries.len() == 2).await;
    assert_eq!(noted.payloads(), ["of a child"; 2]);
    assert_eq!(text(&rows(&aws, &table).await[&parent], "checkpoint").as_deref(), Some("SHARD_END"));
    assert_eq!(refused.fired(), 1, "asked once is asked enough");
    let is_gap = |notice: &ConsumerNotice| matches!(notice, ConsumerNotice::Gap { .. });
    assert!(!noted.notices.iter().any(is_gap), "nothing is missing");
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn finished_leases_are_not_taken_and_hold_up_nothing() {
    let aws = local_aws(2).await;
    aws.put(STREAM, "key", "open").unwrap();
    let notes = new_notes();
    let conf = quick_conf(&aws);
    let table = conf.table_name();
    create_table(&aws, &table).await;
    for index in 100..160 {
        seed(&aws, &table, &format!("shardId-{index:012}"), Some("ghost"), 5, "SHARD_END").await;
    }
    let recorder = Recorder::new(&notes).start();
    let consumer = builder(conf, recorder.clone()).notices(recorder.recipient()).start().unwrap();
    notes.wait_for("the open shards", |noted| !noted.deliveries.is_empty()).await;
    eventually("both are read", async || consumer.status().shards.len() == 2).await;
    let noted = notes.now();
    let started = noted.notices.iter().filter(|notice| matches!(notice, ConsumerNotice::ShardStarted { .. }));
    assert_eq!(started.count(), 2);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn an_open_shard_whose_row_is_at_its_end_is_told_of_and_read_from_its_beginning() {
    let aws = local_aws(2).await;
    let notes = new_notes();
    let mut conf = quick_conf(&aws);
    conf.lease.failover_time = Duration::from_secs(1);
    let table = conf.table_name();
    create_table(&aws, &table).await;
    let impossible = shard_id(&aws, 0);
    seed(&aws, &table, &impossible, None, 5, "SHARD_END").await;
    aws.put(STREAM, &keys_by_shard(&aws)[&impossible], "of the new stream").unwrap();
    let consumer = start_noting(conf, &notes);
    let noted = notes.wait_for("the record", |noted| !noted.deliveries.is_empty()).await;
    assert_eq!(noted.payloads(), ["of the new stream"]);
    let is_told = |notice: &ConsumerNotice| {
        matches!(notice, ConsumerNotice::Gap { shard, detail }
            if shard.as_str() == impossible && detail.contains("made again"))
    };
    assert!(noted.notices.iter().any(is_told), "{:?}", noted.notices);
    eventually("both shards are read", async || consumer.status().shards.len() == 2).await;
    assert!(consumer.stop().await.unwrap().is_clean());
    let row = rows(&aws, &table).await.remove(&impossible).unwrap();
    assert_ne!(text(&row, "checkpoint").as_deref(), Some("SHARD_END"));
}

#[actix::test]
async fn an_owner_changed_by_hand_is_a_lost_lease_and_the_other_shards_go_on() {
    let aws = local_aws(2).await;
    let keys = keys_by_shard(&aws);
    let notes = new_notes();
    let conf = quick_conf(&aws);
    let table = conf.table_name();
    let consumer = start_noting(conf, &notes);
    eventually("both shards are read", async || consumer.status().shards.len() == 2).await;
    let [stolen, other] = [shard_id(&aws, 0), shard_id(&aws, 1)];
    dynamodb(&aws)
        .update_item()
        .table_name(&table)
        .key("leaseKey", AttributeValue::S(stolen.clone()))
        .update_expression("SET leaseOwner = :thief ADD leaseCounter :one")
        .expression_attribute_values(":thief", AttributeValue::S("thief".to_owned()))
        .expression_attribute_values(":one", AttributeValue::N("1".to_owned()))
        .send()
        .await
        .unwrap();
    // Its checkpoint is the first write that is refused.
    aws.put(STREAM, &keys[&stolen], "of the lost shard").unwrap();
    let noted = notes.wait_for("the shutdown", |noted| !noted.shutdowns.is_empty()).await;
    assert_eq!(noted.shutdowns[0].shard.as_str(), stolen);
    assert!(matches!(noted.shutdowns[0].reason, ShutdownReason::LeaseLost(_)));
    aws.put(STREAM, &keys[&other], "of the other shard").unwrap();
    notes.wait_for("the other shard", |noted| noted.payloads().contains(&"of the other shard")).await;
    let read: Vec<_> = consumer.status().shards.into_iter().map(|shard| shard.shard.to_string()).collect();
    assert_eq!(read, [other]);
    let row = rows(&aws, &table).await.remove(&stolen).unwrap();
    assert_eq!(text(&row, "leaseOwner").as_deref(), Some("thief"));
    assert_eq!(text(&row, "checkpoint").as_deref(), Some("TRIM_HORIZON"));
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn started_at_latest_a_shard_starts_at_its_first_record_for_ever() {
    let aws = local_aws(1).await;
    aws.put(STREAM, "key", "before").unwrap();
    let notes = new_notes();
    let mut conf = quick_conf(&aws);
    conf.initial_position = InitialPosition::Latest;
    let table = conf.table_name();
    let recorder = Recorder::answering(&notes, |_| EventProcessed::failed("not this time"));
    let consumer = builder(conf.clone(), recorder.start()).start().unwrap();
    eventually("the shard is read", async || {
        consumer.status().shards.iter().any(|shard| shard.behind.is_some())
    })
    .await;
    let first = aws.put(STREAM, "key", "first").unwrap().sequence_number.to_string();
    notes.wait_for("a failure", |noted| noted.failures.len() > 1).await;
    let row = rows(&aws, &table).await.remove(&shard_id(&aws, 0)).unwrap();
    assert_eq!(text(&row, "checkpoint"), Some(first), "pinned to the first record");
    assert_eq!(number(&row, "checkpointSubSequenceNumber"), Some(-1), "with nothing of it processed");
    consumer.stop().await.unwrap();

    aws.put(STREAM, "key", "second").unwrap();
    let notes = new_notes();
    let consumer = builder(conf, Recorder::new(&notes).start()).start().unwrap();
    let noted = notes.wait_for("both", |noted| noted.deliveries.len() >= 2).await;
    assert_eq!(noted.payloads(), ["first", "second"]);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn started_at_latest_nothing_put_later_is_skipped_by_a_restart_before_the_first_record() {
    let aws = local_aws(1).await;
    aws.put(STREAM, "key", "before").unwrap();
    let mut conf = quick_conf(&aws);
    conf.initial_position = InitialPosition::Latest;
    let idle = builder(conf.clone(), Recorder::new(&new_notes()).start()).start().unwrap();
    eventually("the shard is read", async || idle.status().shards.iter().any(|shard| shard.behind.is_some()))
        .await;
    assert!(idle.stop().await.unwrap().is_clean());

    aws.put(STREAM, "key", "between").unwrap();
    let notes = new_notes();
    let consumer = builder(conf, Recorder::new(&notes).start()).start().unwrap();
    notes.wait_for("a record", |noted| !noted.deliveries.is_empty()).await;
    aws.put(STREAM, "key", "after").unwrap();
    let noted = notes.wait_for("both", |noted| noted.deliveries.len() >= 2).await;
    assert_eq!(noted.payloads(), ["between", "after"]);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn rows_deleted_by_hand_are_made_again_with_the_checkpoints_they_had() {
    let aws = local_aws(1).await;
    let mut conf = quick_conf(&aws);
    conf.initial_position = InitialPosition::Latest;
    conf.lease.failover_time = SHORT_LEASE;
    let table = conf.table_name();
    let notes = new_notes();
    let consumer = builder(conf, Recorder::new(&notes).start()).start().unwrap();
    eventually("the shard is read", async || {
        consumer.status().shards.iter().any(|shard| shard.behind.is_some())
    })
    .await;
    aws.put(STREAM, "key", "0").unwrap();
    notes.wait_for("a record", |noted| noted.deliveries.len() == 1).await;
    dynamodb(&aws).delete_table().table_name(&table).send().await.unwrap();
    for index in 1..50 {
        aws.put(STREAM, "key", index.to_string()).unwrap();
    }
    let noted = notes.wait_for("all records", |noted| noted.payloads().contains(&"49")).await;
    let distinct = noted.first_by_key()["key"].len();
    assert_eq!(distinct, 50);
    eventually("the row is there again", async || rows(&aws, &table).await.len() == 1).await;
    consumer.stop().await.unwrap();
}

#[actix::test]
async fn started_at_an_instant_nothing_older_comes() {
    let aws = local_aws(1).await;
    aws.put(STREAM, "key", "before").unwrap();
    let instant = SystemTime::now() + Duration::from_millis(5);
    eventually("the instant has passed", async || SystemTime::now() > instant + Duration::from_millis(5))
        .await;
    aws.put(STREAM, "key", "after").unwrap();
    let notes = new_notes();
    let mut conf = quick_conf(&aws);
    conf.initial_position = InitialPosition::AtTimestamp(instant);
    let consumer = builder(conf, Recorder::new(&notes).start()).start().unwrap();
    let noted = notes.wait_for("a record", |noted| !noted.deliveries.is_empty()).await;
    assert_eq!(noted.payloads(), ["after"]);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_consumer_stops_at_once_before_it_has_started_and_without_a_shard() {
    let aws = local_aws(1).await;
    let conf = quick_conf(&aws);
    let notes = new_notes();
    let young = builder(conf.clone(), Recorder::new(&notes).start()).start().unwrap();
    assert!(tokio::time::timeout(MINUTE, young.stop()).await.unwrap().unwrap().is_clean());

    let owner = builder(conf.clone(), Recorder::new(&notes).start()).start().unwrap();
    eventually("the shard is read", async || owner.status().shards.len() == 1).await;
    let idle = builder(conf, Recorder::new(&notes).start()).start().unwrap();
    eventually("the other worker runs", async || idle.status().state == ConsumerState::Running).await;
    assert!(tokio::time::timeout(MINUTE, idle.stop()).await.unwrap().unwrap().is_clean());
    assert_eq!(idle.status().state, ConsumerState::Stopped);
    assert!(owner.stop().await.unwrap().is_clean());
    assert!(owner.stop().await.unwrap().is_clean(), "a second stop tells the same");
}

#[actix::test]
async fn the_lease_table_of_another_stream_ends_the_consumer_and_is_left_as_it_is() {
    let aws = local_aws(1).await;
    aws.create_stream("payments", 1).unwrap();
    let conf = quick_conf(&aws);
    let table = conf.table_name();
    let first = builder(conf.clone(), Recorder::new(&new_notes()).start()).start().unwrap();
    eventually("the shard is read", async || first.status().shards.len() == 1).await;
    assert!(first.stop().await.unwrap().is_clean());
    let before = rows(&aws, &table).await;
    let mut other = conf;
    other.stream_name = "payments".to_owned();
    other.lease.table_name = Some(table.clone());
    let consumer = builder(other, Recorder::new(&new_notes()).start()).start().unwrap();
    let error = consumer.finished().await.unwrap_err().to_string();
    assert!([table.as_str(), "payments", STREAM].iter().all(|name| error.contains(name)), "{error}");
    assert_eq!(rows(&aws, &table).await, before);
}

#[actix::test]
async fn a_stream_that_does_not_exist_ends_the_consumer_with_its_name() {
    let aws = local_aws(1).await;
    let mut conf = quick_conf(&aws);
    conf.stream_name = "no-such-stream".to_owned();
    let notes = new_notes();
    let consumer = builder(conf, Recorder::new(&notes).start()).start().unwrap();
    let error = consumer.finished().await.unwrap_err();
    assert!(error.to_string().contains("no-such-stream"), "{error}");
}
