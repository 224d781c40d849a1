//! Errors of the library and their result codes, which both generations share.

use crate::agent::AgentError;
use crate::limits::LimitsError;

/// Error of an interface function.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the variants")]
pub enum ProviderError {
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

impl ProviderError {
    /// Returns the interface's result code.
    pub fn code(&self) -> i32 {
        match self {
            ProviderError::InvalidParameter(_) => 1,
            ProviderError::NotFound(_) => 2,
            ProviderError::NotSupported(_) => 3,
            ProviderError::Exhausted(_) => 4,
            ProviderError::Failed(_) => 5,
            ProviderError::Internal(_) => 6,
        }
    }
}

impl From<LimitsError> for ProviderError {
    fn from(error: LimitsError) -> ProviderError {
        match error {
            LimitsError::Nowhere => ProviderError::NotSupported(error.to_string()),
            LimitsError::Name(_) => {
                ProviderError::InvalidParameter("the worker's name is not a valid folder name")
            }
            LimitsError::Io { .. } => ProviderError::Failed(error.to_string()),
        }
    }
}

impl From<AgentError> for ProviderError {
    fn from(error: AgentError) -> ProviderError {
        match error {
            AgentError::Nobody => ProviderError::NotSupported(error.to_string()),
            AgentError::Refused { status: 404, .. } => ProviderError::NotFound(error.to_string()),
            AgentError::Refused { status: 501, .. } => ProviderError::NotSupported(error.to_string()),
            _ => ProviderError::Failed(error.to_string()),
        }
    }
}
