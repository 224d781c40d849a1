//! Transport errors, with messages that say what was tried and what to do.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum TransportError {
    #[error("\"{text}\" is not a worker address: {problem}")]
    Endpoint { text: String, problem: &'static str },
    #[error("cannot resolve {host}")]
    Resolve { host: String, source: io::Error },
    #[error("cannot connect to {endpoint}")]
    Connect { endpoint: String, source: io::Error },
    #[error("cannot listen on {endpoint}")]
    Listen { endpoint: String, source: io::Error },
    #[error("{what} {} cannot be read", path.display())]
    File { what: &'static str, path: PathBuf, source: io::Error },
    #[error("{what} {} is unusable: {problem}", path.display())]
    Pem { what: &'static str, path: PathBuf, problem: String },
    #[error("TLS with {endpoint} needs a certificate authority file or a certificate fingerprint to trust")]
    NoTrust { endpoint: String },
    #[error("TLS failed: {0}")]
    Tls(#[from] rustls::Error),
    #[error(
        "the certificate is sha256:{found}, but sha256:{expected} is pinned: if the worker got a new certificate (--tls-self-signed makes \
         one at every start), compare with the fingerprint it logged and set REMORA_TLS_CA; if not, another machine answers in its place"
    )]
    Pin { expected: String, found: String },
    #[error(
        "the certificate is not signed by the authority in REMORA_TLS_CA, or is for another host name ({0}): set REMORA_TLS_CA to the \
         worker's authority file, or to the sha256: fingerprint that the worker logged"
    )]
    Distrusted(rustls::CertificateError),
    #[error(
        "the server does not speak TLS: use HOST:PORT without tls:// if it is a worker without TLS, or start the worker with \
         --tls-self-signed or --tls-cert"
    )]
    NotTls,
    #[error(
        "the server speaks TLS: give the worker's address as tls://HOST:PORT and set REMORA_TLS_CA to the fingerprint it logged"
    )]
    SpeaksTls,
    #[error("cannot create a certificate")]
    Certificate(#[from] rcgen::Error),
    #[error("the connection failed")]
    Io(#[from] io::Error),
    #[error("the peer closed the connection during the handshake")]
    Closed,
    #[error(transparent)]
    Wire(#[from] wire::WireError),
}

impl TransportError {
    /// Returns the message with all its causes on one line.
    pub fn line(&self) -> String {
        let mut line = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            line.push_str(": ");
            line.push_str(&error.to_string());
            cause = error.source();
        }
        line
    }
}
