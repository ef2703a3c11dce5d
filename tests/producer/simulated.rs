//! Minutes of overload and outage, under tokio's paused clock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use actix_kinesis::config::ProducerConf;
use actix_kinesis::producer::{
    KinesisProducer, ProducerEvent, PutApi, PutPlace, PutRecord, PutRefusal, PutReply, SendReason, Shard,
    StreamError, StreamErrorKind,
};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use kinesis_local::model::{
    CreateStreamRequest, Kinesis, ListShardsRequest, PutRecordsEntry, PutRecordsRequest, Settings, Timestamp,
};
use tokio::time::Instant;

use crate::support::{SECOND, STREAM, error, event, outcomes, send_many};

const LATENCY: Duration = Duration::from_millis(20);

/// A stream in memory with the limits of the service.
#[derive(Clone)]
struct Place {
    begin: (Instant, SystemTime),
    kinesis: Arc<Mutex<Kinesis>>,
    calls: Arc<Mutex<Vec<Instant>>>,
    /// What is stored, by second and shard.
    stored: Arc<Mutex<BTreeMap<(u64, String), u64>>>,
    outage: Arc<Mutex<Option<(Instant, StreamErrorKind)>>>,
    /// How long a list of shards takes, in pages.
    pages: u32,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Place")
    }
}

impl Place {
    fn new(shards: u32) -> Self {
        let settings = Settings { limits: true, ..Settings::default() };
        let place = Self {
            begin: (Instant::now(), SystemTime::now()),
            kinesis: Arc::new(Mutex::new(Kinesis::new(settings))),
            calls: Arc::default(),
            stored: Arc::default(),
            outage: Arc::default(),
            pages: 1,
        };
        let create = CreateStreamRequest {
            stream_name: STREAM.to_owned(),
            shard_count: Some(shards),
            ..CreateStreamRequest::default()
        };
        place.kinesis.lock().unwrap().create_stream(create, place.now()).unwrap();
        place
    }

    fn now(&self) -> Timestamp {
        let at = self.begin.1 + self.begin.0.elapsed();
        Timestamp::from_millis(at.duration_since(UNIX_EPOCH).unwrap().as_millis() as u64)
    }

    async fn start(&self, conf: ProducerConf) -> KinesisProducer {
        self.start_with(1, conf).await
    }

    async fn start_with(&self, seed: u64, conf: ProducerConf) -> KinesisProducer {
        KinesisProducer::builder(conf).api(Arc::new(self.clone())).seed(seed).start().await.unwrap()
    }

    /// From now on every call fails for so long.
    fn fail(&self, time: Duration, kind: StreamErrorKind) {
        *self.outage.lock().unwrap() = Some((Instant::now() + time, kind));
    }

    /// The records stored in each second from `from` on, of all shards.
    fn by_second(&self, from: u64, to: u64) -> Vec<u64> {
        let stored = self.stored.lock().unwrap();
        (from..to)
            .map(|second| stored.iter().filter(|((at, _), _)| *at == second).map(|(_, count)| count).sum())
            .collect()
    }
}

impl PutApi for Place {
    fn list_shards<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, Result<Vec<Shard>, StreamError>> {
        async move {
            for _ in 0..self.pages {
                tokio::time::sleep(LATENCY).await;
            }
            let request = ListShardsRequest { stream: stream.into(), ..ListShardsRequest::default() };
            Ok(self.kinesis.lock().unwrap().list_shards(request, self.now()).unwrap().shards)
        }
        .boxed()
    }

    fn put_records<'a>(
        &'a self,
        stream: &'a str,
        records: Vec<PutRecord>,
    ) -> BoxFuture<'a, Result<Vec<PutReply>, StreamError>> {
        async move {
            self.calls.lock().unwrap().push(Instant::now());
            tokio::time::sleep(LATENCY).await;
            if let Some((until, kind)) = *self.outage.lock().unwrap()
                && Instant::now() < until
            {
                return Err(StreamError { kind, message: format!("it is {kind:?}") });
            }
            // The service has a copy of its own.
            let entry = |record: PutRecord| PutRecordsEntry {
                data: Bytes::copy_from_slice(&record.data),
                partition_key: Some(record.partition_key.to_string()),
                explicit_hash_key: record.explicit_hash_key.map(|key| key.to_string()),
            };
            let records = records.into_iter().map(entry).collect();
            let request = PutRecordsRequest { stream: stream.into(), records };
            let reply = self.kinesis.lock().unwrap().put_records(request, self.now()).unwrap();
            let second = self.begin.0.elapsed().as_secs();
            let mut stored = self.stored.lock().unwrap();
            let replies = reply.records.into_iter().map(|reply| match reply {
                Ok(place) => {
                    *stored.entry((second, place.shard_id.to_string())).or_default() += 1;
                    Ok(PutPlace { shard: place.shard_id, sequence: place.sequence_number })
                }
                Err(error) => Err(PutRefusal { code: error.code().to_owned(), message: error.to_string() }),
            });
            Ok(replies.collect())
        }
        .boxed()
    }
}

/// Payloads that tell how many of them are somewhere in memory.
#[derive(Debug, Clone, Default)]
struct Payloads(Arc<()>);

struct Payload {
    text: String,
    _one: Arc<()>,
}

impl AsRef<[u8]> for Payload {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

impl Payloads {
    fn event(&self, index: usize, keys: usize) -> ProducerEvent {
        let payload = Payload { text: index.to_string(), _one: Arc::clone(&self.0) };
        ProducerEvent::new(format!("key-{}", index % keys), Bytes::from_owner(payload))
    }

    fn alive(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

#[tokio::test(start_paused = true)]
async fn five_times_the_load_goes_at_the_shards_limit_in_bounded_memory_and_drains_afterwards() {
    let place = Place::new(1);
    let mut conf = ProducerConf::new(STREAM);
    conf.aggregation.enabled = false;
    conf.max_outstanding_requests = 5_000;
    let producer = place.start(conf).await;
    let (payloads, mut most) = (Payloads::default(), 0);
    let mut sendings = Vec::new();
    let (mut refused, mut sent, mut index) = (0u64, 0u64, 0);
    // For two minutes 5,000 events in a second, of which the shard takes 1,000.
    for tick in 0..6_000 {
        for _ in 0..100 {
            match producer.try_send(payloads.event(index, 997)) {
                Ok(sending) => sendings.push(sending),
                Err(error) => {
                    assert_eq!(error.reason, SendReason::Full);
                    refused += 1;
                }
            }
            index += 1;
        }
        most = most.max(payloads.alive());
        tokio::time::sleep(Duration::from_millis(20)).await;
        if tick % 50 == 49 {
            let ready = std::mem::take(&mut sendings).into_iter().filter_map(|mut sending| {
                match (&mut sending).now_or_never() {
                    Some(outcome) => {
                        outcome.unwrap();
                        sent += 1;
                        None
                    }
                    None => Some(sending),
                }
            });
            sendings = ready.collect();
        }
    }
    // Nothing holds an event but the room that it takes.
    assert!((4_500..=5_000).contains(&most), "{most} payloads in memory");
    let by_second = place.by_second(5, 120);
    let mean = by_second.iter().sum::<u64>() as f64 / by_second.len() as f64;
    println!(
        "records a second: mean {mean}, least {:?}, most {:?}; refused by the producer: {refused}; calls: {}",
        by_second.iter().min(),
        by_second.iter().max(),
        place.calls.lock().unwrap().len()
    );
    assert!(mean > 0.95 * 1_000.0, "{mean}");
    assert!(by_second.iter().all(|count| *count > 700), "{by_second:?}");
    let calls = place.calls.lock().unwrap().len();
    assert!(calls < 120 * 60, "{calls} calls in two minutes");
    let rest = sendings.len() as u64;
    assert!(outcomes(sendings).await.iter().all(Result::is_ok));
    assert_eq!((producer.status().sent, payloads.alive()), (sent + rest, 0));
    // Then it sleeps.
    tokio::time::sleep(10 * SECOND).await;
    let calls = place.calls.lock().unwrap().len();
    tokio::time::sleep(3_600 * SECOND).await;
    assert_eq!(place.calls.lock().unwrap().len(), calls);
}

#[tokio::test(start_paused = true)]
async fn under_the_limits_of_the_service_little_is_refused() {
    let place = Place::new(4);
    let mut conf = ProducerConf::new(STREAM);
    conf.aggregation.enabled = false;
    let producer = place.start(conf).await;
    let outcomes = outcomes(send_many(&producer, 30_000, 1_000)).await;
    assert!(outcomes.iter().all(Result::is_ok));
    let refused: u64 = producer.status().streams[0].shards.iter().map(|shard| shard.refused).sum();
    // At a rate that does not follow what is refused, it would be half as many as are sent.
    assert!(refused < 4_000, "{refused}");
}

#[tokio::test(start_paused = true)]
async fn two_producers_share_a_shard_without_knowing_of_each_other() {
    let place = Place::new(1);
    let mut conf = ProducerConf::new(STREAM);
    conf.aggregation.enabled = false;
    conf.max_outstanding_requests = 5_000;
    conf.record_ttl = 600 * SECOND;
    let (first, second) = (place.start_with(1, conf.clone()).await, place.start_with(2, conf).await);
    let load = async |producer: &KinesisProducer| {
        let mut index = 0;
        let end = Instant::now() + 60 * SECOND;
        while Instant::now() < end {
            let _ = producer.try_send(event(index, 997)).map(|sending| tokio::spawn(sending));
            index += 1;
            if index % 20 == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    };
    tokio::join!(load(&first), load(&second));
    let by_second = place.by_second(10, 60);
    let mean = by_second.iter().sum::<u64>() as f64 / by_second.len() as f64;
    let (first, second) = (first.status().sent, second.status().sent);
    println!("records a second: mean {mean}; shares: {first} and {second}");
    assert!(mean > 850.0, "{mean}");
    // Neither starves.
    assert!(first.min(second) * 3 > first.max(second), "{first} and {second}");
}

#[tokio::test(start_paused = true)]
async fn an_outage_that_is_longer_than_the_time_to_live_gives_events_back_and_ends_by_itself() {
    let place = Place::new(1);
    let producer = place.start(ProducerConf::new(STREAM)).await;
    outcomes(send_many(&producer, 10, 10)).await;
    for kind in [StreamErrorKind::Denied, StreamErrorKind::Unavailable, StreamErrorKind::Throttled] {
        let (begin, calls) = (Instant::now(), place.calls.lock().unwrap().len());
        place.fail(60 * SECOND, kind);
        let errors = outcomes(send_many(&producer, 1_000, 100)).await;
        let passed = begin.elapsed();
        assert!((30 * SECOND..31 * SECOND).contains(&passed), "{passed:?}");
        for (index, outcome) in errors.into_iter().enumerate() {
            let error = outcome.unwrap_err();
            let SendReason::Expired(Some(last)) = &error.reason else { panic!("{error:?}") };
            assert_eq!(last.code, format!("{kind:?}"));
            assert_eq!(
                (error.event.clone(), error.may_be_stored()),
                (event(index, 100), kind == StreamErrorKind::Unavailable)
            );
        }
        let calls = place.calls.lock().unwrap().len() - calls;
        assert!((5..40).contains(&calls), "{calls} calls in half a minute");
        // These outlive it.
        tokio::time::sleep(20 * SECOND).await;
        let outcomes = outcomes(send_many(&producer, 100, 100)).await;
        assert!(outcomes.iter().all(Result::is_ok), "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_of_shards_of_many_pages_takes_its_time() {
    // Longer than any one call may.
    let place = Place { pages: 1_000, ..Place::new(4) };
    let producer = place.start(ProducerConf::new(STREAM)).await;
    let begin = Instant::now();
    outcomes(send_many(&producer, 10, 10)).await;
    let passed = begin.elapsed();
    assert!((7 * SECOND..8 * SECOND).contains(&passed), "{passed:?}");
    assert!(!producer.status().streams[0].listed);
    tokio::time::sleep(20 * SECOND).await;
    let results = outcomes(send_many(&producer, 100, 10)).await;
    assert!(results.iter().all(|outcome| outcome.as_ref().unwrap().sub_sequence.is_some()));
    assert!(producer.status().streams[0].listed);
}

#[tokio::test(start_paused = true)]
async fn an_endless_time_to_live_does_not_overflow() {
    let place = Place::new(1);
    let mut conf = ProducerConf::new(STREAM);
    conf.record_ttl = Duration::from_secs(36_500 * 24 * 60 * 60);
    let producer = place.start(conf).await;
    place.fail(24 * 3_600 * SECOND, StreamErrorKind::Unavailable);
    let sending = producer.send(ProducerEvent::new("k", "x"));
    let outcome = tokio::time::timeout(2 * 24 * 3_600 * SECOND, sending).await;
    assert!(outcome.expect("it is stored after a day of outage").is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_never_ends_in_time_gives_events_back() {
    let place = Place::new(1);
    let producer = place.start(ProducerConf::new(STREAM)).await;
    place.fail(3_600 * SECOND, StreamErrorKind::Denied);
    let sending = producer.send(event(0, 1));
    let begin = Instant::now();
    let flushed = producer.stop(5 * SECOND).await;
    assert_eq!((flushed.sent, flushed.failed, begin.elapsed()), (0, 1, 5 * SECOND));
    let error = error(sending).await;
    assert!(matches!(&error.reason, SendReason::Stopped(Some(last)) if last.code == "Denied"), "{error:?}");
}
