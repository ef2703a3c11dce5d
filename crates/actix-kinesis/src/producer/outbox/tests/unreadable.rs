//! Events that were accepted and cannot be read from the disk.

use std::time::Duration;

use redb::{Database, TableDefinition};
use tempfile::TempDir;

use super::world::{Reply, World, conf, event, open, path, send_all, until, until_sent};
use crate::producer::outbox::Outbox;

/// Changes a byte of a row, while no outbox has the file.
fn damage(directory: &TempDir, tables: &[&str], number: u64) {
    let database = Database::open(path(directory).join("outbox.redb")).unwrap();
    let transaction = database.begin_write().unwrap();
    for table in tables {
        let table: TableDefinition<u64, &[u8]> = TableDefinition::new(table);
        let mut rows = transaction.open_table(table).unwrap();
        let mut row = redb::ReadableTable::get(&rows, number).unwrap().unwrap().value().to_vec();
        row[2] ^= 1;
        rows.insert(number, row.as_slice()).unwrap();
    }
    transaction.commit().unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_that_cannot_be_read_is_told_kept_aside_and_holds_up_no_other() {
    for tables in [&["events"][..], &["entries", "events"]] {
        let directory = tempfile::tempdir().unwrap();
        let world = World::unreachable();
        let outbox = open(&directory, &world).await;
        send_all(&outbox, (1..=3).map(|number| event("key", number))).await;
        send_all(&outbox, [event("other", 4)]).await;
        outbox.stop(Duration::ZERO).await;
        damage(&directory, tables, 2);
        world.answers(|_, _| Reply::Stored);
        for start in 0..2 {
            let outbox = open(&directory, &world).await;
            until_sent(&outbox).await;
            until(|| outbox.status().unreadable == 1).await;
            assert_eq!(
                (world.payloads("key"), world.payloads("other").len()),
                (vec!["1".into(), "3".into()], 1)
            );
            let unreadable = outbox.unreadable(0, 10).await.unwrap();
            assert_eq!((unreadable.len(), unreadable[0].number), (1, 2));
            let problem = &unreadable[0].problem;
            assert!(problem.contains("row 2 of ") && problem.contains("outbox.redb"), "{problem}");
            assert!(problem.contains("checksum"), "{problem}");
            assert!(outbox.unreadable(2, 10).await.unwrap().is_empty());
            assert!(outbox.status().bytes > 0);
            // Its number is given to no other.
            send_all(&outbox, [event("new", start)]).await;
            until_sent(&outbox).await;
            assert_eq!(world.payloads("new").len(), start + 1);
            assert_eq!(outbox.stop(Duration::ZERO).await.unreadable, 1);
        }
        let outbox = open(&directory, &world).await;
        until(|| outbox.status().unreadable == 1).await;
        assert_eq!(outbox.discard(2).await, Ok(true));
        assert_eq!((outbox.status().unreadable, outbox.status().bytes), (0, 0));
        outbox.stop(Duration::ZERO).await;
        let outbox = open(&directory, &world).await;
        until_sent(&outbox).await;
        assert_eq!(outbox.status().unreadable, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_parked_event_that_cannot_be_read_is_told_when_it_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::new(|_, _| Reply::Fails(kinesis_lease::StreamErrorKind::InvalidArgument));
    let outbox = open(&directory, &world).await;
    send_all(&outbox, [event("a", 1), event("b", 2)]).await;
    until(|| outbox.status().parked == 2).await;
    outbox.stop(Duration::ZERO).await;
    damage(&directory, &["events"], 1);
    let outbox = Outbox::builder(conf(&directory)).api(world).open().await.unwrap();
    let parked = outbox.parked(0, 10).await.unwrap();
    assert_eq!(parked.iter().map(|it| it.number).collect::<Vec<_>>(), [2]);
    assert_eq!((outbox.status().parked, outbox.status().unreadable), (1, 1));
}
