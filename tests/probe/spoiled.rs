//! What may be wrong in a run. Each change of a recording gives the beginning of the line that tells of it: file, line and
//! oracle.

use std::collections::BTreeMap;

use actix_kinesis_test::check::Event;
use kinesis_record::{Checkpoint, Position};

use crate::recording::{KILLED, PUT, Recording, SURVIVOR};

fn delivery(event: &Event) -> Option<(&str, Position, &str)> {
    let Event::Delivery { shard, pk, .. } = event else { return None };
    Some((shard, event.position()?, pk.as_deref()?))
}

/// The deliveries of the survivor of events that were delivered once in all, with their lines, from 0.
fn delivered_once(recording: &Recording) -> Vec<(usize, Event)> {
    let events = recording.events(SURVIVOR);
    let others = recording.events(KILLED);
    let place = |event: &Event| delivery(event).map(|(shard, place, _)| (shard.to_owned(), place));
    let mut times: BTreeMap<_, usize> = BTreeMap::new();
    for place in events.iter().chain(&others).filter_map(place) {
        *times.entry(place).or_default() += 1;
    }
    let is_once = |event: &Event| place(event).is_some_and(|place| times[&place] == 1);
    let lines = events.iter().enumerate().filter(|(_, event)| is_once(event));
    lines.map(|(line, event)| (line, event.clone())).collect()
}

/// A lost record is told at the line that tells that it was put.
pub(crate) fn without_a_delivery(recording: &mut Recording) -> String {
    let (line, lost) = delivered_once(recording).swap_remove(0);
    let is_lost = |put: &Event| {
        matches!(put, Event::Put { .. }) && put.shard() == lost.shard() && put.position() == lost.position()
    };
    let put = recording.events(PUT).iter().position(is_lost).unwrap();
    recording.change(SURVIVOR).remove(line);
    format!("{PUT}:{}: Complete", put + 1)
}

pub(crate) fn with_a_key_out_of_order(recording: &mut Recording) -> String {
    let once = delivered_once(recording);
    let has_same_key = |one: &Event, other: &Event| {
        let of = |event| delivery(event).map(|(shard, _, key)| (shard.to_owned(), key.to_owned()));
        of(one) == of(other)
    };
    let pairs = once.iter().enumerate().filter_map(|(index, (line, event))| {
        let next = once[index + 1..].iter().find(|(_, other)| has_same_key(event, other))?;
        Some((*line, next.0))
    });
    let (first, second) = pairs.min_by_key(|(first, second)| second - first).unwrap();
    recording.change(SURVIVOR).swap(first, second);
    format!("{SURVIVOR}:{}: Order", second + 1)
}

pub(crate) fn with_a_checkpoint_turned_back(recording: &mut Recording) -> String {
    let events = recording.events(SURVIVOR);
    let stored = |event: &Event| match event {
        Event::CheckpointStored { shard, checkpoint: Checkpoint::At(place), token } => {
            Some((shard.clone(), *token, place.clone()))
        }
        _ => None,
    };
    let all: Vec<_> =
        events.iter().enumerate().filter_map(|(line, event)| Some((line, stored(event)?))).collect();
    let (line, former) = all
        .iter()
        .rev()
        .find_map(|(line, (shard, token, _))| {
            let of_lease = all.iter().filter(|(_, (of, under, _))| (of, under) == (shard, token));
            let mut before = of_lease.filter(|(former, _)| former < line).map(|(_, (.., place))| place);
            let oldest = before.next()?;
            before.next_back().is_some_and(|newest| oldest < newest).then(|| (*line, oldest.clone()))
        })
        .unwrap();
    let mut told: serde_json::Value = serde_json::from_str(&recording.lines(SURVIVOR)[line]).unwrap();
    told["checkpoint"] = former.to_string().into();
    recording.change(SURVIVOR)[line] = told.to_string();
    format!("{SURVIVOR}:{}: Checkpoint", line + 1)
}

pub(crate) fn with_a_stored_event_again(recording: &mut Recording) -> String {
    let events = recording.events(SURVIVOR);
    let is_before = |event: &Event, of: &str, under: i64, stored: &Position| match event {
        Event::Delivery { shard, token, .. } => {
            shard == of && *token == Some(under) && event.position().is_some_and(|place| place <= *stored)
        }
        _ => false,
    };
    let (behind, again) = events
        .iter()
        .enumerate()
        .find_map(|(line, event)| {
            let Event::CheckpointStored { shard, checkpoint, token } = event else { return None };
            let stored = checkpoint.position()?;
            let again = events[..line].iter().position(|event| is_before(event, shard, *token, stored))?;
            Some((line, again))
        })
        .unwrap();
    let again = recording.lines(SURVIVOR)[again].clone();
    recording.change(SURVIVOR).insert(behind + 1, again);
    format!("{SURVIVOR}:{}: Stored", behind + 2)
}
