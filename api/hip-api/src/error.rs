//! Names and texts of statuses, as returned by hipGetErrorName, hipGetErrorString and hiprtcGetErrorString, and a Rust error type
//! for every status but success.
//!
//! Does not store the last error, which belongs to a thread of the client.

use std::ffi::CStr;
use std::fmt;

use crate::types::*;

/// A status that is not `hipSuccess`, for `Result<(), HipError>`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct HipError(hipError_t);

impl HipError {
    /// `None` for success.
    pub fn new(status: hipError_t) -> Option<HipError> {
        (status != hipSuccess).then_some(HipError(status))
    }

    /// The status code.
    pub fn status(self) -> hipError_t {
        self.0
    }
}

impl hipError_t {
    /// Converts success to `Ok`.
    pub fn ok(self) -> Result<(), HipError> {
        HipError::new(self).map_or(Ok(()), Err)
    }

    /// Text that hipGetErrorString returns. In the library of soname 5 that function returns [`error_name`](Self::error_name) as
    /// well.
    pub fn error_string(self) -> &'static CStr {
        row(self).map_or(c"unknown error", |(_, _, text)| *text)
    }

    /// Name that hipGetErrorName returns.
    pub fn error_name(self) -> &'static CStr {
        row(self).map_or(c"hipErrorUnknown", |(_, name, _)| *name)
    }

    /// Whether hipDrvGetErrorName and hipDrvGetErrorString recognise this status.
    pub fn is_known(self) -> bool {
        row(self).is_some()
    }
}

impl hiprtcResult {
    /// Text that hiprtcGetErrorString returns: the name, or `None` for a value that no header defines.
    pub fn error_string(self) -> Option<&'static CStr> {
        HIPRTC_NAMES.iter().find(|(code, _)| *code == self).map(|(_, name)| *name)
    }
}

impl From<HipError> for hipError_t {
    fn from(error: HipError) -> hipError_t {
        error.0
    }
}

impl From<hipError_t> for HipError {
    /// Success is not an error and becomes hipErrorUnknown. Use [`HipError::new`] or [`hipError_t::ok`] to distinguish them.
    fn from(status: hipError_t) -> HipError {
        HipError::new(status).unwrap_or(HipError(hipErrorUnknown))
    }
}

impl<T> From<Result<T, HipError>> for hipError_t {
    fn from(result: Result<T, HipError>) -> hipError_t {
        result.map_or_else(hipError_t::from, |_| hipSuccess)
    }
}

impl fmt::Debug for HipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for HipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({})", self.0, self.0.error_string().to_string_lossy())
    }
}

impl std::error::Error for HipError {}

type Row = (hipError_t, &'static CStr, &'static CStr);

fn row(status: hipError_t) -> Option<&'static Row> {
    STATUSES.iter().find(|(code, _, _)| *code == status)
}

macro_rules! statuses {
    ($($code:ident $text:literal,)*) => {
        const STATUSES: &[Row] = &[$(($code, name(concat!(stringify!($code), "\0")), $text),)*];
    };
}

macro_rules! hiprtc_names {
    ($($code:ident,)*) => {
        const HIPRTC_NAMES: &[(hiprtcResult, &CStr)] = &[$(($code, name(concat!(stringify!($code), "\0"))),)*];
    };
}

const fn name(with_nul: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(with_nul.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name ends in exactly one nul"),
    }
}

statuses! {
    hipSuccess c"no error",
    hipErrorInvalidValue c"invalid argument",
    hipErrorOutOfMemory c"out of memory",
    hipErrorNotInitialized c"initialization error",
    hipErrorDeinitialized c"driver shutting down",
    hipErrorProfilerDisabled c"profiler disabled while using external profiling tool",
    hipErrorProfilerNotInitialized c"profiler is not initialized",
    hipErrorProfilerAlreadyStarted c"profiler already started",
    hipErrorProfilerAlreadyStopped c"profiler already stopped",
    hipErrorInvalidConfiguration c"invalid configuration argument",
    hipErrorInvalidPitchValue c"invalid pitch argument",
    hipErrorInvalidSymbol c"invalid device symbol",
    hipErrorInvalidDevicePointer c"invalid device pointer",
    hipErrorInvalidMemcpyDirection c"invalid copy direction for memcpy",
    hipErrorInsufficientDriver c"driver version is insufficient for runtime version",
    hipErrorMissingConfiguration c"__global__ function call is not configured",
    hipErrorPriorLaunchFailure c"unspecified launch failure in prior launch",
    hipErrorInvalidDeviceFunction c"invalid device function",
    hipErrorNoDevice c"no ROCm-capable device is detected",
    hipErrorInvalidDevice c"invalid device ordinal",
    hipErrorInvalidImage c"device kernel image is invalid",
    hipErrorInvalidContext c"invalid device context",
    hipErrorContextAlreadyCurrent c"context is already current context",
    hipErrorMapFailed c"mapping of buffer object failed",
    hipErrorUnmapFailed c"unmapping of buffer object failed",
    hipErrorArrayIsMapped c"array is mapped",
    hipErrorAlreadyMapped c"resource already mapped",
    hipErrorNoBinaryForGpu c"no kernel image is available for execution on the device",
    hipErrorAlreadyAcquired c"resource already acquired",
    hipErrorNotMapped c"resource not mapped",
    hipErrorNotMappedAsArray c"resource not mapped as array",
    hipErrorNotMappedAsPointer c"resource not mapped as pointer",
    hipErrorECCNotCorrectable c"uncorrectable ECC error encountered",
    hipErrorUnsupportedLimit c"limit is not supported on this architecture",
    hipErrorContextAlreadyInUse c"exclusive-thread device already in use by a different thread",
    hipErrorPeerAccessUnsupported c"peer access is not supported between these two devices",
    hipErrorInvalidKernelFile c"invalid kernel file",
    hipErrorInvalidGraphicsContext c"invalid OpenGL or DirectX context",
    hipErrorInvalidSource c"device kernel image is invalid",
    hipErrorFileNotFound c"file not found",
    hipErrorSharedObjectSymbolNotFound c"shared object symbol not found",
    hipErrorSharedObjectInitFailed c"shared object initialization failed",
    hipErrorOperatingSystem c"OS call failed or operation not supported on this OS",
    hipErrorInvalidHandle c"invalid resource handle",
    hipErrorIllegalState c"the operation cannot be performed in the present state",
    hipErrorNotFound c"named symbol not found",
    hipErrorNotReady c"device not ready",
    hipErrorIllegalAddress c"an illegal memory access was encountered",
    hipErrorLaunchOutOfResources c"too many resources requested for launch",
    hipErrorLaunchTimeOut c"the launch timed out and was terminated",
    hipErrorPeerAccessAlreadyEnabled c"peer access is already enabled",
    hipErrorPeerAccessNotEnabled c"peer access has not been enabled",
    hipErrorSetOnActiveProcess c"cannot set while device is active in this process",
    hipErrorContextIsDestroyed c"context is destroyed",
    hipErrorAssert c"device-side assert triggered",
    hipErrorHostMemoryAlreadyRegistered c"part or all of the requested memory range is already mapped",
    hipErrorHostMemoryNotRegistered c"pointer does not correspond to a registered memory region",
    hipErrorLaunchFailure c"unspecified launch failure",
    hipErrorCooperativeLaunchTooLarge c"too many blocks in cooperative launch",
    hipErrorNotSupported c"operation not supported",
    hipErrorStreamCaptureUnsupported c"operation not permitted when stream is capturing",
    hipErrorStreamCaptureInvalidated c"operation failed due to a previous error during capture",
    hipErrorStreamCaptureMerge c"operation would result in a merge of separate capture sequences",
    hipErrorStreamCaptureUnmatched c"capture was not ended in the same stream as it began",
    hipErrorStreamCaptureUnjoined c"capturing stream has unjoined work",
    hipErrorStreamCaptureIsolation c"dependency created on uncaptured work in another stream",
    hipErrorStreamCaptureImplicit c"operation would make the legacy stream depend on a capturing blocking stream",
    hipErrorCapturedEvent c"operation not permitted on an event last recorded in a capturing stream",
    hipErrorStreamCaptureWrongThread c"attempt to terminate a thread-local capture sequence from another thread",
    hipErrorGraphExecUpdateFailure c"the graph update was not performed because it included changes which violated constraints specific to instantiated graph update",
    hipErrorInvalidChannelDescriptor c"invalid resource description of texture passed to the api",
    hipErrorInvalidTexture c"invalid texture object passed to the api",
    hipErrorUnknown c"unknown error",
    hipErrorRuntimeMemory c"runtime memory call returned error",
    hipErrorRuntimeOther c"runtime call other than memory returned error",
    hipErrorTbd c"unknown error",
}

hiprtc_names! {
    HIPRTC_SUCCESS,
    HIPRTC_ERROR_OUT_OF_MEMORY,
    HIPRTC_ERROR_PROGRAM_CREATION_FAILURE,
    HIPRTC_ERROR_INVALID_INPUT,
    HIPRTC_ERROR_INVALID_PROGRAM,
    HIPRTC_ERROR_INVALID_OPTION,
    HIPRTC_ERROR_COMPILATION,
    HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE,
    HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION,
    HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION,
    HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID,
    HIPRTC_ERROR_INTERNAL_ERROR,
    HIPRTC_ERROR_LINKING,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_of_the_header_has_a_text() {
        for (name, value) in hipError_t::CONSTANTS {
            let status = hipError_t(*value);
            assert!(status.is_known(), "{name} has no text");
            assert_eq!(status.error_name().to_str().ok(), status.name(), "{name}");
        }
    }

    #[test]
    fn every_result_of_the_run_time_compiler_has_a_name() {
        for (name, value) in hiprtcResult::CONSTANTS {
            assert_eq!(hiprtcResult(*value).error_string().and_then(|it| it.to_str().ok()), Some(*name));
        }
        assert_eq!(hiprtcResult(12).error_string(), None);
    }

    #[test]
    fn an_unknown_status_survives_and_reads_as_unknown() {
        let status = hipError_t(4242);
        assert_eq!(status.error_name(), c"hipErrorUnknown");
        assert_eq!(status.error_string(), c"unknown error");
        assert_eq!(hipError_t::from(status.ok()), status);
    }

    #[test]
    fn aliases_answer_with_the_first_name() {
        assert_eq!(hipErrorMemoryAllocation.error_name(), c"hipErrorOutOfMemory");
        assert_eq!(hipErrorInvalidResourceHandle.error_string(), c"invalid resource handle");
    }

    #[test]
    fn success_is_ok() {
        assert_eq!(hipSuccess.ok(), Ok(()));
        assert_eq!(HipError::from(hipSuccess).status(), hipErrorUnknown);
        let error = hipErrorNoDevice.ok().expect_err("no device is an error");
        assert_eq!(error.to_string(), "hipErrorNoDevice (no ROCm-capable device is detected)");
    }
}
