//! Frames of `application/vnd.amazon.eventstream`.
//!
//! ```text
//! total length, headers' length: u32 each | CRC-32 of these | headers | payload | CRC-32 of all before
//! ```
//! A header is its name behind a length of one byte, a 7 for text, and its value behind a length of two.

use bytes::{BufMut, Bytes, BytesMut};

use super::form::Form;
use crate::faults::Refusal;
use crate::model::KinesisError;

/// The lengths and the checksums.
const AROUND: usize = 16;
const TEXT: u8 = 7;

/// Opens a stream; clients wait for it.
pub(super) fn initial_response(form: Form) -> Bytes {
    event("initial-response", form, form.write("{}".to_owned()))
}

/// An event with its payload, which is of the form.
pub(super) fn event(kind: &str, form: Form, payload: Bytes) -> Bytes {
    frame("event", ":event-type", kind, form, payload)
}

/// Ends a stream.
pub(super) fn failure(error: &KinesisError, form: Form) -> Bytes {
    exception(error.code(), error.message(), form)
}

/// Ends a stream as a fault wants it.
pub(super) fn refusal(refusal: &Refusal, form: Form) -> Bytes {
    exception(&refusal.code, &refusal.message, form)
}

fn exception(code: &str, message: &str, form: Form) -> Bytes {
    let json = serde_json::json!({ "message": message }).to_string();
    frame("exception", ":exception-type", code, form, form.write(json))
}

fn frame(message: &str, kind: &str, name: &str, form: Form, payload: Bytes) -> Bytes {
    let mut headers = BytesMut::new();
    let content_type = form.content_type();
    for (header, value) in [
        (":message-type", message.as_bytes()),
        (kind, name.as_bytes()),
        (":content-type", content_type.as_bytes()),
    ] {
        headers.put_u8(clipped(header.len()));
        headers.put_slice(header.as_bytes());
        headers.put_u8(TEXT);
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        headers.put_u16(clipped(value.len()));
        headers.put_slice(value);
    }
    let length = AROUND + headers.len() + payload.len();
    let mut frame = BytesMut::with_capacity(length);
    frame.put_u32(clipped(length));
    frame.put_u32(clipped(headers.len()));
    frame.put_u32(crc32fast::hash(&frame));
    frame.put_slice(&headers);
    frame.put_slice(&payload);
    frame.put_u32(crc32fast::hash(&frame));
    frame.freeze()
}

/// A length in its place. None here is too great for it: names and codes are short, payloads below 20 MiB.
fn clipped<N: TryFrom<usize> + Default>(length: usize) -> N {
    N::try_from(length).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_its_lengths_and_checksums() {
        let frame = event("initial-response", Form::Json, Bytes::from("{}"));
        let word = |at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
        let headers = b"\x0d:message-type\x07\x00\x05event\x0b:event-type\x07\x00\x10initial-response\x0d\
            :content-type\x07\x00\x1aapplication/x-amz-json-1.1";
        assert_eq!(word(0) as usize, frame.len());
        assert_eq!(word(4) as usize, headers.len());
        assert_eq!(word(8), crc32fast::hash(&frame[..8]));
        assert_eq!(&frame[12..12 + headers.len()], headers);
        assert_eq!(&frame[12 + headers.len()..frame.len() - 4], b"{}");
        assert_eq!(word(frame.len() - 4), crc32fast::hash(&frame[..frame.len() - 4]));
    }
}
