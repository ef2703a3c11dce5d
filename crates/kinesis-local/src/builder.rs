//! What to start, and why it did not.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::faults::{Fault, FaultError, FaultSet, Faults};
use crate::journal::Journal;
use crate::local::{LocalAws, create_stream};
use crate::model::{Kinesis, KinesisError, Settings};
use crate::server::{self, BothWires, Certificate, DynamoDb, KinesisWire, Shared};

/// Why the services did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Another process listens there.
    #[error(
        "port {port} for {service} is taken: stop what listens there, or choose another port (0 for any)"
    )]
    PortTaken {
        /// The service, `Kinesis`, `DynamoDB` or `TLS`.
        service: &'static str,
        /// The port.
        port: u16,
    },
    /// The system does not let us listen.
    #[error("cannot listen on port {port} of {host} for {service}")]
    Listen {
        /// The service, `Kinesis`, `DynamoDB` or `TLS`.
        service: &'static str,
        /// The port.
        port: u16,
        /// The address of this machine.
        host: IpAddr,
        /// What the system says.
        source: io::Error,
    },
    /// No certificate can be made for TLS.
    #[error("cannot make a certificate for TLS: {0}")]
    Certificate(String),
    /// The directory to keep things in cannot be used.
    #[error("cannot keep Kinesis in a directory")]
    Data(#[from] io::Error),
    /// What was kept does not fit.
    #[error("cannot bring back what was kept of Kinesis: {0}")]
    Past(String),
    /// DynamoDB's store does not open.
    #[error("cannot open DynamoDB's store: {0}")]
    Store(String),
    /// A fault of the builder could never strike.
    #[error("cannot set a fault")]
    Fault(#[from] FaultError),
    /// A stream of the builder cannot be created.
    #[error("cannot create the stream {name:?}")]
    Stream {
        /// Its name.
        name: String,
        /// Why not.
        source: KinesisError,
    },
}

/// What to start. Made by [`LocalAws::builder`].
pub struct Builder {
    host: IpAddr,
    kinesis_port: u16,
    dynamodb_port: u16,
    tls_port: Option<u16>,
    data: Option<PathBuf>,
    faults: Vec<Fault>,
    seed: u64,
    streams: Vec<(String, u32)>,
    settings: Settings,
    clock: Box<dyn Fn() -> SystemTime + Send + Sync>,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("host", &self.host)
            .field("kinesis_port", &self.kinesis_port)
            .field("dynamodb_port", &self.dynamodb_port)
            .field("tls_port", &self.tls_port)
            .field("data", &self.data)
            .field("faults", &self.faults)
            .field("seed", &self.seed)
            .field("streams", &self.streams)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            host: Ipv4Addr::LOCALHOST.into(),
            kinesis_port: 0,
            dynamodb_port: 0,
            tls_port: None,
            data: None,
            faults: Vec::new(),
            seed: 0,
            streams: Vec::new(),
            settings: Settings::default(),
            clock: Box::new(SystemTime::now),
        }
    }

    /// The address of this machine to listen on. By default 127.0.0.1. On any other, all who can reach this
    /// machine can reach the services, which let anybody in.
    pub fn host(mut self, host: IpAddr) -> Self {
        self.host = host;
        self
    }

    /// The port of Kinesis. By default 0: any that is free.
    pub fn kinesis_port(mut self, port: u16) -> Self {
        self.kinesis_port = port;
        self
    }

    /// The port of DynamoDB. By default 0: any that is free.
    pub fn dynamodb_port(mut self, port: u16) -> Self {
        self.dynamodb_port = port;
        self
    }

    /// Also serves both services under TLS, on this one port; 0 for any that is free. The certificate is made
    /// anew at each start, for the names `localhost` and `127.0.0.1`, and is
    /// [there to be trusted](LocalAws::certificate).
    pub fn tls_port(mut self, port: u16) -> Self {
        self.tls_port = Some(port);
        self
    }

    /// A directory, made if need be, to keep all streams and tables in: the next start finds them there. One
    /// process at a time can use it. It outlives a process that is killed, not a power cut; it only grows, and
    /// is emptied by removing it. What [`LocalAws::with_model`] changes is not kept, which may make
    /// what is kept unusable, and neither are faults and counters.
    pub fn data(mut self, directory: impl Into<PathBuf>) -> Self {
        self.data = Some(directory.into());
        self
    }

    /// A fault that is set from the start.
    pub fn fault(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// The seed of all faults that strike by chance. By default 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// A stream that is there from the start, with so many shards. One that is there already, from a directory,
    /// stays as it is.
    pub fn stream(mut self, name: &str, shards: u32) -> Self {
        self.streams.push((name.to_owned(), shards));
        self
    }

    /// How Kinesis shall behave.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// What Kinesis takes for the time. By default the system's clock.
    pub fn clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Box::new(clock);
        self
    }

    /// Starts both services as tasks of the current tokio runtime, of whatever kind. They listen when this
    /// returns.
    ///
    /// # Errors
    /// When a port is taken, a fault could never strike, or a stream cannot be created.
    pub async fn start(self) -> Result<LocalAws, StartError> {
        let (model, faults) = (Kinesis::new(self.settings), FaultSet::new(self.seed));
        let shared = Arc::new(Shared::new(model, self.clock, faults));
        let store = match &self.data {
            None => dynoxide::Database::memory(),
            Some(directory) => {
                shared.remember(Journal::open(directory)?)?;
                dynoxide::Database::new(&directory.join("dynamodb.sqlite").to_string_lossy())
            }
        };
        let store = store.map_err(|error| StartError::Store(error.to_string()))?;
        let kept = shared.stream_names();
        for (name, shards) in self.streams {
            if !kept.contains(&name) {
                create_stream(&shared, &name, shards)
                    .map_err(|source| StartError::Stream { name, source })?;
            }
        }
        let faults = Faults::new(shared.clone());
        for fault in self.faults {
            fault.check()?;
            faults.add(fault);
        }
        let (kinesis, kinesis_address) = listen("Kinesis", self.host, self.kinesis_port).await?;
        let (dynamodb, dynamodb_address) = listen("DynamoDB", self.host, self.dynamodb_port).await?;
        let tls = match self.tls_port {
            Some(port) => {
                let certificate = Certificate::new().map_err(StartError::Certificate)?;
                Some((listen("TLS", self.host, port).await?, certificate))
            }
            None => None,
        };
        // Faults happen in front of this port.
        let (dynoxide, dynoxide_address) = listen("DynamoDB", Ipv4Addr::LOCALHOST.into(), 0).await?;

        let (stop, stopped) = watch::channel(());
        let (stop_dynoxide, dynoxide_stopped) = watch::channel(());
        let dynoxide =
            dynoxide::server::serve_with_shutdown(dynoxide, store, until_dropped(dynoxide_stopped));
        let dynoxide = tokio::spawn(async move {
            if let Err(error) = dynoxide.await {
                tracing::error!(error, "the DynamoDB server ended");
            }
        });
        let wires = BothWires {
            kinesis: KinesisWire(shared.clone()),
            dynamodb: DynamoDb::new(shared.clone(), dynoxide_address),
        };
        let kinesis = server::serve(kinesis, None, wires.kinesis.clone(), stopped.clone());
        let dynamodb = server::serve(dynamodb, None, wires.dynamodb.clone(), stopped.clone());
        let mut addresses = Addresses {
            kinesis: kinesis_address,
            dynamodb: dynamodb_address,
            dynoxide: dynoxide_address,
            tls: None,
        };
        let mut secured = None;
        if let Some(((listener, address), certificate)) = tls {
            secured = Some(server::serve(listener, Some(certificate.acceptor), wires, stopped));
            addresses.tls = Some((address, certificate.pem));
        }
        // dynoxide is the last to go, for the calls that are still running.
        let servers = tokio::spawn(async move {
            let secured = async {
                if let Some(secured) = secured {
                    secured.await;
                }
            };
            tokio::join!(kinesis, dynamodb, secured);
            drop(stop_dynoxide);
        });
        Ok(LocalAws { shared, addresses, stop, tasks: [servers, dynoxide] })
    }
}

/// Where the services are.
#[derive(Debug)]
pub(crate) struct Addresses {
    pub(crate) kinesis: SocketAddr,
    pub(crate) dynamodb: SocketAddr,
    /// Behind the faults.
    pub(crate) dynoxide: SocketAddr,
    /// With the certificate.
    pub(crate) tls: Option<(SocketAddr, String)>,
}

async fn listen(
    service: &'static str,
    host: IpAddr,
    port: u16,
) -> Result<(TcpListener, SocketAddr), StartError> {
    let error = |source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => StartError::PortTaken { service, port },
        _ => StartError::Listen { service, host, port, source },
    };
    let listener = TcpListener::bind((host, port)).await.map_err(error)?;
    let address = listener.local_addr().map_err(error)?;
    Ok((listener, address))
}

async fn until_dropped(mut stopped: watch::Receiver<()>) {
    while stopped.changed().await.is_ok() {}
}
