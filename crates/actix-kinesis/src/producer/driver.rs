//! The task of a producer: moves records, calls and replies between the pipelines and the world.

use std::collections::{BTreeMap, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use kinesis_lease::put::PutReply;
use kinesis_lease::{PutApi, StreamError, StreamErrorKind};
use kinesis_record::Shard;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use super::outcome::Flushed;
use super::pipeline::{Action, GRACE, Pipeline};
use super::record::Record;
use super::status::{ProducedStream, ProducerStatus};
use crate::config::ProducerConf;

/// Commands that are taken up in one go.
const TAKEN: usize = 1_024;
/// A list is given up after the time of so many calls: each of its pages is one.
const PAGES: u32 = 1_000;
/// How often the status is brought up to date while something is under way.
const STATUS_INTERVAL: Duration = Duration::from_millis(250);
/// Idle pipelines are forgotten beyond this many.
const MAX_IDLE_STREAMS: usize = 100;

/// What the handles of a producer ask of its task.
#[derive(Debug)]
pub(crate) enum Command {
    /// Send a record.
    Put(Box<Record>),
    /// Send all that is here, and report when the outcomes are known: each pipeline once.
    Flush(mpsc::UnboundedSender<Flushed>),
    /// Do so until the deadline, give up the rest, and end.
    Stop { deadline: Instant, done: oneshot::Sender<Flushed> },
}

/// What the task shows of itself.
pub(crate) type Board = Arc<Mutex<ProducerStatus>>;

enum Done {
    Listed(Result<Vec<Shard>, StreamError>),
    Replied(u64, Result<Vec<PutReply>, StreamError>),
}

/// The task of a producer.
pub(crate) struct Driver {
    conf: Arc<ProducerConf>,
    stream: Arc<str>,
    api: Arc<dyn PutApi>,
    commands: mpsc::UnboundedReceiver<Command>,
    pipelines: BTreeMap<Arc<str>, Pipeline>,
    calls: JoinSet<Done>,
    /// The stream of each call, and which of its calls to put records it is, if any: a call has an end whatever becomes
    /// of its task.
    asked: HashMap<Id, (Arc<str>, Option<u64>)>,
    random: fastrand::Rng,
    stop: Option<Stop>,
    /// What became of records in pipelines that are forgotten.
    forgotten: Flushed,
    board: Board,
    shown: Option<Instant>,
}

struct Stop {
    deadline: Instant,
    before: Flushed,
    done: Vec<oneshot::Sender<Flushed>>,
}

impl Driver {
    pub(crate) fn new(
        conf: Arc<ProducerConf>,
        api: Arc<dyn PutApi>,
        commands: mpsc::UnboundedReceiver<Command>,
        random: fastrand::Rng,
        board: Board,
    ) -> Self {
        Self {
            stream: conf.stream_name.as_str().into(),
            conf,
            api,
            commands,
            pipelines: BTreeMap::new(),
            calls: JoinSet::new(),
            asked: HashMap::new(),
            random,
            stop: None,
            forgotten: Flushed::default(),
            board,
            shown: None,
        }
    }

    /// Runs until the producer is stopped, or all its handles and events are gone.
    pub(crate) async fn run(mut self) {
        let mut taken = Vec::with_capacity(TAKEN);
        let mut is_open = true;
        loop {
            let wake = self.step(Instant::now());
            let is_idle = self.is_idle();
            if (self.stop.is_some() || !is_open) && is_idle {
                break;
            }
            if self.stop.as_ref().is_some_and(|stop| stop.deadline <= Instant::now()) {
                let now = Instant::now();
                self.pipelines.values_mut().for_each(|pipeline| pipeline.abandon(now));
                break;
            }
            let alarm = async {
                match wake {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                count = self.commands.recv_many(&mut taken, TAKEN), if is_open => {
                    is_open = count > 0;
                    let now = Instant::now();
                    taken.drain(..).for_each(|command| self.take(command, now));
                }
                Some(done) = self.calls.join_next_with_id(), if !self.calls.is_empty() => {
                    let now = Instant::now();
                    self.done(done, now);
                    while let Some(done) = self.calls.try_join_next_with_id() {
                        self.done(done, now);
                    }
                }
                () = alarm => {}
            }
        }
        self.show(Instant::now());
        let flushed = self.totals();
        if let Some(stop) = self.stop.take() {
            let since = Flushed {
                sent: flushed.sent - stop.before.sent,
                failed: flushed.failed - stop.before.failed,
            };
            for done in stop.done {
                // Whoever asked may have gone.
                let _ = done.send(since);
            }
        }
    }

    fn take(&mut self, command: Command, now: Instant) {
        match command {
            Command::Put(record) => {
                let stream = record.event().and_then(|event| event.stream.clone());
                let stream = stream.unwrap_or_else(|| Arc::clone(&self.stream));
                self.pipeline(stream, now).accept(*record, now);
            }
            Command::Flush(done) => {
                self.pipelines.values_mut().for_each(|pipeline| pipeline.flush(done.clone()));
            }
            Command::Stop { deadline, done } => match &mut self.stop {
                Some(stop) => {
                    stop.deadline = stop.deadline.min(deadline);
                    stop.done.push(done);
                }
                None => {
                    let before = self.totals();
                    self.stop = Some(Stop { deadline, before, done: vec![done] });
                    // Nobody reads what is reported: it makes everything due.
                    let (ignored, _) = mpsc::unbounded_channel();
                    self.pipelines.values_mut().for_each(|pipeline| pipeline.flush(ignored.clone()));
                }
            },
        }
    }

    fn pipeline(&mut self, stream: Arc<str>, now: Instant) -> &mut Pipeline {
        if self.pipelines.len() >= MAX_IDLE_STREAMS && !self.pipelines.contains_key(&stream) {
            let is_idle = |pipeline: &Pipeline| pipeline.outstanding() == 0;
            for (_, pipeline) in self.pipelines.iter().filter(|(_, pipeline)| is_idle(pipeline)) {
                self.forgotten += pipeline.totals();
            }
            self.pipelines.retain(|_, pipeline| !is_idle(pipeline));
        }
        let (conf, random) = (&self.conf, &mut self.random);
        self.pipelines.entry(stream).or_insert_with(|| Pipeline::new(Arc::clone(conf), now, random.fork()))
    }

    fn done(&mut self, done: Result<(Id, Done), JoinError>, now: Instant) {
        let id = match &done {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let Some((stream, call)) = self.asked.remove(&id) else { return };
        // A list of shards may outlast the pipeline that asked for it.
        let Some(pipeline) = self.pipelines.get_mut(&stream) else { return };
        match done {
            Ok((_, Done::Listed(reply))) => pipeline.listed(reply, now),
            Ok((_, Done::Replied(call, reply))) => pipeline.replied(call, reply, now),
            Err(error) => {
                // What a call panics with is caught, but not what it does when it is dropped.
                tracing::error!(%error, %stream, "the client of Kinesis panicked");
                let error =
                    unavailable("the client of Kinesis panicked when its call was given up".to_owned());
                match call {
                    Some(call) => pipeline.replied(call, Err(error), now),
                    None => pipeline.listed(Err(error), now),
                }
            }
        }
    }

    /// Lets the pipelines do what is due. Returns when to do so again.
    fn step(&mut self, now: Instant) -> Option<Instant> {
        let mut wake = self.stop.as_ref().map(|stop| stop.deadline);
        for (stream, pipeline) in &mut self.pipelines {
            for action in pipeline.poll(now) {
                let (api, name) = (Arc::clone(&self.api), Arc::clone(stream));
                let limit = self.conf.request_timeout + GRACE;
                let (task, call) = match action {
                    Action::List => {
                        let list = async move { api.list_shards(&name).await };
                        let list = bounded(limit.saturating_mul(PAGES), list);
                        (self.calls.spawn(async move { Done::Listed(list.await) }), None)
                    }
                    Action::Put { call, records } => {
                        let put = bounded(limit, async move { api.put_records(&name, records).await });
                        (self.calls.spawn(async move { Done::Replied(call, put.await) }), Some(call))
                    }
                };
                self.asked.insert(task.id(), (Arc::clone(stream), call));
            }
            wake = [wake, pipeline.wake_at()].into_iter().flatten().min();
        }
        let is_old = self.shown.is_none_or(|shown| now >= shown + STATUS_INTERVAL);
        if is_old || self.is_idle() {
            self.show(now);
        }
        wake
    }

    fn is_idle(&self) -> bool {
        self.pipelines.values().all(|pipeline| pipeline.outstanding() == 0)
    }

    fn totals(&self) -> Flushed {
        let mut totals = self.forgotten;
        self.pipelines.values().for_each(|pipeline| totals += pipeline.totals());
        totals
    }

    fn show(&mut self, now: Instant) {
        self.shown = Some(now);
        let totals = self.totals();
        let streams: Vec<ProducedStream> =
            self.pipelines.iter().map(|(stream, pipeline)| pipeline.status(stream)).collect();
        let mut board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        (board.sent, board.failed, board.streams) = (totals.sent, totals.failed, streams);
    }
}

/// A call that ends in time and does not panic.
async fn bounded<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, StreamError>>,
) -> Result<T, StreamError> {
    match timeout(limit, AssertUnwindSafe(call).catch_unwind()).await {
        Ok(Ok(reply)) => reply,
        Ok(Err(_)) => Err(unavailable("the client of Kinesis panicked".to_owned())),
        Err(_) => Err(unavailable(format!("no reply within {limit:?}"))),
    }
}

fn unavailable(message: String) -> StreamError {
    StreamError { kind: StreamErrorKind::Unavailable, message }
}
