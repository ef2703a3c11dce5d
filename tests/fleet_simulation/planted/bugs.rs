//! The bugs: each replaces one text in one file of the product.

/// A bug to plant.
#[derive(Debug)]
pub(crate) struct Bug {
    pub(crate) name: &'static str,
    /// From the root of the workspace on.
    pub(crate) file: &'static str,
    /// Stands there once.
    pub(crate) find: &'static str,
    pub(crate) replace: &'static str,
}

const LEASE: &str = "crates/kinesis-lease/src/lease.rs";
const LINEAGE: &str = "crates/kinesis-lease/src/lineage.rs";
const GRIP: &str = "crates/kinesis-lease/src/coordinator/grip.rs";
const WRITE: &str = "crates/kinesis-lease/src/coordinator/write.rs";
const TAKE: &str = "crates/kinesis-lease/src/coordinator/take.rs";
const WATCH: &str = "crates/kinesis-lease/src/coordinator/watch.rs";
const POSITION: &str = "crates/kinesis-record/src/position.rs";
const WORKER: &str = "crates/actix-kinesis/src/consumer/worker.rs";
const SILENCE: &str = "crates/actix-kinesis/src/consumer/worker/silence.rs";
const TRACKER: &str = "crates/actix-kinesis/src/consumer/tracker.rs";
const LANES: &str = "crates/actix-kinesis/src/consumer/tracker/lanes.rs";
const CHECKPOINT: &str = "crates/actix-kinesis/src/consumer/checkpoint.rs";
const SHARD: &str = "crates/actix-kinesis/src/consumer/supervisor/shard.rs";
const STOP: &str = "crates/actix-kinesis/src/consumer/supervisor/stop.rs";
const CURSOR: &str = "crates/actix-kinesis/src/consumer/fetch/cursor.rs";
const ATTEMPT: &str = "crates/actix-kinesis/src/consumer/fetch/attempt.rs";

pub(crate) const BUGS: &[Bug] = &[
    Bug {
        name: "the counter fences nothing",
        file: LEASE,
        find: "row.counter != self.expected_counter || ",
        replace: "",
    },
    Bug {
        name: "a list of shards with a hole is trusted",
        file: LINEAGE,
        find: "match list.first_hole() {",
        replace: "match list.first_hole().filter(|_| false) {",
    },
    Bug {
        name: "a child starts before its parents have ended",
        file: LINEAGE,
        find: "Some(row) => row.is_finished(),",
        replace: "Some(_) => true,",
    },
    Bug {
        name: "a checkpoint passes a gap",
        file: TRACKER,
        find: "self.entries.pop_front_if(|entry| matches!(entry.state, State::Settled))",
        replace: "self.entries.pop_front_if(|entry| !matches!(entry.state, State::Due(_)))",
    },
    Bug {
        name: "sub-sequence numbers are compared as text",
        file: POSITION,
        find: "#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {",
        replace: "impl PartialOrd for Position {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Position {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let text = |position: &Self| position.sub_sequence.to_string();
        self.sequence.cmp(&other.sequence).then_with(|| text(self).cmp(&text(other)))
    }
}

/// A position.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Position {",
    },
    Bug {
        name: "SHARD_END is stored when the last record is fetched",
        file: WORKER,
        find: "Phase::Delivering | Phase::Unpinned if self.tracker.is_drained() => {",
        replace: "Phase::Delivering | Phase::Unpinned => {",
    },
    Bug {
        name: "a lease counts as ours for longer than others wait",
        file: GRIP,
        find: "self.valid_from + failover - failover / 10",
        replace: "self.valid_from + failover * 2",
    },
    Bug {
        name: "a lease is taken before the failover time is over",
        file: WATCH,
        find: "seen.unmoved_since + if is_assigned { failover * 5 / 2 } else { failover }",
        replace: "seen.unmoved_since + if is_assigned { failover * 5 / 2 } else { failover / 2 }",
    },
    Bug {
        name: "a write without a reply counts as applied",
        file: WRITE,
        find: "                grip.reply_lost();
                self.effects.push_back(grip.look_up(&shard));",
        replace: "                self.apply(now, &shard, None, Known::Told);",
    },
    Bug {
        name: "events are delivered without a look at the lease",
        file: WORKER,
        find: " && self.equipment.fence.holds() {",
        replace: " {",
    },
    Bug {
        name: "reading goes on behind the whole aggregate",
        file: SHARD,
        find: "fencing_token, start.position().cloned())",
        replace: "fencing_token, start.position().map(|at| Position::new(at.sequence.clone(), i64::MAX)))",
    },
    Bug {
        name: "reading begins anew whenever a lease changes hands",
        file: SHARD,
        find: "watch::channel(lease.checkpoint.clone())",
        replace: "watch::channel(Checkpoint::TrimHorizon)",
    },
    Bug {
        name: "a shard is handed over before it is drained",
        file: SHARD,
        find: "            Some(worker) => {
                worker.do_send(StopWorker::Drain { deadline, reason: ShutdownReason::HandedOver });
            }",
        replace: "            Some(worker) => {
                worker.do_send(StopWorker::Drain { deadline, reason: ShutdownReason::HandedOver });
                self.part_with(shard, acquisition, ctx);
            }",
    },
    Bug {
        name: "a lease is given away without its last checkpoint",
        file: STOP,
        find: "let (flushed, unsettled) = (slot.checkpoint.send(Flush { deadline }), slot.unsettled);",
        replace: "let (flushed, unsettled) = (async move { let _ = Flush { deadline }; Ok::<_, actix::MailboxError>(Ok::<(), \
                  crate::consumer::checkpoint::NotStored>(())) }, slot.unsettled);",
    },
    Bug {
        name: "the iterator of an empty page is left out",
        file: CURSOR,
        find: "self.iterator.clone_from(&page.next);",
        replace: "if !page.records.is_empty() || page.next.is_none() { self.iterator.clone_from(&page.next); }",
    },
    Bug {
        name: "an expired iterator is followed by the newest record",
        file: CURSOR,
        find: "    pub(super) fn close(&mut self) {
        self.iterator = None;",
        replace: "    pub(super) fn close(&mut self) {
        self.iterator = None;
        self.start = StartAt::Latest;",
    },
    Bug {
        name: "an iterator is opened at the record instead of behind it",
        file: CURSOR,
        find: "self.start = StartAt::After(last.sequence.clone());",
        replace: "self.start = StartAt::At(last.sequence.clone());",
    },
    Bug {
        name: "a shard ends before the rows of its children are made",
        file: WRITE,
        find: "if grip.children.is_empty() { Admission::Write } else { Admission::Wait }",
        replace: "Admission::Write",
    },
    Bug {
        name: "a failure counts as success",
        file: TRACKER,
        find: "EventProcessed::Failed { reason } => self.fail(id, attempt, FailureCause::Reported(reason)),",
        replace: "EventProcessed::Failed { .. } => self.settle(id),",
    },
    Bug {
        name: "an event without an answer in time is forgotten",
        file: SILENCE,
        find: "self.tracker.fail(sent.id, sent.attempt, FailureCause::TimedOut(timeout));",
        replace: "",
    },
    Bug {
        name: "the window has no end",
        file: WORKER,
        find: "if in_flight >= window || !self.equipment.share.has_room() {",
        replace: "if in_flight >= window.max(100_000) {",
    },
    Bug {
        name: "an event waits for none of its key",
        file: LANES,
        find: "if before.is_none() {",
        replace: "if before.is_none_or(|before| before != id) {",
    },
    Bug {
        name: "an event that failed lets the next of its key go before it",
        file: TRACKER,
        find: "        if let Some(id) = self.again.pop_first() {",
        replace: "        if let Some(next) = self.again.first().and_then(|id| self.get(*id)?.next) {
            return self.deliver(next);
        }
        if let Some(id) = self.again.pop_first() {",
    },
    Bug {
        name: "a shard is forgotten when its processor panics",
        file: SILENCE,
        find: "            self.processor = None;
            self.get_processor(ctx);",
        replace: "            self.processor = None;",
    },
    Bug {
        name: "what another process holds under the same name is taken",
        file: TAKE,
        find: "token.starts_with(&self.token)",
        replace: "token.starts_with(self.settings.worker.as_str())",
    },
    Bug {
        name: "a start at LATEST is not remembered",
        file: CURSOR,
        find: "Checkpoint::Latest => latest_since.map_or(StartAt::Latest, StartAt::Timestamp),",
        replace: "Checkpoint::Latest => latest_since.map_or(StartAt::Latest, |_| StartAt::Latest),",
    },
    Bug {
        name: "a checkpoint that fails is not tried again",
        file: CHECKPOINT,
        find: "                    Err(NotStored::OutOfTime) => sleep(backoff.next_pause()).await,
                }
            }
            sleep(self.conf.interval).await;",
        replace: "                    Err(NotStored::OutOfTime) => return sleep(backoff.next_pause()).await,
                }
            }
            sleep(self.conf.interval).await;",
    },
    Bug {
        name: "all readers of a shard have one fencing token",
        file: SHARD,
        find: "FencingToken { lease_counter: lease.counter, owner_switches: lease.owner_switches };",
        replace: "FencingToken { lease_counter: 1, owner_switches: lease.owner_switches };",
    },
    Bug {
        name: "a renewal counts as ours when another one has taken the lease",
        file: GRIP,
        find: "Some(LeaseChange::Renew) => is_ours && has_moved,",
        replace: "Some(LeaseChange::Renew) => has_moved,",
    },
    Bug {
        name: "a lease counts as ours for a moment longer than others wait",
        file: GRIP,
        find: "self.valid_from + failover - failover / 10",
        replace: "self.valid_from + failover + failover / 5",
    },
    Bug {
        name: "a parent without a row is taken for gone",
        file: LINEAGE,
        find: "                || is_passed(parent, rows, list)",
        replace: "                || true",
    },
    Bug {
        name: "the child of a merge waits for one parent only",
        file: LINEAGE,
        find: "    parents.into_iter().all(|parent| match rows.get(parent) {",
        replace: "    let is_root = parents.is_empty();
    is_root || parents.into_iter().any(|parent| match rows.get(parent) {",
    },
    Bug {
        name: "what was under way when its processor died counts as done",
        file: SILENCE,
        find: "if self.tracker.fail(id, attempt, FailureCause::NoAnswer) != Verdict::Late {",
        replace: "if self.tracker.answer(id, attempt, crate::consumer::EventProcessed::Processed) != Verdict::Late {",
    },
    Bug {
        name: "children of a stream read from LATEST are read from there, too",
        file: LINEAGE,
        find: "_ => Checkpoint::TrimHorizon,
    }",
        replace: "_ => initial.clone(),
    }",
    },
    Bug {
        name: "events are given up where nothing may be",
        file: TRACKER,
        find: "(percentage * size as f64 / 100.0 + 1e-6).floor() as usize",
        replace: "(percentage * size as f64 / 100.0 + 1.0).floor() as usize",
    },
    Bug {
        name: "pages are fetched without room for them",
        file: WORKER,
        find: "let room = if free >= share / 8 { free } else { 0 };",
        replace: "let room = share.max(free);",
    },
    Bug {
        name: "one reply without an iterator ends a closed shard",
        file: ATTEMPT,
        find: "if !is_told && (shard.is_open() || !self.cursor.was_severed()) {",
        replace: "if !is_told && shard.is_open() {",
    },
];
