//! Who is who, who has died, and what may come again for that.

use std::borrow::Cow;

use super::{Checker, Event, Line, Oracle, Violation};

/// An event that came again although whoever was done with it had no trouble as far as was told by then.
#[derive(Debug)]
pub(super) struct Unexplained {
    pub(super) by: String,
    pub(super) shard: String,
    /// Since when everything up to the event is done with.
    pub(super) done_since: u64,
    /// When the process was last heard before.
    pub(super) spoke_ms: u64,
    pub(super) violation: Violation,
}

impl Checker {
    /// The process that the line is of: another one whenever its name starts anew.
    pub(super) fn life<'a>(&mut self, line: &'a Line) -> Cow<'a, str> {
        let life = self.lives.get(&line.worker).copied().unwrap_or(1);
        let name = name(&line.worker, life);
        let has_lived = self.workers.get(&*name).is_some_and(|history| history.has_lived);
        if line.event == Event::Started && has_lived {
            self.lives.insert(line.worker.clone(), life + 1);
            return self::name(&line.worker, life + 1);
        }
        name
    }

    /// Notes that the process has said something, or that something was said of it.
    pub(super) fn speaks(&mut self, worker: &str, event: &Event) {
        if worker.is_empty() {
            return;
        }
        let last = (self.line, self.at_ms);
        let history = self.worker(worker);
        history.last = last;
        history.has_ended |= matches!(event, Event::Stopped { .. } | Event::Crashed);
        // It may stand still before it starts.
        history.has_lived |= !matches!(event, Event::Frozen | Event::Thawed);
    }

    /// Finds out whether those had trouble after all.
    pub(super) fn check_unexplained(&mut self) {
        let window = self.rules.window.map(|window| window.as_millis() as u64);
        for unexplained in std::mem::take(&mut self.unexplained) {
            let Unexplained { by, shard, done_since, spoke_ms, mut violation } = unexplained;
            let silence_is_death = self.rules.silence_is_death;
            let history = self.worker(&by);
            if history.has_stopped_unclean {
                continue;
            }
            let is_dead = !history.has_ended && history.last.0 < violation.line;
            // It stood still, and learns of it now.
            let is_late = history.losses.get(&shard).into_iter().flatten().any(|at| *at >= violation.at_ms);
            if silence_is_death && (is_dead || is_late) {
                let Some(window) = window.filter(|window| done_since.saturating_add(*window) <= spoke_ms)
                else {
                    continue;
                };
                violation.oracle = Oracle::Window;
                violation.text += &format!(" {window} ms before it was last heard of");
            }
            self.violations.push(violation);
        }
    }
}

fn name(worker: &str, life: usize) -> Cow<'_, str> {
    if life == 1 { Cow::Borrowed(worker) } else { Cow::Owned(format!("{worker} (life {life})")) }
}
