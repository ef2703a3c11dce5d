use futures::FutureExt;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::*;
use crate::producer::event::ProducerEvent;
use crate::producer::outcome::Outcome;

const MAIN: &str = "orders";

struct Door {
    admission: Arc<Admission>,
    commands: mpsc::UnboundedReceiver<Command>,
    outcomes: Vec<oneshot::Receiver<Outcome>>,
}

impl Door {
    fn new(max_records: u64, max_bytes: u64) -> Self {
        let (task, commands) = mpsc::unbounded_channel();
        let admission = Admission::new(MAIN.into(), max_records, max_bytes, task);
        Self { admission, commands, outcomes: Vec::new() }
    }

    /// An event of so many bytes, its key included.
    fn record(&mut self, bytes: usize) -> Record {
        let (record, outcome) = Record::new(ProducerEvent::new("k", vec![0; bytes - 1]), Instant::now());
        self.outcomes.push(outcome);
        record
    }

    fn admit(&mut self, bytes: usize) -> Admitted {
        let record = self.record(bytes);
        self.admission.admit(record, true)
    }

    /// An event of so many bytes for a stream.
    fn admit_to(&mut self, stream: &str, bytes: usize) -> Admitted {
        let event = ProducerEvent::new("k", vec![0; bytes - 1]).with_stream(stream);
        let (record, outcome) = Record::new(event, Instant::now());
        self.outcomes.push(outcome);
        self.admission.admit(record, true)
    }

    /// Sends to a stream until an event has to wait. Returns how many do not.
    fn fill(&mut self, stream: &str, bytes: usize) -> usize {
        (0..).take_while(|_| matches!(self.admit_to(stream, bytes), Admitted::Now)).count()
    }

    fn is_throttled(&self) -> bool {
        self.admission.is_throttled(MAIN)
    }

    /// What is through, by size.
    fn through(&mut self) -> Vec<Record> {
        let mut records = Vec::new();
        while let Ok(command) = self.commands.try_recv() {
            if let Command::Put(record) = command {
                records.push(*record);
            }
        }
        records
    }
}

fn sizes(records: &[Record]) -> Vec<u64> {
    records.iter().map(size).collect()
}

#[test]
fn events_are_let_through_up_to_the_count_and_again_below_nine_tenths_of_it() {
    let mut door = Door::new(10, 1_000_000);
    (1..=10).for_each(|bytes| assert!(matches!(door.admit(bytes), Admitted::Now)));
    assert!(door.is_throttled());
    (11..=14).for_each(|bytes| assert!(matches!(door.admit(bytes), Admitted::Later(_))));
    let mut through = door.through();
    assert_eq!(through.len(), 10);
    drop(through.pop());
    assert!(door.is_throttled() && door.through().is_empty(), "9 is not below 9");
    drop(through.pop());
    let again = door.through();
    assert_eq!(sizes(&again), [11, 12]);
    assert!(door.is_throttled());
    assert_eq!(door.admission.load().records, 10);
    drop(through);
    assert_eq!(sizes(&door.through()), [13, 14]);
    assert!(!door.is_throttled());
}

#[test]
fn bytes_are_limited_and_what_is_larger_than_all_of_it_goes_alone() {
    let mut door = Door::new(100, 1_000);
    assert!(matches!(door.admit(600), Admitted::Now));
    assert!(matches!(door.admit(600), Admitted::Later(_)));
    // Behind one that waits, even though there is room for it.
    assert!(matches!(door.admit(5), Admitted::Later(_)));
    assert!(matches!(door.admit(3_000), Admitted::Later(_)));
    assert_eq!(door.through().len(), 1);
    assert_eq!(sizes(&door.through()), [600, 5]);
    assert_eq!(sizes(&door.through()), [3_000]);
    assert_eq!(door.through().len(), 0);
    let load = door.admission.load();
    assert_eq!((load.records, load.bytes, load.waiting, load.throttled), (0, 0, 0, false));
}

#[test]
fn what_may_not_wait_comes_back() {
    let mut door = Door::new(1, 1_000);
    assert!(matches!(door.admit(5), Admitted::Now));
    let record = door.record(6);
    let Admitted::Full(record) = door.admission.admit(record, false) else { panic!() };
    assert_eq!(record.into_event().unwrap().size(), 6);
}

#[test]
fn what_waits_can_be_withdrawn_and_leaves_nothing_behind() {
    let mut door = Door::new(1, 1_000);
    assert!(matches!(door.admit(5), Admitted::Now));
    let Admitted::Later(first) = door.admit(6) else { panic!() };
    let Admitted::Later(_) = door.admit(7) else { panic!() };
    assert_eq!(door.admission.withdraw(&first).map(|record| size(&record)), Some(6));
    assert_eq!(sizes(&door.through()), [5]);
    assert_eq!(sizes(&door.through()), [7]);
    assert!(door.admission.withdraw(&first).is_none());
}

#[test]
fn a_closed_door_gives_back_what_waits_and_what_comes() {
    let mut door = Door::new(1, 1_000);
    assert!(matches!(door.admit(5), Admitted::Now));
    assert!(matches!(door.admit(6), Admitted::Later(_)));
    assert_eq!(sizes(&door.admission.close(SendReason::Stopped(None))), [6]);
    assert!(matches!(door.admit(7), Admitted::Closed(_, SendReason::Stopped(None))));
    assert!(!door.is_throttled());
}

#[test]
fn a_stream_that_is_stuck_leaves_room_for_others() {
    let mut door = Door::new(100, 1_000_000);
    assert_eq!(door.fill("dead", 5), 75);
    let dead = door.through();
    // Three quarters of what is left, again and again.
    for _ in 0..1_000 {
        assert!(matches!(door.admit(5), Admitted::Now));
        assert_eq!(door.through().len(), 1);
    }
    assert_eq!(door.fill("dead too", 5), 18);
    assert_eq!(door.fill(MAIN, 5), 5);
    assert_eq!(door.admission.load().records, 98);
    assert!(door.admission.is_throttled("dead") && door.is_throttled());
    drop(dead);
    assert!(!door.is_throttled() && door.admission.load().records < 98);
}

#[test]
fn bytes_are_shared_as_well() {
    let mut door = Door::new(1_000, 100_000);
    assert_eq!(door.fill("dead", 5_000), 15);
    let _dead = door.through();
    // The first event of a stream may take all that is left.
    assert!(matches!(door.admit(25_000), Admitted::Now));
    assert!(matches!(door.admit(5), Admitted::Later(_)));
    assert_eq!(door.through().len(), 1);
    assert_eq!(sizes(&door.through()), [5]);
}

#[test]
fn a_stream_by_itself_has_all_the_room_and_shares_it_when_another_comes() {
    let mut door = Door::new(100, 1_000_000);
    assert_eq!(door.fill(MAIN, 5), 100);
    let mut through = door.through();
    assert!(matches!(door.admit_to("other", 7), Admitted::Later(_)));
    // What waits for it goes before what waits for a stream with more than its share.
    drop(through.pop());
    assert_eq!(sizes(&door.through()), [7]);
    through.truncate(70);
    assert!(door.is_throttled(), "70 are not below nine tenths of 75");
    through.truncate(67);
    assert_eq!(sizes(&door.through()), [5]);
}

#[test]
fn what_waits_for_one_of_two_streams_goes_in_its_order() {
    let mut door = Door::new(4, 1_000_000);
    assert_eq!(door.fill("a", 9), 3);
    assert!(matches!(door.admit_to("b", 9), Admitted::Now));
    for bytes in [10, 12, 14] {
        assert!(matches!(door.admit_to("b", bytes), Admitted::Later(_)));
        assert!(matches!(door.admit_to("c", bytes + 1), Admitted::Later(_)));
    }
    drop(door.through());
    let mut order = Vec::new();
    loop {
        let next = door.through();
        if next.is_empty() {
            break;
        }
        order.extend(sizes(&next));
    }
    order.retain(|bytes| *bytes != 9);
    assert_eq!(order.len(), 6);
    let of = |rest: u64| order.iter().filter(|bytes| **bytes % 2 == rest).copied().collect::<Vec<_>>();
    assert_eq!((of(0), of(1)), (vec![10, 12, 14], vec![11, 13, 15]));
    assert_eq!(door.admission.load().waiting, 0);
}

#[tokio::test]
async fn room_is_awaited_by_stream() {
    let mut door = Door::new(100, 1_000_000);
    door.fill("dead", 5);
    assert_eq!(door.fill(MAIN, 5), 18);
    let admission = Arc::clone(&door.admission);
    let room = tokio::spawn(async move { admission.room(MAIN).await });
    let admission = Arc::clone(&door.admission);
    let dead = tokio::spawn(async move { admission.room("dead").await });
    tokio::task::yield_now().await;
    assert!(!room.is_finished() && !dead.is_finished());
    let (dead_ones, live): (Vec<_>, Vec<_>) = door
        .through()
        .into_iter()
        .partition(|record| record.event().unwrap().stream.as_deref() == Some("dead"));
    drop(live);
    room.await.unwrap();
    assert!(!dead.is_finished());
    drop(dead_ones);
    dead.await.unwrap();
}

#[tokio::test]
async fn who_asks_for_room_has_a_turn_behind_those_before_and_takes_none() {
    let mut door = Door::new(4, 1_000_000);
    (0..4).for_each(|_| assert!(matches!(door.admit(9), Admitted::Now)));
    let admission = Arc::clone(&door.admission);
    assert!(matches!(door.admit(10), Admitted::Later(_)));
    let mut room = std::pin::pin!(admission.room(MAIN));
    assert!((&mut room).now_or_never().is_none());
    assert!(matches!(door.admit(11), Admitted::Later(_)));
    // More come than there is room for, again and again.
    let mut through = door.through();
    drop(through.pop());
    assert!((&mut room).now_or_never().is_none() && door.admission.load().waiting == 1);
    through.extend(door.through());
    assert_eq!(sizes(&through), [9, 9, 9, 10]);
    assert!(matches!(door.admit(12), Admitted::Later(_)));
    drop(through.pop());
    assert_eq!(room.now_or_never(), Some(()));
    assert_eq!(sizes(&door.through()), [11]);
    assert!(door.is_throttled());
}

#[tokio::test]
async fn who_asks_for_room_is_told_of_the_end_and_leaves_nothing_when_it_does_not_wait_so_long() {
    let mut door = Door::new(1, 1_000);
    door.fill(MAIN, 5);
    let admission = Arc::clone(&door.admission);
    for _ in 0..10 {
        assert!(admission.room(MAIN).now_or_never().is_none());
    }
    assert!(admission.lock().streams.values().all(|stream| stream.asking.is_empty()));
    let mut room = std::pin::pin!(admission.room(MAIN));
    assert!((&mut room).now_or_never().is_none());
    drop(admission.close(SendReason::Stopped(None)));
    assert_eq!(room.now_or_never(), Some(()));
    assert_eq!(admission.room(MAIN).now_or_never(), Some(()));
}

#[test]
fn a_stream_without_events_is_forgotten() {
    let mut door = Door::new(10, 1_000_000);
    for stream in 0..1_000 {
        assert!(matches!(door.admit_to(&format!("stream-{stream}"), 5), Admitted::Now));
        drop(door.through());
    }
    door.fill("a", 5);
    door.fill("b", 5);
    drop(door.through());
    while !door.through().is_empty() {}
    let state = door.admission.lock();
    assert!(state.streams.is_empty() && state.throttled.is_empty());
}

#[test]
fn when_the_task_dies_every_event_comes_back_however_many_wait() {
    let mut door = Door::new(10, 1_000);
    let waiting = 100_000;
    (0..waiting).for_each(|_| drop(door.admit(5)));
    let (_, nothing) = mpsc::unbounded_channel();
    drop(std::mem::replace(&mut door.commands, nothing));
    assert!(matches!(door.admit(5), Admitted::Closed(_, SendReason::Died)));
    for outcome in &mut door.outcomes {
        let error = outcome.try_recv().unwrap().unwrap_err();
        assert_eq!((error.reason, error.event.size()), (SendReason::Died, 5));
    }
    assert_eq!(door.admission.load().records, 0);
}
