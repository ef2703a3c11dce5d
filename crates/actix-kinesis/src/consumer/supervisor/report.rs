//! What the supervisor tells of the table and the stream.

use std::time::Duration;

use actix::{AsyncContext, Context};
use kinesis_lease::{Lease, StoreError, StreamError};
use kinesis_record::ShardId;
use tracing::{debug, error, info, warn};

use super::{Supervisor, needs_a_person};
use crate::consumer::fetch::Misplaced;
use crate::consumer::notice::ConsumerNotice;

/// How often shards that nobody reads are told of.
const UNREAD_REMINDER: Duration = Duration::from_secs(300);

impl Supervisor {
    /// Tells of shards that nobody reads, and of them again and again as long as that is so.
    pub(super) fn note_unread(&mut self, shards: Vec<ShardId>, ctx: &mut Context<Self>) {
        self.parts.board.set_unread(shards.clone());
        if let Some(reminder) = self.reminder.take() {
            ctx.cancel_future(reminder);
        }
        if shards.is_empty() {
            info!(parent: &self.parts.span, "all shards are read again");
        } else {
            self.warn_of_unread(&shards);
            let again = shards.clone();
            self.reminder = Some(ctx.run_interval(UNREAD_REMINDER, move |supervisor, _| {
                supervisor.warn_of_unread(&again);
            }));
        }
        self.parts.notifier.notify(ConsumerNotice::Unread { shards });
    }

    fn warn_of_unread(&self, shards: &[ShardId]) {
        let names = shards.iter().map(ShardId::as_str).collect::<Vec<_>>().join(", ");
        warn!(
            parent: &self.parts.span, shards = names,
            "shards that no instance reads: lease.max-leases allows no more, they were stopped after failures, or their \
             rows in the lease table cannot be read"
        );
    }

    pub(super) fn tell_of_namesake(&self, shard: &ShardId) {
        let worker_id = self.parts.board.worker_id();
        error!(
            parent: &self.parts.span, %worker_id, %shard,
            "another process runs under the same worker id and renews leases: give each its own lease.worker-id"
        );
    }

    /// What is wrong with the position that a shard was to be read from.
    pub(super) fn explain_misplaced(&self, shard: &ShardId, misplaced: &Misplaced) -> String {
        let Misplaced { position, oldest } = misplaced;
        format!(
            "shard {shard} cannot be read from position {position}, which the lease table {:?} gives: the stream {:?} \
             refuses it, and it has not expired, as the oldest record is {oldest}. It is ahead of the stream or of \
             another one, as in a table that was restored or copied. Nothing is read, and nothing skipped: set the \
             row's checkpoint right (TRIM_HORIZON reads all that is there), then resume the shard or start again",
            self.parts.conf.table_name(),
            self.parts.conf.stream_name
        )
    }

    /// The shard's row was one of another stream under the same name.
    pub(super) fn tell_of_another_stream(&self, shard: ShardId) {
        let detail = format!(
            "the shard is open, but its row in the lease table {:?} says SHARD_END: the stream was deleted and made again \
             under its name. The shard is read from its oldest record",
            self.parts.conf.table_name()
        );
        error!(parent: &self.parts.span, %shard, "{detail}");
        self.parts.notifier.notify(ConsumerNotice::Gap { shard, detail });
    }

    /// Whoever has changed the initial position must learn why shards do not start there.
    pub(super) fn note_first_rows<E>(&mut self, rows: Result<&[Lease], E>) {
        let Ok(rows) = rows else { return };
        let shards = rows.iter().filter(|row| !row.is_finished()).count();
        if !std::mem::replace(&mut self.has_scanned, true) && shards > 0 {
            info!(
                parent: &self.parts.span, shards,
                "shards go on from their rows in the lease table; initial-position is for shards without a row"
            );
        }
    }

    pub(super) fn note_scan(&mut self, error: Option<&StoreError>) {
        let is_passing = error.is_none_or(passes);
        self.scan_failures = self.note(error, is_passing, self.scan_failures);
    }

    pub(super) fn note_write(&mut self, error: Option<&StoreError>) {
        let is_passing = error.is_none_or(passes);
        self.write_failures = self.note(error, is_passing, self.write_failures);
    }

    pub(super) fn note_creation(&mut self, error: Option<&StoreError>) {
        let is_passing = error.is_none_or(passes);
        self.create_failures = self.note(error, is_passing, self.create_failures);
    }

    pub(super) fn note_list(&mut self, error: Option<&StreamError>) {
        let is_passing = error.is_none_or(|error| !needs_a_person(error.kind));
        self.list_failures = self.note(error, is_passing, self.list_failures);
    }

    /// Logs calls that fail in a row once; a single failure is not worth a line. Returns how many have failed.
    fn note<E: std::fmt::Display>(&self, error: Option<&E>, is_passing: bool, failures: u32) -> u32 {
        let span = &self.parts.span;
        let Some(error) = error else {
            if failures > 1 {
                info!(parent: span, failures, "calls succeed again");
            }
            return 0;
        };
        match (failures, is_passing) {
            (1, true) => warn!(parent: span, %error, "calls fail, trying again"),
            (1, false) => error!(parent: span, %error, "calls fail until somebody acts, trying again"),
            _ => debug!(parent: span, %error, failures, "a call failed, trying again"),
        }
        failures.saturating_add(1)
    }
}

/// Whether calls will succeed again without a person's help. A table that is gone is made again by the next scan.
pub(super) fn passes(error: &StoreError) -> bool {
    error.is_passing() || matches!(error, StoreError::TableMissing(_))
}
