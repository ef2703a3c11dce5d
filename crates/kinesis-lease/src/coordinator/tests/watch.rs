//! What this process remembers of rows.

use super::harness::{FAILOVER, secs};
use super::*;
use crate::lease::Lease;
use crate::testing::{at, closed, complete_list, open, owned, row};

fn missing_of(list: &ShardList, rows: Vec<Lease>, deleted: &[&str]) -> Vec<(String, Checkpoint)> {
    let mut watch = Watch::default();
    for row in rows {
        watch.see(Duration::ZERO, row);
    }
    for shard in deleted {
        watch.forget(&(*shard).into());
    }
    let missing = watch.missing(list, &Checkpoint::Latest, [].iter());
    missing.into_iter().map(|new| (new.shard.to_string(), new.checkpoint)).collect()
}

#[test]
fn a_deleted_row_whose_shard_was_finished_since_it_was_last_seen_stays_so() {
    let list = complete_list([closed("a", &[]), closed("p", &["a"]), open("q", &["p"]), open("x", &[])]);
    for of_parent in [at(3), Checkpoint::TrimHorizon] {
        let rows = vec![
            row("a", &[], at(2)),
            row("p", &["a"], of_parent),
            row("q", &["p"], at(9)),
            row("x", &[], at(7)),
        ];
        assert_eq!(missing_of(&list, rows, &["a", "p"]), [], "a descendant has begun");
    }
}

#[test]
fn a_deleted_row_whose_children_have_not_begun_is_missing_as_it_was() {
    let list = complete_list([closed("p", &["o"]), open("q", &["p"])]);
    let mut watch = Watch::default();
    let latest_since = Some(std::time::SystemTime::UNIX_EPOCH);
    watch.see(secs(0), Lease { latest_since, ..row("p", &["o"], at(5)) });
    watch.see(secs(0), row("q", &["p"], Checkpoint::TrimHorizon));
    watch.forget(&"p".into());
    let expected = NewLease::new(crate::testing::child("p", &["o"]), at(5));
    assert_eq!(watch.missing(&list, &Checkpoint::Latest, [].iter()), [NewLease { latest_since, ..expected }]);
}

#[test]
fn a_deleted_row_is_forgotten_once_the_stream_does_not_know_its_shard() {
    let list = complete_list([open("q", &["p"])]);
    let former = vec![row("a", &[], at(7))];
    assert_eq!(missing_of(&list, former, &["a"]), [("q".to_owned(), Checkpoint::Latest)], "a first start");
}

#[test]
fn the_ancestors_of_a_shard_whose_row_is_being_created_are_not_missing() {
    let list = complete_list([closed("a", &[]), open("b", &["a"]), open("x", &[])]);
    let mut watch = Watch::default();
    watch.see(secs(1), row("x", &[], at(7)));
    let coming = [NewLease::new(crate::testing::child("b", &["a"]), Checkpoint::Latest)];
    assert_eq!(watch.missing(&list, &Checkpoint::Latest, coming.iter()), []);
}

#[test]
fn a_deleted_row_that_is_there_again_is_not_missing() {
    let list = complete_list([open("a", &[])]);
    let again: [fn(&mut Watch); 3] = [
        |watch| watch.see(secs(2), row("a", &[], at(8))),
        |watch| watch.know(row("a", &[], at(8))),
        |watch| watch.created(NewLease::new(crate::testing::child("a", &[]), at(7))),
    ];
    for comes_again in again {
        let mut watch = Watch::default();
        watch.see(secs(1), row("a", &[], at(7)));
        watch.forget(&"a".into());
        comes_again(&mut watch);
        assert_eq!(watch.missing(&list, &Checkpoint::Latest, [].iter()), []);
    }
}

#[test]
fn a_row_that_comes_again_is_watched_from_then_on() {
    let mut watch = Watch::default();
    let offered = Lease { is_offered: true, ..owned("a", "other", 1) };
    watch.see(secs(0), offered.clone());
    watch.forget(&"a".into());
    watch.see(secs(100), offered);
    assert!(!watch.is_offered_for(secs(100), &"a".into(), FAILOVER));
    assert!(watch.is_offered_for(secs(110), &"a".into(), FAILOVER));
}

#[test]
fn a_row_whose_lease_is_ours_is_not_watched() {
    let mut watch = Watch::default();
    watch.see(secs(0), owned("a", "me", 1));
    assert!(watch.is_expired(secs(100), &"a".into(), FAILOVER));
    watch.know(owned("a", "me", 2));
    assert!(!watch.is_expired(secs(100), &"a".into(), FAILOVER));
}

#[test]
fn a_creation_that_is_confirmed_late_does_not_hide_what_the_row_has_become() {
    let mut watch = Watch::default();
    watch.see(secs(0), owned("a", "other", 1));
    watch.created(NewLease::new(crate::testing::child("a", &[]), Checkpoint::TrimHorizon));
    assert_eq!(watch.rows["a"], owned("a", "other", 1));
}
