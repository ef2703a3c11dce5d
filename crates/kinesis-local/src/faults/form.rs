//! A fault as JSON.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer};
use serde_json::Value;

use super::action::Refusal;
use super::check::FaultError;
use super::fault::Fault;

/// The members that a fault may have. Serde does not look for unknown ones in a flattened struct.
const MEMBERS: [&str; 13] = [
    "on", "service", "stream", "shard", "table", "key", "skip", "times", "chance", "seed", "from_ms",
    "until_ms", "do",
];

/// One fault.
pub(super) fn one(text: &[u8]) -> Result<Fault, FaultError> {
    fault(serde_json::from_slice(text).map_err(form_error)?)
}

/// One fault or an array of faults.
pub(crate) fn many(text: &[u8]) -> Result<Vec<Fault>, FaultError> {
    match serde_json::from_slice(text).map_err(form_error)? {
        Value::Array(faults) => {
            let all = faults.len();
            let numbered = (1..).zip(faults);
            numbered.map(|(number, value)| fault(value).map_err(|error| error.of(number, all))).collect()
        }
        value => Ok(vec![fault(value)?]),
    }
}

fn form_error(error: serde_json::Error) -> FaultError {
    FaultError::new(format!("this does not describe a fault: {error}"))
}

fn fault(value: Value) -> Result<Fault, FaultError> {
    let Some(members) = value.as_object() else {
        return Err(FaultError::new(format!("this does not describe a fault: {value} is no object")));
    };
    if let Some(unknown) = members.keys().find(|member| !MEMBERS.contains(&member.as_str())) {
        return Err(FaultError::new(format!("{unknown:?} is none of {}", MEMBERS.join(", "))));
    }
    let fault: Fault = serde_json::from_value(value).map_err(form_error)?;
    fault.check()?;
    Ok(fault)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FullRefusal {
    code: String,
    status: Option<u16>,
    message: Option<String>,
}

impl TryFrom<Value> for Refusal {
    type Error = serde_json::Error;

    /// An error is given by its code alone or in full.
    fn try_from(form: Value) -> Result<Self, Self::Error> {
        if let Value::String(code) = form {
            return Ok(Self::from(code));
        }
        let FullRefusal { code, status, message } = serde_json::from_value(form)?;
        let usual = Self::new(&code);
        let status = status.unwrap_or(usual.status);
        Ok(Self { status, message: message.unwrap_or(usual.message), code })
    }
}

/// A span of time in milliseconds.
pub(super) mod millis {
    use super::{Deserialize, Deserializer, Duration, Serializer};

    pub(in crate::faults) fn serialize<S: Serializer>(
        span: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
    }

    pub(in crate::faults) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

/// A span of time in milliseconds, or none.
pub(super) mod optional_millis {
    use super::{Deserialize, Deserializer, Duration, Serializer, millis};

    pub(in crate::faults) fn serialize<S: Serializer>(
        span: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match span {
            Some(span) => millis::serialize(span, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(in crate::faults) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::faults::{Action, Service};

    #[test]
    fn the_json_form_says_all_that_can_be_said_in_rust_but_functions() {
        let second = Duration::from_secs(1);
        let refusal = Refusal::new("KMSThrottlingException").status(429).message("later");
        let faults = [
            Fault::on_any(),
            Fault::on("GetRecords").stream("flights").shard("shardId-000000000000").skip(1).times(2).hang(),
            Fault::on("UpdateItem").service(Service::DynamoDb).table("leases").key("a").lose_reply(),
            Fault::on("PutRecord").chance(0.5).seed(7).from(second).until(second * 2).reset(),
            Fault::on("PutRecords").error(refusal.clone()),
            Fault::on("PutRecords").error_after("InternalFailure"),
            Fault::on("PutRecords").fail_records([0, 499]),
            Fault::on("GetRecords").expire_iterators(second),
            Fault::on("GetRecords").delay(second),
            Fault::on("GetRecords").merge(json!({"NextShardIterator": null})),
            Fault::on("ListShards").hide_shards(["a"]),
            Fault::on("ListShards").first_shards(2),
            Fault::on("ListShards").stale_shards(),
        ];
        for fault in faults {
            let text = serde_json::to_string(&fault).unwrap();
            assert_eq!(Fault::from_json(&text).unwrap(), fault, "{text}");
        }
    }

    #[test]
    fn a_fault_is_written_as_the_readme_says() {
        let text = r#"{"on": "PutRecords", "times": 3, "do": {"error": "InternalFailure"}}"#;
        let fault = Fault::from_json(text).unwrap();
        assert_eq!(fault, Fault::on("PutRecords").times(3).error("InternalFailure"));
        let text = r#"{"on": "PutRecords", "do": {"fail_records": {"places": [1]}}}"#;
        assert_eq!(Fault::from_json(text).unwrap().action, Action::fail_records(vec![1]));
        let text = r#"[{"on": "Scan", "do": "hang"}, {"do": {"delay_ms": 250}}]"#;
        assert_eq!(many(text.as_bytes()).unwrap().len(), 2);
    }

    #[test]
    fn what_is_misspelt_is_refused_with_its_name() {
        for (text, word) in [
            (r#"{"on": "Scan", "time": 3}"#, "time"),
            (r#"{"do": "hangs"}"#, "hangs"),
            (r#"{"do": {"error": {"cod": "x"}}}"#, "cod"),
            (r#"{"do": {"fail_records": {"places": [1], "cod": "x"}}}"#, "cod"),
            (r#"{"do": {"fail_records": {"places": [1], "code": "Busy"}}}"#, "Busy"),
            (r#"{"do": {"delay_ms": 5, "error": "x"}}"#, "do"),
            (r#"{"chance": 2}"#, "chance"),
            (r#"{"do": "#, "column"),
            ("5", "5"),
        ] {
            let said = Fault::from_json(text).unwrap_err().to_string();
            assert!(said.contains(word), "{text}: {said}");
        }
    }
}
