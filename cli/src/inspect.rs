//! Queries the status of a worker.

use anyhow::{Context, Result};
use transport::Endpoint;
use worker_client::{InspectError, WorkerAddress};
use worker_status::Status;

use crate::env::Environment;

/// A worker's address with the credentials from the environment.
pub fn place(endpoint: Endpoint, environment: &Environment) -> Result<WorkerAddress> {
    // The administration token can list and move the sessions of all tenants; a tenant's token lists only its own.
    let token = match environment.admin_token()? {
        Some(token) => Some(token),
        None => environment.token(None)?,
    };
    let token = token.or_else(|| transport::token::find_local(&environment.local_tokens(), &endpoint));
    Ok(WorkerAddress {
        endpoint,
        token,
        trust: environment.trust()?,
        connect_timeout: environment.connect_timeout(),
    })
}

/// The status of a worker.
pub fn inspect(endpoint: &Endpoint, environment: &Environment) -> Result<Status> {
    let place = place(endpoint.clone(), environment)?;
    if matches!(endpoint, Endpoint::Tls { .. }) {
        place
            .trust
            .as_ref()
            .with_context(|| format!("{endpoint} uses TLS: set REMORA_TLS_CA to its certificate"))?;
    }
    place.inspect().map_err(|error| match error {
        InspectError::Silent { source, .. } => anyhow::Error::new(source).context(format!(
            "no worker answers at {endpoint}; start one there with `remora worker --listen {endpoint}`"
        )),
        other => other.into(),
    })
}
