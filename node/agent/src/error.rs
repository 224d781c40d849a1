//! Errors of the agent and their HTTP status codes.

use std::path::PathBuf;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::remote::RemoteError;
use crate::reservation::Shortage;

/// Error of an agent operation.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the variants")]
pub enum AgentError {
    #[error("{0}")]
    BadRequest(String),
    #[error("{0}")]
    Unauthorized(&'static str),
    #[error("{0}")]
    NotFound(String),
    #[error("no GPU of this machine has enough free capacity: {0}")]
    Short(Shortage),
    #[error("{0}")]
    NoDevice(String),
    #[error("{asked} GPUs were requested, and {}", available(*.matching, *.all))]
    TooFew { asked: usize, matching: usize, all: usize },
    #[error("{0}")]
    Forbidden(&'static str),
    #[error(transparent)]
    Certificate(#[from] transport::TransportError),
    #[error(transparent)]
    TokenFile(#[from] transport::token::TokenError),
    #[error("token file {path}: {problem}")]
    Token { path: PathBuf, problem: String },
    #[error("{0}")]
    Refused(String),
    /// An allocation that could neither move as a whole nor stay as a whole.
    #[error("{0}")]
    Split(String),
    #[error("{0}")]
    Unsupported(&'static str),
    #[error("the worker did not start: {0}")]
    Worker(String),
    #[error("the worker of this allocation is not running")]
    NotRunning,
    #[error("{source}: {}", cause(.source))]
    Silent {
        #[from]
        source: worker_client::InspectError,
    },
    #[error("the agent is stopping")]
    Stopping,
    #[error(
        "this machine is being drained and accepts no allocations; `remora agent drain --cancel` ends that"
    )]
    Draining,
    #[error(transparent)]
    Remote(#[from] RemoteError),
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("another agent is using {0}")]
    InUse(PathBuf),
    #[error("{path} is not a valid agent state file: {why}")]
    State { path: PathBuf, why: String },
    #[error(transparent)]
    Config(#[from] crate::config::ConfigError),
    #[error("the provider library: {0}")]
    Provider(String),
    #[error("cannot listen on {address}: {source}")]
    Listen { address: std::net::SocketAddr, source: std::io::Error },
    #[error("the server failed: {0}")]
    Serve(std::io::Error),
}

/// Formats an error and its sources in one line.
pub(crate) fn words(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |error| error.source());
    sources.fold(error.to_string(), |text, source| format!("{text}: {source}"))
}

/// Says how many GPUs one worker could get.
fn available(matching: usize, all: usize) -> String {
    match all {
        _ if matching == all => format!("this machine has {all}"),
        _ => format!("{matching} of this machine's {all} GPUs match and are alike"),
    }
}

/// Returns the text of an error's source.
fn cause(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| "no details available".to_owned(), ToString::to_string)
}

/// Response body of a failed request.
#[derive(Debug, Serialize, ToSchema)]
pub struct Problem {
    pub error: String,
}

impl AgentError {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            AgentError::BadRequest(_) | AgentError::Remote(RemoteError::Address { .. }) => {
                StatusCode::BAD_REQUEST
            }
            AgentError::Remote(_) => StatusCode::BAD_GATEWAY,
            AgentError::Unauthorized(_) => StatusCode::UNAUTHORIZED,
            AgentError::NotFound(_) => StatusCode::NOT_FOUND,
            AgentError::Forbidden(_) => StatusCode::FORBIDDEN,
            AgentError::Short(_)
            | AgentError::NoDevice(_)
            | AgentError::TooFew { .. }
            | AgentError::Split(_)
            | AgentError::Refused(_) => StatusCode::CONFLICT,
            AgentError::Unsupported(_) => StatusCode::NOT_IMPLEMENTED,
            AgentError::Worker(_)
            | AgentError::NotRunning
            | AgentError::Silent { .. }
            | AgentError::Draining
            | AgentError::Stopping => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl IntoResponse for AgentError {
    fn into_response(self) -> Response {
        (self.status(), Json(Problem { error: self.to_string() })).into_response()
    }
}
