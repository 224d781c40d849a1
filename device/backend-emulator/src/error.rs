//! Faults of kernels as the status HIP reports for them.

use backend::DeviceError;
use emulator::{Fault, FaultKind};
use hip_api::types::{
    hipErrorCooperativeLaunchTooLarge, hipErrorIllegalAddress, hipErrorLaunchFailure,
    hipErrorLaunchOutOfResources, hipErrorLaunchTimeOut, hipErrorUnknown,
};

/// A command that did not do its work.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: DeviceError,
    /// The session's device state is lost.
    pub(crate) is_fault: bool,
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Failure {
        Failure { error, is_fault: false }
    }
}

/// A kernel that was aborted, or refused before it started.
pub(crate) fn from_fault(fault: &Fault, cooperative: bool) -> Failure {
    let code = match &fault.kind {
        kind if kind.is_memory() => hipErrorIllegalAddress,
        FaultKind::Timeout => hipErrorLaunchTimeOut,
        FaultKind::Resources { .. } if cooperative => hipErrorCooperativeLaunchTooLarge,
        FaultKind::Resources { .. } => hipErrorLaunchOutOfResources,
        FaultKind::Internal { .. } => hipErrorUnknown,
        _ => hipErrorLaunchFailure,
    };
    let is_fault = !matches!(fault.kind, FaultKind::Resources { .. });
    Failure { error: DeviceError::new(code, fault.to_string()), is_fault }
}
