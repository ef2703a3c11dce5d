//! Both services under TLS, and HTTP/2 in clear.

use std::sync::Arc;

use aws_sdk_kinesis::config::{BehaviorVersion, Credentials, Region};
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Version};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use kinesis_local::LocalAws;
use kinesis_local::faults::Fault;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// A client of Kinesis that comes over TLS.
pub(crate) fn secured_client(aws: &LocalAws) -> aws_sdk_kinesis::Client {
    let trusted = TrustStore::empty().with_pem_certificate(aws.certificate().unwrap());
    let context = TlsContext::builder().with_trust_store(trusted).build().unwrap();
    let http =
        Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).tls_context(context).build_https();
    let config = aws_sdk_kinesis::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .retry_config(aws_sdk_dynamodb::config::retry::RetryConfig::disabled())
        .http_client(http)
        .endpoint_url(aws.tls_url().unwrap())
        .build();
    aws_sdk_kinesis::Client::from_conf(config)
}

/// The protocol that is settled on under a name of the certificate.
async fn settled(aws: &LocalAws, name: &str, offered: &[&str]) -> Option<Vec<u8>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(aws.certificate().unwrap().as_bytes()).unwrap()).unwrap();
    let ring = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(ring).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = offered.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let url = aws.tls_url().unwrap();
    let port: u16 = url.rsplit(':').next().unwrap().parse().unwrap();
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec)
}

#[tokio::test]
async fn the_certificate_is_good_for_both_names_and_both_protocols() {
    let aws = LocalAws::builder().tls_port(0).start().await.unwrap();
    for name in ["localhost", "127.0.0.1"] {
        assert_eq!(settled(&aws, name, &["h2", "http/1.1"]).await.as_deref(), Some(&b"h2"[..]));
        assert_eq!(settled(&aws, name, &["http/1.1"]).await.as_deref(), Some(&b"http/1.1"[..]));
    }
}

#[tokio::test]
async fn the_sdk_speaks_to_kinesis_under_tls() {
    let aws = LocalAws::builder().stream("flights", 1).tls_port(0).start().await.unwrap();
    let client = secured_client(&aws);
    assert_eq!(client.list_streams().send().await.unwrap().stream_names(), ["flights"]);
    for fault in [Fault::on_any().reset(), Fault::on_any().lose_reply(), Fault::on_any().half_body()] {
        aws.faults().add(fault.times(1));
        let error = client.list_streams().send().await.unwrap_err();
        assert!(error.as_service_error().is_none(), "{error:?}");
    }
    client.list_streams().send().await.unwrap();
}

#[tokio::test]
async fn without_a_port_for_it_there_is_no_tls() {
    let aws = LocalAws::start().await.unwrap();
    assert_eq!((aws.tls_url(), aws.certificate()), (None, None));
}

#[tokio::test]
async fn http_2_is_understood_without_tls_and_without_asking() {
    let aws = LocalAws::builder().stream("flights", 1).start().await.unwrap();
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let call = |url: String, target: &str| {
        let request = Request::post(url)
            .header("content-type", "application/x-amz-json-1.0")
            .header("authorization", "AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=c, Signature=d")
            .header("x-amz-date", "today")
            .header("x-amz-target", target);
        client.request(request.body(Full::from("{}")).unwrap())
    };
    for (url, target, word) in [
        (aws.kinesis_url(), "Kinesis_20131202.ListStreams", "flights"),
        (aws.dynamodb_url(), "DynamoDB_20120810.ListTables", "TableNames"),
    ] {
        let reply = call(url.clone(), target).await.unwrap();
        assert_eq!((reply.version(), reply.status().as_u16()), (Version::HTTP_2, 200));
        let body = reply.into_body().collect().await.unwrap().to_bytes();
        assert!(std::str::from_utf8(&body).unwrap().contains(word), "{body:?}");
        // A lost reply ends the call, a reset the connection.
        for fault in [Fault::on_any().lose_reply(), Fault::on_any().reset()] {
            aws.faults().add(fault.times(1));
            assert!(call(url.clone(), target).await.is_err());
        }
        assert_eq!(call(url, target).await.unwrap().status().as_u16(), 200);
    }
}
