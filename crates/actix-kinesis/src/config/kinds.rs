//! The kinds of values that settings have: how each is read from a text, shown, and what of it is allowed.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime};

use hocon::{HoconValue, ScalarValue};
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::consumer::Concurrency;

/// How an absent text is called in errors.
pub(super) const EMPTY: &str = "an empty text";

/// A kind of value.
pub(super) trait Kind {
    /// What a field of the typed settings holds.
    type Value;

    /// Reads what stands in a file or an environment variable. `None` if it is nothing of this kind.
    fn parse(&self, text: &str) -> Option<Self::Value>;

    /// Whether the value is allowed.
    fn allows(&self, value: &Self::Value) -> bool;

    /// The value for an error.
    fn show(&self, value: &Self::Value) -> String;

    /// What is allowed, with range and unit.
    fn allowed(&self) -> String;
}

/// A whole number in a range.
pub(super) struct Whole<T>(pub(super) RangeInclusive<T>);

impl<T: Copy + PartialOrd + fmt::Display + TryFrom<u64>> Kind for Whole<T> {
    type Value = T;

    fn parse(&self, text: &str) -> Option<T> {
        T::try_from(whole_number(text)?).ok()
    }

    fn allows(&self, value: &T) -> bool {
        self.0.contains(value)
    }

    fn show(&self, value: &T) -> String {
        value.to_string()
    }

    fn allowed(&self) -> String {
        format!("a whole number, {} to {}", self.0.start(), self.0.end())
    }
}

/// HOCON's numbers may be written `150.0` and `1e3`; what has a fraction is no whole number.
fn whole_number(text: &str) -> Option<u64> {
    const EXACT: f64 = (1u64 << 53) as f64;
    text.parse().ok().or_else(|| {
        let number: f64 = text.parse().ok()?;
        ((0.0..=EXACT).contains(&number) && number.fract() == 0.0).then_some(number as u64)
    })
}

/// A percentage, fractions allowed.
pub(super) struct Percentage;

impl Kind for Percentage {
    type Value = f64;

    fn parse(&self, text: &str) -> Option<f64> {
        text.parse().ok()
    }

    fn allows(&self, value: &f64) -> bool {
        (0.0..=100.0).contains(value)
    }

    fn show(&self, value: &f64) -> String {
        value.to_string()
    }

    fn allowed(&self) -> String {
        "percent, a number from 0 to 100".to_owned()
    }
}

/// `true` or `false`; HOCON also knows yes, on, no and off.
pub(super) struct Flag;

impl Kind for Flag {
    type Value = bool;

    fn parse(&self, text: &str) -> Option<bool> {
        match text {
            "true" | "yes" | "on" => Some(true),
            "false" | "no" | "off" => Some(false),
            _ => None,
        }
    }

    fn allows(&self, _: &bool) -> bool {
        true
    }

    fn show(&self, value: &bool) -> String {
        value.to_string()
    }

    fn allowed(&self) -> String {
        "true or false".to_owned()
    }
}

/// A time span in a range, always written with its unit.
pub(super) struct Span(pub(super) RangeInclusive<Duration>);

impl Kind for Span {
    type Value = Duration;

    fn parse(&self, text: &str) -> Option<Duration> {
        #[derive(Deserialize)]
        struct Parsed(#[serde(with = "hocon::serde::duration::require_unit")] Duration);
        hocon::from_value::<Parsed>(&scalar(text)).ok().map(|parsed| parsed.0)
    }

    fn allows(&self, value: &Duration) -> bool {
        self.0.contains(value)
    }

    fn show(&self, value: &Duration) -> String {
        duration(*value)
    }

    fn allowed(&self) -> String {
        let (least, most) = (duration(*self.0.start()), duration(*self.0.end()));
        format!("a duration with its unit, {least} to {most}")
    }
}

/// A duration in the largest unit that divides it.
pub(super) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if duration.subsec_nanos() != 0 {
        return format!("{duration:?}");
    }
    let units = [(24 * 60 * 60, "d"), (60 * 60, "h"), (60, "m"), (1, "s")];
    let unit = units
        .iter()
        .find(|(length, _)| *length == 1 || (seconds >= *length && seconds.is_multiple_of(*length)));
    unit.map_or_else(|| format!("{duration:?}"), |(length, name)| format!("{}{name}", seconds / length))
}

/// An amount of data in a range: bytes, or a number with a unit.
pub(super) struct Bytes(pub(super) RangeInclusive<u64>);

impl Kind for Bytes {
    type Value = u64;

    fn parse(&self, text: &str) -> Option<u64> {
        #[derive(Deserialize)]
        struct Parsed(#[serde(with = "hocon::serde::bytes")] u64);
        whole_number(text).or_else(|| hocon::from_value::<Parsed>(&scalar(text)).ok().map(|parsed| parsed.0))
    }

    fn allows(&self, value: &u64) -> bool {
        self.0.contains(value)
    }

    fn show(&self, value: &u64) -> String {
        let units = [(1u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")];
        let unit = units.iter().find(|(size, _)| *value >= *size && value.is_multiple_of(*size));
        unit.map_or_else(|| format!("{value}B"), |(size, name)| format!("{}{name}", value / size))
    }

    fn allowed(&self) -> String {
        let (least, most) = (self.show(self.0.start()), self.show(self.0.end()));
        format!("bytes, or a size with its unit, {least} to {most}")
    }
}

fn scalar(text: &str) -> HoconValue {
    HoconValue::Scalar(ScalarValue::string(text.to_owned()))
}

/// One of some words.
pub(super) struct Choice<T: 'static>(pub(super) &'static [(&'static str, T)]);

impl<T: Copy> Kind for Choice<T> {
    type Value = T;

    fn parse(&self, text: &str) -> Option<T> {
        self.0.iter().find(|(word, _)| *word == text).map(|(_, value)| *value)
    }

    fn allows(&self, _: &T) -> bool {
        true
    }

    fn show(&self, _: &T) -> String {
        String::new()
    }

    fn allowed(&self) -> String {
        let words: Vec<_> = self.0.iter().map(|(word, _)| *word).collect();
        words.join(", ")
    }
}

/// How many events of a shard are under way at once; the number of keys is in a range.
pub(super) struct AtOnce(pub(super) RangeInclusive<usize>);

impl Kind for AtOnce {
    type Value = Concurrency;

    fn parse(&self, text: &str) -> Option<Concurrency> {
        match text {
            "none" => Some(Concurrency::None),
            "shard" => Some(Concurrency::Shard),
            _ => {
                let keys = text.strip_prefix("key(")?.strip_suffix(')')?;
                Some(Concurrency::Key(keys.trim().parse().ok()?))
            }
        }
    }

    fn allows(&self, value: &Concurrency) -> bool {
        match value {
            Concurrency::None | Concurrency::Shard => true,
            Concurrency::Key(keys) => self.0.contains(keys),
        }
    }

    fn show(&self, value: &Concurrency) -> String {
        match value {
            Concurrency::None => "none".to_owned(),
            Concurrency::Shard => "shard".to_owned(),
            Concurrency::Key(keys) => format!("key({keys})"),
        }
    }

    fn allowed(&self) -> String {
        format!("none, shard, key(n) with n from {} to {}", self.0.start(), self.0.end())
    }
}

/// An instant. Without an offset a time means another instant in every time zone, so that one is required.
pub(super) struct Instant;

impl Kind for Instant {
    type Value = SystemTime;

    fn parse(&self, text: &str) -> Option<SystemTime> {
        OffsetDateTime::parse(text, &Rfc3339).ok().map(SystemTime::from)
    }

    fn allows(&self, _: &SystemTime) -> bool {
        true
    }

    fn show(&self, value: &SystemTime) -> String {
        format!("{value:?}")
    }

    fn allowed(&self) -> String {
        "an RFC 3339 time with its offset, such as 2026-05-01T00:00:00Z or 2026-05-01T05:45:00+05:45"
            .to_owned()
    }
}

/// Any text that is not empty.
pub(super) struct Text;

impl Kind for Text {
    type Value = String;

    fn parse(&self, text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn allows(&self, value: &String) -> bool {
        !value.trim().is_empty()
    }

    fn show(&self, value: &String) -> String {
        quoted(value)
    }

    fn allowed(&self) -> String {
        "a text that is not empty".to_owned()
    }
}

/// The name of a stream or a table, of a length in a range.
pub(super) struct Name(pub(super) RangeInclusive<usize>);

impl Kind for Name {
    type Value = String;

    fn parse(&self, text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn allows(&self, value: &String) -> bool {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        self.0.contains(&value.len()) && value.bytes().all(known)
    }

    fn show(&self, value: &String) -> String {
        quoted(value)
    }

    fn allowed(&self) -> String {
        format!("{} to {} of the characters a-z A-Z 0-9 _ . -", self.0.start(), self.0.end())
    }
}

/// The address of a service.
pub(super) struct Url;

impl Kind for Url {
    type Value = String;

    fn parse(&self, text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn allows(&self, value: &String) -> bool {
        let host = value.strip_prefix("https://").or_else(|| value.strip_prefix("http://"));
        host.is_some_and(|host| !host.is_empty() && !host.contains(char::is_whitespace))
    }

    fn show(&self, value: &String) -> String {
        quoted(value)
    }

    fn allowed(&self) -> String {
        "an address such as \"https://localhost:4566\", in quotes, as // begins a comment".to_owned()
    }
}

/// A text for an error.
pub(super) fn quoted(text: &str) -> String {
    if text.trim().is_empty() { EMPTY.to_owned() } else { format!("{text:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_may_have_an_exponent_but_no_fraction() {
        for (text, number) in [("150", 150), ("150.0", 150), ("1e3", 1000), ("007", 7)] {
            assert_eq!(Whole(0..=1000u32).parse(text), Some(number), "{text}");
        }
        for text in ["", "-1", "150.5", "1e99", "NaN", "inf", "1_000", "10 000", "0x10", "4294967296"] {
            assert_eq!(Whole(0..=u32::MAX).parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_duration_needs_its_unit() {
        let span = Span(Duration::ZERO..=Duration::MAX);
        let spans =
            [("10s", 10_000), ("10 seconds", 10_000), ("0.5s", 500), ("2000ms", 2000), ("10m", 600_000)];
        for (text, millis) in spans {
            assert_eq!(span.parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "10", "1e3", "-5s", "s", "10S", "10 parsecs"] {
            assert_eq!(span.parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn sizes_are_bytes_unless_a_unit_is_named() {
        let bytes = Bytes(0..=u64::MAX);
        let sizes = [("64MiB", 64 << 20), ("64MB", 64_000_000), ("1048576", 1 << 20), ("1e6", 1_000_000)];
        for (text, size) in sizes {
            assert_eq!(bytes.parse(text), Some(size), "{text}");
        }
        for text in ["", "-1", "-1MiB", "64XB", "MiB"] {
            assert_eq!(bytes.parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn errors_show_values_as_they_are_written() {
        let texts =
            [(600_000, "10m"), (86_400_000, "1d"), (1500, "1.5s"), (90_000, "90s"), (10, "10ms"), (0, "0s")];
        for (millis, text) in texts {
            assert_eq!(duration(Duration::from_millis(millis)), text);
        }
        let bytes = Bytes(0..=u64::MAX);
        for (size, text) in [(64 << 20, "64MiB"), (1 << 40, "1TiB"), (1025, "1025B"), (0, "0B")] {
            assert_eq!(bytes.show(&size), text);
        }
    }

    #[test]
    fn an_instant_needs_its_offset() {
        let utc = Instant.parse("2026-05-01T00:00:00Z");
        assert!(utc.is_some());
        assert_eq!(Instant.parse("2026-05-01T05:45:00+05:45"), utc);
        for text in ["", "2026-05-01T00:00:00", "2026-05-01", "1777593600", "now"] {
            assert_eq!(Instant.parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn addresses_have_a_scheme_and_a_host() {
        for text in ["http://localhost:4566", "https://kinesis.eu-west-1.amazonaws.com"] {
            assert!(Url.allows(&text.to_owned()), "{text}");
        }
        for text in ["", "http:", "https://", "localhost:4566", "ftp://host", "http://a b"] {
            assert!(!Url.allows(&text.to_owned()), "{text:?}");
        }
    }
}
