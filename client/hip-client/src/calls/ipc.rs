//! Memory shared between processes that use the same worker. A handle contains an unforgeable token of the worker; any
//! process that has it can open the memory, as with a driver's handles.

use std::ffi::{c_char, c_uint, c_void};

use hip_api::types::*;

use super::{Status, set};
use crate::process::soname;
use crate::state::memory::Kind;
use crate::state::runtime::{Runtime, runtime};

/// The contents of a 64-byte handle: token, offset of the pointer in its allocation, session.
#[derive(Clone, Copy)]
struct Handle {
    token: [u8; 32],
    offset: u64,
    session: u64,
}

/// Identifies our handles.
const MAGIC: u64 = 0x0163_7069_6f72_6d72;

impl Handle {
    fn to_bytes(self) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes[..32].copy_from_slice(&self.token);
        for (index, word) in [MAGIC, self.offset, self.session].iter().enumerate() {
            bytes[32 + index * 8..][..8].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8; 64]) -> Option<Handle> {
        let word = |index: usize| bytes[32 + index * 8..].first_chunk().copied().map(u64::from_le_bytes);
        let token = *bytes.first_chunk()?;
        let handle = Handle { token, offset: word(1)?, session: word(2)? };
        (word(0)? == MAGIC).then_some(handle)
    }
}

/// Shares the allocation that contains an address.
fn share(runtime: &Runtime, address: u64) -> Result<[u8; 64], hipError_t> {
    let found = runtime.memory.find(address).ok_or(hipErrorInvalidValue)?;
    let token = match found.kind {
        Kind::Device => runtime.call(&wire::ShareAllocation { address: found.start })?.token,
        // Memory of hipMemCreate, the only kind that real GPUs share.
        Kind::Virtual => {
            let memory = runtime.retain_physical(address)?;
            let shared = runtime.call(&wire::ShareMemory { memory });
            runtime.release_physical(memory)?;
            shared?.token
        }
        _ => return Err(hipErrorInvalidValue),
    };
    let handle = Handle { token, offset: address - found.start, session: runtime.session };
    Ok(handle.to_bytes())
}

/// Opens a handle made by [`share`] in another process.
fn open(runtime: &Runtime, bytes: &[u8; 64]) -> Result<u64, hipError_t> {
    let handle = Handle::from_bytes(bytes).ok_or(hipErrorInvalidValue)?;
    if handle.session == runtime.session {
        return Err(hipErrorInvalidContext);
    }
    runtime.open_shared(handle.token, handle.offset)
}

pub unsafe fn hipIpcGetMemHandle(handle: *mut hipIpcMemHandle_t, pointer: *mut c_void) -> Status {
    if handle.is_null() || pointer.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let bytes = share(runtime()?, pointer as u64)?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(handle, hipIpcMemHandle_t { reserved: bytes.map(|byte| byte as c_char) }) }
}

pub unsafe fn hipIpcOpenMemHandle(
    pointer: *mut *mut c_void,
    handle: hipIpcMemHandle_t,
    flags: c_uint,
) -> Status {
    // The only flag is mandatory; in HIP 5 it is 0.
    let flag = if soname::hip_major() < 6 { 0 } else { hipIpcMemLazyEnablePeerAccess };
    if pointer.is_null() || flags != flag {
        return Err(hipErrorInvalidValue);
    }
    let opened = open(runtime()?, &handle.reserved.map(|byte| byte as u8))?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(pointer, opened as *mut c_void) }
}

pub unsafe fn hipIpcCloseMemHandle(pointer: *mut c_void) -> Status {
    if pointer.is_null() {
        return Err(hipErrorInvalidValue);
    }
    runtime()?.close_shared(pointer as u64)
}

/// The 64 bytes that identify a pool's allocation to another process.
pub(super) fn export_pointer(runtime: &Runtime, address: u64) -> Result<hipMemPoolPtrExportData, hipError_t> {
    Ok(hipMemPoolPtrExportData { reserved: share(runtime, address)? })
}

pub(super) fn import_pointer(runtime: &Runtime, data: &hipMemPoolPtrExportData) -> Result<u64, hipError_t> {
    open(runtime, &data.reserved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_survives_its_64_bytes_and_others_are_refused() {
        let handle = Handle { token: [9; 32], offset: 4096, session: 77 };
        let back = Handle::from_bytes(&handle.to_bytes()).unwrap();
        assert_eq!((back.token, back.offset, back.session), ([9; 32], 4096, 77));
        assert!(Handle::from_bytes(&[0; 64]).is_none());
    }
}
