//! The linker functions of hiprtc and of the driver-style API: the same functions with different result types.

use std::ffi::{CStr, c_char, c_uint, c_void};

use hip_api::types::*;

use crate::state::linker::{self, LinkError};

/// A result type that a [`LinkError`] is converted to.
trait LinkStatus {
    fn from_link(error: LinkError) -> Self;
    const INVALID: Self;
}

impl LinkStatus for hiprtcResult {
    const INVALID: hiprtcResult = HIPRTC_ERROR_INVALID_INPUT;
    fn from_link(error: LinkError) -> hiprtcResult {
        match error {
            LinkError::Handle | LinkError::Input => HIPRTC_ERROR_INVALID_INPUT,
            LinkError::File => HIPRTC_ERROR_PROGRAM_CREATION_FAILURE,
            LinkError::OutOfMemory => HIPRTC_ERROR_OUT_OF_MEMORY,
            LinkError::Session => HIPRTC_ERROR_INTERNAL_ERROR,
            LinkError::Link => HIPRTC_ERROR_LINKING,
        }
    }
}

impl LinkStatus for hipError_t {
    const INVALID: hipError_t = hipErrorInvalidValue;
    fn from_link(error: LinkError) -> hipError_t {
        match error {
            LinkError::Handle | LinkError::Input | LinkError::File => hipErrorInvalidValue,
            LinkError::OutOfMemory => hipErrorOutOfMemory,
            LinkError::Session => hipErrorNoDevice,
            LinkError::Link => hipErrorInvalidImage,
        }
    }
}

/// Declares the five functions of one API. The options are for another vendor's linker and have no effect here.
macro_rules! linker {
    ($create:ident $add_data:ident $add_file:ident $complete:ident $destroy:ident $state:ty, $error:ty) => {
        pub unsafe fn $create(
            _count: c_uint,
            _options: *mut hipJitOption,
            _values: *mut *mut c_void,
            state: *mut $state,
        ) -> Result<(), $error> {
            if state.is_null() {
                return Err(<$error>::INVALID);
            }
            let made = linker::create().map_err(<$error>::from_link)?;
            // SAFETY: the caller's out-pointer, not null.
            unsafe { state.write(made as $state) };
            Ok(())
        }

        pub unsafe fn $add_data(
            state: $state,
            kind: hipJitInputType,
            data: *mut c_void,
            bytes: usize,
            name: *const c_char,
            _count: c_uint,
            _options: *mut hipJitOption,
            _values: *mut *mut c_void,
        ) -> Result<(), $error> {
            let linker = linker::find(state as u64).map_err(<$error>::from_link)?;
            if data.is_null() || bytes == 0 {
                return Err(<$error>::INVALID);
            }
            // SAFETY: the caller's name, which may be null, and `bytes` bytes of input.
            unsafe {
                let name = if name.is_null() { c"input" } else { CStr::from_ptr(name) };
                let data = std::slice::from_raw_parts(data.cast::<u8>(), bytes);
                linker.add(kind, name.to_string_lossy().into_owned(), data).map_err(<$error>::from_link)
            }
        }

        pub unsafe fn $add_file(
            state: $state,
            kind: hipJitInputType,
            path: *const c_char,
            _count: c_uint,
            _options: *mut hipJitOption,
            _values: *mut *mut c_void,
        ) -> Result<(), $error> {
            let linker = linker::find(state as u64).map_err(<$error>::from_link)?;
            if path.is_null() {
                return Err(<$error>::INVALID);
            }
            // SAFETY: the caller's string, not null.
            let path = unsafe { CStr::from_ptr(path) }.to_string_lossy().into_owned();
            linker.add_file(kind, &path).map_err(<$error>::from_link)
        }

        pub unsafe fn $complete(
            state: $state,
            code: *mut *mut c_void,
            bytes: *mut usize,
        ) -> Result<(), $error> {
            let linker = linker::find(state as u64).map_err(<$error>::from_link)?;
            if code.is_null() || bytes.is_null() {
                return Err(<$error>::INVALID);
            }
            let (start, length) = linker.complete().map_err(<$error>::from_link)?;
            // SAFETY: the caller's out-pointers, not null.
            unsafe {
                code.write(start);
                bytes.write(length);
            }
            Ok(())
        }

        pub unsafe fn $destroy(state: $state) -> Result<(), $error> {
            linker::destroy(state as u64).map_err(<$error>::from_link)
        }
    };
}

linker! { hiprtcLinkCreate hiprtcLinkAddData hiprtcLinkAddFile hiprtcLinkComplete hiprtcLinkDestroy hiprtcLinkState, hiprtcResult }
linker! { hipLinkCreate hipLinkAddData hipLinkAddFile hipLinkComplete hipLinkDestroy hipLinkState_t, hipError_t }
