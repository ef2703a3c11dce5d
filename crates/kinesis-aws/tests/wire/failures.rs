//! How failures are told apart, and what their texts say.

use std::time::{Duration, Instant};

use kinesis_lease::stream::{ShardIterator, StartAt};
use kinesis_lease::{
    LeaseChange, LeaseStore, LeaseWrite, StoreError, StreamApi, StreamError, StreamErrorKind,
};

use crate::support::{Reply, Scripted, deserted, leases_at, stream_at};

const LIMIT: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(200);
const ITERATOR: &str = "AAAAAAAAAAHsecretiterator";

/// The error of GetRecords when the service answers like this.
async fn records_error(reply: Reply, limit: Duration) -> StreamError {
    let server = Scripted::start(vec![reply]).await;
    let stream = stream_at(&server.url, limit).await;
    let error = stream.get_records(&ShardIterator(ITERATOR.to_owned()), 100).await.unwrap_err();
    assert_eq!(server.operations(), ["GetRecords"], "no call is repeated");
    assert!(error.message.contains("GetRecords") && error.message.contains("\"orders\""), "{error}");
    assert!(error.message.contains(&server.url), "{error}");
    assert!(!error.message.contains(ITERATOR), "{error}");
    error
}

/// The error of a renewal when the service answers like this.
async fn renewal_error(reply: Reply, limit: Duration) -> StoreError {
    let server = Scripted::start(vec![reply]).await;
    let leases = leases_at(&server.url, limit).await;
    let shard = "shardId-000000000003".into();
    let write = LeaseWrite { shard, expected_counter: 7, change: LeaseChange::Renew };
    let error = leases.write(&write).await.unwrap_err();
    assert_eq!(server.operations(), ["UpdateItem"], "no write is repeated");
    let text = error.to_string();
    assert!(
        text.contains("UpdateItem for shardId-000000000003") && text.contains("orders-application"),
        "{text}"
    );
    assert!(text.contains(&server.url), "{text}");
    error
}

#[tokio::test]
async fn errors_of_kinesis_are_told_apart_by_what_can_be_done() {
    use StreamErrorKind::*;
    let cases = [
        ("ProvisionedThroughputExceededException", Throttled),
        ("LimitExceededException", Throttled),
        ("KMSThrottlingException", Throttled),
        ("ThrottlingException", Throttled),
        ("ExpiredIteratorException", ExpiredIterator),
        ("ResourceNotFoundException", NotFound),
        ("InvalidArgumentException", InvalidArgument),
        ("ValidationException", InvalidArgument),
        ("KMSAccessDeniedException", Encryption),
        ("KMSDisabledException", Encryption),
        ("KMSInvalidStateException", Encryption),
        ("KMSNotFoundException", Encryption),
        ("KMSOptInRequired", Encryption),
        ("AccessDeniedException", Denied),
        ("UnrecognizedClientException", Denied),
        ("ExpiredTokenException", Denied),
        ("InvalidSignatureException", Denied),
        ("IncompleteSignatureException", Denied),
        ("MissingAuthenticationTokenException", Denied),
        ("InternalFailure", Unavailable),
        ("ResourceInUseException", Unavailable),
        ("SomethingOfTomorrowException", Unavailable),
    ];
    for (code, kind) in cases {
        let error = records_error(Reply::error(400, code, "the service's words"), LIMIT).await;
        assert_eq!(error.kind, kind, "{error}");
        for part in [code, "the service's words", "request id request-1"] {
            assert!(error.message.contains(part), "{error}");
        }
    }
}

#[tokio::test]
async fn a_failing_service_and_a_reply_that_cannot_be_read_are_passing() {
    let replies = [
        Reply::Answer(500, String::new()),
        Reply::Answer(503, "<html>busy with secret-payload</html>".to_owned()),
        Reply::Answer(200, "secret-payload".to_owned()),
        Reply::Answer(200, "{}".to_owned()),
        Reply::Answer(
            200,
            r#"{"MillisBehindLatest":0,"Records":[{"SequenceNumber":"x","Data":"c2VjcmV0"}]}"#.to_owned(),
        ),
        Reply::Break,
    ];
    for reply in replies {
        let error = records_error(reply, LIMIT).await;
        assert_eq!(error.kind, StreamErrorKind::Unavailable, "{error}");
        assert!(!error.message.contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn an_iterator_that_the_service_repeats_is_not_shown() {
    let message = format!("1 validation error detected: Value '{ITERATOR}' at 'shardIterator' ...");
    let error = records_error(Reply::error(400, "ValidationException", &message), LIMIT).await;
    assert!(error.message.contains("Value '<hidden>' at"), "{error}");
}

#[tokio::test]
async fn a_refused_signature_points_to_the_clock_and_does_not_show_the_request() {
    let message = "Signature expired: 20261129T000000Z is now earlier than ...\n\nThe Canonical String for this \
                   request should have been\n'POST\nx-amz-security-token:secret";
    let error = records_error(Reply::error(400, "InvalidSignatureException", message), LIMIT).await;
    assert_eq!(error.kind, StreamErrorKind::Denied);
    assert!(error.message.contains("Signature expired") && error.message.contains("clock"), "{error}");
    assert!(!error.message.contains("secret:") && !error.message.contains("x-amz-security-token"), "{error}");
}

#[tokio::test]
async fn a_missing_permission_is_named_by_its_action() {
    let error = records_error(Reply::error(400, "AccessDeniedException", "no"), LIMIT).await;
    assert!(error.message.contains("allow the action kinesis:GetRecords"), "{error}");
}

#[tokio::test]
async fn a_silent_service_is_given_up_at_the_time_limit() {
    let started = Instant::now();
    let error = records_error(Reply::Silence, SHORT).await;
    assert_eq!(error.kind, StreamErrorKind::Unavailable);
    assert!(error.message.contains("no reply within 200ms"), "{error}");
    let error = renewal_error(Reply::Silence, SHORT).await;
    assert!(error.may_have_applied() && error.to_string().contains("no reply within 200ms"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn where_nobody_listens_the_endpoint_is_named_at_once() {
    let endpoint = deserted();
    let started = Instant::now();
    let stream = stream_at(&endpoint, LIMIT).await;
    let error = stream.list_shards().await.unwrap_err();
    assert_eq!(error.kind, StreamErrorKind::Unavailable);
    for part in [endpoint.as_str(), "refused", "check the endpoint"] {
        assert!(error.message.contains(part), "{error}");
    }
    let error = leases_at(&endpoint, LIMIT).await.scan().await.unwrap_err();
    assert!(matches!(&error, StoreError::Unknown(text) if text.contains(&endpoint)), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_list_of_shards_whose_second_page_fails_is_no_list() {
    let first = Reply::ok(
        r#"{"Shards":[{"ShardId":"shardId-0","HashKeyRange":{"StartingHashKey":"0","EndingHashKey":"9"},
        "SequenceNumberRange":{"StartingSequenceNumber":"1"}}],"NextToken":"more"}"#,
    );
    let server =
        Scripted::start(vec![first, Reply::error(400, "LimitExceededException", "Rate exceeded")]).await;
    let error = stream_at(&server.url, LIMIT).await.list_shards().await.unwrap_err();
    assert_eq!(error.kind, StreamErrorKind::Throttled);
    let bodies: Vec<_> = server.requests().into_iter().map(|request| request.body).collect();
    assert_eq!(bodies, [r#"{"StreamName":"orders"}"#, r#"{"NextToken":"more"}"#]);
}

#[tokio::test]
async fn a_shard_that_cannot_be_read_is_named() {
    let reply = Reply::ok(
        r#"{"Shards":[{"ShardId":"shardId-5","HashKeyRange":{"StartingHashKey":"","EndingHashKey":""},
        "SequenceNumberRange":{"StartingSequenceNumber":"1"}}]}"#,
    );
    let server = Scripted::start(vec![reply]).await;
    let error = stream_at(&server.url, LIMIT).await.list_shards().await.unwrap_err();
    assert!(error.message.contains("shardId-5") && error.message.contains("no hash key"), "{error}");
}

#[tokio::test]
async fn the_shard_is_named_when_there_is_no_iterator_for_it() {
    let server = Scripted::start(vec![Reply::ok("{}")]).await;
    let stream = stream_at(&server.url, LIMIT).await;
    let error = stream.shard_iterator(&"shardId-5".into(), &StartAt::Latest).await.unwrap_err();
    assert_eq!(error.kind, StreamErrorKind::Unavailable);
    assert!(error.message.contains("shardId-5"), "{error}");
}

#[tokio::test]
async fn errors_of_dynamodb_are_told_apart_by_whether_the_write_may_have_been_applied() {
    let throttled = StoreError::Throttled as fn(String) -> StoreError;
    let cases = [
        (400, "ProvisionedThroughputExceededException", throttled),
        (400, "RequestLimitExceeded", StoreError::Throttled),
        (400, "ThrottlingException", StoreError::Throttled),
        (400, "ResourceNotFoundException", StoreError::TableMissing),
        (400, "AccessDeniedException", StoreError::Refused),
        (400, "UnrecognizedClientException", StoreError::Refused),
        (400, "ExpiredTokenException", StoreError::Refused),
        (400, "InvalidSignatureException", StoreError::Refused),
        (400, "ValidationException", StoreError::Refused),
        (500, "InternalServerError", StoreError::Unknown),
        (503, "ServiceUnavailable", StoreError::Unknown),
        (400, "SomethingOfTomorrowException", StoreError::Unknown),
    ];
    for (status, code, kind) in cases {
        let error = renewal_error(Reply::error(status, code, "the service's words"), LIMIT).await;
        assert_eq!(error, kind(error.to_string()));
        for part in [code, "the service's words", "request id request-1"] {
            assert!(error.to_string().contains(part), "{error}");
        }
    }
    for reply in [Reply::Break, Reply::Answer(502, "<html>".to_owned()), Reply::Answer(200, "{".to_owned())] {
        let error = renewal_error(reply, LIMIT).await;
        assert!(error.may_have_applied(), "{error:?}");
    }
}
