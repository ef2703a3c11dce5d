//! The model on the wire: HTTP/1.1 with `application/x-amz-json-1.1`, one operation per POST, named by the
//! header
//! `X-Amz-Target`.
//!
//! | module | holds |
//! |---|---|
//! | [`parameters`] | a request's JSON |
//! | [`dispatch`] | from a request's JSON to the model and back |
//! | [`answer`] | a reply's JSON |
//! | [`calls`] | how often each operation was called |

mod answer;
pub(crate) mod calls;
mod dispatch;
mod parameters;

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::serve::ListenerExt;
use bytes::Bytes;
use tokio::net::TcpListener;

use crate::model::{Kinesis, KinesisError, Operation, Timestamp};
use calls::Calls;

const JSON: HeaderValue = HeaderValue::from_static("application/x-amz-json-1.1");
const TARGET: HeaderName = HeaderName::from_static("x-amz-target");
const TARGET_PREFIX: &str = "Kinesis_20131202.";
const REQUEST_ID: HeaderName = HeaderName::from_static("x-amzn-requestid");

/// A PutRecords call of 10 MiB has 14 MiB in base64, and its partition keys may be escaped.
const MAX_BODY: usize = 32 << 20;

/// The model with what a server needs around it.
pub(crate) struct Shared {
    model: Mutex<Kinesis>,
    clock: Box<dyn Fn() -> SystemTime + Send + Sync>,
    pub(crate) calls: Calls,
    requests: AtomicU64,
}

impl Shared {
    pub(crate) fn new(model: Kinesis, clock: Box<dyn Fn() -> SystemTime + Send + Sync>) -> Self {
        Self { model: Mutex::new(model), clock, calls: Calls::default(), requests: AtomicU64::new(0) }
    }

    /// The model, held for one call that does not wait for anything.
    pub(crate) fn model(&self) -> MutexGuard<'_, Kinesis> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)().into()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("calls", &self.calls).finish_non_exhaustive()
    }
}

/// Serves the model on `listener` until `stop` is through and the calls that were running by then are
/// answered.
pub(crate) async fn serve(
    listener: TcpListener,
    shared: Arc<Shared>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "no TCP_NODELAY on a connection");
        }
    });
    let app = Router::new().fallback(handle).layer(DefaultBodyLimit::max(MAX_BODY)).with_state(shared);
    axum::serve(listener, app).with_graceful_shutdown(stop).await
}

async fn handle(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let number = shared.requests.fetch_add(1, Ordering::Relaxed);
    let result = match body {
        Ok(body) => call(&shared, &headers, &body),
        Err(rejection) => Err(KinesisError::Serialization(rejection.body_text())),
    };
    let (status, body) = match result {
        Ok(body) => (StatusCode::OK, body),
        Err(error) => {
            let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::BAD_REQUEST);
            (status, answer::error(&error))
        }
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    if let Ok(id) = HeaderValue::from_str(&format!("00000000-0000-4000-8000-{number:012x}")) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

fn call(shared: &Shared, headers: &HeaderMap, body: &[u8]) -> Result<String, KinesisError> {
    let target = headers.get(TARGET).and_then(|target| target.to_str().ok()).unwrap_or_default();
    let Some(operation) = target.strip_prefix(TARGET_PREFIX).and_then(Operation::named) else {
        return Err(KinesisError::UnknownOperation(format!("There is no operation {target:?} here.")));
    };
    shared.calls.count(operation);
    let content_type = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    if content_type.starts_with(b"application/x-amz-cbor") {
        return Err(KinesisError::Serialization(
            "This server speaks application/x-amz-json-1.1: set the client to JSON instead of CBOR."
                .to_owned(),
        ));
    }
    let result = dispatch::dispatch(shared, operation, body);
    match &result {
        Ok(reply) => tracing::debug!(%operation, request = body.len(), reply = reply.len(), "served"),
        Err(error) => tracing::debug!(%operation, code = error.code(), "refused"),
    }
    result
}
