//! For each oracle a history that goes against it, beside one that does not.

mod told;

use kinesis_record::Checkpoint;

use super::*;

/// Checks a history whose lines are `worker event field=value ..`, 100 ms apart from each other.
fn check(rules: Rules, history: &str) -> Vec<(Oracle, usize)> {
    let mut checker = Checker::new(rules);
    for (index, line) in history.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate() {
        let mut words = line.split_whitespace();
        let (worker, event) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut json = serde_json::json!({
            "unix_ms": 100 * index, "worker": worker.trim_matches('-'), "event": event,
        });
        for field in words {
            let (name, value) = field.split_once('=').unwrap();
            let is_text = ["shard", "seq", "pk", "ehk", "checkpoint"].contains(&name);
            json[name] = match name {
                "parents" => value.split(',').filter(|parent| !parent.is_empty()).collect(),
                _ if is_text => value.into(),
                _ => serde_json::from_str(value).unwrap(),
            };
        }
        checker.observe(&Line::parse(&json.to_string()).unwrap());
    }
    checker.finish().iter().map(|violation| (violation.oracle, violation.line)).collect()
}

fn always(history: &str) -> Vec<(Oracle, usize)> {
    check(Rules::default(), history)
}

/// Two records of a key in shard `a`.
const PUT: &str = "- shard shard=a parents=
    - put shard=a seq=1 sub=0 pk=k
    - put shard=a seq=2 sub=0 pk=k";
/// Its reader does what is to be done.
const READ: &str = "v row shard=a checkpoint=TRIM_HORIZON counter=1
    v shard-started shard=a checkpoint=TRIM_HORIZON
    v delivery shard=a seq=1 sub=0 pk=k attempt=1 token=1
    v answer shard=a seq=1 sub=0 done=true
    v delivery shard=a seq=2 sub=0 pk=k attempt=1 token=1
    v answer shard=a seq=2 sub=0 done=true
    v row shard=a checkpoint=2/0 counter=2";
/// Another one takes the lease.
const TAKEN: &str = "w row shard=a checkpoint=2/0 counter=3
    w shard-started shard=a checkpoint=2/0";

fn history(parts: &[&str]) -> String {
    parts.join("\n")
}

#[test]
fn a_history_without_fault_has_no_violation() {
    let split = "- shard shard=b parents=a
        - shard shard=c parents=a
        - put shard=b seq=3 sub=0 pk=k
        v row shard=b checkpoint=TRIM_HORIZON counter=0
        v row shard=c checkpoint=TRIM_HORIZON counter=0
        v row shard=a checkpoint=SHARD_END counter=3
        v delivery shard=b seq=3 sub=0 pk=k attempt=1 token=1";
    assert_eq!(always(&history(&[PUT, READ, split])), []);
}

#[test]
fn a_record_that_is_never_delivered_is_missing_and_one_that_was_never_put_is_too_much() {
    assert_eq!(always(PUT), [(Oracle::Complete, 2)]);
    let invented = "v delivery shard=a seq=9 sub=0 pk=k attempt=1";
    assert_eq!(always(&history(&[PUT, READ, invented])), [(Oracle::Complete, 11)]);
}

#[test]
fn a_record_may_be_delivered_before_it_is_told_that_it_was_put() {
    let (shard, puts) = PUT.split_once('\n').unwrap();
    assert_eq!(always(&history(&[shard, READ, puts])), []);
}

#[test]
fn what_is_answered_and_was_neither_put_nor_delivered_is_not_missing() {
    assert_eq!(always(&history(&[PUT, READ, "v answer shard=a seq=7 sub=0 done=true"])), []);
}

#[test]
fn nothing_is_given_up_where_that_is_forbidden() {
    let given_up = READ.replace("answer shard=a seq=1 sub=0 done=true", "event-given-up shard=a seq=1 sub=0");
    assert_eq!(always(&history(&[PUT, &given_up])), []);
    let forbidden = Rules { gives_up_nothing: true, ..Rules::default() };
    assert_eq!(check(forbidden, &history(&[PUT, &given_up])), [(Oracle::Complete, 7)]);
}

#[test]
fn what_was_put_before_a_start_from_latest_is_not_missing() {
    let made = "v row shard=a checkpoint=LATEST counter=0
        v shard-started shard=a checkpoint=LATEST";
    assert_eq!(always(&history(&[PUT, made])), []);
    let third = "- put shard=a seq=3 sub=0 pk=k
        - put shard=a seq=4 sub=0 pk=k";
    let pin = "v row shard=a checkpoint=4/-1 counter=1
        v delivery shard=a seq=4 sub=0 pk=k attempt=1";
    assert_eq!(always(&history(&[PUT, made, third, pin])), []);
    let second_start = "w shard-started shard=a checkpoint=LATEST";
    let found = always(&history(&[PUT, made, third, second_start, pin]));
    assert_eq!(found, [(Oracle::Complete, 6), (Oracle::Checkpoint, 9)]);
}

#[test]
fn a_key_is_out_of_order_within_a_shard_and_across_shards() {
    let reversed = "v delivery shard=a seq=2 sub=0 pk=k attempt=1
        v delivery shard=a seq=1 sub=0 pk=k attempt=1";
    assert!(always(&history(&[PUT, reversed])).contains(&(Oracle::Order, 5)));
    let across = "- shard shard=b parents=a
        - put shard=b seq=3 sub=0 pk=k
        v delivery shard=b seq=3 sub=0 pk=k attempt=1";
    assert!(always(&history(&[PUT, across, READ])).contains(&(Oracle::Order, 9)));
    // An explicit hash key sends a partition key to several shards at once.
    let hashed = across.replace("seq=3 sub=0 pk=k attempt", "seq=3 sub=0 pk=k ehk=7 attempt");
    assert_eq!(always(&history(&[PUT, &hashed, READ])), []);
}

#[test]
fn positions_are_in_the_order_of_numbers() {
    let tenth = "- put shard=a seq=2 sub=9 pk=l
        - put shard=a seq=2 sub=10 pk=l
        v delivery shard=a seq=2 sub=9 pk=l attempt=1
        v delivery shard=a seq=2 sub=10 pk=l attempt=1";
    assert_eq!(always(&history(&[PUT, READ, tenth])), []);
}

#[test]
fn what_was_stored_before_its_reader_began_must_not_come_again() {
    let again = "w delivery shard=a seq=2 sub=0 pk=k attempt=1 token=3";
    let found = always(&history(&[PUT, READ, "v crashed", TAKEN, again]));
    assert_eq!(found, [(Oracle::Stored, 14)]);
}

#[test]
fn an_older_reader_must_be_silent_once_a_newer_one_has_delivered() {
    let later = "- put shard=a seq=3 sub=0 pk=k
        w delivery shard=a seq=3 sub=0 pk=k attempt=1 token=3
        v delivery shard=a seq=3 sub=0 pk=k attempt=1 token=1";
    let overlap = history(&[PUT, READ, TAKEN, later]);
    assert_eq!(always(&overlap), [(Oracle::Owner, 15)]);
    let may = || Rules { owners_may_overlap: true, ..Rules::default() };
    assert_eq!(check(may(), &overlap), []);
    let retried = "- put shard=a seq=3 sub=0 pk=k
        w delivery shard=a seq=3 sub=0 pk=k attempt=1
        w answer shard=a seq=3 sub=0 done=true
        v delivery shard=a seq=3 sub=0 pk=k attempt=1 token=1
        v delivery shard=a seq=3 sub=0 pk=k attempt=2 token=1";
    assert_eq!(check(may(), &history(&[PUT, READ, TAKEN, retried])), []);
    let done = retried.replace(
        "v delivery shard=a seq=3 sub=0 pk=k attempt=2",
        "v answer shard=a seq=3 sub=0 done=true
        v delivery shard=a seq=3 sub=0 pk=k attempt=2",
    );
    assert_eq!(check(may(), &history(&[PUT, READ, TAKEN, &done])), [(Oracle::Repeat, 18)]);
    let same = later.replace("token=3", "token=1").replace("v delivery", "v other");
    let same = history(&[PUT, READ, TAKEN, &same]);
    assert_eq!(always(&same), [(Oracle::Owner, 14)]);
    assert_eq!(check(may(), &same), [(Oracle::Owner, 14)]);
}

#[test]
fn a_checkpoint_must_not_go_back_skip_a_number_or_pass_what_is_not_done_with() {
    let back = "v row shard=a checkpoint=1/0 counter=3";
    assert_eq!(always(&history(&[PUT, READ, back])), [(Oracle::Checkpoint, 11)]);
    let unfenced = "v row shard=a checkpoint=2/0 counter=9";
    assert_eq!(always(&history(&[PUT, READ, unfenced])), [(Oracle::Checkpoint, 11)]);
    let unfenced = "v row shard=a checkpoint=3/0 counter=2";
    assert_eq!(always(&history(&[PUT, READ, unfenced])), [(Oracle::Checkpoint, 11)]);
    let asked = "w row shard=a checkpoint=2/0 counter=2";
    assert_eq!(always(&history(&[PUT, READ, asked])), []);
    let gap =
        READ.replace("v answer shard=a seq=1 sub=0 done=true", "v answer shard=a seq=1 sub=0 done=false");
    assert_eq!(always(&history(&[PUT, &gap])), [(Oracle::Checkpoint, 10)]);
    // What another one was done with does not count.
    let of_another = "v crashed
        - put shard=a seq=3 sub=0 pk=k
        v delivery shard=a seq=3 sub=0 pk=k attempt=1
        v answer shard=a seq=3 sub=0 done=true
        w row shard=a checkpoint=3/0 counter=3";
    assert_eq!(always(&history(&[PUT, READ, of_another])), [(Oracle::Checkpoint, 15)]);
}

#[test]
fn a_shard_ends_when_it_is_closed_done_with_and_its_children_have_rows() {
    let end = "v row shard=a checkpoint=SHARD_END counter=3";
    assert_eq!(always(&history(&[PUT, READ, end])), [(Oracle::Checkpoint, 11)]);
    let child = "- shard shard=b parents=a";
    assert_eq!(always(&history(&[PUT, READ, child, end])), [(Oracle::Checkpoint, 12)]);
    let row = "v row shard=b checkpoint=TRIM_HORIZON counter=0";
    assert_eq!(always(&history(&[PUT, READ, child, row, end])), []);
    let late = "- put shard=a seq=3 sub=0 pk=k";
    let found = always(&history(&[PUT, READ, child, row, late, end]));
    assert_eq!(found, [(Oracle::Complete, 13), (Oracle::Checkpoint, 14)]);
    let found = always(&history(&[PUT, READ, child, row, end, late]));
    assert_eq!(found, [(Oracle::Checkpoint, 14), (Oracle::Complete, 14)]);
}

#[test]
fn a_row_is_deleted_by_a_process_when_its_shard_has_ended() {
    let deleted = "v row-deleted shard=a";
    assert_eq!(always(&history(&[PUT, READ, deleted])), [(Oracle::Checkpoint, 11)]);
    // An operator may, and a process that remembers the row makes it again.
    let again = "- row-deleted shard=a
        w row shard=a checkpoint=2/0 counter=0
        w shard-started shard=a checkpoint=2/0
        - put shard=a seq=3 sub=0 pk=k
        w delivery shard=a seq=3 sub=0 pk=k attempt=1 token=0";
    assert_eq!(always(&history(&[PUT, READ, again])), []);
}

#[test]
fn what_comes_behind_a_shard_that_is_read_is_read_whole() {
    let latest = "- shard shard=b parents=a
        v row shard=b checkpoint=LATEST counter=0";
    assert_eq!(always(&history(&[PUT, READ, latest])), [(Oracle::Checkpoint, 12)]);
    assert_eq!(always(&history(&[PUT, latest])), []);
}

#[test]
fn a_child_must_not_be_read_before_its_parents_have_ended() {
    let early = "- shard shard=b parents=a
        - put shard=b seq=3 sub=0 pk=k
        v delivery shard=b seq=3 sub=0 pk=k attempt=1";
    assert_eq!(always(&history(&[PUT, READ, early])), [(Oracle::Parents, 13)]);
}

/// A third record is done with and not stored.
const UNSTORED: &str = "- put shard=a seq=3 sub=0 pk=k
    v delivery shard=a seq=3 sub=0 pk=k attempt=1 token=1
    v answer shard=a seq=3 sub=0 done=true";
const AGAIN: &str = "w delivery shard=a seq=3 sub=0 pk=k attempt=1 token=3";

#[test]
fn what_was_done_with_comes_again_for_a_reason_only() {
    let without = history(&[PUT, READ, UNSTORED, TAKEN, AGAIN]);
    assert_eq!(always(&without), [(Oracle::Repeat, 16)]);
    for reason in ["v crashed", "v frozen", "v lease-lost shard=a", "v stopped clean=false"] {
        assert_eq!(always(&history(&[PUT, READ, UNSTORED, reason, TAKEN, AGAIN])), [], "{reason}");
    }
    let clean = history(&[PUT, READ, UNSTORED, "v stopped clean=true", TAKEN, AGAIN]);
    assert_eq!(always(&clean), [(Oracle::Repeat, 17)]);
    let by_itself = "v delivery shard=a seq=3 sub=0 pk=k attempt=2 token=1";
    assert_eq!(always(&history(&[PUT, READ, UNSTORED, by_itself])), [(Oracle::Repeat, 14)]);
    let open = UNSTORED.replace("done=true", "done=false");
    assert_eq!(always(&history(&[PUT, READ, &open, by_itself])), []);
    let behind = "- put shard=a seq=4 sub=0 pk=k
        v delivery shard=a seq=4 sub=0 pk=k attempt=1 token=1
        v answer shard=a seq=4 sub=0 done=true";
    let paused = "v consumer-shutdown shard=a
        v delivery shard=a seq=3 sub=0 pk=k attempt=1 token=1
        v answer shard=a seq=3 sub=0 done=true
        v delivery shard=a seq=4 sub=0 pk=k attempt=1 token=1";
    assert_eq!(always(&history(&[PUT, READ, &open, behind, paused])), []);
    let again = "w delivery shard=a seq=4 sub=0 pk=k attempt=1 token=3";
    assert_eq!(always(&history(&[PUT, READ, &open, behind, TAKEN, AGAIN, again])), []);
}

#[test]
fn nothing_comes_twice_where_nothing_goes_wrong() {
    let planned = Rules { only_planned: true, ..Rules::default() };
    let open = UNSTORED.replace("done=true", "done=false");
    let found = check(planned, &history(&[PUT, READ, &open, TAKEN, AGAIN]));
    assert_eq!(found, [(Oracle::Repeat, 16)]);
}

#[test]
fn after_a_crash_no_more_comes_again_than_was_done_with_last() {
    let window = |ms| Rules { window: Some(Duration::from_millis(ms)), ..Rules::default() };
    let crash = history(&[PUT, READ, UNSTORED, "- other", "- other", "v crashed", TAKEN, AGAIN]);
    assert_eq!(check(window(400), &crash), []);
    assert_eq!(check(window(200), &crash), [(Oracle::Window, 19)]);
}

#[test]
fn once_faults_are_over_everything_is_soon_done_with_and_stored() {
    let soon = || Rules { progress: Some(Duration::from_millis(300)), ..Rules::default() };
    let wait = "- other\n- other\n- other\n- other";
    assert_eq!(check(soon(), &history(&["- calm", PUT, READ, wait])), [(Oracle::Progress, 15)]);
    let slow = Rules { progress: Some(Duration::from_millis(800)), ..Rules::default() };
    assert_eq!(check(slow.clone(), &history(&["- calm", PUT, READ, wait])), []);
    let unstored = READ.replace("v row shard=a checkpoint=2/0 counter=2", "- other");
    assert_eq!(check(slow.clone(), &history(&["- calm", PUT, &unstored, wait])), [(Oracle::Progress, 15)]);
    let closed = history(&["- calm", PUT, READ, "- shard shard=b parents=a", wait]);
    assert_eq!(check(slow, &closed), [(Oracle::Progress, 16)]);
}

#[test]
fn what_is_under_way_stays_within_the_limits() {
    let limits = || Rules { max_in_flight: Some(1), max_bytes: Some(1000), ..Rules::default() };
    assert_eq!(check(limits(), &history(&[PUT, READ])), []);
    let both = "v delivery shard=a seq=1 sub=0 pk=k attempt=1
        v delivery shard=a seq=2 sub=0 pk=k attempt=1";
    assert_eq!(check(limits(), &history(&[PUT, both])), [], "nobody tells of answers");
    let told = "w answer shard=a seq=1 sub=0 done=false";
    assert_eq!(check(limits(), &history(&[PUT, told, both])), [(Oracle::Memory, 6)]);
    assert_eq!(check(limits(), "v load in_flight=2 bytes=5"), [(Oracle::Memory, 1)]);
    assert_eq!(check(limits(), "v load in_flight=0 bytes=1001"), [(Oracle::Memory, 1)]);
    // Each shard may have one, whatever the others have.
    let of_b = "- put shard=b seq=7 sub=0 pk=q\n- put shard=b seq=8 sub=0 pk=q";
    let one_each = "v delivery shard=a seq=1 sub=0 pk=k attempt=1
        v delivery shard=b seq=7 sub=0 pk=q attempt=1
        v answer shard=a seq=1 sub=0 done=true
        v delivery shard=a seq=2 sub=0 pk=k attempt=1";
    let done = "v answer shard=b seq=7 sub=0 done=true\nv answer shard=a seq=2 sub=0 done=true";
    let last = "v delivery shard=b seq=8 sub=0 pk=q attempt=1";
    assert_eq!(check(limits(), &history(&[PUT, of_b, one_each, done, last])), []);
    assert_eq!(check(limits(), &history(&[PUT, of_b, one_each, last])), [(Oracle::Memory, 10)]);
    let two = "v shard-started shard=a checkpoint=LATEST\nv shard-started shard=b checkpoint=LATEST";
    assert_eq!(check(limits(), &history(&[two, "v load in_flight=2 bytes=5"])), []);
}

#[test]
fn with_a_concurrency_nothing_is_delivered_beside_an_open_event_that_it_has_to_follow() {
    let shard = Rules { concurrency: Concurrency::Shard, ..Rules::default() };
    let keys = |keys| Rules { concurrency: Concurrency::Key(keys), ..Rules::default() };
    let put = "- put shard=a seq=3 sub=0 pk=l";
    let [first, second, other] = [("1", "k"), ("2", "k"), ("3", "l")]
        .map(|(seq, pk)| format!("v delivery shard=a seq={seq} sub=0 pk={pk} attempt=1"));
    let ended = |seq, done| format!("v answer shard=a seq={seq} sub=0 done={done}");
    let [one, two, three] = [1, 2, 3].map(|seq| ended(seq, true));
    let all = |parts: &[&str]| history(&[&[PUT, put], parts].concat());

    let after_each_other = all(&[&first, &one, &second, &two, &other, &three]);
    let beside = all(&[&first, &other, &three, &one, &second, &two]);
    let failed = all(&[&first, &ended(1, false), &second, &first, &one, &two, &other, &three]);
    let again = all(&[&first, &ended(1, false), &first, &one, &second, &two, &other, &three]);
    for rules in [&shard, &keys(1), &keys(2)] {
        assert_eq!(check(rules.clone(), &after_each_other), []);
        assert_eq!(check(rules.clone(), &again), []);
        assert!(check(rules.clone(), &failed).contains(&(Oracle::Order, 7)), "{rules:?}");
    }
    assert_eq!(check(keys(2), &beside), []);
    assert_eq!(check(keys(1), &beside), [(Oracle::Order, 6)]);
    assert!(check(shard, &beside).contains(&(Oracle::Order, 6)));
    // Whoever reads the shard next owes nothing to the former.
    let taken = all(&[&first, "v lease-lost shard=a", &first, &one, &second, &two, &other, &three]);
    assert_eq!(check(keys(2), &taken), []);
}

#[test]
fn the_greatest_numbers_are_numbers() {
    let rules = || Rules {
        window: Some(Duration::MAX),
        progress: Some(Duration::MAX),
        max_in_flight: Some(u64::MAX),
        ..Rules::default()
    };
    let line = |at_ms: u64, event| Line { at_ms, worker: "v".to_owned(), event };
    let row = |counter| Event::Row { shard: "a".to_owned(), checkpoint: Checkpoint::TrimHorizon, counter };
    let mut checker = Checker::new(rules());
    let started = |shard: &str| Event::ShardStarted {
        shard: shard.to_owned(),
        checkpoint: Checkpoint::Latest,
        token: Some(i64::MAX),
    };
    for event in [row(i64::MAX), row(i64::MAX), started("a"), started("b"), Event::Calm] {
        checker.observe(&line(u64::MAX, event));
    }
    checker.observe(&line(u64::MAX, Event::Load { in_flight: u64::MAX, bytes: u64::MAX }));
    assert_eq!(checker.finish(), []);
    let put = "- calm\n- put shard=a seq=1 sub=9223372036854775807 pk=k";
    let found = check(rules(), &history(&[put, "v row shard=a checkpoint=1/9223372036854775807 counter=0"]));
    assert_eq!(found, [(Oracle::Complete, 2), (Oracle::Checkpoint, 3)]);
}

#[test]
fn lines_of_probe_and_put_are_understood() {
    let delivery = r#"{"t_ms":5,"unix_ms":7,"worker":"w","event":"delivery","shard":"a","seq":"1","sub":0,"pk":"k",
        "ehk":null,"attempt":1,"len":1,"sha256":"00","aggregated":false}"#;
    let line = Line::parse(delivery).unwrap();
    assert!(matches!(line.event, Event::Delivery { token: None, attempt: 1, .. }));
    assert_eq!(Line::parse(&line.to_string()).unwrap(), line);
    let stopped = r#"{"unix_ms":7,"worker":"w","event":"stopped","clean":true,"unsettled":0,"error":null}"#;
    assert_eq!(Line::parse(stopped).unwrap().event, Event::Stopped { clean: true });
    let put = r#"{"unix_ms":7,"event":"put","message_id":0,"ok":true,"shard":"a","seq":"1","sub":null,"pk":"k",
        "attempts":2,"error":null}"#;
    assert!(matches!(Line::parse(put).unwrap().event, Event::Put { sub: 0, attempts: 2, .. }));
    let pin = r#"{"unix_ms":7,"event":"checkpoint-stored","shard":"a","checkpoint":"5/-1","token":1}"#;
    let line = Line::parse(pin).unwrap();
    assert_eq!(Line::parse(&line.to_string()).unwrap(), line);
    let other = r#"{"unix_ms":7,"worker":"w","event":"gap","shard":"a","cause":"x"}"#;
    assert_eq!(Line::parse(other).unwrap().event, Event::Other);
    assert!(Line::parse(r#"{"event":"calm"}"#).is_err());
    assert!(Line::parse(&delivery.replace("\"seq\":\"1\"", "\"seq\":\"x\"")).is_err());
}
