//! A call of Kinesis from its request to its reply.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};
use serde_json::{Value, json};

use super::body::{self, Body, Cut};
use super::form::Form;
use super::transport::{Connection, Handle};
use super::{Shared, TARGET, answer, control, fate, subscribe};
use crate::faults::{After, Call, Plan, Refusal};
use crate::model::{KinesisError, Operation};

const TARGET_PREFIX: &str = "Kinesis_20131202.";
const REQUEST_ID: HeaderName = HeaderName::from_static("x-amzn-requestid");

const EVENT_STREAM: HeaderValue = HeaderValue::from_static("application/vnd.amazon.eventstream");

/// A PutRecords call of 10 MiB has 14 MiB in base64, and its partition keys may be escaped.
const MAX_BODY: usize = 32 << 20;

/// Kinesis behind a port, with the control endpoint beside it.
#[derive(Debug, Clone)]
pub(crate) struct KinesisWire(pub(crate) Arc<Shared>);

/// A reply in JSON, before it is written in the client's form.
struct Answer {
    status: StatusCode,
    json: String,
}

impl Answer {
    fn ok(json: String) -> Self {
        Self { status: StatusCode::OK, json }
    }

    fn error(error: &KinesisError) -> Self {
        Self { status: fate::status(error.status()), json: answer::error(error) }
    }

    fn refusal(refusal: &Refusal) -> Self {
        let json = json!({ "__type": refusal.code, "message": refusal.message }).to_string();
        Self { status: fate::status(refusal.status), json }
    }
}

impl Handle for KinesisWire {
    async fn handle(self, request: Request<Incoming>, connection: Connection) -> Result<Response<Body>, Cut> {
        let shared = self.0;
        let (parts, body) = request.into_parts();
        let body = Limited::new(body, MAX_BODY).collect().await.map(|body| body.to_bytes());
        if let Some(path) = control::path(&parts.uri) {
            return Ok(control::answer(&shared, &parts.method, path, &body.unwrap_or_default()));
        }
        let form = Form::of(&parts.headers);
        let target = parts.headers.get(TARGET).and_then(|target| target.to_str().ok()).unwrap_or_default();
        let operation = target.strip_prefix(TARGET_PREFIX).and_then(Operation::named);
        let finish = |answer: Answer| {
            let mut response = Response::new(form.write(answer.json));
            *response.status_mut() = answer.status;
            response.headers_mut().insert(CONTENT_TYPE, form.content_type());
            if let Ok(id) = HeaderValue::from_str(&shared.request_id()) {
                response.headers_mut().insert(REQUEST_ID, id);
            }
            response
        };
        let Some(operation) = operation else {
            let error = KinesisError::UnknownOperation(format!("There is no operation {target:?} here."));
            return Ok(finish(Answer::error(&error)).map(body::whole));
        };
        let body = body.map_err(|error| KinesisError::Serialization(error.to_string()));
        let body = body.and_then(|body| form.read(body));
        let call = Call::kinesis(operation.name(), body.as_deref().unwrap_or_default());
        shared.calls.count(&call);
        let plan = shared.faults.plan(&call, shared.now());
        if let Some(refusal) = fate::before(&plan, &connection).await? {
            return Ok(finish(Answer::refusal(&refusal)).map(body::whole));
        }
        if operation == Operation::SubscribeToShard {
            let lost = plan.after == Some(After::Lose);
            let opened = body.and_then(|body| subscribe::open(&shared, &connection, form, call, plan, body));
            if lost {
                return Err(Cut);
            }
            return Ok(match opened {
                Ok(events) => {
                    let mut response = finish(Answer::ok(String::new())).map(|_| events);
                    response.headers_mut().insert(CONTENT_TYPE, EVENT_STREAM);
                    response
                }
                Err(error) => finish(Answer::error(&error)).map(body::whole),
            });
        }
        let mut answer = match body.and_then(|body| serve(&shared, operation, &call, &plan, &body)) {
            Ok(json) => Answer::ok(json),
            Err(error) => Answer::error(&error),
        };
        if let Some(After::Refuse(refusal)) = &plan.after {
            answer = Answer::refusal(refusal);
        }
        fate::after(&plan, &connection, finish(answer))
    }
}

/// Applies a call, with what the plan changes in its request and reply.
fn serve(
    shared: &Shared,
    operation: Operation,
    call: &Call,
    plan: &Plan,
    body: &Bytes,
) -> Result<String, KinesisError> {
    let edited = plan.edit_request(body);
    let result = match &edited {
        None => shared.apply(operation, body),
        Some(edited) => match &edited.request {
            Some(rest) => shared.apply(operation, rest),
            None => Ok(String::new()),
        },
    };
    match &result {
        Ok(reply) => tracing::debug!(%operation, request = body.len(), reply = reply.len(), "served"),
        Err(error) => tracing::debug!(%operation, code = error.code(), "refused"),
    }
    let json = result?;
    if edited.is_none() && !plan.changes_reply() {
        return Ok(json);
    }
    let mut reply: Value = serde_json::from_str(&json).unwrap_or_default();
    if let Some(edited) = edited {
        edited.put_back(&mut reply);
    }
    plan.edit_reply(call, body, &mut reply, shared.now());
    Ok(match reply {
        Value::Null => String::new(),
        reply => reply.to_string(),
    })
}
