//! The example of the README.

#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use actix::{Actor, Context, Handler};
use actix_kinesis::consumer::{ConsumerShutdown, ConsumerWorkerFailure, EventProcessed, ProcessEvent};
use actix_kinesis_test::TestStream;
use actix_kinesis_test::faults::Fault;

type Orders = Arc<Mutex<BTreeMap<String, Vec<String>>>>;

/// The processor under test: keeps the orders of each customer.
struct OrderDesk(Orders);

impl Actor for OrderDesk {
    type Context = Context<Self>;
}

impl Handler<ProcessEvent> for OrderDesk {
    type Result = EventProcessed;

    fn handle(&mut self, ProcessEvent { event, .. }: ProcessEvent, _: &mut Self::Context) -> EventProcessed {
        let Some(customer) = event.partition_key() else { return EventProcessed::failed("no customer") };
        let order = String::from_utf8_lossy(event.payload()).into_owned();
        self.0.lock().unwrap().entry(customer.to_owned()).or_default().push(order);
        EventProcessed::Processed
    }
}

impl Handler<ConsumerWorkerFailure> for OrderDesk {
    type Result = ();
    fn handle(&mut self, _: ConsumerWorkerFailure, _: &mut Self::Context) {}
}

impl Handler<ConsumerShutdown> for OrderDesk {
    type Result = ();
    fn handle(&mut self, _: ConsumerShutdown, _: &mut Self::Context) {}
}

#[actix::test]
async fn orders_are_kept_through_trouble_and_a_reshard() {
    let stream = TestStream::start("orders", 2).await;
    for index in 0..100 {
        stream.put(&format!("customer-{}", index % 7), format!("order {index}"));
    }
    stream.faults().add(Fault::on("GetRecords").times(3).throttle());

    let orders = Orders::default();
    let consumer = stream.consume(OrderDesk(orders.clone()).start()).await;
    consumer.until_all_processed().await;

    stream.split("shardId-000000000000");
    stream.put("customer-0", "the last order");
    consumer.until_all_checkpointed().await;
    consumer.stop().await;

    consumer.seen().assert_in_order();
    let orders = orders.lock().unwrap();
    assert_eq!(orders.values().map(Vec::len).sum::<usize>(), 101);
    assert_eq!(orders["customer-0"].last().unwrap(), "the last order");
}

#[test]
fn this_is_what_the_readmes_show() {
    let source = include_str!("example.rs");
    for readme in [include_str!("../README.md"), include_str!("../../../README.md")] {
        let blocks = readme.split("```rust\n").skip(1).filter_map(|block| block.split("```").next());
        let shown: Vec<_> = blocks.filter(|block| block.contains("TestStream")).collect();
        assert!(!shown.is_empty());
        for block in shown {
            assert!(source.contains(block), "not in the example:\n{block}");
        }
    }
}
