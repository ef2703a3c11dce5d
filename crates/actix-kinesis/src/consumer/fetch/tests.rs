//! The fetcher against a shard in memory, in simulated time.

mod chaos;
mod ends;
mod failures;
mod records;
mod speed;
mod starts;
mod stream;

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::{Actor, Context, Handler};
use kinesis_lease::stream::{ChildShard, StartAt, StreamErrorKind};
use kinesis_record::{Checkpoint, HashRange, Position};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::*;
use crate::consumer::clock::{Clock, WallClock};
use crate::consumer::event::FencingToken;
use stream::{Call, Fault, Stream};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const IDLE: Duration = SECOND;

/// Runs a test in simulated time, which passes whenever nothing is left to do.
fn simulated(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    tokio::task::LocalSet::new().block_on(&runtime.unwrap(), test);
}

/// What the fetcher told its worker and the application, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    Event(Position),
    Nothing(Position),
    End(Vec<ChildShard>),
    Gap,
    Misplaced,
    LeftOut(Vec<Position>),
    Broken(Position),
}

struct Witness(Arc<Mutex<Vec<Seen>>>);

impl Witness {
    fn saw(&self, seen: Seen) {
        self.0.lock().unwrap().push(seen);
    }
}

impl Actor for Witness {
    type Context = Context<Self>;
}

impl Handler<PageFetched> for Witness {
    type Result = ();

    fn handle(&mut self, page: PageFetched, _: &mut Self::Context) {
        assert!(!page.items.is_empty());
        for item in page.items {
            self.saw(match item {
                PageItem::Event(event) => Seen::Event(event.position().clone()),
                PageItem::Nothing(position) => Seen::Nothing(position),
            });
        }
    }
}

impl Handler<ShardDrained> for Witness {
    type Result = ();

    fn handle(&mut self, drained: ShardDrained, _: &mut Self::Context) {
        self.saw(Seen::End(drained.children));
    }
}

impl Handler<PositionRefused> for Witness {
    type Result = ();

    fn handle(&mut self, _: PositionRefused, _: &mut Self::Context) {
        self.saw(Seen::Misplaced);
    }
}

impl Handler<ConsumerNotice> for Witness {
    type Result = ();

    fn handle(&mut self, notice: ConsumerNotice, _: &mut Self::Context) {
        self.saw(match notice {
            ConsumerNotice::Gap { .. } => Seen::Gap,
            ConsumerNotice::RecordsLeftOut { positions, .. } => Seen::LeftOut(positions),
            ConsumerNotice::AggregateBroken { event, .. } => Seen::Broken(event.position().clone()),
            other => panic!("unexpected {other:?}"),
        });
    }
}

/// How a fetcher is started.
struct Start {
    checkpoint: Checkpoint,
    initial_timestamp: Option<std::time::SystemTime>,
    range: Option<HashRange>,
    room: u64,
    max_records: u32,
}

impl From<Checkpoint> for Start {
    fn from(checkpoint: Checkpoint) -> Self {
        let room = 64 * MIB as u64;
        Self { checkpoint, initial_timestamp: None, range: None, room, max_records: 10_000 }
    }
}

/// A fetcher that reads, and what came of it.
struct Reading {
    seen: Arc<Mutex<Vec<Seen>>>,
    room: watch::Sender<u64>,
    gauges: Arc<Gauges>,
    task: JoinHandle<()>,
}

impl Reading {
    fn start(stream: &Arc<Stream>, start: impl Into<Start>) -> Self {
        let Start { checkpoint, initial_timestamp, range, room, max_records } = start.into();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let witness = Witness(Arc::clone(&seen)).start();
        let gauges = Arc::new(Gauges::new(checkpoint.clone()));
        let (room, told_room) = watch::channel(room);
        let fetcher = Fetcher {
            api: Arc::clone(stream) as Arc<dyn StreamApi>,
            shard: stream::shard_id(),
            cursor: Cursor::new(&checkpoint, initial_timestamp, None, Clock::new(&WallClock::default())),
            unpacker: Unpacker::new(
                stream::shard_id(),
                range,
                FencingToken::default(),
                checkpoint.position().cloned(),
            ),
            room: told_room,
            pages: witness.clone().recipient(),
            end: witness.clone().recipient(),
            misplaced: witness.clone().recipient(),
            conf: PollingConf { max_records, idle_time: IDLE },
            gauges: Arc::clone(&gauges),
            notifier: Notifier::new(Some(witness.recipient()), None),
            random: fastrand::Rng::with_seed(7),
        };
        let task = tokio::task::spawn_local(fetcher.run());
        Self { seen, room, gauges, task }
    }

    /// What was seen up to now.
    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// What is seen within a time.
    async fn seen_within(&self, time: Duration) -> Vec<Seen> {
        sleep(time).await;
        self.seen()
    }

    fn events(&self) -> Vec<Position> {
        let only_event = |seen| match seen {
            Seen::Event(position) => Some(position),
            _ => None,
        };
        self.seen().into_iter().filter_map(only_event).collect()
    }

    fn has_ended(&self) -> bool {
        self.task.is_finished()
    }
}

fn at(sequence: u128, sub_sequence: i64) -> Position {
    Position::new(sequence.into(), sub_sequence)
}

fn stored(sequence: u128, sub_sequence: i64) -> Checkpoint {
    Checkpoint::At(at(sequence, sub_sequence))
}

/// Events of plain records.
fn events(sequences: impl IntoIterator<Item = u128>) -> Vec<Seen> {
    sequences.into_iter().map(|sequence| Seen::Event(at(sequence, 0))).collect()
}
