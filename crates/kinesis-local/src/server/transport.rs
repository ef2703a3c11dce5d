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
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
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
/// How long a connection may wait for a client: for the head of a request, the first as well as the next, for its body,
/// and for TLS. More than clients keep idle connections, which are 90 seconds at most, so that they are the first to
/// close.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);
/// How long to wait when the system has no socket to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a call can do to the connection that it came by.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    reset: Arc<AtomicBool>,
    /// Whether something went over it since it was last looked at.
    busy: Arc<AtomicBool>,
    stopped: watch::Receiver<()>,
}

impl Connection {
    /// Resets the connection under all of its calls. The call that wants it ends with the [`Cut`].
    pub(crate) fn reset(&self) -> Cut {
        self.reset.store(true, Ordering::Relaxed);
        Cut
    }

    /// Waits until nothing has gone over the connection for a time, and no call runs on it. hyper has a timeout for
    /// the head of a request in HTTP/1 alone, which begins when it has seen which version the client speaks.
    async fn idle(&self) {
        // Each call holds the connection to its end. So do, without a call, the wire, the service and who waits here.
        const WITHOUT_CALL: usize = 3;
        loop {
            self.busy.store(false, Ordering::Relaxed);
            tokio::time::sleep(PATIENCE).await;
            let runs = Arc::strong_count(&self.reset) > WITHOUT_CALL;
            if !runs && !self.busy.load(Ordering::Relaxed) {
                return;
            }
        }
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
                        Connection { reset: Arc::default(), busy: Arc::default(), stopped: stopped.clone() };
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
    let wire = Wire { stream, reset: connection.reset.clone(), busy: connection.busy.clone() };
    let Some(tls) = tls else { return speak(wire, handler, connection, watcher).await };
    let greeted = tokio::select! {
        greeted = tokio::time::timeout(PATIENCE, tls.accept(wire)) => greeted,
        () = connection.stopped() => return,
    };
    match greeted.unwrap_or_else(|slow| Err(slow.into())) {
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
    let calls = connection.clone();
    let service = service_fn(move |request| handler.clone().handle(request, calls.clone()));
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    server.http2().max_concurrent_streams(MAX_STREAMS);
    let conversation = watcher.watch(server.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        ended = conversation => {
            if let Err(error) = ended {
                tracing::debug!(error, "a connection ended early");
            }
        }
        () = connection.idle() => tracing::debug!("a connection is closed, as nothing comes"),
    }
}

/// A socket that can be reset, which hyper cannot be asked for.
struct Wire {
    stream: TcpStream,
    reset: Arc<AtomicBool>,
    busy: Arc<AtomicBool>,
}

impl Wire {
    fn check(&self) -> io::Result<()> {
        match self.reset.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::ConnectionReset.into()),
            false => Ok(()),
        }
    }
}

impl Wire {
    fn note(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.busy.store(true, Ordering::Relaxed);
        }
        written
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
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.busy.store(true, Ordering::Relaxed);
        }
        read
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.note(written)
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use hyper::Version;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::body::whole;
    use super::*;

    /// Serves a path at once, and another never.
    #[derive(Clone)]
    struct Clerk;

    impl Handle for Clerk {
        async fn handle(
            self,
            request: Request<Incoming>,
            connection: Connection,
        ) -> Result<Response<Body>, Cut> {
            if request.uri().path() == "/never" {
                connection.stopped().await;
            }
            assert_eq!(request.version(), Version::HTTP_11);
            Ok(Response::new(whole(Bytes::new())))
        }
    }

    /// What comes until the end, if there is an end within an hour, of a connection that says this.
    async fn heard(said: &str, tls: Option<TlsAcceptor>) -> Option<String> {
        let (_stop, stopped) = watch::channel(());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(serve(listener, tls, Clerk, stopped));
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(said.as_bytes()).await.unwrap();
        let mut reply = String::new();
        let ended = tokio::time::timeout(Duration::from_secs(3_600), stream.read_to_string(&mut reply)).await;
        server.abort();
        ended.is_ok().then_some(reply)
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_on_which_nothing_comes_gives_up_its_place() {
        for said in ["", "GET / HT", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
            assert!(heard(said, None).await.is_some(), "{said:?}");
        }
        let certificate = crate::server::Certificate::new().unwrap();
        assert!(heard("", Some(certificate.acceptor)).await.is_some());
        let reply = heard("GET / HTTP/1.1\r\nHost: a\r\n\r\n", None).await.unwrap();
        assert!(reply.starts_with("HTTP/1.1 200 OK"), "{reply}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_with_a_call_that_runs_keeps_its_place() {
        assert_eq!(heard("GET /never HTTP/1.1\r\nHost: a\r\n\r\n", None).await, None);
    }
}
