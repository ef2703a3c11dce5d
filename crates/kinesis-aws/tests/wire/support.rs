//! What the tests share: clients for loopback, and a server with a script.

use std::collections::HashMap;
use std::net::TcpListener as Port;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_dynamodb::types::AttributeValue;
use kinesis_aws::{AwsSettings, Clients, DynamoLeaseStore, KinesisStream};
use kinesis_lease::store::Written;
use kinesis_lease::{LeaseChange, LeaseStore, LeaseWrite};
use kinesis_local::LocalAws;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

pub(crate) const TABLE: &str = "orders-application";
pub(crate) const STREAM: &str = "orders";

pub(crate) type Item = HashMap<String, AttributeValue>;

/// Settings that depend on nothing outside of the test.
pub(crate) fn settings() -> AwsSettings {
    let credentials = Credentials::new("AKIDTEST", "not-a-secret", None, None, "test");
    AwsSettings {
        region: Some("eu-west-1".to_owned()),
        credentials: Some(SharedCredentialsProvider::new(credentials)),
        ..AwsSettings::default()
    }
}

pub(crate) fn settings_for(aws: &LocalAws) -> AwsSettings {
    AwsSettings {
        kinesis_endpoint: Some(aws.kinesis_url()),
        dynamodb_endpoint: Some(aws.dynamodb_url()),
        ..settings()
    }
}

/// A stream at an endpoint whose calls may take `limit`.
pub(crate) async fn stream_at(endpoint: &str, limit: Duration) -> KinesisStream {
    let settings =
        AwsSettings { endpoint_url: Some(endpoint.to_owned()), request_timeout: limit, ..settings() };
    KinesisStream::new(&Clients::connect(&settings).await.unwrap(), "orders")
}

/// A lease table at an endpoint whose calls may take `limit`.
pub(crate) async fn leases_at(endpoint: &str, limit: Duration) -> DynamoLeaseStore {
    let settings = AwsSettings { endpoint_url: Some(endpoint.to_owned()), ..settings() };
    DynamoLeaseStore::new(&Clients::connect(&settings).await.unwrap(), TABLE, STREAM, limit)
}

/// An endpoint at which nobody listens.
pub(crate) fn deserted() -> String {
    format!("http://{}", Port::bind("127.0.0.1:0").unwrap().local_addr().unwrap())
}

/// A new lease table, and the same table as DynamoDB shows it.
pub(crate) struct Leases {
    pub(crate) store: Arc<DynamoLeaseStore>,
    pub(crate) raw: aws_sdk_dynamodb::Client,
    _aws: LocalAws,
}

impl Leases {
    pub(crate) async fn new() -> Self {
        let leases = Self::without_table().await;
        leases.store.ensure().await.unwrap();
        leases
    }

    pub(crate) async fn without_table() -> Self {
        let aws = LocalAws::start().await.unwrap();
        let clients = Clients::connect(&settings_for(&aws)).await.unwrap();
        let store = DynamoLeaseStore::new(&clients, TABLE, STREAM, Duration::from_secs(20));
        Self { store: Arc::new(store), raw: clients.dynamodb().clone(), _aws: aws }
    }

    pub(crate) async fn put(&self, item: &Item) {
        self.raw.put_item().table_name(TABLE).set_item(Some(item.clone())).send().await.unwrap();
    }

    pub(crate) async fn get(&self, shard: &str) -> Option<Item> {
        let request = self.raw.get_item().table_name(TABLE).consistent_read(true);
        let reply = request.key("leaseKey", s(shard)).send().await.unwrap();
        reply.item.map(sorted)
    }

    /// Writes `change` to the row of `shard`, expecting `counter`.
    pub(crate) async fn write(&self, shard: &str, counter: i64, change: LeaseChange) -> Written {
        let write = LeaseWrite { shard: shard.into(), expected_counter: counter, change };
        self.store.write(&write).await.unwrap()
    }
}

pub(crate) fn s(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

pub(crate) fn n(number: &str) -> AttributeValue {
    AttributeValue::N(number.to_owned())
}

pub(crate) fn ss(texts: &[&str]) -> AttributeValue {
    AttributeValue::Ss(texts.iter().map(|&text| text.to_owned()).collect())
}

pub(crate) fn item(attributes: &[(&str, AttributeValue)]) -> Item {
    attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

/// A set has no order; for comparing, it gets one.
pub(crate) fn sorted(mut item: Item) -> Item {
    for value in item.values_mut() {
        if let AttributeValue::Ss(texts) = value {
            texts.sort();
        }
    }
    item
}

/// What a scripted server does with a request.
#[derive(Clone)]
pub(crate) enum Reply {
    /// It answers with this status, and with a request id.
    Answer(u16, String),
    /// It does not answer, and keeps the connection open.
    Silence,
    /// It closes the connection in the middle of the reply.
    Break,
}

impl Reply {
    pub(crate) fn ok(body: &str) -> Self {
        Self::Answer(200, body.to_owned())
    }

    /// An error as both services send it.
    pub(crate) fn error(status: u16, code: &str, message: &str) -> Self {
        let message = message.replace('\n', "\\n");
        Self::Answer(status, format!(r#"{{"__type":"com.amazonaws#{code}","message":"{message}"}}"#))
    }
}

/// A request that a scripted server got.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// The method and the path.
    pub(crate) line: String,
    /// The headers, as they came.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Request {
    /// The operation of both services, such as `GetRecords`.
    pub(crate) fn operation(&self) -> &str {
        let head = self.head.lines().find(|line| line.to_ascii_lowercase().starts_with("x-amz-target:"));
        head.and_then(|line| line.rsplit('.').next()).unwrap_or_default().trim()
    }
}

/// An HTTP server that gives the n-th reply to the n-th request, and the last one from then on.
pub(crate) struct Scripted {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Scripted {
    pub(crate) async fn start(script: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(serve(connection, script.clone(), Arc::clone(&seen)));
            }
        });
        Self { url, requests }
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn operations(&self) -> Vec<String> {
        self.requests().iter().map(|request| request.operation().to_owned()).collect()
    }
}

async fn serve(connection: TcpStream, script: Vec<Reply>, seen: Arc<Mutex<Vec<Request>>>) {
    let mut connection = BufReader::new(connection);
    while let Some(request) = read_request(&mut connection).await {
        let number = {
            let mut seen = seen.lock().unwrap();
            seen.push(request);
            seen.len()
        };
        match &script[number.min(script.len()) - 1] {
            Reply::Answer(status, body) => {
                let head = format!(
                    "HTTP/1.1 {status} x\r\nx-amzn-requestid: request-{number}\r\n\
                     x-aws-ec2-metadata-token-ttl-seconds: 60\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                if connection.get_mut().write_all((head + body).as_bytes()).await.is_err() {
                    return;
                }
            }
            Reply::Silence => std::future::pending().await,
            Reply::Break => {
                let _ =
                    connection.get_mut().write_all(b"HTTP/1.1 200 x\r\ncontent-length: 99\r\n\r\n{").await;
                return;
            }
        }
    }
}

async fn read_request(connection: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if connection.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    let mut body = vec![0; length.unwrap_or(0)];
    connection.read_exact(&mut body).await.ok()?;
    let line = head.lines().next().unwrap_or_default().to_owned();
    Some(Request { line, head, body: String::from_utf8_lossy(&body).into_owned() })
}
