//! An actor that sends events and is told what became of each.
//!
//! Exit code: 0 when all were sent and told, 1 otherwise.
//!
//! ```sh
//! cargo run --example produce -- application.conf orders
//! ```

use std::error::Error;
use std::io::{self, Write};
use std::time::Duration;

use actix::{Actor, AsyncContext, Context, Handler};
use actix_kinesis::config::KinesisConfig;
use actix_kinesis::producer::{
    KinesisProducer, KinesisProducerActor, ProducerEvent, SendFailed, SendSuccessful, SendWithCallback,
};
use tokio::sync::mpsc;

const EVENTS: usize = 100;

struct Shop {
    producer: actix::Addr<KinesisProducerActor>,
    /// Whether an event was sent; or why that cannot be told.
    answers: mpsc::UnboundedSender<io::Result<bool>>,
}

impl Actor for Shop {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        for order in 0..EVENTS {
            let event = ProducerEvent::new(format!("customer-{}", order % 7), format!("order {order}"));
            let message = SendWithCallback::with_id(event, order.to_string()).reply_to(&context.address());
            self.producer.do_send(message);
        }
    }
}

impl Handler<SendSuccessful> for Shop {
    type Result = ();

    fn handle(&mut self, SendSuccessful { message_id, result, .. }: SendSuccessful, _: &mut Self::Context) {
        let told = writeln!(io::stdout(), "order {message_id}: {} in {}", result.position(), result.shard);
        let _ = self.answers.send(told.map(|()| true));
    }
}

impl Handler<SendFailed> for Shop {
    type Result = ();

    fn handle(&mut self, failed: SendFailed, _: &mut Self::Context) {
        // The event is whole: keep it, or send it again.
        eprintln!("order {}: {}", failed.message_id, failed.reason);
        let _ = self.answers.send(Ok(false));
    }
}

#[actix::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(file), Some(name)) = (arguments.next(), arguments.next()) else {
        return Err("usage: produce FILE PRODUCER".into());
    };
    let producer = KinesisProducer::start(KinesisConfig::load(file)?.producer(&name)?).await?;
    let (answers, mut answered) = mpsc::unbounded_channel();
    let actor = KinesisProducerActor::new(producer.clone()).start();
    Shop { producer: actor, answers }.start();
    let (mut failed, mut told) = (0, Ok(()));
    for _ in 0..EVENTS {
        match answered.recv().await {
            Some(Ok(true)) => {}
            Some(Err(error)) => told = Err(error),
            Some(Ok(false)) | None => failed += 1,
        }
    }
    producer.stop(Duration::from_secs(10)).await;
    told?;
    if failed > 0 { Err(format!("{failed} events were not sent").into()) } else { Ok(()) }
}
