//! What a row says of a write whose end is not known.

use super::harness::secs;
use super::*;
use crate::lease::Lease;
use crate::testing::{at, owned};

use grip::Judgement::{self, Applied, NotApplied, NotOurs};

const TOKEN: &str = "me/life-1";

/// A write of `change` against counter 5.
fn under_way(stage: grip::Stage, change: &LeaseChange, is_reply_lost: bool) -> Grip {
    let mut grip = Grip::new(Acquisition(1), TOKEN.into(), 5, LeaseChange::Renew);
    grip.wanted.clear();
    grip.stage = stage;
    grip.begin(secs(20), Wanted { change: change.clone(), request: None });
    if is_reply_lost {
        grip.reply_lost();
    }
    grip
}

fn ours(counter: i64) -> Lease {
    Lease { token: Some(TOKEN.into()), ..owned("a", "me", counter) }
}

/// Not ours, whoever owns it.
fn of(owner: Option<&str>, counter: i64) -> Lease {
    let token = owner.map(|owner| format!("{owner}/life-1"));
    Lease { owner: owner.map(Into::into), token, ..owned("a", "me", counter) }
}

fn promised(lease: Lease) -> Lease {
    Lease { owner: Some("next".into()), checkpoint_owner: Some("me".into()), ..lease }
}

fn judge(change: &LeaseChange, is_reply_lost: bool, row: &Lease) -> Judgement {
    under_way(grip::Stage::Held, change, is_reply_lost).judge(row, &"me".into())
}

#[test]
fn a_write_was_applied_if_the_row_shows_what_only_it_can_have_done() {
    let checkpoint = LeaseChange::Checkpoint(at(9));
    let stored = |lease: Lease| Lease { checkpoint: at(9), ..lease };
    let end = LeaseChange::End { children: vec![] };
    let ended = |lease: Lease| Lease { checkpoint: Checkpoint::ShardEnd, ..lease };
    let offered = |lease: Lease| Lease { is_offered: true, ..lease };
    let (offer, keep, renew) = (LeaseChange::Offer, LeaseChange::Keep, LeaseChange::Renew);
    let give = LeaseChange::Give { to: "next".into(), token: "next/given".into() };
    for (change, row, expected) in [
        (&renew, ours(5), NotApplied),
        (&renew, ours(6), Applied),
        (&renew, of(Some("other"), 6), NotOurs),
        (&checkpoint, stored(ours(6)), Applied),
        (&checkpoint, stored(ours(5)), NotApplied),
        (&checkpoint, ours(6), NotApplied),
        (&checkpoint, stored(of(Some("other"), 6)), NotOurs),
        (&end, ended(ours(6)), Applied),
        (&end, ended(of(None, 9)), Applied),
        (&end, ours(6), NotApplied),
        (&end, of(Some("other"), 6), NotOurs),
        (&offer, offered(ours(6)), Applied),
        (&offer, offered(ours(5)), NotApplied),
        (&offer, ours(6), NotApplied),
        (&offer, offered(of(Some("other"), 6)), NotOurs),
        (&keep, ours(6), Applied),
        (&keep, ours(5), NotApplied),
        (&keep, offered(ours(6)), NotApplied),
        (&keep, of(Some("other"), 6), NotOurs),
        (&give, of(Some("next"), 6), Applied),
        (&give, of(Some("next"), 7), Applied),
        (&give, of(Some("next"), 5), NotOurs),
        (&give, of(Some("other"), 6), NotOurs),
        (&give, ours(6), NotApplied),
    ] {
        for is_reply_lost in [false, true] {
            assert_eq!(judge(change, is_reply_lost, &row), expected, "{change:?} {row:?}");
        }
    }
}

#[test]
fn a_release_without_a_reply_was_applied_whoever_has_taken_the_lease_since() {
    for (row, if_refused, if_lost) in [
        (of(None, 6), Applied, Applied),
        (of(None, 7), NotOurs, Applied),
        (of(None, 5), NotOurs, NotOurs),
        (of(Some("other"), 6), NotOurs, Applied),
        (of(Some("other"), 5), NotOurs, NotOurs),
        (ours(6), NotApplied, NotApplied),
        (ours(5), NotApplied, NotApplied),
    ] {
        assert_eq!(judge(&LeaseChange::Release, false, &row), if_refused, "{row:?}");
        assert_eq!(judge(&LeaseChange::Release, true, &row), if_lost, "{row:?}");
    }
}

#[test]
fn a_hand_over_was_applied_if_the_next_owner_may_start() {
    for (row, expected) in [
        (of(Some("next"), 6), Applied),
        (of(None, 6), Applied),
        (of(Some("next"), 7), NotOurs),
        (promised(ours(6)), NotApplied),
        (ours(6), NotApplied),
        (Lease { token: None, ..ours(6) }, NotOurs),
        (promised(of(Some("other"), 6)), NotOurs),
    ] {
        assert_eq!(judge(&LeaseChange::HandOver, true, &row), expected, "{row:?}");
    }
}

#[test]
fn a_lease_that_was_given_to_us_is_lost_only_if_we_are_not_just_taking_it() {
    let row = Lease { token: Some("me/given".into()), ..ours(5) };
    let take = LeaseChange::Take { owner: "me".into(), token: TOKEN.into(), owner_switches: 0 };
    let taking = under_way(grip::Stage::Taking, &take, false);
    assert_eq!(taking.judge(&row, &"me".into()), NotApplied);
    assert_eq!(judge(&LeaseChange::Renew, false, &row), NotOurs, "another process under our name has it");
}

#[test]
fn a_write_that_the_row_shows_leaves_the_counter_of_the_row() {
    let mut grip = under_way(grip::Stage::Held, &LeaseChange::Renew, true);
    assert!(grip.applied(Some(&ours(9))).is_some());
    assert_eq!(grip.counter, 9);
}
