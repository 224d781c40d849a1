//! Channel descriptions: plain values. Textures themselves need image instructions, which these GPUs lack; giving back none is
//! as good as anywhere.

use std::ffi::c_int;

use hip_api::types::*;

use super::Status;

pub unsafe fn hipCreateChannelDesc(
    x: c_int,
    y: c_int,
    z: c_int,
    w: c_int,
    f: hipChannelFormatKind,
) -> hipChannelFormatDesc {
    hipChannelFormatDesc { x, y, z, w, f }
}

pub unsafe fn hipDestroyTextureObject(texture: hipTextureObject_t) -> Status {
    if texture.is_null() { Ok(()) } else { Err(hipErrorNotSupported) }
}

pub unsafe fn hipTexObjectDestroy(texture: hipTextureObject_t) -> Status {
    // SAFETY: a handle that is not followed.
    unsafe { hipDestroyTextureObject(texture) }
}

pub unsafe fn hipDestroySurfaceObject(surface: hipSurfaceObject_t) -> Status {
    if surface.is_null() { Ok(()) } else { Err(hipErrorInvalidValue) }
}
