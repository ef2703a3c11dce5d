//! The shards' workers: what they are told, and what they ask for.

use super::*;
use crate::testing::at;

impl Fleet {
    pub(super) fn tell(&mut self, index: usize, effect: Effect) {
        let now = self.processes[index].clock(self.now);
        let process = &mut self.processes[index];
        match effect {
            Effect::Gained(acquisition, lease) => {
                // Workers that start from the newest record while shards are split may differ on which those are.
                let is_free = self.initial == Checkpoint::Latest && lease.checkpoint >= Checkpoint::Latest;
                for parent in lease.parents.iter().filter(|_| !is_free) {
                    let is_finished = self.table.rows.get(parent).is_some_and(Lease::is_finished);
                    assert!(is_finished, "{} was started before its parent {parent}", lease.shard);
                }
                let processed = lease
                    .checkpoint
                    .position()
                    .map_or(0, |position| position.sequence.as_str().parse().unwrap());
                let holding = Holding { acquisition, valid_until: now, processed, is_ending: false };
                assert!(process.held.insert(lease.shard.clone(), holding).is_none());
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
            told => panic!("{told:?}"),
        }
    }

    /// A worker of the process stores a checkpoint, ends its shard or gives it up.
    pub(super) fn ask(&mut self, index: usize) {
        let now = self.processes[index].clock(self.now);
        let is_calm = self.is_calm();
        let process = &mut self.processes[index];
        let held: Vec<ShardId> = process.held.keys().cloned().collect();
        let Some(shard) = self.random.choice(held) else { return };
        let Some(holding) = process.held.get_mut(&shard) else { return };
        let acquisition = holding.acquisition;
        let is_closed = self.stream.iter().any(|listed| listed.id == shard && !listed.is_open());
        let change = match self.random.u32(0..30) {
            _ if holding.is_ending => return,
            0 if !is_calm => LeaseChange::Release,
            1..15 if is_closed => LeaseChange::End { children: Vec::new() },
            _ => {
                holding.processed += self.random.u128(0..3);
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
