//! What each write does to a row that some version of the Java KCL may share.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use kinesis_lease::store::{Created, Deleted, Written};
use kinesis_lease::{Lease, LeaseChange, LeaseStore, LeaseWrite, NewLease, StoreError};
use kinesis_record::{Checkpoint, HashKey, HashRange, Position};

use crate::support::{Item, Leases, STREAM, TABLE, item, n, s, sorted, ss};

const SHARD: &str = "shardId-000000000003";
const SEQUENCE: &str = "49640000000000000000000000000000000000000000000000000002";

/// A row as KCL 1.x before 1.14 leaves it.
fn kcl1() -> Item {
    item(&[
        ("leaseKey", s(SHARD)),
        ("leaseOwner", s("java-1")),
        ("leaseCounter", n("41")),
        ("ownerSwitchesSinceCheckpoint", n("2")),
        ("checkpoint", s(SEQUENCE)),
        ("checkpointSubSequenceNumber", n("5")),
        ("pendingCheckpoint", s(SEQUENCE)),
        ("pendingCheckpointSubSequenceNumber", n("6")),
        ("parentShardId", ss(&["shardId-000000000000", "shardId-000000000001"])),
    ])
}

/// The same row as KCL 2.x leaves it.
fn kcl2() -> Item {
    let mut row = kcl1();
    row.extend(item(&[
        ("startingHashKey", s("0")),
        ("endingHashKey", s("170141183460469231731687303715884105727")),
        ("childShardIds", ss(&["shardId-000000000007"])),
        ("pendingCheckpointState", AttributeValue::B(Blob::new("state"))),
    ]));
    row
}

/// The same row as KCL 3.x leaves it in the middle of a hand-over, with an attribute of nobody we know.
fn kcl3() -> Item {
    let mut row = kcl2();
    row.extend(item(&[
        ("checkpointOwner", s("java-0")),
        ("throughputKBps", n("12.345678")),
        ("entityType", s("LEASE")),
        ("acquisitionToken", s("old token")),
        ("of-the-future", AttributeValue::M(item(&[("a", n("1"))]))),
    ]));
    row
}

fn with(mut row: Item, attributes: &[(&str, AttributeValue)]) -> Item {
    row.extend(item(attributes));
    sorted(row)
}

fn without(mut row: Item, attributes: &[&str]) -> Item {
    for attribute in attributes {
        row.remove(*attribute);
    }
    sorted(row)
}

/// The row that `change` makes of `row`, whose counter is 41.
async fn changed(row: Item, change: LeaseChange) -> Item {
    let leases = Leases::new().await;
    leases.put(&row).await;
    let written = leases.write(SHARD, 41, change).await;
    let as_it_is = leases.store.read(&SHARD.into()).await.unwrap().map(Box::new);
    assert_eq!(written, Written::Applied(as_it_is));
    leases.get(SHARD).await.unwrap()
}

fn new_lease(parents: &[&str]) -> NewLease {
    NewLease {
        shard: SHARD.into(),
        checkpoint: Checkpoint::TrimHorizon,
        parents: parents.iter().map(|&parent| parent.into()).collect(),
        hash_range: HashRange { start: HashKey(0), end: HashKey::MAX },
        latest_since: None,
    }
}

fn take(owner: &str, owner_switches: i64) -> LeaseChange {
    LeaseChange::Take { owner: owner.into(), token: "new token".to_owned(), owner_switches }
}

#[tokio::test]
async fn a_new_row_has_the_attributes_of_the_kcl_and_no_others() {
    let leases = Leases::new().await;
    let parents = ["shardId-000000000000", "shardId-000000000001"];
    assert_eq!(leases.store.create(&new_lease(&parents)).await, Ok(Created::New));
    let expected = item(&[
        ("leaseKey", s(SHARD)),
        ("ofStream", s(STREAM)),
        ("leaseCounter", n("0")),
        ("ownerSwitchesSinceCheckpoint", n("0")),
        ("checkpoint", s("TRIM_HORIZON")),
        ("checkpointSubSequenceNumber", n("0")),
        ("parentShardId", ss(&parents)),
        ("startingHashKey", s("0")),
        ("endingHashKey", s("340282366920938463463374607431768211455")),
    ]);
    assert_eq!(leases.get(SHARD).await, Some(expected));
    assert_eq!(leases.store.read(&SHARD.into()).await, Ok(Some(Lease::from(new_lease(&parents)))));
}

#[tokio::test]
async fn a_row_of_another_stream_is_refused_and_both_streams_are_named() {
    let leases = Leases::new().await;
    leases.put(&with(kcl2(), &[("ofStream", s(STREAM))])).await;
    assert!(leases.store.scan().await.is_ok());
    leases.put(&with(kcl2(), &[("ofStream", s("payments"))])).await;
    let outcomes =
        [leases.store.scan().await.map(|_| ()), leases.store.read(&SHARD.into()).await.map(|_| ())];
    for outcome in outcomes {
        match outcome {
            Err(StoreError::OtherStream(text)) => {
                assert!([TABLE, "payments", STREAM].iter().all(|name| text.contains(name)), "{text}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_first_shard_has_no_attribute_for_parents() {
    let leases = Leases::new().await;
    leases.store.create(&new_lease(&[])).await.unwrap();
    assert!(!leases.get(SHARD).await.unwrap().contains_key("parentShardId"));
}

#[tokio::test]
async fn a_row_that_exists_is_not_created_again() {
    let leases = Leases::new().await;
    leases.put(&kcl3()).await;
    assert_eq!(leases.store.create(&new_lease(&[])).await, Ok(Created::Existed));
    assert_eq!(leases.get(SHARD).await, Some(sorted(kcl3())));
}

#[tokio::test]
async fn a_row_at_latest_keeps_since_when_to_the_millisecond() {
    let leases = Leases::new().await;
    let since = std::time::UNIX_EPOCH + std::time::Duration::from_millis(1_750_000_000_123);
    let new = NewLease { checkpoint: Checkpoint::Latest, latest_since: Some(since), ..new_lease(&[]) };
    assert_eq!(leases.store.create(&new).await, Ok(Created::New));
    assert_eq!(leases.get(SHARD).await.unwrap()["latestSince"], n("1750000000123"));
    let row = leases.store.read(&SHARD.into()).await.unwrap().unwrap();
    assert_eq!(row.latest_since, Some(since));
}

#[tokio::test]
async fn rows_of_every_kcl_version_are_read() {
    let leases = Leases::new().await;
    let first = Lease {
        shard: SHARD.into(),
        owner: Some("java-1".into()),
        counter: 41,
        owner_switches: 2,
        checkpoint: Checkpoint::At(Position::new(SEQUENCE.parse().unwrap(), 5)),
        parents: vec!["shardId-000000000000".into(), "shardId-000000000001".into()],
        children: Vec::new(),
        hash_range: None,
        checkpoint_owner: None,
        token: None,
        asked_by: None,
        is_offered: false,
        latest_since: None,
    };
    let second = Lease {
        children: vec!["shardId-000000000007".into()],
        hash_range: Some(HashRange { start: HashKey(0), end: HashKey(u128::MAX / 2) }),
        ..first.clone()
    };
    let third = Lease {
        checkpoint_owner: Some("java-0".into()),
        token: Some("old token".to_owned()),
        ..second.clone()
    };
    for (row, lease) in [(kcl1(), first), (kcl2(), second), (kcl3(), third)] {
        leases.put(&row).await;
        assert_eq!(leases.store.read(&SHARD.into()).await, Ok(Some(lease.clone())));
        assert_eq!(leases.store.scan().await, Ok(vec![lease].into()));
    }
}

#[tokio::test]
async fn a_row_without_the_switches_of_owner_is_read_and_mended_by_a_take() {
    let row = changed(without(kcl1(), &["ownerSwitchesSinceCheckpoint"]), take("rust-1", 1)).await;
    assert_eq!(row["ownerSwitchesSinceCheckpoint"], n("1"));
}

#[tokio::test]
async fn an_empty_owner_is_an_owner_as_in_the_kcl_and_a_null_is_none() {
    let leases = Leases::new().await;
    for (value, owner) in [(s(""), Some("".into())), (AttributeValue::Null(true), None)] {
        leases.put(&with(kcl2(), &[("leaseOwner", value)])).await;
        assert_eq!(leases.store.read(&SHARD.into()).await.unwrap().unwrap().owner, owner);
    }
}

#[tokio::test]
async fn a_renewal_raises_the_counter_and_leaves_everything_else() {
    for row in [kcl1(), kcl2(), kcl3()] {
        let expected = with(row.clone(), &[("leaseCounter", n("42"))]);
        assert_eq!(changed(row, LeaseChange::Renew).await, expected);
    }
}

#[tokio::test]
async fn a_take_sets_owner_and_token_counts_the_switch_and_ends_a_hand_over() {
    let expected = with(
        without(kcl3(), &["checkpointOwner"]),
        &[
            ("leaseCounter", n("42")),
            ("leaseOwner", s("rust-1")),
            ("acquisitionToken", s("new token")),
            ("ownerSwitchesSinceCheckpoint", n("3")),
        ],
    );
    assert_eq!(changed(kcl3(), take("rust-1", 1)).await, expected);
}

#[tokio::test]
async fn taking_a_row_without_an_owner_counts_no_switch() {
    let row = changed(without(kcl2(), &["leaseOwner"]), take("rust-1", 0)).await;
    assert_eq!(row["ownerSwitchesSinceCheckpoint"], n("2"));
    assert_eq!(row["leaseOwner"], s("rust-1"));
}

#[tokio::test]
async fn a_checkpoint_is_stored_with_its_sub_sequence_number_and_ends_a_pending_one() {
    let pending = ["pendingCheckpoint", "pendingCheckpointSubSequenceNumber", "pendingCheckpointState"];
    let expected = with(
        without(kcl3(), &pending),
        &[
            ("leaseCounter", n("42")),
            ("checkpoint", s("0077")),
            ("checkpointSubSequenceNumber", n("-1")),
            ("ownerSwitchesSinceCheckpoint", n("0")),
        ],
    );
    let position = Position::new("0077".parse().unwrap(), -1);
    assert_eq!(changed(kcl3(), LeaseChange::Checkpoint(Checkpoint::At(position))).await, expected);
}

#[tokio::test]
async fn the_end_of_a_shard_is_stored_with_its_children() {
    let children = vec!["shardId-000000000008".into(), "shardId-000000000009".into()];
    let row = changed(kcl2(), LeaseChange::End { children }).await;
    let expected = with(
        without(
            kcl2(),
            &["pendingCheckpoint", "pendingCheckpointSubSequenceNumber", "pendingCheckpointState"],
        ),
        &[
            ("leaseCounter", n("42")),
            ("checkpoint", s("SHARD_END")),
            ("checkpointSubSequenceNumber", n("0")),
            ("ownerSwitchesSinceCheckpoint", n("0")),
            ("childShardIds", ss(&["shardId-000000000008", "shardId-000000000009"])),
        ],
    );
    assert_eq!(row, expected);
}

#[tokio::test]
async fn the_end_of_a_shard_whose_children_are_unknown_keeps_those_that_the_row_has() {
    let row = changed(kcl2(), LeaseChange::End { children: Vec::new() }).await;
    assert_eq!(row["childShardIds"], ss(&["shardId-000000000007"]));
    assert!(!changed(kcl1(), LeaseChange::End { children: Vec::new() }).await.contains_key("childShardIds"));
}

#[tokio::test]
async fn a_release_removes_owners_and_token_and_keeps_the_checkpoint() {
    let gone = ["leaseOwner", "checkpointOwner", "acquisitionToken"];
    let expected = with(without(kcl3(), &gone), &[("leaseCounter", n("42"))]);
    assert_eq!(changed(kcl3(), LeaseChange::Release).await, expected);
}

#[tokio::test]
async fn a_finished_hand_over_leaves_the_row_to_the_next_owner() {
    let expected =
        with(without(kcl3(), &["checkpointOwner", "acquisitionToken"]), &[("leaseCounter", n("42"))]);
    assert_eq!(changed(kcl3(), LeaseChange::HandOver).await, expected);
}

/// A row whose owner, a worker of this library, was asked for it, and which an older KCL 3.x hand-over has marked.
fn asked_for() -> Item {
    let asked = [("handOverTo", s("rust-2")), ("handOverOffered", AttributeValue::Bool(true))];
    with(kcl3(), &asked)
}

#[tokio::test]
async fn asking_and_taking_back_leave_the_counter_and_all_else_as_it_is() {
    let asked = with(kcl2(), &[("handOverTo", s("rust-2"))]);
    assert_eq!(changed(kcl2(), LeaseChange::Ask { by: "rust-2".into() }).await, asked);
    assert_eq!(changed(asked, LeaseChange::Withdraw { by: "rust-2".into() }).await, sorted(kcl2()));
}

#[tokio::test]
async fn an_offer_is_a_renewal_that_can_be_seen() {
    let offered = [("leaseCounter", n("42")), ("handOverOffered", AttributeValue::Bool(true))];
    assert_eq!(changed(kcl2(), LeaseChange::Offer).await, with(kcl2(), &offered));
}

#[tokio::test]
async fn an_offer_that_is_taken_back_leaves_the_row_renewed_and_whoever_has_asked_in_it() {
    let kept = with(without(asked_for(), &["handOverOffered"]), &[("leaseCounter", n("42"))]);
    assert_eq!(changed(asked_for(), LeaseChange::Keep).await, kept);
    assert_eq!(changed(kcl2(), LeaseChange::Keep).await, with(kcl2(), &[("leaseCounter", n("42"))]));
}

#[tokio::test]
async fn a_lease_is_given_to_the_worker_that_asked_and_to_no_other() {
    let give = |to: &str| LeaseChange::Give { to: to.into(), token: format!("{to}/given") };
    let left = without(asked_for(), &["checkpointOwner", "handOverTo", "handOverOffered"]);
    let expected = with(
        left,
        &[
            ("leaseOwner", s("rust-2")),
            ("acquisitionToken", s("rust-2/given")),
            ("leaseCounter", n("42")),
            ("ownerSwitchesSinceCheckpoint", n("3")),
        ],
    );
    assert_eq!(changed(asked_for(), give("rust-2")).await, expected);

    let leases = Leases::new().await;
    for row in [asked_for(), kcl2()] {
        leases.put(&row).await;
        assert!(matches!(leases.write(SHARD, 41, give("rust-3")).await, Written::Refused(Some(_))));
        assert_eq!(leases.get(SHARD).await, Some(sorted(row)));
    }
}

#[tokio::test]
async fn only_one_worker_at_a_time_asks_for_a_lease() {
    let leases = Leases::new().await;
    leases.put(&asked_for()).await;
    for change in [LeaseChange::Ask { by: "rust-3".into() }, LeaseChange::Withdraw { by: "rust-3".into() }] {
        match leases.write(SHARD, 41, change).await {
            Written::Refused(Some(row)) => assert_eq!(row.asked_by, Some("rust-2".into())),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn whoever_takes_or_releases_a_lease_ends_the_hand_over() {
    let of_hand_over = ["checkpointOwner", "handOverTo", "handOverOffered"];
    for change in [take("rust-3", 1), LeaseChange::Release, LeaseChange::HandOver] {
        let row = changed(asked_for(), change).await;
        assert!(of_hand_over.iter().all(|attribute| !row.contains_key(*attribute)), "{row:?}");
    }
}

#[tokio::test]
async fn a_refused_write_changes_nothing_and_carries_the_row_as_it_is() {
    let leases = Leases::new().await;
    leases.put(&kcl3()).await;
    let row = leases.store.read(&SHARD.into()).await.unwrap().map(Box::new);
    let changes = [
        LeaseChange::Renew,
        take("rust-1", 1),
        LeaseChange::Checkpoint(Checkpoint::TrimHorizon),
        LeaseChange::End { children: vec!["shardId-000000000008".into()] },
        LeaseChange::Release,
        LeaseChange::HandOver,
        LeaseChange::Ask { by: "rust-2".into() },
        LeaseChange::Offer,
        LeaseChange::Keep,
    ];
    for change in changes {
        for counter in [40, 42] {
            assert_eq!(leases.write(SHARD, counter, change.clone()).await, Written::Refused(row.clone()));
        }
    }
    assert_eq!(leases.get(SHARD).await, Some(sorted(kcl3())));
}

#[tokio::test]
async fn a_write_to_a_row_that_is_gone_is_refused_and_does_not_bring_it_back() {
    let leases = Leases::new().await;
    for change in [LeaseChange::Renew, take("rust-1", 0), LeaseChange::Release] {
        assert_eq!(leases.write(SHARD, 0, change).await, Written::Refused(None));
    }
    assert_eq!(leases.get(SHARD).await, None);
}

#[tokio::test]
async fn only_a_finished_row_with_the_expected_counter_is_deleted() {
    let leases = Leases::new().await;
    leases.put(&kcl2()).await;
    let delete = async |counter| leases.store.delete(&SHARD.into(), counter).await;
    assert_eq!(delete(41).await, Ok(Deleted::Refused), "it is not finished");
    leases.write(SHARD, 41, LeaseChange::End { children: Vec::new() }).await;
    assert_eq!(delete(41).await, Ok(Deleted::Refused), "it has changed");
    assert!(leases.get(SHARD).await.is_some());
    assert_eq!(delete(42).await, Ok(Deleted::Gone));
    assert_eq!(leases.get(SHARD).await, None);
    assert_eq!(delete(42).await, Ok(Deleted::Refused));
}

#[tokio::test]
async fn no_checkpoint_replaces_the_end_of_a_shard() {
    let leases = Leases::new().await;
    leases.put(&kcl2()).await;
    leases.write(SHARD, 41, LeaseChange::End { children: vec!["shardId-000000000008".into()] }).await;
    let ended = leases.get(SHARD).await;

    let changes = [
        LeaseChange::Checkpoint(Checkpoint::At(Position::new(SEQUENCE.parse().unwrap(), 0))),
        LeaseChange::Checkpoint(Checkpoint::Latest),
        LeaseChange::End { children: Vec::new() },
    ];
    for change in changes {
        match leases.write(SHARD, 42, change).await {
            Written::Refused(Some(row)) => assert!(row.is_finished() && row.counter == 42),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(leases.get(SHARD).await, ended);

    assert!(matches!(leases.write(SHARD, 42, take("rust-2", 1)).await, Written::Applied(_)));
    assert!(matches!(leases.write(SHARD, 43, LeaseChange::Renew).await, Written::Applied(_)));
    assert!(matches!(leases.write(SHARD, 44, LeaseChange::Release).await, Written::Applied(_)));
    let row = leases.store.read(&SHARD.into()).await.unwrap().unwrap();
    assert_eq!((row.checkpoint, row.owner), (Checkpoint::ShardEnd, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_sixteen_workers_that_take_a_row_at_once_exactly_one_gets_it() {
    const WORKERS: i64 = 16;
    const ROUNDS: i64 = 30;
    let leases = Leases::new().await;
    leases.store.create(&new_lease(&[])).await.unwrap();
    for round in 0..ROUNDS {
        let takes: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let store = std::sync::Arc::clone(&leases.store);
                tokio::spawn(async move {
                    let write = kinesis_lease::LeaseWrite {
                        shard: SHARD.into(),
                        expected_counter: round,
                        change: take(&format!("rust-{worker}"), i64::from(round > 0)),
                    };
                    (worker, store.write(&write).await.unwrap())
                })
            })
            .collect();
        let mut winners = Vec::new();
        let mut seen = Vec::new();
        for task in takes {
            match task.await.unwrap() {
                (worker, Written::Applied(_)) => winners.push(format!("rust-{worker}")),
                (_, Written::Refused(row)) => seen.push(row.unwrap()),
            }
        }
        assert_eq!(winners.len(), 1, "round {round}");
        for row in seen {
            assert_eq!(row.counter, round + 1);
            assert_eq!(row.owner.unwrap().as_str(), winners[0]);
        }
    }
    let row = leases.store.read(&SHARD.into()).await.unwrap().unwrap();
    assert_eq!((row.counter, row.owner_switches), (ROUNDS, ROUNDS - 1));
}

/// Attributes that no KCL knows, or that say what the stream says as well.
fn without_weight() -> [(&'static str, AttributeValue); 9] {
    [
        ("handOverTo", n("5")),
        ("acquisitionToken", n("7")),
        ("handOverOffered", s("yes")),
        ("latestSince", s("now")),
        ("latestSince", n("-9223372036854775808")),
        ("childShardIds", AttributeValue::L(Vec::new())),
        ("startingHashKey", n("1")),
        ("endingHashKey", s("-1")),
        ("throughputKBps", s("fast")),
    ]
}

#[tokio::test]
async fn a_row_is_not_given_up_for_an_attribute_of_no_weight_that_cannot_be_read() {
    let leases = Leases::new().await;
    let reversed = with(kcl2(), &[("startingHashKey", s("5")), ("endingHashKey", s("4"))]);
    let odd = without_weight().map(|attribute| with(kcl2(), &[attribute]));
    for row in odd.into_iter().chain([reversed]) {
        leases.put(&row).await;
        let lease = leases.store.read(&SHARD.into()).await.unwrap().unwrap();
        assert_eq!((lease.counter, lease.owner), (41, Some("java-1".into())), "{row:?}");
        assert_eq!(lease.asked_by, None);
        assert!(matches!(leases.write(SHARD, 41, LeaseChange::Renew).await, Written::Applied(Some(_))));
        match leases.write(SHARD, 42, LeaseChange::Ask { by: "rust-2".into() }).await {
            Written::Applied(Some(row)) => assert_eq!(row.asked_by, Some("rust-2".into())),
            other => panic!("{other:?}"),
        }
        let taken = leases.write(SHARD, 42, take("rust-1", 1)).await;
        assert!(matches!(taken, Written::Applied(Some(_))), "{taken:?}");
    }
}

#[tokio::test]
async fn a_write_to_a_row_that_cannot_be_read_says_so_whether_it_is_applied_or_not() {
    let leases = Leases::new().await;
    leases.put(&with(kcl2(), &[("parentShardId", s("shardId-0"))])).await;
    for expected_counter in [41, 7] {
        let write = LeaseWrite { shard: SHARD.into(), expected_counter, change: take("rust-1", 1) };
        match leases.store.write(&write).await {
            Err(StoreError::Unreadable(text)) => assert!(text.contains("parentShardId"), "{text}"),
            other => panic!("{other:?}"),
        }
    }
}
