//! What a write does to a row, and under which conditions.

use super::*;
use crate::lease::{Lease, LeaseWrite};
use crate::store::Written;
use crate::testing::{at, owned};

/// A row with everything set.
fn full() -> Lease {
    Lease {
        token: Some("me/life-1".into()),
        owner_switches: 3,
        children: vec!["c".into()],
        asked_by: Some("asker".into()),
        is_offered: true,
        checkpoint_owner: Some("me".into()),
        ..owned("a", "next", 5)
    }
}

fn finished() -> Lease {
    Lease { checkpoint: Checkpoint::ShardEnd, ..full() }
}

fn write(change: LeaseChange, expected_counter: i64, mut row: Lease) -> (bool, Lease) {
    let before = row.clone();
    let write = LeaseWrite { shard: row.shard.clone(), expected_counter, change };
    let is_applied = matches!(write.apply_to(Some(&mut row)), Written::Applied(_));
    assert!(is_applied || row == before);
    (is_applied, row)
}

#[test]
fn a_write_needs_the_counter_and_a_row_that_is_fit_for_it() {
    let (ask, withdraw) =
        (|by: &str| LeaseChange::Ask { by: by.into() }, |by: &str| LeaseChange::Withdraw { by: by.into() });
    let end = || LeaseChange::End { children: vec![] };
    let unasked = || Lease { asked_by: None, ..full() };
    for (change, counter, row, expected) in [
        (LeaseChange::Renew, 5, full(), true),
        (LeaseChange::Renew, 4, full(), false),
        (LeaseChange::Renew, 6, full(), false),
        (LeaseChange::Checkpoint(at(9)), 5, full(), true),
        (LeaseChange::Checkpoint(at(9)), 5, finished(), false),
        (end(), 5, full(), true),
        (end(), 5, finished(), false),
        (LeaseChange::BeginAnew(at(1)), 5, finished(), true),
        (LeaseChange::BeginAnew(at(1)), 5, full(), false),
        (ask("me"), 5, unasked(), true),
        (ask("me"), 5, full(), false),
        (withdraw("asker"), 5, full(), true),
        (withdraw("me"), 5, full(), false),
        (withdraw("asker"), 5, unasked(), false),
    ] {
        assert_eq!(write(change.clone(), counter, row).0, expected, "{change:?}");
    }
}

#[test]
fn a_write_leaves_what_it_does_not_name() {
    let no_hand_over =
        || Lease { checkpoint_owner: None, asked_by: None, is_offered: false, counter: 6, ..full() };
    for (change, expected) in [
        (LeaseChange::Renew, Lease { counter: 6, ..full() }),
        (
            LeaseChange::Checkpoint(at(9)),
            Lease { counter: 6, checkpoint: at(9), owner_switches: 0, ..full() },
        ),
        (
            LeaseChange::End { children: vec!["d".into()] },
            Lease { counter: 6, owner_switches: 0, children: vec!["d".into()], ..finished() },
        ),
        (
            LeaseChange::Take { owner: "me".into(), token: "me/2".into(), owner_switches: 1 },
            Lease {
                owner: Some("me".into()),
                token: Some("me/2".into()),
                owner_switches: 4,
                ..no_hand_over()
            },
        ),
        (LeaseChange::Release, Lease { owner: None, token: None, ..no_hand_over() }),
        (LeaseChange::HandOver, Lease { token: None, ..no_hand_over() }),
        (
            LeaseChange::Give { to: "asker".into(), token: "asker/given".into() },
            Lease {
                owner: Some("asker".into()),
                token: Some("asker/given".into()),
                owner_switches: 4,
                ..no_hand_over()
            },
        ),
        (LeaseChange::Keep, Lease { counter: 6, is_offered: false, ..full() }),
        (LeaseChange::Withdraw { by: "asker".into() }, Lease { asked_by: None, ..full() }),
    ] {
        assert_eq!(write(change, 5, full()), (true, expected));
    }
    let begun = Lease {
        owner: None,
        token: None,
        owner_switches: 0,
        children: vec![],
        checkpoint: at(1),
        ..no_hand_over()
    };
    assert_eq!(write(LeaseChange::BeginAnew(at(1)), 5, finished()), (true, begun));
}

#[test]
fn a_lease_is_promised_while_somebody_drains_it_for_another() {
    for (owner, drained_by, expected) in
        [("next", Some("me"), true), ("me", Some("me"), false), ("me", None, false)]
    {
        let row = Lease { checkpoint_owner: drained_by.map(Into::into), ..owned("a", owner, 1) };
        assert_eq!(row.is_promised(), expected, "{owner} {drained_by:?}");
    }
}
