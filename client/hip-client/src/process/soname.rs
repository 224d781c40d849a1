//! The SONAME of this copy of the library: the program's HIP version decides a few struct and enum layouts.
//!
//! One archive is linked as .so.5, .so.6 and .so.7; the loaded copy reads its own DT_SONAME.

use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;

/// Major version of the HIP runtime that this library replaces: 5, 6 or 7. Without a SONAME (in tests) it is 6.
pub fn hip_major() -> u32 {
    static MAJOR: OnceLock<u32> = OnceLock::new();
    *MAJOR.get_or_init(|| own_soname().as_deref().and_then(major_of).unwrap_or(6))
}

/// Whether this copy is the hiprtc library, which has a separate session from the runtime's.
pub fn is_hiprtc() -> bool {
    own_soname().is_some_and(|soname| soname.starts_with("libhiprtc"))
}

fn major_of(soname: &str) -> Option<u32> {
    let (name, version) = soname.split_once(".so.")?;
    if !name.starts_with("libamdhip64") && !name.starts_with("libhiprtc") {
        return None;
    }
    version.split('.').next()?.parse().ok().filter(|major| (5..=7).contains(major))
}

/// DT_SONAME of the shared object that contains this code.
fn own_soname() -> Option<String> {
    const DT_NULL: i64 = 0;
    const DT_STRTAB: i64 = 5;
    const DT_SONAME: i64 = 14;
    const RTLD_DL_LINKMAP: i32 = 2;

    #[repr(C)]
    struct LinkMap {
        base: usize,
        name: *const c_char,
        dynamic: *const [i64; 2],
    }
    unsafe extern "C" {
        fn dladdr1(
            address: *const c_void,
            info: *mut libc::Dl_info,
            extra: *mut *mut c_void,
            flags: i32,
        ) -> i32;
    }

    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let mut map: *mut c_void = std::ptr::null_mut();
    let own = own_soname as *const c_void;
    // SAFETY: `info` and `map` are valid for writes; the address lies in this object.
    let found = unsafe { dladdr1(own, info.as_mut_ptr(), &mut map, RTLD_DL_LINKMAP) };
    if found == 0 || map.is_null() {
        return None;
    }
    // SAFETY: RTLD_DL_LINKMAP yields the loader's link_map, whose first three fields are fixed by the ABI. The object
    // stays loaded while its own code runs.
    let mut entry = unsafe { (*map.cast::<LinkMap>()).dynamic };
    let (mut strings, mut soname) = (None, None);
    if entry.is_null() {
        return None;
    }
    loop {
        // SAFETY: the dynamic section ends with DT_NULL and is mapped.
        let [tag, value] = unsafe { *entry };
        match tag {
            DT_NULL => break,
            DT_STRTAB => strings = Some(value as usize),
            DT_SONAME => soname = Some(value as usize),
            _ => {}
        }
        // SAFETY: DT_NULL was not reached yet.
        entry = unsafe { entry.add(1) };
    }
    let text = (strings? + soname?) as *const c_char;
    // SAFETY: glibc relocates DT_STRTAB in place; DT_SONAME indexes a NUL-terminated string in it.
    unsafe { CStr::from_ptr(text) }.to_str().ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soname_decides_the_hip_generation() {
        assert_eq!(major_of("libamdhip64.so.5"), Some(5));
        assert_eq!(major_of("libamdhip64.so.7"), Some(7));
        assert_eq!(major_of("libhiprtc.so.7.2.1"), Some(7));
        assert_eq!(major_of("libc.so.6"), None);
        assert_eq!(major_of("libamdhip64.so"), None);
        assert_eq!(major_of("libamdhip64.so.9"), None);
    }

    #[test]
    fn a_program_without_a_soname_counts_as_hip_6() {
        assert_eq!(hip_major(), 6);
    }
}
