//! Histories that processes have written down themselves, without anybody who watches the table.

use super::*;

/// The same reader as in [`READ`].
const TOLD: &str = "v started
    v shard-started shard=a checkpoint=TRIM_HORIZON token=1
    v delivery shard=a seq=1 sub=0 pk=k attempt=1 token=1
    v answer shard=a seq=1 sub=0 done=true
    v delivery shard=a seq=2 sub=0 pk=k attempt=1 token=1
    v answer shard=a seq=2 sub=0 done=true
    v checkpoint-stored shard=a checkpoint=2/0 token=1";
const TAKEN_TOLD: &str = "w shard-started shard=a checkpoint=2/0 token=3";

/// Processes write down themselves what they do.
fn recorded(history: &str) -> Vec<(Oracle, usize)> {
    let rules =
        Rules { silence_is_death: true, window: Some(Duration::from_millis(300)), ..Rules::default() };
    check(rules, history)
}

#[test]
fn what_processes_tell_of_checkpoints_must_not_go_back_or_pass_what_is_not_done_with() {
    assert_eq!(recorded(&history(&[PUT, TOLD, TAKEN_TOLD])), []);
    let back = "v checkpoint-stored shard=a checkpoint=1/0 token=1";
    assert_eq!(recorded(&history(&[PUT, TOLD, back])), [(Oracle::Checkpoint, 11)]);
    let begins_before = TAKEN_TOLD.replace("2/0", "1/0");
    assert_eq!(recorded(&history(&[PUT, TOLD, &begins_before])), [(Oracle::Checkpoint, 11)]);
    // It is told late, and was stored before the lease was taken.
    let (before, stored) = TOLD.rsplit_once('\n').unwrap();
    assert_eq!(recorded(&history(&[PUT, before, TAKEN_TOLD, stored])), []);
    assert_eq!(recorded(&history(&[PUT, before, &begins_before, stored])), [(Oracle::Checkpoint, 11)]);
    let gap = TOLD.replace("seq=1 sub=0 done=true", "seq=1 sub=0 done=false");
    assert_eq!(recorded(&history(&[PUT, &gap])), [(Oracle::Checkpoint, 10)]);
    let behind_row = "v row shard=a checkpoint=1/0 counter=1";
    let found = recorded(&history(&["- shard shard=a parents=", behind_row, stored]));
    assert_eq!(found, [(Oracle::Checkpoint, 3)]);
    let shared = TAKEN_TOLD.replace("token=3", "token=1");
    assert_eq!(recorded(&history(&[PUT, TOLD, &shared])), [(Oracle::Owner, 11)]);
}

#[test]
fn what_processes_have_told_of_as_stored_must_not_come_again() {
    let by_another = "w delivery shard=a seq=2 sub=0 pk=k attempt=1 token=3";
    assert_eq!(recorded(&history(&[PUT, TOLD, TAKEN_TOLD, by_another])), [(Oracle::Stored, 12)]);
    let by_itself = "v delivery shard=a seq=2 sub=0 pk=k attempt=1 token=1";
    assert!(recorded(&history(&[PUT, TOLD, by_itself])).contains(&(Oracle::Stored, 11)));
    // The former process died before it told of it.
    let (before, _) = TOLD.rsplit_once('\n').unwrap();
    assert_eq!(recorded(&history(&[PUT, before, TAKEN_TOLD, by_another])), [(Oracle::Stored, 11)]);
}

#[test]
fn a_shard_of_which_only_processes_tell_ends_when_it_is_closed() {
    let end = "v checkpoint-stored shard=a checkpoint=SHARD_END token=1";
    assert_eq!(recorded(&history(&[PUT, TOLD, end])), [(Oracle::Checkpoint, 11)]);
    assert_eq!(recorded(&history(&[PUT, TOLD, "- shard shard=b parents=a", end])), []);
    let by_another = "w checkpoint-stored shard=a checkpoint=SHARD_END token=3";
    let closed = history(&[PUT, TOLD, "- shard shard=b parents=a", TAKEN_TOLD]);
    assert_eq!(recorded(&history(&[&closed, end])), [(Oracle::Checkpoint, 13)]);
    assert_eq!(recorded(&history(&[&closed, by_another, end])), [], "it was ended");
    let (_, puts) = PUT.split_once('\n').unwrap();
    assert_eq!(recorded(&history(&[puts, TOLD, end])), [], "nobody tells of shards");
}

#[test]
fn a_process_that_falls_silent_has_died_after_its_last_line() {
    let wait = "- other\n- other\n- other";
    let again = "w delivery shard=a seq=3 sub=0 pk=k attempt=1 token=3";
    let killed = history(&[PUT, TOLD, UNSTORED, wait, TAKEN_TOLD, again]);
    assert_eq!(recorded(&killed), []);
    assert_eq!(always(&killed), [(Oracle::Repeat, 18)]);
    let lives = history(&[&killed, "v load in_flight=0 bytes=0"]);
    assert_eq!(recorded(&lives), [(Oracle::Repeat, 18)]);
    // What it was done with longer ago should have been stored.
    let spoke = "v load in_flight=0 bytes=0";
    let late = history(&[PUT, TOLD, UNSTORED, wait, spoke, TAKEN_TOLD, again]);
    assert_eq!(recorded(&late), [(Oracle::Window, 19)]);
    // One that stood still learns later that it has lost the lease.
    let thawed = history(&[&killed, "v lease-lost shard=a"]);
    assert_eq!(recorded(&thawed), []);
    // One that follows under the same name is another one.
    let [follows, again] = [TAKEN_TOLD, again].map(|line| line.replace("w ", "v "));
    let restarted = history(&[PUT, TOLD, UNSTORED, wait, "v started", &follows, &again]);
    assert_eq!(recorded(&restarted), []);
    let stopped = history(&[PUT, TOLD, UNSTORED, "v stopped clean=true", "v started", &follows, &again]);
    assert_eq!(recorded(&stopped), [(Oracle::Repeat, 17)]);
}

#[test]
fn where_a_put_may_have_stored_more_than_was_acknowledged_a_record_of_its_key_is_not_invented() {
    let again = "v delivery shard=a seq=3 sub=0 pk=k attempt=1";
    let (shard, puts) = PUT.split_once('\n').unwrap();
    assert_eq!(always(&history(&[PUT, READ, again])), [(Oracle::Complete, 11)]);
    let twice = puts.replace("seq=2 sub=0 pk=k", "seq=2 sub=0 pk=k attempts=2");
    assert_eq!(always(&history(&[shard, &twice, READ, again])), []);
    let failed = "- put-failed pk=k may_be_stored=true";
    assert_eq!(always(&history(&[PUT, failed, READ, again])), []);
    let failed = failed.replace("true", "false");
    assert_eq!(always(&history(&[PUT, &failed, READ, again])), [(Oracle::Complete, 12)]);
}

#[test]
fn a_put_may_be_told_after_its_shard_has_ended_if_the_record_was_read() {
    let (shard, puts) = PUT.split_once('\n').unwrap();
    let child = "- shard shard=b parents=a";
    let end = "v checkpoint-stored shard=a checkpoint=SHARD_END token=1";
    assert_eq!(recorded(&history(&[shard, child, TOLD, end, puts])), []);
}
