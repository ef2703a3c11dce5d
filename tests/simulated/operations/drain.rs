//! A drained shard goes to another instance, and stays there.

use actix_kinesis::consumer::{KinesisConsumer, ShardState, ShardStatus};

use super::*;
use crate::world::Fault;
use crate::{HOUR, MINUTE};

/// Two consumers that share a place of four shards, two each.
async fn share_four(notes: &[Notes; 2]) -> (Place, [KinesisConsumer; 2], Network) {
    let place = Place::new(4);
    let (first, _) = start_noting(&place, &notes[0]);
    let (second, network) = start_noting(&place, &notes[1]);
    until("the shares are even", || {
        [&first, &second].iter().all(|consumer| consumer.status().shards.len() == 2)
    })
    .await;
    pass(MINUTE).await;
    (place, [first, second], network)
}

#[actix::test]
async fn a_drained_shard_goes_to_the_other_instance_without_a_gap_or_a_repetition_and_stays_there() {
    tokio::time::pause();
    let notes = [new_notes(), new_notes()];
    let (place, [first, second], _) = share_four(&notes).await;
    let shard = first.status().shards[0].shard.clone();
    first.drain(&shard).await.unwrap();
    let mut put = 0;
    for _ in 0..600 {
        for key in 0..8 {
            place.put(&format!("key-{key}"), put.to_string());
            put += 1;
        }
        pass(SECOND / 5).await;
    }
    assert!(reads(&second, &shard));
    assert!(!reads(&first, &shard));
    let stopped = first.status().stopped;
    assert_eq!((stopped.len(), &stopped[0].shard, &stopped[0].error), (1, &shard, &None));
    pass(HOUR).await;
    assert!(reads(&second, &shard), "it is not taken back");
    let shares = [&first, &second].map(|consumer| consumer.status().shards.len());
    assert_eq!(shares, [2, 2], "another one came in exchange");

    let delivered = notes.each_ref().map(|notes| notes.now().deliveries);
    assert_eq!(delivered.iter().map(Vec::len).sum::<usize>(), put);
    let mut payloads: Vec<_> = delivered.iter().flatten().map(|delivery| &delivery.payload).collect();
    payloads.sort();
    payloads.dedup();
    assert_eq!(payloads.len(), put);

    first.resume(&shard).await.unwrap();
    assert_eq!(first.status().stopped, []);
    assert!(first.stop().await.unwrap().is_clean());
    assert!(second.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_drained_shard_is_read_on_if_nobody_asks_and_the_offer_is_withdrawn_when_it_is_resumed() {
    tokio::time::pause();
    let One { place, shard, notes, consumer, .. } = one_shard();
    until("the shard is read", || reads(&consumer, &shard)).await;
    consumer.drain(&shard).await.unwrap();
    consumer.drain(&shard).await.unwrap();
    let status = status_of(&consumer, &shard);
    assert_eq!((status.state, status.is_offered), (ShardState::Reading, true));
    pass(SECOND).await;
    assert!(row(&place, &shard).is_offered);
    pass(HOUR).await;
    put_numbers(&place, 0..2);
    notes.wait_for("the events", |noted| noted.deliveries.len() == 2).await;

    // A drained shard can be paused, and both end at once.
    consumer.pause(&shard).await.unwrap();
    put_numbers(&place, 2..4);
    consumer.resume(&shard).await.unwrap();
    assert!(!status_of(&consumer, &shard).is_offered);
    pass(SECOND).await;
    assert!(!row(&place, &shard).is_offered);
    let noted = notes.wait_for("the events", |noted| noted.deliveries.len() == 4).await;
    assert_eq!(noted.payloads(), numbers(4));
    let (second, _) = start_noting(&place, &new_notes());
    pass(10 * MINUTE).await;
    assert!(reads(&consumer, &shard), "nobody asks for the only shard");
    assert!(second.stop().await.unwrap().is_clean());
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_drained_shard_is_not_taken_back_though_nobody_reads_it_until_it_is_resumed() {
    tokio::time::pause();
    let notes = [new_notes(), new_notes()];
    let (place, [first, second], network) = share_four(&notes).await;
    let shard = first.status().shards[0].shard.clone();
    first.drain(&shard).await.unwrap();
    until("it is handed over", || reads(&second, &shard)).await;
    pass(5 * MINUTE).await;
    network.fail(|_| Fault::RequestLost);
    until("the others are taken", || first.status().shards.len() == 3).await;
    pass(5 * MINUTE).await;
    assert!(!reads(&first, &shard));
    assert_eq!(first.status().unread, std::slice::from_ref(&shard));
    first.resume(&shard).await.unwrap();
    until("it is taken", || reads(&first, &shard)).await;
    pass(MINUTE).await;
    assert_eq!(first.status().unread, []);
    assert_eq!(place.rows().len(), 4);
    network.heal();
    assert!(second.stop().await.unwrap().is_clean());
    assert!(first.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_shard_is_neither_paused_nor_drained_while_it_is_handed_over() {
    tokio::time::pause();
    let place = Place::new(2);
    put_by_key(&place, 0..20);
    let Holding { held, consumer: first, .. } = start_holding(&place, patient());
    until("both have events under way", || {
        let shards = first.status().shards;
        shards.len() == 2 && shards.iter().all(|shard| shard.in_flight > 0)
    })
    .await;
    let (second, _) = start_noting(&place, &new_notes());
    let is_parting = |status: &ShardStatus| status.state == ShardState::HandingOver;
    until("one is asked for", || first.status().shards.iter().any(is_parting)).await;
    let shard = first.status().shards.into_iter().find(is_parting).unwrap().shard;
    assert_eq!(first.pause(&shard).await, not_held(&shard));
    assert_eq!(first.drain(&shard).await, not_held(&shard));
    assert_eq!(first.resume(&shard).await, not_held(&shard));
    let answer = async {
        loop {
            pass(SECOND / 10).await;
            answer_all(&held);
        }
    };
    let handed_over = until("it is handed over", || reads(&second, &shard));
    tokio::select! { () = answer => {}, () = handed_over => {} }
    first.stop_within(SECOND).await.unwrap();
    assert!(second.stop().await.unwrap().is_clean());
}
