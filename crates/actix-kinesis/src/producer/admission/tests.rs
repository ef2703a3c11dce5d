use tokio::sync::oneshot;
use tokio::time::Instant;

use super::*;
use crate::producer::event::ProducerEvent;
use crate::producer::outcome::Outcome;

struct Door {
    admission: Arc<Admission>,
    commands: mpsc::UnboundedReceiver<Command>,
    outcomes: Vec<oneshot::Receiver<Outcome>>,
}

impl Door {
    fn new(max_records: u64, max_bytes: u64) -> Self {
        let (task, commands) = mpsc::unbounded_channel();
        Self { admission: Admission::new(max_records, max_bytes, task), commands, outcomes: Vec::new() }
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
    let throttled = door.admission.throttled();
    assert!(*throttled.borrow());
    (11..=14).for_each(|bytes| assert!(matches!(door.admit(bytes), Admitted::Later(_))));
    let mut through = door.through();
    assert_eq!(through.len(), 10);
    drop(through.pop());
    assert!(*throttled.borrow() && door.through().is_empty(), "9 is not below 9");
    drop(through.pop());
    let again = door.through();
    assert_eq!(sizes(&again), [11, 12]);
    assert!(*throttled.borrow());
    assert_eq!(door.admission.load().records, 10);
    drop(through);
    assert_eq!(sizes(&door.through()), [13, 14]);
    assert!(!*throttled.borrow());
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
    assert_eq!(door.admission.withdraw(first).map(|record| size(&record)), Some(6));
    assert_eq!(sizes(&door.through()), [5]);
    assert_eq!(sizes(&door.through()), [7]);
    assert!(door.admission.withdraw(first).is_none());
}

#[test]
fn a_closed_door_gives_back_what_waits_and_what_comes() {
    let mut door = Door::new(1, 1_000);
    assert!(matches!(door.admit(5), Admitted::Now));
    assert!(matches!(door.admit(6), Admitted::Later(_)));
    assert_eq!(sizes(&door.admission.close(SendReason::Stopped(None))), [6]);
    assert!(matches!(door.admit(7), Admitted::Closed(_, SendReason::Stopped(None))));
    assert!(!*door.admission.throttled().borrow());
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
