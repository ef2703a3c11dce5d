//! Calls and records that fail.

use std::collections::BTreeMap;

use actix_kinesis::config::Ordering;
use actix_kinesis::producer::{ProducerEvent, SendReason};
use kinesis_local::faults::{Fault, RecordFailure};

use crate::support::*;

#[actix::test]
async fn entries_that_fail_by_place_are_sent_again_alone() {
    for code in [RecordFailure::ThroughputExceeded, RecordFailure::InternalFailure] {
        let aws = local_aws(2).await;
        let mut conf = conf(&aws);
        conf.aggregation.enabled = false;
        let producer = start(conf).await;
        aws.faults().add(Fault::on("PutRecords").times(3).fail_records_with([0, 2], code, "not now"));
        let results = results(send_many(&producer, 1_000, 1_000)).await;
        assert_once_each(&aws, 1_000);
        assert_told(&aws, &results);
        let again = results.iter().filter(|result| result.attempts.len() > 1).count();
        assert!((2..=6).contains(&again), "{again}");
    }
}

#[actix::test]
async fn whole_calls_that_fail_are_repeated_and_duplicate_nothing() {
    let aws = local_aws(2).await;
    let producer = start(conf(&aws)).await;
    for (skip, code) in (0..).zip([
        "ProvisionedThroughputExceededException",
        "AccessDeniedException",
        "ExpiredTokenException",
        "InvalidSignatureException",
        "KMSThrottlingException",
        "ServiceUnavailable",
    ]) {
        aws.faults().add(Fault::on("PutRecords").skip(skip).times(1).error(code));
    }
    let results = results(send_many(&producer, 2_000, 50)).await;
    assert_once_each(&aws, 2_000);
    assert_told(&aws, &results);
}

#[actix::test]
async fn a_call_that_hangs_ends_in_time_and_is_repeated() {
    let aws = local_aws(1).await;
    let mut conf = conf(&aws);
    conf.request_timeout = 300 * MS;
    let producer = start(conf).await;
    let fault = aws.faults().add(Fault::on("PutRecords").times(2).hang());
    results(send_many(&producer, 100, 10)).await;
    assert_once_each(&aws, 100);
    assert!(fault.fired() >= 1);
}

#[actix::test]
async fn lost_replies_repeat_what_was_in_their_calls_and_nothing_else() {
    for ordering in [Ordering::None, Ordering::PartitionKey] {
        let aws = local_aws(2).await;
        let mut conf = conf(&aws);
        conf.ordering = ordering;
        let producer = start(conf).await;
        let lost = aws.faults().add(Fault::on("PutRecords").chance(0.3).times(4).lose_reply());
        for round in 0..20 {
            let sends = (0..50).map(|index| producer.send(event(round * 50 + index, 30))).collect();
            results(sends).await;
        }
        assert!(lost.fired() > 0);
        let mut copies: BTreeMap<usize, usize> = BTreeMap::new();
        for (key, read) in by_key(&aws) {
            let mut first: Vec<usize> = Vec::new();
            for event in read {
                *copies.entry(event).or_default() += 1;
                if !first.contains(&event) {
                    first.push(event);
                }
            }
            assert!(first.is_sorted(), "{key}: {first:?}");
        }
        assert_eq!(copies.len(), 1_000);
        let repeated = copies.values().filter(|copies| **copies > 1).count() as u64;
        assert!(repeated <= 50 * lost.fired(), "{repeated} of {} lost replies", lost.fired());
    }
}

#[actix::test]
async fn keys_stay_in_order_under_partial_failures() {
    for is_aggregated in [true, false] {
        let aws = local_aws(2).await;
        let mut conf = conf(&aws);
        conf.ordering = Ordering::PartitionKey;
        conf.aggregation.enabled = is_aggregated;
        conf.aggregation.max_count = 20;
        conf.record_max_buffered_time = 2 * MS;
        let producer = start(conf).await;
        let places = [0, 1, 3, 7, 10, 11, 15, 20, 33];
        let code = "ProvisionedThroughputExceededException";
        aws.faults().add(Fault::on("PutRecords").chance(0.5).times(40).fail_records(places));
        aws.faults().add(Fault::on("PutRecords").chance(0.1).times(5).error(code));
        results(send_many(&producer, 2_000, 60)).await;
        assert_once_each(&aws, 2_000);
        assert!(by_key(&aws).values().all(|payloads| payloads.is_sorted()));
    }
}

#[actix::test]
async fn a_poisoned_record_comes_back_and_the_others_are_stored() {
    let aws = local_aws(1).await;
    let mut conf = conf(&aws);
    // More than this stream takes.
    conf.max_record_size = 10 << 20;
    let producer = start(conf).await;
    let good = send_many(&producer, 100, 100);
    let poison = producer.send(ProducerEvent::new("k", vec![0; 2 << 20]));
    let error = error(poison).await;
    assert!(matches!(error.reason, SendReason::Refused(_)), "{error}");
    assert_eq!(error.event.payload.len(), 2 << 20);
    results(good).await;
    assert_once_each(&aws, 100);
}

#[actix::test]
async fn events_for_a_stream_that_is_not_there_expire_with_the_cause() {
    let aws = local_aws(1).await;
    let mut conf = conf(&aws);
    conf.record_ttl = 500 * MS;
    let producer = start(conf).await;
    let error = error(producer.send(ProducerEvent::new("k", "x").with_stream("missing"))).await;
    let SendReason::Expired(Some(last)) = &error.reason else { panic!("{error:?}") };
    assert!(last.message.contains("ResourceNotFoundException"), "{error}");
    assert!(!error.may_be_stored());
    // It is in nobody's way.
    results(send_many(&producer, 10, 10)).await;
    assert!(producer.status().streams.iter().any(|it| it.last_error.is_some()));
}

#[actix::test]
async fn streams_that_are_not_there_hold_no_other_up_however_much_is_sent_to_them() {
    let aws = local_aws(1).await;
    let mut conf = conf(&aws);
    conf.max_outstanding_requests = 40;
    let producer = start(conf).await;
    let lost = |index: usize| producer.send(event(index, 10).with_stream(format!("missing-{}", index % 2)));
    let lost: Vec<_> = (0..500).map(lost).collect();
    results(send_many(&producer, 200, 10)).await;
    assert_once_each(&aws, 200);
    let status = producer.status();
    assert!(status.throttled && status.outstanding < 40 && status.waiting > 400, "{status:?}");
    drop(lost);
}

#[actix::test]
async fn a_list_of_shards_that_fails_holds_nothing_up() {
    let aws = local_aws(2).await;
    let producer = start(conf(&aws)).await;
    aws.faults().add(Fault::on("ListShards").times(1).error("LimitExceededException"));
    results(send_many(&producer, 100, 100)).await;
    assert_once_each(&aws, 100);
}
