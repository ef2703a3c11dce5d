//! How often each operation was called.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::model::Operation;

/// A counter per operation. Calls that were refused count too.
#[derive(Debug, Default)]
pub(crate) struct Calls(Mutex<BTreeMap<Operation, u64>>);

impl Calls {
    pub(crate) fn count(&self, operation: Operation) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(operation).or_default() += 1;
    }

    pub(crate) fn of(&self, operation: Operation) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&operation).copied().unwrap_or_default()
    }
}
