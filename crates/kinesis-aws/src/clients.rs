//! The clients of both services, made from the settings.

use std::fmt;
use std::time::Duration;

use aws_config::profile::{ProfileFileCredentialsProvider, ProfileFileLoadError};
use aws_config::provider_config::ProviderConfig;
use aws_config::sts::AssumeRoleProvider;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, ConfigLoader, SdkConfig};
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_kinesis::config::Region;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_smithy_types::retry::RetryConfig;

use crate::region;
use crate::settings::AwsSettings;

/// The session's name where the settings give none.
const ROLE_SESSION_NAME: &str = "actix-kinesis";

/// The clients of Kinesis and DynamoDB. They share connections and credentials; cloning costs a few reference
/// counts.
#[derive(Clone)]
pub struct Clients {
    kinesis: aws_sdk_kinesis::Client,
    dynamodb: aws_sdk_dynamodb::Client,
    region: String,
    kinesis_place: String,
    dynamodb_place: String,
    connect_timeout: Duration,
}

impl Clients {
    /// Makes the clients. Nothing is sent to Kinesis or DynamoDB, and credentials are not asked for before the first
    /// call.
    ///
    /// Certificates are checked against the roots that the operating system trusts, or those in the file that
    /// `SSL_CERT_FILE` names.
    ///
    /// # Errors
    /// When no region can be found, the profile does not exist, or a setting is no endpoint or no region.
    pub async fn connect(settings: &AwsSettings) -> Result<Self, AwsError> {
        check_endpoints(settings)?;
        if let Some(profile) = &settings.profile {
            check_profile(profile).await?;
        }
        let endpoints = Endpoints::of(settings);
        let sdk = sdk_config(settings, &endpoints).await?;
        let region = sdk.region().map(ToString::to_string).ok_or(AwsError::MissingRegion)?;
        if !is_region(&region) {
            return Err(AwsError::InvalidRegion { region });
        }

        // An endpoint of one's own has no FIPS or dual-stack variant; the SDK refuses every call that asks for both.
        let mut kinesis = aws_sdk_kinesis::config::Builder::from(&sdk).retry_config(RetryConfig::disabled());
        if endpoints.kinesis.is_some() {
            kinesis = kinesis.use_fips(false).use_dual_stack(false);
        }
        if let Some(endpoint) = &settings.kinesis_endpoint {
            kinesis = kinesis.endpoint_url(endpoint);
        }
        let mut dynamodb =
            aws_sdk_dynamodb::config::Builder::from(&sdk).retry_config(RetryConfig::disabled());
        if endpoints.dynamodb.is_some() {
            dynamodb = dynamodb.use_fips(false).use_dual_stack(false);
        }
        if let Some(endpoint) = &settings.dynamodb_endpoint {
            dynamodb = dynamodb.endpoint_url(endpoint);
        }
        let place = |endpoint: Option<String>| endpoint.unwrap_or_else(|| format!("region {region}"));
        Ok(Self {
            kinesis: aws_sdk_kinesis::Client::from_conf(kinesis.build()),
            dynamodb: aws_sdk_dynamodb::Client::from_conf(dynamodb.build()),
            kinesis_place: place(endpoints.kinesis),
            dynamodb_place: place(endpoints.dynamodb),
            region,
            connect_timeout: settings.connect_timeout,
        })
    }

    /// The region that was found.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// The SDK's client of Kinesis. It does not repeat a call.
    pub fn kinesis(&self) -> &aws_sdk_kinesis::Client {
        &self.kinesis
    }

    /// The SDK's client of DynamoDB. It does not repeat a call.
    pub fn dynamodb(&self) -> &aws_sdk_dynamodb::Client {
        &self.dynamodb
    }

    /// Where Kinesis is, for messages to people: an endpoint or a region.
    pub fn kinesis_place(&self) -> &str {
        &self.kinesis_place
    }

    /// Where DynamoDB is, for messages to people: an endpoint or a region.
    pub fn dynamodb_place(&self) -> &str {
        &self.dynamodb_place
    }

    /// A client of DynamoDB whose calls may take `limit` each. The connections are the same.
    pub(crate) fn dynamodb_within(&self, limit: Duration) -> aws_sdk_dynamodb::Client {
        let config = self
            .dynamodb
            .config()
            .to_builder()
            .timeout_config(time_limits(self.connect_timeout, limit))
            .build();
        aws_sdk_dynamodb::Client::from_conf(config)
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients")
            .field("region", &self.region)
            .field("kinesis", &self.kinesis_place)
            .field("dynamodb", &self.dynamodb_place)
            .finish_non_exhaustive()
    }
}

/// Why no clients can be made. The text says which setting to change.
#[derive(Debug, thiserror::Error)]
pub enum AwsError {
    /// No region is configured, and this is no EC2 instance that could tell one.
    #[error(
        "no AWS region is configured: set `region`, the environment variable AWS_REGION, or `region` of the profile \
         in ~/.aws/config"
    )]
    MissingRegion,
    /// The region has characters that no region has.
    #[error("{region:?} is no AWS region: it must be of the form \"eu-west-1\"")]
    InvalidRegion {
        /// The region in question.
        region: String,
    },
    /// An endpoint is no URL.
    #[error(
        "`{setting}` is {endpoint:?}, which is no endpoint: it must be of the form \"http://127.0.0.1:4566\""
    )]
    InvalidEndpoint {
        /// The name of the setting.
        setting: &'static str,
        /// Its value.
        endpoint: String,
    },
    /// The profile is in neither file.
    #[error(
        "there is no AWS profile {profile:?} in ~/.aws/config or ~/.aws/credentials (or the files that \
         AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name); there is: {}", known.join(", ")
    )]
    UnknownProfile {
        /// The profile that was asked for.
        profile: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// A file with profiles cannot be read.
    #[error("the files with AWS profiles cannot be read: {0}")]
    Profiles(#[source] ProfileFileLoadError),
}

/// The endpoints that are used in place of those of AWS, for messages and the choice of the region.
struct Endpoints {
    kinesis: Option<String>,
    dynamodb: Option<String>,
}

impl Endpoints {
    /// In the order of the SDK: what the settings say goes before the environment.
    fn of(settings: &AwsSettings) -> Self {
        let of_service = |own: &Option<String>, variable| {
            own.clone()
                .or_else(|| settings.endpoint_url.clone())
                .or_else(|| std::env::var(variable).ok())
                .or_else(|| std::env::var("AWS_ENDPOINT_URL").ok())
        };
        Self {
            kinesis: of_service(&settings.kinesis_endpoint, "AWS_ENDPOINT_URL_KINESIS"),
            dynamodb: of_service(&settings.dynamodb_endpoint, "AWS_ENDPOINT_URL_DYNAMODB"),
        }
    }
}

async fn sdk_config(settings: &AwsSettings, endpoints: &Endpoints) -> Result<SdkConfig, AwsError> {
    let http = http_client(settings, endpoints);
    let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
        .http_client(http.clone())
        .timeout_config(time_limits(settings.connect_timeout, settings.request_timeout));
    let overrides = [endpoints.kinesis.clone(), endpoints.dynamodb.clone()];
    let region = region::find(settings.region.as_deref(), settings.profile.as_deref(), &overrides).await;
    if let Some(region) = &region {
        loader = loader.region(region.clone());
    }
    if let Some(profile) = &settings.profile {
        loader = loader.profile_name(profile);
    }
    if let Some(endpoint) = &settings.endpoint_url {
        loader = loader.endpoint_url(endpoint);
    }
    if needs_no_profile(settings, endpoints) {
        loader = without_profile_files(loader);
    }
    if let Some(credentials) = own_credentials(settings, http, region) {
        loader = loader.credentials_provider(credentials);
    }
    let sdk = loader.load().await;
    Ok(match assumed_role(settings, &sdk).await {
        Some(role) => sdk.into_builder().credentials_provider(SharedCredentialsProvider::new(role)).build(),
        None => sdk,
    })
}

/// Whether all that the files with profiles could tell is told: then they are not read, broken ones do no harm.
fn needs_no_profile(settings: &AwsSettings, endpoints: &Endpoints) -> bool {
    settings.region.is_some()
        && settings.credentials.is_some()
        && settings.profile.is_none()
        && settings.role_arn.is_none()
        && endpoints.kinesis.is_some()
        && endpoints.dynamodb.is_some()
}

#[expect(deprecated, reason = "the type's new name is in a crate that nothing else here needs")]
fn without_profile_files(loader: ConfigLoader) -> ConfigLoader {
    use aws_config::profile::profile_file::{ProfileFileKind, ProfileFiles};
    loader.profile_files(ProfileFiles::builder().with_contents(ProfileFileKind::Config, "").build())
}

/// The provider that goes before the default chain, if there is one.
fn own_credentials(
    settings: &AwsSettings,
    http: SharedHttpClient,
    region: Option<Region>,
) -> Option<SharedCredentialsProvider> {
    if let Some(credentials) = &settings.credentials {
        return Some(credentials.clone());
    }
    let profile = settings.profile.as_deref()?;
    let config = ProviderConfig::without_region().with_region(region).with_http_client(http);
    let provider = ProfileFileCredentialsProvider::builder().configure(&config).profile_name(profile).build();
    Some(SharedCredentialsProvider::new(provider))
}

async fn assumed_role(settings: &AwsSettings, sdk: &SdkConfig) -> Option<AssumeRoleProvider> {
    let session = settings.role_session_name.as_deref().unwrap_or(ROLE_SESSION_NAME);
    let mut role =
        AssumeRoleProvider::builder(settings.role_arn.as_deref()?).configure(sdk).session_name(session);
    if let Some(id) = &settings.external_id {
        role = role.external_id(id);
    }
    Some(role.build().await)
}

/// One client for everything: hyper 1 with rustls on ring.
///
/// Where nothing can be asked over TLS, the system's certificates are not read, so that a machine without any
/// serves for an emulator.
fn http_client(settings: &AwsSettings, endpoints: &Endpoints) -> SharedHttpClient {
    let plain = |endpoint: &Option<String>| endpoint.as_deref().is_some_and(|url| url.starts_with("http://"));
    let without_tls = plain(&endpoints.kinesis)
        && plain(&endpoints.dynamodb)
        && settings.credentials.is_some()
        && settings.role_arn.is_none();
    let client = aws_smithy_http_client::Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring));
    match TlsContext::builder().with_trust_store(TrustStore::empty()).build() {
        Ok(empty) if without_tls => client.tls_context(empty).build_https(),
        _ => client.build_https(),
    }
}

fn time_limits(connect: Duration, call: Duration) -> TimeoutConfig {
    TimeoutConfig::builder().connect_timeout(connect).operation_attempt_timeout(call).build()
}

fn check_endpoints(settings: &AwsSettings) -> Result<(), AwsError> {
    let endpoints = [
        ("endpoint_url", &settings.endpoint_url),
        ("kinesis_endpoint", &settings.kinesis_endpoint),
        ("dynamodb_endpoint", &settings.dynamodb_endpoint),
    ];
    for (setting, endpoint) in endpoints {
        if let Some(endpoint) = endpoint.as_ref().filter(|endpoint| region::host(endpoint).is_none()) {
            return Err(AwsError::InvalidEndpoint { setting, endpoint: endpoint.clone() });
        }
    }
    Ok(())
}

/// The SDK takes an unknown profile for an empty one, and ends in "no credentials" a call later.
async fn check_profile(profile: &str) -> Result<(), AwsError> {
    let selected = Some(profile.to_owned().into());
    let profiles =
        aws_config::profile::load(&Default::default(), &Default::default(), &Default::default(), selected)
            .await
            .map_err(AwsError::Profiles)?;
    if profiles.get_profile(profile).is_some() {
        return Ok(());
    }
    let mut known: Vec<_> = profiles.profiles().map(str::to_owned).collect();
    known.sort();
    if known.is_empty() {
        known.push("none".to_owned());
    }
    Err(AwsError::UnknownProfile { profile: profile.to_owned(), known })
}

fn is_region(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}
