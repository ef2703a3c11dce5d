//! What failures do to the events of a call.

use kinesis_lease::StreamErrorKind;

use super::bench::{Bench, MS, SECOND, conf, events, single};
use crate::config::{BackoffConf, Ordering, ProducerConf};
use crate::producer::event::ProducerEvent;
use crate::producer::outcome::{Attempt, SendReason};

#[test]
fn only_what_was_refused_is_sent_again() {
    let mut bench = Bench::new(single(), 1);
    for key in 0..10 {
        bench.send(&format!("key-{key}"));
    }
    bench.pass(100 * MS);
    bench.answer(0, |index, _| [0, 5].contains(&index).then_some("InternalFailure"));
    assert_eq!(bench.succeeded(), 8);
    bench.pass(100 * MS);
    bench.answer(0, |index, _| (index == 0).then_some("InternalFailure"));
    assert_eq!(bench.succeeded(), 9);
    bench.run(SECOND);
    assert_eq!((bench.succeeded(), bench.stored.len()), (10, 10));
    let most = bench.outcomes.values().map(|outcome| outcome.as_ref().unwrap().attempts.len()).max();
    assert_eq!(most, Some(3));
}

#[test]
fn attempts_tell_delay_duration_and_cause() {
    let mut bench = Bench::new(single(), 1);
    bench.send("key");
    bench.pass(100 * MS);
    bench.pass(30 * MS);
    bench.answer(0, |_, _| Some("InternalFailure"));
    bench.pass(100 * MS);
    bench.pass(7 * MS);
    bench.answer(0, |_, _| None);
    let [first, second] = &bench.outcomes[&0].as_ref().unwrap().attempts[..] else { panic!() };
    assert_eq!((first.delay, first.duration), (100 * MS, 30 * MS));
    assert_eq!(first.error.as_ref().unwrap().code, "InternalFailure");
    assert_eq!((second.delay, second.duration, &second.error), (100 * MS, 7 * MS, &None));
}

#[test]
fn of_many_attempts_the_first_and_the_newest_are_kept() {
    let mut conf = single();
    conf.retry_backoff.max = 100 * MS;
    let mut bench = Bench::new(conf, 1);
    bench.send("key");
    for _ in 0..40 {
        bench.pass(100 * MS);
        bench.answer(0, |_, _| Some("InternalFailure"));
    }
    bench.run(SECOND);
    let attempts = &bench.outcomes[&0].as_ref().unwrap().attempts;
    assert_eq!(attempts.len(), Attempt::KEPT);
    let whole: std::time::Duration = attempts.iter().map(|attempt| attempt.delay + attempt.duration).sum();
    assert!(whole > 4 * SECOND, "{whole:?}");
    assert_eq!(bench.outcomes[&0].as_ref().unwrap().calls(), bench.pipeline.calls_made);
    assert!(bench.pipeline.calls_made > 21, "{}", bench.pipeline.calls_made);
}

#[test]
fn a_lost_reply_is_known_at_the_end_although_its_attempt_is_left_out() {
    let mut conf = single();
    conf.retry_backoff.max = 100 * MS;
    let mut bench = Bench::new(conf, 1);
    bench.send("key");
    bench.pass(100 * MS);
    bench.answer(0, |_, _| Some("InternalFailure"));
    let (mut lost, mut calls) = (false, 1);
    while bench.outcomes.is_empty() {
        bench.pass(100 * MS);
        while !bench.waiting.is_empty() {
            calls += 1;
            if std::mem::replace(&mut lost, true) {
                bench.answer(0, |_, _| Some("InternalFailure"));
            } else {
                bench.fail(0, StreamErrorKind::Unavailable, false);
            }
        }
    }
    let error = bench.outcomes[&0].as_ref().unwrap_err();
    assert!(error.attempts.iter().all(|it| it.error.as_ref().is_some_and(|error| !error.may_be_stored)));
    assert!(error.may_be_stored());
    assert_eq!((error.attempts.len(), error.calls()), (Attempt::KEPT, calls));
}

#[test]
fn an_event_is_given_back_when_its_time_is_over_with_the_last_cause() {
    let mut bench = Bench::new(single(), 1);
    let event = ProducerEvent::new("key", "0;").with_explicit_hash_key(kinesis_record::HashKey(7));
    let sent = event.clone();
    bench.send_event(|_| sent, 0);
    while bench.outcomes.is_empty() {
        let at = bench.pipeline.wake_at().unwrap();
        bench.pass(at - bench.now);
        while !bench.waiting.is_empty() {
            bench.answer(0, |_, _| Some("ProvisionedThroughputExceededException"));
        }
    }
    let passed = bench.now - bench.begin;
    assert!(passed >= 30 * SECOND && passed < 31 * SECOND, "{passed:?}");
    let error = bench.outcomes[&0].as_ref().unwrap_err();
    let SendReason::Expired(Some(last)) = &error.reason else { panic!("{error:?}") };
    assert_eq!(last.code, "ProvisionedThroughputExceededException");
    assert!(error.to_string().contains("ProvisionedThroughputExceededException: refused"), "{error}");
    assert_eq!((&error.event, error.may_be_stored()), (&event, false));
    // It is not sent later.
    bench.run(60 * SECOND);
    assert!(bench.stored.is_empty());
}

#[test]
fn an_event_with_the_longest_time_there_is_does_not_expire() {
    let mut conf = single();
    conf.record_ttl = std::time::Duration::MAX;
    let mut bench = Bench::new(conf, 1);
    bench.send("key");
    bench.run(SECOND);
    assert_eq!(bench.succeeded(), 1);
}

#[test]
fn younger_events_of_an_aggregate_outlive_the_older_ones() {
    let mut conf = conf();
    conf.record_max_buffered_time = 2 * SECOND;
    conf.record_ttl = 4 * SECOND;
    conf.retry_backoff.max = 100 * MS;
    let mut bench = Bench::new(conf, 1);
    bench.send("key");
    bench.pass(SECOND);
    bench.send("key");
    bench.pass(SECOND);
    while bench.outcomes.is_empty() {
        bench.pass(100 * MS);
        while !bench.waiting.is_empty() {
            bench.answer(0, |_, _| Some("InternalFailure"));
        }
    }
    assert!(bench.outcomes.keys().eq([&0]));
    let error = bench.outcomes[&0].as_ref().unwrap_err();
    assert!(matches!(error.reason, SendReason::Expired(Some(_))), "{error:?}");
    bench.run(500 * MS);
    let result = bench.outcomes[&1].as_ref().unwrap();
    assert_eq!((bench.stored.len(), result.sub_sequence), (1, None));
}

#[test]
fn with_fail_if_throttled_a_throttled_event_comes_back_at_once() {
    let mut conf = single();
    conf.fail_if_throttled = true;
    let mut bench = Bench::new(conf, 1);
    for key in 0..3 {
        bench.send(&format!("key-{key}"));
    }
    bench.pass(100 * MS);
    bench.answer(0, |index, _| match index {
        0 => Some("ProvisionedThroughputExceededException"),
        1 => Some("InternalFailure"),
        _ => None,
    });
    assert!(matches!(bench.outcomes[&0].as_ref().unwrap_err().reason, SendReason::Throttled(_)));
    assert!(!bench.outcomes.contains_key(&1) && bench.outcomes[&2].is_ok());
}

#[test]
fn a_call_that_fails_is_repeated_after_growing_pauses_one_at_a_time() {
    let mut conf = single();
    // So that there is more than one call to make.
    conf.collection.max_count = 5;
    let mut bench = Bench::new(conf, 1);
    let mut calls = Vec::new();
    for key in 0..200 {
        bench.send(&format!("key-{key}"));
        bench.pass(100 * MS);
        assert!(bench.waiting.len() <= 1);
        while !bench.waiting.is_empty() {
            calls.push(bench.waiting[0].at - bench.begin);
            bench.fail(0, StreamErrorKind::Denied, false);
        }
    }
    // 20 seconds, with pauses of up to 5.
    assert!(calls.len() < 15, "{calls:?}");
    bench.run(10 * SECOND);
    assert_eq!(bench.succeeded(), 200);
    assert_eq!(bench.pipeline.status("orders").last_error.as_deref(), Some("it is Denied"));
}

#[test]
fn one_slow_call_does_not_hold_up_others() {
    let mut bench = Bench::new(single(), 1);
    for key in 0..10 {
        bench.send(&format!("key-{key}"));
        bench.pass(100 * MS);
    }
    assert_eq!(bench.waiting.len(), 10);
    (0..9).for_each(|_| bench.answer(1, |_, _| None));
    assert_eq!(bench.succeeded(), 9);
}

#[test]
fn no_more_calls_are_under_way_than_allowed() {
    let mut conf = single();
    conf.max_in_flight_calls = 3;
    let mut bench = Bench::new(conf, 1);
    for key in 0..10 {
        bench.send(&format!("key-{key}"));
        bench.pass(100 * MS);
    }
    assert_eq!(bench.waiting.len(), 3);
    assert_eq!(
        bench.pipeline.wake_at(),
        Some(bench.begin + 30 * SECOND),
        "only the time to live is waited for"
    );
    bench.answer(0, |_, _| None);
    assert_eq!(bench.waiting[2].records.len(), 7);
}

#[test]
fn a_record_that_the_service_refuses_is_found_and_the_others_are_sent() {
    for (conf, rounds) in [(single(), 8), (conf(), 12)] {
        let mut bench = Bench::new(conf, 4);
        for key in 0..100 {
            bench.send(&format!("key-{key}"));
        }
        bench.pass(100 * MS);
        let mut calls = 0;
        while !bench.waiting.is_empty()
            || bench.pipeline.wake_at().is_some_and(|at| at <= bench.now + 10 * MS)
        {
            if bench.waiting.is_empty() {
                bench.pass(10 * MS);
                continue;
            }
            calls += 1;
            if bench.waiting[0].records.iter().flat_map(events).any(|(index, _)| index == 42) {
                bench.fail(0, StreamErrorKind::InvalidArgument, false);
            } else {
                bench.answer(0, |_, _| None);
            }
        }
        assert_eq!((bench.succeeded(), bench.outcomes.len()), (99, 100));
        let error = bench.outcomes[&42].as_ref().unwrap_err();
        assert!(matches!(error.reason, SendReason::Refused(_)), "{error:?}");
        assert!(calls <= 2 * rounds, "{calls} calls");
        assert_eq!(bench.stored.iter().map(|stored| stored.events.len()).sum::<usize>(), 99);
    }
}

/// Lets time pass as the pipeline asks for it. Calls are refused as invalid if they hold one of these events.
fn refuse(bench: &mut Bench, time: std::time::Duration, is_refused: impl Fn(usize) -> bool) -> usize {
    let (end, mut calls) = (bench.now + time, 0);
    bench.poll();
    loop {
        while !bench.waiting.is_empty() {
            calls += 1;
            if bench.waiting[0].records.iter().flat_map(events).any(|(index, _)| is_refused(index)) {
                bench.fail(0, StreamErrorKind::InvalidArgument, false);
            } else {
                bench.answer(0, |_, _| None);
            }
        }
        let Some(at) = bench.pipeline.wake_at().filter(|at| *at <= end) else { break };
        bench.pass(at.saturating_duration_since(bench.now));
    }
    bench.now = end;
    calls
}

#[test]
fn a_stream_that_refuses_every_call_as_invalid_is_asked_after_pauses_until_it_takes_some_again() {
    for conf in [single(), conf()] {
        let mut bench = Bench::new(conf, 4);
        for key in 0..100 {
            bench.send(&format!("key-{key}"));
        }
        let calls = refuse(&mut bench, 20 * SECOND, |_| true);
        assert!(calls < 32, "{calls} calls");
        assert!(bench.outcomes.is_empty(), "no event is to blame");
        bench.send("later");
        refuse(&mut bench, 6 * SECOND, |_| false);
        assert_eq!((bench.succeeded(), bench.outcomes.len()), (101, 101));
    }
}

#[test]
fn what_is_refused_as_invalid_until_its_time_is_over_comes_back_with_that_cause() {
    let mut bench = Bench::new(single(), 1);
    for key in 0..10 {
        bench.send(&format!("key-{key}"));
    }
    let calls = refuse(&mut bench, 31 * SECOND, |_| true);
    assert!(calls < 32, "{calls} calls");
    assert_eq!(bench.outcomes.len(), 10);
    for outcome in bench.outcomes.values() {
        let error = outcome.as_ref().unwrap_err();
        let SendReason::Expired(Some(last)) = &error.reason else { panic!("{error:?}") };
        assert_eq!(last.code, "InvalidArgument");
    }
    assert_eq!(bench.pipeline.status("orders").last_error.as_deref(), Some("it is InvalidArgument"));
    bench.run(SECOND);
    assert_eq!(bench.pipeline.wake_at(), None);
}

#[test]
fn a_refused_record_by_itself_is_to_blame_as_soon_as_another_is_taken() {
    let mut bench = Bench::new(single(), 1);
    bench.send("poison");
    refuse(&mut bench, 3 * SECOND, |index| index == 0);
    assert!(bench.outcomes.is_empty());
    // It holds nobody up.
    bench.send("good");
    refuse(&mut bench, 100 * MS, |index| index == 0);
    assert_eq!(bench.succeeded(), 1);
    refuse(&mut bench, 5 * SECOND, |index| index == 0);
    let error = bench.outcomes[&0].as_ref().unwrap_err();
    assert!(matches!(error.reason, SendReason::Refused(_)), "{error:?}");
}

#[test]
fn a_refused_record_that_all_others_wait_for_is_to_blame_after_some_attempts() {
    let mut conf = single();
    conf.ordering = Ordering::PartitionKey;
    conf.record_ttl = 3_600 * SECOND;
    let mut bench = Bench::new(conf, 1);
    for _ in 0..3 {
        bench.send("key");
    }
    refuse(&mut bench, 10 * SECOND, |index| index == 0);
    assert!(bench.outcomes.is_empty());
    let calls = refuse(&mut bench, 20 * SECOND, |index| index == 0);
    assert!(calls < 10, "{calls} calls");
    assert!(matches!(bench.outcomes[&0].as_ref().unwrap_err().reason, SendReason::Refused(_)));
    assert_eq!(bench.read().remove("key"), Some(vec![1, 2]));
}

#[test]
fn many_refused_records_are_found_among_others() {
    let mut bench = Bench::new(single(), 1);
    for key in 0..100 {
        bench.send(&format!("key-{key}"));
    }
    let calls = refuse(&mut bench, 20 * SECOND, |index| !(10..=80).contains(&index));
    assert_eq!((bench.succeeded(), bench.outcomes.len()), (71, 100), "after {calls} calls");
    assert!(bench.outcomes.values().flatten().all(|result| result.attempts.len() < 10));
}

#[test]
fn what_is_left_of_a_refused_call_goes_to_the_shards_that_are_listed_when_it_is_sent() {
    let mut bench = Bench::new(conf(), 4);
    // Into the second and the third quarter.
    for byte in [120, 70, 180, 130] {
        let key = kinesis_record::HashKey(byte << 120);
        bench.send_event(|it| ProducerEvent::new("key", it).with_explicit_hash_key(key), 0);
    }
    bench.send_event(
        |it| ProducerEvent::new("other", it).with_explicit_hash_key(kinesis_record::HashKey(0)),
        0,
    );
    bench.pass(100 * MS);
    // While others take the one call that may be made.
    bench.pipeline.conf = std::sync::Arc::new(ProducerConf { max_in_flight_calls: 1, ..conf() });
    bench.fail(0, StreamErrorKind::InvalidArgument, false);
    assert!(bench.waiting.len() == 1 && !bench.pipeline.parts.is_empty());
    bench.create_again(1);
    bench.list_again();
    bench.create_again(3);
    bench.run(5 * SECOND);
    assert_eq!(bench.succeeded(), 5);
    for outcome in bench.outcomes.values() {
        let at: usize = outcome.as_ref().unwrap().sequence.as_str().parse().unwrap();
        assert!(!bench.stored[at].is_dropped() || bench.stored[at].is_mistaken, "{outcome:?}");
    }
}

#[test]
fn aggregates_that_are_too_large_for_the_stream_go_in_parts() {
    let mut bench = Bench::new(conf(), 1);
    for key in 0..50 {
        bench.send(&format!("key-{key}"));
    }
    bench.pass(100 * MS);
    bench.fail(0, StreamErrorKind::InvalidArgument, false);
    bench.run(SECOND);
    assert_eq!((bench.succeeded(), bench.stored.len()), (50, 50));
}

#[test]
fn what_is_given_up_tells_whether_it_was_under_way() {
    let mut bench = Bench::new(single(), 1);
    bench.send("key-0");
    bench.pass(100 * MS);
    bench.send("key-1");
    bench.pipeline.abandon(bench.now);
    bench.poll();
    let errors: Vec<_> = bench.outcomes.values().map(|outcome| outcome.as_ref().unwrap_err()).collect();
    assert!(errors.iter().all(|error| matches!(error.reason, SendReason::Stopped(_))), "{errors:?}");
    assert_eq!((errors[0].may_be_stored(), errors[1].may_be_stored()), (true, false));
}

#[test]
fn an_aggregate_that_is_given_up_before_its_shard_is_known_may_be_stored() {
    let mut bench = Bench::new(conf(), 1);
    bench.split(0);
    for key in 0..20 {
        bench.send(&format!("key-{key}"));
    }
    bench.pass(100 * MS);
    bench.answer(0, |_, _| None);
    bench.pipeline.abandon(bench.now);
    bench.poll();
    let may_be_stored =
        bench.outcomes.values().filter(|outcome| outcome.as_ref().is_err_and(|it| it.may_be_stored()));
    assert_eq!(may_be_stored.count(), 20);
}

#[test]
fn a_second_reply_has_no_effect() {
    let mut bench = Bench::new(single(), 1);
    bench.send("key");
    bench.pass(100 * MS);
    let call = bench.waiting[0].call;
    bench.answer(0, |_, _| None);
    bench.pipeline.replied(call, Ok(Vec::new()), bench.now);
    assert_eq!(bench.pipeline.outstanding(), 0);
}

#[test]
fn a_reply_of_another_length_counts_as_lost() {
    let mut bench = Bench::new(single(), 1);
    bench.send("key");
    bench.pass(100 * MS);
    let call = bench.waiting.remove(0).call;
    bench.pipeline.replied(call, Ok(Vec::new()), bench.now);
    bench.run(SECOND);
    let attempts = &bench.outcomes[&0].as_ref().unwrap().attempts;
    assert!(attempts[0].error.as_ref().unwrap().message.contains("0 results for 1"));
}

#[test]
fn an_event_that_expires_before_its_first_call_tells_what_is_wrong_with_its_stream() {
    let mut conf = single();
    conf.collection.max_count = 1;
    conf.retry_backoff = BackoffConf { min: 60 * SECOND, max: 60 * SECOND };
    for kind in [StreamErrorKind::NotFound, StreamErrorKind::Unavailable] {
        let mut bench = Bench::new(conf.clone(), 1);
        for _ in 0..2 {
            bench.send_event(|payload| ProducerEvent::new("key", payload).with_stream("missing"), 0);
        }
        bench.pass(100 * MS);
        // The first one waits for its reply, and then all wait for the end of the pause.
        while !bench.waiting.is_empty() {
            bench.fail(0, kind, false);
        }
        let late = bench.send_event(|payload| ProducerEvent::new("key", payload).with_stream("missing"), 0);
        bench.pass(31 * SECOND);
        bench.pass(31 * SECOND);
        let error = bench.outcomes[&late].as_ref().unwrap_err();
        let told = error.to_string();
        assert!(told.contains(&format!("{kind:?}")) && told.contains("those to missing fail"), "{told}");
        assert_eq!((error.calls(), error.may_be_stored()), (0, false));
    }
}

#[test]
fn what_was_wrong_with_a_stream_is_not_told_when_it_takes_calls_again() {
    let mut conf = single();
    conf.max_in_flight_calls = 1;
    let mut bench = Bench::new(conf, 1);
    bench.send("key");
    bench.pass(100 * MS);
    bench.fail(0, StreamErrorKind::NotFound, false);
    bench.run(SECOND);
    assert_eq!(bench.succeeded(), 1);
    // Of these the first has the only call, whose reply does not come.
    bench.send("key");
    bench.pass(200 * MS);
    let late = bench.send("key");
    bench.pass(31 * SECOND);
    assert_eq!(bench.outcomes[&late].as_ref().unwrap_err().reason, SendReason::Expired(None));
}
