//! The probe as a child process.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use actix_kinesis::SharedCredentialsProvider;
use aws_credential_types::Credentials;
use aws_sdk_dynamodb::config::{BehaviorVersion, Region};
use aws_sdk_dynamodb::types::AttributeValue;
use kinesis_local::LocalAws;
use kinesis_record::{Checkpoint, Position};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::child::{self, Patience};
use crate::example::example;

pub(crate) const STREAM: &str = "orders";
const TABLE: &str = "probe-orders";

/// The probe tells payloads by their hash; the tests put numbers.
static NUMBERS: LazyLock<HashMap<String, usize>> = LazyLock::new(|| {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    (0..1_000).map(|number: usize| (hex(&Sha256::digest(number.to_string())), number)).collect()
});

/// A delivery as the probe told of it.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) shard: String,
    pub(crate) position: Position,
    pub(crate) key: String,
    pub(crate) number: usize,
}

/// A running probe. It is killed when it is dropped.
pub(crate) struct Probe {
    child: Child,
    lines: Receiver<String>,
    _files: TempDir,
}

impl Probe {
    pub(crate) fn start(aws: &LocalAws, policy: &str) -> Self {
        Self::start_with(aws, policy, "")
    }

    /// Starts a probe under a policy, with more said about its consumer.
    pub(crate) fn start_with(aws: &LocalAws, policy: &str, more: &str) -> Self {
        let (mut command, files) = command(aws, policy, more);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines, _files: files }
    }

    /// Starts a probe whose lines go to a file.
    pub(crate) fn recorded(aws: &LocalAws, file: &Path) -> Self {
        let (mut command, files) = command(aws, "", "");
        let child = command.stdout(File::create(file).unwrap()).spawn().unwrap();
        let (_, lines) = channel();
        Self { child, lines, _files: files }
    }

    /// What it has delivered since the last call; waits for the first for so long.
    pub(crate) fn deliveries(&mut self, wait: Duration) -> Vec<Delivery> {
        let first = self.lines.recv_timeout(wait).ok();
        let lines: Vec<String> = first.into_iter().chain(self.lines.try_iter()).collect();
        lines.iter().filter_map(|line| delivery(&serde_json::from_str(line).unwrap())).collect()
    }

    /// Waits until it delivers something.
    pub(crate) fn first_delivery(&mut self) {
        let patience = Patience::until("a delivery");
        while self.deliveries(Duration::from_millis(20)).is_empty() {
            patience.check();
        }
    }

    /// Ends it as `kill -9` does. Returns what it has delivered since the last look.
    pub(crate) fn kill(mut self) -> Vec<Delivery> {
        self.child.kill().unwrap();
        self.lines.iter().filter_map(|line| delivery(&serde_json::from_str(&line).ok()?)).collect()
    }

    /// Asks it to stop, and returns its exit code.
    pub(crate) fn terminate(mut self) -> i32 {
        let killed = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        self.wait_for_end()
    }

    /// Waits until it ends by itself, and returns its exit code.
    pub(crate) fn wait(mut self) -> i32 {
        self.wait_for_end()
    }

    fn wait_for_end(&mut self) -> i32 {
        child::wait(&mut self.child, "the probe").code().unwrap()
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A probe to be started, and what it needs as long as it runs.
fn command(aws: &LocalAws, policy: &str, more: &str) -> (Command, TempDir) {
    let files = tempfile::tempdir().unwrap();
    let config = files.path().join("application.conf");
    let text = format!(
        r#"
        kinesis {{
          application-name = probe
          aws {{ region = us-east-1, kinesis-endpoint = "{}", dynamodb-endpoint = "{}" }}
          orders {{
            stream-name = {STREAM}
            lease {{ failover-time = 1s }}
            checkpointer {{ interval = 50ms }}
            polling {{ idle-time = 200ms }}
            worker {{ batch-timeout = 1s, shutdown-timeout = 4s, graceful-shutdown-hook = true }}
            {more}
          }}
        }}"#,
        aws.kinesis_url(),
        aws.dynamodb_url()
    );
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new(example("probe", &[]));
    command.arg("--config").arg(&config).args(["--consumer", "orders"]);
    if !policy.is_empty() {
        let file = files.path().join("policy.json");
        std::fs::write(&file, policy).unwrap();
        command.arg("--policy").arg(file);
    }
    command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
    (command, files)
}

fn delivery(line: &Value) -> Option<Delivery> {
    if line["event"] != "delivery" {
        return None;
    }
    let text = |name: &str| line[name].as_str().unwrap().to_owned();
    let position = Position::new(text("seq").parse().unwrap(), line["sub"].as_i64().unwrap());
    let number = *NUMBERS.get(line["sha256"].as_str().unwrap()).expect("a payload that was put");
    Some(Delivery { shard: text("shard"), position, key: text("pk"), number })
}

/// The positions in the lease table, by shard.
pub(crate) async fn checkpoints(aws: &LocalAws) -> BTreeMap<String, Position> {
    let credentials = SharedCredentialsProvider::new(Credentials::new("test", "test", None, None, "test"));
    let conf = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("us-east-1"))
        .credentials_provider(credentials)
        .endpoint_url(aws.dynamodb_url())
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    let scan =
        aws_sdk_dynamodb::Client::from_conf(conf).scan().table_name(TABLE).consistent_read(true).send();
    let rows = scan.await.map(|scanned| scanned.items.unwrap_or_default()).unwrap_or_default();
    let position = |row: &HashMap<String, AttributeValue>| {
        let shard = row["leaseKey"].as_s().unwrap().clone();
        let sub_sequence = row["checkpointSubSequenceNumber"].as_n().unwrap().parse().unwrap();
        match Checkpoint::parse(row["checkpoint"].as_s().unwrap(), sub_sequence).unwrap() {
            Checkpoint::At(position) => Some((shard, position)),
            _ => None,
        }
    };
    rows.iter().filter_map(position).collect()
}
