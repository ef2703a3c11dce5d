//! Events that follow each other, in a shard or in a partition key.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use actix::{Actor, Context, Handler, ResponseFuture};
use actix_kinesis::config::Concurrency;
use actix_kinesis::consumer::{
    ConsumerShutdown, ConsumerWorkerFailure, EventProcessed, EventProcessors, ProcessEvent,
};
use kinesis_local::LocalAws;

use crate::support::*;

/// What a desk does with an event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Processed,
    Failed,
    Panic,
    Unanswered,
}

/// Works on each event for a time, on as many at once as it is given, and sees to it that they come as they should.
#[derive(Clone)]
struct Desk {
    concurrency: Concurrency,
    work: Duration,
    fate: fn(usize, u32) -> Fate,
    log: Arc<Mutex<Log>>,
}

#[derive(Default)]
struct Log {
    delivered: BTreeSet<(String, usize)>,
    processed: BTreeSet<(String, usize)>,
    out_of_order: Vec<String>,
}

impl Desk {
    fn new(concurrency: Concurrency, work: Duration, fate: fn(usize, u32) -> Fate) -> Self {
        Self { concurrency, work, fate, log: Arc::default() }
    }

    fn processed(&self) -> usize {
        self.log.lock().unwrap().processed.len()
    }
}

impl Log {
    /// Everything before the event in its lane is processed, and nothing behind it has been delivered.
    fn begin(&mut self, lane: &str, number: usize, attempt: u32) {
        self.delivered.insert((lane.to_owned(), number));
        let (first, last) = ((lane.to_owned(), 0), (lane.to_owned(), usize::MAX));
        let event = (lane.to_owned(), number);
        let open: Vec<_> = self.delivered.range(first..event.clone()).collect();
        let open = open.into_iter().find(|before| !self.processed.contains(*before));
        let later = self.delivered.range(event..=last).nth(1);
        if let Some(other) = open.or(later) {
            self.out_of_order.push(format!("{number} of {lane:?} ({attempt}) comes beside {other:?}"));
        }
    }
}

impl Actor for Desk {
    type Context = Context<Self>;
}

impl Handler<ProcessEvent> for Desk {
    type Result = ResponseFuture<EventProcessed>;

    fn handle(&mut self, message: ProcessEvent, _: &mut Self::Context) -> Self::Result {
        let number: usize = std::str::from_utf8(message.event.payload()).unwrap().parse().unwrap();
        let lane = match self.concurrency {
            Concurrency::Shard => String::new(),
            _ => message.event.partition_key().unwrap().to_owned(),
        };
        self.log.lock().unwrap().begin(&lane, number, message.attempt);
        let fate = (self.fate)(number, message.attempt);
        assert!(fate != Fate::Panic, "a bug that shows once");
        let (log, work) = (Arc::clone(&self.log), self.work);
        Box::pin(async move {
            tokio::time::sleep(work).await;
            match fate {
                Fate::Failed => return EventProcessed::failed("not yet"),
                Fate::Unanswered => std::future::pending().await,
                Fate::Processed | Fate::Panic => {}
            }
            log.lock().unwrap().processed.insert((lane, number));
            EventProcessed::Processed
        })
    }
}

impl Handler<ConsumerWorkerFailure> for Desk {
    type Result = ();

    fn handle(&mut self, _: ConsumerWorkerFailure, _: &mut Self::Context) {}
}

impl Handler<ConsumerShutdown> for Desk {
    type Result = ();

    fn handle(&mut self, _: ConsumerShutdown, _: &mut Self::Context) {}
}

/// Puts so many numbers, to each of the keys in turn, and returns the last one's place.
fn put_numbers(aws: &LocalAws, keys: usize, count: usize) -> String {
    let put = |number: usize| aws.put(STREAM, &format!("key-{}", number % keys), number.to_string()).unwrap();
    let sequences: Vec<_> = (0..count).map(|number| put(number).sequence_number).collect();
    sequences.last().unwrap().to_string()
}

async fn checkpoint_reaches(aws: &LocalAws, table: &str, sequence: &str) {
    eventually("the checkpoint is there", async || {
        let rows = rows(aws, table).await;
        rows.values().any(|row| text(row, "checkpoint").as_deref() == Some(sequence))
    })
    .await;
}

#[actix::test]
async fn failures_panics_and_silence_leave_the_order_as_it_is() {
    for concurrency in [Concurrency::Shard, Concurrency::Key(8)] {
        let aws = local_aws(1).await;
        let last = put_numbers(&aws, 20, 400);
        let mut conf = quick_conf(&aws);
        conf.worker.concurrency = concurrency;
        conf.worker.failed_message_retries = 50;
        conf.worker.batch_timeout = Duration::from_secs(2);
        let table = conf.table_name();
        let desk = Desk::new(concurrency, Duration::from_millis(1), |number, attempt| match number {
            31 | 211 if attempt == 1 => Fate::Panic,
            101 | 102 if attempt == 1 => Fate::Unanswered,
            _ if number % 10 == 3 && attempt <= 2 => Fate::Failed,
            _ => Fate::Processed,
        });
        let processors = EventProcessors::per_shard({
            let desk = desk.clone();
            move |_| desk.clone().start()
        });
        let consumer = builder(conf, processors).start().unwrap();

        checkpoint_reaches(&aws, &table, &last).await;
        assert_eq!(desk.processed(), 400);
        let status = consumer.status().shards.remove(0);
        assert!(consumer.stop().await.unwrap().is_clean());
        assert_eq!(desk.log.lock().unwrap().out_of_order, [""; 0], "{concurrency:?}");
        assert!(status.failed > 40, "{status:?}");
        assert_eq!(status.restarts, 0, "{status:?}");
    }
}

#[actix::test]
async fn a_key_that_is_stuck_holds_up_no_other_and_the_checkpoint_waits_for_it() {
    let aws = local_aws(1).await;
    let stuck: Vec<_> = (0..3).map(|number| aws.put(STREAM, "stuck", number.to_string()).unwrap()).collect();
    let last = put_numbers(&aws, 20, 400);
    let notes = new_notes();
    let held = Held::default();
    let recorder = Recorder::answering(&notes, {
        let held = held.clone();
        move |message| match message.event.partition_key() {
            Some("stuck") => held.hold(message),
            _ => EventProcessed::Processed,
        }
    });
    let mut conf = quick_conf(&aws);
    conf.worker.concurrency = Concurrency::Key(2);
    conf.worker.batch_timeout = 60 * MINUTE;
    let table = conf.table_name();
    let consumer = builder(conf, recorder.start()).start().unwrap();

    let noted = notes.wait_for("the other keys", |noted| noted.deliveries.len() == 401).await;
    assert_eq!(noted.first_by_key()["stuck"], ["0"]);
    assert_eq!(
        text(rows(&aws, &table).await.values().next().unwrap(), "checkpoint").unwrap(),
        "TRIM_HORIZON"
    );
    for (number, put) in stuck.iter().enumerate() {
        let noted = notes.wait_for("the next one", |noted| noted.deliveries.len() == 401 + number).await;
        assert_eq!(noted.first_by_key()["stuck"].len(), number + 1);
        held.take().remove(0).answer(EventProcessed::Processed);
        if number < 2 {
            checkpoint_reaches(&aws, &table, put.sequence_number.as_str()).await;
        }
    }
    checkpoint_reaches(&aws, &table, &last).await;
    assert!(consumer.stop().await.unwrap().is_clean());
}

/// How long a consumer takes for 1,000 records of 100 keys, of 20 ms each.
async fn time_for_a_thousand(concurrency: Concurrency) -> Duration {
    let aws = local_aws(1).await;
    put_numbers(&aws, 100, 1_000);
    let mut conf = quick_conf(&aws);
    conf.worker.concurrency = concurrency;
    let desk = Desk::new(concurrency, Duration::from_millis(20), |_, _| Fate::Processed);
    let consumer = builder(conf, desk.clone().start()).start().unwrap();
    eventually("the first is processed", async || desk.processed() > 0).await;
    let begin = Instant::now();
    while desk.processed() < 1_000 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let time = begin.elapsed();
    assert!(consumer.stop().await.unwrap().is_clean());
    assert_eq!(desk.log.lock().unwrap().out_of_order, [""; 0]);
    time
}

#[actix::test]
#[ignore = "a measurement: cargo test --release --test consumer key_by_key -- --ignored --nocapture"]
async fn how_much_faster_a_shard_is_read_key_by_key() {
    let shard = time_for_a_thousand(Concurrency::Shard).await;
    for keys in [1, 8, 32, 100] {
        let time = time_for_a_thousand(Concurrency::Key(keys)).await;
        let ratio = shard.as_secs_f64() / time.as_secs_f64();
        println!(
            "1,000 records of 20 ms: shard {shard:.2?}, key({keys}) {time:.2?}, {ratio:.1} times as fast"
        );
    }
}
