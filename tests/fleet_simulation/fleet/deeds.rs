//! What is done to a fleet.

use std::sync::atomic::Ordering;
use std::time::Duration;

use actix_kinesis_test::check::Event;
use kinesis_record::ShardId;
use tokio::time::{Instant, sleep_until};

use super::{Fleet, SECOND, chance};
use crate::kcl::Kcl;
use crate::process::Life;
use crate::schedule::{Deed, What};

impl Fleet {
    pub(super) fn happen(&self, deed: &Deed) {
        let chance = chance(self.plan.seed, 10_000 + deed.number);
        match deed.what {
            What::Crash { process, back_after } => {
                if let Some(life) = self.life(process) {
                    life.crash();
                }
                self.later(back_after, move |fleet| fleet.start(process));
            }
            What::Freeze { process, time } => {
                if let Some(life) = self.life(process) {
                    life.freeze();
                    self.later(time, move |_| life.thaw());
                }
            }
            What::Replace { process, time } => self.replace(process, time),
            What::Stop { process, back_after } => {
                let Some(life) = self.life(process) else { return };
                let fleet = self.clone();
                actix::spawn(async move {
                    let _ = life.consumer.stop().await;
                    fleet.later(back_after, move |fleet| fleet.start(process));
                });
            }
            What::Split { .. } | What::Merge { .. } | What::UpdateCount { .. } => self.reshard(&deed.what),
            What::Drain { process, which, time } => self.operate(process, which, time, true),
            What::Pause { process, which, time } => self.operate(process, which, time, false),
            What::Calls { process, time, calls, mishap, one_in } => {
                self.seat(process, |seat| seat.wire.begin(time, calls, mishap, one_in, chance));
            }
            What::Events { process, time, temper, one_in } => {
                self.seat(process, |seat| seat.moods.begin(time, temper, one_in, chance));
            }
            What::Kcl { time, is_polite } => {
                let name = format!("kcl.{}", deed.number);
                self.worker_ids.lock().unwrap().insert(name.clone(), name.as_str().into());
                let kcl = Kcl::new(self.place.clone(), self.trace.clone(), name, chance);
                actix::spawn(kcl.run(time, is_polite));
            }
            What::Flood => drop(actix::spawn(self.producer(chance).flood())),
            What::Unreadable { which, time } => {
                let shards = self.place.shards();
                self.place.make_unreadable([shards[which % shards.len()].id.clone()]);
                self.later(time, |fleet| fleet.place.make_unreadable([]));
            }
            What::Jump { process, seconds } => self.seat(process, |seat| {
                seat.clock.off.store(seconds, Ordering::Relaxed);
            }),
        }
    }

    /// Whoever supervises the process believes it to be dead.
    fn replace(&self, process: usize, time: Duration) {
        let Some(life) = self.life(process).filter(|life| !life.is_frozen()) else { return };
        life.freeze();
        self.seat(process, |seat| seat.former.push(life.clone()));
        self.start_as(process, Some(life.worker_id.clone()));
        self.later(time, move |fleet| {
            life.thaw();
            fleet.later(5 * SECOND, move |_| life.crash());
        });
    }

    fn reshard(&self, what: &What) {
        let open = self.place.open_shards();
        match *what {
            What::Split { which } if open.len() < 8 => self.place.split(&open[which % open.len()]),
            What::Merge { which } if open.len() > 1 => {
                let first = which % (open.len() - 1);
                self.place.merge(&open[first], &open[first + 1]);
            }
            What::UpdateCount { target } => {
                let most = open.len() as u32 * 2;
                let least = (open.len() as u32).div_ceil(2);
                self.place.update_shard_count(target.clamp(least, most));
            }
            _ => {}
        }
        self.tell_of_new_shards();
    }

    pub(super) fn tell_of_new_shards(&self) {
        let mut told = self.told.lock().unwrap();
        for shard in self.place.shards() {
            if told.insert(shard.id.clone()) {
                let parents = shard.parents.iter().map(ToString::to_string).collect();
                self.trace.tell("", Event::Shard { shard: shard.id.to_string(), parents });
            }
        }
    }

    fn operate(&self, process: usize, which: usize, time: Duration, is_drain: bool) {
        let Some(life) = self.life(process) else { return };
        let shards: Vec<ShardId> =
            life.consumer.status().shards.into_iter().map(|status| status.shard).collect();
        let Some(shard) = shards.get(which % shards.len().max(1)).cloned() else { return };
        let trace = self.trace.clone();
        trace.remark(&life.name, format!("{} {shard}", if is_drain { "drains" } else { "pauses" }));
        let end = Instant::now() + time;
        actix::spawn(async move {
            let operation = async {
                let consumer = &life.consumer;
                let begun =
                    if is_drain { consumer.drain(&shard).await } else { consumer.pause(&shard).await };
                trace.remark(&life.name, format!("{shard}: {begun:?}"));
            };
            let _ = tokio::time::timeout_at(end, operation).await;
            sleep_until(end).await;
            let resumed = life.consumer.resume(&shard).await;
            trace.remark(&life.name, format!("resumes {shard}: {resumed:?}"));
        });
    }

    /// From now on nothing goes wrong any more.
    pub(super) fn calm(&self) {
        let former = {
            let mut seats = self.seats.lock().unwrap();
            for seat in &*seats {
                seat.wire.end();
                seat.moods.end();
                seat.clock.off.store(0, Ordering::Relaxed);
            }
            seats.iter_mut().flat_map(|seat| std::mem::take(&mut seat.former)).collect::<Vec<_>>()
        };
        self.place.make_unreadable([]);
        former.iter().for_each(Life::crash);
        self.lives().iter().for_each(Life::thaw);
        for process in 0..self.plan.processes.len() {
            self.start(process);
        }
        self.trace.tell("", Event::Calm);
    }
}
