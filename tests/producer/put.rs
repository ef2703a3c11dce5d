//! The examples `put` and `produce`, as processes.

use std::process::{Command, Output, Stdio};

use kinesis_local::LocalAws;
use serde_json::Value;
use tempfile::TempDir;

use crate::example::example;
use crate::support::{STREAM, local_aws, stored};

/// A file with the settings of a producer `orders`.
fn configuration(aws: &LocalAws, stream: &str, settings: &str) -> TempDir {
    let files = tempfile::tempdir().unwrap();
    let (kinesis, dynamodb) = (aws.kinesis_url(), aws.dynamodb_url());
    let text = format!(
        r#"kinesis {{
             application-name = put
             aws {{ region = us-east-1, kinesis-endpoint = "{kinesis}", dynamodb-endpoint = "{dynamodb}" }}
             orders {{ stream-name = {stream}, {settings} }}
           }}"#
    );
    std::fs::write(files.path().join("application.conf"), text).unwrap();
    files
}

/// Runs `put` with these lines on stdin and these settings of the producer.
async fn put(aws: &LocalAws, lines: impl Into<Vec<u8>>, settings: &str) -> (Output, Vec<Value>) {
    let lines = lines.into();
    let files = configuration(aws, STREAM, settings);
    let mut command = Command::new(example("put", &[]));
    command.arg("--config").arg(files.path().join("application.conf")).args(["--producer", "orders"]);
    command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = tokio::task::spawn_blocking(move || {
        let child = command.spawn().unwrap();
        crate::child::output(child, lines, "put")
    });
    let output = run.await.unwrap();
    let lines = String::from_utf8(output.stdout.clone()).unwrap();
    let mut lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.sort_by_key(|line| line["message_id"].as_u64());
    (output, lines)
}

#[actix::test]
async fn each_line_has_one_outcome_and_tells_where_its_event_is() {
    let aws = local_aws(2).await;
    let lines: String = (0..1_000).map(|number| format!("key-{}\t{number}\n", number % 50)).collect();
    let (output, lines) = put(&aws, lines, "ordering = partition-key").await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8(output.stderr).unwrap().contains("1000 read, 1000 sent, 0 failed"));
    let stored = stored(&aws, STREAM);
    assert_eq!((stored.len(), lines.len()), (1_000, 1_000));
    for (number, line) in lines.iter().enumerate() {
        assert_eq!(
            (&line["message_id"], &line["ok"], &line["attempts"]),
            (&number.into(), &true.into(), &1.into())
        );
        let found = stored.iter().find(|it| it.payload == number.to_string()).unwrap();
        assert_eq!(line["shard"], found.shard.as_str());
        assert_eq!(line["seq"], found.sequence);
        assert_eq!(line["sub"], found.sub_sequence.map_or(Value::Null, Value::from));
    }
}

#[actix::test]
async fn a_line_that_cannot_be_sent_is_told_and_the_exit_code_says_so() {
    let aws = local_aws(2).await;
    let lines = b"no tab\na\tx\t-1\na\t\xff\t0\n\tx\na\tx\t0\ty\n\xff\tx\n";
    let (output, lines) = put(&aws, lines, "").await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let ok: Vec<_> = lines.iter().map(|line| line["ok"].as_bool().unwrap()).collect();
    assert_eq!(ok, [false, false, true, false, false, false]);
    for (line, cause) in
        [(0, "no tab"), (1, "no hash key"), (3, "0 characters"), (4, "three columns"), (5, "key is no UTF-8")]
    {
        assert!(lines[line]["error"].as_str().unwrap().contains(cause), "{}", lines[line]);
    }
    assert_eq!(stored(&aws, STREAM).len(), 1);
    let (output, _) = put(&aws, String::new(), "rate-limit = 0").await;
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("kinesis.orders.rate-limit"));
}

/// Runs `produce`, whose output nobody reads if it is `unread`.
async fn produce(aws: &LocalAws, stream: &str, unread: bool) -> Output {
    let files = configuration(aws, stream, "record-ttl = 1s");
    let mut command = Command::new(example("produce", &[]));
    command.arg(files.path().join("application.conf")).arg("orders");
    command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().unwrap();
        if unread {
            drop(child.stdout.take());
        }
        crate::child::output(child, Vec::new(), "produce")
    });
    run.await.unwrap()
}

#[actix::test]
async fn the_exit_code_of_produce_tells_whether_all_was_sent_and_told() {
    let aws = local_aws(1).await;
    let output = produce(&aws, "missing", false).await;
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("100 events were not sent"), "{errors}");
    let output = produce(&aws, STREAM, true).await;
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(!errors.contains("panicked"), "{errors}");
}
