//! Asking a worker how it is.

use anyhow::{Context, Result};
use transport::Endpoint;
use worker::{InspectError, Place, Status};

use crate::env::Environment;

/// A worker, with what the environment says it takes to be let in.
pub fn place(endpoint: Endpoint, environment: &Environment) -> Result<Place> {
    // The operator's token shows and moves the sessions of all tenants, a tenant's shows its own.
    let token = match environment.admin_token()? {
        Some(token) => Some(token),
        None => environment.token(None)?,
    };
    let token = token.or_else(|| transport::token::find_local(&environment.local_tokens(), &endpoint));
    Ok(Place { endpoint, token, trust: environment.trust()?, connect_timeout: environment.connect_timeout() })
}

/// The status of a worker.
pub fn inspect(endpoint: &Endpoint, environment: &Environment) -> Result<Status> {
    let place = place(endpoint.clone(), environment)?;
    if matches!(endpoint, Endpoint::Tls { .. }) {
        place
            .trust
            .as_ref()
            .with_context(|| format!("{endpoint} speaks TLS: set REMORA_TLS_CA to say whom to believe"))?;
    }
    place.inspect().map_err(|error| match error {
        InspectError::Silent { source, .. } => anyhow::Error::new(source).context(format!(
            "no worker answers at {endpoint}; start one there with `remora worker --listen {endpoint}`"
        )),
        other => other.into(),
    })
}
