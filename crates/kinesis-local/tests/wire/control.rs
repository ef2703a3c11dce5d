//! The control endpoint, as a test in another language uses it.

use kinesis_local::LocalAws;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::kinesis_client;
use super::raw::exchange;

async fn control(aws: &LocalAws, method: &str, path: &str, body: &str) -> (u16, Value) {
    let request = format!(
        "{method} /_control/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: \
         {}\r\n\r\n{body}",
        body.len()
    );
    let reply = String::from_utf8(exchange(&aws.kinesis_url(), request.as_bytes()).await.unwrap()).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap())
}

#[tokio::test]
async fn faults_are_added_listed_and_removed() {
    let aws = LocalAws::start().await.unwrap();
    let client = kinesis_client(&aws);
    let faults = r#"[
        {"on": "ListStreams", "times": 1, "do": {"error": {"code": "LimitExceededException", "message": "no"}}},
        {"on": "UpdateItem", "table": "leases", "do": "lose_reply"}
    ]"#;
    assert_eq!(control(&aws, "POST", "faults", faults).await, (200, json!({"ids": [1, 2]})));
    let refused = client.list_streams().send().await.unwrap_err().into_service_error();
    assert!(refused.is_limit_exceeded_exception(), "{refused:?}");
    client.list_streams().send().await.unwrap();

    let (_, one) = control(&aws, "GET", "faults/1", "").await;
    assert_eq!((&one["seen"], &one["fired"]), (&json!(2), &json!(1)));
    assert_eq!(one["fault"]["do"]["error"]["code"], "LimitExceededException");
    assert_eq!(control(&aws, "DELETE", "faults/1", "").await.0, 200);
    assert_eq!(control(&aws, "DELETE", "faults/1", "").await.0, 404);
    let (_, list) = control(&aws, "GET", "faults", "").await;
    assert_eq!(
        list["faults"][0]["fault"],
        json!({"on": "UpdateItem", "table": "leases", "do": "lose_reply"})
    );
    assert_eq!(control(&aws, "DELETE", "faults", "").await.0, 200);
    assert!(aws.faults().list().is_empty());
}

#[tokio::test]
async fn calls_are_counted_by_what_they_are_about_until_a_reset() {
    let aws = LocalAws::builder().stream("flights", 1).start().await.unwrap();
    let client = kinesis_client(&aws);
    for _ in 0..2 {
        client.list_shards().stream_name("flights").send().await.unwrap();
    }
    client.list_streams().send().await.unwrap();
    let (_, calls) = control(&aws, "GET", "calls?on=ListShards&stream=flights", "").await;
    let kind = json!({"service": "kinesis", "operation": "ListShards", "stream": "flights", "calls": 2});
    assert_eq!(calls, json!({"total": 2, "calls": [kind]}));
    assert_eq!(control(&aws, "GET", "calls", "").await.1["total"], 3);

    control(&aws, "POST", "faults", r#"{"do": "hang"}"#).await;
    assert_eq!(control(&aws, "POST", "reset", "").await.0, 200);
    assert_eq!(control(&aws, "GET", "calls", "").await.1["total"], 0);
    assert!(aws.faults().list().is_empty());
    assert_eq!(aws.shards("flights").unwrap().len(), 1);
}

#[tokio::test]
async fn what_is_wrong_is_told() {
    let aws = LocalAws::start().await.unwrap();
    for (method, path, body, status, word) in [
        ("POST", "faults", "{", 400, "column"),
        ("POST", "faults", r#"[{"do": "hang"}, {"does": "hang"}]"#, 400, "does"),
        ("POST", "faults", r#"[{"do": "hang"}, {"on": "GetRecord"}]"#, 400, "fault 2 of 2"),
        (
            "POST",
            "faults",
            r#"{"on": "Scan", "do": {"error": {"code": "a", "status": 99}}}"#,
            400,
            "status is 99",
        ),
        ("GET", "calls?operation=Scan", "", 400, "operation"),
        ("GET", "faults/7", "", 404, "number"),
        ("PUT", "faults", "", 405, "method"),
        ("GET", "nothing", "", 404, "faults, calls"),
    ] {
        let (seen, reply) = control(&aws, method, path, body).await;
        assert_eq!(seen, status, "{method} {path}: {reply}");
        assert!(reply["error"].as_str().unwrap().contains(word), "{reply}");
    }
    assert!(aws.faults().list().is_empty());
}

#[tokio::test]
async fn a_body_that_is_too_long_is_told_as_such() {
    let aws = LocalAws::start().await.unwrap();
    let head =
        format!("POST /_control/faults HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", 17 << 20);
    let mut stream = TcpStream::connect(aws.kinesis_url().strip_prefix("http://").unwrap()).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut reply = vec![0; 400];
    let mut length = 0;
    while !reply[..length].ends_with(b"}\n") {
        length += stream.read(&mut reply[length..]).await.unwrap();
    }
    let reply = String::from_utf8_lossy(&reply[..length]);
    assert!(reply.starts_with("HTTP/1.1 413 ") && reply.contains("16777216 bytes"), "{reply}");
}
