//! What an operator sees: the status of a consumer, its notices, and the whole fleet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix::Actor;
use actix_kinesis::Checkpoint;
use actix_kinesis::config::{ConsumerConf, FailurePolicy};
use actix_kinesis::consumer::{
    ConsumerError, ConsumerNotice, ConsumerState, EventProcessed, FailureDecision, FencingToken, Fleet,
    FleetShard, KinesisConsumer, Placement, ShardLife, ShardState,
};
use kinesis_lease::Lease;

use super::world::{Fault, Network, Place};
use super::{HOUR, MINUTE, conf, new_notes, pass};
use crate::recorder::{Notes, Recorder};

const SECOND: Duration = Duration::from_secs(1);

fn start(place: &Place, conf: ConsumerConf, recorder: Recorder) -> (KinesisConsumer, Network) {
    let (world, network) = place.connect();
    let recorder = recorder.start();
    let consumer = KinesisConsumer::builder(conf, recorder.clone())
        .notices(recorder.recipient())
        .world(world)
        .placement(Placement::CurrentThread)
        .seed(1)
        .start()
        .unwrap();
    (consumer, network)
}

fn start_noting(place: &Place, notes: &Notes) -> (KinesisConsumer, Network) {
    start(place, conf(), Recorder::new(notes))
}

fn stops(notes: &Notes) -> Vec<(String, String, FailureDecision)> {
    let stop = |notice: &ConsumerNotice| match notice {
        ConsumerNotice::ShardStopped { shard, cause, decision } => {
            Some((shard.to_string(), cause.clone(), decision.clone()))
        }
        _ => None,
    };
    notes.now().notices.iter().filter_map(stop).collect()
}

#[actix::test]
async fn a_shard_shows_its_state_since_when_its_token_and_its_last_error() {
    tokio::time::pause();
    let place = Place::new(1);
    place.put("key", "poison");
    let notes = new_notes();
    let is_mended = Arc::new(AtomicBool::new(false));
    let token = Arc::new(std::sync::Mutex::new(None));
    let recorder = Recorder::answering(&notes, {
        let (is_mended, token) = (Arc::clone(&is_mended), Arc::clone(&token));
        move |message| {
            *token.lock().unwrap() = Some(message.event.fencing_token());
            match is_mended.load(Ordering::SeqCst) {
                true => EventProcessed::Processed,
                false => EventProcessed::failed("not yet"),
            }
        }
    });
    let mut conf = conf();
    conf.worker.restart_backoff.min = 10 * SECOND;
    conf.worker.restart_backoff.max = 10 * SECOND;
    let (consumer, network) = start(&place, conf, recorder);
    let mut watched = consumer.watch();
    let reading = watched.wait_for(|status| !status.shards.is_empty()).await.unwrap().shards[0].clone();
    assert_eq!((reading.state, &reading.last_error), (ShardState::Reading, &None));
    let is_restarting = |status: &actix_kinesis::consumer::ConsumerStatus| {
        status.shards.iter().any(|shard| shard.state == ShardState::Restarting)
    };
    let restarting = watched.wait_for(is_restarting).await.unwrap().shards[0].clone();
    assert!(restarting.since > reading.since);
    let error = restarting.last_error.unwrap();
    assert!(error.contains("not yet") && !error.contains("poison"), "{error}");
    assert_eq!(Some(restarting.fencing_token), *token.lock().unwrap());
    assert_ne!(restarting.fencing_token, FencingToken::default());
    is_mended.store(true, Ordering::SeqCst);
    pass(MINUTE).await;
    let again = consumer.status().shards[0].clone();
    assert_eq!((again.state, again.restarts), (ShardState::Reading, 1));
    let after = again.since.duration_since(restarting.since).unwrap();
    assert!((5 * SECOND..=11 * SECOND).contains(&after), "{after:?} by the simulated clock");

    network.fail(|call| if call == "GetRecords" { Fault::Throttled } else { Fault::None });
    pass(MINUTE).await;
    let error = consumer.status().shards[0].last_error.clone().unwrap();
    assert!(error.contains("GetRecords"), "{error}");
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_watched_status_changes_only_when_something_does() {
    tokio::time::pause();
    let place = Place::new(2);
    let (consumer, _) = start_noting(&place, &new_notes());
    let mut watched = consumer.watch();
    pass(MINUTE).await;
    watched.mark_unchanged();
    pass(HOUR).await;
    assert!(!watched.has_changed().unwrap());
    consumer.pause(&place.shards()[0].id).await.unwrap();
    assert!(watched.has_changed().unwrap());
    let paused = watched.borrow_and_update().shards[0].clone();
    assert_eq!(paused.state, ShardState::Paused);
    pass(MINUTE).await;
    consumer.drain(&paused.shard).await.unwrap();
    let drained = consumer.status().shards[0].clone();
    assert_eq!((drained.since, drained.is_offered), (paused.since, true), "it is paused as before");
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_shard_stopped_after_a_failure_stays_to_be_seen_and_is_read_again_when_it_is_resumed() {
    tokio::time::pause();
    let place = Place::new(1);
    let shard = place.shards()[0].id.clone();
    place.put("key", "poison");
    let notes = new_notes();
    let is_mended = Arc::new(AtomicBool::new(false));
    let recorder = Recorder::answering(&notes, {
        let is_mended = Arc::clone(&is_mended);
        move |_| match is_mended.load(Ordering::SeqCst) {
            true => EventProcessed::Processed,
            false => EventProcessed::failed("never"),
        }
    });
    let mut conf = conf();
    conf.worker.failure_policy = FailurePolicy::StopShard;
    let (consumer, _) = start(&place, conf, recorder);
    notes.wait_for("the failure", |noted| !noted.failures.is_empty()).await;
    pass(HOUR).await;
    let status = consumer.status();
    assert_eq!((status.state, &status.shards[..]), (ConsumerState::Running, &[][..]));
    let [stopped] = &status.stopped[..] else { panic!("{status:?}") };
    assert_eq!(stopped.shard, shard);
    assert!(stopped.error.as_ref().unwrap().contains("never"), "{stopped:?}");
    let told = stops(&notes);
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].0.as_str(), &told[0].2), (shard.as_str(), &FailureDecision::StopShard));
    assert_eq!(Some(&told[0].1), stopped.error.as_ref());

    is_mended.store(true, Ordering::SeqCst);
    let delivered = notes.now().deliveries.len();
    consumer.resume(&shard).await.unwrap();
    assert_eq!(consumer.status().stopped, []);
    notes.wait_for("the event again", |noted| noted.deliveries.len() > delivered).await;
    pass(SECOND).await;
    assert_eq!(consumer.status().shards[0].processed, 1);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_shard_stopped_here_and_finished_elsewhere_is_seen_no_more() {
    tokio::time::pause();
    let place = Place::new(1);
    place.put("key", "poison");
    let notes = new_notes();
    let recorder = Recorder::answering(&notes, |_| EventProcessed::failed("never"));
    let mut stopping = conf();
    stopping.worker.failure_policy = FailurePolicy::StopShard;
    let (first, _) = start(&place, stopping, recorder);
    notes.wait_for("the failure", |noted| !noted.failures.is_empty()).await;
    pass(MINUTE).await;
    assert_eq!(first.status().stopped.len(), 1);
    let (second, _) = start_noting(&place, &new_notes());
    pass(MINUTE).await;
    place.split(&place.shards()[0]);
    pass(2 * MINUTE).await;
    assert_eq!(first.status().stopped, []);
    assert_eq!((first.status().shards.len(), second.status().shards.len()), (1, 1));
    assert!(first.stop().await.unwrap().is_clean());
    assert!(second.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_failure_that_stops_the_consumer_is_told_by_a_notice() {
    tokio::time::pause();
    let place = Place::new(1);
    place.put("key", "poison");
    let notes = new_notes();
    let recorder = Recorder::answering(&notes, |_| EventProcessed::failed("never"));
    let mut conf = conf();
    conf.worker.failure_policy = FailurePolicy::StopConsumer;
    let (consumer, _) = start(&place, conf, recorder);
    let ended = consumer.finished().await;
    assert!(matches!(ended, Err(ConsumerError::ShardFailed { .. })), "{ended:?}");
    notes
        .wait_for("the notice", |noted| {
            noted.notices.iter().any(|notice| matches!(notice, ConsumerNotice::ShardStopped { .. }))
        })
        .await;
    let told = stops(&notes);
    assert_eq!(told.len(), 1);
    assert!(told[0].1.contains("never"));
    assert_eq!(told[0].2, FailureDecision::StopConsumer);
}

#[actix::test]
async fn a_consumer_that_stops_shows_what_it_offers_and_then_what_it_lets_go() {
    tokio::time::pause();
    let place = Place::new(2);
    let notes = new_notes();
    let (recorder, held) = Recorder::holding(&notes);
    let mut patient = conf();
    patient.worker.batch_timeout = HOUR;
    let (first, _) = start(&place, patient, recorder);
    pass(SECOND).await;
    // The other instance has its one shard, and may have no more.
    let mut content = conf();
    content.lease.max_leases = Some(1);
    let (second, _) = start(&place, content, Recorder::new(&new_notes()));
    pass(MINUTE).await;
    assert_eq!((first.status().shards.len(), second.status().shards.len()), (1, 1));
    for index in 0..20 {
        place.put(&format!("key-{index}"), index.to_string());
    }
    notes.wait_for("an event", |noted| !noted.deliveries.is_empty()).await;
    let look = async {
        pass(SECOND / 10).await;
        let offered = first.status().shards[0].clone();
        assert_eq!((offered.state, offered.is_offered), (ShardState::Reading, true));
        pass(10 * SECOND).await;
        assert_eq!(first.status().shards[0].state, ShardState::Stopping);
        held.take().into_iter().for_each(|handle| handle.answer(EventProcessed::Processed));
    };
    let (stopped, ()) = tokio::join!(first.stop(), look);
    assert_eq!(stopped.unwrap().not_released, []);
    assert!(second.stop().await.unwrap().is_clean());
}

async fn read(place: &Place) -> Fleet {
    Fleet::read(&place.connect().0).await.unwrap()
}

fn leases(fleet: &Fleet) -> Vec<(&str, bool, usize)> {
    fleet.workers.iter().map(|worker| (worker.worker.as_str(), worker.is_peer, worker.leases)).collect()
}

fn shard<'a>(fleet: &'a Fleet, name: &str) -> &'a FleetShard {
    fleet.shards.iter().find(|shard| shard.shard.as_str() == name).unwrap()
}

#[actix::test]
async fn the_fleet_is_seen_by_somebody_who_is_none_of_it() {
    tokio::time::pause();
    let place = Place::new(2);
    let fleet = read(&place).await;
    assert_eq!((fleet.stream.as_str(), fleet.table.as_str()), ("orders", "test-orders"));
    assert_eq!(fleet.workers, []);
    assert!(fleet.shards.iter().all(|shard| shard.life == ShardLife::Open && shard.lease.is_none()));
    assert_eq!(place.rows().len(), 0, "a look changes nothing");

    let notes = [new_notes(), new_notes()];
    let (first, _) = start_noting(&place, &notes[0]);
    pass(MINUTE).await;
    let (second, network) = start_noting(&place, &notes[1]);
    place.put("key", "only");
    pass(2 * MINUTE).await;
    let fleet = read(&place).await;
    let mut wanted = [&first, &second].map(|consumer| (consumer.worker_id().as_str(), true, 1));
    wanted.sort();
    assert_eq!(leases(&fleet), wanted);
    for consumer in [&first, &second] {
        let status = consumer.status().shards[0].clone();
        let seen = shard(&fleet, status.shard.as_str()).lease.clone().unwrap();
        assert_eq!((seen.owner.as_ref(), &seen.checkpoint), (Some(consumer.worker_id()), &status.checkpoint));
        assert_eq!(seen.counter, place.rows()[&status.shard].counter);
        assert!(seen.is_peer && !seen.is_finished() && !seen.is_offered);
    }

    pass(conf().lease.failover_time / 2).await;
    let before = read(&place).await;
    assert_eq!(before.unrenewed_since(&fleet), [], "they have renewed since");
    // One of them dies.
    network.fail(|_| Fault::RequestLost);
    pass(conf().lease.failover_time / 2).await;
    let dead = second.status().shards[0].shard.clone();
    assert_eq!(read(&place).await.unrenewed_since(&before), [dead]);
    network.heal();
    assert!(second.stop().await.is_ok());
    assert!(first.stop().await.unwrap().is_clean());
    let fleet = read(&place).await;
    assert_eq!(fleet.workers, []);
    assert!(fleet.shards.iter().all(|shard| shard.lease.as_ref().unwrap().owner.is_none()));
}

#[actix::test]
async fn the_fleet_shows_lineage_and_what_is_finished() {
    tokio::time::pause();
    let place = Place::new(1);
    let (consumer, _) = start_noting(&place, &new_notes());
    pass(MINUTE).await;
    let parent = place.shards()[0].clone();
    place.split(&parent);
    pass(MINUTE).await;
    let fleet = read(&place).await;
    let seen = shard(&fleet, parent.id.as_str());
    assert_eq!((seen.life, seen.children.len()), (ShardLife::Closed, 2));
    assert!(seen.lease.as_ref().unwrap().is_finished());
    for child in &seen.children {
        let child = shard(&fleet, child.as_str());
        assert_eq!((child.life, &child.parents), (ShardLife::Open, &vec![parent.id.clone()]));
    }
    assert_eq!(leases(&fleet), [(consumer.worker_id().as_str(), true, 2)], "finished ones are not counted");

    let gone: Lease = Lease { shard: "shardId-0".into(), ..place.rows()[&parent.id].clone() };
    place.rows().insert(gone.shard.clone(), gone);
    let fleet = read(&place).await;
    assert_eq!(shard(&fleet, "shardId-0").life, ShardLife::Gone);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn the_fleet_shows_hand_overs_and_workers_of_the_kcl() {
    tokio::time::pause();
    let place = Place::new(2);
    let (consumer, network) = start_noting(&place, &new_notes());
    pass(MINUTE).await;
    let [first, second] = [0, 1].map(|index| place.shards()[index].id.clone());
    consumer.drain(&first).await.unwrap();
    pass(SECOND).await;
    network.fail(|_| Fault::RequestLost);
    let me = consumer.worker_id().clone();
    place.rows().get_mut(&first).unwrap().asked_by = Some("another".into());
    let promised = |row: &mut Lease| row.checkpoint_owner = row.owner.replace("next".into());
    promised(place.rows().get_mut(&second).unwrap());
    let fleet = read(&place).await;
    let lease = shard(&fleet, first.as_str()).lease.clone().unwrap();
    assert_eq!((lease.is_offered, lease.asked_by, lease.promised_to), (true, Some("another".into()), None));
    let lease = shard(&fleet, second.as_str()).lease.clone().unwrap();
    assert_eq!((lease.owner, lease.is_peer), (Some(me.clone()), true));
    assert_eq!((lease.is_offered, lease.asked_by, lease.promised_to), (false, None, Some("next".into())));
    assert_eq!(leases(&fleet), [(me.as_str(), true, 2)]);
    let text = fleet.to_string();
    for part in ["offered, asked for by another", "promised to next", "2 leases", "(open): at TRIM_HORIZON"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    consumer.stop_within(SECOND).await.unwrap();

    let kcl = |row: &mut Lease| {
        (row.owner, row.checkpoint_owner, row.token) = (Some("kcl".into()), None, None);
        row.checkpoint = Checkpoint::TrimHorizon;
    };
    place.rows().values_mut().for_each(kcl);
    assert_eq!(leases(&read(&place).await), [("kcl", false, 2)]);
}

#[actix::test]
async fn a_fleet_that_cannot_be_read_says_why() {
    tokio::time::pause();
    let place = Place::new(1);
    let (world, network) = place.connect();
    network.fail(|call| if call == "scan" { Fault::Throttled } else { Fault::None });
    assert!(matches!(Fleet::read(&world).await, Err(ConsumerError::LeaseTable(_))));
    network.fail(|call| if call == "ListShards" { Fault::Throttled } else { Fault::None });
    assert!(matches!(Fleet::read(&world).await, Err(ConsumerError::Stream(_))));
}
