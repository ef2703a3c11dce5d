//! The table as a whole: made, found, scanned.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use kinesis_lease::{LeaseChange, LeaseStore, LeaseWrite, StoreError};
use kinesis_record::ShardId;

use crate::support::{Item, Leases, Reply, Scripted, TABLE, item, leases_at, n, s};

const LIMIT: Duration = Duration::from_secs(20);

fn row(shard: &str) -> Item {
    item(&[
        ("leaseKey", s(shard)),
        ("leaseCounter", n("3")),
        ("ownerSwitchesSinceCheckpoint", n("0")),
        ("checkpoint", s("LATEST")),
    ])
}

/// The reply to DescribeTable for a lease table in this state.
fn described(status: &str) -> Reply {
    Reply::ok(&format!(
        r#"{{"Table":{{"TableName":"{TABLE}","TableStatus":"{status}",
        "AttributeDefinitions":[{{"AttributeName":"leaseKey","AttributeType":"S"}}],
        "KeySchema":[{{"AttributeName":"leaseKey","KeyType":"HASH"}}]}}}}"#
    ))
}

fn missing() -> Reply {
    Reply::error(400, "ResourceNotFoundException", "Requested resource not found")
}

#[tokio::test]
async fn a_missing_table_is_made_as_the_kcl_makes_it() {
    let leases = Leases::without_table().await;
    leases.store.ensure().await.unwrap();
    let table = leases.raw.describe_table().table_name(TABLE).send().await.unwrap().table.unwrap();
    let key = &table.key_schema()[0];
    assert_eq!((key.attribute_name(), key.key_type()), ("leaseKey", &KeyType::Hash));
    assert_eq!(table.key_schema().len(), 1);
    let billing = table.billing_mode_summary().and_then(|summary| summary.billing_mode());
    assert_eq!(billing, Some(&BillingMode::PayPerRequest));
}

#[tokio::test]
async fn workers_that_start_at_once_all_find_the_table_that_one_of_them_made() {
    let leases = Leases::without_table().await;
    let starts = (0..8).map(|_| leases.store.ensure());
    for start in futures::future::join_all(starts).await {
        assert_eq!(start, Ok(()));
    }
}

#[tokio::test]
async fn a_table_that_exists_is_described_and_nothing_else_is_asked() {
    for status in ["ACTIVE", "UPDATING"] {
        let server = Scripted::start(vec![described(status)]).await;
        leases_at(&server.url, LIMIT).await.ensure().await.unwrap();
        assert_eq!(server.operations(), ["DescribeTable"]);
    }
}

#[tokio::test]
async fn a_table_that_is_being_made_is_waited_for_even_while_it_is_not_seen_or_a_call_fails() {
    let script = vec![
        missing(),
        Reply::error(400, "ResourceInUseException", "Table already exists"),
        missing(),
        Reply::error(500, "InternalServerError", "The request processing has failed"),
        described("CREATING"),
        described("ACTIVE"),
    ];
    let server = Scripted::start(script).await;
    leases_at(&server.url, LIMIT).await.ensure().await.unwrap();
    let creations = server.operations().iter().filter(|name| *name == "CreateTable").count();
    assert_eq!((creations, server.operations().len()), (1, 6));
}

#[tokio::test]
async fn a_table_that_cannot_come_back_by_itself_is_an_error_with_its_status() {
    let server = Scripted::start(vec![described("INACCESSIBLE_ENCRYPTION_CREDENTIALS")]).await;
    match leases_at(&server.url, LIMIT).await.ensure().await {
        Err(StoreError::Refused(text)) => {
            assert!(text.contains("INACCESSIBLE_ENCRYPTION_CREDENTIALS"), "{text}")
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_missing_permission_to_create_the_table_is_named() {
    let denied = Reply::error(400, "AccessDeniedException", "User: arn:aws:iam::1:user/x is not authorized");
    let server = Scripted::start(vec![missing(), denied]).await;
    match leases_at(&server.url, LIMIT).await.ensure().await {
        Err(StoreError::Refused(text)) => {
            assert!(text.contains("allow the action dynamodb:CreateTable"), "{text}")
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_table_with_another_key_belongs_to_something_else() {
    let attribute = |name: &str, kind| {
        AttributeDefinition::builder().attribute_name(name).attribute_type(kind).build().unwrap()
    };
    let key =
        |name: &str, kind| KeySchemaElement::builder().attribute_name(name).key_type(kind).build().unwrap();
    let (text, number) = (ScalarAttributeType::S, ScalarAttributeType::N);
    let tables = [
        (vec![attribute("id", text.clone())], vec![key("id", KeyType::Hash)]),
        (vec![attribute("leaseKey", number.clone())], vec![key("leaseKey", KeyType::Hash)]),
        (
            vec![attribute("leaseKey", text), attribute("at", number)],
            vec![key("leaseKey", KeyType::Hash), key("at", KeyType::Range)],
        ),
    ];
    for (attributes, keys) in tables {
        let leases = Leases::without_table().await;
        let request = leases.raw.create_table().table_name(TABLE).billing_mode(BillingMode::PayPerRequest);
        let request = request.set_attribute_definitions(Some(attributes)).set_key_schema(Some(keys));
        request.send().await.unwrap();
        match leases.store.ensure().await {
            Err(StoreError::Refused(text)) => {
                assert!(text.contains(TABLE) && text.contains("belongs to something else"), "{text}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn every_call_to_a_missing_table_says_so() {
    let leases = Leases::without_table().await;
    let shard = "shardId-000000000000".into();
    let write = LeaseWrite { shard, expected_counter: 0, change: LeaseChange::Renew };
    let errors = [
        leases.store.scan().await.unwrap_err(),
        leases.store.read(&write.shard).await.unwrap_err(),
        leases.store.write(&write).await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(&error, StoreError::TableMissing(text) if text.contains(TABLE)), "{error:?}");
        assert!(!error.may_have_applied());
    }
}

#[tokio::test]
async fn a_scan_reads_all_pages() {
    let leases = Leases::new().await;
    let wide = AttributeValue::S("x".repeat(300_000));
    let mut expected = Vec::new();
    for number in 0..8 {
        let shard = format!("shardId-{number:012}");
        let mut row = row(&shard);
        row.insert("wide".to_owned(), wide.clone());
        leases.put(&row).await;
        expected.push(shard);
    }
    let page = leases.raw.scan().table_name(TABLE).send().await.unwrap();
    assert!(page.last_evaluated_key.is_some() && page.items().len() < 8);

    let scanned = leases.store.scan().await.unwrap();
    let mut shards: Vec<_> = scanned.leases.iter().map(|lease| lease.shard.to_string()).collect();
    shards.sort();
    assert_eq!(shards, expected);
}

#[tokio::test]
async fn a_scan_whose_second_page_fails_gives_no_part_of_the_table() {
    let first = Reply::ok(
        r#"{"Items":[{"leaseKey":{"S":"shardId-0"},"leaseCounter":{"N":"1"},"checkpoint":{"S":"LATEST"}}],
        "LastEvaluatedKey":{"leaseKey":{"S":"shardId-0"}}}"#,
    );
    let server = Scripted::start(vec![
        first,
        Reply::error(400, "ProvisionedThroughputExceededException", "The level of configured ..."),
    ])
    .await;
    let error = leases_at(&server.url, LIMIT).await.scan().await.unwrap_err();
    assert!(matches!(error, StoreError::Throttled(_)), "{error:?}");
    assert!(server.requests()[1].body.contains("ExclusiveStartKey"));
    assert_eq!(server.operations(), ["Scan", "Scan"]);
}

#[tokio::test]
async fn rows_that_are_no_leases_are_left_out_and_told_of_once() {
    let leases = Leases::new().await;
    let broken = [
        item(&[("leaseKey", s("stub")), ("leaseOwner", s("java-1"))]),
        item(&[("leaseKey", s("text-counter")), ("leaseCounter", s("3")), ("checkpoint", s("LATEST"))]),
        item(&[
            ("leaseKey", s("checkpoint-of-tomorrow")),
            ("leaseCounter", n("3")),
            ("checkpoint", s("SOON")),
        ]),
        item(&[("leaseKey", s("no-checkpoint")), ("leaseCounter", n("3"))]),
        item(&[
            ("leaseKey", s("greatest-counter")),
            ("leaseCounter", n("9223372036854775807")),
            ("checkpoint", s("LATEST")),
        ]),
        item(&[("leaseKey", s("\u{1b}[31mlines\nand colours"))]),
        item(&[
            ("leaseKey", s("1:orders:2:shardId-0")),
            ("leaseCounter", n("3")),
            ("checkpoint", s("LATEST")),
            ("streamName", s("1:orders:2")),
        ]),
    ];
    let figures = item(&[("leaseKey", s("worker-figures")), ("entityType", s("WORKER_METRIC_STATS"))]);
    for row in broken.iter().chain([&figures, &row("shardId-000000000000")]) {
        leases.put(row).await;
    }

    let mut keys: Vec<ShardId> =
        broken.iter().map(|row| ShardId::new(row["leaseKey"].as_s().unwrap())).collect();
    keys.sort();
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_writer({
        let log = log.clone();
        move || log.clone()
    });
    let _guard = tracing::subscriber::set_default(subscriber.with_ansi(false).finish());
    for _ in 0..2 {
        let scanned = leases.store.scan().await.unwrap();
        assert_eq!(scanned.leases.len(), 1);
        assert_eq!(scanned.leases[0].shard.as_str(), "shardId-000000000000");
        let mut unreadable = scanned.unreadable;
        unreadable.sort();
        assert_eq!(unreadable, keys, "the KCL's own rows are no leases that cannot be read");
        assert_eq!(leases.store.rows_left_out(), broken.len() + 1);
    }
    for row in &broken {
        let key = row["leaseKey"].as_s().unwrap();
        let row = format!("row={key:?}");
        assert_eq!(log.lines_with(&row).len(), 1, "{row}: {:?}", log.lines_with(&row));
    }
    assert!(log.lines_with("worker-figures").is_empty(), "the KCL's own rows are no trouble");

    let error = leases.store.read(&"stub".into()).await.unwrap_err();
    assert!(matches!(&error, StoreError::Unreadable(text) if text.contains("leaseCounter")), "{error:?}");
    leases.put(&row("stub")).await;
    assert_eq!(leases.store.scan().await.unwrap().leases.len(), 2);
    assert_eq!(leases.store.rows_left_out(), broken.len());
}

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn lines_with(&self, text: &str) -> Vec<String> {
        let log = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        log.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
