//! The lines of a run: two probes, one of which is killed under load, and the outcomes of what `put` sends.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use actix_kinesis_test::check::{Event, Line};
use kinesis_local::LocalAws;
use kinesis_record::Position;
use tempfile::TempDir;
use tokio::time::sleep;

use crate::example::example;
use crate::process::{Probe, STREAM};

pub(crate) const PUT: &str = "put.jsonl";
pub(crate) const KILLED: &str = "worker-1.jsonl";
pub(crate) const SURVIVOR: &str = "worker-2.jsonl";

const KEYS: usize = 20;
const PATIENCE: Duration = Duration::from_secs(60);

/// Files of lines.
#[derive(Debug, Clone)]
pub(crate) struct Recording([(&'static str, Vec<String>); 3]);

impl Recording {
    /// Both processes read, a shard is split, and the first process is killed; the second reads on until all is done.
    pub(crate) async fn of_a_run() -> Self {
        let files = tempfile::tempdir().unwrap();
        let [put, killed, survivor] = [PUT, KILLED, SURVIVOR].map(|name| files.path().join(name));
        let aws = LocalAws::builder().stream(STREAM, 2).start().await.unwrap();
        let mut sender = Sender::start(&aws, &put);
        let (first, reads) = (Probe::recorded(&aws, &killed), |file: &Path| !delivered(file).is_empty());
        sender.keep_sending("the first delivers", || reads(&killed)).await;
        let second = Probe::recorded(&aws, &survivor);
        sender.keep_sending("both deliver", || reads(&survivor)).await;
        aws.split(STREAM, "shardId-000000000000").unwrap();
        let has_children =
            |file: &Path| shards(file).iter().any(|shard| shard > &"shardId-000000000001".to_owned());
        sender.keep_sending("a child is read", || has_children(&killed) || has_children(&survivor)).await;
        let before = delivered(&survivor).len();
        let more = delivered(&killed).len() + 100;
        sender.keep_sending("the first delivers more", || delivered(&killed).len() >= more).await;
        first.kill();
        sender.keep_sending("the second delivers more", || delivered(&survivor).len() >= before + 500).await;
        sender.finish();
        let stored = places(&put, |event| matches!(event, Event::Put { .. }));
        let is_done = || stored.is_subset(&answered(&killed).union(&answered(&survivor)).cloned().collect());
        until("all is done", is_done).await;
        assert_eq!(second.terminate(), 0);
        Self([PUT, KILLED, SURVIVOR].map(|name| {
            let text = fs::read_to_string(files.path().join(name)).unwrap();
            (name, text.lines().map(str::to_owned).collect())
        }))
    }

    pub(crate) fn lines(&self, name: &str) -> &[String] {
        &self.0.iter().find(|(known, _)| *known == name).unwrap().1
    }

    pub(crate) fn change(&mut self, name: &str) -> &mut Vec<String> {
        &mut self.0.iter_mut().find(|(known, _)| *known == name).unwrap().1
    }

    /// What a file tells, line by line.
    pub(crate) fn events(&self, name: &str) -> Vec<Event> {
        // The last line of a process that was killed may be cut off.
        let event = |line: &String| Line::parse(line).map_or(Event::Other, |line| line.event);
        self.lines(name).iter().map(event).collect()
    }

    /// The exit code of `check`, and what it has found.
    pub(crate) fn check(&self) -> (i32, String) {
        let files = tempfile::tempdir().unwrap();
        for (name, lines) in &self.0 {
            fs::write(files.path().join(name), lines.join("\n") + "\n").unwrap();
        }
        let output = Command::new(example("check", &[]))
            .args(["--window-ms", "5000", "--gives-up-nothing", KILLED, SURVIVOR, PUT])
            .current_dir(files.path())
            .output()
            .unwrap();
        let problems = String::from_utf8(output.stderr).unwrap();
        (output.status.code().expect(&problems), String::from_utf8(output.stdout).unwrap())
    }
}

/// The example `put`.
struct Sender {
    child: Child,
    input: ChildStdin,
    put: PathBuf,
    sent: usize,
    _files: TempDir,
}

impl Sender {
    fn start(aws: &LocalAws, put: &Path) -> Self {
        let files = tempfile::tempdir().unwrap();
        let config = files.path().join("application.conf");
        let (kinesis, dynamodb) = (aws.kinesis_url(), aws.dynamodb_url());
        let text = format!(
            r#"kinesis {{
                 application-name = put
                 aws {{ region = us-east-1, kinesis-endpoint = "{kinesis}", dynamodb-endpoint = "{dynamodb}" }}
                 orders {{ stream-name = {STREAM}, ordering = partition-key, record-max-buffered-time = 20ms }}
               }}"#
        );
        fs::write(&config, text).unwrap();
        let mut child = Command::new(example("put", &[]))
            .arg("--config")
            .arg(&config)
            .args(["--producer", "orders"])
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .stdin(Stdio::piped())
            .stdout(File::create(put).unwrap())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        Self { child, input, put: put.to_owned(), sent: 0, _files: files }
    }

    /// Sends events, some of each key, no faster than they are stored, until it is so.
    async fn keep_sending(&mut self, what: &str, is_so: impl Fn() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed() < PATIENCE, "waited in vain until {what}");
            for _ in 0..2 * KEYS {
                writeln!(self.input, "key-{}\t{}", self.sent % KEYS, self.sent).unwrap();
                self.sent += 1;
            }
            let (put, sent) = (&self.put, self.sent);
            until("events are stored", || lines(put).len() + 4 * KEYS > sent).await;
        }
    }

    /// Waits until all are stored.
    fn finish(mut self) {
        drop(self.input);
        assert!(self.child.wait().unwrap().success());
    }
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain until {what}");
        sleep(Duration::from_millis(50)).await;
    }
}

fn lines(file: &Path) -> Vec<Line> {
    let text = fs::read_to_string(file).unwrap();
    text.lines().filter_map(|line| Line::parse(line).ok()).collect()
}

/// The events that such lines are about.
fn places(file: &Path, is_meant: impl Fn(&Event) -> bool) -> BTreeSet<(String, Position)> {
    let events = lines(file).into_iter().map(|line| line.event).filter(is_meant);
    events.filter_map(|event| Some((event.shard()?.to_owned(), event.position()?))).collect()
}

fn delivered(file: &Path) -> BTreeSet<(String, Position)> {
    places(file, |event| matches!(event, Event::Delivery { .. }))
}

fn answered(file: &Path) -> BTreeSet<(String, Position)> {
    places(file, |event| matches!(event, Event::Answer { done: true, .. }))
}

fn shards(file: &Path) -> BTreeSet<String> {
    delivered(file).into_iter().map(|(shard, _)| shard).collect()
}
