//! Tells the application what happens, if it wants to know.

use std::fmt;

use actix::Recipient;

use super::notice::ConsumerNotice;
use super::observe::{Observation, Observer};

/// Sends notices to the recipient that the application named, and shows steps to its observer, if it named them.
#[derive(Clone, Default)]
pub(crate) struct Notifier {
    recipient: Option<Recipient<ConsumerNotice>>,
    observer: Option<Observer>,
}

impl Notifier {
    pub(crate) fn new(recipient: Option<Recipient<ConsumerNotice>>, observer: Option<Observer>) -> Self {
        Self { recipient, observer }
    }

    pub(crate) fn notify(&self, notice: ConsumerNotice) {
        if self.is_observed() {
            self.show(Observation::Noticed(notice.clone()));
        }
        if let Some(recipient) = &self.recipient {
            recipient.do_send(notice);
        }
    }

    pub(crate) fn is_observed(&self) -> bool {
        self.observer.is_some()
    }

    /// Shows a step to the observer, if there is one.
    pub(crate) fn show(&self, step: Observation) {
        if let Some(observer) = &self.observer {
            observer(step);
        }
    }
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notifier")
    }
}
