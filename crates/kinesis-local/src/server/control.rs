//! Faults and counters over HTTP, for tests in any language.
//!
//! | request | does |
//! |---|---|
//! | `GET /_control/faults` | the faults that are set, with what they have done |
//! | `POST /_control/faults` | adds a fault, or an array of them, and gives their numbers |
//! | `GET /_control/faults/ID` | one fault |
//! | `DELETE /_control/faults` | removes all faults |
//! | `DELETE /_control/faults/ID` | removes one |
//! | `GET /_control/calls?on=&service=&stream=&shard=&table=` | the calls counted, in all and by what they were about |
//! | `POST /_control/reset` | removes all faults and sets the counters to 0 |

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Response, StatusCode, Uri};
use serde_json::{Map, Value, json};

use super::Shared;
use super::body::{self, Body, BodyError};
use crate::faults::{FaultId, Faults, Selector, many};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Path and query behind `/_control/`, if a request is for the control endpoint.
pub(super) fn path(uri: &Uri) -> Option<&str> {
    uri.path_and_query()?.as_str().strip_prefix("/_control/")
}

pub(super) fn answer(
    shared: &Arc<Shared>,
    method: &Method,
    path: &str,
    body: Result<Bytes, BodyError>,
) -> Response<Body> {
    let body = body.map_err(|error| match error {
        BodyError::TooLong(_) => (StatusCode::PAYLOAD_TOO_LARGE, error.to_string()),
        BodyError::Broken(_) | BodyError::Slow => (StatusCode::BAD_REQUEST, error.to_string()),
    });
    let (status, body) = match body.and_then(|body| respond(shared, method, path, &body)) {
        Ok(value) => (StatusCode::OK, value),
        Err((status, why)) => (status, json!({ "error": why })),
    };
    let mut response = Response::new(body::whole(format!("{body:#}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

fn respond(
    shared: &Arc<Shared>,
    method: &Method,
    path: &str,
    body: &[u8],
) -> Result<Value, (StatusCode, String)> {
    let faults = Faults::new(shared.clone());
    let refuse = |status, why: &str| Err((status, why.to_owned()));
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match (method, &parts[..]) {
        (&Method::GET, ["faults"]) => Ok(json!({ "faults": faults.list() })),
        (&Method::POST, ["faults"]) => {
            let added = many(body).map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
            let ids: Vec<FaultId> = added.into_iter().map(|fault| faults.add(fault).id()).collect();
            Ok(json!({ "ids": ids }))
        }
        (&Method::DELETE, ["faults"]) => {
            faults.clear();
            Ok(json!({}))
        }
        (&Method::GET | &Method::DELETE, ["faults", id]) => {
            let known = faults.list().into_iter().find(|status| status.id.to_string() == **id);
            let Some(status) = known else {
                return refuse(StatusCode::NOT_FOUND, "there is no fault of this number");
            };
            if method == Method::DELETE {
                faults.remove(status.id);
            }
            Ok(json!(status))
        }
        (&Method::GET, ["calls"]) => {
            let selector = selector(query).map_err(|why| (StatusCode::BAD_REQUEST, why))?;
            let calls = shared.calls.list(&selector);
            let total: u64 = calls.iter().map(|(_, count)| count).sum();
            let calls: Vec<Value> = calls
                .into_iter()
                .map(|(kind, count)| {
                    let mut call = json!(kind);
                    call["calls"] = count.into();
                    call
                })
                .collect();
            Ok(json!({ "total": total, "calls": calls }))
        }
        (&Method::POST, ["reset"]) => {
            faults.clear();
            shared.calls.reset();
            Ok(json!({}))
        }
        (_, ["faults" | "calls" | "reset", ..]) => {
            refuse(StatusCode::METHOD_NOT_ALLOWED, "this path does not take this method")
        }
        _ => refuse(StatusCode::NOT_FOUND, "the paths here are faults, calls and reset"),
    }
}

/// The selector of a query such as `on=GetRecords&shard=shardId-000000000000`. Names of streams, shards and
/// tables have no characters that would be escaped.
fn selector(query: &str) -> Result<Selector, String> {
    let mut members = Map::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if !["on", "service", "stream", "shard", "table"].contains(&name) {
            return Err(format!("{name:?} is none of on, service, stream, shard, table"));
        }
        members.insert(name.to_owned(), value.into());
    }
    serde_json::from_value(members.into()).map_err(|error| error.to_string())
}
