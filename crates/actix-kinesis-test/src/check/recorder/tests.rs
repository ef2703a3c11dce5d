use actix_kinesis::consumer::{ConsumerEvent, DeliveryOutcome, FailureCause, Stopped};
use kinesis_record::Position;

use super::*;

/// Takes so many bytes, and keeps each call.
#[derive(Clone, Default)]
struct Calls {
    calls: Arc<Mutex<Vec<String>>>,
    room: Option<usize>,
}

impl Calls {
    fn taken(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }
}

impl Write for Calls {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut calls = self.calls.lock().unwrap();
        let taken = calls.iter().map(String::len).sum::<usize>();
        if self.room.is_some_and(|room| taken + bytes.len() > room) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        calls.push(String::from_utf8(bytes.to_vec()).unwrap());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A consumer starts, delivers an event that fails, and ends.
fn show_a_run(recorder: &Recorder) {
    let observer = recorder.observer();
    observer(Observation::Noticed(ConsumerNotice::Started { worker_id: "host:1".into() }));
    let position = Position::new(7.into(), 0);
    let event = ConsumerEvent::new("shard-1".into(), position.clone(), "SECRET");
    observer(Observation::Delivered { event, attempt: 1 });
    let outcome = DeliveryOutcome::Failed(FailureCause::Reported("SECRET is bad".to_owned()));
    observer(Observation::Concluded { shard: "shard-1".into(), position, attempt: 1, outcome });
    observer(Observation::Ended(Ok(Stopped::default())));
}

#[test]
fn each_line_is_written_whole_with_the_worker_and_without_a_payload() {
    let calls = Calls::default();
    show_a_run(&Recorder::new(calls.clone()));
    let lines: Vec<Line> = calls.taken().iter().map(|call| Line::parse(call).unwrap()).collect();
    assert!(calls.taken().iter().all(|call| call.ends_with('\n') && !call.contains("SECRET")));
    assert!(lines.iter().all(|line| line.worker == "host:1" && line.at_ms > 0));
    assert!(lines.is_sorted_by_key(|line| line.at_ms));
    let events: Vec<&Event> = lines.iter().map(|line| &line.event).collect();
    let [Event::Started, Event::Delivery { attempt: 1, .. }, Event::Answer { done: false, .. }, ended] =
        events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(*ended, Event::Stopped { clean: true });
}

#[test]
fn nothing_is_written_behind_a_line_that_could_not_be() {
    let calls = Calls { room: Some(150), ..Calls::default() };
    show_a_run(&Recorder::new(calls.clone()));
    // The second line has no room, and the last one would have.
    assert_eq!(calls.taken().len(), 1, "{:?}", calls.taken());
}
