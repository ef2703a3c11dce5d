//! How region, credentials and endpoints are found.

use std::process::Command;
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};
use kinesis_aws::{AwsError, AwsSettings, Clients, DynamoLeaseStore, KinesisStream};
use kinesis_lease::{LeaseStore, StoreError, StreamApi, StreamErrorKind};

use crate::support::{Reply, STREAM, Scripted, TABLE, settings};

const IN_CHILD: &str = "KINESIS_AWS_TEST_CHILD";

/// Whether the test runs in a process whose environment says nothing of AWS but `variables`. If it does not, starts
/// such a process for the test `name` of this module and fails with it.
fn alone(name: &str, variables: &[(&str, &str)]) -> bool {
    if std::env::var_os(IN_CHILD).is_some() {
        return true;
    }
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--exact", &format!("connecting::{name}"), "--nocapture"]);
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("AWS_") {
            test.env_remove(variable);
        }
    }
    test.env("AWS_CONFIG_FILE", "no-such-file").env("AWS_SHARED_CREDENTIALS_FILE", "no-such-file");
    test.env("AWS_EC2_METADATA_DISABLED", "true").envs(variables.iter().copied()).env(IN_CHILD, "1");
    let output = test.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    false
}

/// A configuration file with one profile, for `AWS_CONFIG_FILE`.
fn config_file() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let profile = "[profile fleet]\nregion = eu-north-1\naws_access_key_id = AKIDPROFILE\n\
                   aws_secret_access_key = not-a-secret\n[profile other]\nregion = eu-south-1\n";
    std::fs::write(file.path(), profile).unwrap();
    file
}

fn empty_list() -> Reply {
    Reply::ok(r#"{"Shards":[]}"#)
}

#[tokio::test]
async fn without_a_region_the_error_says_how_to_set_one() {
    if !alone("without_a_region_the_error_says_how_to_set_one", &[]) {
        return;
    }
    let error = Clients::connect(&AwsSettings::default()).await.unwrap_err();
    assert!(matches!(error, AwsError::MissingRegion));
    for part in ["`region`", "AWS_REGION", "~/.aws/config"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    let vpc = "https://vpce-0a.kinesis.eu-west-1.vpce.amazonaws.com".to_owned();
    let settings = AwsSettings { endpoint_url: Some(vpc), ..AwsSettings::default() };
    assert!(matches!(Clients::connect(&settings).await, Err(AwsError::MissingRegion)));
    let half =
        AwsSettings { kinesis_endpoint: Some("http://localhost:1".to_owned()), ..AwsSettings::default() };
    assert!(matches!(Clients::connect(&half).await, Err(AwsError::MissingRegion)));
}

#[tokio::test]
async fn an_emulator_needs_no_region() {
    if !alone("an_emulator_needs_no_region", &[]) {
        return;
    }
    let settings =
        AwsSettings { endpoint_url: Some("http://localhost:4566".to_owned()), ..AwsSettings::default() };
    let clients = Clients::connect(&settings).await.unwrap();
    assert_eq!(clients.region(), "us-east-1");
    assert_eq!(clients.kinesis_place(), "http://localhost:4566");
}

#[tokio::test]
async fn the_endpoints_of_the_environment_are_used_and_shown() {
    let variables = [("AWS_ENDPOINT_URL", "http://one:1"), ("AWS_ENDPOINT_URL_DYNAMODB", "http://two:2")];
    if !alone("the_endpoints_of_the_environment_are_used_and_shown", &variables) {
        return;
    }
    let clients = Clients::connect(&AwsSettings::default()).await.unwrap();
    assert_eq!((clients.kinesis_place(), clients.dynamodb_place()), ("http://one:1", "http://two:2"));
    let named = Clients::connect(&settings()).await.unwrap();
    assert_eq!(named.region(), "eu-west-1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_is_asked_for_its_region_only_if_none_is_configured() {
    const NAME: &str = "an_instance_is_asked_for_its_region_only_if_none_is_configured";
    if std::env::var_os(IN_CHILD).is_none() {
        let server = Scripted::start(vec![Reply::ok("token"), Reply::ok("ap-southeast-2")]).await;
        let of_instance = [
            ("AWS_EC2_METADATA_DISABLED", "false"),
            ("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url.as_str()),
        ];
        let with_region = [of_instance[0], of_instance[1], ("AWS_REGION", "eu-west-3")];
        alone(NAME, &with_region);
        assert!(server.requests().is_empty());
        alone(NAME, &of_instance);
        assert!(server.requests()[1].line.contains("/latest/meta-data/placement/region"));
        return;
    }
    let clients = Clients::connect(&AwsSettings::default()).await.unwrap();
    let expected = std::env::var("AWS_REGION").unwrap_or_else(|_| "ap-southeast-2".to_owned());
    assert_eq!(clients.region(), expected);
}

#[tokio::test]
async fn an_unknown_profile_is_an_error_that_lists_those_there_are() {
    let file = config_file();
    let variables = [("AWS_CONFIG_FILE", file.path().to_str().unwrap())];
    if !alone("an_unknown_profile_is_an_error_that_lists_those_there_are", &variables) {
        return;
    }
    let settings = AwsSettings { profile: Some("flete".to_owned()), ..AwsSettings::default() };
    let error = Clients::connect(&settings).await.unwrap_err().to_string();
    assert!(error.contains("\"flete\"") && error.ends_with("there is: fleet, other"), "{error}");
}

#[tokio::test]
async fn a_named_profile_goes_before_the_credentials_of_the_environment() {
    let file = config_file();
    let variables = [
        ("AWS_CONFIG_FILE", file.path().to_str().unwrap()),
        ("AWS_ACCESS_KEY_ID", "AKIDENVIRONMENT"),
        ("AWS_SECRET_ACCESS_KEY", "not-a-secret"),
    ];
    if !alone("a_named_profile_goes_before_the_credentials_of_the_environment", &variables) {
        return;
    }
    let server = Scripted::start(vec![empty_list()]).await;
    for (profile, key) in [(None, "AKIDENVIRONMENT"), (Some("fleet"), "AKIDPROFILE")] {
        let settings = AwsSettings {
            profile: profile.map(str::to_owned),
            endpoint_url: Some(server.url.clone()),
            ..AwsSettings::default()
        };
        let clients = Clients::connect(&settings).await.unwrap();
        assert_eq!(clients.region(), if profile.is_some() { "eu-north-1" } else { "us-east-1" });
        KinesisStream::new(&clients, "orders").list_shards().await.unwrap();
        let head = server.requests().last().unwrap().head.clone();
        assert!(head.contains(&format!("Credential={key}/")), "{head}");
    }
}

#[tokio::test]
async fn without_credentials_a_call_is_denied_and_says_so() {
    if !alone("without_credentials_a_call_is_denied_and_says_so", &[]) {
        return;
    }
    let settings =
        AwsSettings { endpoint_url: Some("http://127.0.0.1:1".to_owned()), ..AwsSettings::default() };
    let clients = Clients::connect(&settings).await.unwrap();
    let error = KinesisStream::new(&clients, "orders").list_shards().await.unwrap_err();
    assert_eq!(error.kind, StreamErrorKind::Denied, "{error}");
    assert!(error.message.contains("credentials"), "{error}");
    let leases = DynamoLeaseStore::new(&clients, TABLE, STREAM, Duration::from_secs(5));
    let error = leases.scan().await.unwrap_err();
    assert!(matches!(error, StoreError::Refused(_)), "{error:?}");
}

#[tokio::test]
async fn a_role_is_assumed_with_the_credentials_found_and_its_own_sign_the_calls() {
    let assumed = Reply::ok(
        "<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleResult><Credentials>\
         <AccessKeyId>AKIDROLE</AccessKeyId><SecretAccessKey>not-a-secret</SecretAccessKey>\
         <SessionToken>session</SessionToken><Expiration>2100-01-01T00:00:00Z</Expiration></Credentials>\
         </AssumeRoleResult></AssumeRoleResponse>",
    );
    let server = Scripted::start(vec![assumed, empty_list()]).await;
    let settings = AwsSettings {
        endpoint_url: Some(server.url.clone()),
        role_arn: Some("arn:aws:iam::123456789012:role/reader".to_owned()),
        external_id: Some("of-the-partner".to_owned()),
        ..settings()
    };
    let clients = Clients::connect(&settings).await.unwrap();
    let stream = KinesisStream::new(&clients, "orders");
    let leases = DynamoLeaseStore::new(&clients, TABLE, STREAM, Duration::from_secs(5));
    stream.list_shards().await.unwrap();
    leases.scan().await.unwrap();

    let requests = server.requests();
    assert_eq!(requests.len(), 3, "the role is assumed once");
    assert!(requests[0].head.contains("Credential=AKIDTEST/"));
    for part in ["RoleSessionName=actix-kinesis", "ExternalId=of-the-partner", "role%2Freader"] {
        assert!(requests[0].body.contains(part), "{}", requests[0].body);
    }
    for request in &requests[1..] {
        assert!(request.head.contains("Credential=AKIDROLE/"), "{}", request.head);
    }
}

#[tokio::test]
async fn an_endpoint_that_is_no_url_is_named_with_its_setting() {
    let settings = AwsSettings { dynamodb_endpoint: Some("localhost:8000".to_owned()), ..settings() };
    let error = Clients::connect(&settings).await.unwrap_err().to_string();
    assert!(error.contains("`dynamodb_endpoint`") && error.contains("\"localhost:8000\""), "{error}");
}

#[tokio::test]
async fn a_text_that_is_no_region_is_refused() {
    for region in ["", "EU West", "eu-west-1/../x"] {
        let settings = AwsSettings { region: Some(region.to_owned()), ..settings() };
        let error = Clients::connect(&settings).await.unwrap_err();
        assert!(matches!(error, AwsError::InvalidRegion { .. }), "{error}");
    }
}

/// A provider that does what it should not.
#[derive(Debug)]
struct Talkative {
    _password: &'static str,
}

impl ProvideCredentials for Talkative {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::ready(Ok(Credentials::new("AKID", self._password, None, None, "test")))
    }
}

#[tokio::test]
async fn nothing_that_can_be_printed_shows_a_secret() {
    let settings = AwsSettings {
        credentials: Some(SharedCredentialsProvider::new(Talkative { _password: "hunter2" })),
        external_id: Some("hunter2".to_owned()),
        ..settings()
    };
    let clients = Clients::connect(&settings).await.unwrap();
    let stream = KinesisStream::new(&clients, "orders");
    let leases = DynamoLeaseStore::new(&clients, TABLE, STREAM, Duration::from_secs(3));
    let text = format!("{settings:?} {clients:?} {stream:?} {leases:?}");
    assert!(!text.contains("hunter2"), "{text}");
}
