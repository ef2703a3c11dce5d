//! The outbox as a process that is killed, against a local AWS over the wire.
//!
//! `OUTBOX_KILLS=50` kills it as often; without it, five times.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that fails panics")]

#[path = "../support/child.rs"]
mod child;
#[path = "../support/example.rs"]
mod example;
mod process;
mod sender;
mod streams;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kinesis_local::LocalAws;
use kinesis_local::faults::{Fault, RecordFailure};
use kinesis_record::aggregation::{Deaggregated, deaggregate};

use process::{Files, Process, STREAM};
use sender::{PATIENCE, Sender};

const KEYS: usize = 40;

/// The payloads of each key, in the order of the stream.
fn stored(aws: &LocalAws) -> BTreeMap<String, Vec<usize>> {
    let mut stored: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut add = |key: &str, payload: &[u8]| {
        let number = std::str::from_utf8(payload).unwrap().parse().unwrap();
        stored.entry(key.to_owned()).or_default().push(number);
    };
    for (_, record) in aws.records(STREAM).unwrap() {
        match deaggregate(&record.data, None) {
            Deaggregated::Aggregated { records, .. } => {
                records.iter().for_each(|user| add(&user.partition_key, &user.data));
            }
            _ => add(record.partition_key.as_deref().unwrap(), &record.data),
        }
    }
    stored
}

/// Asserts that all that was accepted is stored, the first time in order. Returns how many are there again.
fn assert_complete(aws: &LocalAws, accepted: &BTreeMap<String, usize>) -> usize {
    let (stored, mut again) = (stored(aws), 0);
    for (key, accepted) in accepted {
        let mut next = 0;
        for number in &stored[key] {
            assert!(*number <= next, "{key}: {number} is stored before {next}");
            again += usize::from(*number < next);
            next = next.max(number + 1);
        }
        assert!(next >= *accepted, "{key}: {accepted} were accepted, and {next} are stored");
    }
    again
}

fn trouble(aws: &LocalAws) {
    let faults = aws.faults();
    let fault = |chance: f64| Fault::on("PutRecords").chance(chance);
    faults.add(fault(0.2).fail_records_with([0, 2, 5], RecordFailure::InternalFailure, "not now"));
    faults.add(fault(0.2).fail_records([1, 3]));
    faults.add(fault(0.1).lose_reply());
    faults.add(fault(0.1).throttle());
    faults.add(fault(0.1).error("ServiceUnavailable"));
    faults.add(fault(0.5).delay(Duration::from_millis(50)));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_accepted_is_lost_or_out_of_order_when_the_process_is_killed_at_any_moment() {
    let kills: u64 = std::env::var("OUTBOX_KILLS").map_or(5, |kills| kills.parse().unwrap());
    for aggregation in [true, false] {
        let aws = LocalAws::builder().stream(STREAM, 4).start().await.unwrap();
        trouble(&aws);
        let files = Files::new(&aws, aggregation);
        let mut sender = Sender::new(KEYS);
        let mut random = fastrand::Rng::with_seed(kills);
        for kill in 0..kills.div_ceil(2) {
            let mut process = Process::start(&files);
            tokio::task::block_in_place(|| {
                // Some die while they open the outbox, most while they accept and send.
                if random.u8(..5) > 0 {
                    let before = sender.accepted().values().sum();
                    sender.feed_until(&mut process, |_, accepted| accepted > before);
                }
                sender.feed(&mut process, Duration::from_millis(random.u64(..1_000)));
            });
            process.kill(&mut sender);
            sender.restart();
            println!("kill {kill}: {} accepted so far", sender.accepted().values().sum::<usize>());
        }
        // A process that stops has a minute to send what is left, which the next one goes on with.
        aws.faults().clear();
        let all_sent = |sender: &mut Sender| Process::start(&files).end(sender) == 0;
        assert!(tokio::task::block_in_place(|| (0..10).any(|_| all_sent(&mut sender))));
        let again = assert_complete(&aws, &sender.accepted());
        let accepted: usize = sender.accepted().values().sum();
        println!("{accepted} accepted, {again} stored again");
        assert!(accepted > 100, "{accepted}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_in_the_same_directory_is_refused() {
    let aws = LocalAws::builder().stream(STREAM, 1).start().await.unwrap();
    let files = Files::new(&aws, true);
    let mut sender = Sender::new(1);
    tokio::task::block_in_place(|| {
        let mut process = Process::start(&files);
        sender.feed_until(&mut process, |_, accepted| accepted > 0);
        let (code, _, errors) = Process::run(&files, b"");
        assert_eq!(code, 2, "{errors}");
        assert!(errors.contains("is open in another process"), "{errors}");
        assert_eq!(process.end(&mut sender), 0);
    });
    assert_complete(&aws, &sender.accepted());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_is_no_event_is_refused_by_its_number_and_the_next_one_is_read() {
    let aws = LocalAws::builder().stream(STREAM, 1).start().await.unwrap();
    let files = Files::new(&aws, false);
    let input = b"first\tone\n\xff\xfe\ttwo\nthird\t\xff\xfe\nno tab\na\tx\t-1\nfourth\tfour\t7\n";
    let (code, accepted, errors) = tokio::task::block_in_place(|| Process::run(&files, input));
    assert_eq!((code, &*accepted), (1, "0\n2\n5\n"), "{errors}");
    for told in ["line 1: a key is no UTF-8", "line 3: there is no tab", "line 4: "] {
        assert!(errors.contains(told), "{told} is not in {errors}");
    }
    let mut stored: Vec<_> =
        aws.records(STREAM).unwrap().into_iter().map(|(_, it)| it.data.to_vec()).collect();
    stored.sort();
    assert_eq!(stored, [&b"four"[..], b"one", b"\xff\xfe"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_events_and_what_was_accepted_is_sent_from_it() {
    let aws = LocalAws::builder().stream(STREAM, 1).start().await.unwrap();
    let trouble = aws.faults().add(Fault::on("PutRecords").error("ServiceUnavailable"));
    let files = Files::new(&aws, true);
    // Each key once, so that one that is refused leaves no gap. The disk takes what the first write holds.
    let mut sender = Sender::new(usize::MAX).with_digits(3_000).with_most_under_way(20);
    tokio::task::block_in_place(|| {
        let mut process = Process::start_on_a_small_disk(&files, 1_000);
        sender.feed_until(&mut process, |process, accepted| accepted > 0 && process.refusals() > 0);
        trouble.remove();
        let accepted = sender.accepted();
        let begin = Instant::now();
        while accepted.keys().any(|key| !stored(&aws).contains_key(key)) {
            assert!(begin.elapsed() < PATIENCE, "what was accepted is not sent");
            std::thread::sleep(Duration::from_millis(10));
        }
        process.kill(&mut sender);
    });
    sender.restart();
    assert_eq!(tokio::task::block_in_place(|| Process::start(&files).end(&mut sender)), 0);
    assert_complete(&aws, &sender.accepted());
}
