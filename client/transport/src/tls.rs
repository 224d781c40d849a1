//! TLS over a link, with one thread reading while another writes.
//!
//! Owns the rustls connection of a link and the configuration of both sides. The client trusts either a certificate authority
//! file or one pinned certificate, never an arbitrary one.

use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, RootCertStore, ServerConfig,
    ServerConnection, SignatureScheme,
};
use sha2::{Digest, Sha256};

use crate::link::Wait;
use crate::os::socket::Socket;
use crate::{Link, TransportError};

/// Limit on ciphertext buffered for a socket that is full.
const BUFFER_LIMIT: usize = 256 << 10;

/// What a client trusts.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Trust {
    /// Certificates signed by one in this PEM file, which may be the worker's own certificate.
    Authority(std::path::PathBuf),
    /// Only the certificate with this SHA-256.
    Fingerprint([u8; 32]),
}

impl Trust {
    /// Parses `sha256:` and 64 hexadecimal digits (colons allowed), or the path of a PEM file.
    pub fn parse(text: &str) -> Option<Trust> {
        let Some(digits) = text.strip_prefix("sha256:") else { return Some(Trust::Authority(text.into())) };
        let digits: Vec<u8> = digits.bytes().filter(|&byte| byte != b':').collect();
        let mut hash = [0; 32];
        if digits.len() != 64 {
            return None;
        }
        for (byte, pair) in hash.iter_mut().zip(digits.chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Trust::Fingerprint(hash))
    }
}

impl fmt::Display for Trust {
    /// Prints the form that [`Trust::parse`] takes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trust::Authority(path) => write!(f, "{}", path.display()),
            Trust::Fingerprint(hash) => {
                f.write_str("sha256:")?;
                hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

/// A certificate and its private key.
#[derive(Debug)]
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    /// Reads a certificate chain and its private key, both in PEM.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Identity, TransportError> {
        let chain = read_certificates("the certificate file", certificate)?;
        let key_bytes = read("the key file", key)?;
        let key = PrivateKeyDer::from_pem_slice(&key_bytes)
            .map_err(|error| unusable("the key file", key, error.to_string()))?;
        Ok(Identity { chain, key })
    }

    /// Creates a self-signed certificate; clients pin its fingerprint.
    pub fn self_signed(names: &[String]) -> Result<Identity, TransportError> {
        let certified = rcgen::generate_simple_self_signed(names)?;
        let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der())
            .map_err(|error| rustls::Error::General(error.to_owned()))?;
        Ok(Identity { chain: vec![certified.cert.der().clone()], key })
    }

    /// Creates a self-signed certificate for storage: the PEM text of the certificate, and of its key.
    pub fn self_signed_pem(names: &[String]) -> Result<(String, String), TransportError> {
        let certified = rcgen::generate_simple_self_signed(names)?;
        Ok((certified.cert.pem(), certified.signing_key.serialize_pem()))
    }

    /// Returns the SHA-256 of the certificate, as a client pins it.
    pub fn fingerprint(&self) -> [u8; 32] {
        self.chain.first().map(fingerprint).unwrap_or_default()
    }

    /// Returns the fingerprint in the form that [`Trust::parse`] takes.
    pub fn fingerprint_text(&self) -> String {
        Trust::Fingerprint(self.fingerprint()).to_string()
    }

    /// Builds the TLS configuration of a worker.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, TransportError> {
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(self.chain.clone(), self.key.clone_key())?;
        Ok(Arc::new(config))
    }
}

/// Builds the TLS configuration of a client.
pub fn client_config(trust: &Trust) -> Result<Arc<ClientConfig>, TransportError> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let config = match trust {
        Trust::Authority(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in read_certificates("the certificate authority file", path)? {
                roots.add(certificate)?;
            }
            builder.with_root_certificates(roots).with_no_client_auth()
        }
        Trust::Fingerprint(expected) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Pinned { expected: *expected, provider: provider() }))
            .with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

/// Performs the TLS handshake on a connected link, as the client. It must complete within `timeout`.
pub fn connect(
    link: Link,
    host: &str,
    config: Arc<ClientConfig>,
    timeout: Duration,
) -> Result<Link, TransportError> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| rustls::Error::General(format!("{host} is not a valid TLS server name: {error}")))?;
    shake(link, ClientConnection::new(config, name)?.into(), timeout).map_err(explain)
}

/// Performs the TLS handshake on an accepted link, as the worker.
pub fn accept(link: Link, config: Arc<ServerConfig>, timeout: Duration) -> Result<Link, TransportError> {
    shake(link, ServerConnection::new(config)?.into(), timeout)
}

fn shake(link: Link, mut connection: Connection, timeout: Duration) -> Result<Link, TransportError> {
    link.set_read_timeout(Some(timeout))?;
    link.set_write_timeout(Some(timeout))?;
    connection.set_buffer_limit(Some(BUFFER_LIMIT));
    // `timeout` limits the whole handshake, however slowly its bytes arrive.
    let deadline = Instant::now() + timeout;
    while connection.is_handshaking() {
        while connection.wants_write() {
            connection.write_tls(&mut &link)?;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::from(io::ErrorKind::TimedOut).into());
        }
        link.set_read_timeout(Some(left))?;
        if connection.is_handshaking() && connection.read_tls(&mut &link)? == 0 {
            return Err(TransportError::Closed);
        }
        if let Err(error) = connection.process_new_packets() {
            // Sends the alert that reports the error to the peer.
            let _ = connection.write_tls(&mut &link);
            return Err(error.into());
        }
    }
    while connection.wants_write() {
        connection.write_tls(&mut &link)?;
    }
    link.set_read_timeout(None)?;
    link.set_write_timeout(None)?;
    Ok(link.with_tls(Session::new(connection))?)
}

/// Converts errors of a failed handshake for which rustls has only a code to ones that name the cause.
fn explain(error: TransportError) -> TransportError {
    let TransportError::Tls(error) = error else { return error };
    match error {
        rustls::Error::InvalidCertificate(rustls::CertificateError::Other(other)) => {
            match other.0.downcast_ref::<WrongPin>() {
                Some(pin) => TransportError::Pin { expected: hex(&pin.expected), found: hex(&pin.found) },
                None => TransportError::Distrusted(rustls::CertificateError::Other(other)),
            }
        }
        rustls::Error::InvalidCertificate(problem) => TransportError::Distrusted(problem),
        rustls::Error::InvalidMessage(_) => TransportError::NotTls,
        other => TransportError::Tls(other),
    }
}

/// The certificate is not the pinned one.
#[derive(Debug, thiserror::Error)]
#[error("the certificate is not the pinned one")]
struct WrongPin {
    expected: [u8; 32],
    found: [u8; 32],
}

/// TLS state of a link. Separate locks, so that a reader waiting for the socket never blocks a writer: `connection` is held only
/// for work in memory, `ciphertext` by the one thread that writes the socket.
#[derive(Debug)]
pub(crate) struct Session {
    connection: Mutex<Connection>,
    ciphertext: Mutex<Outgoing>,
    incoming: Mutex<Incoming>,
}

/// Ciphertext read from the socket, and the part that rustls has not consumed yet.
#[derive(Debug)]
struct Incoming {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

#[derive(Debug, Default)]
struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
}

impl Session {
    fn new(connection: Connection) -> Session {
        Session {
            connection: Mutex::new(connection),
            ciphertext: Mutex::default(),
            incoming: Mutex::new(Incoming { bytes: vec![0; 64 << 10].into_boxed_slice(), start: 0, end: 0 }),
        }
    }

    /// Whether a read would find bytes without reading the socket. Bytes that another reader is just processing do not count:
    /// they belong to that reader.
    pub(crate) fn has_plaintext(&self) -> bool {
        if self.incoming.try_lock().is_some_and(|incoming| incoming.start < incoming.end) {
            return true;
        }
        let mut connection = self.connection.lock();
        connection.process_new_packets().is_ok_and(|state| state.plaintext_bytes_to_read() > 0)
    }

    pub(crate) fn read(&self, socket: &Socket, buffer: &mut [u8], wait: Wait) -> io::Result<usize> {
        let mut incoming = self.incoming.lock();
        loop {
            let mut connection = self.connection.lock();
            match connection.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A peer that closes without close_notify ends the stream like any other: frames carry their lengths, so
                // truncation cannot go unnoticed.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                result => return result,
            }
            if incoming.start == incoming.end {
                drop(connection);
                // Both are reset before a read that may fail: stale bytes must not be taken for new ones.
                (incoming.start, incoming.end) = (0, 0);
                incoming.end = socket.receive(&mut incoming.bytes, wait)?;
                connection = self.connection.lock();
            }
            // rustls consumes no more ciphertext at a time than a record's worth of plaintext; the rest waits.
            let (start, end) = (incoming.start, incoming.end);
            incoming.start += connection.read_tls(&mut &incoming.bytes[start..end])?;
            connection.process_new_packets().map_err(io::Error::other)?;
            if connection.wants_write() {
                drop(connection);
                // A reply of the TLS protocol itself. If a writer holds the lock, it sends the reply with its own bytes.
                if let Some(mut outgoing) = self.ciphertext.try_lock() {
                    self.collect(&mut outgoing)?;
                    outgoing.flush(socket, Wait::Never)?;
                }
            }
        }
    }

    pub(crate) fn write(&self, socket: &Socket, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut outgoing = self.ciphertext.lock();
        outgoing.flush(socket, Wait::Forever)?;
        let taken = self.take(&mut outgoing, slices)?;
        outgoing.flush(socket, Wait::Forever)?;
        Ok(taken)
    }

    pub(crate) fn try_write(&self, socket: &Socket, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut outgoing = self.ciphertext.lock();
        if !outgoing.flush(socket, Wait::Never)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = self.take(&mut outgoing, slices)?;
        outgoing.flush(socket, Wait::Never)?;
        Ok(taken)
    }

    pub(crate) fn try_flush(&self, socket: &Socket) -> io::Result<bool> {
        let mut outgoing = self.ciphertext.lock();
        self.collect(&mut outgoing)?;
        outgoing.flush(socket, Wait::Never)
    }

    fn take(&self, outgoing: &mut Outgoing, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut connection = self.connection.lock();
        let taken = connection.writer().write_vectored(slices)?;
        while connection.wants_write() {
            connection.write_tls(&mut outgoing.bytes)?;
        }
        Ok(taken)
    }

    fn collect(&self, outgoing: &mut Outgoing) -> io::Result<()> {
        let mut connection = self.connection.lock();
        while connection.wants_write() {
            connection.write_tls(&mut outgoing.bytes)?;
        }
        Ok(())
    }
}

impl Outgoing {
    /// Sends the buffered ciphertext; returns false if the socket took only part of it, which happens only without blocking.
    fn flush(&mut self, socket: &Socket, wait: Wait) -> io::Result<bool> {
        while self.sent < self.bytes.len() {
            match socket.send(&[IoSlice::new(&self.bytes[self.sent..])], wait) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if wait == Wait::Never && error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        self.bytes.clear();
        self.sent = 0;
        Ok(true)
    }
}

/// Accepts exactly one certificate, whatever its name or dates.
#[derive(Debug)]
struct Pinned {
    expected: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let found = fingerprint(certificate);
        if found == self.expected {
            return Ok(ServerCertVerified::assertion());
        }
        let wrong = WrongPin { expected: self.expected, found };
        Err(rustls::CertificateError::Other(rustls::OtherError(Arc::new(wrong))).into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn hex(bytes: &[u8; 32]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn fingerprint(certificate: &CertificateDer<'_>) -> [u8; 32] {
    Sha256::digest(certificate.as_ref()).into()
}

fn read(what: &'static str, path: &Path) -> Result<Vec<u8>, TransportError> {
    std::fs::read(path).map_err(|source| TransportError::File { what, path: path.to_owned(), source })
}

fn read_certificates(
    what: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TransportError> {
    let bytes = read(what, path)?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&bytes)
        .collect::<Result<_, _>>()
        .map_err(|error| unusable(what, path, error.to_string()))?;
    if certificates.is_empty() {
        return Err(unusable(what, path, "it contains no certificate".to_owned()));
    }
    Ok(certificates)
}

fn unusable(what: &'static str, path: &Path, problem: String) -> TransportError {
    TransportError::Pem { what, path: path.to_owned(), problem }
}
