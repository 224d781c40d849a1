//! The error type of the device side: a HIP status code and a message.

use hip_api::hipError_t;
use hip_api::types::{
    hipErrorAlreadyMapped, hipErrorIllegalAddress, hipErrorInvalidDevice, hipErrorInvalidHandle,
    hipErrorInvalidValue, hipErrorLaunchFailure, hipErrorLaunchTimeOut, hipErrorNotReady,
    hipErrorNotSupported, hipErrorOutOfMemory,
};

/// Error of a device operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct DeviceError {
    /// HIP status returned to the program.
    pub code: hipError_t,
    /// Message for logs and people.
    pub text: String,
}

impl DeviceError {
    /// Error with a HIP status.
    pub fn new(code: hipError_t, text: impl Into<String>) -> DeviceError {
        DeviceError { code, text: text.into() }
    }

    /// Error for an argument that makes no sense (`hipErrorInvalidValue`).
    pub fn invalid_value(text: impl Into<String>) -> DeviceError {
        DeviceError::new(hipErrorInvalidValue, text)
    }

    /// Error for an object that does not exist (`hipErrorInvalidHandle`).
    pub fn invalid_handle(text: impl Into<String>) -> DeviceError {
        DeviceError::new(hipErrorInvalidHandle, text)
    }

    /// Error for a device that does not exist (`hipErrorInvalidDevice`).
    pub fn invalid_device(ordinal: u32) -> DeviceError {
        DeviceError::new(hipErrorInvalidDevice, format!("device {ordinal} does not exist"))
    }

    /// Error for exhausted memory (`hipErrorOutOfMemory`).
    pub fn out_of_memory(text: impl Into<String>) -> DeviceError {
        DeviceError::new(hipErrorOutOfMemory, text)
    }

    /// Error for a restored object whose addresses are in use in this process (`hipErrorAlreadyMapped`).
    pub fn address_taken(text: impl Into<String>) -> DeviceError {
        DeviceError::new(hipErrorAlreadyMapped, text)
    }

    /// Whether an object could not be restored because its addresses are in use in this process.
    pub fn is_address_taken(&self) -> bool {
        self.code == hipErrorAlreadyMapped
    }

    /// Error for work that has not ended (`hipErrorNotReady`).
    pub fn not_ready(text: impl Into<String>) -> DeviceError {
        DeviceError::new(hipErrorNotReady, text)
    }

    /// Error for a feature that the back end lacks (`hipErrorNotSupported`).
    pub fn not_supported(text: impl Into<String>) -> DeviceError {
        DeviceError::new(hipErrorNotSupported, text)
    }

    /// Whether this is a kernel fault, after which the session's device state is lost.
    pub fn is_fault(&self) -> bool {
        [hipErrorIllegalAddress, hipErrorLaunchFailure, hipErrorLaunchTimeOut].contains(&self.code)
            || self.code.name() == Some("hipErrorIllegalState")
            || self.code.name() == Some("hipErrorAssert")
    }
}
