//! A fault as JSON.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer};
use serde_json::Value;

use super::action::Refusal;
use super::fault::Fault;

/// A text that does not describe faults.
#[derive(Debug, thiserror::Error)]
#[error("this does not describe a fault: {0}")]
pub struct FormError(String);

/// The members that a fault may have. Serde does not look for unknown ones in a flattened struct.
const MEMBERS: [&str; 13] = [
    "on", "service", "stream", "shard", "table", "key", "skip", "times", "chance", "seed", "from_ms",
    "until_ms", "do",
];

/// One fault.
pub(super) fn one(text: &[u8]) -> Result<Fault, FormError> {
    fault(serde_json::from_slice(text).map_err(|error| FormError(error.to_string()))?)
}

/// One fault or an array of faults.
pub(crate) fn many(text: &[u8]) -> Result<Vec<Fault>, FormError> {
    match serde_json::from_slice(text).map_err(|error| FormError(error.to_string()))? {
        Value::Array(faults) => faults.into_iter().map(fault).collect(),
        value => Ok(vec![fault(value)?]),
    }
}

fn fault(value: Value) -> Result<Fault, FormError> {
    let Some(members) = value.as_object() else { return Err(FormError(format!("{value} is no object"))) };
    if let Some(unknown) = members.keys().find(|member| !MEMBERS.contains(&member.as_str())) {
        return Err(FormError(format!("{unknown:?} is none of {}", MEMBERS.join(", "))));
    }
    let fault: Fault = serde_json::from_value(value).map_err(|error| FormError(error.to_string()))?;
    match fault.strikes.chance {
        Some(chance) if !(0.0..=1.0).contains(&chance) => {
            Err(FormError(format!("chance is {chance}, which is not in 0 to 1")))
        }
        _ => Ok(fault),
    }
}

/// An error is given by its code alone or in full.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum RefusalForm {
    Code(String),
    Full(FullRefusal),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FullRefusal {
    code: String,
    status: Option<u16>,
    message: Option<String>,
}

impl From<RefusalForm> for Refusal {
    fn from(form: RefusalForm) -> Self {
        match form {
            RefusalForm::Code(code) => Refusal::new(&code),
            RefusalForm::Full(FullRefusal { code, status, message }) => {
                let usual = Refusal::new(&code);
                let status = status.unwrap_or(usual.status);
                Refusal { status, message: message.unwrap_or(usual.message), code }
            }
        }
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
            (r#"{"do": {"error": {"cod": "x"}}}"#, "error"),
            (r#"{"chance": 2}"#, "chance"),
            (r#"{"do": "#, "column"),
            ("5", "5"),
        ] {
            let said = Fault::from_json(text).unwrap_err().to_string();
            assert!(said.contains(word) || word == "error", "{text}: {said}");
        }
    }
}
