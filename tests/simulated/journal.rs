//! What a consumer logs of its leases, replayed.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use actix::Actor;
use kinesis_lease::journal::{Entry, Event, Replay};
use tracing_subscriber::filter::EnvFilter;

use super::recorder::Recorder;
use super::world::{Fault, Place};
use super::{MINUTE, SECOND, conf, new_notes, pass, start};

/// What one thread has logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Logs what `filter` asks for of all that this thread does.
fn logging(filter: &str) -> (Log, tracing::subscriber::DefaultGuard) {
    // First that of all threads: between the two, spans of other tests would be nobody's and yet count as logged.
    crate::logs::install();
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(move || writer.clone())
        .finish();
    (log, tracing::subscriber::set_default(subscriber))
}

/// Two consumers share shards through lost calls, a reshard, a drained shard and a stop.
async fn some_life() {
    let place = Place::new(4);
    let (first, network) = place.connect();
    let first = start(conf(), first, Recorder::new(&new_notes()).start());
    pass(20 * SECOND).await;
    let second = start(conf(), place.connect().0, Recorder::new(&new_notes()).start());
    let mut calls = 0;
    network.fail(move |call| {
        calls += 1;
        if call != "GetRecords" && calls % 7 == 3 { Fault::ReplyLost } else { Fault::None }
    });
    let shards = place.shards();
    for shard in &shards {
        place.put(&place.key_of(&shard.id), "of the parents");
    }
    place.split(&shards[0]);
    pass(MINUTE).await;
    network.heal();
    let held = first.status().shards.first().map(|shard| shard.shard.clone());
    first.drain(&held.unwrap()).await.unwrap();
    pass(MINUTE).await;
    second.stop().await.unwrap();
    first.stop().await.unwrap();
}

#[actix::test]
async fn the_journal_in_a_consumers_log_replays_to_the_same_effects() {
    tokio::time::pause();
    let (log, _guard) = logging("info,kinesis_lease::journal=trace");
    some_life().await;
    let mut replay = Replay::default();
    let mut inputs = Vec::new();
    for line in log.lines() {
        let Some(entry) = Entry::find(&line) else { continue };
        assert!(line.contains("TRACE") && line.contains("kinesis_lease::journal"), "{line}");
        assert!(line.contains("consumer"), "the span tells whose it is: {line}");
        let entry = entry.unwrap();
        let run = entry.run.clone();
        for event in replay.read(entry).unwrap() {
            if let Event::In { input, .. } = &event {
                let input = format!("{input:?}");
                inputs.push(input.split('(').next().unwrap().to_owned());
            }
            replay.follow(&run, event).unwrap();
        }
    }
    let runs = replay.runs();
    assert_eq!(runs.len(), 2);
    for run in runs.values() {
        let (inputs, effects) = run.followed();
        assert!(run.is_same() && inputs > 50 && effects > 50, "{inputs} inputs, {effects} effects");
    }
    for kind in
        ["Tick", "Scanned", "Listed", "Created", "Written", "LookedUp", "Checkpoint", "End", "Release"]
    {
        assert!(inputs.iter().any(|input| input == kind), "no {kind}");
    }
    for kind in ["Shun", "Offer", "Leave", "StopTaking"] {
        assert!(inputs.iter().any(|input| input == kind), "no {kind}");
    }
}

#[actix::test]
async fn nothing_is_written_down_unless_the_log_asks_for_it() {
    tokio::time::pause();
    let (log, _guard) = logging("trace,kinesis_lease::journal=debug");
    some_life().await;
    assert!(!log.lines().is_empty());
    assert!(log.lines().iter().all(|line| Entry::find(line).is_none()));
}

#[actix::test]
async fn a_journal_is_of_bounded_size_in_bounded_lines() {
    tokio::time::pause();
    let (log, _guard) = logging("kinesis_lease::journal=trace");
    let place = Place::new(4);
    let first = start(conf(), place.connect().0, Recorder::new(&new_notes()).start());
    let second = start(conf(), place.connect().0, Recorder::new(&new_notes()).start());
    pass(5 * MINUTE).await;
    let before = log.lines().len();
    let shards = place.shards();
    for _ in 0..60 {
        for shard in &shards {
            place.put(&place.key_of(&shard.id), "processed and stored");
        }
        pass(10 * SECOND).await;
    }
    let lines = log.lines();
    let bytes: usize = lines[before..].iter().map(String::len).sum();
    let of_shard_and_hour = bytes * 6 / (2 * shards.len());
    assert!((200_000..700_000).contains(&of_shard_and_hour), "{of_shard_and_hour} bytes");
    assert!(lines.iter().all(|line| line.len() < 9 * 1024));
    second.stop().await.unwrap();
    first.stop().await.unwrap();
}
