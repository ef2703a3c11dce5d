//! Bodies of requests, up to a limit, and of replies: whole, cut off, and in pieces.

use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited, StreamBody};
use hyper::body::{Body as _, Frame, Incoming};

use super::transport::PATIENCE;

/// The connection is to be cut instead of a reply, or of the rest of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection is cut because a fault asks for it")]
pub(crate) struct Cut;

/// A request's body that is not to be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the request has more than {0} bytes")]
    TooLong(usize),
    #[error("the request does not come to its end in {PATIENCE:?}")]
    Slow,
    #[error("the request does not come to its end: {0}")]
    Broken(Box<dyn std::error::Error + Send + Sync>),
}

pub(crate) type Body = UnsyncBoxBody<Bytes, Cut>;

/// The whole body of a request, unless it has more than `limit` bytes. One that says so in front is not read at all.
pub(crate) async fn read(body: Incoming, limit: usize) -> Result<Bytes, BodyError> {
    if body.size_hint().lower() > limit as u64 {
        return Err(BodyError::TooLong(limit));
    }
    let read = tokio::time::timeout(PATIENCE, Limited::new(body, limit).collect()).await;
    match read.map_err(|_| BodyError::Slow)? {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(BodyError::TooLong(limit)),
        Err(error) => Err(BodyError::Broken(error)),
    }
}

pub(crate) fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// The first half of `bytes`, then what `end` makes of the connection.
pub(crate) fn half(bytes: Bytes, end: impl Future<Output = Cut> + Send + 'static) -> Body {
    let half = bytes.slice(..bytes.len() / 2);
    let cut = async move {
        // hyper sends what it has only when there is no more to be had at once.
        tokio::task::yield_now().await;
        Err(end.await)
    };
    pieces(stream::iter([Ok(half)]).chain(stream::once(cut)))
}

pub(crate) fn pieces(pieces: impl Stream<Item = Result<Bytes, Cut>> + Send + 'static) -> Body {
    StreamBody::new(pieces.map(|piece| piece.map(Frame::data))).boxed_unsync()
}
