//! The journal of the coordinator, as lines of the log.

use kinesis_lease::coordinator::{Coordinator, Settings};
use tracing::{Level, Span, enabled, trace};

/// Apart from other targets, so that a filter can ask for it alone: it holds all rows of the lease table, again and again.
const TARGET: &str = "kinesis_lease::journal";

/// A coordinator whose journal is logged if a filter asks for it now. One that began later could not be replayed.
pub(super) fn coordinator(settings: Settings, random: fastrand::Rng, span: &Span) -> Coordinator {
    if !enabled!(target: TARGET, Level::TRACE) {
        return Coordinator::new(settings, random);
    }
    let span = span.clone();
    Coordinator::recorded(settings, random, move |entry| trace!(target: TARGET, parent: &span, "{entry}"))
}
