//! Conditional writes to a row.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure};
use kinesis_lease::{LeaseChange, LeaseWrite, WorkerId};
use kinesis_record::Checkpoint;

use super::row::{self, Item};

/// What tells of a hand-over.
const HAND_OVER: [&str; 3] = [row::CHECKPOINT_OWNER, row::HAND_OVER_TO, row::HAND_OVER_OFFERED];

/// The request for `write`. It names the attributes that it changes and leaves all others as they are, those of
/// other KCL versions included; it holds only while the counter is as expected, and so never makes a row.
pub(super) fn request(client: &Client, table: &str, write: &LeaseWrite) -> UpdateItemFluentBuilder {
    let update = Update::of(write);
    client
        .update_item()
        .table_name(table)
        .key(row::LEASE_KEY, row::text(write.shard.as_str()))
        .update_expression(update.expression())
        .condition_expression(update.condition)
        .set_expression_attribute_names(Some(update.names))
        .set_expression_attribute_values(Some(update.values))
        .return_values(ReturnValue::AllNew)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
}

/// An update expression with its condition. An attribute `x` is named `#x` and its new value `:x`, so that no name
/// can be one of DynamoDB's reserved words.
#[derive(Default)]
struct Update {
    condition: String,
    set: Vec<String>,
    remove: Vec<String>,
    add: Vec<String>,
    names: HashMap<String, String>,
    values: Item,
}

impl Update {
    fn of(write: &LeaseWrite) -> Self {
        let mut update = Self::default();
        update.fence(write.expected_counter);
        if write.change.raises_counter() {
            update.raise_counter();
        }
        match &write.change {
            LeaseChange::Renew => {}
            LeaseChange::Take { owner, token, owner_switches } => {
                update.set(row::LEASE_OWNER, row::text(owner.as_str()));
                update.set(row::TOKEN, row::text(token));
                update.remove(&HAND_OVER);
                update.add(row::OWNER_SWITCHES, *owner_switches);
            }
            LeaseChange::Checkpoint(checkpoint) => update.checkpoint(checkpoint),
            LeaseChange::End { children } => {
                update.checkpoint(&Checkpoint::ShardEnd);
                if let Some(children) = row::shards(children) {
                    update.set(row::CHILDREN, children);
                }
            }
            LeaseChange::BeginAnew(checkpoint) => {
                update.require(&format!("#{} = :end", row::CHECKPOINT));
                update.set_checkpoint(checkpoint);
                update.remove(&[row::LEASE_OWNER, row::TOKEN, row::CHILDREN]);
                update.remove(&HAND_OVER);
            }
            LeaseChange::Release => {
                update.remove(&[row::LEASE_OWNER, row::TOKEN]);
                update.remove(&HAND_OVER);
            }
            LeaseChange::HandOver => {
                update.remove(&[row::TOKEN]);
                update.remove(&HAND_OVER);
            }
            LeaseChange::Ask { by } => {
                // What is no text asks for nothing, see the reading of rows.
                let asked = row::HAND_OVER_TO;
                update.require(&format!(
                    "(attribute_not_exists(#{asked}) OR NOT attribute_type(#{asked}, :text))"
                ));
                update.values.insert(":text".to_owned(), row::text("S"));
                update.set(row::HAND_OVER_TO, row::text(by.as_str()));
            }
            LeaseChange::Withdraw { by } => {
                update.require_asked_by(by);
                update.remove(&[row::HAND_OVER_TO]);
            }
            LeaseChange::Offer => update.set(row::HAND_OVER_OFFERED, AttributeValue::Bool(true)),
            LeaseChange::Keep => update.remove(&[row::HAND_OVER_OFFERED]),
            LeaseChange::Give { to, token } => {
                update.require_asked_by(to);
                update.set(row::LEASE_OWNER, row::text(to.as_str()));
                update.set(row::TOKEN, row::text(token));
                update.remove(&HAND_OVER);
                update.add(row::OWNER_SWITCHES, 1);
            }
        }
        update
    }

    fn fence(&mut self, expected: i64) {
        let counter = self.name(row::LEASE_COUNTER);
        self.condition = format!("{counter} = :expected");
        self.values.insert(":expected".to_owned(), row::number(expected));
    }

    fn raise_counter(&mut self) {
        let counter = self.name(row::LEASE_COUNTER);
        self.set.push(format!("{counter} = {counter} + :one"));
        self.values.insert(":one".to_owned(), row::number(1));
    }

    fn require(&mut self, condition: &str) {
        self.condition.push_str(&format!(" AND {condition}"));
    }

    fn require_asked_by(&mut self, worker: &WorkerId) {
        self.require(&format!("#{} = :asker", row::HAND_OVER_TO));
        self.values.insert(":asker".to_owned(), row::text(worker.as_str()));
    }

    /// A checkpoint, which a row at `SHARD_END` does not take any more.
    fn checkpoint(&mut self, checkpoint: &Checkpoint) {
        self.require(&format!("#{} <> :end", row::CHECKPOINT));
        self.set_checkpoint(checkpoint);
    }

    fn set_checkpoint(&mut self, checkpoint: &Checkpoint) {
        self.values.insert(":end".to_owned(), row::text(Checkpoint::ShardEnd.text()));
        self.set(row::CHECKPOINT, row::text(checkpoint.text()));
        self.set(row::CHECKPOINT_SUB_SEQUENCE, row::number(checkpoint.sub_sequence()));
        self.set(row::OWNER_SWITCHES, row::number(0));
        self.remove(&[row::PENDING_CHECKPOINT, row::PENDING_SUB_SEQUENCE, row::PENDING_STATE]);
    }

    fn set(&mut self, attribute: &str, value: AttributeValue) {
        let name = self.name(attribute);
        self.set.push(format!("{name} = :{attribute}"));
        self.values.insert(format!(":{attribute}"), value);
    }

    fn remove(&mut self, attributes: &[&str]) {
        for attribute in attributes {
            let name = self.name(attribute);
            self.remove.push(name);
        }
    }

    fn add(&mut self, attribute: &str, amount: i64) {
        let name = self.name(attribute);
        self.add.push(format!("{name} :{attribute}"));
        self.values.insert(format!(":{attribute}"), row::number(amount));
    }

    fn name(&mut self, attribute: &str) -> String {
        let name = format!("#{attribute}");
        self.names.insert(name.clone(), attribute.to_owned());
        name
    }

    fn expression(&self) -> String {
        let clauses = [("SET", &self.set), ("REMOVE", &self.remove), ("ADD", &self.add)];
        let clauses = clauses.into_iter().filter(|(_, parts)| !parts.is_empty());
        clauses.map(|(clause, parts)| format!("{clause} {}", parts.join(", "))).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(change: LeaseChange) -> Update {
        Update::of(&LeaseWrite { shard: "shardId-0".into(), expected_counter: 7, change })
    }

    #[test]
    fn a_renewal_raises_the_counter_on_condition_of_the_counter_and_does_nothing_else() {
        let renew = update(LeaseChange::Renew);
        assert_eq!(renew.expression(), "SET #leaseCounter = #leaseCounter + :one");
        assert_eq!(renew.condition, "#leaseCounter = :expected");
        assert_eq!(renew.values[":expected"], row::number(7));
    }

    #[test]
    fn every_name_and_every_value_of_an_update_is_used() {
        let changes = [
            LeaseChange::Renew,
            LeaseChange::Take { owner: "a".into(), token: "t".to_owned(), owner_switches: 1 },
            LeaseChange::Checkpoint(Checkpoint::TrimHorizon),
            LeaseChange::End { children: vec!["shardId-1".into()] },
            LeaseChange::End { children: Vec::new() },
            LeaseChange::BeginAnew(Checkpoint::TrimHorizon),
            LeaseChange::Release,
            LeaseChange::HandOver,
            LeaseChange::Ask { by: "a".into() },
            LeaseChange::Withdraw { by: "a".into() },
            LeaseChange::Offer,
            LeaseChange::Keep,
            LeaseChange::Give { to: "a".into(), token: "t".to_owned() },
        ];
        for change in changes {
            let update = update(change.clone());
            let text = format!("{} {}", update.expression(), update.condition);
            for name in update.names.keys().chain(update.values.keys()) {
                assert!(text.contains(name.as_str()), "{name} of {change:?}");
            }
        }
    }
}
