//! Limited shards.

use std::collections::BTreeMap;

use super::bench::{Bench, MS, SECOND, conf};
use crate::config::{BackoffConf, ProducerConf};
use crate::producer::event::ProducerEvent;

const THROTTLED: &str = "ProvisionedThroughputExceededException";

/// A shard that takes so many records in a second, and answers at once.
struct Limited {
    bench: Bench,
    per_second: usize,
    taken: BTreeMap<(u128, u64), usize>,
    refused: usize,
}

impl Limited {
    fn new(conf: ProducerConf, shards: u32, per_second: usize) -> Self {
        Self::of(Bench::new(conf, shards), per_second)
    }

    /// Shards that cannot be listed.
    fn unlisted(conf: ProducerConf, shards: u32, per_second: usize) -> Self {
        let mut bench = Bench::blank(conf, shards);
        bench.poll();
        Self::of(bench, per_second)
    }

    fn of(bench: Bench, per_second: usize) -> Self {
        Self { bench, per_second, taken: BTreeMap::new(), refused: 0 }
    }

    fn answer_all(&mut self) {
        if self.bench.is_listing {
            self.bench.fail_list();
        }
        while !self.bench.waiting.is_empty() {
            let tenth = (self.bench.now - self.bench.begin).as_millis() as u64 / 100;
            let (taken, limit, refused) = (&mut self.taken, self.per_second / 10, &mut self.refused);
            let ranges: Vec<_> = self.bench.shards.iter().map(|shard| shard.hash_range).collect();
            self.bench.answer(0, |_, record| {
                let key = record.explicit_hash_key;
                let key = key.unwrap_or(kinesis_record::HashKey::of_partition_key(&record.partition_key));
                let shard = ranges.iter().position(|range| range.contains(key)).unwrap() as u128;
                let taken = taken.entry((shard, tenth)).or_default();
                let is_refused = *taken >= limit;
                *taken += usize::from(!is_refused);
                *refused += usize::from(is_refused);
                is_refused.then_some(THROTTLED)
            });
        }
    }

    /// Lets time pass in steps of 10 ms, with as many sends in each. Returns how often the pipeline was woken.
    fn run(&mut self, steps: usize, sends: usize, key: impl Fn(usize) -> String) -> usize {
        let mut wakes = 0;
        for step in 0..steps {
            for send in 0..sends {
                self.bench.send(&key(step * sends + send));
            }
            let end = self.bench.now + 10 * MS;
            self.bench.poll();
            self.answer_all();
            while let Some(at) = self.bench.pipeline.wake_at().filter(|at| *at <= end) {
                wakes += 1;
                self.bench.now = at.max(self.bench.now);
                self.bench.poll();
                self.answer_all();
            }
            self.bench.now = end;
        }
        wakes
    }
}

fn single() -> ProducerConf {
    let mut conf = ProducerConf::new("orders");
    conf.aggregation.enabled = false;
    conf
}

#[test]
fn the_limit_holds_with_and_without_aggregation() {
    let mut conf = single();
    conf.rate_limit = 100;
    let mut limited = Limited::new(conf, 1, 1_000_000);
    limited.run(500, 30, |index| format!("key-{index}"));
    let sent = limited.bench.succeeded();
    assert!((5_500..=6_100).contains(&sent), "{sent} records in 5 s, with a second's worth before");

    let mut conf = ProducerConf::new("orders");
    conf.rate_limit = 100;
    let mut bench = Bench::new(conf, 1);
    for _ in 0..500 {
        for _ in 0..2 {
            bench.send_event(|it| ProducerEvent::new("key", it), 10_000);
        }
        bench.run(10 * MS);
    }
    let bytes: usize = bench.stored.iter().map(|stored| stored.record.data.len()).sum();
    let seconds = bytes as f64 / (1 << 20) as f64;
    assert!((5.3..=6.2).contains(&seconds), "{seconds} MiB");
}

#[test]
fn the_rate_follows_what_the_shard_takes() {
    let mut conf = single();
    conf.record_ttl = 3_600 * SECOND;
    let mut limited = Limited::new(conf, 1, 400);
    limited.run(1_000, 20, |index| format!("key-{index}"));
    let (sent, refused) = (limited.bench.succeeded(), limited.refused);
    let wakes = limited.run(3_000, 0, |_| String::new());
    let (sent, refused) = (limited.bench.succeeded() - sent, limited.refused - refused);
    assert!(sent > 30 * 400 * 9 / 10, "{sent} records of {} in 30 s", 30 * 400);
    assert!(refused < sent / 4, "{refused} refused, {sent} sent");
    assert!(wakes < 30 * 45, "{wakes} wakes in 30 s");
}

#[test]
fn the_beat_of_a_lane_changes_once_after_its_rate_has_fallen() {
    let mut bench = Bench::new(single(), 1);
    for key in 0..5_000 {
        bench.send(&format!("key-{key}"));
    }
    bench.poll();
    let mut next_beat = |is_refused: bool| {
        bench.answer_all();
        if is_refused {
            bench.pipeline.lanes[0].refuse(1, 0, 0.5, bench.now);
        }
        let beat = bench.pipeline.lanes[0].wake_at().unwrap() - bench.now;
        bench.pass(beat);
        beat
    };
    // The beat that has begun stays as it is.
    let beats = [false, true, false, false].map(&mut next_beat);
    assert_eq!([beats[0], beats[1], beats[3]], [50 * MS; 3]);
    assert!(beats[2] > 50 * MS && beats[2] <= 100 * MS, "{beats:?}");
}

#[test]
fn without_a_list_the_rate_is_that_of_all_shards_that_take_records() {
    let mut conf = single();
    conf.rate_limit = 100;
    let mut limited = Limited::unlisted(conf, 4, 1_000);
    limited.run(1_000, 38, |index| format!("key-{index}"));
    let sent = limited.bench.succeeded();
    assert!(sent > 10 * 3_800 * 9 / 10, "{sent} records in 10 s");
    assert!(limited.refused < sent / 20, "{} refused", limited.refused);
    let status = limited.bench.pipeline.status("orders");
    assert!(!status.listed && status.last_error.is_some());

    // Of shards that take none any more, nothing is left after a while.
    assert!(limited.bench.pipeline.unrouted.bucket.rate() > 3.0);
    limited.bench.create_again(1);
    limited.run(7_000, 5, |index| format!("key-{index}"));
    assert!(limited.bench.pipeline.unrouted.bucket.rate() <= 1.0);
}

#[test]
fn a_hot_shard_does_not_hold_up_the_others() {
    let mut limited = Limited::new(single(), 4, 500);
    let keys: Vec<Vec<String>> = (0..4)
        .map(|shard: usize| {
            let range = limited.bench.shards[shard].hash_range;
            let fits = |key: &String| range.contains(kinesis_record::HashKey::of_partition_key(key));
            (0..).map(|index| format!("key-{index}")).filter(fits).take(10).collect()
        })
        .collect();
    // Of 24 events in 10 ms, 21 go to the first shard.
    limited.run(1_000, 24, |index| keys[(index % 24).saturating_sub(20)][index % 10].clone());
    for (index, outcome) in &limited.bench.outcomes {
        let place = index % 24;
        if place > 20 {
            let result = outcome.as_ref().unwrap();
            let whole: std::time::Duration = result.attempts.iter().map(|it| it.delay + it.duration).sum();
            assert!(whole < SECOND, "{index}: {result:?}");
        }
    }
    let others =
        (0..24_000).filter(|index| index % 24 > 20 && !limited.bench.outcomes.contains_key(index)).count();
    assert!(others < 60, "{others}");
}

const LARGE: usize = 1 << 20;

/// A lane at the least rate there is, and an event of 1 MiB for it.
fn at_the_least_rate() -> Bench {
    let mut conf = single();
    conf.record_ttl = 3_600 * SECOND;
    conf.retry_backoff = BackoffConf { min: 100 * MS, max: 300 * MS };
    let mut bench = Bench::new(conf, 1);
    for _ in 0..20 {
        let now = bench.now;
        bench.pipeline.lanes[0].bucket.refused(1.0, now);
        bench.pass(250 * MS);
    }
    bench.send_event(|it| ProducerEvent::new("large", it), LARGE - 5);
    bench
}

/// Lets time pass until there is a call.
fn await_call(bench: &mut Bench) {
    while bench.waiting.is_empty() {
        let at = bench.pipeline.wake_at().unwrap();
        bench.pass(at.saturating_duration_since(bench.now));
    }
}

#[test]
fn a_refused_record_leaves_its_lane_no_debt() {
    let mut bench = at_the_least_rate();
    for _ in 0..10 {
        await_call(&mut bench);
        let sent = bench.now;
        bench.answer(0, |_, _| Some(THROTTLED));
        await_call(&mut bench);
        let passed = bench.now - sent;
        // The pause before it is sent again, and until the bucket is full, which grows with the rate meanwhile. To work
        // off its bytes would take more than five seconds.
        assert!(passed < 2 * SECOND, "{passed:?}");
    }
}

#[test]
fn a_lane_that_owes_much_at_the_least_rate_soon_takes_others_since_the_rate_rises() {
    let mut bench = at_the_least_rate();
    await_call(&mut bench);
    bench.answer(0, |_, _| None);
    let stored = bench.now;
    bench.send("small");
    await_call(&mut bench);
    let passed = bench.now - stored;
    // At the least rate it would be more than a minute.
    assert!(passed > SECOND && passed < 10 * SECOND, "{passed:?}");
}

#[test]
fn without_load_it_sleeps() {
    let mut bench = Bench::new(conf(), 4);
    bench.send("key");
    bench.run(SECOND);
    let wakes = bench.pipeline.wake_at();
    assert!(wakes.is_none_or(|at| at > bench.now + SECOND), "{wakes:?}");
    bench.run(60 * SECOND);
    assert_eq!(bench.pipeline.wake_at(), None);
}
