//! Every record comes, in order.

use actix::Actor;

use crate::support::*;

#[actix::test]
async fn every_record_is_delivered_in_order_per_key_and_checkpointed() {
    let aws = local_aws(4).await;
    let mut put = 0;
    for index in 0..200 {
        for key in ["a", "b", "c", "d", "e"] {
            aws.put(STREAM, key, format!("{index}")).unwrap();
            put += 1;
        }
    }
    let notes = new_notes();
    let conf = quick_conf(&aws);
    let table = conf.table_name();
    let consumer = builder(conf, Recorder::new(&notes).start()).start().unwrap();

    let noted = notes.wait_for("all records", |noted| noted.deliveries.len() >= put).await;
    let stopped = consumer.stop().await.unwrap();

    assert!(stopped.is_clean(), "{stopped:?}");
    assert_eq!(noted.deliveries.len(), put, "an undisturbed run delivers each record once");
    let wanted: Vec<String> = (0..200).map(|index| index.to_string()).collect();
    for (key, payloads) in noted.first_by_key() {
        assert_eq!(payloads, wanted, "key {key}");
    }
    for (shard, row) in rows(&aws, &table).await {
        let last = noted.deliveries.iter().rev().find(|delivery| delivery.shard == shard);
        let last = last.map_or("TRIM_HORIZON", |delivery| &delivery.sequence);
        assert_eq!(text(&row, "checkpoint").as_deref(), Some(last), "shard {shard}");
        assert_eq!(text(&row, "leaseOwner"), None, "a clean stop releases shard {shard}");
    }
}
