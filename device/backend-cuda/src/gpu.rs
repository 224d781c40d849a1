//! One NVIDIA GPU: its context, and the properties that launches depend on.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

use backend::DeviceError;

use crate::error::call;
use crate::functions::Functions;
use crate::types::*;

thread_local! {
    /// The context that is current on this thread; 0 before the first. Only this file changes it.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// A GPU with its primary context.
pub(crate) struct Gpu {
    functions: Arc<Functions>,
    pub(crate) device: CuDevice,
    context: usize,
    /// Stream for work that is not ordered with any stream of the session.
    aside: usize,
    pub(crate) name: String,
    pub(crate) uuid: [u8; 16],
    pub(crate) memory_bytes: u64,
    /// Compute capability: 90 for 9.0.
    pub(crate) capability: u32,
    pub(crate) multiprocessors: u32,
    /// Numbers of the lowest and of the highest stream priority.
    pub(crate) priorities: (i32, i32),
}

impl Gpu {
    /// Creates the context of a GPU.
    pub(crate) fn open(functions: &Arc<Functions>, ordinal: u32) -> Result<Gpu, DeviceError> {
        let mut device = 0;
        call!(functions, cuDeviceGet(&raw mut device, ordinal as c_int))?;
        let attribute = |number: c_int| -> Result<i32, DeviceError> {
            let mut value = 0;
            call!(functions, cuDeviceGetAttribute(&raw mut value, number, device))?;
            Ok(value)
        };
        let mut name: [c_char; 128] = [0; 128];
        call!(functions, cuDeviceGetName(name.as_mut_ptr(), 127, device))?;
        // SAFETY: the driver terminates the name, and the last byte was never written.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
        if attribute(attribute::VIRTUAL_MEMORY)? == 0 {
            return Err(DeviceError::not_supported(format!(
                "{name} has no virtual memory management, so memory cannot be mapped at given addresses"
            )));
        }
        let capability =
            (attribute(attribute::CAPABILITY_MAJOR)? * 10 + attribute(attribute::CAPABILITY_MINOR)?) as u32;
        if capability < 80 {
            return Err(DeviceError::not_supported(format!(
                "{name} has compute capability {}.{}; 8.0 is the oldest that is supported",
                capability / 10,
                capability % 10
            )));
        }
        let mut uuid = [0; 16];
        call!(functions, cuDeviceGetUuid_v2(&raw mut uuid, device))?;
        let mut bytes = 0;
        call!(functions, cuDeviceTotalMem_v2(&raw mut bytes, device))?;
        let mut context = std::ptr::null_mut();
        call!(functions, cuDevicePrimaryCtxRetain(&raw mut context, device))?;
        call!(functions, cuCtxSetCurrent(context))?;
        CURRENT.set(context as usize);
        let (mut least, mut greatest) = (0, 0);
        call!(functions, cuCtxGetStreamPriorityRange(&raw mut least, &raw mut greatest))?;
        let mut aside = std::ptr::null_mut();
        call!(functions, cuStreamCreateWithPriority(&raw mut aside, STREAM_NON_BLOCKING, greatest))?;
        Ok(Gpu {
            functions: Arc::clone(functions),
            device,
            context: context as usize,
            aside: aside as usize,
            name,
            uuid,
            memory_bytes: bytes as u64,
            capability,
            multiprocessors: attribute(attribute::MULTIPROCESSORS)? as u32,
            priorities: (least, greatest),
        })
    }

    /// Makes the GPU's context current on this thread.
    #[inline]
    pub(crate) fn enter(&self) -> Result<(), DeviceError> {
        if CURRENT.get() == self.context {
            return Ok(());
        }
        call!(self.functions, cuCtxSetCurrent(self.context as CuContext))?;
        CURRENT.set(self.context);
        Ok(())
    }

    /// A device attribute; 0 if the driver does not know it.
    pub(crate) fn attribute(&self, number: c_int) -> i32 {
        let mut value = 0;
        let _ = call!(self.functions, cuDeviceGetAttribute(&raw mut value, number, self.device));
        value
    }

    /// Stream for work that is not ordered with any stream of the session.
    pub(crate) fn aside(&self) -> CuStream {
        self.aside as CuStream
    }

    /// Free and total bytes of memory.
    pub(crate) fn memory(&self) -> Result<(u64, u64), DeviceError> {
        self.enter()?;
        let (mut free, mut total) = (0, 0);
        call!(self.functions, cuMemGetInfo_v2(&raw mut free, &raw mut total))?;
        Ok((free as u64, total as u64))
    }

    /// Returns the error of a context that a kernel has ended.
    pub(crate) fn health(&self) -> Result<(), DeviceError> {
        self.enter()?;
        // SAFETY: the stream lives as long as the context.
        match unsafe { (self.functions.cuStreamQuery)(self.aside()) } {
            NOT_READY => Ok(()),
            status => self.functions.check("cuStreamQuery", status),
        }
    }

    /// Waits for the work on the stream aside.
    pub(crate) fn finish_aside(&self) -> Result<(), DeviceError> {
        call!(self.functions, cuStreamSynchronize(self.aside()))
    }

    /// Copies pinned memory to the device, on the stream aside.
    pub(crate) fn write_aside(&self, to: u64, from: *const c_void, bytes: usize) -> Result<(), DeviceError> {
        self.enter()?;
        call!(self.functions, cuMemcpyHtoDAsync_v2(to, from, bytes, self.aside()))
    }

    /// Copies device memory to pinned memory, on the stream aside.
    pub(crate) fn read_aside(&self, to: *mut c_void, from: u64, bytes: usize) -> Result<(), DeviceError> {
        self.enter()?;
        call!(self.functions, cuMemcpyDtoHAsync_v2(to, from, bytes, self.aside()))
    }

    /// Fills memory with zeros and waits until that is done.
    pub(crate) fn zero(&self, address: u64, bytes: u64) -> Result<(), DeviceError> {
        self.enter()?;
        call!(self.functions, cuMemsetD8Async(address, 0, bytes as usize, self.aside()))?;
        self.finish_aside()
    }
}
