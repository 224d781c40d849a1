//! Client access to a worker: connecting, authenticating, and requesting its status.

use std::time::Duration;

use transport::{Endpoint, Link, TransportError, greet, tls};
use wire::{Hello, MAX_VERSION, MIN_VERSION, Purpose};
use worker_status::Status;

/// Address and credentials of a worker.
#[derive(Clone, Debug)]
pub struct WorkerAddress {
    /// Where the worker listens.
    pub endpoint: Endpoint,
    /// Token of the worker, if it has one.
    pub token: Option<Vec<u8>>,
    /// Which certificates to trust, for a TLS endpoint.
    pub trust: Option<tls::Trust>,
    /// Limit on the time to connect and on each step of the handshake.
    pub connect_timeout: Duration,
}

/// Error while requesting a worker's status.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum InspectError {
    #[error("no worker answers at {endpoint}")]
    Silent { endpoint: String, source: TransportError },
    #[error("the worker at {endpoint} did not answer")]
    Refused { endpoint: String, source: TransportError },
    #[error("the worker sent an invalid status")]
    InvalidReply(#[from] serde_json::Error),
}

impl WorkerAddress {
    /// Requests the status of the worker.
    pub fn inspect(&self) -> Result<Status, InspectError> {
        let endpoint = || self.endpoint.to_string();
        let link = self.connect().map_err(|source| InspectError::Silent { endpoint: endpoint(), source })?;
        let status = self
            .ask_status(&link)
            .map_err(|source| InspectError::Refused { endpoint: endpoint(), source })?;
        Ok(Status::from_json(&status.text)?)
    }

    /// Connects, with TLS if the endpoint requires it.
    pub(crate) fn connect(&self) -> Result<Link, TransportError> {
        let link = self.endpoint.connect(self.connect_timeout)?;
        let Endpoint::Tls { host, .. } = &self.endpoint else { return Ok(link) };
        let no_trust = || TransportError::NoTrust { endpoint: self.endpoint.to_string() };
        let trust = self.trust.as_ref().ok_or_else(no_trust)?;
        tls::connect(link, host, tls::client_config(trust)?, self.connect_timeout)
    }

    /// Builds the Hello for a purpose.
    pub(crate) fn hello(&self, purpose: Purpose) -> Result<Hello, TransportError> {
        Ok(Hello {
            min_version: MIN_VERSION,
            max_version: MAX_VERSION,
            purpose: purpose as u8,
            client: "remora".to_owned(),
            pid: std::process::id(),
            nonce: greet::nonce()?,
            ..Hello::default()
        })
    }

    pub(crate) fn credentials(&self) -> greet::Credentials<'_> {
        greet::Credentials { token: self.token.as_deref(), secret: None }
    }

    fn ask_status(&self, link: &Link) -> Result<wire::Status, TransportError> {
        let hello = self.hello(Purpose::Inspect)?;
        let timeout = self.connect_timeout;
        greet::greet(link, &hello, &self.credentials(), timeout, timeout * 4)
    }
}
