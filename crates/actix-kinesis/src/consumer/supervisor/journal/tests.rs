use std::sync::Mutex;
use std::time::Duration;

use kinesis_lease::Lease;
use kinesis_lease::coordinator::Effect;
use kinesis_lease::journal::{Ending, Entry, JournalError, Replay};
use kinesis_record::{Checkpoint, HashRange, Shard};

use super::*;

/// A log that takes nothing until it is opened, and then all.
#[derive(Default)]
struct StuckLog {
    lines: Arc<Mutex<Vec<String>>>,
    gate: Arc<Mutex<()>>,
}

impl StuckLog {
    /// Says when the thread that writes has ended.
    fn queue(&self, most_waiting: usize) -> (Queue, mpsc::Receiver<()>) {
        let (lines, gate) = (Arc::clone(&self.lines), Arc::clone(&self.gate));
        let (ends, ended) = mpsc::channel();
        let log = move |line: &str| {
            let _keep = &ends;
            drop(gate.lock().unwrap());
            lines.lock().unwrap().push(line.to_owned());
        };
        (Queue::start(most_waiting, log).unwrap(), ended)
    }
}

#[test]
fn a_log_that_takes_nothing_makes_nobody_wait_and_gets_the_lines_later() {
    let log = StuckLog::default();
    let (mut queue, ended) = log.queue(30);
    let stuck = log.gate.lock().unwrap();
    let taken: Vec<bool> = (0..4).map(|number| queue.put(format!("line {number} x"))).collect();
    // The one that is refused is the last but for the word that it was.
    assert_eq!(taken, [true, true, true, false]);
    assert!(queue.put("the end".to_owned()));
    drop(queue);
    drop(stuck);
    ended.recv().unwrap_err();
    assert_eq!(*log.lines.lock().unwrap(), ["line 0 x", "line 1 x", "line 2 x", "the end"]);
}

/// A worker that has the only shard, for a minute. Returns how often it has renewed the lease.
fn a_minute(mut coordinator: Coordinator) -> usize {
    let shard = Shard {
        id: "shardId-000000000000".into(),
        hash_range: HashRange::ALL,
        parents: Vec::new(),
        starting_sequence: 1.into(),
        ending_sequence: None,
    };
    let mut row = Lease {
        shard: shard.id.clone(),
        owner: None,
        counter: 0,
        owner_switches: 0,
        checkpoint: Checkpoint::TrimHorizon,
        parents: Vec::new(),
        children: Vec::new(),
        hash_range: Some(HashRange::ALL),
        checkpoint_owner: None,
        token: None,
        asked_by: None,
        is_offered: false,
        latest_since: None,
    };
    let (mut now, mut extended) = (Duration::ZERO, 0);
    while now < Duration::from_secs(60) {
        coordinator.tick(now);
        while let Some(effect) = coordinator.next_effect() {
            match effect {
                Effect::Scan => coordinator.scanned(now, Ok(vec![row.clone()].into())),
                Effect::ListShards => coordinator.listed(now, Ok(vec![shard.clone()])).unwrap(),
                Effect::Write(acquisition, write) => {
                    let outcome = write.apply_to(Some(&mut row));
                    coordinator.written(now, acquisition, write, Ok(outcome));
                }
                Effect::Extended(..) => extended += 1,
                Effect::Lost(..) => panic!("the lease is lost"),
                _ => {}
            }
        }
        now = coordinator.next_wakeup().unwrap();
    }
    extended
}

#[test]
fn a_log_that_takes_nothing_stops_no_renewal_and_is_told_that_the_journal_ended() {
    let settings = Settings {
        worker: "me".into(),
        failover: Duration::from_secs(10),
        shard_sync_interval: Duration::from_secs(60),
        initial: Checkpoint::TrimHorizon,
        max_leases: 10,
        max_steals: None,
        clean_up_after: Duration::from_secs(300),
        hand_over_timeout: Duration::from_secs(30),
    };
    let log = StuckLog::default();
    let (mut queue, ended) = log.queue(4096);
    let stuck = log.gate.lock().unwrap();
    let random = fastrand::Rng::with_seed(1);
    let coordinator = Coordinator::recorded(settings, random, move |line| queue.put(line));
    assert!(a_minute(coordinator) >= 15);
    drop(stuck);
    ended.recv().unwrap_err();
    let lines = log.lines.lock().unwrap();
    let mut replay = Replay::default();
    let mut errors = Vec::new();
    for line in &*lines {
        let entry = Entry::find(line).unwrap().unwrap();
        let run = entry.run.clone();
        for event in replay.read(entry).unwrap() {
            errors.extend(replay.follow(&run, event).err());
        }
    }
    assert!(lines.len() > 5);
    assert_eq!(errors, [JournalError::Ended(Ending::NotTaken)]);
}
