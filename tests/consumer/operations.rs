//! Operating shards, and looking at the fleet from outside.

use actix_kinesis::ShardId;
use actix_kinesis::consumer::{ConsumerError, Fleet, ShardLife, ShardState, World};

use crate::support::*;

#[actix::test]
async fn shards_are_paused_resumed_and_drained_and_all_of_it_is_seen_from_outside() {
    let aws = local_aws(2).await;
    let conf = quick_conf(&aws);
    let table = conf.table_name();
    let world = World::connect(&conf, Some(credentials())).await.unwrap();
    assert!(matches!(Fleet::read(&world).await, Err(ConsumerError::LeaseTable(_))), "there is no table yet");

    let notes = [new_notes(), new_notes()];
    let first = start_noting(conf.clone(), &notes[0]);
    eventually("both shards are read", async || first.status().shards.len() == 2).await;
    let second = start_noting(conf, &notes[1]);
    let shards_of_both = || [&first, &second].map(|consumer| consumer.status().shards.len());
    eventually("the shards are shared", async || shards_of_both() == [1, 1]).await;

    let shard: ShardId = first.status().shards[0].shard.clone();
    let key = keys_by_shard(&aws)[shard.as_str()].clone();
    aws.put(STREAM, &key, "0").unwrap();
    notes[0].wait_for("the first record", |noted| noted.deliveries.len() == 1).await;
    first.pause(&shard).await.unwrap();
    assert_eq!(first.status().shards[0].state, ShardState::Paused);
    let stored = aws.put(STREAM, &key, "1").unwrap().sequence_number.to_string();
    let reads = first.status().shards[0].fencing_token;
    first.resume(&shard).await.unwrap();
    let noted = notes[0].wait_for("the second record", |noted| noted.deliveries.len() == 2).await;
    assert_eq!(noted.payloads(), ["0", "1"]);
    assert_eq!(first.status().shards[0].fencing_token, reads, "the lease was kept");
    eventually("it is checkpointed", async || {
        text(&rows(&aws, &table).await[shard.as_str()], "checkpoint") == Some(stored.clone())
    })
    .await;

    first.drain(&shard).await.unwrap();
    eventually("the shard is handed over", async || {
        second.status().shards.iter().any(|status| status.shard == shard)
    })
    .await;
    aws.put(STREAM, &key, "2").unwrap();
    let noted = notes[1].wait_for("the third record", |noted| !noted.deliveries.is_empty()).await;
    assert_eq!(noted.payloads(), ["2"]);
    assert_eq!(notes[0].now().deliveries.len(), 2);
    assert_eq!(first.status().stopped[0].shard, shard);

    let fleet = Fleet::read(&world).await.unwrap();
    let seen = fleet.shards.iter().find(|seen| seen.shard == shard).unwrap();
    let lease = seen.lease.as_ref().unwrap();
    assert_eq!(seen.life, ShardLife::Open);
    assert_eq!((lease.owner.as_ref(), lease.is_peer), (Some(second.worker_id()), true));
    assert!(fleet.workers.iter().any(|worker| worker.worker == *second.worker_id()));
    let row = rows(&aws, &table).await.remove(shard.as_str()).unwrap();
    assert!(
        ["handOverOffered", "handOverTo"].iter().all(|attribute| !row.contains_key(*attribute)),
        "{row:?}"
    );
    assert!(first.stop().await.unwrap().is_clean());
    assert!(second.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn an_offer_is_written_to_the_row_and_removed_when_the_shard_is_resumed() {
    let aws = local_aws(1).await;
    let conf = quick_conf(&aws);
    let table = conf.table_name();
    let consumer = start_noting(conf, &new_notes());
    eventually("the shard is read", async || consumer.status().shards.len() == 1).await;
    let shard = consumer.status().shards[0].shard.clone();
    let is_offered = async || rows(&aws, &table).await[shard.as_str()].contains_key("handOverOffered");
    assert!(!is_offered().await);
    consumer.drain(&shard).await.unwrap();
    eventually("the offer is written", is_offered).await;
    consumer.resume(&shard).await.unwrap();
    eventually("the offer is removed", async || !is_offered().await).await;
    assert_eq!(consumer.status().shards.len(), 1);
    assert!(consumer.stop().await.unwrap().is_clean());
}
