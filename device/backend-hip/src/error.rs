//! Converts the runtime's status codes to errors with the runtime's error text.

use std::ffi::CStr;

use backend::DeviceError;
use hip_api::hipError_t;
use hip_api::types::{hipErrorNotSupported, hipErrorSharedObjectInitFailed, hipSuccess};

use crate::functions::{Functions, LoadError};

impl Functions {
    /// Converts a status to a result whose error names the call.
    pub(crate) fn check(&self, call: &'static str, status: hipError_t) -> Result<(), DeviceError> {
        if status == hipSuccess {
            return Ok(());
        }
        let words = self.hipGetErrorString.map(|describe| {
            // SAFETY: returns a static NUL-terminated string for any code.
            let text = unsafe { describe(status) };
            if text.is_null() {
                return String::new();
            }
            // SAFETY: not null; static and NUL-terminated, as above.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        });
        let name = status.name().map_or_else(|| format!("error {}", status.0), str::to_owned);
        let words =
            words.filter(|words| !words.is_empty()).map_or(String::new(), |words| format!(": {words}"));
        Err(DeviceError::new(status, format!("{call} returned {name}{words}")))
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

/// Calls a function of the library: `call!(functions, hipSetDevice(0))`.
macro_rules! call {
    ($functions:expr, $name:ident($($argument:expr),* $(,)?)) => {
        match $functions.$name {
            Some(function) => {
                // SAFETY: the signature comes from the function table; pointers passed are valid for the call at every use of this macro,
                // and handles come from the library itself.
                let status = unsafe { function($($argument),*) };
                $functions.check(stringify!($name), status)
            }
            None => Err(backend::DeviceError::from($functions.missing(stringify!($name)))),
        }
    };
}
pub(crate) use call;
