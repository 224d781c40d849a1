//! Listening sockets of a worker.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
#[cfg(unix)]
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
#[cfg(unix)]
use std::os::unix::net::UnixListener;
#[cfg(unix)]
use std::path::PathBuf;

use crate::{Endpoint, Link, TransportError};

/// A socket that accepts connections.
#[derive(Debug)]
pub enum Listener {
    /// A TCP socket.
    Tcp(TcpListener),
    #[cfg(unix)]
    /// A unix socket, whose file is removed when it closes.
    Unix {
        /// The socket.
        listener: UnixListener,
        /// Its file.
        path: PathBuf,
    },
}

/// Makes room for more connections that wait to be accepted than the standard library does (128). If the queue is full, the system
/// drops the request, and the client repeats it only after a second.
#[cfg(unix)]
fn lengthen_queue(listener: &TcpListener) {
    const WAITING: libc::c_int = 4096;
    // SAFETY: takes an open descriptor and a number. On failure the shorter queue stays.
    unsafe { libc::listen(listener.as_raw_fd(), WAITING) };
}

impl Listener {
    /// Listens. For a TLS endpoint this is the plain TCP socket. Replaces a stale unix socket, but not a live one.
    pub fn bind(endpoint: &Endpoint) -> Result<Listener, TransportError> {
        let failed = |source| TransportError::Listen { endpoint: endpoint.to_string(), source };
        match endpoint {
            Endpoint::Tcp { host, port } | Endpoint::Tls { host, port } => {
                let addresses: Vec<SocketAddr> = (host.as_str(), *port)
                    .to_socket_addrs()
                    .map_err(|source| TransportError::Resolve { host: host.clone(), source })?
                    .collect();
                let listener = TcpListener::bind(addresses.as_slice()).map_err(failed)?;
                #[cfg(unix)]
                lengthen_queue(&listener);
                Ok(Listener::Tcp(listener))
            }
            #[cfg(unix)]
            Endpoint::Unix { path } => {
                if std::os::unix::net::UnixStream::connect(path)
                    .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
                {
                    std::fs::remove_file(path).map_err(failed)?;
                }
                let listener = UnixListener::bind(path).map_err(failed)?;
                Ok(Listener::Unix { listener, path: path.clone() })
            }
            #[cfg(not(unix))]
            Endpoint::Unix { .. } => Err(failed(io::ErrorKind::Unsupported.into())),
        }
    }

    /// A socket that another process bound to `endpoint`.
    #[cfg(unix)]
    pub fn from_fd(endpoint: &Endpoint, socket: OwnedFd) -> Listener {
        match endpoint {
            Endpoint::Tcp { .. } | Endpoint::Tls { .. } => Listener::Tcp(socket.into()),
            Endpoint::Unix { path } => Listener::Unix { listener: socket.into(), path: path.clone() },
        }
    }

    /// Waits for a connection. The second value describes the peer, for logs.
    pub fn accept(&self) -> io::Result<(Link, String)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, address) = listener.accept()?;
                Ok((Link::from_tcp(stream)?, address.to_string()))
            }
            #[cfg(unix)]
            Listener::Unix { listener, path } => {
                let (stream, _) = listener.accept()?;
                Ok((Link::from_unix(stream), format!("unix:{}", path.display())))
            }
        }
    }

    /// Returns the bound address, with the actual port if the system chose it.
    pub fn endpoint(&self) -> io::Result<Endpoint> {
        match self {
            Listener::Tcp(listener) => {
                let address = listener.local_addr()?;
                Ok(Endpoint::tcp(address.ip().to_string(), address.port()))
            }
            #[cfg(unix)]
            Listener::Unix { path, .. } => Ok(Endpoint::Unix { path: path.clone() }),
        }
    }

    /// Whether only this machine can reach the address.
    pub fn is_local(&self) -> bool {
        match self {
            Listener::Tcp(listener) => listener.local_addr().is_ok_and(|address| address.ip().is_loopback()),
            #[cfg(unix)]
            Listener::Unix { .. } => true,
        }
    }

    /// Number of the socket's descriptor.
    #[cfg(unix)]
    pub fn raw_fd(&self) -> RawFd {
        match self {
            Listener::Tcp(listener) => listener.as_raw_fd(),
            Listener::Unix { listener, .. } => listener.as_raw_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Listener::Unix { path, .. } = self {
            // A failure is ignored: the file may be gone already.
            let _ = std::fs::remove_file(path);
        }
    }
}
