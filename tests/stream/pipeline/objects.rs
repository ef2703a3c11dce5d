//! [`ObjectEmitter`]: files whose names tell what is in them.

use actix_kinesis::pipeline::{Counts, ObjectDeadLetters, ObjectEmitter};
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;

use super::*;

fn lines(folder: &std::path::Path) -> Vec<u64> {
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            lines.extend(self::lines(&path));
        } else if !path.to_string_lossy().contains('#') {
            // What is being written has such a name, until it is whole.
            let text = std::fs::read_to_string(&path).unwrap();
            lines.extend(text.lines().map(|line| line.parse::<u64>().unwrap()));
        }
    }
    lines.sort();
    lines
}

fn texts() -> Pipeline<String> {
    numbers().transform(async |number: u64| match number {
        number if number.is_multiple_of(50) => Err("a poor number".to_owned()),
        number => Ok([number.to_string()]),
    })
}

#[actix::test]
async fn objects_hold_each_event_once_though_the_checkpoint_is_behind_them() {
    let aws = local_aws(2).await;
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap());
    let start = |conf, gather| {
        let emitter = ObjectEmitter::new(Arc::clone(&store), "numbers");
        let dead = ObjectDeadLetters::new(Arc::clone(&store), "dead");
        texts().gather(gather).start_with(conf, emitter, dead, with_credentials).unwrap()
    };
    put_numbers(&aws, 0..100);
    // This run's checkpoints do not come to the table of the next one.
    let mut other = conf(&aws);
    other.application_name = "forgotten".to_owned();
    let running = start(other, Gather::records(7).with_time(20 * MS));
    let out = async {
        let mut pause = tokio::time::interval(10 * MS);
        while lines(&folder.path().join("numbers")).len() < 98 {
            pause.tick().await;
        }
    };
    soon("the objects", out).await;
    assert!(running.stop().await.unwrap().is_clean());
    put_numbers(&aws, 100..150);
    let running = start(conf(&aws), Gather::records(11).with_time(20 * MS));
    let out = async {
        let mut pause = tokio::time::interval(10 * MS);
        while lines(&folder.path().join("numbers")).len() < 147 {
            pause.tick().await;
        }
    };
    soon("the objects", out).await;
    assert!(running.stop().await.unwrap().is_clean());
    let wanted: Vec<u64> = (0..150u64).filter(|number| !number.is_multiple_of(50)).collect();
    assert_eq!(lines(&folder.path().join("numbers")), wanted);
    let counts = running.counts();
    assert!(counts.already_emitted >= 98, "{counts:?}");
    assert_eq!(counts.done(), 150);

    let dead = ObjectDeadLetters::new(Arc::clone(&store), "dead");
    let emitter = ObjectEmitter::new(Arc::clone(&store), "numbers");
    let pipeline = numbers().transform(async |number: u64| Ok::<_, String>([number.to_string()]));
    let redriven = pipeline.redrive(&dead, &emitter).await.unwrap();
    assert_eq!((redriven.emitted, redriven.failed), (3, 0));
    assert_eq!(lines(&folder.path().join("numbers")), (0..150).collect::<Vec<_>>());
    assert!(dead.list().await.unwrap().is_empty());
}

#[actix::test]
async fn a_kill_between_a_put_and_its_answer_makes_nothing_twice() {
    /// Puts so many batches, and never answers for the last one.
    struct Dying {
        inner: ObjectEmitter,
        left: AtomicUsize,
    }
    impl Emitter<String> for Dying {
        async fn emit(&self, batch: &Batch<String>) -> Result<(), EmitError> {
            self.inner.emit(batch).await?;
            match self.left.fetch_sub(1, Ordering::Relaxed) {
                1 => std::future::pending().await,
                _ => Ok(()),
            }
        }

        async fn emitted(
            &self,
            shard: &ShardId,
            checkpoint: &Checkpoint,
        ) -> Result<Vec<RangeInclusive<Position>>, EmitError> {
            Emitter::<String>::emitted(&self.inner, shard, checkpoint).await
        }
    }

    let aws = local_aws(1).await;
    put_numbers(&aws, 1..49);
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap());
    let emitter = || ObjectEmitter::new(Arc::clone(&store), "numbers");
    let dead = || ObjectDeadLetters::new(Arc::clone(&store), "dead");
    let written = || lines(&folder.path().join("numbers"));
    // Killed four times, with other limits each time.
    for (run, records) in [7, 5, 11, 3].into_iter().enumerate() {
        let before = written().len();
        let dying = Dying { inner: emitter(), left: AtomicUsize::new(1 + run % 2) };
        let pipeline = texts().gather(Gather::records(records).with_time(20 * MS));
        let mut conf = conf(&aws);
        conf.worker.shutdown_timeout = 200 * MS;
        let running = pipeline.start_with(conf, dying, dead(), with_credentials).unwrap();
        let is_put = async {
            let mut pause = tokio::time::interval(10 * MS);
            while written().len() < before + records * (1 + run % 2) {
                pause.tick().await;
            }
        };
        soon("the last put", is_put).await;
        assert!(!running.stop().await.unwrap().is_clean());
    }
    let running = texts().start_with(conf(&aws), emitter(), dead(), with_credentials).unwrap();
    let last = aws.records(STREAM).unwrap().last().unwrap().1.sequence_number.to_string();
    until_checkpoint(&aws, FIRST, |checkpoint| checkpoint.text() == last).await;
    assert!(running.stop().await.unwrap().is_clean());
    assert_eq!(written(), (1..49).collect::<Vec<_>>());
}

/// Twenty numbers, of which the first has a letter, and nothing is emitted.
struct Unemitted {
    aws: LocalAws,
    folder: tempfile::TempDir,
    store: Arc<dyn ObjectStore>,
}

impl Unemitted {
    async fn new() -> Self {
        /// Takes nothing.
        struct Away;
        impl Emitter<String> for Away {
            async fn emit(&self, _: &Batch<String>) -> Result<(), EmitError> {
                Err(EmitError::unavailable("away"))
            }
        }

        let aws = local_aws(1).await;
        put_numbers(&aws, 0..20);
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap());
        let this = Self { aws, folder, store };
        let mut conf = conf(&this.aws);
        conf.worker.shutdown_timeout = 200 * MS;
        let running = texts().start_with(conf, Away, this.dead(), with_credentials).unwrap();
        let is_kept = async {
            let mut pause = tokio::time::interval(10 * MS);
            while this.dead().list().await.unwrap().is_empty() {
                pause.tick().await;
            }
        };
        soon("the letter", is_kept).await;
        running.stop().await.unwrap();
        assert!(this.written().is_empty());
        this
    }

    fn dead(&self) -> ObjectDeadLetters {
        ObjectDeadLetters::new(Arc::clone(&self.store), "dead")
    }

    fn emitter(&self) -> ObjectEmitter {
        ObjectEmitter::new(Arc::clone(&self.store), "numbers")
    }

    fn written(&self) -> Vec<u64> {
        lines(&self.folder.path().join("numbers"))
    }

    /// Runs to the end of the stream with stages by which something can be made of each number.
    async fn run(&self) -> Counts {
        let conf = conf(&self.aws);
        let running = mended().start_with(conf, self.emitter(), self.dead(), with_credentials).unwrap();
        let last = self.aws.records(STREAM).unwrap().last().unwrap().1.sequence_number.to_string();
        until_checkpoint(&self.aws, FIRST, |checkpoint| checkpoint.text() == last).await;
        assert!(running.stop().await.unwrap().is_clean());
        running.counts()
    }

    async fn redrive(&self) {
        let redriven = mended().redrive(&self.dead(), &self.emitter()).await.unwrap();
        assert_eq!((redriven.emitted, redriven.failed), (1, 0));
    }
}

fn mended() -> Pipeline<String> {
    numbers().transform(async |number: u64| Ok::<_, String>([number.to_string()]))
}

#[actix::test]
async fn an_event_whose_letter_was_kept_and_whose_batch_was_not_emitted_is_redriven_and_nothing_else() {
    let numbers = Unemitted::new().await;
    let counts = numbers.run().await;
    assert_eq!((counts.emitted, counts.dead, counts.done()), (19, 1, 20));
    assert_eq!(numbers.written(), (1..20).collect::<Vec<_>>());
    numbers.redrive().await;
    assert_eq!(numbers.written(), (0..20).collect::<Vec<_>>());
}

#[actix::test]
async fn an_event_that_was_redriven_before_the_checkpoint_has_passed_it_is_not_emitted_again() {
    let numbers = Unemitted::new().await;
    numbers.redrive().await;
    assert_eq!(numbers.written(), [0]);
    let counts = numbers.run().await;
    assert_eq!((counts.emitted, counts.already_emitted, counts.done()), (19, 1, 20));
    assert_eq!(numbers.written(), (0..20).collect::<Vec<_>>());
}
