//! Converts kernel faults to HIP status codes.

use backend::DeviceError;
use emulator::{Fault, FaultKind};
use hip_api::types::{
    hipErrorCooperativeLaunchTooLarge, hipErrorIllegalAddress, hipErrorLaunchFailure,
    hipErrorLaunchOutOfResources, hipErrorLaunchTimeOut, hipErrorUnknown,
};

/// Failure of a command.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: DeviceError,
    /// A kernel fault: the session's device state is lost.
    pub(crate) is_fault: bool,
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Failure {
        Failure { error, is_fault: false }
    }
}

/// Converts the fault of a kernel that was aborted, or rejected before it started.
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
