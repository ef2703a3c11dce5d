//! Rows of the lease table that are wrong, and a table that takes no new ones.

use std::collections::BTreeSet;

use actix::Actor;
use actix_kinesis::consumer::{ConsumerNotice, FailureDecision, KinesisConsumer, Placement};
use kinesis_record::{Checkpoint, Position, ShardId};

use super::world::{Fault, Place};
use super::{HOUR, MINUTE, SECOND, conf, new_notes, pass, start_noting};
use crate::logs::Logs;
use crate::recorder::{Noted, Recorder};

fn read_by(consumer: &KinesisConsumer) -> BTreeSet<ShardId> {
    consumer.status().shards.into_iter().map(|shard| shard.shard).collect()
}

fn unread(noted: &Noted) -> Vec<Vec<ShardId>> {
    let shards = |notice: &ConsumerNotice| match notice {
        ConsumerNotice::Unread { shards } => Some(shards.clone()),
        _ => None,
    };
    noted.notices.iter().filter_map(shards).collect()
}

/// A position that no stream comes to.
fn far_ahead() -> Checkpoint {
    Checkpoint::At(Position::new("9".repeat(60).parse().unwrap(), 0))
}

#[actix::test]
async fn a_position_ahead_of_the_stream_stops_its_shard_with_an_error_and_skips_nothing() {
    tokio::time::pause();
    let logs = Logs::of_this_thread();
    let place = Place::new(2);
    let shards = place.open_shards();
    let (wrong, right) = (&shards[0], &shards[1]);
    let keys = [place.key_of(&wrong.id), place.key_of(&right.id)];
    place.seed(wrong, None, far_ahead());
    place.seed(right, None, Checkpoint::TrimHorizon);
    keys.iter().for_each(|key| drop(place.put(key, "early")));
    let notes = new_notes();
    let consumer = start_noting(conf(), place.connect().0, Recorder::new(&notes));
    pass(MINUTE).await;
    keys.iter().for_each(|key| drop(place.put(key, "late")));
    pass(HOUR).await;

    let noted = notes.now();
    assert!(noted.deliveries.iter().all(|delivery| delivery.shard == right.id.as_str()));
    assert_eq!(noted.payloads(), ["early", "late"]);
    let stopped = noted.notices.iter().filter_map(|notice| match notice {
        ConsumerNotice::ShardStopped { shard, cause, decision } => Some((shard, cause, decision)),
        _ => None,
    });
    let stopped: Vec<_> = stopped.collect();
    let [(shard, cause, FailureDecision::StopShard)] = stopped[..] else { panic!("{stopped:?}") };
    assert_eq!(*shard, wrong.id);
    for part in [wrong.id.as_str(), &"9".repeat(60), "\"test-orders\""] {
        assert!(cause.contains(part), "{part}: {cause}");
    }
    assert_eq!(logs.with(&["ERROR"]).len(), 1, "{:?}", logs.with(&["ERROR"]));
    assert_eq!(logs.with(&["expired before"]), [] as [String; 0]);
    assert_eq!(place.checkpoint(&wrong.id).as_deref(), Some(far_ahead().text()));
    assert_eq!(consumer.status().unread, std::slice::from_ref(&wrong.id));
    assert_eq!(consumer.status().stopped.len(), 1);

    place.rows().get_mut(&wrong.id).unwrap().checkpoint = Checkpoint::TrimHorizon;
    consumer.resume(&wrong.id).await.unwrap();
    pass(MINUTE).await;
    assert_eq!(notes.now().payloads(), ["early", "late", "early", "late"]);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn shards_whose_rows_become_unreadable_are_lost_once_and_told_of_until_they_can_be_read() {
    tokio::time::pause();
    let logs = Logs::of_this_thread();
    let place = Place::new(3);
    let notes = [new_notes(), new_notes()];
    let start = |index: usize| start_noting(conf(), place.connect().0, Recorder::new(&notes[index]));
    let consumers = [start(0), start(1)];
    pass(2 * MINUTE).await;
    let shards: Vec<ShardId> = place.open_shards().into_iter().map(|shard| shard.id).collect();
    let bad = &shards[..2];
    let rows = place.rows().clone();
    place.make_unreadable(bad.iter().cloned());
    pass(11 * MINUTE).await;
    for (notes, consumer) in notes.iter().zip(&consumers) {
        assert_eq!(unread(&notes.now()), [bad.to_vec()]);
        assert_eq!(consumer.status().unread, bad);
    }
    let is_loss = |notice: &&ConsumerNotice| matches!(notice, ConsumerNotice::LeaseLost { .. });
    let losses: usize = notes.iter().map(|notes| notes.now().notices.iter().filter(is_loss).count()).sum();
    assert_eq!(losses, 2, "each is lost once");
    let warnings = logs.with(&["WARN", "no instance reads", "cannot be read"]).len();
    assert!((4..=6).contains(&warnings), "each instance tells it each five minutes: {warnings}");
    for shard in bad {
        assert!(place.rows()[shard].counter <= rows[shard].counter + 2, "the row is left alone");
    }

    place.make_unreadable([]);
    shards.iter().for_each(|shard| drop(place.put(&place.key_of(shard), "again")));
    pass(2 * MINUTE).await;
    let read: BTreeSet<ShardId> = consumers.iter().flat_map(read_by).collect();
    assert_eq!(read, shards.into_iter().collect());
    for (notes, consumer) in notes.iter().zip(&consumers) {
        assert_eq!(unread(&notes.now()).last(), Some(&Vec::new()));
        assert!(consumer.status().unread.is_empty());
    }
    for consumer in consumers {
        assert!(consumer.stop().await.unwrap().is_clean());
    }
}

#[actix::test]
async fn rows_that_may_not_be_created_cost_few_calls_and_one_line() {
    tokio::time::pause();
    let logs = Logs::of_this_thread();
    let place = Place::new(50);
    let (world, network) = place.connect();
    network.fail(|call| if call == "create" { Fault::Denied } else { Fault::None });
    let consumer = start_noting(conf(), world, Recorder::new(&new_notes()));
    pass(HOUR).await;
    let calls = network.calls("create");
    assert!((300..500).contains(&calls), "{calls}");
    assert_eq!(logs.with(&["create: refused"]).len(), 1, "{:?}", logs.with(&["create: refused"]));
    network.heal();
    pass(MINUTE).await;
    assert_eq!(read_by(&consumer).len(), 50);
    assert_eq!(logs.with(&["calls succeed again"]).len(), 1);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_deleted_table_is_made_again_without_a_call_for_somebody_to_act() {
    tokio::time::pause();
    let logs = Logs::of_this_thread();
    let place = Place::new(4);
    let (world, network) = place.connect();
    let consumer = start_noting(conf(), world, Recorder::new(&new_notes()));
    pass(MINUTE).await;
    network.fail(|call| if call == "write" { Fault::Missing } else { Fault::None });
    pass(5 * SECOND).await;
    network.heal();
    pass(MINUTE).await;
    assert!(!logs.with(&["no such table"]).is_empty());
    assert_eq!(logs.with(&["until somebody acts"]), [] as [String; 0]);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn two_processes_under_one_worker_id_are_told_of() {
    tokio::time::pause();
    let place = Place::new(2);
    let mut conf = conf();
    conf.lease.worker_id = Some("orders-1".to_owned());
    let first = start_noting(conf.clone(), place.connect().0, Recorder::new(&new_notes()));
    pass(MINUTE).await;
    let logs = Logs::of_this_thread();
    // One of the same chance would draw the same tokens.
    let second = KinesisConsumer::builder(conf, Recorder::new(&new_notes()).start())
        .world(place.connect().0)
        .placement(Placement::CurrentThread)
        .seed(2)
        .start()
        .unwrap();
    pass(HOUR).await;
    let lines = logs.with(&["ERROR", "same worker id", "orders-1"]);
    assert!((1..=2).contains(&lines.len()), "{lines:?}");
    assert!(second.stop().await.unwrap().is_clean());
    assert!(first.stop().await.unwrap().is_clean());
}
