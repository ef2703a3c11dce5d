//! Credentials that expire, cannot be renewed, or are refused for the clock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use actix::Actor;
use actix_kinesis::SharedCredentialsProvider;
use actix_kinesis::consumer::{ConsumerNotice, Placement};
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, future};
use kinesis_local::LocalAws;
use kinesis_local::faults::{Fault, FaultHandle, Faults, Refusal};

use crate::logs::Logs;
use crate::support::*;

/// What the SDK takes off the validity of credentials, so as to renew them in time.
const SDK_MARGIN: Duration = Duration::from_secs(10);

/// Gives keys that are said to be good for some seconds. Both services refuse the newest ones after a while, which may
/// be earlier than that.
#[derive(Debug, Clone)]
struct ShortLived(Arc<Source>);

#[derive(Debug)]
struct Source {
    faults: Faults,
    given: AtomicU64,
    is_down: AtomicBool,
    refused_after: Mutex<Option<Duration>>,
    refusal: Mutex<Option<FaultHandle>>,
    refused: AtomicU64,
}

impl ShortLived {
    fn new(aws: &LocalAws) -> Self {
        Self(Arc::new(Source {
            faults: aws.faults(),
            given: AtomicU64::new(0),
            is_down: AtomicBool::new(false),
            refused_after: Mutex::new(None),
            refusal: Mutex::new(None),
            refused: AtomicU64::new(0),
        }))
    }

    /// Refuses keys so long after they are given, from the next ones on.
    fn refuse_after(&self, time: Option<Duration>) {
        *self.0.refused_after.lock().unwrap() = time;
    }

    fn refused(&self) -> u64 {
        let current = self.0.refusal.lock().unwrap().as_ref().map_or(0, FaultHandle::fired);
        self.0.refused.load(Ordering::SeqCst) + current
    }

    fn give(&self) -> Result<Credentials, CredentialsError> {
        let source = &*self.0;
        if source.is_down.load(Ordering::SeqCst) {
            return Err(CredentialsError::provider_error("the source of the keys is down"));
        }
        let mut refusal = source.refusal.lock().unwrap();
        if let Some(before) = refusal.take() {
            source.refused.fetch_add(before.fired(), Ordering::SeqCst);
            before.remove();
        }
        *refusal = source
            .refused_after
            .lock()
            .unwrap()
            .map(|time| source.faults.add(Fault::on_any().from(time).error("ExpiredTokenException")));
        let key = format!("key-{}", source.given.fetch_add(1, Ordering::SeqCst));
        let expiry = SystemTime::now() + SDK_MARGIN + Duration::from_secs(2);
        Ok(Credentials::new(key, "secret", Some("token".to_owned()), Some(expiry), "short-lived"))
    }
}

impl ProvideCredentials for ShortLived {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::ready(self.give())
    }
}

fn put_next(aws: &LocalAws, put: &mut usize) {
    aws.put(STREAM, "key", put.to_string()).unwrap();
    *put += 1;
}

/// Whatever was delivered again, the first deliveries are all there and in order.
async fn all_have_come(notes: &Notes, put: usize) {
    let first = |noted: &Noted| noted.first_by_key().get("key").map_or(0, Vec::len);
    let noted = notes.wait_for("all records", |noted| first(noted) == put).await;
    assert_eq!(noted.first_by_key()["key"], (0..put).map(|number| number.to_string()).collect::<Vec<_>>());
    assert_eq!(noted.failures.len(), 0);
}

#[actix::test]
async fn keys_that_expire_again_and_again_and_cannot_be_renewed_for_a_while_need_no_restart() {
    let aws = local_aws(2).await;
    let keys = ShortLived::new(&aws);
    let notes = new_notes();
    let recorder = Recorder::new(&notes).start();
    let mut conf = quick_conf(&aws);
    conf.lease.failover_time = SHORT_LEASE;
    let consumer = builder(conf, recorder.clone())
        .credentials(SharedCredentialsProvider::new(keys.clone()))
        .notices(recorder.recipient())
        .start()
        .unwrap();
    let mut put = 0;
    put_next(&aws, &mut put);
    all_have_come(&notes, put).await;

    // Refused before their time, and renewed in time by the SDK's reckoning: bursts of errors.
    keys.refuse_after(Some(Duration::from_secs(1)));
    let given = keys.0.given.load(Ordering::SeqCst);
    eventually("keys were refused and renewed", async || {
        put_next(&aws, &mut put);
        keys.refused() >= 5 && keys.0.given.load(Ordering::SeqCst) >= given + 3
    })
    .await;
    keys.refuse_after(None);

    // No new keys for longer than the leases last.
    keys.0.is_down.store(true, Ordering::SeqCst);
    eventually("the leases are lost", async || {
        put_next(&aws, &mut put);
        consumer.status().shards.is_empty()
    })
    .await;
    (0..10).for_each(|_| put_next(&aws, &mut put));
    keys.0.is_down.store(false, Ordering::SeqCst);
    all_have_come(&notes, put).await;
    eventually("both shards are read", async || consumer.status().shards.len() == 2).await;
    consumer.stop().await.unwrap();
}

fn for_the_clock(code: &str) -> Refusal {
    Refusal::new(code).message("Signature expired: 20260101T000000Z is now earlier than 20260101T001000Z")
}

#[actix::test]
async fn a_clock_that_goes_wrong_while_it_runs_is_named_and_survived() {
    for code in ["InvalidSignatureException", "RequestExpired"] {
        let logs = Logs::of_this_thread();
        let aws = local_aws(2).await;
        let notes = new_notes();
        let recorder = Recorder::new(&notes).start();
        let mut conf = quick_conf(&aws);
        conf.lease.failover_time = 2 * SHORT_LEASE;
        let consumer = builder(conf, recorder.clone())
            .notices(recorder.recipient())
            .placement(Placement::CurrentThread)
            .start()
            .unwrap();
        let mut put = 0;
        put_next(&aws, &mut put);
        all_have_come(&notes, put).await;
        eventually("both shards are read", async || consumer.status().shards.len() == 2).await;

        let refused = aws.faults().add(Fault::on_any().error(for_the_clock(code)));
        let is_loss = |notice: &ConsumerNotice| matches!(notice, ConsumerNotice::LeaseLost { .. });
        put_next(&aws, &mut put);
        eventually("the errors are told", async || {
            ["GetRecords", "UpdateItem"]
                .iter()
                .all(|call| !logs.with(&["ERROR", call, code, "clock"]).is_empty())
        })
        .await;
        let lost = |noted: &Noted| noted.notices.iter().filter(|notice| is_loss(notice)).count();
        notes.wait_for("both losses", |noted| lost(noted) >= 2).await;
        put_next(&aws, &mut put);
        refused.remove();
        all_have_come(&notes, put).await;
        consumer.stop().await.unwrap();
    }
}

#[actix::test]
async fn a_clock_that_is_wrong_at_the_start_is_named_by_the_error() {
    let aws = local_aws(1).await;
    for operation in ["DescribeTable", "ListShards"] {
        for code in
            ["InvalidSignatureException", "RequestExpired", "RequestTimeTooSkewed", "SignatureDoesNotMatch"]
        {
            let refused = aws.faults().add(Fault::on(operation).error(for_the_clock(code)));
            let consumer = builder(quick_conf(&aws), Recorder::new(&new_notes()).start()).start().unwrap();
            let error = consumer.finished().await.unwrap_err().to_string();
            assert!(error.contains("clock") && error.contains(code), "{error}");
            refused.remove();
        }
    }
}
