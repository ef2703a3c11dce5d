//! A call of Kinesis from its request to its reply.

use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use super::body::{self, Body, Cut};
use super::form::Form;
use super::parameters::Parameters;
use super::reply::Reply;
use super::transport::{Connection, Handle};
use super::{Shared, TARGET, answer, control, fate, subscribe};
use crate::faults::{After, Call, Plan, Refusal};
use crate::model::{KinesisError, Operation};

const TARGET_PREFIX: &str = "Kinesis_20131202.";
const REQUEST_ID: HeaderName = HeaderName::from_static("x-amzn-requestid");

const EVENT_STREAM: HeaderValue = HeaderValue::from_static("application/vnd.amazon.eventstream");

/// The greatest PutRecords call has 10 MiB, which are 14 MiB in base64, and its partition keys may be escaped.
const MAX_BODY: usize = 16 << 20;

/// Kinesis behind a port, with the control endpoint beside it.
#[derive(Debug, Clone)]
pub(crate) struct KinesisWire(pub(crate) Arc<Shared>);

/// A request that was read.
struct Request {
    form: Form,
    body: Bytes,
    parameters: Parameters,
}

impl Request {
    fn read(form: Form, body: Bytes) -> Result<Self, KinesisError> {
        let parameters = form.parse(&body)?;
        Ok(Self { form, body, parameters })
    }

    fn json(&self) -> Result<Bytes, KinesisError> {
        self.form.json(&self.body)
    }
}

/// A reply before it is written in the client's form.
struct Answer {
    status: StatusCode,
    reply: Reply,
}

impl Answer {
    fn ok(reply: Reply) -> Self {
        Self { status: StatusCode::OK, reply }
    }

    fn error(error: &KinesisError) -> Self {
        Self { status: fate::status(error.status()), reply: Reply::Json(answer::error(error)) }
    }

    fn refusal(refusal: &Refusal) -> Self {
        let json = json!({ "__type": refusal.code, "message": refusal.message }).to_string();
        Self { status: fate::status(refusal.status), reply: Reply::Json(json) }
    }
}

impl Handle for KinesisWire {
    async fn handle(
        self,
        request: hyper::Request<Incoming>,
        connection: Connection,
    ) -> Result<Response<Body>, Cut> {
        let shared = self.0;
        let (parts, body) = request.into_parts();
        let body = body::read(body, MAX_BODY).await;
        if let Some(path) = control::path(&parts.uri) {
            return Ok(control::answer(&shared, &parts.method, path, body));
        }
        let form = Form::of(&parts.headers);
        let target = parts.headers.get(TARGET).and_then(|target| target.to_str().ok()).unwrap_or_default();
        let operation = target.strip_prefix(TARGET_PREFIX).and_then(Operation::named);
        let finish = |answer: Answer| {
            let mut response = Response::new(answer.reply.write(form));
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
        let request = body.clone().and_then(|body| Request::read(form, body));
        let call = match &request {
            Ok(request) => Call::about(operation.name(), request.parameters.names()),
            Err(_) => {
                let json = body.and_then(|body| form.json(&body)).unwrap_or_default();
                Call::kinesis(operation.name(), &json)
            }
        };
        shared.calls.count(&call);
        let plan = shared.faults.plan(&call, shared.now());
        if let Some(refusal) = fate::before(&plan, &connection).await? {
            return Ok(finish(Answer::refusal(&refusal)).map(body::whole));
        }
        if operation == Operation::SubscribeToShard {
            let lost = plan.after == Some(After::Lose);
            let opened = request.and_then(|request| {
                let request = (request.json()?, request.parameters);
                subscribe::open(&shared, &connection, form, call, plan, request)
            });
            if lost {
                return Err(Cut);
            }
            return Ok(match opened {
                Ok(events) => {
                    let mut response = finish(Answer::ok(Reply::empty())).map(|_| events);
                    response.headers_mut().insert(CONTENT_TYPE, EVENT_STREAM);
                    response
                }
                Err(error) => finish(Answer::error(&error)).map(body::whole),
            });
        }
        let size = request.as_ref().map_or(0, |request| request.body.len());
        let mut answer = match request.and_then(|request| serve(&shared, operation, &call, &plan, request)) {
            Ok(reply) => {
                tracing::debug!(%operation, request = size, "served");
                Answer::ok(reply)
            }
            Err(error) => {
                tracing::debug!(%operation, request = size, code = error.code(), "refused");
                Answer::error(&error)
            }
        };
        if let Some(After::Refuse(refusal)) = &plan.after {
            answer = Answer::refusal(refusal);
        }
        fate::after(&plan, &connection, finish(answer))
    }
}

/// Applies a call, with the records that the plan lets fail and what it changes in the reply.
fn serve(
    shared: &Shared,
    operation: Operation,
    call: &Call,
    plan: &Plan,
    request: Request,
) -> Result<Reply, KinesisError> {
    let Request { form, body, parameters } = request;
    if !plan.changes_reply() {
        return shared.apply(operation, parameters, &plan.failures, || form.json(&body));
    }
    let json = form.json(&body)?;
    let reply = shared.apply(operation, parameters, &plan.failures, || Ok(json.clone()))?;
    let mut reply: Value = serde_json::from_str(&reply.into_json()).unwrap_or_default();
    plan.edit_reply(call, &json, &mut reply, shared.now());
    Ok(match reply {
        Value::Null => Reply::empty(),
        reply => Reply::Json(reply.to_string()),
    })
}
