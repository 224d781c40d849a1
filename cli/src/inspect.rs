//! Asking a worker how it is.

use anyhow::{Context, Result};
use transport::{Endpoint, Link, greet, tls};
use wire::{Hello, MAX_VERSION, MIN_VERSION, Purpose};
use worker::Status;

use crate::env::Environment;

/// Connects, speaking TLS if the endpoint says so.
pub fn connect(endpoint: &Endpoint, environment: &Environment) -> Result<Link> {
    let timeout = environment.connect_timeout();
    let link = endpoint.connect(timeout).with_context(|| {
        format!("no worker answers at {endpoint}; start one there with `remora worker --listen {endpoint}`")
    })?;
    let Endpoint::Tls { host, .. } = endpoint else { return Ok(link) };
    let trust = environment.trust()?;
    let trust =
        trust.with_context(|| format!("{endpoint} speaks TLS: set REMORA_TLS_CA to say whom to believe"))?;
    Ok(tls::connect(link, host, tls::client_config(&trust)?, timeout)?)
}

/// The status of a worker.
pub fn inspect(endpoint: &Endpoint, environment: &Environment) -> Result<Status> {
    let link = connect(endpoint, environment)?;
    let token = environment.token(None)?;
    let hello = Hello {
        min_version: MIN_VERSION,
        max_version: MAX_VERSION,
        purpose: Purpose::Inspect as u8,
        client: "remora".to_owned(),
        pid: std::process::id(),
        nonce: greet::nonce()?,
        ..Hello::default()
    };
    let credentials = greet::Credentials { token: token.as_deref(), secret: None };
    let timeout = environment.connect_timeout();
    let status: wire::Status = greet::greet(&link, &hello, &credentials, timeout, timeout * 4)
        .with_context(|| format!("the worker at {endpoint} did not answer"))?;
    Status::from_json(&status.text).context("the worker's answer is not understood")
}
