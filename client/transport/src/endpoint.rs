//! Address of a worker in its textual forms.

use std::fmt;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use crate::{Link, TransportError};

/// Default port of a worker.
pub const DEFAULT_PORT: u16 = 18515;

/// The address of a worker: `host:port`, `tls://host:port` or `unix:/path`.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum Endpoint {
    /// Plain TCP.
    Tcp {
        /// Name or address of the machine.
        host: String,
        /// Port number.
        port: u16,
    },
    /// TLS over TCP.
    Tls {
        /// Name or address of the machine, which the certificate must have.
        host: String,
        /// Port number.
        port: u16,
    },
    /// A unix socket.
    Unix {
        /// Path of the socket.
        path: PathBuf,
    },
}

impl Endpoint {
    /// A plain TCP endpoint.
    pub fn tcp(host: impl Into<String>, port: u16) -> Endpoint {
        Endpoint::Tcp { host: host.into(), port }
    }

    /// Connects the socket only; [`crate::tls::connect`] adds TLS.
    pub fn connect(&self, timeout: Duration) -> Result<Link, TransportError> {
        let failed = |source| TransportError::Connect { endpoint: self.to_string(), source };
        let (host, port) = match self {
            Endpoint::Unix { path } => {
                #[cfg(unix)]
                return Ok(Link::from_unix(std::os::unix::net::UnixStream::connect(path).map_err(failed)?));
                #[cfg(not(unix))]
                return Err(failed(std::io::Error::new(
                    std::io::ErrorKind::Unsupported,
                    format!("unix sockets such as {} exist on Linux only; use host:port", path.display()),
                )));
            }
            Endpoint::Tcp { host, port } | Endpoint::Tls { host, port } => (host, *port),
        };
        let deadline = Instant::now() + timeout;
        let addresses = (host.as_str(), port)
            .to_socket_addrs()
            .map_err(|source| TransportError::Resolve { host: host.clone(), source })?;
        let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the host name has no address");
        for address in addresses {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                last = std::io::ErrorKind::TimedOut.into();
                break;
            }
            match TcpStream::connect_timeout(&address, left) {
                Ok(stream) => return Link::from_tcp(stream).map_err(failed),
                Err(error) => last = error,
            }
        }
        Err(failed(last))
    }
}

impl FromStr for Endpoint {
    type Err = TransportError;

    fn from_str(text: &str) -> Result<Endpoint, TransportError> {
        let wrong = |problem| TransportError::Endpoint { text: text.to_owned(), problem };
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err(wrong("the path is empty"));
            }
            return Ok(Endpoint::Unix { path: path.into() });
        }
        let (tls, rest) = match text.split_once("://") {
            Some(("tls", rest)) => (true, rest),
            Some(("tcp", rest)) => (false, rest),
            Some(_) => return Err(wrong("the scheme must be tcp, tls or unix")),
            None => (false, text),
        };
        let (host, port) = if let Some(bracketed) = rest.strip_prefix('[') {
            let (host, after) = bracketed.split_once(']').ok_or(wrong("a bracket is not closed"))?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err(wrong("the text after the bracket is not a port")),
            }
        } else {
            match rest.split_once(':') {
                // More than one colon: an IPv6 address without brackets, hence without a port.
                Some((_, port)) if port.contains(':') => (rest, None),
                Some((host, port)) => (host, Some(port)),
                None => (rest, None),
            }
        };
        if host.is_empty() {
            return Err(wrong("the host is empty"));
        }
        let port = match port {
            Some(port) => port.parse().map_err(|_| wrong("the port is not a number up to 65535"))?,
            None => DEFAULT_PORT,
        };
        let host = host.to_owned();
        Ok(if tls { Endpoint::Tls { host, port } } else { Endpoint::Tcp { host, port } })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Endpoint::Tcp { host, port } => write!(f, "{host}:{port}"),
            Endpoint::Tls { host, port } if host.contains(':') => write!(f, "tls://[{host}]:{port}"),
            Endpoint::Tls { host, port } => write!(f, "tls://{host}:{port}"),
            Endpoint::Unix { path } => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_of_writing_an_endpoint_is_understood_and_shown_the_same() {
        for (text, shown) in [
            ("gpu7", "gpu7:18515"),
            ("gpu7:99", "gpu7:99"),
            ("tcp://10.0.0.1:1", "10.0.0.1:1"),
            ("tls://gpu7", "tls://gpu7:18515"),
            ("::1", "[::1]:18515"),
            ("tls://[fe80::1]:7", "tls://[fe80::1]:7"),
            ("unix:/run/remora", "unix:/run/remora"),
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!(endpoint.to_string(), shown);
            assert_eq!(endpoint.to_string().parse::<Endpoint>().unwrap(), endpoint);
        }
    }

    #[test]
    fn invalid_endpoints_are_refused() {
        for text in ["", ":1", "http://x", "a:b", "a:70000", "[::1", "[::1]x", "unix:", "tls://"] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }
}
