//! DynamoDB behind a listener of ours: dynoxide serves the calls, faults come in between.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::uri::{Authority, Scheme};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use super::body::{self, Body, Cut};
use super::transport::{Connection, Handle};
use super::{Shared, TARGET, fate};
use crate::faults::{After, Call, Plan, Refusal};

pub(crate) const TARGET_PREFIXES: [&str; 2] = ["DynamoDB_20120810.", "DynamoDBStreams_20120810."];
const CRC32: HeaderName = HeaderName::from_static("x-amz-crc32");
const JSON: HeaderValue = HeaderValue::from_static("application/x-amz-json-1.0");

/// The most that DynamoDB takes, of a batch or a transaction.
const MAX_BODY: usize = 16 << 20;

/// The way to dynoxide.
#[derive(Debug, Clone)]
pub(crate) struct DynamoDb {
    shared: Arc<Shared>,
    address: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl DynamoDb {
    /// In front of the dynoxide that listens at `address`.
    pub(crate) fn new(shared: Arc<Shared>, address: SocketAddr) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Self { shared, address, client }
    }

    /// Has dynoxide serve a request.
    async fn pass(&self, mut request: Request<Bytes>) -> Response<Bytes> {
        match self.try_pass(&mut request).await {
            Ok(response) => response,
            Err(error) => {
                tracing::error!(error, "DynamoDB does not answer");
                let body = json!({ "__type": "com.amazonaws.dynamodb.v20120810#InternalServerError" });
                let mut response = Response::new(body.to_string().into());
                *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                response
            }
        }
    }

    async fn try_pass(
        &self,
        request: &mut Request<Bytes>,
    ) -> Result<Response<Bytes>, Box<dyn std::error::Error + Send + Sync>> {
        let mut uri = std::mem::take(request.uri_mut()).into_parts();
        uri.scheme = Some(Scheme::HTTP);
        uri.authority = Some(Authority::try_from(self.address.to_string())?);
        let mut passed = Request::new(Full::new(std::mem::take(request.body_mut())));
        *passed.method_mut() = request.method().clone();
        *passed.uri_mut() = Uri::from_parts(uri)?;
        *passed.headers_mut() = std::mem::take(request.headers_mut());
        leave_out_hop(passed.headers_mut());
        let (mut parts, body) = self.client.request(passed).await?.into_parts();
        leave_out_hop(&mut parts.headers);
        let body = body.collect().await?.to_bytes();
        Ok(Response::from_parts(parts, body))
    }
}

/// Takes out what is about one connection or about a body's length.
fn leave_out_hop(headers: &mut HeaderMap) {
    for name in [header::CONNECTION, header::TRANSFER_ENCODING, header::CONTENT_LENGTH, header::EXPECT] {
        headers.remove(name);
    }
}

impl Handle for DynamoDb {
    async fn handle(self, request: Request<Incoming>, connection: Connection) -> Result<Response<Body>, Cut> {
        let (parts, body) = request.into_parts();
        let Ok(body) = body::read(body, MAX_BODY).await else {
            let mut response = Response::new(body::whole(Bytes::new()));
            *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
            return Ok(response);
        };
        let target = parts.headers.get(TARGET).and_then(|target| target.to_str().ok()).unwrap_or_default();
        let operation = TARGET_PREFIXES.iter().find_map(|prefix| target.strip_prefix(prefix));
        let Some(operation) = operation else {
            return Ok(self.pass(Request::from_parts(parts, body)).await.map(body::whole));
        };
        let call = Call::dynamodb(operation, &body);
        self.shared.calls.count(&call);
        let now = self.shared.now();
        let plan = self.shared.faults.plan(&call, now);
        if let Some(refusal) = fate::before(&plan, &connection).await? {
            return Ok(refuse(&refusal).map(body::whole));
        }
        let request = body.clone();
        let mut response = self.pass(Request::from_parts(parts, body)).await;
        if let Some(After::Refuse(refusal)) = &plan.after {
            response = refuse(refusal);
        } else if plan.changes_reply() && response.status() == StatusCode::OK {
            response = self.edit(&plan, &call, &request, response);
        }
        fate::after(&plan, &connection, response)
    }
}

impl DynamoDb {
    fn edit(&self, plan: &Plan, call: &Call, request: &[u8], response: Response<Bytes>) -> Response<Bytes> {
        let (mut parts, body) = response.into_parts();
        let mut reply: Value = serde_json::from_slice(&body).unwrap_or_default();
        plan.edit_reply(call, request, &mut reply, self.shared.now());
        let body = Bytes::from(reply.to_string());
        parts.headers.insert(CRC32, crc32fast::hash(&body).into());
        Response::from_parts(parts, body)
    }
}

fn refuse(refusal: &Refusal) -> Response<Bytes> {
    let code = match refusal.code.contains('#') {
        true => refusal.code.clone(),
        false => format!("com.amazonaws.dynamodb.v20120810#{}", refusal.code),
    };
    let body = Bytes::from(json!({ "__type": code, "message": refusal.message }).to_string());
    let crc32 = crc32fast::hash(&body);
    let mut response = Response::new(body);
    *response.status_mut() = fate::status(refusal.status);
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response.headers_mut().insert(CRC32, crc32.into());
    response
}
