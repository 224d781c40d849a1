//! Streams, events and callback types.

use core::ptr::without_provenance_mut;

use super::{c_int, c_uint, c_void, hipError_t, hipStream_t};
use crate::ctype::{c_enums, c_flags, c_name};

/// Explicit handle of the legacy default stream, equivalent to a null handle.
pub const hipStreamLegacy: hipStream_t = without_provenance_mut(1);
/// The default stream of the calling thread.
pub const hipStreamPerThread: hipStream_t = without_provenance_mut(2);

/// Host function, called when a stream reaches it.
pub type hipHostFn_t = Option<unsafe extern "C" fn(userData: *mut c_void)>;
/// Callback, called with the stream's status when a stream reaches it.
pub type hipStreamCallback_t =
    Option<unsafe extern "C" fn(stream: hipStream_t, status: hipError_t, userData: *mut c_void)>;
/// Callback of a profiling runtime, called for each activity.
pub type hipTracerCallback_t =
    Option<unsafe extern "C" fn(domain: u32, operation: u32, data: *mut c_void) -> c_int>;

c_flags! {
    hipStreamDefault = 0x00,
    hipStreamNonBlocking = 0x01,
    hipEventDefault = 0x0,
    hipEventBlockingSync = 0x1,
    hipEventDisableTiming = 0x2,
    hipEventInterprocess = 0x4,
    hipEventRecordDefault = 0x00,
    hipEventRecordExternal = 0x01,
    hipEventWaitDefault = 0x00,
    hipEventWaitExternal = 0x01,
    hipEventDisableSystemFence = 0x20000000,
    hipEventReleaseToDevice = 0x40000000,
    hipEventReleaseToSystem = 0x80000000,
    hipStreamWaitValueGte = 0x0,
    hipStreamWaitValueEq = 0x1,
    hipStreamWaitValueAnd = 0x2,
    hipStreamWaitValueNor = 0x3,
}

c_enums! {
    /// Restrictions that a stream capture imposes on other threads.
    hipStreamCaptureMode {
        hipStreamCaptureModeGlobal = 0,
        hipStreamCaptureModeThreadLocal = 1,
        hipStreamCaptureModeRelaxed = 2,
    }
    /// Operation of hipStreamBatchMemOp.
    hipStreamBatchMemOpType {
        hipStreamMemOpWaitValue32 = 0x1,
        hipStreamMemOpWriteValue32 = 0x2,
        hipStreamMemOpWaitValue64 = 0x4,
        hipStreamMemOpWriteValue64 = 0x5,
        hipStreamMemOpBarrier = 0x6,
        hipStreamMemOpFlushRemoteWrites = 0x3,
    }
    /// Whether a stream is being captured.
    hipStreamCaptureStatus {
        hipStreamCaptureStatusNone = 0,
        hipStreamCaptureStatusActive = 1,
        hipStreamCaptureStatusInvalidated = 2,
    }
}

/// One operation of hipStreamBatchMemOp. A union in C; all members that have an effect have this layout.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hipStreamBatchMemOpParams {
    pub operation: hipStreamBatchMemOpType,
    pub address: u64,
    pub value: u64,
    pub flags: c_uint,
    pub alias: u64,
    pub pad: u64,
}

c_name!(hipStreamBatchMemOpParams);
