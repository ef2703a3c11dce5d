use super::*;
use crate::testing::{at, closed, complete_list, open, row};

const OLDEST: Checkpoint = Checkpoint::TrimHorizon;
const NEWEST: Checkpoint = Checkpoint::Latest;
const INSTANT: Checkpoint = Checkpoint::AtTimestamp;
const END: Checkpoint = Checkpoint::ShardEnd;

/// Eleven shards, of which 08, 09 and 10 are open: 06 came from 00 and 01, 07 from 02 and 03, 08 from 04, 09 from 04
/// and 05, and 10 from 06 and 07.
fn stream() -> ShardList {
    complete_list([
        closed("00", &[]),
        closed("01", &[]),
        closed("02", &[]),
        closed("03", &[]),
        closed("04", &[]),
        closed("05", &[]),
        closed("06", &["00", "01"]),
        closed("07", &["02", "03"]),
        open("08", &["04"]),
        open("09", &["04", "05"]),
        open("10", &["06", "07"]),
    ])
}

fn rows(rows: impl IntoIterator<Item = Lease>) -> Rows {
    rows.into_iter().map(|row| (row.shard.clone(), row)).collect()
}

/// The names of the missing rows and where they are read from, in order.
fn missing(rows: &Rows, list: &ShardList, initial: &Checkpoint) -> Vec<(String, Checkpoint)> {
    let missing = missing_leases(rows, list, initial);
    missing.into_iter().map(|new| (new.shard.to_string(), new.checkpoint)).collect()
}

fn all(shards: &[&str], checkpoint: &Checkpoint) -> Vec<(String, Checkpoint)> {
    shards.iter().map(|shard| ((*shard).to_owned(), checkpoint.clone())).collect()
}

#[test]
fn an_empty_table_gets_what_the_initial_position_asks_for() {
    let every = ["00", "01", "02", "03", "04", "05", "06", "07", "08", "09", "10"];
    assert_eq!(missing(&Rows::new(), &stream(), &OLDEST), all(&every, &OLDEST));
    assert_eq!(missing(&Rows::new(), &stream(), &INSTANT), all(&every, &INSTANT));
    assert_eq!(missing(&Rows::new(), &stream(), &NEWEST), all(&["08", "09", "10"], &NEWEST));
}

#[test]
fn a_complete_table_misses_nothing() {
    for initial in [OLDEST, NEWEST, INSTANT] {
        let complete = rows(stream().iter().map(|shard| row(shard.id.as_str(), &[], at(1))));
        assert_eq!(missing(&complete, &stream(), &initial), []);
    }
}

#[test]
fn parents_come_before_children() {
    let order = missing(&Rows::new(), &complete_list([open("2", &["1"]), closed("1", &[])]), &OLDEST);
    assert_eq!(order, all(&["1", "2"], &OLDEST));
}

#[test]
fn a_descendant_of_a_leased_shard_is_read_whole() {
    let list = complete_list([closed("1", &[]), closed("2", &["1"]), open("3", &["2"])]);
    for (initial, expected) in [(OLDEST, OLDEST), (NEWEST, OLDEST), (INSTANT, INSTANT)] {
        for of_first in [END, at(1), NEWEST] {
            let leased = rows([row("1", &[], of_first)]);
            assert_eq!(missing(&leased, &list, &initial), all(&["2", "3"], &expected));
        }
    }
}

#[test]
fn a_descendant_is_known_by_its_parents_row_when_the_parent_has_left_the_list() {
    let list = complete_list([open("2", &["1"])]);
    assert_eq!(missing(&rows([row("1", &[], at(1))]), &list, &NEWEST), all(&["2"], &OLDEST));
}

#[test]
fn the_ancestors_of_shards_that_have_begun_are_not_created() {
    let list = complete_list([closed("1", &[]), closed("2", &["1"]), open("3", &["2"])]);
    for begun in [at(5), NEWEST, END] {
        for initial in [OLDEST, NEWEST, INSTANT] {
            assert_eq!(missing(&rows([row("3", &["2"], begun.clone())]), &list, &initial), []);
        }
    }
}

#[test]
fn the_ancestors_that_a_shard_waits_for_are_created_all_at_once() {
    let list = complete_list([closed("1", &[]), closed("2", &["1"]), open("3", &["2"])]);
    assert_eq!(missing(&rows([row("3", &["2"], OLDEST)]), &list, &OLDEST), all(&["1", "2"], &OLDEST));
    let begun = rows([row("2", &["1"], at(4)), row("3", &["2"], OLDEST)]);
    assert_eq!(missing(&begun, &list, &OLDEST), []);
}

#[test]
fn the_other_parent_of_a_merged_shard_that_waits_is_created() {
    let list = complete_list([closed("1", &[]), closed("2", &[]), open("3", &["1", "2"])]);
    let leased = rows([row("1", &[], END), row("3", &["1", "2"], OLDEST)]);
    assert_eq!(missing(&leased, &list, &OLDEST), all(&["2"], &OLDEST));
    let leased = rows([row("1", &[], NEWEST)]);
    assert_eq!(missing(&leased, &list, &NEWEST), all(&["2", "3"], &OLDEST), "together with it");
}

#[test]
fn what_was_before_a_shard_that_has_begun_is_not_created_for_the_one_beside_it() {
    let list = complete_list([closed("1", &[]), closed("2", &["1"]), open("3", &["2"]), open("4", &["2"])]);
    for begun in [at(5), NEWEST, END] {
        let waiting = row("4", &["2"], OLDEST);
        let leased = rows([row("3", &["2"], begun), waiting.clone()]);
        assert_eq!(missing(&leased, &list, &NEWEST), []);
        assert!(may_start(&waiting, &leased, &list), "nothing in its parent is wanted");
    }
}

#[test]
fn a_start_from_the_newest_record_goes_on_with_the_open_shards() {
    assert_eq!(missing(&rows([row("08", &[], NEWEST)]), &stream(), &NEWEST), all(&["09", "10"], &NEWEST));
}

#[test]
fn a_shard_of_unknown_descent_in_a_table_in_use_is_read_whole() {
    let list = complete_list([open("1", &[]), open("5", &["3"]), open("6", &[])]);
    let in_use = rows([row("1", &[], at(1))]);
    assert_eq!(
        missing(&in_use, &list, &NEWEST),
        [("5".to_owned(), OLDEST), ("6".to_owned(), NEWEST)],
        "5 came from shards that this application may have read; 6 has been there from the beginning"
    );
}

#[test]
fn long_chains_of_splits_and_merges_are_walked_in_no_time() {
    let mut shards = vec![open("1000", &[])];
    let mut last = "1000".to_owned();
    for generation in 0..200 {
        let [left, right, merged] = [1, 2, 3].map(|child| format!("{}", 1000 + generation * 3 + child));
        shards.push(closed(&left, &[&last]));
        shards.push(closed(&right, &[&last]));
        shards.push(closed(&merged, &[&left, &right]));
        last = merged;
    }
    let list = complete_list(shards);
    assert_eq!(missing(&rows([row(&last, &[], at(1))]), &list, &OLDEST), []);
    assert_eq!(missing(&rows([row(&last, &[], OLDEST)]), &list, &OLDEST).len(), 600);
}

#[test]
fn a_shard_starts_when_each_parent_is_finished() {
    let list = complete_list([closed("1", &[]), closed("2", &[]), open("3", &["1", "2"])]);
    let merged = row("3", &["1", "2"], OLDEST);
    for (of_first, of_second, may) in
        [(END, END, true), (END, at(9), false), (at(9), END, false), (OLDEST, OLDEST, false)]
    {
        let rows = rows([row("1", &[], of_first), row("2", &[], of_second), merged.clone()]);
        assert_eq!(may_start(&merged, &rows, &list), may);
    }
}

#[test]
fn a_shard_without_parents_starts() {
    assert!(may_start(&row("1", &[], OLDEST), &Rows::new(), &complete_list([open("other", &[])])));
}

#[test]
fn a_parent_without_a_row_proves_nothing() {
    let child = row("2", &["1"], OLDEST);
    let listed = complete_list([closed("1", &[]), open("2", &["1"])]);
    assert!(!may_start(&child, &Rows::new(), &listed), "its row may still be created");
    assert!(
        !may_start(&child, &Rows::new(), &complete_list([open("other", &[])])),
        "the list may be older than the shard"
    );
}

#[test]
fn a_parent_that_the_streams_retention_has_outlived_is_not_waited_for() {
    let child = row("2", &["1"], OLDEST);
    assert!(may_start(&child, &Rows::new(), &complete_list([open("2", &["1"])])));
    let unfinished = rows([row("1", &[], at(3))]);
    assert!(
        !may_start(&child, &unfinished, &complete_list([open("2", &["1"])])),
        "while it has a row, it is"
    );
}

#[test]
fn parents_are_those_of_the_row_and_of_the_list() {
    let list = complete_list([closed("1", &[]), open("2", &["1"])]);
    let unfinished = rows([row("1", &[], at(3))]);
    assert!(!may_start(&row("2", &[], OLDEST), &unfinished, &list), "a row that names no parents");
    let unlisted = complete_list([closed("1", &[]), open("3", &["1"])]);
    assert!(!may_start(&row("2", &["1"], OLDEST), &unfinished, &unlisted), "a list older than the shard");
}

#[test]
fn a_shard_that_has_begun_does_not_wait_for_parents_without_rows() {
    let list = complete_list([closed("1", &[]), open("2", &["1"])]);
    for begun in [at(3), NEWEST] {
        assert!(may_start(&row("2", &["1"], begun), &Rows::new(), &list));
    }
}

#[test]
fn a_merged_shards_row_is_created_once_both_parents_have_theirs() {
    let merged = NewLease::new(crate::testing::child("3", &["1", "2"]), OLDEST);
    let before = complete_list([open("1", &[])]);
    let after = complete_list([closed("1", &[]), closed("2", &[]), open("3", &["1", "2"])]);
    let outlived = complete_list([closed("1", &[]), open("3", &["1", "2"])]);
    let long_after = complete_list([open("9", &["8"])]);
    let one = rows([row("1", &[], at(1))]);
    let both = rows([row("1", &[], at(1)), row("2", &[], at(1))]);
    for (rows, list, may) in [
        (&one, &before, false),
        (&one, &after, false),
        (&one, &outlived, true),
        (&one, &long_after, true),
        (&both, &before, true),
        (&both, &after, true),
    ] {
        assert_eq!(may_create(&merged, &"1".into(), |shard| rows.contains_key(shard), list), may);
    }
}
