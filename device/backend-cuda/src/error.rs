//! Converts the driver's status codes to HIP errors with the driver's text.

use std::ffi::{CStr, c_char};

use backend::DeviceError;
use hip_api::hipError_t;
use hip_api::types::*;

use crate::functions::{Functions, LoadError};
use crate::types::{CuResult, SUCCESS};

impl Functions {
    /// Converts a status to a result whose error names the call.
    pub(crate) fn check(&self, call: &'static str, status: CuResult) -> Result<(), DeviceError> {
        if status == SUCCESS {
            return Ok(());
        }
        Err(DeviceError::new(code(status), format!("{call} returned {}", self.describe(status))))
    }

    /// The driver's name and description of a status.
    fn describe(&self, status: CuResult) -> String {
        let text = |get: unsafe extern "C" fn(CuResult, *mut *const c_char) -> CuResult| {
            let mut text = std::ptr::null();
            // SAFETY: the driver stores a pointer to a static string, or null for a status that it does not know.
            let status = unsafe { get(status, &raw mut text) };
            if status != SUCCESS || text.is_null() {
                return None;
            }
            // SAFETY: not null; static and NUL-terminated.
            Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        let name = text(self.cuGetErrorName).unwrap_or_else(|| format!("error {}", status.0));
        match text(self.cuGetErrorString) {
            Some(words) => format!("{name}: {words}"),
            None => name,
        }
    }
}

/// The HIP status for a status of the driver. Most numbers are the same in both.
fn code(status: CuResult) -> hipError_t {
    match status.0 {
        1 => hipErrorInvalidValue,
        2 => hipErrorOutOfMemory,
        3 | 4 => hipErrorNotInitialized,
        100 => hipErrorNoDevice,
        101 => hipErrorInvalidDevice,
        200 | 218 | 221 | 222 => hipErrorInvalidImage,
        201 | 709 => hipErrorInvalidContext,
        209 => hipErrorNoBinaryForGpu,
        400 => hipErrorInvalidHandle,
        500 => hipErrorNotFound,
        600 => hipErrorNotReady,
        700 => hipErrorIllegalAddress,
        701 => hipErrorLaunchOutOfResources,
        702 => hipErrorLaunchTimeOut,
        710 => hipErrorAssert,
        // Illegal instruction, misaligned address, invalid address space, invalid program counter, failed launch, uncorrectable
        // memory error: all of them end the context, as a failed launch does in HIP.
        214 | 715..=719 => hipErrorLaunchFailure,
        720 => hipErrorCooperativeLaunchTooLarge,
        801 => hipErrorNotSupported,
        _ => hipErrorUnknown,
    }
}

impl From<LoadError> for DeviceError {
    fn from(error: LoadError) -> DeviceError {
        let code = match &error {
            LoadError::Library { .. } => hipErrorSharedObjectInitFailed,
            LoadError::Missing { .. } => hipErrorNotSupported,
        };
        let text = match std::error::Error::source(&error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        };
        DeviceError::new(code, text)
    }
}

/// Calls a function of the driver: `call!(functions, cuInit(0))`.
macro_rules! call {
    ($functions:expr, $name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the signature comes from the function table; pointers passed are valid for the call at every use of this macro,
        // and handles come from the driver itself.
        let status = unsafe { ($functions.$name)($($argument),*) };
        $functions.check(stringify!($name), status)
    }};
}
pub(crate) use call;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_a_context_is_a_fault_and_nothing_else_is() {
        for fatal in [214, 700, 702, 710, 715, 716, 717, 718, 719] {
            assert!(DeviceError::new(code(CuResult(fatal)), "").is_fault(), "{fatal}");
        }
        for harmless in [1, 2, 100, 101, 200, 218, 400, 500, 600, 701, 720, 801, 999] {
            assert!(!DeviceError::new(code(CuResult(harmless)), "").is_fault(), "{harmless}");
        }
    }
}
