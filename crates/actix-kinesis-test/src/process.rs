//! A consumer as if in a process of its own, which can die.

use actix::{Arbiter, System};
use actix_kinesis::consumer::{ConsumerBuilder, ConsumerError, KinesisConsumer};
use tokio::sync::{oneshot, watch};

/// An actix system on threads of its own, with a consumer in it. Its drop is the death of the process.
#[derive(Debug)]
pub(crate) struct Process {
    system: System,
    /// Ends when the last actor of the consumer has.
    life: watch::Receiver<()>,
}

impl Process {
    /// Starts a consumer. `builder` gets the token that the consumer has to hold for as long as it lives.
    ///
    /// # Errors
    /// When the settings are impossible.
    pub(crate) async fn start(
        builder: impl FnOnce(watch::Sender<()>) -> ConsumerBuilder,
    ) -> Result<(Self, KinesisConsumer), ConsumerError> {
        let (token, life) = watch::channel(());
        let builder = builder(token);
        let (started, start) = oneshot::channel();
        let thread = std::thread::Builder::new().name("consumer".to_owned());
        let spawned = thread.spawn(move || {
            let runner = System::new();
            let system = System::current();
            // The system's first thread carries out its end, so no handler may hold that up.
            Arbiter::new().spawn_fn(move || {
                // Nobody waits for it if the test is over.
                let _ = started.send((system, builder.start()));
            });
            let _ = runner.run();
        });
        spawned.unwrap_or_else(|error| panic!("no thread for a consumer: {error}"));
        let (system, consumer) = start.await.expect("a consumer that cannot be started says why");
        let process = Self { system, life };
        Ok((process, consumer?))
    }

    /// Ends all its threads, whatever they are doing. Nothing is stored, released or told.
    pub(crate) fn kill(&self) {
        self.system.stop();
    }

    /// Waits until the consumer does nothing any more.
    pub(crate) fn until_dead(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut life = self.life.clone();
        async move { while life.changed().await.is_ok() {} }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
