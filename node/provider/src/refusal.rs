//! Why something was not done, and the number both generations of the interface have for it.

use crate::agent::AgentError;
use crate::limits::LimitsError;

/// What a caller is told instead of an answer.
#[derive(Debug, thiserror::Error)]
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

/// The code for "done".
pub const SUCCESS: i32 = 0;

impl Refusal {
    /// The interface's result code.
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
            LimitsError::Name(_) => Refusal::InvalidParameter("the worker's name cannot name a folder"),
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
