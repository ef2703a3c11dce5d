//! A fault, as it is put together.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::action::{Action, RecordFailure, Refusal, Rewrite};
use super::check::FaultError;
use super::selector::{Selector, Service};

/// A fault: which calls, which of these it strikes, and what it does to them. Without an action it only
/// counts, which tells how often a call came.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Fault {
    #[serde(flatten)]
    pub(super) selector: Selector,
    #[serde(flatten)]
    pub(super) strikes: Strikes,
    #[serde(rename = "do", default)]
    pub(super) action: Action,
}

/// Which of the calls that are meant are struck.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Strikes {
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) skip: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) times: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) chance: Option<f64>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) seed: Option<u64>,
    #[serde(rename = "from_ms", default, skip_serializing_if = "is_default", with = "super::form::millis")]
    pub(super) from: Duration,
    #[serde(
        rename = "until_ms",
        default,
        skip_serializing_if = "is_default",
        with = "super::form::optional_millis"
    )]
    pub(super) until: Option<Duration>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Fault {
    /// A fault for the calls of an operation, such as `GetRecords`.
    pub fn on(operation: &str) -> Self {
        Self { selector: Selector::on(operation), ..Self::default() }
    }

    /// A fault for all calls of both services.
    pub fn on_any() -> Self {
        Self::default()
    }

    /// Reads a fault from its JSON form, of which the README tells.
    ///
    /// # Errors
    /// When `text` is not JSON or not the form of a fault, or the fault could never strike.
    pub fn from_json(text: &str) -> Result<Self, FaultError> {
        super::form::one(text.as_bytes())
    }

    /// Reads one fault, or an array of them, from the JSON form.
    ///
    /// # Errors
    /// When `text` is not JSON or not the form of faults, or one of them could never strike.
    pub fn all_from_json(text: &str) -> Result<Vec<Self>, FaultError> {
        super::form::many(text.as_bytes())
    }

    /// Only calls to this service.
    pub fn service(mut self, service: Service) -> Self {
        self.selector = self.selector.service(service);
        self
    }

    /// Only calls about this stream, as [`Selector::stream`].
    pub fn stream(mut self, name: &str) -> Self {
        self.selector = self.selector.stream(name);
        self
    }

    /// Only calls about this shard, as [`Selector::shard`].
    pub fn shard(mut self, id: &str) -> Self {
        self.selector = self.selector.shard(id);
        self
    }

    /// Only calls about this table, as [`Selector::table`].
    pub fn table(mut self, name: &str) -> Self {
        self.selector = self.selector.table(name);
        self
    }

    /// Only calls about the item with this key, as [`Selector::key`].
    pub fn key(mut self, key: &str) -> Self {
        self.selector = self.selector.key(key);
        self
    }

    /// Passes over the first `calls` calls that it is for.
    pub fn skip(mut self, calls: u64) -> Self {
        self.strikes.skip = calls;
        self
    }

    /// Strikes so many calls, then no more. Without this there is no end.
    pub fn times(mut self, calls: u64) -> Self {
        self.strikes.times = Some(calls);
        self
    }

    /// Strikes a call with this probability, 0 to 1, from the seed.
    pub fn chance(mut self, probability: f64) -> Self {
        self.strikes.chance = Some(probability);
        self
    }

    /// The seed for [`Fault::chance`]. By default one made of the seed of the whole and the number of the
    /// fault, so that the same faults strike in the same way in each run.
    pub fn seed(mut self, seed: u64) -> Self {
        self.strikes.seed = Some(seed);
        self
    }

    /// Strikes only from this time on, counted from when the fault was added.
    pub fn from(mut self, time: Duration) -> Self {
        self.strikes.from = time;
        self
    }

    /// Strikes only until this time, counted from when the fault was added.
    pub fn until(mut self, time: Duration) -> Self {
        self.strikes.until = Some(time);
        self
    }

    /// What it does.
    pub fn action(mut self, action: Action) -> Self {
        self.action = action;
        self
    }

    /// [`Action::Delay`]
    pub fn delay(self, time: Duration) -> Self {
        self.action(Action::Delay(time))
    }

    /// [`Action::Error`]: a code, or a [`Refusal`] with status and message.
    pub fn error(self, refusal: impl Into<Refusal>) -> Self {
        self.action(Action::Error(refusal.into()))
    }

    /// [`Action::Throttle`]
    pub fn throttle(self) -> Self {
        self.action(Action::Throttle)
    }

    /// [`Action::Hang`]
    pub fn hang(self) -> Self {
        self.action(Action::Hang)
    }

    /// [`Action::Reset`]
    pub fn reset(self) -> Self {
        self.action(Action::Reset)
    }

    /// [`Action::ErrorAfter`]: a code, or a [`Refusal`] with status and message.
    pub fn error_after(self, refusal: impl Into<Refusal>) -> Self {
        self.action(Action::ErrorAfter(refusal.into()))
    }

    /// [`Action::LoseReply`]
    pub fn lose_reply(self) -> Self {
        self.action(Action::LoseReply)
    }

    /// [`Action::HalfBody`]
    pub fn half_body(self) -> Self {
        self.action(Action::HalfBody)
    }

    /// [`Action::StallBody`]
    pub fn stall_body(self) -> Self {
        self.action(Action::StallBody)
    }

    /// [`Action::Merge`]
    pub fn merge(self, patch: Value) -> Self {
        self.action(Action::Merge(patch))
    }

    /// [`Action::Rewrite`]: a function on the reply's JSON, whatever form it has on the wire.
    pub fn rewrite(self, change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        self.action(Action::Rewrite(Rewrite(Arc::new(change))))
    }

    /// [`Action::ExpireIterators`]
    pub fn expire_iterators(self, age: Duration) -> Self {
        self.action(Action::ExpireIterators(age))
    }

    /// [`Action::EmptyPage`]
    pub fn empty_page(self) -> Self {
        self.action(Action::EmptyPage)
    }

    /// [`Action::StaleShards`]
    pub fn stale_shards(self) -> Self {
        self.action(Action::StaleShards)
    }

    /// [`Action::HideShards`]
    pub fn hide_shards<'a>(self, ids: impl IntoIterator<Item = &'a str>) -> Self {
        self.action(Action::HideShards(ids.into_iter().map(str::to_owned).collect()))
    }

    /// [`Action::FirstShards`]
    pub fn first_shards(self, number: usize) -> Self {
        self.action(Action::FirstShards(number))
    }

    /// [`Action::FailRecords`], as throttled.
    pub fn fail_records(self, places: impl IntoIterator<Item = usize>) -> Self {
        self.action(Action::fail_records(places.into_iter().collect()))
    }

    /// [`Action::FailRecords`] with a code and a message.
    pub fn fail_records_with(
        self,
        places: impl IntoIterator<Item = usize>,
        code: RecordFailure,
        message: &str,
    ) -> Self {
        let places = places.into_iter().collect();
        self.action(Action::FailRecords { places, code, message: message.to_owned() })
    }
}
