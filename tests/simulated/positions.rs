//! Where reading starts, and which position wins.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actix_kinesis::config::InitialPosition;
use actix_kinesis::consumer::{ConsumerNotice, World};
use futures::FutureExt;
use futures::future::BoxFuture;
use kinesis_lease::stream::{RawRecord, RecordsPage, ShardIterator, StartAt, StreamApi, StreamError};
use kinesis_local::model::Settings;
use kinesis_record::{Checkpoint, HashRange, Position, SequenceNumber, Shard, ShardId};

use super::world::{Fault, Place, STREAM};
use super::{HOUR, MINUTE, SECOND, conf, new_notes, pass, start_noting};
use crate::logs::Logs;
use crate::recorder::{Noted, Recorder};

const MILLIS: Duration = Duration::from_millis(1);

fn gaps(noted: &Noted) -> usize {
    noted.notices.iter().filter(|notice| matches!(notice, ConsumerNotice::Gap { .. })).count()
}

#[actix::test]
async fn a_checkpoint_that_arrives_when_another_worker_has_the_lease_is_refused() {
    tokio::time::pause();
    let place = Place::new(1);
    let (world, network) = place.connect();
    let (first_notes, second_notes) = (new_notes(), new_notes());
    let first = start_noting(conf(), world, Recorder::new(&first_notes));
    place.put("key", "0");
    pass(5 * SECOND).await;
    network.fail(|call| if call == "write" { Fault::Late(25 * SECOND) } else { Fault::None });
    place.put("key", "1");
    let second = start_noting(conf(), place.connect().0, Recorder::new(&second_notes));
    let mut stored = place.row();
    let mut owners = vec![stored.owner.clone()];
    for step in 0..1_200 {
        if step % 20 == 0 {
            place.put("key", (2 + step / 20).to_string());
        }
        pass(50 * MILLIS).await;
        let row = place.row();
        assert!(
            row.counter >= stored.counter && row.checkpoint >= stored.checkpoint,
            "{row:?} behind {stored:?}"
        );
        if owners.last() != Some(&row.owner) {
            owners.push(row.owner.clone());
        }
        stored = row;
    }
    assert_eq!(owners, [first.worker_id(), second.worker_id()].map(|owner| Some(owner.clone())));
    assert!(second.stop().await.unwrap().is_clean());
    let last = second_notes.now().deliveries.last().unwrap().sequence.clone();
    assert_eq!(place.row().checkpoint.text(), last);
    first.stop_within(SECOND).await.unwrap();
}

/// Starts at an instant so far ahead of the host's clock, which itself is ahead of the service's.
async fn start_at_an_instant_to_come(ahead: Duration, clock_is_ahead: Duration, most_calls: u64) {
    let place = Place::behind(1, Settings::default(), clock_is_ahead);
    let (world, network) = place.connect();
    let notes = new_notes();
    let mut conf = conf();
    conf.initial_position = InitialPosition::AtTimestamp(SystemTime::now() + ahead);
    let consumer = start_noting(conf, world, Recorder::new(&notes));
    place.put("key", "before");
    pass((ahead + clock_is_ahead).saturating_sub(SECOND)).await;
    place.put("key", "just before");
    pass(3 * SECOND).await;
    assert_eq!(notes.now().deliveries, [], "{ahead:?}");
    place.put("key", "after");
    // Pauses between attempts are up to ten seconds long.
    pass(12 * SECOND).await;
    let noted = notes.now();
    assert_eq!((noted.payloads(), noted.failures.len(), gaps(&noted)), (vec!["after"], 0, 0), "{ahead:?}");
    let calls = network.calls("GetShardIterator");
    assert!((1..=most_calls).contains(&calls), "{ahead:?}: {calls} calls");
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn an_instant_to_come_is_waited_for_though_the_clocks_differ() {
    tokio::time::pause();
    start_at_an_instant_to_come(2 * SECOND, 300 * MILLIS, 4).await;
    start_at_an_instant_to_come(HOUR, Duration::ZERO, 4).await;
    start_at_an_instant_to_come(2 * SECOND, 10 * MINUTE, 140).await;
}

#[actix::test]
async fn stored_positions_win_over_another_initial_position_which_one_line_tells() {
    tokio::time::pause();
    let logs = Logs::of_this_thread();
    let place = Place::new(2);
    let keys: Vec<_> = place.open_shards().iter().map(|shard| place.key_of(&shard.id)).collect();
    let notes = new_notes();
    let mut conf = conf();
    conf.initial_position = InitialPosition::Latest;
    let first = start_noting(conf.clone(), place.connect().0, Recorder::new(&notes));
    pass(2 * MINUTE).await;
    // One row gets a position, the other one stays at LATEST.
    place.put(&keys[0], "first");
    notes.wait_for("the first record", |noted| noted.deliveries.len() == 1).await;
    assert!(first.stop().await.unwrap().is_clean());
    assert_eq!(logs.with(&["initial-position"]), [] as [String; 0], "there was nothing to win over");
    keys.iter().for_each(|key| drop(place.put(key, "second")));

    conf.initial_position = InitialPosition::AtTimestamp(SystemTime::UNIX_EPOCH);
    let second = start_noting(conf, place.connect().0, Recorder::new(&notes));
    pass(5 * MINUTE).await;
    assert_eq!(notes.now().payloads(), ["first", "second", "second"]);
    let lines = logs.with(&["INFO", "initial-position"]);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(second.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn an_iterator_for_latest_that_is_lost_before_the_first_record_skips_nothing() {
    tokio::time::pause();
    // When the consumer starts, both clocks tell the same, and the record is older than their allowed difference.
    let place = Place::behind(1, Settings::default(), 5 * MINUTE);
    place.put("key", "before");
    pass(5 * MINUTE).await;
    let (world, network) = place.connect();
    let notes = new_notes();
    let mut conf = conf();
    conf.initial_position = InitialPosition::Latest;
    let consumer = start_noting(conf, world, Recorder::new(&notes));
    pass(10 * MINUTE).await;
    assert!(network.calls("GetRecords") > 100 && notes.now().deliveries.is_empty());
    network.fail(|call| if call == "GetRecords" { Fault::Invalid } else { Fault::None });
    pass(SECOND).await;
    place.put("key", "meanwhile");
    pass(MINUTE).await;
    network.heal();
    place.put("key", "after");
    let noted = notes.wait_for("the last record", |noted| noted.payloads().contains(&"after")).await;
    assert_eq!((noted.payloads(), gaps(&noted)), (vec!["meanwhile", "after"], 0));
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn every_sentinel_of_the_kcl_is_understood_and_parents_come_first() {
    tokio::time::pause();
    let begin = SystemTime::now();
    let place = Place::new(3);
    let [split, oldest, newest] = [0, 1, 2].map(|index| place.open_shards()[index].clone());
    let keys = [&split, &oldest, &newest].map(|shard| place.key_of(&shard.id));
    keys.iter().for_each(|key| drop(place.put(key, "old")));
    pass(5 * SECOND).await;
    keys.iter().for_each(|key| drop(place.put(key, "new")));
    place.split(&split);
    let children: Vec<_> =
        place.open_shards().into_iter().filter(|shard| shard.parents.contains(&split.id)).collect();
    children.iter().for_each(|child| drop(place.put(&place.key_of(&child.id), "of a child")));
    place.seed(&split, None, Checkpoint::AtTimestamp);
    place.seed(&children[0], None, Checkpoint::AtTimestamp);
    place.seed(&children[1], None, Checkpoint::TrimHorizon);
    place.seed(&oldest, None, Checkpoint::TrimHorizon);
    place.seed(&newest, Some("ghost"), Checkpoint::Latest);
    let notes = new_notes();
    let mut conf = conf();
    conf.initial_position = InitialPosition::AtTimestamp(begin + 3 * SECOND);
    let consumer = start_noting(conf, place.connect().0, Recorder::new(&notes));
    pass(MINUTE).await;
    place.put(&keys[2], "newest");
    pass(5 * SECOND).await;
    let noted = notes.now();
    let of = |shard: &Shard| {
        let of_shard = noted.deliveries.iter().filter(|delivery| delivery.shard == shard.id.as_str());
        of_shard.map(|delivery| delivery.payload.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(of(&split), ["new"]);
    assert_eq!((of(&children[0]), of(&children[1])), (vec!["of a child"], vec!["of a child"]));
    assert_eq!((of(&oldest), of(&newest)), (vec!["old", "new"], vec!["newest"]));
    let first =
        |shard: &Shard| noted.deliveries.iter().position(|delivery| delivery.shard == shard.id.as_str());
    assert!(children.iter().all(|child| first(&split) < first(child)));
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_stored_record_that_has_expired_is_one_gap_and_reading_goes_on_at_the_oldest_one() {
    tokio::time::pause();
    let place = Place::new(1);
    place.put("key", "stored");
    let notes = new_notes();
    let first = start_noting(conf(), place.connect().0, Recorder::new(&notes));
    notes.wait_for("the record", |noted| noted.deliveries.len() == 1).await;
    assert!(first.stop().await.unwrap().is_clean());
    place.put("key", "expires unread");
    pass(25 * HOUR).await;
    place.put("key", "retained");
    let (world, network) = place.connect();
    let second = start_noting(conf(), world, Recorder::new(&notes));
    pass(10 * MINUTE).await;
    place.put("key", "later");
    pass(5 * SECOND).await;
    let noted = notes.now();
    assert_eq!((noted.payloads(), gaps(&noted)), (vec!["stored", "retained", "later"], 1));
    assert_eq!(network.calls("GetShardIterator"), 1, "no endless retry");
    assert!(second.stop().await.unwrap().is_clean());
}

/// One shard, with records of the sequence numbers that are wanted.
#[derive(Debug)]
struct Numbered(Vec<SequenceNumber>);

impl Numbered {
    const SHARD: &str = "shardId-000000000000";

    fn shard() -> Shard {
        Shard {
            id: Self::SHARD.into(),
            hash_range: HashRange::ALL,
            parents: Vec::new(),
            starting_sequence: SequenceNumber::from(0),
            ending_sequence: None,
        }
    }
}

impl StreamApi for Numbered {
    fn name(&self) -> &str {
        STREAM
    }

    fn list_shards(&self) -> BoxFuture<'_, Result<Vec<Shard>, StreamError>> {
        std::future::ready(Ok(vec![Self::shard()])).boxed()
    }

    fn shard_iterator<'a>(
        &'a self,
        _: &'a ShardId,
        start: &'a StartAt,
    ) -> BoxFuture<'a, Result<ShardIterator, StreamError>> {
        let is_before = |number: &&SequenceNumber| match start {
            StartAt::At(place) => *number < place,
            StartAt::After(place) => *number <= place,
            _ => false,
        };
        let first = self.0.iter().filter(is_before).count();
        std::future::ready(Ok(ShardIterator(first.to_string()))).boxed()
    }

    fn get_records<'a>(
        &'a self,
        iterator: &'a ShardIterator,
        _: u32,
    ) -> BoxFuture<'a, Result<RecordsPage, StreamError>> {
        let first: usize = iterator.0.parse().unwrap();
        let end = (first + 3).min(self.0.len());
        let record = |sequence: &SequenceNumber| RawRecord {
            sequence: sequence.clone(),
            partition_key: Some("key".to_owned()),
            data: sequence.to_string().into(),
            arrival: None,
        };
        let records = self.0[first..end].iter().map(record).collect();
        let behind = if end < self.0.len() { SECOND } else { Duration::ZERO };
        let next = Some(ShardIterator(end.to_string()));
        std::future::ready(Ok(RecordsPage { records, next, behind, children: Vec::new() })).boxed()
    }
}

#[actix::test]
async fn positions_are_compared_as_numbers_of_any_length_and_kept_as_they_are_written() {
    tokio::time::pause();
    let long = |digits: usize| ["1".repeat(digits), "9".repeat(digits)];
    let small = ["8", "9", "10", "11", "999999998", "999999999", "1000000000", "1000000001"];
    let texts = small.map(str::to_owned).into_iter().chain([55, 56, 57].into_iter().flat_map(long));
    let numbers: Vec<SequenceNumber> = texts.map(|text| text.parse().unwrap()).collect();
    let place = Place::new(1);
    let world = || World { stream: Arc::new(Numbered(numbers.clone())), leases: place.connect().0.leases };

    let notes = new_notes();
    let mut conf = conf();
    conf.checkpointer.interval = 10 * MILLIS;
    let consumer = start_noting(conf.clone(), world(), Recorder::new(&notes));
    let mut stored: Option<SequenceNumber> = None;
    while stored.as_ref() != numbers.last() {
        pass(10 * MILLIS).await;
        let Some(Checkpoint::At(position)) = place.rows().values().next().map(|row| row.checkpoint.clone())
        else {
            continue;
        };
        assert!(stored.as_ref().is_none_or(|stored| *stored <= position.sequence), "{stored:?} {position}");
        stored = Some(position.sequence);
    }
    let texts: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    assert_eq!(notes.now().payloads(), texts);
    assert!(consumer.stop().await.unwrap().is_clean());

    for (checkpoint, behind) in
        texts.iter().map(String::as_str).zip(1..).chain([("0", 0), ("000999999999", 6)])
    {
        let position = Position::new(checkpoint.parse().unwrap(), 0);
        place.seed(&Numbered::shard(), None, Checkpoint::At(position));
        let notes = new_notes();
        let consumer = start_noting(conf.clone(), world(), Recorder::new(&notes));
        pass(10 * SECOND).await;
        assert_eq!(notes.now().payloads(), texts[behind..], "behind {checkpoint}");
        assert!(consumer.stop().await.unwrap().is_clean());
    }
    let zeros = format!("00{}", texts.last().unwrap());
    place.seed(&Numbered::shard(), None, Checkpoint::At(Position::new(zeros.parse().unwrap(), 0)));
    let consumer = start_noting(conf, world(), Recorder::new(&new_notes()));
    pass(MINUTE).await;
    assert!(consumer.stop().await.unwrap().is_clean());
    assert_eq!(place.row().checkpoint.text(), zeros);
}
