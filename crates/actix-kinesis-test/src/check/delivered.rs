//! What a delivery tells.

use actix_kinesis::config::Concurrency;
use kinesis_record::{Checkpoint, Position};

use super::excuse::Unexplained;
use super::{Checker, Oracle};

pub(super) struct Delivery<'a> {
    pub(super) shard: &'a str,
    pub(super) position: Position,
    pub(super) key: Option<&'a str>,
    pub(super) hash_key: Option<&'a str>,
    pub(super) attempt: u32,
    pub(super) token: Option<i64>,
}

impl Checker {
    pub(super) fn delivered(&mut self, worker: &str, delivery: &Delivery<'_>) {
        let &Delivery { shard, ref position, key, attempt, token, .. } = delivery;
        self.check_parents(shard);
        if let Some(token) = token {
            self.check_token(worker, delivery, token);
        }
        let (line, at_ms) = (self.line, self.at_ms);
        let history = self.shard(shard);
        let is_first = history.newest.as_ref().is_none_or(|newest| newest < position);
        let record = history.records.entry(position.clone()).or_default();
        match record.delivered_by.replace(worker.to_owned()) {
            Some(former) => self.check_repeat(worker, delivery, &former, at_ms),
            None => {
                record.delivered_first = (line, at_ms);
                if record.put.is_none() {
                    record.key = key.map(str::to_owned);
                }
                history.newest = history.newest.take().max(Some(position.clone()));
                if !is_first && !matches!(self.rules.concurrency, Concurrency::Key(_)) {
                    self.violated(
                        Oracle::Order,
                        format!("{worker} delivers {shard} {position} behind later ones for the first time"),
                    );
                }
                self.check_key(worker, delivery);
            }
        }
        self.check_open(worker, delivery);
        self.under_way(worker, shard, position, attempt);
    }

    /// Nothing that the event has to follow is open.
    fn check_open(&mut self, worker: &str, delivery: &Delivery<'_>) {
        let &Delivery { shard, ref position, key, .. } = delivery;
        let lane = match self.rules.concurrency {
            Concurrency::None => return,
            Concurrency::Shard => None,
            Concurrency::Key(_) => key.map(str::to_owned),
        };
        let open = &mut self.worker(worker).open;
        let before = open.insert((shard.to_owned(), lane), position.clone());
        if let Some(before) = before.filter(|before| before != position) {
            self.violated(
                Oracle::Order,
                format!("{worker} delivers {shard} {position} beside {before}, which it has to follow"),
            );
        }
        let most = match self.rules.concurrency {
            Concurrency::Key(keys) => keys,
            _ => 1,
        };
        let in_flight = self.worker(worker).in_flight.get(shard).into_iter().flatten();
        if in_flight.filter(|other| *other != position).count() >= most {
            self.violated(
                Oracle::Order,
                format!("{worker} delivers {shard} {position} beside {most} events, as many as are allowed"),
            );
        }
    }

    fn check_parents(&mut self, shard: &str) {
        let is_open = |parent: &&String| {
            self.shards.get(*parent).is_some_and(|parent| !parent.is_finished && parent.row.is_some())
        };
        let Some(history) = self.shards.get(shard) else { return };
        if let Some(parent) = history.parents.iter().find(is_open).cloned() {
            self.violated(Oracle::Parents, format!("{shard} is read before the end of its parent {parent}"));
        }
    }

    fn check_token(&mut self, worker: &str, delivery: &Delivery<'_>, token: i64) {
        let &Delivery { shard, ref position, .. } = delivery;
        let may_overlap = self.rules.owners_may_overlap;
        let history = self.shard(shard);
        let newest = history.newest_token.get_or_insert_with(|| (token, worker.to_owned()));
        if newest.0 < token {
            *newest = (token, worker.to_owned());
        }
        let (newest, holder) = newest.clone();
        let stored = history.stored_under(worker, token);
        let is_stored = match stored {
            Some(Checkpoint::At(stored)) => position <= stored,
            Some(Checkpoint::ShardEnd) => true,
            _ => false,
        };
        if is_stored && (newest == token || !may_overlap) {
            let stored = stored.cloned().unwrap_or(Checkpoint::ShardEnd);
            self.violated(
                Oracle::Stored,
                format!("{worker} delivers {shard} {position}, and {stored} was stored before"),
            );
        }
        if newest == token && holder != worker {
            self.violated(
                Oracle::Owner,
                format!("{worker} delivers {shard} {position} with token {token}, which is that of {holder}"),
            );
        }
        if newest > token && !may_overlap {
            self.violated(
                Oracle::Owner,
                format!(
                    "{worker} delivers {shard} {position} with token {token}, and {newest} has delivered"
                ),
            );
        }
    }

    /// A key goes to one shard at a time, and what it puts into a child is numbered behind what it put into the parents.
    fn check_key(&mut self, worker: &str, delivery: &Delivery<'_>) {
        let &Delivery { shard, ref position, key, hash_key, .. } = delivery;
        let Some(key) = key else { return };
        let whose = (key.to_owned(), hash_key.map(str::to_owned));
        let newest = self.keys.entry(whose).or_insert_with(|| position.clone());
        if *newest <= *position {
            newest.clone_from(position);
            return;
        }
        let newest = newest.clone();
        self.violated(
            Oracle::Order,
            format!(
                "{worker} delivers {shard} {position} of key {key:?} behind {newest}, which was put later"
            ),
        );
    }

    /// The event has been delivered before, by `former` the last time.
    fn check_repeat(&mut self, worker: &str, delivery: &Delivery<'_>, former: &str, now: u64) {
        let &Delivery { shard, ref position, .. } = delivery;
        if self.rules.only_planned {
            return self.violated(
                Oracle::Repeat,
                format!("{worker} delivers {shard} {position} again, after {former}, and nothing went wrong"),
            );
        }
        if self.rules.owners_may_overlap && former != worker {
            return;
        }
        let Some(history) = self.shards.get(shard) else { return };
        let Some(record) = history.records.get(position) else { return };
        // What another one, who believed to have the shard as well, has done is not known to this one.
        let counts = |(by, _): &&(String, u64)| !self.rules.owners_may_overlap || by == worker;
        let Some((by, done_ms)) = record.done.iter().rev().find(counts) else { return };
        let reader = history.readers.get(by);
        let reason = self.workers.get(by).and_then(|by| by.first_reason(shard, *done_ms));
        let Some(reason) = reason.filter(|reason| *reason <= now) else {
            // What lies behind an open event cannot be stored.
            if reader.and_then(|reader| reader.done_at(now)).is_some_and(|done| position <= done) {
                let text = format!("{worker} delivers {shard} {position} again, {by} was done with it");
                let unexplained = Unexplained {
                    by: by.clone(),
                    shard: shard.to_owned(),
                    done_since: reader.and_then(|reader| reader.done_since(position)).unwrap_or(*done_ms),
                    spoke_ms: self.workers.get(by).map_or(now, |by| by.last.1),
                    violation: self.violation(Oracle::Repeat, text),
                };
                self.unexplained.push(unexplained);
            }
            return;
        };
        let Some(window) = self.rules.window.map(|window| window.as_millis() as u64) else { return };
        let done = reader.and_then(|reader| reader.done_at(reason.saturating_sub(window)));
        if let Some(done) = done.filter(|done| position <= done) {
            let text = format!(
                "{worker} delivers {shard} {position} again, {by} was done with all up to {done} {window} ms before it \
                 lost the shard"
            );
            self.violated(Oracle::Window, text);
        }
    }

    fn under_way(&mut self, worker: &str, shard: &str, position: &Position, attempt: u32) {
        let history = self.worker(worker);
        let of_shard = history.in_flight.entry(shard.to_owned()).or_default();
        of_shard.insert(position.clone());
        let is_only_one = of_shard.len() == 1;
        let in_flight = history.in_flight.values().map(|of_shard| of_shard.len() as u64).sum::<u64>();
        let Some(limit) = self.rules.max_in_flight else { return };
        if in_flight > limit && !is_only_one && self.has_answers {
            let text = format!(
                "{worker} has {in_flight} events under way with {shard} {position} ({attempt}), {limit} are allowed"
            );
            self.violated(Oracle::Memory, text);
        }
    }
}
