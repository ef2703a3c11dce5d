//! The leader of a KCL 3.x fleet, in the tables that the KCL has made: looked for, and reported to.

use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use kinesis_lease::store::{LeaderPulse, Reported};
use kinesis_lease::{LeaseStore, StoreError};

use crate::support::{Item, Leases, Reply, Scripted, TABLE, item, leases_at, n, s};

const SHARD: &str = "shardId-000000000000";

fn lease(owner: &str) -> Item {
    item(&[
        ("leaseKey", s(SHARD)),
        ("leaseOwner", s(owner)),
        ("leaseCounter", n("3")),
        ("ownerSwitchesSinceCheckpoint", n("0")),
        ("checkpoint", s("LATEST")),
    ])
}

impl Leases {
    async fn report(&self) -> Result<Reported, StoreError> {
        self.store.report(&"me".into(), true).await
    }

    /// A table as the KCL makes it beside its lease table.
    async fn make_table(&self, suffix: &str, key: &str) -> String {
        let table = format!("{TABLE}-{suffix}");
        let attribute = AttributeDefinition::builder().attribute_name(key);
        let attribute = attribute.attribute_type(ScalarAttributeType::S).build().unwrap();
        let schema = KeySchemaElement::builder().attribute_name(key).key_type(KeyType::Hash).build().unwrap();
        let request = self.raw.create_table().table_name(&table).billing_mode(BillingMode::PayPerRequest);
        request.attribute_definitions(attribute).key_schema(schema).send().await.unwrap();
        table
    }

    async fn rows_of(&self, table: &str) -> Vec<Item> {
        self.raw.scan().table_name(table).send().await.unwrap().items.unwrap()
    }
}

fn pulse(version: &str, secs: u64) -> LeaderPulse {
    LeaderPulse { version: version.to_owned(), valid_for: Duration::from_secs(secs) }
}

/// The report is as old as the test at most.
fn assert_new(time: &AttributeValue) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let time: u64 = time.as_n().unwrap().parse().unwrap();
    assert!(time <= now && now < time + 60, "{time} is not {now}, in seconds");
}

#[tokio::test]
async fn without_a_kcl_3_reports_are_unwanted_and_no_table_is_made() {
    let leases = Leases::new().await;
    assert_eq!(leases.report().await, Ok(Reported::Unwanted));
    assert_eq!(leases.store.retire(&"me".into()).await, Ok(()));
    assert_eq!(leases.raw.list_tables().send().await.unwrap().table_names(), [TABLE]);
}

#[tokio::test]
async fn a_report_stands_in_the_table_of_a_kcl_3_until_it_is_taken_back() {
    let leases = Leases::new().await;
    let workers = leases.make_table("WorkerMetricStats", "wid").await;
    leases.make_table("CoordinatorState", "key").await;
    assert_eq!(leases.report().await, Ok(Reported::Stored(None)));
    let rows = leases.rows_of(&workers).await;
    let empty = || AttributeValue::M(Default::default());
    let expected = [("wid", s("me")), ("lut", rows[0]["lut"].clone()), ("sts", empty()), ("opr", empty())];
    assert_eq!(rows, [item(&expected)]);
    assert_new(&rows[0]["lut"]);
    leases.store.retire(&"me".into()).await.unwrap();
    assert!(leases.rows_of(&workers).await.is_empty());
}

#[tokio::test]
async fn the_version_of_the_leaders_lock_is_told() {
    let leases = Leases::new().await;
    leases.make_table("WorkerMetricStats", "wid").await;
    let state = leases.make_table("CoordinatorState", "key").await;
    assert_eq!(leases.report().await, Ok(Reported::Stored(None)));
    let lock = [("key", s("Leader")), ("ownerName", s("kcl")), ("recordVersionNumber", s("version-7"))];
    leases.raw.put_item().table_name(&state).set_item(Some(item(&lock))).send().await.unwrap();
    let pulse = pulse("version-7", 120);
    assert_eq!(leases.report().await, Ok(Reported::Stored(Some(pulse))));
}

#[tokio::test]
async fn the_throughput_of_a_shard_is_stored_and_nothing_else_of_its_row_changes() {
    let leases = Leases::new().await;
    leases.put(&lease("me")).await;
    leases.store.tell_throughput(&"me".into(), &[(SHARD.into(), 1.5)]).await.unwrap();
    let mut expected = lease("me");
    expected.insert("throughputKBps".to_owned(), n("1.5"));
    assert_eq!(leases.get(SHARD).await, Some(expected));
}

#[tokio::test]
async fn nothing_is_told_of_a_lease_that_another_worker_has_or_that_is_gone() {
    let leases = Leases::new().await;
    leases.put(&lease("other")).await;
    let gone = "shardId-000000000001";
    let figures = [(SHARD.into(), 1.5), (gone.into(), 1.5)];
    assert_eq!(leases.store.tell_throughput(&"me".into(), &figures).await, Ok(()));
    assert_eq!(leases.get(SHARD).await, Some(lease("other")));
    assert_eq!(leases.get(gone).await, None);
}

#[tokio::test]
async fn a_kcl_3_5_finds_the_report_among_the_leases() {
    let leases = Leases::new().await;
    let lock = [("leaseKey", s("Leader")), ("entityType", s("LEADER")), ("recordVersionNumber", s("v"))];
    leases.put(&item(&lock)).await;
    leases.put(&lease("me")).await;
    leases.store.scan().await.unwrap();
    let pulse = pulse("v", 120);
    assert_eq!(leases.report().await, Ok(Reported::Stored(Some(pulse))));
    let row = leases.get("me").await.unwrap();
    assert_eq!((&row["entityType"], &row["sup"]), (&s("WORKER_METRIC_STATS"), &n("1")));
    assert_new(&row["lut"]);
    assert_new(&row["slu"]);
    assert_eq!(leases.store.scan().await.unwrap().leases.len(), 1, "a report is no lease");
    leases.store.retire(&"me".into()).await.unwrap();
    assert_eq!(leases.get("me").await, None);
}

#[tokio::test]
async fn a_refused_report_names_the_table() {
    let denied = Reply::error(400, "AccessDeniedException", "not authorized");
    let server = Scripted::start(vec![denied]).await;
    let error =
        leases_at(&server.url, Duration::from_secs(20)).await.report(&"me".into(), true).await.unwrap_err();
    let table = format!("of the table \"{TABLE}-CoordinatorState\"");
    assert!(matches!(&error, StoreError::Refused(text) if text.contains(&table)), "{error:?}");
}

#[tokio::test]
async fn a_lock_says_for_how_long_it_is_valid() {
    let leases = Leases::new().await;
    leases.make_table("WorkerMetricStats", "wid").await;
    let state = leases.make_table("CoordinatorState", "key").await;
    let cases = [(s("45000"), 45), (s("soon"), 120), (n("45000"), 120), (s("86400000"), 600)];
    for (duration, seconds) in cases {
        let lock = [("key", s("Leader")), ("recordVersionNumber", s("v")), ("leaseDuration", duration)];
        leases.raw.put_item().table_name(&state).set_item(Some(item(&lock))).send().await.unwrap();
        assert_eq!(leases.report().await, Ok(Reported::Stored(Some(pulse("v", seconds)))));
    }
}

#[tokio::test]
async fn a_worker_that_wants_no_leases_is_not_reported_but_looks_for_the_leader() {
    let leases = Leases::new().await;
    let workers = leases.make_table("WorkerMetricStats", "wid").await;
    let state = leases.make_table("CoordinatorState", "key").await;
    let lock = [("key", s("Leader")), ("recordVersionNumber", s("v"))];
    leases.raw.put_item().table_name(&state).set_item(Some(item(&lock))).send().await.unwrap();
    let reported = leases.store.report(&"me".into(), false).await;
    assert_eq!(reported, Ok(Reported::Stored(Some(pulse("v", 120)))));
    assert!(leases.rows_of(&workers).await.is_empty());
}

#[tokio::test]
async fn a_lock_that_cannot_be_read_leaves_the_worker_unreported() {
    let denied = Reply::error(400, "AccessDeniedException", "not authorized");
    let server = Scripted::start(vec![denied]).await;
    let store = leases_at(&server.url, Duration::from_secs(20)).await;
    store.report(&"me".into(), true).await.unwrap_err();
    assert_eq!(server.operations(), ["GetItem"]);
}

#[tokio::test]
async fn a_row_that_is_called_leader_and_is_none_is_no_kcl_3_5() {
    let leases = Leases::new().await;
    leases.put(&item(&[("leaseKey", s("Leader")), ("entityType", s("SOMETHING"))])).await;
    leases.put(&item(&[("leaseKey", s("me-too")), ("entityType", s("WORKER_METRIC_STATS"))])).await;
    leases.store.scan().await.unwrap();
    assert_eq!(leases.report().await, Ok(Reported::Unwanted));
    assert_eq!(leases.get("me").await, None);
}

#[tokio::test]
async fn a_worker_with_the_name_of_a_shard_leaves_its_lease_alone() {
    let leases = Leases::new().await;
    leases
        .put(&item(&[("leaseKey", s("Migration3.0")), ("entityType", s("CLIENT_VERSION_MIGRATION"))]))
        .await;
    leases.put(&lease("other")).await;
    leases.store.scan().await.unwrap();
    let error = leases.store.report(&SHARD.into(), true).await.unwrap_err();
    assert!(matches!(&error, StoreError::Refused(text) if text.contains("worker id")), "{error:?}");
    assert_eq!(leases.store.retire(&SHARD.into()).await, Ok(()));
    assert_eq!(leases.get(SHARD).await, Some(lease("other")));
}
