//! How leases and shards are let go.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::Actor;
use actix_kinesis::config::FailurePolicy;
use actix_kinesis::consumer::{EventHandle, EventProcessed, ShutdownReason, Stopped};
use futures::FutureExt;
use futures::future::BoxFuture;
use kinesis_lease::lease::{Lease, LeaseChange, LeaseWrite, NewLease};
use kinesis_lease::store::{Created, Deleted, LeaseStore, Scan, StoreError, Written};
use kinesis_record::ShardId;

use super::world::{Fault, Place};
use super::{HOUR, SECOND, conf, new_notes, pass, start};
use crate::recorder::{Noted, Recorder};

const MILLIS: Duration = Duration::from_millis(1);

/// Fails the calls of a kind from the `first` to the `last` after now, counted from 1.
fn fail_some(
    name: &'static str,
    calls: std::ops::RangeInclusive<u32>,
    fault: Fault,
) -> impl FnMut(&str) -> Fault + Send + 'static {
    let mut seen = 0;
    move |call| {
        seen += u32::from(call == name);
        if call == name && calls.contains(&seen) { fault } else { Fault::None }
    }
}

#[actix::test]
async fn the_lease_of_a_stopped_shard_is_released_though_the_table_refuses_for_a_moment() {
    tokio::time::pause();
    let place = Place::new(1);
    place.put("key", "poison");
    let (world, network) = place.connect();
    let notes = new_notes();
    let recorder = Recorder::answering(&notes, |_| EventProcessed::failed("never"));
    let mut conf = conf();
    conf.worker.failure_policy = FailurePolicy::StopShard;
    // The first write takes the lease, the next ones release it.
    network.fail(fail_some("write", 2..=3, Fault::Throttled));
    let consumer = start(conf, world, recorder.start());
    notes.wait_for("the failure", |noted| !noted.failures.is_empty()).await;
    pass(10 * SECOND).await;
    assert_eq!(consumer.status().shards, []);
    assert!(place.rows().values().all(|row| row.owner.is_none()), "nobody reads a lease that is kept");
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_table_that_refuses_for_a_moment_costs_no_clean_stop() {
    tokio::time::pause();
    let place = Place::new(2);
    let (world, network) = place.connect();
    let consumer = start(conf(), world, Recorder::new(&new_notes()).start());
    pass(4 * SECOND).await;
    network.fail(fail_some("write", 1..=3, Fault::Throttled));
    let begin = tokio::time::Instant::now();
    let stopped = consumer.stop().await.unwrap();
    assert!(stopped.is_clean(), "{stopped:?}");
    assert!(begin.elapsed() < 3 * SECOND, "{:?}", begin.elapsed());
    assert!(place.rows().values().all(|row| row.owner.is_none()));
}

#[actix::test]
async fn a_stop_while_a_shard_is_let_go_anyway_is_clean() {
    tokio::time::pause();
    for after in 0..30 {
        let place = Place::new(4);
        for key in 0..8 {
            place.put(&format!("key-{key}"), key.to_string());
        }
        let (world, _) = place.connect();
        let notes = new_notes();
        let recorder = Recorder::answering(&notes, |message| match message.event.payload() == "3" {
            true => EventProcessed::failed("never"),
            false => EventProcessed::Processed,
        });
        let mut conf = conf();
        conf.worker.failure_policy = FailurePolicy::StopShard;
        let consumer = start(conf, world, recorder.start());
        notes.wait_for("the failure", |noted| !noted.failures.is_empty()).await;
        pass(Duration::from_millis(after)).await;
        let stopped = consumer.stop().await.unwrap();
        assert_eq!((stopped.not_stored, stopped.not_released), (Vec::new(), Vec::new()), "after {after} ms");
    }
}

#[actix::test]
async fn events_of_a_shard_that_waits_to_be_started_again_are_not_settled_by_a_stop() {
    tokio::time::pause();
    let place = Place::new(1);
    for index in 0..3 {
        place.put("key", index.to_string());
    }
    let (world, _) = place.connect();
    let notes = new_notes();
    let recorder = Recorder::answering(&notes, |message| match message.event.payload() == "1" {
        true => EventProcessed::failed("not yet"),
        false => EventProcessed::Processed,
    });
    let consumer = start(conf(), world, recorder.start());
    notes.wait_for("the failure", |noted| !noted.failures.is_empty()).await;
    let stopped = consumer.stop().await.unwrap();
    assert_eq!(stopped.unsettled, 1, "{stopped:?}");
    assert_eq!((stopped.not_stored, stopped.not_released), (Vec::new(), Vec::new()));
}

#[actix::test]
async fn a_stop_may_be_given_all_the_time_there_is() {
    tokio::time::pause();
    let place = Place::new(1);
    let (world, _) = place.connect();
    let consumer = start(conf(), world, Recorder::new(&new_notes()).start());
    pass(SECOND).await;
    assert!(consumer.stop_within(Duration::MAX).await.unwrap().is_clean());
}

/// What the leader of KCL 3.x workers writes when it wants another worker to read a shard.
fn promise_all_leases(place: &Place, to: &str) {
    for row in place.rows().values_mut() {
        row.checkpoint_owner = row.owner.replace(to.into());
    }
}

#[actix::test]
async fn a_lease_promised_to_another_worker_is_handed_over_behind_the_last_answer() {
    tokio::time::pause();
    let place = Place::new(1);
    let (world, _) = place.connect();
    let notes = new_notes();
    let consumer = start(conf(), world, Recorder::new(&notes).start());
    pass(SECOND).await;
    promise_all_leases(&place, "another");
    place.put("key", "last");
    let noted = notes.wait_for("the shutdown", |noted| !noted.shutdowns.is_empty()).await;
    assert_eq!(noted.shutdowns[0].reason, ShutdownReason::HandedOver);
    pass(SECOND).await;
    let row = place.rows().values().next().unwrap().clone();
    assert_eq!((row.owner, row.checkpoint_owner), (Some("another".into()), None));
    assert_eq!(row.checkpoint.text(), noted.deliveries[0].sequence);
    assert_eq!(consumer.status().shards, []);
    // The other worker never renews: after the failover time the shard is read here again.
    pass(30 * SECOND).await;
    assert_eq!(consumer.status().shards.len(), 1);
    assert!(consumer.stop().await.unwrap().is_clean());
    assert_eq!(notes.now().payloads(), ["last"]);
}

#[actix::test]
async fn a_stop_leaves_time_for_the_last_checkpoint_and_ends_at_its_deadline() {
    tokio::time::pause();
    let place = Place::new(1);
    for index in 0..2 {
        place.put("key", index.to_string());
    }
    let (world, _) = place.connect();
    let notes = new_notes();
    let held: Arc<Mutex<Vec<EventHandle>>> = Arc::default();
    let recorder = Recorder::answering(&notes, {
        let held = Arc::clone(&held);
        move |message| match message.event.payload() == "0" {
            true => EventProcessed::Processed,
            false => {
                held.lock().unwrap().push(message.answer_later());
                EventProcessed::Later
            }
        }
    });
    let consumer = start(conf(), world, recorder.start());
    let noted = notes.wait_for("the events", |noted| noted.deliveries.len() == 2).await;
    let begin = tokio::time::Instant::now();
    let stopped = consumer.stop_within(8 * SECOND).await.unwrap();
    assert!((6 * SECOND..7 * SECOND).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    assert_eq!((stopped.unsettled, stopped.not_stored, stopped.not_released), (1, Vec::new(), Vec::new()));
    let row = place.rows().values().next().unwrap().clone();
    assert_eq!((row.owner, row.checkpoint.text()), (None, noted.deliveries[0].sequence.as_str()));

    let (world, _) = place.connect();
    let consumer = start(conf(), world, Recorder::new(&notes).start());
    notes.wait_for("the second event again", |noted| noted.deliveries.len() == 3).await;
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_stop_whose_last_writes_are_lost_ends_at_its_deadline_and_says_so() {
    tokio::time::pause();
    let place = Place::new(1);
    place.put("key", "only");
    let (world, network) = place.connect();
    let notes = new_notes();
    let consumer = start(conf(), world, Recorder::new(&notes).start());
    network.fail(fail_some("write", 2..=u32::MAX, Fault::RequestLost));
    notes.wait_for("the event", |noted| noted.deliveries.len() == 1).await;
    let begin = tokio::time::Instant::now();
    let stopped = consumer.stop_within(5 * SECOND).await.unwrap();
    assert!(begin.elapsed() <= 5 * SECOND + SECOND / 100, "{:?}", begin.elapsed());
    assert_eq!(stopped.unsettled, 0);
    let shards: Vec<_> = place.rows().keys().cloned().collect();
    assert_eq!((&stopped.not_stored, &stopped.not_released), (&shards, &shards));
    assert!(!stopped.is_clean());
}

/// A table that takes every write but checkpoints.
#[derive(Debug)]
struct WithoutCheckpoints(Arc<dyn LeaseStore>);

impl LeaseStore for WithoutCheckpoints {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn ensure(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.0.ensure()
    }

    fn scan(&self) -> BoxFuture<'_, Result<Scan, StoreError>> {
        self.0.scan()
    }

    fn read<'a>(&'a self, shard: &'a ShardId) -> BoxFuture<'a, Result<Option<Lease>, StoreError>> {
        self.0.read(shard)
    }

    fn create<'a>(&'a self, lease: &'a NewLease) -> BoxFuture<'a, Result<Created, StoreError>> {
        self.0.create(lease)
    }

    fn write<'a>(&'a self, write: &'a LeaseWrite) -> BoxFuture<'a, Result<Written, StoreError>> {
        match write.change {
            LeaseChange::Checkpoint(_) => {
                std::future::ready(Err(StoreError::Throttled("no checkpoints".to_owned()))).boxed()
            }
            _ => self.0.write(write),
        }
    }

    fn delete<'a>(
        &'a self,
        shard: &'a ShardId,
        expected_counter: i64,
    ) -> BoxFuture<'a, Result<Deleted, StoreError>> {
        self.0.delete(shard, expected_counter)
    }
}

#[actix::test]
async fn a_shard_that_was_let_go_without_its_last_checkpoint_makes_no_clean_stop() {
    tokio::time::pause();
    let place = Place::new(1);
    (0..2).for_each(|number| drop(place.put("key", number.to_string())));
    let mut world = place.connect().0;
    world.leases = Arc::new(WithoutCheckpoints(world.leases));
    let notes = new_notes();
    let recorder = Recorder::answering(&notes, |message| match message.event.payload() == "1" {
        true => EventProcessed::failed("never"),
        false => EventProcessed::Processed,
    });
    let mut conf = conf();
    conf.worker.failure_policy = FailurePolicy::StopShard;
    let failover_time = conf.lease.failover_time;
    let consumer = start(conf, world, recorder.start());
    notes.wait_for("the failure", |noted| !noted.failures.is_empty()).await;
    // The shard gives up its checkpoint long before the stop would.
    let begin = tokio::time::Instant::now();
    let stopped = consumer.stop_within(HOUR).await.unwrap();
    assert!(begin.elapsed() <= failover_time + SECOND, "{:?}", begin.elapsed());
    let row = place.row();
    assert_eq!((row.owner, row.checkpoint.text()), (None, "TRIM_HORIZON"));
    assert_eq!((&stopped.not_stored, &stopped.not_released), (&vec![row.shard], &Vec::new()));
    assert!(!stopped.is_clean());
}

#[actix::test]
async fn a_stop_delivers_nothing_more_and_waits_for_what_is_under_way() {
    tokio::time::pause();
    let place = Place::new(1);
    for index in 0..20 {
        place.put("key", index.to_string());
    }
    let (world, _) = place.connect();
    let notes = new_notes();
    let (recorder, held) = Recorder::holding(&notes);
    let consumer = start(conf(), world, recorder.start());
    notes.wait_for("the first events", |noted| noted.deliveries.len() == 2).await;
    let answer = async {
        pass(SECOND).await;
        for handle in held.take() {
            handle.answer(EventProcessed::Processed);
        }
    };
    let (stopped, ()) = tokio::join!(consumer.stop(), answer);
    assert!(stopped.unwrap().is_clean());
    let noted = notes.now();
    assert_eq!(noted.payloads(), ["0", "1"]);
    let row = place.rows().values().next().unwrap().clone();
    assert_eq!((row.owner, row.checkpoint.text()), (None, noted.deliveries[1].sequence.as_str()));
}

#[actix::test]
async fn a_lease_that_is_lost_while_the_consumer_stops_makes_no_clean_stop() {
    tokio::time::pause();
    let place = Place::new(1);
    place.put("key", "held");
    let (world, network) = place.connect();
    let notes = new_notes();
    let (recorder, _held) = Recorder::holding(&notes);
    let mut conf = conf();
    conf.worker.batch_timeout = 60 * SECOND;
    let consumer = start(conf, world, recorder.start());
    notes.wait_for("a delivery", |noted| !noted.deliveries.is_empty()).await;
    // The event keeps the worker draining for longer than the lease lasts without renewals.
    network.fail(|_| Fault::RequestLost);
    let stopped = consumer.stop_within(60 * SECOND).await.unwrap();
    assert_eq!(stopped.not_stored.len(), 1, "{stopped:?}");
    assert!(!stopped.is_clean());
}

/// What a stop under load said, which shards' last checkpoints are in fact not stored, and which leases not released.
async fn stop_under_load(seed: u64, faults: &[Fault]) -> (Stopped, BTreeSet<ShardId>, BTreeSet<ShardId>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let place = Place::new(4);
    let (world, network) = place.connect();
    let notes = new_notes();
    let mut conf = conf();
    conf.checkpointer.interval = random.u32(1..4_000) * MILLIS;
    conf.polling.idle_time = 200 * MILLIS;
    let consumer = start(conf, world, Recorder::new(&notes).start());
    let put = |count: usize| (0..count).for_each(|key| drop(place.put(&format!("key-{key}"), "x")));
    for _ in 0..random.u32(5..40) {
        put(8);
        pass(random.u32(1..300) * MILLIS).await;
    }
    let (chance, faults) = (random.u32(0..10), faults.to_owned());
    let mut of_network = random.fork();
    network.fail(move |call| match call == "write" && of_network.u32(0..10) < chance {
        true => faults[of_network.usize(..faults.len())],
        false => Fault::None,
    });
    for _ in 0..random.u32(0..8) {
        put(8);
        pass(random.u32(1..300) * MILLIS).await;
    }
    let stopped = consumer.stop_within(random.u32(20..8_000) * MILLIS).await.unwrap();
    let noted = notes.now();
    let last = |noted: &Noted, shard: &ShardId| {
        let last = noted.deliveries.iter().rfind(|delivery| delivery.shard == shard.as_str());
        last.map_or("TRIM_HORIZON".to_owned(), |delivery| delivery.sequence.clone())
    };
    let rows = place.rows();
    let not_stored = rows.values().filter(|row| row.checkpoint.text() != last(&noted, &row.shard));
    let not_released = rows.values().filter(|row| row.owner.is_some());
    let shards = |row: &Lease| row.shard.clone();
    (stopped, not_stored.map(shards).collect(), not_released.map(shards).collect())
}

#[actix::test]
async fn a_stop_under_load_is_clean_exactly_when_the_table_has_all_last_checkpoints() {
    tokio::time::pause();
    let mut clean = 0;
    for seed in 0..100 {
        let (stopped, not_stored, not_released) =
            stop_under_load(seed, &[Fault::Throttled, Fault::RequestLost]).await;
        let is_clean = not_stored.is_empty() && not_released.is_empty();
        assert_eq!(stopped.is_clean(), is_clean, "{seed}: {stopped:?}, {not_stored:?}, {not_released:?}");
        assert_eq!(stopped.unsettled, 0, "{seed}");
        let told = stopped.not_stored.iter().cloned().collect();
        assert!(not_stored.is_subset(&told), "{seed}: {not_stored:?} are not stored, told are {told:?}");
        clean += u32::from(is_clean);
    }
    assert!((20..=95).contains(&clean), "{clean} of 100 stops were clean");
}

#[actix::test]
async fn a_stop_whose_replies_are_lost_never_claims_what_is_not_stored() {
    tokio::time::pause();
    let mut clean = 0;
    for seed in 0..100 {
        let (stopped, not_stored, not_released) =
            stop_under_load(seed, &[Fault::ReplyLost, Fault::RequestLost]).await;
        if stopped.is_clean() {
            clean += 1;
            assert!(
                not_stored.is_empty() && not_released.is_empty(),
                "{seed}: {not_stored:?}, {not_released:?}"
            );
        }
    }
    assert!((10..=95).contains(&clean), "{clean} of 100 stops were clean");
}

#[actix::test]
async fn a_stop_returns_at_once_before_the_start_is_complete_and_without_a_lease() {
    tokio::time::pause();
    for hung in
        [None, Some("ensure"), Some("scan"), Some("create"), Some("ListShards"), Some("GetShardIterator")]
    {
        for after in [0, 1, 10, 100] {
            let place = Place::new(2);
            let (world, network) = place.connect();
            network.fail(move |call| if Some(call) == hung { Fault::Hung } else { Fault::None });
            let consumer = start(conf(), world, Recorder::new(&new_notes()).start());
            pass(after * MILLIS).await;
            let begin = tokio::time::Instant::now();
            assert!(consumer.stop().await.unwrap().is_clean(), "{hung:?} hangs, stopped after {after} ms");
            assert!(begin.elapsed() <= 2 * SECOND, "{hung:?} hangs, {after} ms: {:?}", begin.elapsed());
        }
    }
    let place = Place::new(1);
    let owner = start(conf(), place.connect().0, Recorder::new(&new_notes()).start());
    pass(SECOND).await;
    let idle = start(conf(), place.connect().0, Recorder::new(&new_notes()).start());
    pass(30 * SECOND).await;
    let begin = tokio::time::Instant::now();
    assert!(idle.stop().await.unwrap().is_clean());
    assert!(begin.elapsed() <= 2 * SECOND, "{:?}", begin.elapsed());
    assert_eq!(owner.status().shards.len(), 1);
    assert!(owner.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_stop_with_a_hundred_open_events_and_a_table_that_hangs_ends_at_its_deadline_and_counts_them() {
    tokio::time::pause();
    let place = Place::new(1);
    (0..1_000).for_each(|_| drop(place.put("key", "opens the window")));
    (0..100).for_each(|number| drop(place.put("key", number.to_string())));
    let (world, network) = place.connect();
    let notes = new_notes();
    let held: Arc<Mutex<Vec<EventHandle>>> = Arc::default();
    let recorder = Recorder::answering(&notes, {
        let held = Arc::clone(&held);
        move |message| match message.event.payload() == "opens the window" {
            true => EventProcessed::Processed,
            false => {
                held.lock().unwrap().push(message.answer_later());
                EventProcessed::Later
            }
        }
    });
    let mut conf = conf();
    conf.worker.batch_timeout = HOUR;
    let consumer = start(conf, world, recorder.start());
    notes.wait_for("all events", |noted| noted.deliveries.len() == 1_100).await;
    network.fail(|call| if call == "write" { Fault::Hung } else { Fault::None });
    let begin = tokio::time::Instant::now();
    let stopped = consumer.stop_within(5 * SECOND).await.unwrap();
    assert!(begin.elapsed() <= 5 * SECOND + 100 * MILLIS, "{:?}", begin.elapsed());
    assert_eq!(stopped.unsettled, 100);
    assert!(!stopped.is_clean());
}

#[actix::test]
async fn what_is_fetched_and_not_delivered_at_a_stop_comes_with_the_next_start_and_only_then() {
    tokio::time::pause();
    let place = Place::new(1);
    for number in 0..1_000 {
        place.put("key", number.to_string());
    }
    let notes = new_notes();
    let recorder = Recorder::answering(&notes, |message| {
        let handle = message.answer_later();
        actix::spawn(async move {
            tokio::time::sleep(SECOND).await;
            handle.answer(EventProcessed::Processed);
        });
        EventProcessed::Later
    });
    let first = start(conf(), place.connect().0, recorder.start());
    notes.wait_for("the first events", |noted| noted.deliveries.len() >= 2).await;
    let buffered = first.status().shards[0].buffered_bytes;
    assert!(buffered >= 900 * 256, "{buffered} bytes are fetched ahead");
    assert!(first.stop().await.unwrap().is_clean());
    let delivered = notes.now().deliveries.len();
    assert!(delivered < 100, "{delivered}");
    let second = start(conf(), place.connect().0, Recorder::new(&notes).start());
    let noted = notes.wait_for("all events", |noted| noted.deliveries.len() >= 1_000).await;
    assert_eq!(noted.payloads(), (0..1_000).map(|number| number.to_string()).collect::<Vec<_>>());
    assert!(second.stop().await.unwrap().is_clean());
}
