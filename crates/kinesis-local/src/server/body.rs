//! Bodies of replies: whole, cut off, and in pieces.

use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;

/// The connection is to be cut instead of a reply, or of the rest of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection is cut because a fault asks for it")]
pub(crate) struct Cut;

pub(crate) type Body = UnsyncBoxBody<Bytes, Cut>;

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
