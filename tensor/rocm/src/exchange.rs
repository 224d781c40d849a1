//! Memory shared with other users of the same HIP runtime in this process, such as libraries that exchange arrays by DLPack.

use std::ffi::c_void;
use std::sync::Arc;

use hip_api::types::{
    hipDeviceAttributeConcurrentManagedAccess, hipDeviceAttributeHostNativeAtomicSupported,
    hipMemcpyDeviceToDevice, hipPointerAttribute_t, hipStream_t,
};
use tensor_core::device::{Buffer, Device};
use tensor_core::error::DeviceError;

use crate::device::RocmDevice;
use crate::library::call;
use crate::memory::address_of;
use crate::stream::Stream;

/// Device memory that another library uses too. Keeps it allocated; when dropped, the device waits for the other library's work.
#[derive(Debug)]
pub struct Lent {
    buffer: Buffer,
    stream: Arc<Stream>,
    user: User,
}

/// The stream on which another library uses the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// The default stream of the device.
    Default,
    /// A stream with this handle.
    Stream(u64),
    /// The other library orders its work by itself.
    Unordered,
}

impl Lent {
    /// The address of the memory in the HIP runtime.
    pub fn address(&self) -> Option<u64> {
        address_of(&*self.buffer)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.stream.select().is_err() {
            return;
        }
        // A failure is ignored: the device is lost then.
        let _ = match self.user {
            User::Default => self.stream.after(std::ptr::null_mut()),
            // The stream may have been destroyed since.
            User::Stream(_) => call!(self.stream.library, runtime.hipDeviceSynchronize()),
            User::Unordered => Ok(()),
        };
    }
}

impl RocmDevice {
    /// The number of the device in the HIP runtime.
    pub fn ordinal(&self) -> u32 {
        self.stream().ordinal
    }

    /// The handle of the stream that orders the work of this device.
    pub fn stream_handle(&self) -> u64 {
        self.stream().handle() as u64
    }

    /// Whether a running kernel and the host see each other's writes to host memory. If not, libraries whose kernels wait for the
    /// host wait forever.
    pub fn sees_host_writes(&self) -> bool {
        let attributes =
            [hipDeviceAttributeHostNativeAtomicSupported, hipDeviceAttributeConcurrentManagedAccess];
        attributes.into_iter().any(|attribute| {
            let (stream, mut value) = (self.stream(), 0);
            let ordinal = stream.ordinal as i32;
            call!(stream.library, runtime.hipDeviceGetAttribute(&mut value, attribute, ordinal)).is_ok()
                && value != 0
        })
    }

    /// Lends memory of this device. Work that the user submits to its stream from now on comes after the work submitted before.
    pub fn lend(&self, buffer: Buffer, user: User) -> Result<Lent, DeviceError> {
        let stream = self.stream();
        stream.select()?;
        match user {
            User::Default => stream.before(std::ptr::null_mut())?,
            User::Stream(handle) => stream.before(handle as hipStream_t)?,
            User::Unordered => {}
        }
        Ok(Lent { buffer, stream: stream.clone(), user })
    }

    /// Checks that an address is memory of this device in the HIP runtime; says what it is if not.
    pub fn check_address(&self, address: u64) -> Result<(), String> {
        let stream = self.stream();
        let mut found = hipPointerAttribute_t::default();
        let known = stream
            .select()
            .and_then(|()| {
                call!(stream.library, runtime.hipPointerGetAttributes(&mut found, address as *const c_void))
            })
            .is_ok();
        if !known {
            stream.forget_error();
        }
        let what = match found.device {
            device if known && device == stream.ordinal as i32 => return Ok(()),
            device if known && device >= 0 => format!("belongs to device {device}, not to {},", self.name()),
            _ => "is unknown".to_owned(),
        };
        Err(format!(
            "address {address:#x} {what} in {:?}, the HIP runtime that pyflame uses; let both libraries open the same runtime \
             (PYFLAME_HIP_LIBRARY), or move the array to the CPU first",
            stream.library
        ))
    }

    /// Copies memory of this device that belongs to another user of the runtime, in the order of this device's stream, and waits.
    pub fn copy_of(&self, address: u64, bytes: usize) -> Result<Buffer, DeviceError> {
        let stream = self.stream();
        stream.select()?;
        let buffer = self.allocate(bytes.max(1))?;
        if let Some(to) = address_of(&*buffer)
            && bytes > 0
        {
            stream.copy(to, address, bytes, hipMemcpyDeviceToDevice)?;
            stream.synchronize()?;
        }
        Ok(buffer)
    }
}
