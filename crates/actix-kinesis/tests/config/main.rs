//! Loading a configuration.

#![allow(clippy::panic, clippy::unwrap_used)]

mod reactive;
mod settings;
mod sources;
mod support;

use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
