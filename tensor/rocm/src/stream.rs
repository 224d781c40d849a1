//! The single HIP stream of a device, which orders all of its work.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hip_api::types::{
    hipMemcpyDeviceToHost, hipMemcpyHostToDevice, hipMemcpyKind, hipStream_t, hipStreamNonBlocking,
};
use tensor_core::error::DeviceError;

use crate::library::{Library, call};
use crate::pinned::PinnedBuffer;

/// A stream of one device.
#[derive(Debug)]
pub(crate) struct Stream {
    pub library: Arc<Library>,
    pub ordinal: u32,
    handle: hipStream_t,
    /// The device was reset: handles and addresses from before may be those of other objects now.
    abandoned: AtomicBool,
}

// SAFETY: HIP functions may be called from any thread; the handle is only ever passed to them.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    pub(crate) fn create(library: Arc<Library>, ordinal: u32) -> Result<Stream, DeviceError> {
        let mut stream =
            Stream { library, ordinal, handle: std::ptr::null_mut(), abandoned: AtomicBool::new(false) };
        stream.select()?;
        call!(stream.library, runtime.hipStreamCreateWithFlags(&mut stream.handle, hipStreamNonBlocking))?;
        Ok(stream)
    }

    /// Makes no more HIP calls from now on.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
    }

    /// Makes the device current for this thread, so that following HIP calls go to it. Every sequence of calls begins with this.
    pub(crate) fn select(&self) -> Result<(), DeviceError> {
        if self.abandoned.load(Ordering::Acquire) {
            return Err(DeviceError::Unavailable(
                "the device was reset since; its memory is gone, create the tensors again".to_owned(),
            ));
        }
        call!(self.library, runtime.hipSetDevice(self.ordinal as i32))
    }

    pub(crate) fn handle(&self) -> hipStream_t {
        self.handle
    }

    pub(crate) fn synchronize(&self) -> Result<(), DeviceError> {
        self.select()?;
        call!(self.library, runtime.hipStreamSynchronize(self.handle))
    }

    /// Returns the milliseconds that `work` takes on the device.
    pub(crate) fn time(&self, work: impl FnOnce() -> Result<(), DeviceError>) -> Result<f32, DeviceError> {
        let mut events = [std::ptr::null_mut(); 2];
        let mut milliseconds = 0.0;
        for event in &mut events {
            call!(self.library, runtime.hipEventCreate(event))?;
        }
        let [from, to] = events;
        let timed = call!(self.library, runtime.hipEventRecord(from, self.handle))
            .and_then(|()| work())
            .and_then(|()| call!(self.library, runtime.hipEventRecord(to, self.handle)))
            .and_then(|()| call!(self.library, runtime.hipEventSynchronize(to)))
            .and_then(|()| call!(self.library, runtime.hipEventElapsedTime(&mut milliseconds, from, to)));
        for event in events {
            call!(self.library, runtime.hipEventDestroy(event))?;
        }
        timed.map(|()| milliseconds)
    }

    /// Clears HIP's last error after it was handled, so that other users of the runtime do not see it.
    pub(crate) fn forget_error(&self) {
        let _ = call!(self.library, runtime.hipGetLastError());
    }

    /// Uploads from pageable memory; HIP has read it when this returns.
    pub(crate) fn upload(&self, to: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.select()?;
        self.copy(to, bytes.as_ptr() as u64, bytes.len(), hipMemcpyHostToDevice)
    }

    /// Downloads to pinned memory asynchronously; the bytes are valid after the next synchronization.
    pub(crate) fn download_later(&self, from: u64, into: &mut PinnedBuffer) -> Result<(), DeviceError> {
        let into = into.bytes_mut();
        self.copy(into.as_mut_ptr() as u64, from, into.len(), hipMemcpyDeviceToHost)
    }

    /// Downloads after waiting for everything submitted before.
    pub(crate) fn download(&self, from: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.select()?;
        let (to, count) = (into.as_mut_ptr() as u64, into.len());
        if self.library.runtime.hipMemcpyWithStream.is_some() {
            let (to, from) = (to as *mut c_void, from as *const c_void);
            return call!(
                self.library,
                runtime.hipMemcpyWithStream(to, from, count, hipMemcpyDeviceToHost, self.handle)
            );
        }
        self.copy(to, from, count, hipMemcpyDeviceToHost)?;
        self.synchronize()
    }

    /// Copies between devices, after the work submitted to both streams before. Work submitted to the other one afterwards waits
    /// for the copy, so that it may reuse the memory.
    pub(crate) fn copy_from(
        &self,
        to: u64,
        other: &Stream,
        from: u64,
        bytes: usize,
    ) -> Result<(), DeviceError> {
        other.before_stream(self)?;
        self.select()?;
        let (to, from) = (to as *mut c_void, from as *const c_void);
        call!(
            self.library,
            runtime.hipMemcpyPeerAsync(
                to,
                self.ordinal as i32,
                from,
                other.ordinal as i32,
                bytes,
                self.handle
            )
        )?;
        self.before_stream(other)
    }

    /// Makes later work of another device's stream wait for the work submitted to this one so far.
    fn before_stream(&self, other: &Stream) -> Result<(), DeviceError> {
        self.select()?;
        self.ordered(self.handle, || {
            other.select()?;
            Ok(other.handle)
        })?;
        self.select()
    }

    /// Makes later work of another stream wait for the work submitted to this one so far. The device is current.
    pub(crate) fn before(&self, other: hipStream_t) -> Result<(), DeviceError> {
        self.ordered(self.handle, || Ok(other))
    }

    /// Makes later work of this stream wait for the work submitted to another one so far. The device is current.
    pub(crate) fn after(&self, other: hipStream_t) -> Result<(), DeviceError> {
        self.ordered(other, || Ok(self.handle))
    }

    /// Makes one stream wait for the work submitted to another, `first`, so far. `second` may select its device.
    fn ordered(
        &self,
        first: hipStream_t,
        second: impl FnOnce() -> Result<hipStream_t, DeviceError>,
    ) -> Result<(), DeviceError> {
        let mut event = std::ptr::null_mut();
        call!(self.library, runtime.hipEventCreate(&mut event))?;
        let waits = call!(self.library, runtime.hipEventRecord(event, first))
            .and_then(|()| second())
            .and_then(|second| call!(self.library, runtime.hipStreamWaitEvent(second, event, 0)));
        // HIP keeps what a wait needs of a destroyed event.
        call!(self.library, runtime.hipEventDestroy(event))?;
        waits
    }

    /// Submits a copy between addresses.
    pub(crate) fn copy(
        &self,
        to: u64,
        from: u64,
        count: usize,
        kind: hipMemcpyKind,
    ) -> Result<(), DeviceError> {
        let (to, from) = (to as *mut c_void, from as *const c_void);
        call!(self.library, runtime.hipMemcpyAsync(to, from, count, kind, self.handle))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.handle.is_null() && self.select().is_ok() {
            // A failure cannot be reported from drop.
            let _ = call!(self.library, runtime.hipStreamDestroy(self.handle));
        }
    }
}
