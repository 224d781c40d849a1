//! Saving a worker's sessions and taking them up again, for workers that can.

use std::path::Path;

use crate::allocation::Allocation;
use crate::error::AgentError;

/// Whoever knows how to save sessions of a worker.
pub(crate) trait Snapshots: Send + Sync + std::fmt::Debug {
    /// Saves every session of a worker into a folder.
    fn snapshot(&self, allocation: &Allocation, folder: &Path) -> Result<(), AgentError>;
    /// Takes the sessions of a folder up again.
    fn resume(&self, allocation: &Allocation, folder: &Path) -> Result<(), AgentError>;
}

/// Workers of a version that cannot.
#[derive(Debug)]
pub(crate) struct Unable;

const UNABLE: AgentError =
    AgentError::NotImplemented("the workers of this version cannot save their sessions");

impl Snapshots for Unable {
    fn snapshot(&self, _allocation: &Allocation, _folder: &Path) -> Result<(), AgentError> {
        Err(UNABLE)
    }

    fn resume(&self, _allocation: &Allocation, _folder: &Path) -> Result<(), AgentError> {
        Err(UNABLE)
    }
}
