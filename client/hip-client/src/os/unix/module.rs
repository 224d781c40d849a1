//! The shared object that this code is in.

use std::ffi::{CStr, c_char, c_void};

/// DT_SONAME of the shared object that contains this code.
pub fn own_name() -> Option<String> {
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
    let own = own_name as *const c_void;
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
