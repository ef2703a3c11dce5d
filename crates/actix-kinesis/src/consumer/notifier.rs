//! Tells the application what happens, if it wants to know.

use std::fmt;

use actix::Recipient;

use super::notice::ConsumerNotice;

/// Sends notices to the recipient that the application named, if it did.
#[derive(Clone, Default)]
pub(crate) struct Notifier(Option<Recipient<ConsumerNotice>>);

impl Notifier {
    pub(crate) fn new(recipient: Option<Recipient<ConsumerNotice>>) -> Self {
        Self(recipient)
    }

    pub(crate) fn notify(&self, notice: ConsumerNotice) {
        if let Some(recipient) = &self.0 {
            recipient.do_send(notice);
        }
    }
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notifier")
    }
}
