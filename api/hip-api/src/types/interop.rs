//! External memory, external semaphores and OpenGL.

use super::{c_uint, c_void, hipExternalSemaphoreSignalParams, hipExternalSemaphoreWaitParams};
use crate::ctype::{c_enums, c_structs};

pub type hipExternalMemory_t = *mut c_void;
pub type hipExternalSemaphore_t = *mut c_void;
pub type GLuint = c_uint;
pub type GLenum = c_uint;

c_enums! {
    /// Selects the devices that hipGLGetDevices lists.
    hipGLDeviceList {
        hipGLDeviceListAll = 1,
        hipGLDeviceListCurrentFrame = 2,
        hipGLDeviceListNextFrame = 3,
    }
}

c_structs! {
    /// A buffer inside external memory.
    hipExternalMemoryBufferDesc {
        offset: u64,
        size: u64,
        flags: c_uint,
        reserved: [c_uint; 16],
    }
    /// Parameters of a semaphore signal node.
    hipExternalSemaphoreSignalNodeParams {
        extSemArray: *mut hipExternalSemaphore_t,
        paramsArray: *const hipExternalSemaphoreSignalParams,
        numExtSems: c_uint,
    }
    /// Parameters of a semaphore wait node.
    hipExternalSemaphoreWaitNodeParams {
        extSemArray: *mut hipExternalSemaphore_t,
        paramsArray: *const hipExternalSemaphoreWaitParams,
        numExtSems: c_uint,
    }
}
