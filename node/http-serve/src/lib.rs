//! HTTP/1.1 over TCP or TLS for the services of this project, with time limits and a bounded number of connections.
//!
//! `axum::serve` reads headers and bodies without a time limit and accepts until the process has no descriptors left. This
//! crate drives hyper directly and adds the limits. It handles connections and bytes; routes and access control belong to the router.

#![warn(missing_docs)]

mod body;
mod table;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::body::{Body as _, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;

use crate::body::{Received, Sent};
use crate::table::{Entry, Phase, Table};

/// Connections that may wait to be accepted; the kernel lowers it to its own limit. A client whose connection finds the queue
/// full tries again after a second, so the queue has to hold more than a crowd that connects while the server is busy.
const BACKLOG: u32 = 4096;
/// Pause after a failed accept, which is nearly always a lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// Time a connection gets for its current request when the server stops.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Limits of a server. The defaults suit an API without uploads that take minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Time for the TLS handshake, for the headers of a request, and for a kept connection to send its next request.
    pub header: Duration,
    /// Time for the whole body of a request.
    pub body: Duration,
    /// Time the peer may leave sent data unacknowledged, or its receive window closed.
    pub write: Duration,
    /// Most open connections. The server never uses more than half of the process's file descriptors, even if this is larger.
    pub connections: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            header: Duration::from_secs(10),
            body: Duration::from_secs(30),
            write: Duration::from_secs(60),
            connections: 1024,
        }
    }
}

/// Listens on an address, with a queue that is long enough for a crowd of clients.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restarted server gets its address back while connections of the previous one are in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves the router until `shutdown` completes, with the default limits. With a TLS configuration it serves HTTPS only.
///
/// A streaming response (server-sent events) may last indefinitely. Dropping the returned future closes all connections.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    tls: Option<Arc<rustls::ServerConfig>>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    serve_within(Bounds::default(), listener, router, tls, shutdown).await
}

/// Like [`serve`], but with the given limits.
pub async fn serve_within(
    bounds: Bounds,
    listener: TcpListener,
    router: Router,
    tls: Option<Arc<rustls::ServerConfig>>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let table = Arc::new(Table::new(bounds.connections.min(descriptors() / 2).max(1)));
    let acceptor = tls.map(TlsAcceptor::from);
    let (stop, stopping) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // Removes finished tasks, so that the set does not grow.
            Some(_) = connections.join_next() => continue,
            () = &mut shutdown => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let (entry, evicted) = table.insert(peer.ip());
                let connection = Connection {
                    bounds,
                    router: router.clone(),
                    acceptor: acceptor.clone(),
                    entry: Arc::new(entry),
                    stopping: stopping.clone(),
                };
                connections.spawn(connection.run(stream, peer, evicted));
            }
            Err(error) => {
                tracing::warn!("accept failed: {error}");
                table.evict_one();
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let _ = stop.send(true);
    let all = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(STOP_GRACE, all).await;
    Ok(())
}

/// One accepted connection.
struct Connection {
    bounds: Bounds,
    router: Router,
    acceptor: Option<TlsAcceptor>,
    entry: Arc<Entry>,
    stopping: watch::Receiver<bool>,
}

impl Connection {
    async fn run(self, stream: TcpStream, peer: SocketAddr, evicted: oneshot::Receiver<()>) {
        let done = async {
            prepare(&stream, self.bounds.write);
            match self.acceptor.clone() {
                None => self.converse(stream, peer).await,
                Some(acceptor) => {
                    match tokio::time::timeout(self.bounds.header, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => self.converse(stream, peer).await,
                        Ok(Err(error)) => tracing::debug!("{peer}: TLS handshake failed: {error}"),
                        Err(_) => tracing::debug!("{peer}: TLS handshake timed out"),
                    }
                }
            }
        };
        tokio::select! {
            () = done => {}
            // Dropping the `converse` future closes the socket.
            _ = evicted => {}
        }
    }

    /// Serves HTTP on one connection until the peer, an error, a time limit or the shutdown of the server closes it.
    async fn converse<S>(self, stream: S, peer: SocketAddr)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Connection { bounds, router, entry, mut stopping, .. } = self;
        let service =
            service_fn(move |request| answer(request, peer, router.clone(), Arc::clone(&entry), bounds));
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(bounds.header)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = stopping.wait_for(|stop| *stop) => {}
        }
        connection.as_mut().graceful_shutdown();
        // An error means that the connection is broken, so it cannot be reported to the peer.
        let _ = connection.await;
    }
}

/// Passes one request to the router, with the peer's address as `ConnectInfo`, and records the connection's phase in the table.
async fn answer(
    request: Request<Incoming>,
    peer: SocketAddr,
    mut router: Router,
    entry: Arc<Entry>,
    bounds: Bounds,
) -> Result<Response<Body>, Infallible> {
    if request.body().is_end_stream() {
        entry.set(Phase::Serving);
    }
    let mut request = request.map(|body| Body::new(Received::new(body, bounds.body, Arc::clone(&entry))));
    request.extensions_mut().insert(ConnectInfo(peer));
    // A router is always ready, so `poll_ready` is not needed.
    let response = router.call(request).await?;
    entry.set(Phase::Serving);
    Ok(response.map(|body| Body::new(Sent::new(body, entry))))
}

/// Sets socket options. A failure is ignored: the system's defaults only cost time.
fn prepare(stream: &TcpStream, write: Duration) {
    let _ = stream.set_nodelay(true);
    let milliseconds = libc::c_uint::try_from(write.as_millis()).unwrap_or(libc::c_uint::MAX);
    // SAFETY: the descriptor is open for the lifetime of `stream`, and the value has the size that is passed.
    unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_USER_TIMEOUT,
            (&raw const milliseconds).cast(),
            size_of_val(&milliseconds) as libc::socklen_t,
        );
    }
}

/// Returns how many file descriptors this process may open.
fn descriptors() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `getrlimit` writes to a valid `rlimit` structure.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } {
        0 => usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX),
        _ => 1024,
    }
}
