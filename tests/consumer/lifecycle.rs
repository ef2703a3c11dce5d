//! Streams, shards and tables that come and go.

use std::time::{Duration, Instant};

use actix_kinesis::consumer::{ConsumerError, ConsumerNotice};
use futures::future::join_all;
use kinesis_local::LocalAws;
use kinesis_local::faults::{Fault, Selector};
use kinesis_local::model::{Settings, ShardEnd};

use crate::support::*;

const ONLY_SHARD: &str = "shardId-000000000000";

fn put_numbers(aws: &LocalAws, numbers: std::ops::Range<usize>) {
    for number in numbers {
        aws.put(STREAM, "key", number.to_string()).unwrap();
    }
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

fn gaps(noted: &Noted) -> usize {
    noted.notices.iter().filter(|notice| matches!(notice, ConsumerNotice::Gap { .. })).count()
}

fn ends(noted: &Noted) -> Vec<&str> {
    let ended = noted.notices.iter().map(|notice| match notice {
        ConsumerNotice::ShardEnded { shard } => Some(shard.as_str()),
        _ => None,
    });
    ended.flatten().collect()
}

async fn checkpoint(aws: &LocalAws, table: &str, shard: &str) -> Option<String> {
    rows(aws, table).await.get(shard).and_then(|row| text(row, "checkpoint"))
}

/// Services without a stream, which takes so long to be made or deleted.
async fn local_aws_without_stream(transition: Duration) -> LocalAws {
    let settings = Settings { transition, ..Settings::default() };
    start_aws(LocalAws::builder().settings(settings)).await
}

/// Reads so many numbered records to the end and stops, which leaves a table with a checkpoint.
async fn run_once(aws: &LocalAws, count: usize) {
    let notes = new_notes();
    put_numbers(aws, 0..count);
    let consumer = start_noting(quick_conf(aws), &notes);
    notes.wait_for("all records", |noted| noted.deliveries.len() == count).await;
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn the_last_records_of_a_shard_are_delivered_before_its_end_however_the_end_is_told() {
    for shard_end in [ShardEnd::WithLastRecord, ShardEnd::AfterLastRecord] {
        let settings = Settings { shard_end, ..Settings::default() };
        let aws = start_aws(LocalAws::builder().settings(settings).stream(STREAM, 1)).await;
        put_numbers(&aws, 0..10);
        aws.split(STREAM, ONLY_SHARD).unwrap();
        put_numbers(&aws, 10..12);
        let notes = new_notes();
        let conf = quick_conf(&aws);
        let table = conf.table_name();
        let consumer = start_noting(conf, &notes);

        let noted = notes.wait_for("all records", |noted| noted.deliveries.len() >= 12).await;
        assert_eq!(ends(&noted), [ONLY_SHARD]);
        let of_parent = noted.deliveries.iter().take_while(|delivery| delivery.shard == ONLY_SHARD);
        assert_eq!(of_parent.count(), 10);
        assert!(consumer.stop().await.unwrap().is_clean());
        let noted = notes.now();
        assert_eq!(noted.payloads(), numbers(12));
        assert_eq!(checkpoint(&aws, &table, ONLY_SHARD).await.as_deref(), Some("SHARD_END"));
        let reads = aws.calls_of(&Selector::on("GetRecords").shard(ONLY_SHARD));
        assert_eq!(reads, if shard_end == ShardEnd::WithLastRecord { 1 } else { 2 });
    }
}

#[actix::test]
async fn a_child_that_the_list_of_shards_lacks_for_a_while_is_read_all_the_same() {
    join_all([true, false].map(|names_children| async move {
        let aws = local_aws(1).await;
        let children = ["shardId-000000000001", "shardId-000000000002"];
        let hidden = aws.faults().add(Fault::on("ListShards").hide_shards([children[1]]));
        if !names_children {
            aws.faults().add(Fault::on("GetRecords").rewrite(|reply| {
                if let Some(reply) = reply.as_object_mut() {
                    reply.remove("ChildShards");
                }
            }));
        }
        let notes = new_notes();
        let conf = quick_conf(&aws);
        let table = conf.table_name();
        put_numbers(&aws, 0..5);
        let consumer = start_noting(conf, &notes);
        notes.wait_for("the parent's records", |noted| noted.deliveries.len() == 5).await;

        put_numbers(&aws, 5..10);
        assert_eq!(aws.split(STREAM, ONLY_SHARD).unwrap().each_ref().map(|child| child.as_str()), children);
        let keys = keys_by_shard(&aws);
        for child in children {
            aws.put(STREAM, &keys[child], "of a child").unwrap();
        }
        if names_children {
            notes.wait_for("both children", |noted| noted.deliveries.len() >= 12).await;
        }
        let so_far = hidden.fired();
        struck(&hidden, so_far + 2).await;
        if !names_children {
            let noted = notes.now();
            assert!(!noted.payloads().contains(&"of a child"), "a list with a hole tells nothing");
            assert_eq!((ends(&noted), gaps(&noted)), (vec![], 0));
        }
        hidden.remove();
        notes.wait_for("all records", |noted| noted.deliveries.len() >= 12).await;
        assert!(consumer.stop().await.unwrap().is_clean());
        let noted = notes.now();
        assert_eq!(noted.payloads()[..10], numbers(10));
        assert_eq!(noted.payloads()[10..], ["of a child"; 2]);
        assert_eq!((ends(&noted), gaps(&noted)), (vec![ONLY_SHARD], 0));
        assert_eq!(checkpoint(&aws, &table, ONLY_SHARD).await.as_deref(), Some("SHARD_END"));
    }))
    .await;
}

#[actix::test]
async fn a_table_that_is_there_needs_no_permission_to_create_one() {
    let aws = local_aws(1).await;
    run_once(&aws, 3).await;
    let denied = aws.faults().add(Fault::on("CreateTable").error("AccessDeniedException"));
    let notes = new_notes();
    put_numbers(&aws, 3..6);
    let consumer = start_noting(quick_conf(&aws), &notes);
    let noted = notes.wait_for("the new records", |noted| noted.deliveries.len() >= 3).await;
    assert_eq!(noted.payloads(), ["3", "4", "5"]);
    assert_eq!(denied.seen(), 0);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_start_without_the_permission_to_scan_the_table_is_an_error_that_names_it() {
    let aws = local_aws(1).await;
    aws.faults().add(Fault::on("Scan").error("AccessDeniedException"));
    let conf = quick_conf(&aws);
    let table = conf.table_name();
    let error = start_noting(conf, &new_notes()).finished().await.unwrap_err();
    assert!(matches!(error, ConsumerError::LeaseTable(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&table) && text.contains("dynamodb:Scan"), "{text}");
}

#[actix::test]
async fn a_table_that_is_not_seen_at_first_is_used_as_it_is() {
    let aws = local_aws(1).await;
    run_once(&aws, 3).await;
    let unseen = aws.faults().add(Fault::on("DescribeTable").times(1).error("ResourceNotFoundException"));
    let notes = new_notes();
    put_numbers(&aws, 3..6);
    let consumer = start_noting(quick_conf(&aws), &notes);
    let noted = notes.wait_for("the new records", |noted| noted.deliveries.len() >= 3).await;
    assert_eq!(noted.payloads(), ["3", "4", "5"]);
    assert_eq!(unseen.fired(), 1);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_stored_position_that_the_stream_refuses_without_need_is_asked_for_again() {
    let aws = local_aws(1).await;
    run_once(&aws, 5).await;
    let refused = aws.faults().add(Fault::on("GetShardIterator").times(1).error("InvalidArgumentException"));
    put_numbers(&aws, 5..10);
    let notes = new_notes();
    let conf = quick_conf(&aws);
    let table = conf.table_name();
    let consumer = start_noting(conf, &notes);
    notes.wait_for("the new records", |noted| noted.deliveries.len() >= 5).await;
    assert!(consumer.stop().await.unwrap().is_clean());

    let noted = notes.now();
    assert_eq!(noted.payloads(), ["5", "6", "7", "8", "9"], "what is checkpointed does not come again");
    assert_eq!((refused.fired(), gaps(&noted)), (1, 0));
    let last = noted.deliveries.last().map(|delivery| delivery.sequence.clone());
    assert_eq!(checkpoint(&aws, &table, ONLY_SHARD).await, last);
}

#[actix::test]
async fn a_deleted_stream_ends_no_shard_is_asked_for_ever_less_often_and_stopped_in_time() {
    let aws = local_aws(1).await;
    let notes = new_notes();
    let conf = quick_conf(&aws);
    let table = conf.table_name();
    put_numbers(&aws, 0..5);
    let consumer = start_noting(conf, &notes);
    let noted = notes.wait_for("all records", |noted| noted.deliveries.len() == 5).await;
    let last = noted.deliveries[4].sequence.clone();

    let [read, opened] = ["GetRecords", "GetShardIterator"].map(|call| aws.faults().add(Fault::on(call)));
    let since = Instant::now();
    aws.with_model(|model, now| model.delete_stream(&STREAM.into(), now)).unwrap();
    struck(&opened, 4).await;
    // Pauses of 200, 400, 800 and 1600 ms, of which each may be half.
    assert!(since.elapsed() >= Duration::from_millis(1500), "{:?}", since.elapsed());
    assert_eq!(read.seen(), 1, "there is nothing to read without an iterator");
    let stop = consumer.stop_within(60 * MINUTE);
    let stopped = tokio::time::timeout(MINUTE, stop).await.unwrap().unwrap();
    assert!(stopped.is_clean(), "{stopped:?}");
    let noted = notes.now();
    assert_eq!((noted.payloads().len(), ends(&noted).len()), (5, 0));
    assert_eq!(checkpoint(&aws, &table, ONLY_SHARD).await, Some(last));
}

#[actix::test]
async fn a_stream_made_again_under_its_name_is_read_from_its_beginning_with_a_gap_told() {
    let aws = local_aws_without_stream(Duration::ZERO).await;
    aws.create_stream(STREAM, 1).unwrap();
    let notes = new_notes();
    let conf = quick_conf(&aws);
    let table = conf.table_name();
    put_numbers(&aws, 0..5);
    let consumer = start_noting(conf, &notes);
    notes.wait_for("the first records", |noted| noted.deliveries.len() == 5).await;

    let unknown = aws.faults().add(Fault::on("GetShardIterator"));
    aws.with_model(|model, now| model.delete_stream(&STREAM.into(), now)).unwrap();
    struck(&unknown, 1).await;
    aws.create_stream(STREAM, 1).unwrap();
    put_numbers(&aws, 5..10);
    let noted = notes.wait_for("the new records", |noted| noted.deliveries.len() >= 10).await;
    let last = noted.deliveries.last().map(|delivery| delivery.sequence.clone());
    eventually("the checkpoint is in the new stream", async || {
        checkpoint(&aws, &table, ONLY_SHARD).await == last
    })
    .await;
    assert!(consumer.stop().await.unwrap().is_clean());
    let noted = notes.now();
    assert_eq!(noted.payloads(), numbers(10));
    assert_eq!((ends(&noted).len(), gaps(&noted)), (0, 1));
}

#[actix::test]
async fn the_end_of_a_shard_is_stored_once_though_the_reply_to_it_is_lost() {
    let aws = local_aws(1).await;
    let notes = new_notes();
    let conf = quick_conf(&aws);
    // The writes to the parent's row are its checkpoint and its end, since no renewal is due.
    let table = conf.table_name();
    let consumer = start_noting(conf, &notes);
    let starts = |noted: &Noted| {
        let is_started = |notice: &&ConsumerNotice| matches!(notice, ConsumerNotice::ShardStarted { .. });
        noted.notices.iter().filter(is_started).count()
    };
    notes.wait_for("the start", |noted| starts(noted) == 1).await;

    let lost = aws.faults().add(Fault::on("UpdateItem").table(&table).key(ONLY_SHARD).times(2).lose_reply());
    aws.split(STREAM, ONLY_SHARD).unwrap();
    put_numbers(&aws, 0..5);
    notes.wait_for("the child's records", |noted| noted.deliveries.len() >= 5 && starts(noted) == 3).await;
    assert!(lost.fired() >= 1);
    assert!(consumer.stop().await.unwrap().is_clean());
    let noted = notes.now();
    assert_eq!(noted.payloads(), numbers(5));
    assert_eq!((ends(&noted), gaps(&noted)), (vec![ONLY_SHARD], 0));
    assert_eq!(checkpoint(&aws, &table, ONLY_SHARD).await.as_deref(), Some("SHARD_END"));
}

#[actix::test]
async fn a_stop_is_clean_though_the_replies_to_its_last_writes_are_lost() {
    let aws = local_aws(1).await;
    let notes = new_notes();
    let mut conf = quick_conf(&aws);
    conf.checkpointer.interval = Duration::from_secs(60);
    let table = conf.table_name();
    let consumer = start_noting(conf, &notes);
    put_numbers(&aws, 0..5);
    notes.wait_for("all records", |noted| noted.deliveries.len() == 5).await;
    let lost = aws.faults().add(Fault::on("UpdateItem").table(&table).times(2).lose_reply());
    let stopped = consumer.stop().await.unwrap();
    assert!(stopped.is_clean() && lost.fired() >= 1, "{stopped:?}");
    let rows = rows(&aws, &table).await;
    let last = notes.now().deliveries.last().map(|delivery| delivery.sequence.clone());
    assert_eq!(text(&rows[ONLY_SHARD], "checkpoint"), last);
    assert_eq!(text(&rows[ONLY_SHARD], "leaseOwner"), None);
}

#[actix::test]
async fn a_stream_that_takes_its_time_to_go_and_to_come_again_ends_no_shard() {
    let aws = local_aws_without_stream(Duration::from_millis(500)).await;
    aws.create_stream(STREAM, 1).unwrap();
    eventually("the stream is there", async || aws.put(STREAM, "key", "0").is_ok()).await;
    let notes = new_notes();
    let conf = quick_conf(&aws);
    let table = conf.table_name();
    let consumer = start_noting(conf, &notes);
    notes.wait_for("the first record", |noted| noted.deliveries.len() == 1).await;

    let asked = aws.faults().add(Fault::on("GetRecords"));
    aws.with_model(|model, now| model.delete_stream(&STREAM.into(), now)).unwrap();
    struck(&asked, 1).await;
    eventually("the name is free", async || aws.create_stream(STREAM, 1).is_ok()).await;
    eventually("the stream is there again", async || aws.put(STREAM, "key", "1").is_ok()).await;
    notes.wait_for("the second record", |noted| noted.deliveries.len() == 2).await;
    assert!(consumer.stop().await.unwrap().is_clean());
    let noted = notes.now();
    assert_eq!(noted.payloads(), numbers(2));
    assert_eq!((ends(&noted).len(), gaps(&noted)), (0, 1));
    let last = noted.deliveries.last().map(|delivery| delivery.sequence.clone());
    assert_eq!(checkpoint(&aws, &table, ONLY_SHARD).await, last);
}
