//! The table and the stream that the fleet shares, and what the network does to it.

use super::*;
use crate::testing::closed;

impl Fleet {
    pub(super) fn arrive(&mut self, index: usize, life: u64, effect: Effect) {
        let is_lost = self.strikes(12);
        let error = || {
            if self.random.bool() {
                StoreError::Unknown("timed out".into())
            } else {
                StoreError::Throttled("too fast".into())
            }
        };
        let error = is_lost.then(error);
        let is_applied = match &error {
            None => true,
            Some(StoreError::Unknown(_)) => self.random.bool(),
            Some(_) => false,
        };
        let reply = match effect {
            Effect::Scan => {
                let is_stale = self.strikes(4);
                let age = if is_stale { self.random.usize(0..20) } else { 0 };
                let oldest = self.history.partition_point(|(at, _)| *at + FAILOVER / 2 < self.now);
                let index = self.history.len().saturating_sub(1 + age).max(oldest.saturating_sub(1));
                let (_, table) = &self.history[index];
                let rows: Vec<Lease> = table.rows.values().cloned().collect();
                Reply::Scanned(error.map_or(Ok(rows.into()), Err))
            }
            Effect::ListShards => Reply::Listed(match error {
                None => Ok(self.stream.clone()),
                Some(_) => Err(StreamError { kind: StreamErrorKind::Unavailable, message: "no list".into() }),
            }),
            Effect::Create(new) => {
                let created = is_applied.then(|| self.change(|table| table.create(&new)));
                let outcome = match (error, created) {
                    (None, Some(created)) => Ok(created),
                    (error, _) => Err(error.unwrap_or(StoreError::Unknown("unused".into()))),
                };
                Reply::Created(new, outcome)
            }
            Effect::Write(acquisition, write) => {
                if !is_applied && matches!(error, Some(StoreError::Unknown(_))) && self.random.bool() {
                    // The reply is lost, and the request comes around later.
                    let latency = self.latency();
                    let late = Effect::Write(Acquisition(0), write.clone());
                    self.after(latency, Event::Arrives(index, 0, late));
                }
                let written = is_applied.then(|| self.change(|table| table.write(&write)));
                let outcome = match (error, written) {
                    (None, Some(Written::Refused(_))) if self.random.bool() => Ok(Written::Refused(None)),
                    (None, Some(written)) => Ok(written),
                    (error, _) => Err(error.unwrap_or(StoreError::Unknown("unused".into()))),
                };
                Reply::Written(acquisition, write, outcome)
            }
            Effect::Delete(shard, counter) => {
                let deleted = is_applied.then(|| self.change(|table| table.delete(&shard, counter)));
                let outcome = match (error, deleted) {
                    (None, Some(deleted)) => Ok(deleted),
                    (error, _) => Err(error.unwrap_or(StoreError::Unknown("unused".into()))),
                };
                Reply::Deleted(shard, outcome)
            }
            Effect::LookUp(acquisition, shard) => {
                let row = self.table.rows.get(&shard).cloned();
                Reply::LookedUp(acquisition, shard, error.map_or(Ok(row), Err))
            }
            Effect::Report { .. } if self.trial != Trial::Led => Reply::Reported(Ok(Reported::Unwanted)),
            Effect::Report { wants_leases } => {
                if is_applied && wants_leases {
                    let worker = format!("worker-{index}").into();
                    self.reports.insert(worker, self.now);
                }
                Reply::Reported(error.map_or(Ok(Reported::Stored(Some(self.pulse.clone()))), Err))
            }
            Effect::Retire => {
                if is_applied {
                    self.reports.remove(&format!("worker-{index}").into());
                }
                Reply::Retired
            }
            told => panic!("{told:?}"),
        };
        let latency = self.latency();
        self.after(latency, Event::Replies(index, life, reply));
    }

    /// Changes the table, and checks that it was a change that rows may go through.
    pub(super) fn change<T>(&mut self, change: impl FnOnce(&mut Table) -> T) -> T {
        let before = self.table.clone();
        let outcome = change(&mut self.table);
        for (shard, old) in &before.rows {
            let Some(new) = self.table.rows.get(shard) else {
                assert!(old.is_finished(), "{shard} was not finished");
                continue;
            };
            assert!(new == old || !old.is_finished(), "{shard} had ended");
            let is_request = Lease { asked_by: old.asked_by.clone(), ..new.clone() } == *old;
            assert!(is_request || new.counter == old.counter + 1, "the counter grows by one");
            assert!(new.checkpoint >= old.checkpoint, "{shard} went back");
        }
        for (shard, new) in &self.table.rows {
            assert!(new.is_finished() || !self.ended.contains(shard), "{shard} is read again");
            let is_new = !before.rows.contains_key(shard) && new.checkpoint != Checkpoint::Latest;
            let is_told = |parent: &ShardId| before.rows.contains_key(parent) || is_passed(&before, parent);
            assert!(!is_new || new.parents.iter().all(is_told), "{shard} before its parents");
        }
        self.changed(&before);
        outcome
    }

    /// Remembers how the table has changed.
    pub(super) fn changed(&mut self, before: &Table) {
        if self.table.rows == before.rows {
            return;
        }
        let finished = self.table.rows.values().filter(|row| row.is_finished());
        self.ended.extend(finished.map(|row| row.shard.clone()));
        for (shard, old) in &before.rows {
            let Some(new) = self.table.rows.get(shard).filter(|new| new.owner != old.owner) else { continue };
            if !new.is_finished() {
                self.moved_at = self.now;
            }
            if old.owner.is_some() {
                let parting = if new.owner.is_some() { Parting::Given } else { Parting::Released };
                self.given_up.insert(shard.clone(), (self.now, parting));
            }
        }
        self.history.push((self.now, self.table.clone()));
    }

    /// Splits an open shard, or merges two.
    pub(super) fn reshard(&mut self) {
        let is_open = |(index, shard): (usize, &Shard)| shard.is_open().then_some(index);
        let mut indices: Vec<usize> = self.stream.iter().enumerate().filter_map(is_open).collect();
        self.random.shuffle(&mut indices);
        let is_merge = indices.len() > 1 && self.random.bool();
        indices.truncate(if is_merge { 2 } else { 1 });
        let parents: Vec<String> = indices.iter().map(|index| self.stream[*index].id.to_string()).collect();
        for index in indices {
            self.stream[index] = closed_as(&self.stream[index]);
        }
        let parents: Vec<&str> = parents.iter().map(String::as_str).collect();
        for _ in 0..if is_merge { 1 } else { 2 } {
            let id = (10 + self.stream.len()).to_string();
            self.stream.push(open(&id, &parents));
        }
    }
}

fn closed_as(shard: &Shard) -> Shard {
    let parents: Vec<&str> = shard.parents.iter().map(ShardId::as_str).collect();
    closed(shard.id.as_str(), &parents)
}

/// Whether another child of the shard has begun: nothing in the shard is wanted any more.
pub(super) fn is_passed(table: &Table, shard: &ShardId) -> bool {
    table.rows.values().any(|row| row.parents.contains(shard) && lineage::has_begun(row))
}
