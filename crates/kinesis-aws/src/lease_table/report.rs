//! What a KCL 3.x keeps beside its leases: the reports of its workers, and the lock of its leader.
//!
//! Up to 3.4 they are in two tables of their own, from 3.5 on in rows of the lease table. Neither is ever made here.

use std::time::SystemTime;

use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::AttributeValue;
use futures::{StreamExt, TryStreamExt, stream};
use kinesis_lease::store::{LeaderPulse, Reported, WorkerReport};
use kinesis_lease::{StoreError, WorkerId};
use kinesis_record::ShardId;

use super::error::Call;
use super::{DynamoLeaseStore, row};

/// The key of the row that is the leader's lock.
const LEADER: &str = "Leader";
/// Changes each half minute while the leader lives.
const LOCK_VERSION: &str = "recordVersionNumber";

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
        if store.has_left_out(LEADER) {
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
    pub(super) async fn report_worker(&self, report: &WorkerReport) -> Result<Reported, StoreError> {
        let places = Places::of(self);
        let call = Call { table: &places.workers, ..self.call(&self.rows, "UpdateItem", None) };
        match self.worker_row(&places, &report.worker).send().await {
            Ok(_) => {}
            Err(error) => match error.as_service_error() {
                Some(refused) if refused.is_resource_not_found_exception() => return Ok(Reported::Unwanted),
                _ => return Err(call.failed(&error)),
            },
        }
        let shards = report.throughput.iter();
        let shards: Vec<_> =
            shards.map(|(shard, kilobytes)| self.report_shard(&report.worker, shard, *kilobytes)).collect();
        stream::iter(shards).buffer_unordered(SHARDS_AT_ONCE).try_collect::<()>().await?;
        Ok(Reported::Stored(self.leader(&places).await?))
    }

    fn worker_row(&self, places: &Places, worker: &WorkerId) -> UpdateItemFluentBuilder {
        let empty = || AttributeValue::M(Default::default());
        let mut set = vec![("lut", seconds()), ("sts", empty()), ("opr", empty())];
        if places.is_one_table {
            // The support code 1 tells that the worker knows of rows that are no leases.
            set.extend([("entityType", row::text("WORKER_METRIC_STATS"))]);
            set.extend([("sup", row::number(1)), ("slu", seconds())]);
        }
        let clauses: Vec<_> = set.iter().map(|(name, _)| format!("#{name} = :{name}")).collect();
        let mut request = self.rows.update_item().table_name(&places.workers);
        request = request.key(places.worker_key, row::text(worker.as_str()));
        for (name, value) in set {
            request = request
                .expression_attribute_names(format!("#{name}"), name)
                .expression_attribute_values(format!(":{name}"), value);
        }
        request.update_expression(format!("SET {}", clauses.join(", ")))
    }

    /// The counter stays as it is: the figure says nothing of who reads the shard, nor how far.
    async fn report_shard(
        &self,
        worker: &WorkerId,
        shard: &ShardId,
        kilobytes: f64,
    ) -> Result<(), StoreError> {
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

    async fn leader(&self, places: &Places) -> Result<Option<LeaderPulse>, StoreError> {
        let request = self.rows.get_item().table_name(&places.state).consistent_read(true);
        let lock = match request.key(places.state_key, row::text(LEADER)).send().await {
            Ok(reply) => reply.item,
            Err(error) => match error.as_service_error() {
                Some(refused) if refused.is_resource_not_found_exception() => None,
                _ => {
                    let call = Call { table: &places.state, ..self.call(&self.rows, "GetItem", None) };
                    return Err(call.failed(&error));
                }
            },
        };
        let version = lock.as_ref().and_then(|lock| lock.get(LOCK_VERSION)?.as_s().ok());
        Ok(version.map(|version| LeaderPulse(version.clone())))
    }

    pub(super) async fn retire_worker(&self, worker: &WorkerId) -> Result<(), StoreError> {
        let places = Places::of(self);
        let request = self.rows.delete_item().table_name(&places.workers);
        match request.key(places.worker_key, row::text(worker.as_str())).send().await {
            Ok(_) => Ok(()),
            Err(error) => match error.as_service_error() {
                Some(refused) if refused.is_resource_not_found_exception() => Ok(()),
                _ => {
                    let call = Call { table: &places.workers, ..self.call(&self.rows, "DeleteItem", None) };
                    Err(call.failed(&error))
                }
            },
        }
    }
}

/// Now, as the KCL has it in its reports. Its leader compares it with its own clock, and takes a worker whose clock is a
/// minute behind for a dead one; only the leader's choice of workers depends on it.
fn seconds() -> AttributeValue {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    AttributeValue::N(since_1970.as_secs().to_string())
}
