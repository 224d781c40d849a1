//! Kernel launches with a packed argument buffer.

use std::ffi::c_void;

use backend::{DeviceError, Launch};
use hip_api::types::{hipErrorCooperativeLaunchTooLarge, hipEvent_t, hipFunction_t, hipStream_t};

use crate::error::call;
use crate::functions::Functions;

/// Keys of the `extra` array: argument buffer, its size, end.
const BUFFER_POINTER: usize = 1;
const BUFFER_SIZE: usize = 2;
const END: usize = 3;

pub(crate) fn launch(
    functions: &Functions,
    function: hipFunction_t,
    stream: hipStream_t,
    launch: &mut Launch,
    start: hipEvent_t,
    stop: hipEvent_t,
) -> Result<(), DeviceError> {
    if launch.cooperative {
        // The runtime's cooperative launch takes an array of argument pointers, and the argument layout is not known here.
        let text = "cooperative launches are not supported on AMD's runtime";
        return Err(DeviceError::new(hipErrorCooperativeLaunchTooLarge, text));
    }
    let mut size = launch.arguments.len();
    let mut extra: [*mut c_void; 5] = [
        BUFFER_POINTER as *mut c_void,
        launch.arguments.as_mut_ptr().cast(),
        BUFFER_SIZE as *mut c_void,
        (&raw mut size).cast(),
        END as *mut c_void,
    ];
    let [gx, gy, gz] = launch.grid;
    let [bx, by, bz] = launch.block;
    call!(
        functions,
        hipExtModuleLaunchKernel(
            function,
            gx,
            gy,
            gz,
            bx,
            by,
            bz,
            launch.shared_bytes as usize,
            stream,
            std::ptr::null_mut(),
            extra.as_mut_ptr(),
            start,
            stop,
            0
        )
    )
}
