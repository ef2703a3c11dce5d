use kinesis_local::model::{
    ConsumerDescription, KinesisError, NextEvent, RegisterStreamConsumerRequest, Settings, StartingPosition,
    SubscribeToShardEvent, SubscribeToShardRequest, SubscriptionEnd, SubscriptionId,
};

use crate::Bench;

/// The stream `flights` with the consumer `radar`.
pub(crate) struct Radar {
    pub(crate) bench: Bench,
    pub(crate) arn: String,
}

impl Radar {
    pub(crate) fn new(settings: Settings, shards: u32) -> Self {
        let mut bench = Bench::with(settings, shards);
        bench.pass(10_000);
        let arn = bench.register("flights", "radar").unwrap().consumer_arn;
        Self { bench, arn }
    }

    pub(crate) fn ready(shards: u32) -> Self {
        Self::new(Settings::default(), shards)
    }

    pub(crate) fn subscribe(
        &mut self,
        shard: &str,
        position: StartingPosition,
    ) -> Result<SubscriptionId, KinesisError> {
        let request =
            SubscribeToShardRequest { consumer_arn: self.arn.clone(), shard_id: shard.into(), position };
        self.bench.model.subscribe_to_shard(request, self.bench.now)
    }

    pub(crate) fn next(&mut self, id: SubscriptionId) -> NextEvent {
        self.bench.model.next_event(id, self.bench.now)
    }

    pub(crate) fn event(&mut self, id: SubscriptionId) -> SubscribeToShardEvent {
        match self.next(id) {
            NextEvent::Event(event) => event,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn end(&mut self, id: SubscriptionId) -> SubscriptionEnd {
        match self.next(id) {
            NextEvent::Ended(end) => end,
            other => panic!("{other:?}"),
        }
    }

    /// Milliseconds until the subscription wants to be asked again.
    pub(crate) fn wait(&mut self, id: SubscriptionId) -> u64 {
        match self.next(id) {
            NextEvent::NotBefore(instant) => instant.millis_since(self.bench.now),
            other => panic!("{other:?}"),
        }
    }
}

impl Bench {
    pub(crate) fn register(&mut self, stream: &str, name: &str) -> Result<ConsumerDescription, KinesisError> {
        let request = RegisterStreamConsumerRequest {
            stream: stream.into(),
            consumer_name: name.to_owned(),
            ..Default::default()
        };
        self.model.register_stream_consumer(request, self.now)
    }
}
