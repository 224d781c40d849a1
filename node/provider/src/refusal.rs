//! Errors of the library and their result codes, which both generations share.

use crate::agent::AgentError;
use crate::limits::LimitsError;

/// Error of an interface function.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the variants")]
pub enum Refusal {
    #[error("{0}")]
    InvalidParameter(&'static str),
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    NotSupported(String),
    #[error("{0}")]
    Exhausted(String),
    #[error("{0}")]
    Failed(String),
    #[error("internal error: {0}")]
    Internal(String),
}

/// Result code of success.
pub const SUCCESS: i32 = 0;

impl Refusal {
    /// Returns the interface's result code.
    pub fn code(&self) -> i32 {
        match self {
            Refusal::InvalidParameter(_) => 1,
            Refusal::NotFound(_) => 2,
            Refusal::NotSupported(_) => 3,
            Refusal::Exhausted(_) => 4,
            Refusal::Failed(_) => 5,
            Refusal::Internal(_) => 6,
        }
    }
}

impl From<LimitsError> for Refusal {
    fn from(error: LimitsError) -> Refusal {
        match error {
            LimitsError::Nowhere => Refusal::NotSupported(error.to_string()),
            LimitsError::Name(_) => Refusal::InvalidParameter("the worker's name is not a valid folder name"),
            LimitsError::Io { .. } => Refusal::Failed(error.to_string()),
        }
    }
}

impl From<AgentError> for Refusal {
    fn from(error: AgentError) -> Refusal {
        match error {
            AgentError::Nobody => Refusal::NotSupported(error.to_string()),
            AgentError::Refused { status: 404, .. } => Refusal::NotFound(error.to_string()),
            AgentError::Refused { status: 501, .. } => Refusal::NotSupported(error.to_string()),
            _ => Refusal::Failed(error.to_string()),
        }
    }
}
