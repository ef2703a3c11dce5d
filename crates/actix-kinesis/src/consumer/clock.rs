//! The wall clock.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use tokio::time::Instant;

/// Where the time of day is read.
#[derive(Clone)]
pub(crate) struct WallClock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl WallClock {
    pub(crate) fn new(read: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }
}

impl Default for WallClock {
    /// The host's.
    fn default() -> Self {
        Self::new(SystemTime::now)
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WallClock")
    }
}

/// The wall clock as it was once, moved on by the clock that also runs the pauses. No correction of the wall
/// clock disturbs it, and in a simulation it shows simulated time.
#[derive(Debug)]
pub(crate) struct Clock {
    wall: SystemTime,
    read: Instant,
}

impl Clock {
    pub(crate) fn new(wall: &WallClock) -> Self {
        Self { wall: wall.0(), read: Instant::now() }
    }

    pub(crate) fn now(&self) -> SystemTime {
        self.wall + self.read.elapsed()
    }
}
