//! The example `outbox` as a child process.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};

use kinesis_local::LocalAws;
use tempfile::TempDir;

use crate::child;
use crate::example::example;
use crate::sender::Sender;

pub(crate) const STREAM: &str = "orders";

/// The configuration and the outbox.
pub(crate) struct Files(TempDir);

impl Files {
    pub(crate) fn new(aws: &LocalAws, aggregation: bool) -> Self {
        let files = tempfile::tempdir().unwrap();
        let text = format!(
            r#"
            kinesis {{
              application-name = outbox
              aws {{ region = us-east-1, kinesis-endpoint = "{}", dynamodb-endpoint = "{}" }}
              orders {{
                stream-name = {STREAM}
                ordering = partition-key
                record-max-buffered-time = 20ms
                request-timeout = 2s
                retry-backoff {{ min = 10ms, max = 100ms }}
                rate-limit = 100000
                aggregation {{ enabled = {aggregation} }}
                outbox {{ path = "{}" }}
              }}
            }}"#,
            aws.kinesis_url(),
            aws.dynamodb_url(),
            files.path().join("outbox").display(),
        );
        std::fs::write(files.path().join("application.conf"), text).unwrap();
        Self(files)
    }
}

/// A running process. It is killed when it is dropped.
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<u64>,
    refusals: Arc<AtomicUsize>,
}

impl Process {
    pub(crate) fn start(files: &Files) -> Self {
        Self::of(Command::new(program()), files)
    }

    /// Starts one that can write no file larger than so many KiB, as on a disk that is full then.
    pub(crate) fn start_on_a_small_disk(files: &Files, kib: usize) -> Self {
        let mut command = Command::new("bash");
        command.args(["-c", &format!("trap '' XFSZ; ulimit -f {kib}; exec \"$0\" \"$@\"")]).arg(program());
        Self::of(command, files)
    }

    fn of(command: Command, files: &Files) -> Self {
        let mut child = with_arguments(command, files).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            // A line that a kill has cut off is no acceptance.
            let whole = stdout.split(b'\n').map_while(Result::ok);
            for line in whole.filter_map(|line| String::from_utf8(line).ok()?.parse().ok()) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let refusals = Arc::new(AtomicUsize::new(0));
        let (stderr, count) = (BufReader::new(child.stderr.take().unwrap()), Arc::clone(&refusals));
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if line.contains("could not be kept") {
                    count.fetch_add(1, Ordering::Relaxed);
                } else {
                    eprintln!("{line}");
                }
            }
        });
        let input = child.stdin.take();
        Self { child, input, lines, refusals }
    }

    /// Writes a line. False if the process takes no more.
    pub(crate) fn write(&mut self, line: &str) -> bool {
        self.input.as_mut().is_some_and(|input| writeln!(input, "{line}").is_ok())
    }

    /// The lines that were accepted since the last look.
    pub(crate) fn accepted(&self) -> impl Iterator<Item = u64> {
        self.lines.try_iter()
    }

    /// How many lines the disk did not take.
    pub(crate) fn refusals(&self) -> usize {
        self.refusals.load(Ordering::Relaxed)
    }

    /// Ends it as `kill -9` does.
    pub(crate) fn kill(mut self, sender: &mut Sender) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.lines.iter().for_each(|line| sender.accept(line));
    }

    /// Lets it send everything, and returns its exit code.
    pub(crate) fn end(mut self, sender: &mut Sender) -> i32 {
        drop(self.input.take());
        let status = child::wait(&mut self.child, "the outbox");
        self.lines.iter().for_each(|line| sender.accept(line));
        status.code().unwrap()
    }

    /// Runs one with this input to its end. Gives its exit code and what it wrote to stdout and stderr.
    pub(crate) fn run(files: &Files, input: &[u8]) -> (i32, String, String) {
        let child = with_arguments(Command::new(program()), files).stderr(Stdio::piped()).spawn().unwrap();
        let output = child::output(child, input.to_vec(), "the outbox");
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program() -> PathBuf {
    example("outbox", &["actix-kinesis/outbox"])
}

fn with_arguments(mut command: Command, files: &Files) -> Command {
    command
        .args(["--producer", "orders", "--config"])
        .arg(files.0.path().join("application.conf"))
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .env("RUST_LOG", "error")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}
