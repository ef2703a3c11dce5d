//! Where tests run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use actix::Actor;
use actix_kinesis::consumer::{EventProcessed, EventProcessors};
use actix_kinesis_test::TestStream;

use crate::processors::Clerk;

async fn a_factory_serves() {
    let stream = TestStream::start("orders", 2).await;
    for index in 0..20 {
        stream.put(&format!("customer-{index}"), "tea");
    }
    let count: Arc<AtomicUsize> = Arc::default();
    let processors = EventProcessors::per_shard({
        let count = count.clone();
        move |_| Clerk::counting(&count).start()
    });
    let consumer = stream.consume(processors).await;
    consumer.until_all_processed().await;
    consumer.stop().await;
    assert_eq!(count.load(Ordering::SeqCst), 20);
}

#[tokio::test]
async fn a_factory_serves_without_an_actix_system() {
    a_factory_serves().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_factory_serves_on_several_threads() {
    a_factory_serves().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_clock_pauses_nothing_and_costs_no_patience() {
    a_factory_serves().await;
}

#[actix::test]
async fn a_handler_may_block_the_thread_of_the_test() {
    let stream = TestStream::start("orders", 1).await;
    stream.put("ada", "tea");
    let thread: Arc<std::sync::Mutex<Option<ThreadId>>> = Arc::default();
    let (aws, blocked_on) = (stream.clone(), thread.clone());
    // Blocks until the consumer's and the local AWS's own threads have gone on.
    let clerk = Clerk::answering(move |_| {
        *blocked_on.lock().unwrap() = Some(std::thread::current().id());
        let renewed = aws.aws().calls("UpdateItem");
        let began = Instant::now();
        while aws.aws().calls("UpdateItem") < renewed + 2 {
            if began.elapsed() > Duration::from_secs(8) {
                return EventProcessed::failed("the lease is not renewed");
            }
            std::thread::yield_now();
        }
        EventProcessed::Processed
    });
    let consumer = stream.consume(clerk.start()).await;
    consumer.until_all_checkpointed().await;
    consumer.stop().await;
    assert_eq!(*thread.lock().unwrap(), Some(std::thread::current().id()));
}
