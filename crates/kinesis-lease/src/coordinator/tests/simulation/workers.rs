//! The shards' workers: what they are told, and what they ask for.

use super::*;
use crate::testing::at;

impl Holding {
    fn is_to_be_drained(&self) -> bool {
        self.is_drained && !self.is_ending
    }
}

impl Fleet {
    pub(super) fn tell(&mut self, index: usize, effect: Effect) {
        let now = self.processes[index].clock(self.now);
        let process = &mut self.processes[index];
        match effect {
            Effect::Gained(acquisition, lease) => {
                // Workers that start from the newest record while shards are split may differ on which those are.
                let is_free = self.initial == Checkpoint::Latest && lease.checkpoint >= Checkpoint::Latest;
                for parent in lease.parents.iter().filter(|_| !is_free) {
                    let is_passed =
                        !self.table.rows.contains_key(parent) && world::is_passed(&self.table, parent);
                    let is_over = self.ended.contains(parent) || is_passed;
                    assert!(is_over, "{lease:?} was started before its parent {parent}");
                }
                let processed = lease
                    .checkpoint
                    .position()
                    .map_or(0, |position| position.sequence.as_str().parse().unwrap());
                let holding = Holding {
                    acquisition,
                    valid_until: now,
                    processed,
                    is_drained: false,
                    is_ending: false,
                    is_stolen: false,
                };
                assert!(process.held.insert(lease.shard.clone(), holding).is_none());
                let given_up = self.given_up.remove(&lease.shard);
                if self.trial == Trial::Planned {
                    let former = self.processed.get(&lease.shard).copied().unwrap_or_default();
                    assert_eq!(processed, former, "{} is read twice", lease.shard);
                    let (since, parting) = given_up.unwrap_or((self.now, Parting::Released));
                    let within = if parting == Parting::Given { FAILOVER / 10 } else { FAILOVER };
                    let gap = self.now - since;
                    assert!(gap <= within, "{} was read by nobody for {gap:?}, {parting:?}", lease.shard);
                }
            }
            Effect::Extended(shard, acquisition, until) => {
                let holding = process.held.get_mut(&shard).unwrap();
                assert_eq!(holding.acquisition, acquisition);
                assert!(holding.valid_until <= until && now < until);
                holding.valid_until = until;
            }
            Effect::Lost(shard, acquisition, _) => {
                let holding = process.held.remove(&shard).unwrap();
                assert_eq!(holding.acquisition, acquisition);
            }
            Effect::Answer(request, answer) => {
                let request = process.open_requests.remove(&request);
                let (shard, change, _) = request.expect("an answer to a request");
                answered(process, &shard, &change, &answer);
            }
            Effect::Drain(shard, acquisition) => {
                let holding = process.held.get_mut(&shard).unwrap();
                assert_eq!(holding.acquisition, acquisition);
                assert!(!std::mem::replace(&mut holding.is_drained, true), "told twice");
            }
            Effect::Unread(shards) => process.unread = shards,
            told => panic!("{told:?}"),
        }
    }

    /// A process that leaves gives up all that it holds.
    pub(super) fn part(&mut self, index: usize) {
        let process = &mut self.processes[index];
        let now = process.clock(self.now);
        process.coordinator.stop_taking(now);
        for (shard, holding) in process.held.iter_mut().filter(|(_, holding)| !holding.is_ending) {
            holding.is_ending = true;
            let request = process.coordinator.release(now, shard, holding.acquisition);
            process.open_requests.insert(request, (shard.clone(), LeaseChange::Release, self.now));
        }
    }

    /// A worker of the process stores a checkpoint, ends its shard or gives it up.
    pub(super) fn ask(&mut self, index: usize) {
        let now = self.processes[index].clock(self.now);
        let is_calm = self.is_calm();
        let process = &mut self.processes[index];
        let mut held: Vec<&ShardId> = process.held.keys().collect();
        let is_prompt = is_calm || self.trial == Trial::Planned;
        let is_open = |id: &ShardId| self.stream.iter().any(|shard| shard.id == *id && shard.is_open());
        if is_prompt && process.held.values().any(Holding::is_to_be_drained) {
            held.retain(|shard| process.held[*shard].is_to_be_drained());
        } else if is_calm && !held.iter().all(|shard| is_open(shard)) {
            held.retain(|shard| !is_open(shard));
        }
        let Some(shard) = self.random.choice(held).cloned() else { return };
        let Some(holding) = process.held.get_mut(&shard) else { return };
        let acquisition = holding.acquisition;
        let is_closed = !is_open(&shard);
        let change = match self.random.u32(0..30) {
            _ if holding.is_ending => return,
            0..15 if holding.is_drained => LeaseChange::Release,
            0 if !is_calm => LeaseChange::Release,
            1..15 if is_closed => LeaseChange::End { children: Vec::new() },
            _ => {
                holding.processed += self.random.u128(0..3);
                self.processed.insert(shard.clone(), holding.processed);
                LeaseChange::Checkpoint(at(holding.processed))
            }
        };
        holding.is_ending = !matches!(change, LeaseChange::Checkpoint(_));
        let coordinator = &mut process.coordinator;
        let request = match change.clone() {
            LeaseChange::Checkpoint(to) => coordinator.checkpoint(now, &shard, acquisition, to),
            LeaseChange::End { .. } => {
                let children = self.stream.iter().filter(|child| child.parents.contains(&shard));
                let children = children.map(ChildShard::from).collect();
                coordinator.end(now, &shard, acquisition, children)
            }
            _ => coordinator.release(now, &shard, acquisition),
        };
        assert!(process.open_requests.insert(request, (shard, change, self.now)).is_none());
    }
}

fn answered(process: &mut Process, shard: &ShardId, change: &LeaseChange, answer: &Result<(), RequestError>) {
    let is_over = !matches!(change, LeaseChange::Checkpoint(_));
    match answer {
        Ok(()) if is_over => {
            process.held.remove(shard);
        }
        Ok(()) | Err(RequestError::NotHeld) => {}
        Err(RequestError::Store(_)) => {
            if let Some(holding) = process.held.get_mut(shard).filter(|_| is_over) {
                holding.is_ending = false;
            }
        }
        Err(RequestError::Backwards) => panic!("no worker here goes back"),
    }
}
