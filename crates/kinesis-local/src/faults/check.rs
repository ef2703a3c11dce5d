//! Which faults could never strike.

use super::action::{Action, Refusal};
use super::fault::Fault;
use super::selector::Service;
use crate::model::Operation;

/// What DynamoDB serves, with its streams.
const DYNAMODB: [&str; 28] = [
    "BatchExecuteStatement",
    "BatchGetItem",
    "BatchWriteItem",
    "CreateTable",
    "DeleteItem",
    "DeleteTable",
    "DescribeStream",
    "DescribeTable",
    "DescribeTimeToLive",
    "ExecuteStatement",
    "ExecuteTransaction",
    "GetItem",
    "GetRecords",
    "GetShardIterator",
    "ListStreams",
    "ListTables",
    "ListTagsOfResource",
    "PutItem",
    "Query",
    "Scan",
    "SearchVectors",
    "TagResource",
    "TransactGetItems",
    "TransactWriteItems",
    "UntagResource",
    "UpdateItem",
    "UpdateTable",
    "UpdateTimeToLive",
];

/// The operations of Kinesis whose requests name a shard.
const ABOUT_SHARDS: [&str; 5] =
    ["GetRecords", "GetShardIterator", "MergeShards", "SplitShard", "SubscribeToShard"];

/// The operations of DynamoDB whose requests name an item.
const ABOUT_KEYS: [&str; 8] = [
    "BatchGetItem",
    "BatchWriteItem",
    "DeleteItem",
    "GetItem",
    "PutItem",
    "TransactGetItems",
    "TransactWriteItems",
    "UpdateItem",
];

/// Statuses that a reply can end with.
const STATUSES: std::ops::RangeInclusive<u16> = 200..=999;

/// Why something is no fault: a text that does not describe one, or a fault that could never strike.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FaultError(String);

impl FaultError {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    /// With the fault's number among all that came together.
    pub(super) fn of(self, number: usize, all: usize) -> Self {
        Self(format!("fault {number} of {all}: {}", self.0))
    }
}

fn serves(service: Service, operation: &str) -> bool {
    match service {
        Service::Kinesis => Operation::named(operation).is_some(),
        Service::DynamoDb => DYNAMODB.contains(&operation),
    }
}

/// Refuses an operation that none of `services` has.
fn check_operation(operation: &str, services: &[Service]) -> Result<(), FaultError> {
    if services.iter().any(|service| serves(*service, operation)) {
        return Ok(());
    }
    let kinesis = Operation::ALL.iter().map(|operation| operation.name());
    let all = kinesis.chain(DYNAMODB).filter(|name| services.iter().any(|service| serves(*service, name)));
    let likeness = |name: &str| strsim::jaro_winkler(&name.to_lowercase(), &operation.to_lowercase());
    let nearest = all.max_by(|one, other| likeness(one).total_cmp(&likeness(other))).unwrap_or_default();
    let services: Vec<String> = services.iter().map(Service::to_string).collect();
    Err(FaultError(format!(
        "{} has no operation {operation:?}; the nearest is {nearest}",
        services.join(" or ")
    )))
}

impl Fault {
    /// Refuses a fault that could never strike.
    pub(crate) fn check(&self) -> Result<(), FaultError> {
        self.check_selector()?;
        self.check_strikes()?;
        self.check_action()
    }

    fn check_selector(&self) -> Result<(), FaultError> {
        let named = &self.selector;
        let of_kinesis = named.stream.is_some() || named.shard.is_some();
        let of_dynamodb = named.table.is_some() || named.key.is_some();
        let excludes = |service| match service {
            Service::Kinesis => of_dynamodb,
            Service::DynamoDb => of_kinesis,
        };
        let mut services = vec![Service::Kinesis, Service::DynamoDb];
        services.retain(|service| named.service.is_none_or(|wanted| wanted == *service));
        services.retain(|service| !excludes(*service));
        if services.is_empty() {
            return Err(FaultError::new(
                "no call is meant: stream and shard are of Kinesis, table and key of DynamoDB",
            ));
        }
        let Some(operation) = named.operation.as_deref() else { return Ok(()) };
        check_operation(operation, &services)?;
        if named.shard.is_some() && !ABOUT_SHARDS.contains(&operation) {
            return Err(FaultError(format!(
                "a request of {operation} names no shard, only those of {}",
                ABOUT_SHARDS.join(", ")
            )));
        }
        if named.key.is_some() && !ABOUT_KEYS.contains(&operation) {
            return Err(FaultError(format!(
                "a request of {operation} names no key, only those of {}",
                ABOUT_KEYS.join(", ")
            )));
        }
        Ok(())
    }

    fn check_strikes(&self) -> Result<(), FaultError> {
        let strikes = &self.strikes;
        if let Some(chance) = strikes.chance
            && !(0.0..=1.0).contains(&chance)
        {
            return Err(FaultError(format!("chance is {chance}, which is not in 0 to 1")));
        }
        match strikes.until {
            Some(until) if until <= strikes.from => Err(FaultError(format!(
                "the window is over before it begins: until is {until:?}, from is {:?}",
                strikes.from
            ))),
            _ => Ok(()),
        }
    }

    fn check_action(&self) -> Result<(), FaultError> {
        match &self.action {
            Action::Error(Refusal { status, .. }) | Action::ErrorAfter(Refusal { status, .. })
                if !STATUSES.contains(status) =>
            {
                return Err(FaultError(format!("status is {status}, which is not in 200 to 999")));
            }
            Action::FailRecords { places, .. } if places.is_empty() => {
                return Err(FaultError::new("fail_records has no places"));
            }
            Action::HideShards(ids) if ids.is_empty() => {
                return Err(FaultError::new("hide_shards has no shards"));
            }
            _ => {}
        }
        let Some(operations) = self.action.operations() else { return Ok(()) };
        let named = &self.selector;
        let suits = named.operation.as_deref().is_none_or(|operation| operations.contains(&operation))
            && named.service != Some(Service::DynamoDb)
            && named.table.is_none()
            && named.key.is_none()
            && (named.shard.is_none() || operations.iter().any(|known| ABOUT_SHARDS.contains(known)));
        if suits {
            return Ok(());
        }
        Err(FaultError(format!(
            "what it does suits only {} of Kinesis{}",
            operations.join(" and "),
            if named.shard.is_some() { ", for a stream and not for a shard" } else { "" }
        )))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn refused(fault: &Fault) -> String {
        fault.check().unwrap_err().to_string()
    }

    #[test]
    fn an_operation_that_no_service_has_is_refused_with_the_nearest() {
        for (misspelt, nearest) in [
            ("GetRecord", "GetRecords"),
            ("getrecords", "GetRecords"),
            ("UpdateItems", "UpdateItem"),
            ("ListShard", "ListShards"),
        ] {
            let said = refused(&Fault::on(misspelt).hang());
            assert!(said.contains(misspelt) && said.ends_with(nearest), "{said}");
        }
        let said = refused(&Fault::on("PutRecord").service(Service::DynamoDb).hang());
        assert!(said.starts_with("DynamoDB has no operation"), "{said}");
    }

    #[test]
    fn a_selector_that_meets_no_call_is_refused() {
        for (fault, word) in [
            (Fault::on_any().service(Service::Kinesis).table("leases"), "table"),
            (Fault::on_any().service(Service::DynamoDb).stream("flights"), "stream"),
            (Fault::on_any().stream("flights").key("a"), "key"),
            (Fault::on("UpdateItem").stream("flights"), "Kinesis has no operation"),
            (Fault::on("PutRecord").shard("shardId-000000000000"), "no shard"),
            (Fault::on("Scan").key("a"), "no key"),
        ] {
            let said = refused(&fault);
            assert!(said.contains(word), "{said}");
        }
    }

    #[test]
    fn an_action_that_does_not_suit_the_call_is_refused() {
        let shard = "shardId-000000000000";
        for (fault, word) in [
            (Fault::on("ListStreams").empty_page(), "GetRecords"),
            (Fault::on("PutRecord").fail_records([0]), "PutRecords"),
            (Fault::on("Scan").first_shards(1), "ListShards and DescribeStream"),
            (Fault::on_any().service(Service::DynamoDb).stale_shards(), "Kinesis"),
            (Fault::on_any().shard(shard).stale_shards(), "not for a shard"),
            (Fault::on("PutRecords").fail_records([]), "places"),
            (Fault::on("ListShards").hide_shards([]), "shards"),
        ] {
            let said = refused(&fault);
            assert!(said.contains(word), "{said}");
        }
        Fault::on_any().shard(shard).empty_page().check().unwrap();
    }

    #[test]
    fn a_window_a_chance_and_a_status_out_of_range_are_refused() {
        let second = Duration::from_secs(1);
        for (fault, word) in [
            (Fault::on("Scan").from(second * 2).until(second), "until is 1s, from is 2s"),
            (Fault::on("Scan").until(Duration::ZERO), "window"),
            (Fault::on("Scan").chance(f64::NAN), "chance"),
            (Fault::on("Scan").error(Refusal::new("Busy").status(99)), "status is 99"),
            (Fault::on("Scan").error_after(Refusal::new("Busy").status(100)), "status is 100"),
        ] {
            let said = refused(&fault);
            assert!(said.contains(word), "{said}");
        }
    }

    #[test]
    fn every_operation_is_known_with_the_service_that_has_it() {
        for operation in Operation::ALL {
            Fault::on(operation.name()).service(Service::Kinesis).check().unwrap();
        }
        for operation in DYNAMODB {
            Fault::on(operation).service(Service::DynamoDb).check().unwrap();
        }
    }
}
