//! What a run goes through: made from its seed before it begins, as a list of which any part can be left out.

use std::fmt;
use std::time::Duration;

use actix_kinesis::config::Concurrency;

/// Faults and changes happen until then.
pub(crate) const CALM: Duration = Duration::from_secs(90);

const SECOND: Duration = Duration::from_secs(1);
/// How long a stream is written to before anybody reads it, if it is.
const PRELUDE: Duration = Duration::from_secs(4);

/// What a fleet goes through. The seed's remainder says which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trial {
    /// Crashes, freezes, stops, resharding, bad networks, bad processors.
    Trouble,
    /// The same, from `LATEST`.
    Latest,
    /// The same, with clocks that run at half to twice the true rate, and workers of the KCL, so that two may read a shard.
    Clocks,
    /// Starts, stops, drains, pauses and resharding, and nothing goes wrong.
    Planned,
}

impl Trial {
    pub(crate) const ALL: [Self; 4] = [Self::Trouble, Self::Latest, Self::Clocks, Self::Planned];

    pub(crate) fn of(seed: u64) -> Self {
        Self::ALL[(seed % 4) as usize]
    }
}

/// A run, as its seed decides it.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) trial: Trial,
    pub(crate) concurrency: Concurrency,
    pub(crate) shards: u32,
    pub(crate) processes: Vec<Starting>,
    /// Whether a process that starts again has the worker id that it had before.
    pub(crate) keeps_names: bool,
    /// Whether it goes on until the rows of finished shards are deleted, and a process starts again then.
    pub(crate) is_long: bool,
    pub(crate) deeds: Vec<Deed>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Starting {
    pub(crate) at: Duration,
    /// How fast its clock runs. All clocks of the simulation are one, so that the times which its leases go by are
    /// divided by this instead.
    pub(crate) rate: f64,
}

/// Something that happens to the fleet.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Deed {
    /// Its place in the whole list, and the seed of its own chance.
    pub(crate) number: usize,
    pub(crate) at: Duration,
    pub(crate) what: What,
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>3}  {:>6.2} s  {:?}", self.number, self.at.as_secs_f64(), self.what)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum What {
    /// The process dies and comes back.
    Crash {
        process: usize,
        back_after: Duration,
    },
    /// The process stands still.
    Freeze {
        process: usize,
        time: Duration,
    },
    /// The process stands still; another one is started under its worker id, and the former one dies soon after it has
    /// gone on.
    Replace {
        process: usize,
        time: Duration,
    },
    /// The process stops as it is asked to, and comes back.
    Stop {
        process: usize,
        back_after: Duration,
    },
    Split {
        which: usize,
    },
    Merge {
        which: usize,
    },
    UpdateCount {
        target: u32,
    },
    /// A shard of the process is offered to the others, and taken back.
    Drain {
        process: usize,
        which: usize,
        time: Duration,
    },
    Pause {
        process: usize,
        which: usize,
        time: Duration,
    },
    /// One call in so many goes wrong.
    Calls {
        process: usize,
        time: Duration,
        calls: Calls,
        mishap: Mishap,
        one_in: u32,
    },
    /// One event in so many is processed badly.
    Events {
        process: usize,
        time: Duration,
        temper: Temper,
        one_in: u32,
    },
    /// A worker of the KCL 2.x takes part for a while, and gives its leases up in the end or dies with them.
    Kcl {
        time: Duration,
        is_polite: bool,
    },
    /// Much is put at once.
    Flood,
    /// The row of a shard is such as nobody can read.
    Unreadable {
        which: usize,
        time: Duration,
    },
    /// The wall clock is put forward or back.
    Jump {
        process: usize,
        seconds: i64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Calls {
    All,
    Writes,
    Scans,
    LookUps,
    Lists,
    Iterators,
    Records,
}

impl Calls {
    pub(crate) fn include(self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Writes => matches!(name, "write" | "create" | "delete"),
            Self::Scans => name == "scan",
            Self::LookUps => name == "read",
            Self::Lists => name == "ListShards",
            Self::Iterators => name == "GetShardIterator",
            Self::Records => name == "GetRecords",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mishap {
    Throttled,
    RequestLost,
    ReplyLost,
    /// It is applied some seconds later.
    Late,
    Hung,
    /// It takes up to six seconds.
    Slow,
    Stale,
    Expired,
    Empty,
    Severed,
    Partial,
    Denied,
    Missing,
    Encryption,
    Invalid,
    Panic,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Temper {
    Slow,
    Stuck,
    Failing,
    Panicking,
    /// Through a handle, after later events.
    Late,
    /// Through two handles, of which one says that it failed.
    Twice,
    /// Its handle is dropped.
    Dropping,
}

impl Plan {
    pub(crate) fn of(seed: u64) -> Self {
        let trial = Trial::of(seed);
        let mut chance = fastrand::Rng::with_seed(seed);
        let shards = chance.u32(1..5);
        // Half of the streams have been resharded before anybody reads them.
        let reshards = if chance.bool() { chance.usize(1..4) } else { 0 };
        let prelude = if reshards > 0 { PRELUDE } else { Duration::ZERO };
        let processes = (0..chance.usize(2..5)).map(|index| Starting {
            at: prelude
                + if index > 0 && chance.bool() { within(&mut chance, CALM / 2) } else { Duration::ZERO },
            rate: match trial {
                Trial::Clocks => 0.5 + 1.5 * chance.f64(),
                Trial::Planned => 1.0,
                Trial::Trouble | Trial::Latest => 0.97 + 0.06 * chance.f64(),
            },
        });
        let mut plan = Self {
            seed,
            trial,
            // Not by chance, so that a seed is what it was before there was a choice.
            concurrency: match seed / 4 % 4 {
                1 => Concurrency::Shard,
                2 => Concurrency::Key(4),
                _ => Concurrency::None,
            },
            shards,
            processes: processes.collect(),
            keeps_names: false,
            is_long: false,
            deeds: Vec::new(),
        };
        plan.keeps_names = chance.bool();
        plan.is_long = chance.u32(0..8) == 0;
        let mut deeds = Vec::new();
        for _ in 0..reshards {
            deeds.push((within(&mut chance, PRELUDE), plan.reshard(&mut chance)));
        }
        for _ in 0..chance.usize(3..10) {
            let at = prelude + 5 * SECOND + within(&mut chance, CALM - 10 * SECOND - prelude);
            deeds.push((at, plan.deed(&mut chance)));
        }
        if trial != Trial::Planned {
            for _ in 0..chance.usize(2..12) {
                let is_early = chance.u32(0..4) == 0;
                let at = if is_early { prelude } else { within(&mut chance, CALM - 10 * SECOND) };
                deeds.extend(plan.faults(&mut chance).into_iter().map(|what| (at, what)));
            }
        }
        if reshards > 0 && trial != Trial::Planned && chance.u32(0..3) == 0 {
            // Who makes the first rows sees a part of the stream.
            let (time, calls, mishap) = (10 * SECOND, Calls::Lists, Mishap::Partial);
            let everybody = 0..plan.processes.len();
            deeds.extend(
                everybody.map(|process| (prelude, What::Calls { process, time, calls, mishap, one_in: 2 })),
            );
        }
        if trial == Trial::Latest && chance.u32(0..3) == 0 {
            // Whoever begins at the newest record ends before it has seen one.
            let (time, calls, mishap) = (8 * SECOND, Calls::Records, Mishap::Throttled);
            for process in 0..plan.processes.len() {
                deeds.push((prelude, What::Calls { process, time, calls, mishap, one_in: 1 }));
            }
            let at = prelude + 2 * SECOND + within(&mut chance, 4 * SECOND);
            deeds.push((at, What::Crash { process: 0, back_after: SECOND }));
        }
        deeds.sort_by_key(|(at, _)| *at);
        // What came into this world later has later numbers, so that the chance of the others stays as it was.
        deeds.extend(plan.later_troubles(&mut chance, prelude));
        let numbered = deeds.into_iter().enumerate();
        plan.deeds = numbered.map(|(number, (at, what))| Deed { number, at, what }).collect();
        plan.deeds.sort_by_key(|deed| deed.at);
        plan
    }

    fn later_troubles(&self, chance: &mut fastrand::Rng, prelude: Duration) -> Vec<(Duration, What)> {
        let mut deeds = Vec::new();
        if self.trial == Trial::Planned {
            return deeds;
        }
        if self.trial == Trial::Clocks && chance.bool() {
            // If it dies, even the slowest clock has to find its leases expired soon after the calm has begun.
            let at = prelude + 5 * SECOND + within(chance, 20 * SECOND);
            let time = 5 * SECOND + within(chance, 20 * SECOND);
            deeds.push((at, What::Kcl { time, is_polite: chance.bool() }));
        }
        if chance.u32(0..4) == 0 {
            let at = prelude + 5 * SECOND + within(chance, CALM - 15 * SECOND - prelude);
            let time = SECOND + within(chance, 20 * SECOND);
            deeds.push((at, What::Unreadable { which: chance.usize(0..64), time }));
        }
        if prelude > Duration::ZERO && chance.u32(0..3) == 0 {
            // Closed shards are read, whose replies end before they do.
            let (time, calls, mishap) = (20 * SECOND, Calls::Records, Mishap::Severed);
            let everybody = 0..self.processes.len();
            deeds.extend(
                everybody.map(|process| (prelude, What::Calls { process, time, calls, mishap, one_in: 2 })),
            );
        }
        if chance.u32(0..6) == 0 {
            // Nobody is quick enough for what comes.
            let at = prelude + 5 * SECOND + within(chance, CALM - 20 * SECOND - prelude);
            deeds.push((at, What::Flood));
            let (time, temper, one_in) = (10 * SECOND, Temper::Slow, 1);
            let everybody = 0..self.processes.len();
            deeds.extend(everybody.map(|process| (at, What::Events { process, time, temper, one_in })));
        }
        deeds
    }

    fn reshard(&self, chance: &mut fastrand::Rng) -> What {
        let which = chance.usize(0..64);
        let target = chance.u32(1..7);
        choose(chance, &[What::Split { which }, What::Merge { which }, What::UpdateCount { target }])
    }

    fn deed(&self, chance: &mut fastrand::Rng) -> What {
        let process = chance.usize(0..self.processes.len());
        let which = chance.usize(0..64);
        let planned = [
            What::Stop { process, back_after: SECOND + within(chance, 15 * SECOND) },
            self.reshard(chance),
            self.reshard(chance),
            What::Drain { process, which, time: within(chance, 20 * SECOND) },
            What::Pause { process, which, time: within(chance, 20 * SECOND) },
        ];
        let troubles = [
            What::Crash { process, back_after: SECOND / 10 + within(chance, 15 * SECOND) },
            What::Freeze { process, time: within(chance, 30 * SECOND) },
            What::Replace { process, time: 2 * SECOND + within(chance, 20 * SECOND) },
            What::Jump { process, seconds: chance.i64(-120..120) },
        ];
        let is_planned = self.trial == Trial::Planned || chance.bool();
        let pick = if is_planned { choose(chance, &planned) } else { choose(chance, &troubles) };
        match pick {
            // What the clock of a host that makes rows says is where `LATEST` begins.
            What::Jump { .. } if self.trial == Trial::Latest => What::Crash { process, back_after: SECOND },
            pick => pick,
        }
    }

    /// What goes wrong at the same time.
    fn faults(&self, chance: &mut fastrand::Rng) -> Vec<What> {
        use {Calls as C, Mishap as M, Temper as T};
        let process = chance.usize(0..self.processes.len());
        let time = SECOND + within(chance, 20 * SECOND);
        let one_in = *choose(chance, &[&1, &2, &3, &5, &10, &20]);
        if chance.u32(0..3) == 0 {
            let tempers = [T::Slow, T::Stuck, T::Failing, T::Panicking, T::Late, T::Twice, T::Dropping];
            return vec![What::Events { process, time, temper: choose(chance, &tempers), one_in }];
        }
        let of_any = [M::Throttled, M::RequestLost, M::ReplyLost, M::Slow, M::Denied, M::Missing, M::Panic];
        let of_reads = [M::Expired, M::Empty, M::Severed, M::Encryption, M::Invalid];
        let calls = [C::All, C::Writes, C::Scans, C::LookUps, C::Lists, C::Iterators, C::Records];
        let calls = choose(chance, &calls);
        let special: &[M] = match calls {
            C::All => &[M::Throttled, M::RequestLost, M::ReplyLost, M::Slow],
            C::Writes => &[M::Late, M::Hung, M::ReplyLost],
            C::Scans => &[M::Stale],
            C::LookUps => &[M::Hung],
            C::Lists => &[M::Partial, M::Hung],
            C::Iterators => &[M::Invalid, M::Encryption],
            C::Records => &of_reads,
        };
        let mishap = match calls {
            C::All => choose(chance, special),
            _ if chance.bool() => choose(chance, special),
            _ => choose(chance, &of_any),
        };
        let mut faults = vec![What::Calls { process, time, calls, mishap, one_in }];
        if mishap == M::Partial {
            // The list is asked whether a shard that is not found is gone.
            faults.push(What::Calls { process, time, calls: C::Records, mishap: M::Missing, one_in: 5 });
        }
        faults
    }
}

pub(crate) fn within(chance: &mut fastrand::Rng, time: Duration) -> Duration {
    // Whole milliseconds are easier to read.
    Duration::from_millis(chance.u64(0..time.as_millis() as u64))
}

fn choose<T: Clone>(chance: &mut fastrand::Rng, from: &[T]) -> T {
    from[chance.usize(0..from.len())].clone()
}
