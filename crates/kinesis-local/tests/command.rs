//! The program as a person starts it.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kinesis-local"));
    command.args(arguments).env_remove("RUST_LOG");
    command
}

fn refused(arguments: &[&str]) -> String {
    let Output { status, stderr, .. } = command(arguments).output().unwrap();
    assert!(!status.success());
    String::from_utf8(stderr).unwrap()
}

/// A running program and the lines with which it introduces itself.
fn started(arguments: &[&str]) -> (Child, Vec<String>) {
    let mut child = command(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = introduction(&mut child);
    (child, lines)
}

fn introduction(child: &mut Child) -> Vec<String> {
    let mut lines = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        lines.push(line.unwrap());
        if lines.last().is_some_and(|line| line.starts_with("AWS CLI:")) {
            break;
        }
    }
    lines
}

#[cfg(unix)]
#[test]
fn it_says_how_to_reach_it_and_stops_when_told() {
    let (mut child, lines) = started(&["--stream", "flights:4", "--stream", "trains:1"]);
    let [kinesis, dynamodb, flights, trains, sdk, cli] = &lines[..] else { panic!("{lines:?}") };
    let (kinesis, dynamodb) = (&kinesis[10..], &dynamodb[10..]);
    assert_eq!(flights, "Stream:   flights with 4 shards");
    assert_eq!(trains, "Stream:   trains with 1 shard");
    assert!(
        sdk.contains(&format!("AWS_ENDPOINT_URL_KINESIS={kinesis} AWS_ENDPOINT_URL_DYNAMODB={dynamodb} "))
    );
    assert!(cli.contains(kinesis));
    let address = |url: &str| url.strip_prefix("http://").unwrap().to_owned();
    for url in [kinesis, dynamodb] {
        assert!(TcpStream::connect(address(url)).is_ok());
    }
    let told = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(told.success());
    assert!(child.wait().unwrap().success());
    assert!(TcpStream::connect(address(kinesis)).is_err());
}

#[test]
fn a_taken_port_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for option in ["--kinesis-port", "--dynamodb-port"] {
        let said = refused(&[option, &port]);
        assert!(said.contains(&format!("port {port} for")) && said.contains("taken"), "{said}");
    }
}

#[test]
fn a_stream_that_cannot_be_is_refused_with_the_reason() {
    for (argument, reason) in [
        ("flights", "NAME:SHARDS"),
        ("flights:0", "from 1 to 10000"),
        ("flights:many", "from 1 to 10000"),
        ("fli ghts:1", "regular expression"),
        (":1", "streamName"),
    ] {
        let said = refused(&["--stream", argument]);
        assert!(said.contains(reason), "{argument}: {said}");
    }
    let said = refused(&["--stream", "flights:1", "--stream", "flights:2"]);
    assert!(said.contains("flights") && said.contains("already exists"), "{said}");
}

#[test]
fn faults_come_from_a_file_and_the_certificate_goes_to_one() {
    let directory = tempfile::tempdir().unwrap();
    let (faults, certificate) = (directory.path().join("faults.json"), directory.path().join("local.pem"));
    std::fs::write(&faults, r#"[{"on": "ListStreams", "do": {"error": "LimitExceededException"}}]"#).unwrap();
    let file = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let arguments = ["--faults", &file(&faults), "--tls-port", "0", "--tls-cert-out", &file(&certificate)];
    let (mut child, lines) = started(&arguments);
    assert!(lines.iter().any(|line| line.starts_with("TLS:      https://localhost:")), "{lines:?}");
    assert!(std::fs::read_to_string(certificate).unwrap().starts_with("-----BEGIN CERTIFICATE-----"));
    let address = lines[0].split("http://").nth(1).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /_control/faults HTTP/1.0\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.contains("LimitExceededException"), "{reply}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn what_is_wrong_with_a_file_of_faults_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("faults.json");
    std::fs::write(&path, r#"{"on": "ListStreams", "do": "explode"}"#).unwrap();
    let said = refused(&["--faults", path.to_str().unwrap()]);
    assert!(said.contains("faults.json") && said.contains("explode"), "{said}");
    let said = refused(&["--faults", directory.path().join("none").to_str().unwrap()]);
    assert!(said.contains("cannot read"), "{said}");
}

#[test]
fn what_is_in_the_directory_outlives_a_killed_process() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--data", directory.path().to_str().unwrap(), "--stream", "flights:2"];
    for _ in 0..2 {
        let (mut child, _) = started(&arguments);
        let taken = refused(&arguments);
        assert!(taken.contains("another process"), "{taken}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn a_kept_stream_is_told_with_the_shards_that_it_has() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let data = directory.path().join("data");
    for (stream, told) in [("flights:2", "flights with 2 shards"), ("flights:9", "flights with 2 shards")] {
        let mut child = command(&["--data", data.to_str().unwrap(), "--stream", stream])
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let lines = introduction(&mut child);
        assert!(lines.iter().any(|line| line.ends_with(told)), "{stream}: {lines:?}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("flights stays as it is in the directory, with 2 open shards and not 9"), "{log}");
}

#[test]
fn payloads_are_not_logged_whatever_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let mut child = command(&[])
        .env("RUST_LOG", "trace,dynoxide::server=trace")
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let lines = introduction(&mut child);
    let address = lines[1].split("http://").nth(1).unwrap();
    let body = r#"{"TableName": "leases", "Key": {"leaseKey": {"S": "whisper"}}}"#;
    let head = format!(
        "POST / HTTP/1.0\r\nX-Amz-Target: DynamoDB_20120810.GetItem\r\nX-Amz-Date: today\r\nAuthorization: \
         AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=c, Signature=d\r\nContent-Type: \
         application/x-amz-json-1.0\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.contains("ResourceNotFoundException"), "{reply}");
    child.kill().unwrap();
    child.wait().unwrap();
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("TRACE") && log.contains("dynoxide") && !log.contains("whisper"), "{log}");
}

/// Puts so many records of 600 kB into the stream `flights`, in one call.
fn put(address: &str, records: usize) -> String {
    let record = format!(r#"{{"PartitionKey": "a", "Data": "{}"}}"#, "AAAA".repeat(200_000));
    let body = format!(r#"{{"StreamName": "flights", "Records": [{}]}}"#, vec![record; records].join(", "));
    let head = format!(
        "POST / HTTP/1.0\r\nX-Amz-Target: Kinesis_20131202.PutRecords\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

#[test]
fn the_limits_of_the_service_are_kept_when_asked_for() {
    for (arguments, refused) in
        [(&["--stream", "flights:1", "--limits"][..], 1), (&["--stream", "flights:1"], 0)]
    {
        let (mut child, lines) = started(arguments);
        let reply = put(lines[0].split("http://").nth(1).unwrap(), 2);
        child.kill().unwrap();
        child.wait().unwrap();
        let told = reply.matches("ProvisionedThroughputExceededException").count();
        assert_eq!(told, refused, "1.2 MB are more than a shard takes in a second: {reply}");
    }
}

#[test]
fn a_full_memory_is_told_once() {
    let mut child = command(&["--stream", "flights:1", "--max-memory", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = lines.next().unwrap().unwrap().split("http://").nth(1).unwrap().to_owned();
    for _ in 0..10 {
        let reply = put(&address, 1);
        assert!(reply.contains("SequenceNumber"), "{reply}");
    }
    child.kill().unwrap();
    let Output { stderr, .. } = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!(stderr.matches("memory is full").count(), 1, "{stderr}");
}
