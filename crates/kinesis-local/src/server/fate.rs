//! How a call ends when faults have their hands in it.

use bytes::Bytes;
use hyper::header::CONTENT_LENGTH;
use hyper::{Response, StatusCode};

use super::body::{self, Body, Cut};
use super::transport::Connection;
use crate::faults::{After, Before, Plan, Refusal};

/// Lets the time of a plan pass, and what it does in front of the call happen.
///
/// # Errors
/// [`Cut`] for a connection that is to end.
pub(crate) async fn before(plan: &Plan, connection: &Connection) -> Result<Option<Refusal>, Cut> {
    if !plan.delay.is_zero() {
        tokio::select! {
            () = tokio::time::sleep(plan.delay) => {}
            () = connection.stopped() => return Err(Cut),
        }
    }
    match &plan.before {
        None => Ok(None),
        Some(Before::Refuse(refusal)) => Ok(Some(refusal.clone())),
        Some(Before::Hang) => Err(never(connection.clone()).await),
        Some(Before::Reset) => Err(connection.reset()),
    }
}

/// Sends the body of a reply as far as a plan lets it.
///
/// # Errors
/// [`Cut`] for a reply that is to be lost.
pub(crate) fn after(
    plan: &Plan,
    connection: &Connection,
    mut response: Response<Bytes>,
) -> Result<Response<Body>, Cut> {
    let full = response.body().len();
    let ended = match &plan.after {
        None | Some(After::Refuse(_)) => return Ok(response.map(body::whole)),
        Some(After::Lose) => return Err(Cut),
        Some(After::Half) => None,
        Some(After::Stall) => Some(never(connection.clone())),
    };
    response.headers_mut().insert(CONTENT_LENGTH, full.into());
    Ok(response.map(|bytes| match ended {
        None => body::half(bytes, std::future::ready(Cut)),
        Some(never) => body::half(bytes, never),
    }))
}

/// Waits for the end of the server.
async fn never(connection: Connection) -> Cut {
    connection.stopped().await;
    Cut
}

pub(crate) fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
