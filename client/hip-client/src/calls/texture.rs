//! Channel descriptions: plain values. Textures themselves are not supported.

use std::ffi::c_int;

use hip_api::types::*;

pub unsafe fn hipCreateChannelDesc(
    x: c_int,
    y: c_int,
    z: c_int,
    w: c_int,
    f: hipChannelFormatKind,
) -> hipChannelFormatDesc {
    hipChannelFormatDesc { x, y, z, w, f }
}
