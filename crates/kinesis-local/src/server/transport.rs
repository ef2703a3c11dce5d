//! Connections: HTTP/1.1 and HTTP/2 on one port, in clear or under TLS, that can also be cut.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::body::{Body, Cut};

/// Subscriptions and calls that one HTTP/2 connection may have at a time.
const MAX_STREAMS: u32 = 1_000;
/// Connections that one port has at a time. Others wait until one of these ends.
const MAX_CONNECTIONS: usize = 2_000;
/// How long to wait when the system has no socket to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a call can do to the connection that it came by.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    reset: Arc<AtomicBool>,
    stopped: watch::Receiver<()>,
}

impl Connection {
    /// Resets the connection under all of its calls. The call that wants it ends with the [`Cut`].
    pub(crate) fn reset(&self) -> Cut {
        self.reset.store(true, Ordering::Relaxed);
        Cut
    }

    /// Waits until the server is told to stop.
    pub(crate) async fn stopped(&self) {
        let mut stopped = self.stopped.clone();
        while stopped.changed().await.is_ok() {}
    }
}

/// Answers a request, or cuts the connection that it came by.
pub(crate) trait Handle: Clone + Send + Sync + 'static {
    /// Does what the request asks for.
    fn handle(
        self,
        request: Request<Incoming>,
        connection: Connection,
    ) -> impl Future<Output = Result<Response<Body>, Cut>> + Send;
}

/// Serves on `listener` until the other end of `stopped` is gone and the calls that were running by then are
/// through.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    handler: impl Handle,
    stopped: watch::Receiver<()>,
) {
    let graceful = GracefulShutdown::new();
    // Connections end with this, at the latest.
    let mut connections = JoinSet::new();
    let mut stop = stopped.clone();
    loop {
        tokio::select! {
            told = stop.changed() => if told.is_err() { break },
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    let connection =
                        Connection { reset: Arc::new(AtomicBool::new(false)), stopped: stopped.clone() };
                    let (tls, handler, watcher) = (tls.clone(), handler.clone(), graceful.watcher());
                    connections.spawn(converse(stream, tls, handler, connection, watcher));
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
    drop(listener);
    graceful.shutdown().await;
}

async fn converse(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    handler: impl Handle,
    connection: Connection,
    watcher: Watcher,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY on a connection");
    }
    let wire = Wire { stream, reset: connection.reset.clone() };
    let Some(tls) = tls else { return speak(wire, handler, connection, watcher).await };
    let greeted = tokio::select! {
        greeted = tls.accept(wire) => greeted,
        () = connection.stopped() => return,
    };
    match greeted {
        Ok(stream) => speak(stream, handler, connection, watcher).await,
        Err(error) => tracing::debug!(%error, "no TLS on a connection"),
    }
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    handler: impl Handle,
    connection: Connection,
    watcher: Watcher,
) {
    let service = service_fn(move |request| handler.clone().handle(request, connection.clone()));
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http2().max_concurrent_streams(MAX_STREAMS);
    let conversation = server.serve_connection(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(conversation).await {
        tracing::debug!(error, "a connection ended early");
    }
}

/// A socket that can be reset, which hyper cannot be asked for.
struct Wire {
    stream: TcpStream,
    reset: Arc<AtomicBool>,
}

impl Wire {
    fn check(&self) -> io::Result<()> {
        match self.reset.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::ConnectionReset.into()),
            false => Ok(()),
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // Closed without lingering, a socket sends RST instead of FIN.
        if self.check().is_err()
            && let Err(error) = self.stream.set_zero_linger()
        {
            tracing::debug!(%error, "a connection is closed instead of reset");
        }
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stream.fmt(f)
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
