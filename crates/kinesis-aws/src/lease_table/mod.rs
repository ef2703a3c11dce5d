//! The lease table in DynamoDB: the one of the Java KCL, row for row.

mod error;
mod leader;
mod row;
mod table;
mod write;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use futures::FutureExt;
use futures::future::BoxFuture;
use kinesis_lease::store::{Created, Deleted, Reported, Scan, Written};
use kinesis_lease::{Lease, LeaseStore, LeaseWrite, NewLease, StoreError, WorkerId};
use kinesis_record::{Checkpoint, ShardId};

use crate::clients::Clients;
use error::Call;
use row::{Item, NoLease};

/// A lease table that Java KCL workers (1.x, 2.x, 3.x) may use at the same time.
///
/// Every write is one UpdateItem on named attributes, conditional on `leaseCounter`, so that attributes of other
/// versions survive. No call is repeated here.
pub struct DynamoLeaseStore {
    table: String,
    stream: String,
    place: String,
    /// For rows: bounded by the caller's own limit.
    rows: Client,
    /// For the table itself: bounded by the `request_timeout` of the settings.
    tables: Client,
    /// The rows that the last scan has left out, by key, and what kind of thing they are if they say so.
    left_out: Mutex<HashMap<String, Option<String>>>,
}

impl DynamoLeaseStore {
    /// The table `table` with the leases of `stream`. Nothing is asked of DynamoDB yet.
    ///
    /// Rows that this library has created say which stream they belong to. One of another stream fails the call that
    /// finds it: its shards have the same names, and the checkpoints of both would overwrite each other.
    ///
    /// `call_timeout` bounds each read, each write and each page of a scan. A renewal that takes longer than a
    /// third of the failover time helps nobody.
    pub fn new(clients: &Clients, table: &str, stream: &str, call_timeout: Duration) -> Self {
        Self {
            table: table.to_owned(),
            stream: stream.to_owned(),
            place: clients.dynamodb_place().to_owned(),
            rows: clients.dynamodb_within(call_timeout),
            tables: clients.dynamodb().clone(),
            left_out: Mutex::default(),
        }
    }

    /// How many rows the last complete scan left out because they are no leases or cannot be read.
    pub fn rows_left_out(&self) -> usize {
        self.left_out.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether a KCL keeps other things than leases in the table.
    fn is_one_table(&self) -> bool {
        let left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        left_out.values().flatten().any(|kind| leader::ONE_TABLE.contains(&kind.as_str()))
    }

    fn call<'a>(&'a self, client: &Client, operation: &'static str, shard: Option<&'a ShardId>) -> Call<'a> {
        let limit = client.config().timeout_config().and_then(|limits| limits.operation_attempt_timeout());
        Call { operation, table: &self.table, kind: "lease table", shard, place: &self.place, limit }
    }

    /// Pages are read one after another and are not consistent, as those of the KCL: what has changed meanwhile is
    /// seen by the next scan, and no write depends on it without a condition.
    async fn scan_all(&self) -> Result<Scan, StoreError> {
        let call = self.call(&self.rows, "Scan", None);
        let mut leases = Vec::new();
        let mut left_out = Vec::new();
        let mut from = None;
        loop {
            let request = self.rows.scan().table_name(&self.table).set_exclusive_start_key(from);
            let page = request.send().await.map_err(|error| call.failed(&error))?;
            for item in page.items.unwrap_or_default() {
                self.check_stream(&call, &item)?;
                match row::lease(&item) {
                    Ok(lease) => leases.push(lease),
                    Err(reason) => left_out.push((key_of(&item), reason)),
                }
            }
            from = page.last_evaluated_key.filter(|key| !key.is_empty());
            if from.is_none() {
                let is_broken = |(_, reason): &&(String, NoLease)| matches!(reason, NoLease::Broken(_));
                let unreadable =
                    left_out.iter().filter(is_broken).map(|(key, _)| ShardId::new(key)).collect();
                self.note_left_out(left_out);
                return Ok(Scan { leases, unreadable });
            }
        }
    }

    fn check_stream(&self, call: &Call<'_>, item: &Item) -> Result<(), StoreError> {
        match row::stream(item).filter(|stream| **stream != self.stream) {
            Some(other) => Err(call.other_stream(other, &self.stream)),
            None => Ok(()),
        }
    }

    /// Tells of each row once, until it is gone or has become a lease.
    fn note_left_out(&self, found: Vec<(String, NoLease)>) {
        let mut known = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, reason) in found.iter().filter(|(key, _)| !known.contains_key(key)) {
            match reason {
                NoLease::Other(kind) => {
                    tracing::debug!(table = %self.table, row = ?key, kind, "row is no lease and is left out");
                }
                NoLease::Broken(why) => {
                    tracing::error!(
                        table = %self.table, row = ?key,
                        "row cannot be read as a lease and is left out, so that its shard is not read: {why}"
                    );
                }
            }
        }
        *known = found
            .into_iter()
            .map(|(key, reason)| match reason {
                NoLease::Other(kind) => (key, Some(kind)),
                NoLease::Broken(_) => (key, None),
            })
            .collect();
    }

    async fn read_one(&self, shard: &ShardId) -> Result<Option<Lease>, StoreError> {
        let call = self.call(&self.rows, "GetItem", Some(shard));
        let request = self.rows.get_item().table_name(&self.table).consistent_read(true);
        let reply = request
            .key(row::LEASE_KEY, row::text(shard.as_str()))
            .send()
            .await
            .map_err(|error| call.failed(&error))?;
        reply.item.as_ref().map_or(Ok(()), |item| self.check_stream(&call, item))?;
        reply.item.as_ref().map(|item| readable(&call, item)).transpose()
    }

    async fn create_one(&self, lease: &NewLease) -> Result<Created, StoreError> {
        let call = self.call(&self.rows, "PutItem", Some(&lease.shard));
        let request = self
            .rows
            .put_item()
            .table_name(&self.table)
            .set_item(Some(row::new_item(lease, &self.stream)))
            .condition_expression("attribute_not_exists(#key)")
            .expression_attribute_names("#key", row::LEASE_KEY);
        match request.send().await {
            Ok(_) => Ok(Created::New),
            Err(error) => match error.as_service_error() {
                Some(refused) if refused.is_conditional_check_failed_exception() => Ok(Created::Existed),
                _ => Err(call.failed(&error)),
            },
        }
    }

    async fn delete_one(&self, shard: &ShardId, expected_counter: i64) -> Result<Deleted, StoreError> {
        let call = self.call(&self.rows, "DeleteItem", Some(shard));
        let request = self
            .rows
            .delete_item()
            .table_name(&self.table)
            .key(row::LEASE_KEY, row::text(shard.as_str()))
            .condition_expression("#counter = :expected AND #checkpoint = :end")
            .expression_attribute_names("#counter", row::LEASE_COUNTER)
            .expression_attribute_names("#checkpoint", row::CHECKPOINT)
            .expression_attribute_values(":expected", row::number(expected_counter))
            .expression_attribute_values(":end", row::text(Checkpoint::ShardEnd.text()));
        match request.send().await {
            Ok(_) => Ok(Deleted::Gone),
            Err(error) => match error.as_service_error() {
                Some(refused) if refused.is_conditional_check_failed_exception() => Ok(Deleted::Refused),
                _ => Err(call.failed(&error)),
            },
        }
    }

    async fn write_one(&self, write: &LeaseWrite) -> Result<Written, StoreError> {
        let call = self.call(&self.rows, "UpdateItem", Some(&write.shard));
        match write::request(&self.rows, &self.table, write).send().await {
            Ok(reply) => {
                let row = reply.attributes().map(|item| readable(&call, item)).transpose()?;
                Ok(Written::Applied(row.map(Box::new)))
            }
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(refused)) => {
                    let row = refused.item().map(|item| readable(&call, item)).transpose()?;
                    Ok(Written::Refused(row.map(Box::new)))
                }
                _ => Err(call.failed(&error)),
            },
        }
    }
}

impl LeaseStore for DynamoLeaseStore {
    fn name(&self) -> &str {
        &self.table
    }

    fn ensure(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.ensure_table().boxed()
    }

    fn scan(&self) -> BoxFuture<'_, Result<Scan, StoreError>> {
        self.scan_all().boxed()
    }

    fn read<'a>(&'a self, shard: &'a ShardId) -> BoxFuture<'a, Result<Option<Lease>, StoreError>> {
        self.read_one(shard).boxed()
    }

    fn create<'a>(&'a self, lease: &'a NewLease) -> BoxFuture<'a, Result<Created, StoreError>> {
        self.create_one(lease).boxed()
    }

    fn write<'a>(&'a self, write: &'a LeaseWrite) -> BoxFuture<'a, Result<Written, StoreError>> {
        self.write_one(write).boxed()
    }

    fn delete<'a>(
        &'a self,
        shard: &'a ShardId,
        expected_counter: i64,
    ) -> BoxFuture<'a, Result<Deleted, StoreError>> {
        self.delete_one(shard, expected_counter).boxed()
    }

    fn report<'a>(
        &'a self,
        worker: &'a WorkerId,
        wants_leases: bool,
    ) -> BoxFuture<'a, Result<Reported, StoreError>> {
        self.report_worker(worker, wants_leases).boxed()
    }

    fn tell_throughput<'a>(
        &'a self,
        worker: &'a WorkerId,
        figures: &'a [(ShardId, f64)],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.tell_throughput_of(worker, figures).boxed()
    }

    fn retire<'a>(&'a self, worker: &'a WorkerId) -> BoxFuture<'a, Result<(), StoreError>> {
        self.retire_worker(worker).boxed()
    }
}

impl fmt::Debug for DynamoLeaseStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamoLeaseStore")
            .field("table", &self.table)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

fn readable(call: &Call<'_>, item: &Item) -> Result<Lease, StoreError> {
    row::lease(item).map_err(|(NoLease::Other(why) | NoLease::Broken(why))| call.unreadable(&why))
}

fn key_of(item: &Item) -> String {
    item.get(row::LEASE_KEY).and_then(|key| key.as_s().ok()).cloned().unwrap_or_default()
}
