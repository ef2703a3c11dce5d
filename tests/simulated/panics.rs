//! Processors that panic, wherever they do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actix::{Actor, Context, Handler, ResponseFuture};
use actix_kinesis::config::ConsumerConf;
use actix_kinesis::consumer::{
    ConsumerNotice, ConsumerShutdown, ConsumerWorkerFailure, EventProcessed, EventProcessors,
    KinesisConsumer, Placement, ProcessEvent,
};
use tokio::time::sleep;

use super::world::{Fault, Place};
use super::{MINUTE, SECOND, conf, new_notes, pass, start_noting};
use crate::recorder::{Notes, Recorder};

const MILLIS: Duration = Duration::from_millis(1);

/// Where a processor panics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    Started,
    Handler,
    /// After it has waited in the future that its handler gave.
    Future,
    Failure,
    Shutdown,
    Stopped,
}

/// A processor that panics as often as there are panics left. One of them serves one shard.
struct Panicking {
    recorder: Recorder,
    at: At,
    left: Arc<AtomicUsize>,
    alive: Arc<AtomicUsize>,
}

impl Panicking {
    fn panic_if(&self, at: At) {
        panic_if_left(self.at == at, &self.left);
    }
}

fn panic_if_left(is_here: bool, left: &AtomicUsize) {
    let take_one = |left: usize| left.checked_sub(1);
    assert!(!(is_here && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take_one).is_ok()), "a bug");
}

impl Actor for Panicking {
    type Context = Context<Self>;

    fn started(&mut self, _: &mut Self::Context) {
        self.panic_if(At::Started);
    }

    fn stopped(&mut self, _: &mut Self::Context) {
        self.panic_if(At::Stopped);
    }
}

impl Drop for Panicking {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Handler<ProcessEvent> for Panicking {
    type Result = ResponseFuture<EventProcessed>;

    fn handle(&mut self, message: ProcessEvent, _: &mut Self::Context) -> Self::Result {
        let is_poison = message.event.payload() == "poison";
        if is_poison {
            self.panic_if(At::Handler);
        }
        let (recorder, left, is_here) =
            (self.recorder.clone(), Arc::clone(&self.left), self.at == At::Future);
        Box::pin(async move {
            sleep(5 * MILLIS).await;
            panic_if_left(is_poison && is_here, &left);
            recorder.note(&message);
            match is_poison && left.load(Ordering::SeqCst) > 0 {
                true => EventProcessed::failed("poison"),
                false => EventProcessed::Processed,
            }
        })
    }
}

impl Handler<ConsumerWorkerFailure> for Panicking {
    type Result = ();

    fn handle(&mut self, _: ConsumerWorkerFailure, _: &mut Self::Context) {
        self.panic_if(At::Failure);
    }
}

impl Handler<ConsumerShutdown> for Panicking {
    type Result = ();

    fn handle(&mut self, _: ConsumerShutdown, _: &mut Self::Context) {
        self.panic_if(At::Shutdown);
    }
}

/// A consumer with a processor for each shard, of which it is counted how many are alive.
fn start_panicking(
    conf: ConsumerConf,
    place: &Place,
    notes: &Notes,
    at: At,
    panics: usize,
) -> (KinesisConsumer, Arc<AtomicUsize>) {
    let (left, alive) = (Arc::new(AtomicUsize::new(panics)), Arc::new(AtomicUsize::new(0)));
    let recorder = Recorder::new(notes);
    let notices = recorder.clone().start().recipient();
    let processors = EventProcessors::per_shard({
        let alive = Arc::clone(&alive);
        move |_| {
            alive.fetch_add(1, Ordering::SeqCst);
            let (recorder, left, alive) = (recorder.clone(), Arc::clone(&left), Arc::clone(&alive));
            Panicking { recorder, at, left, alive }.start()
        }
    });
    let consumer = KinesisConsumer::builder(conf, processors)
        .notices(notices)
        .world(place.connect().0)
        .placement(Placement::CurrentThread)
        .seed(1)
        .start();
    (consumer.unwrap(), alive)
}

/// A panic costs no record and nothing of the other shard, and processing goes on by itself.
async fn panics_at(at: At, panics: usize) {
    let place = Place::new(2);
    let [shard, other] = [0, 1].map(|index| place.open_shards()[index].clone());
    let (key, other_key) = (place.key_of(&shard.id), place.key_of(&other.id));
    let notes = new_notes();
    let (consumer, alive) = start_panicking(conf(), &place, &notes, at, panics);
    for number in 0..20 {
        place.put(&key, if number == 7 { "poison".to_owned() } else { number.to_string() });
        place.put(&other_key, number.to_string());
        pass(200 * MILLIS).await;
    }
    let of_other = |notes: &Notes| {
        let deliveries = notes.now().deliveries;
        deliveries.iter().filter(|delivery| delivery.key == other_key).count()
    };
    pass(2 * SECOND).await;
    assert!(at == At::Started || of_other(&notes) == 20, "{at:?}: the other shard waits");
    let all = |notes: &Notes| notes.now().first_by_key().values().map(Vec::len).sum::<usize>();
    for _ in 0..600 {
        if all(&notes) == 40 {
            break;
        }
        pass(SECOND).await;
    }
    assert_eq!((all(&notes), of_other(&notes)), (40, 20), "{at:?}");
    pass(10 * SECOND).await;
    assert_eq!(consumer.status().shards.len(), 2, "{at:?}");
    assert_eq!(alive.load(Ordering::SeqCst), 2, "{at:?}: processors alive");
    let last = notes.now().deliveries.iter().rfind(|delivery| delivery.key == key).unwrap().sequence.clone();
    assert_eq!(place.checkpoint(&shard.id), Some(last), "{at:?}");
    let given_up = |notice: &ConsumerNotice| matches!(notice, ConsumerNotice::EventsGivenUp { .. });
    assert!(!notes.now().notices.iter().any(given_up), "{at:?}");

    // A shard's end drops its processor.
    place.split(&shard);
    for child in place.open_shards() {
        place.put(&place.key_of(&child.id), "of a child");
    }
    notes
        .wait_for("the children", |noted| {
            noted.payloads().iter().filter(|it| **it == "of a child").count() == 3
        })
        .await;
    pass(SECOND).await;
    assert_eq!(alive.load(Ordering::SeqCst), 3, "{at:?}: processors alive");
    assert!(consumer.stop().await.unwrap().is_clean(), "{at:?}");
    pass(SECOND).await;
    assert_eq!(alive.load(Ordering::SeqCst), 0, "{at:?}: processors alive");
}

#[actix::test]
async fn a_panic_costs_no_record_wherever_the_processor_panics() {
    tokio::time::pause();
    for at in [At::Started, At::Handler, At::Future, At::Failure, At::Shutdown, At::Stopped] {
        for panics in [1, 7] {
            panics_at(at, panics).await;
        }
    }
}

#[actix::test]
async fn a_factory_that_panics_for_a_while_holds_up_its_shard_alone() {
    tokio::time::pause();
    let place = Place::new(2);
    let [shard, other] = [0, 1].map(|index| place.open_shards()[index].id.clone());
    for number in 0..5 {
        [&shard, &other]
            .into_iter()
            .for_each(|shard| drop(place.put(&place.key_of(shard), number.to_string())));
    }
    let notes = new_notes();
    let recorder = Recorder::new(&notes);
    let left = Arc::new(AtomicUsize::new(3));
    let processors = EventProcessors::per_shard(move |made_for| {
        panic_if_left(*made_for == shard, &left);
        recorder.clone().start()
    });
    let consumer = KinesisConsumer::builder(conf(), processors)
        .world(place.connect().0)
        .placement(Placement::CurrentThread)
        .start()
        .unwrap();
    pass(500 * MILLIS).await;
    assert_eq!(notes.now().deliveries.len(), 5);
    notes.wait_for("the other records", |noted| noted.deliveries.len() == 10).await;
    pass(5 * SECOND).await;
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn there_are_as_many_processors_and_tasks_as_leases_however_often_these_move() {
    tokio::time::pause();
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let place = Place::new(4);
    let shards = place.open_shards();
    let notes = new_notes();
    let mut conf = conf();
    conf.lease.failover_time = 2 * SECOND;
    let (consumer, alive) = start_panicking(conf.clone(), &place, &notes, At::Handler, 0);
    pass(10 * SECOND).await;
    let at_first = tasks();
    for moved in 0..500 {
        let shard = &shards[moved % shards.len()].id;
        place.steal(shard);
        place.put(&place.key_of(shard), moved.to_string());
        // Seen with the next renewal, and taken back when the thief has not renewed for the failover time.
        pass(3 * conf.lease.failover_time).await;
        assert_eq!(consumer.status().shards.len(), 4, "after {moved} moves");
        assert_eq!(alive.load(Ordering::SeqCst), 4, "after {moved} moves");
        assert!(tasks() <= at_first + 4, "{} tasks after {moved} moves, {at_first} before", tasks());
    }
    let is_loss = |notice: &&ConsumerNotice| matches!(notice, ConsumerNotice::LeaseLost { .. });
    assert_eq!(notes.now().notices.iter().filter(is_loss).count(), 500);
    let noted = notes.now();
    assert_eq!(noted.first_by_key().values().map(Vec::len).sum::<usize>(), 500);
    assert!(consumer.stop().await.unwrap().is_clean());
    pass(MINUTE).await;
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[actix::test]
async fn two_hundred_starts_and_stops_leave_no_task_behind() {
    tokio::time::pause();
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let place = Place::new(2);
    let notes = new_notes();
    let mut after_ten = 0;
    for round in 0..200 {
        (0..10)
            .for_each(|number| drop(place.put(&format!("key-{number}"), (10 * round + number).to_string())));
        let consumer = start_noting(conf(), place.connect().0, Recorder::new(&notes));
        notes.wait_for("the records", |noted| noted.deliveries.len() == 10 * (round + 1)).await;
        if round % 3 == 0 {
            // Parted from its table in the middle.
            let (world, network) = place.connect();
            network.fail(|_| Fault::Hung);
            let unconnected = start_noting(conf(), world, Recorder::new(&notes));
            pass(SECOND).await;
            unconnected.stop_within(SECOND).await.unwrap();
        }
        assert!(consumer.stop().await.unwrap().is_clean(), "round {round}");
        drop(consumer);
        pass(MINUTE).await;
        match round {
            10 => after_ten = tasks(),
            11.. => assert!(tasks() <= after_ten, "{} tasks in round {round}, {after_ten} before", tasks()),
            _ => {}
        }
    }
}
