//! Both services under TLS on one port.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::{Request, Response};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

use super::TARGET;
use super::body::{Body, Cut};
use super::dynamodb::{DynamoDb, TARGET_PREFIXES};
use super::kinesis::KinesisWire;
use super::transport::{Connection, Handle};

/// The names that the certificate is for.
const NAMES: [&str; 2] = ["localhost", "127.0.0.1"];

/// A certificate of our own making, with what it takes to greet clients with it.
pub(crate) struct Certificate {
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) pem: String,
}

impl Certificate {
    /// A new key and the certificate for it, which vouches for itself.
    ///
    /// # Errors
    /// What went wrong, in words.
    pub(crate) fn new() -> Result<Self, String> {
        let made = rcgen::generate_simple_self_signed(NAMES.map(str::to_owned))
            .map_err(|error| error.to_string())?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.into())
            .map_err(|error| error.to_string())?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), pem: made.cert.pem() })
    }
}

/// Both services, told apart by the operation that a request names.
#[derive(Debug, Clone)]
pub(crate) struct BothWires {
    pub(crate) kinesis: KinesisWire,
    pub(crate) dynamodb: DynamoDb,
}

impl Handle for BothWires {
    async fn handle(self, request: Request<Incoming>, connection: Connection) -> Result<Response<Body>, Cut> {
        let target = request.headers().get(TARGET).and_then(|target| target.to_str().ok());
        let target = target.unwrap_or_default();
        match TARGET_PREFIXES.iter().any(|prefix| target.starts_with(prefix)) {
            true => self.dynamodb.handle(request, connection).await,
            false => self.kinesis.handle(request, connection).await,
        }
    }
}
