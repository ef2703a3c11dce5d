//! Which region is used.

use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::ProfileFileRegionProvider;
use aws_sdk_kinesis::config::Region;

/// The region for endpoints that are none of AWS.
const EMULATED: Region = Region::from_static("us-east-1");

/// Finds the region without a network call: `named`, or that of the environment or the profile, or else one for
/// `endpoints` that are none of AWS. If there is none, the metadata service of the EC2 instance can still be asked,
/// which takes seconds where there is no such service.
pub(crate) async fn find(
    named: Option<&str>,
    profile: Option<&str>,
    endpoints: &[Option<String>],
) -> Option<Region> {
    if let Some(name) = named {
        return Some(Region::new(name.to_owned()));
    }
    let mut from_profile = ProfileFileRegionProvider::builder();
    if let Some(profile) = profile {
        from_profile = from_profile.profile_name(profile);
    }
    let chain = RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new())
        .or_else(from_profile.build());
    let found = chain.region().await;
    if found.is_none() && endpoints.iter().all(|endpoint| endpoint.as_deref().is_some_and(is_outside_aws)) {
        return Some(EMULATED);
    }
    found
}

/// Whether `endpoint` is none of AWS, such as an emulator on loopback. A VPC endpoint belongs to AWS and checks the
/// region.
fn is_outside_aws(endpoint: &str) -> bool {
    let host = host(endpoint).unwrap_or_default();
    ![".amazonaws.com", ".amazonaws.com.cn", ".api.aws"].iter().any(|suffix| host.ends_with(suffix))
}

/// The host of an endpoint URL, without its port; none if it is no such URL.
pub(crate) fn host(endpoint: &str) -> Option<&str> {
    let rest = endpoint.strip_prefix("http://").or_else(|| endpoint.strip_prefix("https://"))?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            port.parse::<u16>().ok()?;
            host
        }
        _ => authority,
    };
    let valid = |c: char| c.is_ascii_alphanumeric() || "-._[]:".contains(c);
    (!host.is_empty() && host.chars().all(valid)).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_read_from_an_endpoint_url_and_from_nothing_else() {
        assert_eq!(host("http://127.0.0.1:4567"), Some("127.0.0.1"));
        assert_eq!(host("https://[::1]:4567/"), Some("[::1]"));
        assert_eq!(host("https://[::1]"), Some("[::1]"));
        assert_eq!(host("http://localstack/path"), Some("localstack"));
        for text in ["", "localhost:4567", "http://", "http://:80", "http://a b", "http://a:port", "ftp://a"]
        {
            assert_eq!(host(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_vpc_endpoint_belongs_to_aws_and_an_emulator_does_not() {
        assert!(!is_outside_aws("https://vpce-0a.kinesis.eu-west-1.vpce.amazonaws.com"));
        assert!(!is_outside_aws("https://kinesis.cn-north-1.amazonaws.com.cn"));
        assert!(is_outside_aws("http://localhost:4566"));
        assert!(is_outside_aws("http://amazonaws.com.example"));
    }
}
