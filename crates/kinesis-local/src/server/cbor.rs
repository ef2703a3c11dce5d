//! The CBOR dialect of Kinesis, as the Java SDKs speak it, from and to JSON: for what faults and the journal see of a
//! call, and for small replies. The members are the same; only two kinds of values differ:
//!
//! | | JSON | CBOR |
//! |---|---|---|
//! | payloads | base64 text | byte string |
//! | instants | seconds with a fraction | integer milliseconds; in requests under tag 1 |
//!
//! Only their names tell instants and payloads in JSON from other numbers and texts.

use std::fmt;
use std::io::Write as _;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ciborium_ll::{Decoder, Encoder, Header, simple, tag};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// The members that are payloads.
const BLOBS: [&str; 1] = ["Data"];
/// The members that are instants.
const INSTANTS: [&str; 4] =
    ["ApproximateArrivalTimestamp", "ConsumerCreationTimestamp", "StreamCreationTimestamp", "Timestamp"];
/// Requests and replies are four deep.
pub(super) const MAX_DEPTH: usize = 32;
/// The tag of an instant.
const EPOCH: u64 = 1;

/// A text that is not CBOR, or nothing that Kinesis would say in it.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the request is not the CBOR that the operation takes")]
pub(super) struct NotCbor;

type Reader<'a> = Decoder<&'a [u8]>;

/// JSON from CBOR.
///
/// # Errors
/// [`NotCbor`]
pub(super) fn to_json(bytes: &[u8]) -> Result<Vec<u8>, NotCbor> {
    let mut json = Vec::with_capacity(bytes.len() + bytes.len() / 2);
    let mut decoder = Decoder::from(bytes);
    let first = pull(&mut decoder)?;
    read(&mut decoder, first, false, MAX_DEPTH, &mut json)?;
    match decoder.offset() == bytes.len() {
        true => Ok(json),
        false => Err(NotCbor),
    }
}

fn pull(decoder: &mut Reader<'_>) -> Result<Header, NotCbor> {
    decoder.pull().map_err(|_| NotCbor)
}

fn read(
    decoder: &mut Reader<'_>,
    header: Header,
    is_instant: bool,
    depth: usize,
    json: &mut Vec<u8>,
) -> Result<(), NotCbor> {
    let depth = depth.checked_sub(1).ok_or(NotCbor)?;
    match header {
        Header::Positive(millis) if is_instant => {
            write(json, format_args!("{}.{:03}", millis / 1_000, millis % 1_000))
        }
        Header::Positive(number) => write(json, format_args!("{number}")),
        Header::Negative(inverted) => write(json, format_args!("{}", -1 - i128::from(inverted))),
        Header::Float(number) if number.is_finite() => write(json, format_args!("{number}")),
        Header::Float(_) => return Err(NotCbor),
        Header::Simple(simple::FALSE) => json.extend(b"false"),
        Header::Simple(simple::TRUE) => json.extend(b"true"),
        Header::Simple(simple::NULL | simple::UNDEFINED) => json.extend(b"null"),
        Header::Simple(_) | Header::Break => return Err(NotCbor),
        Header::Tag(EPOCH) => {
            let inner = pull(decoder)?;
            read(decoder, inner, true, depth, json)?;
        }
        // A number too great for any member, or a hint that changes nothing.
        Header::Tag(tag::BIGPOS | tag::BIGNEG) => return Err(NotCbor),
        Header::Tag(_) => {
            let inner = pull(decoder)?;
            read(decoder, inner, is_instant, depth, json)?;
        }
        Header::Bytes(length) => {
            let bytes = bytes(decoder, length)?;
            json.push(b'"');
            json.extend(STANDARD.encode(bytes).as_bytes());
            json.push(b'"');
        }
        Header::Text(length) => write_text(json, &text(decoder, length)?)?,
        Header::Array(length) => {
            json.push(b'[');
            let mut items = Items::new(length);
            while let Some(item) = items.next(decoder)? {
                separate(json, b'[');
                read(decoder, item, false, depth, json)?;
            }
            json.push(b']');
        }
        Header::Map(length) => {
            json.push(b'{');
            let mut items = Items::new(length);
            while let Some(key) = items.next(decoder)? {
                separate(json, b'{');
                let Header::Text(length) = key else { return Err(NotCbor) };
                let key = text(decoder, length)?;
                write_text(json, &key)?;
                json.push(b':');
                let value = pull(decoder)?;
                read(decoder, value, INSTANTS.contains(&key.as_str()), depth, json)?;
            }
            json.push(b'}');
        }
    }
    Ok(())
}

/// The items of an array or a map, whose number is told in front or by a break behind.
struct Items(Option<usize>);

impl Items {
    fn new(length: Option<usize>) -> Self {
        Self(length)
    }

    fn next(&mut self, decoder: &mut Reader<'_>) -> Result<Option<Header>, NotCbor> {
        match &mut self.0 {
            Some(0) => Ok(None),
            Some(left) => {
                *left -= 1;
                pull(decoder).map(Some)
            }
            None => Ok(Some(pull(decoder)?).filter(|header| *header != Header::Break)),
        }
    }
}

fn separate(json: &mut Vec<u8>, open: u8) {
    if json.last() != Some(&open) {
        json.push(b',');
    }
}

fn bytes(decoder: &mut Reader<'_>, length: Option<usize>) -> Result<Vec<u8>, NotCbor> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4_096];
    let mut segments = decoder.bytes(length);
    while let Some(mut segment) = segments.pull().map_err(|_| NotCbor)? {
        while let Some(chunk) = segment.pull(&mut buffer).map_err(|_| NotCbor)? {
            bytes.extend(chunk);
        }
    }
    Ok(bytes)
}

fn text(decoder: &mut Reader<'_>, length: Option<usize>) -> Result<String, NotCbor> {
    let mut text = String::new();
    let mut buffer = [0; 4_096];
    let mut segments = decoder.text(length);
    while let Some(mut segment) = segments.pull().map_err(|_| NotCbor)? {
        while let Some(chunk) = segment.pull(&mut buffer).map_err(|_| NotCbor)? {
            text.push_str(chunk);
        }
    }
    Ok(text)
}

fn write_text(json: &mut Vec<u8>, text: &str) -> Result<(), NotCbor> {
    serde_json::to_writer(json, text).map_err(|_| NotCbor)
}

fn write(json: &mut Vec<u8>, value: fmt::Arguments<'_>) {
    // Writing to memory does not fail.
    let _ = json.write_fmt(value);
}

/// CBOR from JSON of our own.
///
/// # Errors
/// For what is no JSON.
pub(super) fn from_json(json: &str) -> Result<Vec<u8>, serde_json::Error> {
    let mut cbor = Vec::with_capacity(json.len());
    let mut encoder = Encoder::from(&mut cbor);
    let mut deserializer = serde_json::Deserializer::from_str(json);
    Transcribe { encoder: &mut encoder, kind: Kind::Plain }.deserialize(&mut deserializer)?;
    Ok(cbor)
}

/// How a value of JSON is meant.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Plain,
    Blob,
    Instant,
}

impl Kind {
    fn of(member: &str) -> Self {
        if BLOBS.contains(&member) {
            Self::Blob
        } else if INSTANTS.contains(&member) {
            Self::Instant
        } else {
            Self::Plain
        }
    }
}

/// Writes the value that comes next. Maps and arrays end with a break, as their lengths are not known in front.
struct Transcribe<'e, 'b> {
    encoder: &'e mut Encoder<&'b mut Vec<u8>>,
    kind: Kind,
}

impl Transcribe<'_, '_> {
    fn push<E: Error>(self, header: Header) -> Result<(), E> {
        self.encoder.push(header).map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for Transcribe<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Transcribe<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.push(Header::Simple(simple::NULL))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.push(Header::Simple(if value { simple::TRUE } else { simple::FALSE }))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        let factor = if matches!(self.kind, Kind::Instant) { 1_000 } else { 1 };
        self.push(Header::Positive(number.saturating_mul(factor)))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        // serde_json comes here with negative numbers alone.
        self.push(Header::Negative(number.unsigned_abs().saturating_sub(1)))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        match self.kind {
            Kind::Instant => self.push(Header::Positive((number * 1_000.0).round() as u64)),
            _ => self.push(Header::Float(number)),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        match self.kind {
            Kind::Blob => {
                let bytes = STANDARD.decode(text).map_err(E::custom)?;
                self.encoder.bytes(&bytes, None).map_err(E::custom)
            }
            _ => self.encoder.text(text, None).map_err(E::custom),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let encoder = self.encoder;
        encoder.push(Header::Array(None)).map_err(A::Error::custom)?;
        while items.next_element_seed(Transcribe { encoder, kind: Kind::Plain })?.is_some() {}
        encoder.push(Header::Break).map_err(A::Error::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let encoder = self.encoder;
        encoder.push(Header::Map(None)).map_err(A::Error::custom)?;
        while let Some(member) = members.next_key::<std::borrow::Cow<'_, str>>()? {
            encoder.text(&member, None).map_err(A::Error::custom)?;
            members.next_value_seed(Transcribe { encoder, kind: Kind::of(&member) })?;
        }
        encoder.push(Header::Break).map_err(A::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn json_of(cbor: &[u8]) -> Value {
        serde_json::from_slice(&to_json(cbor).unwrap()).unwrap()
    }

    #[test]
    fn a_request_of_the_java_sdk_is_read() {
        // Jackson writes maps and arrays of unknown length, and instants under tag 1.
        let put = b"\xbf\x6aStreamName\x67flights\x64Data\x43\x00\xff\x10\x6cPartitionKey\x61a\xff";
        assert_eq!(json_of(put), json!({"StreamName": "flights", "Data": "AP8Q", "PartitionKey": "a"}));
        let at = b"\xbf\x69Timestamp\xc1\x1b\x00\x00\x01\x8b\xcf\xe5\x68\x7b\xff";
        assert_eq!(to_json(at).unwrap(), br#"{"Timestamp":1700000000.123}"#);
        let bare = b"\xa1\x69Timestamp\x1b\x00\x00\x01\x8b\xcf\xe5\x68\x7b";
        assert_eq!(to_json(bare).unwrap(), br#"{"Timestamp":1700000000.123}"#);
        let limit = b"\xa3\x65Limit\x19\x27\x10\x61a\x20\x61b\x9f\xf5\xf4\xf6\xff";
        assert_eq!(json_of(limit), json!({"Limit": 10_000, "a": -1, "b": [true, false, null]}));
    }

    #[test]
    fn texts_and_payloads_may_come_in_pieces() {
        let pieces = b"\xa2\x64Data\x5f\x41\x00\x42\xff\x10\xff\x61k\x7f\x61a\x61b\xff";
        assert_eq!(json_of(pieces), json!({"Data": "AP8Q", "k": "ab"}));
        let long = "\u{6771}".repeat(5_000);
        let cbor = from_json(&json!({ "k": long }).to_string()).unwrap();
        assert_eq!(json_of(&cbor), json!({ "k": long }));
    }

    #[test]
    fn a_reply_has_byte_strings_and_milliseconds() {
        let cbor = from_json(r#"{"Data":"AP8Q","ApproximateArrivalTimestamp":1700000000.123,"Records":[]}"#);
        let known =
            b"\xbf\x64Data\x43\x00\xff\x10\x78\x1bApproximateArrivalTimestamp\x1b\x00\x00\x01\x8b\xcf\
            \xe5\x68\x7b\x67Records\x9f\xff\xff";
        assert_eq!(cbor.unwrap(), known);
        let cbor = from_json(r#"{"Timestamp":5,"Count":7,"Nothing":null,"Yes":true}"#).unwrap();
        assert_eq!(json_of(&cbor), json!({"Timestamp": 5.0, "Count": 7, "Nothing": null, "Yes": true}));
    }

    #[test]
    fn what_is_not_cbor_is_refused() {
        let deep = [0x81; 1_000];
        for bytes in [&b""[..], b"\xff", b"\xbf\x61a", b"\xa1\x01\x02", b"\x01\x02", b"\x62\xff\xff", &deep] {
            assert_eq!(to_json(bytes), Err(NotCbor), "{bytes:?}");
        }
        // A length that no request has is not believed.
        assert_eq!(to_json(b"\x5b\x7f\xff\xff\xff\xff\xff\xff\xff"), Err(NotCbor));
    }

    proptest! {
        #[test]
        fn nothing_makes_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(json) = to_json(&bytes) {
                prop_assert!(serde_json::from_slice::<Value>(&json).is_ok());
            }
        }

        #[test]
        fn payloads_and_instants_come_through_both_ways(
            data in prop::collection::vec(any::<u8>(), 0..64),
            millis in 0..4_102_444_800_000_u64,
        ) {
            let json = format!(
                r#"{{"Data":"{}","ApproximateArrivalTimestamp":{}.{:03}}}"#,
                STANDARD.encode(&data), millis / 1_000, millis % 1_000
            );
            let cbor = from_json(&json).unwrap();
            prop_assert_eq!(to_json(&cbor).unwrap(), json.into_bytes());
        }
    }
}
