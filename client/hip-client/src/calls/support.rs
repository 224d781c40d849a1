//! Exports of AMD's library that are not HIP: half conversions for old compilers, and the identity of its debugger interface.

use std::ffi::c_char;

/// Rounds to nearest even.
pub unsafe fn __gnu_f2h_ieee(value: f32) -> u16 {
    half::f16::from_f32(value).to_bits()
}

pub unsafe fn __gnu_h2f_ieee(value: u16) -> f32 {
    half::f16::from_bits(value).to_f32()
}

pub unsafe fn amd_dbgapi_get_build_name() -> *const c_char {
    c"remora".as_ptr()
}

pub unsafe fn amd_dbgapi_get_git_hash() -> *const c_char {
    c"unknown".as_ptr()
}

pub unsafe fn amd_dbgapi_get_build_id() -> usize {
    0
}
