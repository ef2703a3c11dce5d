//! The way of a process to the services, on which calls fail on demand.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kinesis_record::{Shard, ShardId};
use tokio::time::Instant;

/// What happens to a call on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing: it is answered.
    None,
    /// It is refused for throttling.
    Throttled,
    /// It is applied, and the reply is lost.
    ReplyLost,
    /// It does not arrive.
    RequestLost,
    /// It is not answered, which shows after the longest time that a call may take.
    Hung,
    /// It arrives so much later, when nobody waits for it any more. For writes to the table.
    Late(Duration),
    /// It is refused for missing permission or bad credentials.
    Denied,
    /// It is refused since the stream or the table does not exist.
    Missing,
    /// It is refused for the stream's encryption key.
    Encryption,
    /// It is refused for its arguments.
    Invalid,
    /// The client panics.
    Panic,
    /// It takes so long there, and its reply back. It goes its way whatever becomes of the process: one that has stood
    /// still finds the reply, and one that has died has written.
    Slow { there: Duration, back: Duration, twist: Twist },
}

/// What the service makes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Twist {
    /// What was asked for.
    Plain,
    /// A scan shows the table as it was so long ago.
    Stale(Duration),
    /// The iterator has expired.
    Expired,
    /// The page has no records, whatever lies behind the iterator.
    Empty,
    /// The page has no records and no iterator to go on with, though the shard has not ended. Not twice in a row.
    Severed,
    /// The list lacks an open shard, and others by chance, which begins with this number.
    Partial(u64),
}

/// A call on its way.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    /// The shard that it is about.
    pub(crate) shard: Option<ShardId>,
    pub(crate) at: Instant,
}

type Rule = dyn FnMut(&str) -> Fault + Send;
type Edit = dyn Fn(Vec<Shard>) -> Vec<Shard> + Send;

/// A process's way to the services: notes calls, and lets them fail as told.
#[derive(Clone)]
pub(crate) struct Network {
    pub(super) calls: Arc<Mutex<Vec<Call>>>,
    pub(super) rule: Arc<Mutex<Box<Rule>>>,
    pub(super) edit_list: Arc<Mutex<Box<Edit>>>,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            calls: Arc::default(),
            rule: Arc::new(Mutex::new(Box::new(|_| Fault::None))),
            edit_list: Arc::new(Mutex::new(Box::new(|shards| shards))),
        }
    }
}

impl Network {
    /// From now on each call, by its name, meets the fault that `rule` says.
    pub(crate) fn fail(&self, rule: impl FnMut(&str) -> Fault + Send + 'static) {
        *self.rule.lock().unwrap() = Box::new(rule);
    }

    pub(crate) fn heal(&self) {
        self.fail(|_| Fault::None);
    }

    /// From now on lists of shards are as `edit` makes them.
    pub(crate) fn edit_list(&self, edit: impl Fn(Vec<Shard>) -> Vec<Shard> + Send + 'static) {
        *self.edit_list.lock().unwrap() = Box::new(edit);
    }

    pub(crate) fn calls(&self, name: &str) -> u64 {
        self.all_calls().iter().filter(|call| call.name == name).count() as u64
    }

    pub(crate) fn all_calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// The calls since the last time, by their names.
    pub(crate) fn take_calls(&self) -> BTreeMap<&'static str, usize> {
        let mut by_name = BTreeMap::new();
        for call in std::mem::take(&mut *self.calls.lock().unwrap()) {
            *by_name.entry(call.name).or_default() += 1;
        }
        by_name
    }
}
