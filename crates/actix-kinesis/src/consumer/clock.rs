//! The wall clock.

use std::time::SystemTime;

use tokio::time::Instant;

/// The host's wall clock as it was once, moved on by the clock that also runs the pauses. No correction of the wall
/// clock disturbs it, and in a simulation it shows simulated time.
#[derive(Debug)]
pub(crate) struct Clock {
    wall: SystemTime,
    read: Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { wall: SystemTime::now(), read: Instant::now() }
    }

    pub(crate) fn now(&self) -> SystemTime {
        self.wall + self.read.elapsed()
    }
}
