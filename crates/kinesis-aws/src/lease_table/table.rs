//! The table itself: found, or made and waited for.

use std::time::Duration;

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType, TableDescription,
    TableStatus,
};
use kinesis_lease::StoreError;
use tokio::time::{Instant, sleep};

use super::error::Call;
use super::{DynamoLeaseStore, row};

/// How long a table may take to become usable, as in the KCL.
const READY_WITHIN: Duration = Duration::from_secs(600);
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

impl DynamoLeaseStore {
    /// Describes the table, makes it only if it is missing, and waits until it can be used. A table that is there
    /// needs no permission to create one.
    pub(super) async fn ensure_table(&self) -> Result<(), StoreError> {
        let deadline = Instant::now() + READY_WITHIN;
        let mut wait = FIRST_WAIT;
        let mut created = false;
        let mut waiting = false;
        loop {
            match self.describe().await {
                Ok(Some(table)) => match table.table_status() {
                    Some(TableStatus::Active | TableStatus::Updating) => return self.check_key(&table),
                    Some(TableStatus::Creating) => {}
                    // It will be gone, and then has to be made again.
                    Some(TableStatus::Deleting) => created = false,
                    status => return Err(self.describing().unusable(status)),
                },
                Ok(None) if created => {} // A new table is not seen everywhere at once.
                Ok(None) => {
                    self.create_table().await?;
                    created = true;
                }
                Err(error) if waiting && error.is_passing() => {}
                Err(error) => return Err(error),
            }
            if Instant::now() + wait > deadline {
                return Err(self.describing().overdue(READY_WITHIN));
            }
            waiting = true;
            sleep(wait).await;
            wait = LONGEST_WAIT.min(wait * 2);
        }
    }

    fn describing(&self) -> Call<'_> {
        self.call(&self.tables, "DescribeTable", None)
    }

    async fn describe(&self) -> Result<Option<TableDescription>, StoreError> {
        match self.tables.describe_table().table_name(&self.table).send().await {
            Ok(reply) => match reply.table {
                Some(table) => Ok(Some(table)),
                None => Err(self.describing().unreadable("there is no description in the reply")),
            },
            Err(error) => match error.as_service_error() {
                Some(refused) if refused.is_resource_not_found_exception() => Ok(None),
                _ => Err(self.describing().failed(&error)),
            },
        }
    }

    /// Makes the table as the KCL does: billed by request, with `leaseKey` as its only key.
    async fn create_table(&self) -> Result<(), StoreError> {
        let call = self.call(&self.tables, "CreateTable", None);
        let (attribute, key) = key_schema().map_err(|error| call.unreadable(&error.to_string()))?;
        tracing::info!(table = %self.table, "creating the lease table");
        let request =
            self.tables.create_table().table_name(&self.table).billing_mode(BillingMode::PayPerRequest);
        match request.attribute_definitions(attribute).key_schema(key).send().await {
            Ok(_) => Ok(()),
            Err(error) => match error.as_service_error() {
                // Another process was faster.
                Some(refused) if refused.is_resource_in_use_exception() => Ok(()),
                _ => Err(call.failed(&error)),
            },
        }
    }

    fn check_key(&self, table: &TableDescription) -> Result<(), StoreError> {
        let is_lease_key = |key: &KeySchemaElement| {
            key.attribute_name() == row::LEASE_KEY && *key.key_type() == KeyType::Hash
        };
        let is_text = table.attribute_definitions().iter().any(|attribute| {
            attribute.attribute_name() == row::LEASE_KEY
                && *attribute.attribute_type() == ScalarAttributeType::S
        });
        match table.key_schema() {
            [key] if is_lease_key(key) && is_text => Ok(()),
            _ => Err(self.describing().foreign()),
        }
    }
}

fn key_schema() -> Result<(AttributeDefinition, KeySchemaElement), BuildError> {
    let attribute = AttributeDefinition::builder().attribute_name(row::LEASE_KEY);
    let key = KeySchemaElement::builder().attribute_name(row::LEASE_KEY);
    Ok((attribute.attribute_type(ScalarAttributeType::S).build()?, key.key_type(KeyType::Hash).build()?))
}
