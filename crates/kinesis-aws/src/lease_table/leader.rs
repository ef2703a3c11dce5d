//! What a KCL 3.x keeps beside its leases: the reports of its workers, and the lock of its leader.
//!
//! Up to 3.4 they are in two tables of their own, from 3.5 on in rows of the lease table. Neither is ever made here.

use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::AttributeValue;
use futures::{StreamExt, stream};
use kinesis_lease::store::{LeaderPulse, Reported};
use kinesis_lease::{StoreError, WorkerId};
use kinesis_record::ShardId;

use super::error::Call;
use super::row::Item;
use super::{DynamoLeaseStore, row};

/// The key of the leader's lock.
const LEADER: &str = "Leader";
/// Changes each half minute while the leader lives.
const LOCK_VERSION: &str = "recordVersionNumber";
/// Text, in milliseconds.
const LOCK_DURATION: &str = "leaseDuration";
/// As the KCL sets it, and what is believed of another value.
const USUAL_DURATION: Duration = Duration::from_secs(120);
const LONGEST_DURATION: Duration = Duration::from_secs(600);

/// What tells of a KCL 3.5 that keeps everything in the lease table: rows of these kinds. Reports are none of them, since
/// those are written here, too.
pub(super) const ONE_TABLE: [&str; 3] = ["LEADER", "CLIENT_VERSION_MIGRATION", "TABLE_MIGRATION"];

/// How many leases are told of at once.
const SHARDS_AT_ONCE: usize = 16;

/// Where a KCL 3.x keeps it.
struct Places {
    workers: String,
    worker_key: &'static str,
    state: String,
    state_key: &'static str,
    /// Whether all of it is in the lease table.
    is_one_table: bool,
}

impl Places {
    fn of(store: &DynamoLeaseStore) -> Self {
        let table = &store.table;
        if store.is_one_table() {
            return Self {
                workers: table.clone(),
                worker_key: row::LEASE_KEY,
                state: table.clone(),
                state_key: row::LEASE_KEY,
                is_one_table: true,
            };
        }
        Self {
            workers: format!("{table}-WorkerMetricStats"),
            worker_key: "wid",
            state: format!("{table}-CoordinatorState"),
            state_key: "key",
            is_one_table: false,
        }
    }
}

impl DynamoLeaseStore {
    /// A report without figures of the worker itself: the leader then goes by the throughput of its leases.
    pub(super) async fn report_worker(
        &self,
        worker: &WorkerId,
        wants_leases: bool,
    ) -> Result<Reported, StoreError> {
        let places = Places::of(self);
        let Some(leader) = self.leader(&places).await? else { return Ok(Reported::Unwanted) };
        if !wants_leases {
            return Ok(Reported::Stored(leader));
        }
        match self.worker_row(&places, worker).send().await {
            Ok(_) => Ok(Reported::Stored(leader)),
            Err(error) => match error.as_service_error() {
                Some(refused) if refused.is_resource_not_found_exception() => Ok(Reported::Unwanted),
                Some(refused) if refused.is_conditional_check_failed_exception() => {
                    Err(self.call_of(&places.workers, "UpdateItem").misnamed())
                }
                _ => Err(self.call_of(&places.workers, "UpdateItem").failed(&error)),
            },
        }
    }

    fn worker_row(&self, places: &Places, worker: &WorkerId) -> UpdateItemFluentBuilder {
        let empty = || AttributeValue::M(Item::new());
        let mut set = vec![("lut", seconds()), ("sts", empty()), ("opr", empty())];
        let mut request = self.rows.update_item().table_name(&places.workers);
        if places.is_one_table {
            // The support code 1 tells that the worker knows of rows that are no leases.
            set.extend([("entityType", row::text("WORKER_METRIC_STATS"))]);
            set.extend([("sup", row::number(1)), ("slu", seconds())]);
            request = request.condition_expression(NO_LEASE);
        }
        let clauses: Vec<_> = set.iter().map(|(name, _)| format!("#{name} = :{name}")).collect();
        request = request.key(places.worker_key, row::text(worker.as_str()));
        for (name, value) in set {
            request = request
                .expression_attribute_names(format!("#{name}"), name)
                .expression_attribute_values(format!(":{name}"), value);
        }
        request.update_expression(format!("SET {}", clauses.join(", ")))
    }

    pub(super) async fn tell_throughput_of(
        &self,
        worker: &WorkerId,
        figures: &[(ShardId, f64)],
    ) -> Result<(), StoreError> {
        let writes: Vec<_> =
            figures.iter().map(|(shard, kilobytes)| self.tell_of(worker, shard, *kilobytes)).collect();
        let outcomes = stream::iter(writes).buffer_unordered(SHARDS_AT_ONCE);
        outcomes.fold(Ok(()), |all, outcome| async { all.and(outcome) }).await
    }

    /// The counter stays as it is: the figure says nothing of who reads the shard, nor how far.
    async fn tell_of(&self, worker: &WorkerId, shard: &ShardId, kilobytes: f64) -> Result<(), StoreError> {
        let request = self
            .rows
            .update_item()
            .table_name(&self.table)
            .key(row::LEASE_KEY, row::text(shard.as_str()))
            .update_expression("SET #throughput = :throughput")
            .condition_expression("#owner = :worker")
            .expression_attribute_names("#throughput", row::THROUGHPUT)
            .expression_attribute_names("#owner", row::LEASE_OWNER)
            .expression_attribute_values(":throughput", AttributeValue::N(kilobytes.to_string()))
            .expression_attribute_values(":worker", row::text(worker.as_str()));
        match request.send().await {
            Ok(_) => Ok(()),
            Err(error) => match error.as_service_error() {
                // The lease has gone to another worker.
                Some(refused) if refused.is_conditional_check_failed_exception() => Ok(()),
                _ => Err(self.call(&self.rows, "UpdateItem", Some(shard)).failed(&error)),
            },
        }
    }

    /// The leader, if there is a place where it would show itself.
    async fn leader(&self, places: &Places) -> Result<Option<Option<LeaderPulse>>, StoreError> {
        let request = self.rows.get_item().table_name(&places.state).consistent_read(true);
        match request.key(places.state_key, row::text(LEADER)).send().await {
            Ok(reply) => Ok(Some(reply.item.as_ref().and_then(pulse))),
            Err(error) => match error.as_service_error() {
                Some(refused) if refused.is_resource_not_found_exception() => Ok(None),
                _ => Err(self.call_of(&places.state, "GetItem").failed(&error)),
            },
        }
    }

    pub(super) async fn retire_worker(&self, worker: &WorkerId) -> Result<(), StoreError> {
        let places = Places::of(self);
        let mut request = self.rows.delete_item().table_name(&places.workers);
        if places.is_one_table {
            request = request.condition_expression(NO_LEASE);
        }
        match request.key(places.worker_key, row::text(worker.as_str())).send().await {
            Ok(_) => Ok(()),
            Err(error) => match error.as_service_error() {
                Some(refused)
                    if refused.is_resource_not_found_exception()
                        || refused.is_conditional_check_failed_exception() =>
                {
                    Ok(())
                }
                _ => Err(self.call_of(&places.workers, "DeleteItem").failed(&error)),
            },
        }
    }

    fn call_of<'a>(&'a self, table: &'a str, operation: &'static str) -> Call<'a> {
        let kind = if table == self.table { "lease table" } else { "table" };
        Call { table, kind, ..self.call(&self.rows, operation, None) }
    }
}

/// A worker id may be anything, the name of a shard too.
const NO_LEASE: &str = "attribute_not_exists(leaseCounter)";

fn pulse(lock: &Item) -> Option<LeaderPulse> {
    let version = lock.get(LOCK_VERSION)?.as_s().ok()?.clone();
    let millis = lock.get(LOCK_DURATION).and_then(|millis| millis.as_s().ok()?.parse().ok());
    let valid_for = millis.map_or(USUAL_DURATION, Duration::from_millis).min(LONGEST_DURATION);
    Some(LeaderPulse { version, valid_for })
}

/// Now, as the KCL has it in its reports. Its leader compares it with its own clock, and takes a worker whose clock is a
/// minute behind for a dead one; only the leader's choice of workers depends on it.
fn seconds() -> AttributeValue {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    AttributeValue::N(since_1970.as_secs().to_string())
}
