//! JSON and CBOR, written member by member.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ciborium_ll::{Encoder, Header, simple};

use crate::model::Timestamp;

/// Takes a value in pieces: what is in a map is a member and its value, what is in an array an item and its value.
pub(super) trait Writer {
    fn open_map(&mut self);
    fn close_map(&mut self);
    fn open_array(&mut self);
    fn close_array(&mut self);
    /// The name of the value that comes next, plain ASCII.
    fn member(&mut self, name: &'static str);
    /// The value that comes next is one more of an array.
    fn item(&mut self);
    fn text(&mut self, text: &str);
    fn number(&mut self, number: u64);
    fn instant(&mut self, instant: Timestamp);
    fn payload(&mut self, bytes: &[u8]);
    fn null(&mut self);
}

/// Payloads become base64 text, instants seconds with a fraction.
#[derive(Debug)]
pub(super) struct Json(pub(super) String);

impl Json {
    fn separate(&mut self, open: u8) {
        if self.0.as_bytes().last() != Some(&open) {
            self.0.push(',');
        }
    }

    /// Digits, at least so many.
    fn digits(&mut self, mut number: u64, width: usize) {
        // The greatest number has 20.
        let mut digits = [b'0'; 20];
        let mut start = digits.len();
        while number > 0 || digits.len() - start < width {
            start -= 1;
            digits[start] = b'0' + (number % 10) as u8;
            number /= 10;
        }
        self.0.extend(digits[start..].iter().map(|digit| char::from(*digit)));
    }
}

impl Writer for Json {
    fn open_map(&mut self) {
        self.0.push('{');
    }

    fn close_map(&mut self) {
        self.0.push('}');
    }

    fn open_array(&mut self) {
        self.0.push('[');
    }

    fn close_array(&mut self) {
        self.0.push(']');
    }

    fn member(&mut self, name: &'static str) {
        self.separate(b'{');
        self.0.push('"');
        self.0.push_str(name);
        self.0.push_str("\":");
    }

    fn item(&mut self) {
        self.separate(b'[');
    }

    fn text(&mut self, text: &str) {
        // Without a way out in the middle, this goes many bytes at a time.
        let escapes = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
        if text.bytes().fold(false, |any, byte| any | escapes(byte)) {
            self.0.push_str(&serde_json::Value::from(text).to_string());
        } else {
            self.0.push('"');
            self.0.push_str(text);
            self.0.push('"');
        }
    }

    fn number(&mut self, number: u64) {
        self.digits(number, 1);
    }

    fn instant(&mut self, instant: Timestamp) {
        self.digits(instant.as_secs(), 1);
        self.0.push('.');
        self.digits(instant.as_millis() % 1_000, 3);
    }

    fn payload(&mut self, bytes: &[u8]) {
        self.0.push('"');
        STANDARD.encode_string(bytes, &mut self.0);
        self.0.push('"');
    }

    fn null(&mut self) {
        self.0.push_str("null");
    }
}

/// Payloads become byte strings, instants integer milliseconds. Maps and arrays end with a break.
#[derive(Debug)]
pub(super) struct Cbor(pub(super) Vec<u8>);

impl Cbor {
    fn push(&mut self, header: Header) {
        // Writing to memory does not fail.
        let _ = Encoder::from(&mut self.0).push(header);
    }
}

impl Writer for Cbor {
    fn open_map(&mut self) {
        self.push(Header::Map(None));
    }

    fn close_map(&mut self) {
        self.push(Header::Break);
    }

    fn open_array(&mut self) {
        self.push(Header::Array(None));
    }

    fn close_array(&mut self) {
        self.push(Header::Break);
    }

    fn member(&mut self, name: &'static str) {
        self.text(name);
    }

    fn item(&mut self) {}

    fn text(&mut self, text: &str) {
        self.push(Header::Text(Some(text.len())));
        self.0.extend_from_slice(text.as_bytes());
    }

    fn number(&mut self, number: u64) {
        self.push(Header::Positive(number));
    }

    fn instant(&mut self, instant: Timestamp) {
        self.number(instant.as_millis());
    }

    fn payload(&mut self, bytes: &[u8]) {
        self.push(Header::Bytes(Some(bytes.len())));
        self.0.extend_from_slice(bytes);
    }

    fn null(&mut self) {
        self.push(Header::Simple(simple::NULL));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::server::cbor;

    fn write(writer: &mut impl Writer) {
        writer.open_map();
        writer.member("Records");
        writer.open_array();
        for text in ["", "plain", "\"\\\n \u{6771}"] {
            writer.item();
            writer.open_map();
            writer.member("Text");
            writer.text(text);
            writer.member("Data");
            writer.payload(b"\x00\xff\x10");
            writer.member("ApproximateArrivalTimestamp");
            writer.instant(Timestamp::from_millis(1_700_000_000_007));
            writer.close_map();
        }
        writer.close_array();
        writer.member("None");
        writer.open_array();
        writer.close_array();
        writer.member("Number");
        writer.number(u64::MAX);
        writer.member("Zero");
        writer.number(0);
        writer.member("Null");
        writer.null();
        writer.close_map();
    }

    #[test]
    fn both_forms_say_the_same() {
        let (mut json, mut cbor) = (Json(String::new()), Cbor(Vec::new()));
        write(&mut json);
        write(&mut cbor);
        let record =
            |text| json!({"Text": text, "Data": "AP8Q", "ApproximateArrivalTimestamp": 1_700_000_000.007});
        let said = json!({
            "Records": [record(""), record("plain"), record("\"\\\n \u{6771}")],
            "None": [], "Number": u64::MAX, "Zero": 0, "Null": null,
        });
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json.0).unwrap(), said);
        let from_cbor = cbor::to_json(&cbor.0).unwrap();
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&from_cbor).unwrap(), said);
    }
}
