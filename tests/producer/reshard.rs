//! Shards that are split and merged, and streams that are created again, while events are sent.

use std::collections::VecDeque;

use actix_kinesis::config::Ordering;
use actix_kinesis::producer::Sending;

use crate::support::*;

#[actix::test]
async fn a_reshard_loses_nothing_and_keeps_the_order() {
    for (ordering, is_aggregated) in
        [(Ordering::None, true), (Ordering::PartitionKey, true), (Ordering::PartitionKey, false)]
    {
        let aws = local_aws(2).await;
        let mut conf = conf(&aws);
        conf.ordering = ordering;
        conf.aggregation.enabled = is_aggregated;
        conf.record_max_buffered_time = 5 * MS;
        let producer = start(conf).await;
        let mut under_way: VecDeque<Vec<Sending>> = VecDeque::new();
        let mut stored = Vec::new();
        for round in 0..100 {
            under_way.push_back((0..40).map(|index| producer.send(event(round * 40 + index, 64))).collect());
            match round {
                20 => drop(aws.split(STREAM, "shardId-000000000000").unwrap()),
                40 => drop(aws.split(STREAM, "shardId-000000000001").unwrap()),
                70 => drop(aws.merge(STREAM, "shardId-000000000002", "shardId-000000000003").unwrap()),
                _ => {}
            }
            if under_way.len() > 5 {
                stored.extend(results(under_way.pop_front().unwrap()).await);
            }
        }
        for sendings in under_way {
            stored.extend(results(sendings).await);
        }
        let results = stored;
        assert_told(&aws, &results);
        assert_once_each(&aws, 4_000);
        if ordering == Ordering::PartitionKey {
            assert!(by_key(&aws).values().all(|payloads| payloads.is_sorted()));
        }
        let again: usize = results.iter().map(|result| result.attempts.len() - 1).sum();
        assert!(if is_aggregated { again < 2_000 } else { again == 0 }, "{again} sent again");
        assert!(aws.calls("ListShards") <= 8, "{} lists", aws.calls("ListShards"));
    }
}

#[actix::test]
async fn a_stream_that_is_created_again_with_other_shards_loses_nothing_of_what_waited_for_it() {
    let aws = local_aws(2).await;
    let producer = start(conf(&aws)).await;
    results(send_many(&producer, 100, 50)).await;
    aws.with_model(|model, now| model.delete_stream(&STREAM.into(), now)).unwrap();
    eventually("the stream is gone", || aws.shards(STREAM).is_err()).await;
    let calls = aws.calls("PutRecords");
    let sendings = send_many(&producer, 1_000, 100);
    eventually("they were tried", || aws.calls("PutRecords") > calls + 1).await;
    aws.create_stream(STREAM, 3).unwrap();
    let results = results(sendings).await;
    assert_told(&aws, &results);
    assert_once_each(&aws, 1_000);
}
