//! How the calls of a process fare.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::schedule::{Calls, Mishap, within};
use crate::trace::Trace;
use crate::world::{Fault, Twist};

/// A time in which one call in so many goes wrong.
#[derive(Debug)]
struct Weather {
    until: Instant,
    calls: Calls,
    mishap: Mishap,
    one_in: u32,
    chance: fastrand::Rng,
}

/// The network of a process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wire(Arc<Mutex<Vec<Weather>>>);

impl Wire {
    pub(crate) fn begin(
        &self,
        time: Duration,
        calls: Calls,
        mishap: Mishap,
        one_in: u32,
        chance: fastrand::Rng,
    ) {
        let until = Instant::now() + time;
        self.0.lock().unwrap().push(Weather { until, calls, mishap, one_in, chance });
    }

    pub(crate) fn end(&self) {
        self.0.lock().unwrap().clear();
    }

    /// What happens to each call, by its name. `chance` says how long those take that fare well.
    pub(crate) fn rule(
        &self,
        trace: Trace,
        life: String,
        mut chance: fastrand::Rng,
    ) -> impl FnMut(&str) -> Fault + Send + 'static {
        let wire = self.clone();
        move |name| {
            let mut weather = wire.0.lock().unwrap();
            weather.retain(|weather| weather.until > Instant::now());
            let struck = weather.iter_mut().find_map(|weather| {
                let is_struck = weather.calls.include(name) && weather.chance.u32(0..weather.one_in) == 0;
                is_struck.then(|| weather.mishap.befall(name, &mut weather.chance))
            });
            let fault = struck.unwrap_or_else(|| usual(&mut chance, Twist::Plain));
            if struck.is_some() {
                trace.remark(&life, format!("{name}: {fault:?}"));
            }
            fault
        }
    }
}

fn usual(chance: &mut fastrand::Rng, twist: Twist) -> Fault {
    let mut way = || Duration::from_millis(chance.u64(1..15));
    Fault::Slow { there: way(), back: way(), twist }
}

impl Mishap {
    fn befall(self, name: &str, chance: &mut fastrand::Rng) -> Fault {
        match self {
            Self::Throttled => Fault::Throttled,
            Self::RequestLost => Fault::RequestLost,
            Self::ReplyLost => Fault::ReplyLost,
            Self::Late => Fault::Late(within(chance, Duration::from_secs(8))),
            Self::Hung => Fault::Hung,
            Self::Slow => {
                let (there, back) =
                    (within(chance, Duration::from_secs(3)), within(chance, Duration::from_secs(3)));
                Fault::Slow { there, back, twist: Twist::Plain }
            }
            Self::Stale => {
                let age = within(chance, Duration::from_secs(3));
                usual(chance, Twist::Stale(age))
            }
            Self::Expired => usual(chance, Twist::Expired),
            Self::Empty => usual(chance, Twist::Empty),
            Self::Severed => usual(chance, Twist::Severed),
            Self::Partial => {
                let seed = chance.u64(..);
                usual(chance, Twist::Partial(seed))
            }
            Self::Denied => Fault::Denied,
            Self::Missing => Fault::Missing,
            Self::Encryption if name.starts_with("Get") => Fault::Encryption,
            Self::Encryption => Fault::Throttled,
            Self::Invalid => Fault::Invalid,
            Self::Panic => Fault::Panic,
        }
    }
}
