//! [`Channels`](actix_kinesis::stream::Channels): records out, finished positions in.

use actix_kinesis::Checkpoint;
use actix_kinesis::stream::{Channels, ShardChannel};

use crate::support::*;

async fn next_shard(channels: &mut Channels) -> ShardChannel {
    soon("a shard", channels.recv()).await.unwrap().unwrap()
}

#[actix::test]
async fn the_newest_finished_position_wins_and_is_stored_though_the_shard_is_idle() {
    let aws = local_aws(1).await;
    put_numbers(&aws, 0..10);
    let mut channels = channels(conf(&aws));
    let (mut records, checkpoints) = next_shard(&mut channels).await.split();
    let mut received = Vec::new();
    for _ in 0..10 {
        received.push(soon("a record", records.recv()).await.unwrap());
    }
    checkpoints.put(received[5].position.clone());
    checkpoints.put(received[2].position.clone());
    let sixth = Checkpoint::At(received[5].event.position().clone());
    until_checkpoint(&aws, FIRST, |checkpoint| *checkpoint == sixth).await;
    let stopped = soon("the stop", channels.consumer().stop());
    // It waits for what was received, until both ends are gone.
    drop((records, checkpoints));
    assert_eq!(stopped.await.unwrap().unsettled, 4);
    assert_eq!(checkpoint(&aws, FIRST).await, Some(sixth));
}

#[actix::test]
async fn the_end_of_a_shard_is_marked_when_all_that_was_received_is_finished() {
    let aws = local_aws(1).await;
    put_numbers(&aws, 0..10);
    aws.split(STREAM, FIRST).unwrap();
    let mut channels = channels(conf(&aws));
    let (mut records, checkpoints) = next_shard(&mut channels).await.split();
    let mut last = None;
    while let Some(record) = soon("the end", records.recv()).await {
        last = Some(record.position);
    }
    assert_eq!(checkpoint(&aws, FIRST).await, Some(Checkpoint::TrimHorizon));
    checkpoints.put(last.unwrap());
    until_checkpoint(&aws, FIRST, |checkpoint| *checkpoint == Checkpoint::ShardEnd).await;
    next_shard(&mut channels).await;
    channels.consumer().stop().await.unwrap();
    assert!(channels.recv().await.unwrap().is_none());
}

#[actix::test]
async fn a_full_channel_stops_the_fetch_and_nothing_is_delivered_twice_or_lost() {
    let aws = local_aws(1).await;
    put_numbers(&aws, 0..500);
    let mut conf = conf(&aws);
    conf.worker.max_in_flight_events = 10;
    let mut channels = channels(conf);
    let (mut records, checkpoints) = next_shard(&mut channels).await.split();
    for number in 0..500 {
        let record = soon("a record", records.recv()).await.unwrap();
        assert_eq!(record.event.payload(), number.to_string().as_bytes());
        assert!(channels.consumer().status().shards[0].in_flight <= 10);
        checkpoints.put(record.position);
    }
    assert!(channels.consumer().stop().await.unwrap().is_clean());
}

#[actix::test]
async fn channels_that_are_dropped_with_records_unfinished_start_the_shard_again() {
    let aws = local_aws(1).await;
    put_numbers(&aws, 0..10);
    let mut conf = conf(&aws);
    conf.worker.failure_tolerance_percentage = 0.0;
    let mut channels = channels(conf);
    let (mut records, checkpoints) = next_shard(&mut channels).await.split();
    for number in 0..5 {
        let record = soon("a record", records.recv()).await.unwrap();
        if number == 2 {
            checkpoints.put(record.position);
        }
    }
    drop((records, checkpoints));
    let (mut records, checkpoints) = next_shard(&mut channels).await.split();
    for number in 3..10 {
        let record = soon("a record", records.recv()).await.unwrap();
        assert_eq!(record.event.payload(), number.to_string().as_bytes());
        checkpoints.put(record.position);
    }
    assert!(channels.consumer().stop().await.unwrap().is_clean());
}

#[actix::test]
async fn records_may_be_finished_after_their_channel_is_dropped() {
    let aws = local_aws(1).await;
    put_numbers(&aws, 0..100);
    let mut channels = channels(conf(&aws));
    let (mut records, checkpoints) = next_shard(&mut channels).await.split();
    let mut last = None;
    for _ in 0..5 {
        last = Some(soon("a record", records.recv()).await.unwrap());
    }
    drop(records);
    let given_back = channels.consumer().watch();
    let are_given_back = soon("what waited", async move {
        given_back.clone().wait_for(|it| it.shards[0].in_flight == 5).await.map(drop)
    });
    are_given_back.await.unwrap();
    checkpoints.put(last.unwrap().position);
    let (mut records, _checkpoints) = next_shard(&mut channels).await.split();
    let record = soon("a record", records.recv()).await.unwrap();
    assert_eq!(record.event.payload(), &b"5"[..]);
}

#[actix::test]
async fn a_position_moves_its_own_shard_alone() {
    let aws = local_aws(2).await;
    put_numbers(&aws, 0..100);
    let mut channels = channels(conf(&aws));
    let (mut first, _) = next_shard(&mut channels).await.split();
    let (mut second, of_second) = next_shard(&mut channels).await.split();
    let record = soon("a record", first.recv()).await.unwrap();
    soon("a record", second.recv()).await.unwrap();
    of_second.put(record.position);
    let place = Checkpoint::At(record.event.position().clone());
    until_checkpoint(&aws, first.shard().as_str(), |checkpoint| *checkpoint == place).await;
    assert_eq!(checkpoint(&aws, second.shard().as_str()).await, Some(Checkpoint::TrimHorizon));
}
