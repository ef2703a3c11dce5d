//! A thread beside the test, with a clock that no test pauses.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// Runs what must go on whatever the test's own thread does.
#[derive(Debug)]
pub(crate) struct Background(Option<Runtime>);

impl Background {
    pub(crate) fn start() -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("local AWS")
            .enable_all()
            .build()
            .unwrap_or_else(|error| panic!("no thread for a local AWS: {error}"));
        Self(Some(runtime))
    }

    /// Runs a future there, and waits for it from any runtime.
    pub(crate) async fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        let runtime = self.0.as_ref().expect("the runtime is there until the drop");
        runtime.spawn(future).await.expect("what runs beside the test does not panic")
    }

    pub(crate) async fn sleep(&self, pause: Duration) {
        self.run(async move { tokio::time::sleep(pause).await }).await;
    }

    /// As [`run`](Self::run), for so long at most.
    pub(crate) async fn run_within<T: Send + 'static>(
        &self,
        limit: Duration,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        self.run(async move { tokio::time::timeout(limit, future).await.ok() }).await
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // A runtime that is dropped inside another one panics; this is the way out.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
