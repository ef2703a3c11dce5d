//! The service's limits, pauses and room.

use kinesis_record::HashKey;
use kinesis_record::aggregation::Aggregate;

use super::stream::record;
use super::*;

/// Fails if more than five calls begin within any second.
fn assert_five_a_second(reads: &[(Duration, usize)]) {
    for window in reads.windows(6) {
        assert!(window[5].0 - window[0].0 > SECOND, "{window:?}");
    }
}

/// Fails if the next call after any comes before the bytes of that one could be read at 2 MiB a second.
fn assert_two_mib_a_second(reads: &[(Duration, usize)]) {
    for pair in reads.windows(2) {
        let least = Duration::from_secs_f64(pair[0].1 as f64 / (2 * MIB) as f64);
        assert!(pair[1].0 - pair[0].0 + MS >= least, "{pair:?}");
    }
}

#[test]
fn behind_the_tip_it_reads_on_at_once_and_never_more_than_five_times_a_second() {
    simulated(async {
        let stream = Stream::of(1..=1000);
        let start = Start { max_records: 10, ..Checkpoint::TrimHorizon.into() };
        let reading = Reading::start(&stream, start);
        sleep(21 * SECOND).await;
        assert_eq!(reading.events().len(), 1000);
        let reads = stream.reads();
        assert_five_a_second(&reads);
        assert!(reads[99].0 < 99 * 210 * MS, "{:?}", reads[99]);
    });
}

#[test]
fn at_the_tip_it_pauses_for_the_idle_time() {
    simulated(async {
        let stream = Stream::of([]);
        let reading = Reading::start(&stream, Checkpoint::TrimHorizon);
        sleep(60 * SECOND).await;
        let calls = stream.reads().len();
        assert!((58..=61).contains(&calls), "{calls}");
        stream.put([1]);
        assert_eq!(reading.seen_within(IDLE).await, events([1]));
    });
}

#[test]
fn empty_pages_are_followed_to_the_records_behind_them() {
    simulated(async {
        let stream = Stream::of([]);
        stream.with(|state| state.behind = Some(5 * SECOND));
        let reading = Reading::start(&stream, Checkpoint::TrimHorizon);
        sleep(10 * SECOND).await;
        stream.put([1, 2]);
        assert_eq!(reading.seen_within(300 * MS).await, events([1, 2]));
    });
}

#[test]
fn an_empty_shard_that_is_always_behind_is_no_reason_for_more_than_five_calls_a_second() {
    simulated(async {
        let stream = Stream::of([]);
        stream.with(|state| state.behind = Some(5 * SECOND));
        let _reading = Reading::start(&stream, Checkpoint::TrimHorizon);
        sleep(600 * SECOND).await;
        assert_five_a_second(&stream.reads());
    });
}

#[test]
fn two_mib_a_second_are_not_exceeded() {
    simulated(async {
        let records =
            (1..=400).map(|sequence| record(sequence, vec![0; 100 * KIB * (sequence as usize % 3)]));
        let stream = Stream::new(records);
        let reading = Reading::start(&stream, Checkpoint::TrimHorizon);
        sleep(30 * SECOND).await;
        assert_eq!(reading.events().len(), 400);
        assert_two_mib_a_second(&stream.reads());
    });
}

#[test]
fn bytes_of_a_severed_reply_count() {
    simulated(async {
        let stream = Stream::new((1..=9).map(|sequence| record(sequence, vec![0; MIB])));
        stream.close(9);
        stream.with(|state| {
            state.names_children = false;
            state.list_faults = Fault::times(StreamErrorKind::Throttled, 3).into();
        });
        let reading = Reading::start(&stream, Checkpoint::TrimHorizon);
        sleep(60 * SECOND).await;
        assert_eq!(reading.events().len(), 9);
        assert_two_mib_a_second(&stream.reads());
    });
}

#[test]
fn after_a_pause_there_is_no_burst() {
    simulated(async {
        let stream = Stream::of(1..=400);
        let start = Start { max_records: 10, ..Checkpoint::TrimHorizon.into() };
        let reading = Reading::start(&stream, start);
        sleep(SECOND).await;
        reading.room.send_replace(0);
        sleep(60 * SECOND).await;
        let before = stream.reads().len();
        reading.room.send_replace(MIB as u64);
        sleep(10 * SECOND).await;
        assert_eq!(reading.events().len(), 400);
        assert!(stream.reads()[before..].len() > 30);
        assert_five_a_second(&stream.reads());
    });
}

#[test]
fn slow_replies_bring_no_burst_either() {
    simulated(async {
        let stream = Stream::of(1..=400);
        stream.with(|state| state.latency = 3 * SECOND);
        let start = Start { max_records: 10, ..Checkpoint::TrimHorizon.into() };
        let _reading = Reading::start(&stream, start);
        sleep(20 * SECOND).await;
        stream.with(|state| state.latency = Duration::ZERO);
        sleep(20 * SECOND).await;
        assert_five_a_second(&stream.reads());
    });
}

#[test]
fn nothing_is_fetched_while_the_worker_has_no_room() {
    simulated(async {
        let stream = Stream::of(1..=10);
        let start = Start { room: 0, ..Checkpoint::TrimHorizon.into() };
        let reading = Reading::start(&stream, start);
        sleep(60 * SECOND).await;
        assert!(stream.calls().is_empty());
        reading.room.send_replace(MIB as u64);
        assert_eq!(reading.seen_within(MS).await.len(), 10);
    });
}

#[test]
fn the_limit_of_a_page_follows_the_room_and_what_records_were_found_to_need() {
    simulated(async {
        let stream = Stream::new((1..=1000).map(|sequence| record(sequence, vec![0; 100 * KIB])));
        let start = Start { room: 4 * MIB as u64, ..Checkpoint::TrimHorizon.into() };
        let reading = Reading::start(&stream, start);
        sleep(30 * SECOND).await;
        let limits = stream.limits();
        assert_eq!(limits[0] as usize, 4 * MIB / (16 * KIB));
        assert!(limits[1..].iter().all(|limit| (39..=40).contains(limit)), "{limits:?}");
        drop(reading);
    });
}

#[test]
fn small_records_come_as_many_as_may_be_asked_for() {
    simulated(async {
        let stream = Stream::of(1..=30_000);
        let _reading = Reading::start(&stream, Checkpoint::TrimHorizon);
        sleep(2 * SECOND).await;
        assert_eq!(stream.limits()[1..3], [10_000, 10_000]);
    });
}

#[test]
fn a_page_of_which_nothing_is_delivered_does_not_make_records_look_small() {
    simulated(async {
        let of_another_shard = |sequence| {
            let mut aggregate = Aggregate::new();
            aggregate.push("key", Some(HashKey(99)), vec![0; 100 * KIB].into());
            record(sequence, aggregate.encode())
        };
        let stream = Stream::new((1..=100).map(of_another_shard));
        let range = Some(HashRange { start: HashKey(0), end: HashKey(9) });
        let start = Start { room: 4 * MIB as u64, range, ..Checkpoint::TrimHorizon.into() };
        let reading = Reading::start(&stream, start);
        sleep(30 * SECOND).await;
        let limits = stream.limits();
        assert!(limits[1..].iter().all(|limit| *limit <= 40), "{limits:?}");
        assert_eq!(reading.events(), []);
    });
}

#[test]
fn the_greatest_record_passes_through_a_smaller_budget() {
    simulated(async {
        let stream = Stream::new((1..=3).map(|sequence| record(sequence, vec![0; 10 * MIB])));
        let start = Start { room: MIB as u64, ..Checkpoint::TrimHorizon.into() };
        let reading = Reading::start(&stream, start);
        assert_eq!(reading.seen_within(11 * SECOND).await, events(1..=3));
        assert!(stream.limits()[1..].iter().all(|limit| *limit == 1));
        assert_two_mib_a_second(&stream.reads());
    });
}
