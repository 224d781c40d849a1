//! C++ names of kernels as people wrote them.

use std::ffi::{c_char, c_void};

/// Demangles a C++ name, if the program has a C++ runtime.
pub fn demangled(name: &str) -> String {
    type Demangle =
        unsafe extern "C" fn(*const c_char, *mut c_char, *mut usize, *mut std::ffi::c_int) -> *mut c_char;
    let Ok(mangled) = std::ffi::CString::new(name.strip_suffix(".kd").unwrap_or(name)) else {
        return name.to_owned();
    };
    // SAFETY: the C++ ABI defines this signature for the function.
    let demangle: Option<Demangle> = unsafe {
        std::mem::transmute::<*mut c_void, Option<Demangle>>(libc::dlsym(
            libc::RTLD_DEFAULT,
            c"__cxa_demangle".as_ptr(),
        ))
    };
    let Some(demangle) = demangle.filter(|_| name.starts_with("_Z")) else { return name.to_owned() };
    let mut status = 0;
    // SAFETY: a NUL-terminated name; the result is null or a malloc'ed string that the caller frees.
    unsafe {
        let text = demangle(mangled.as_ptr(), std::ptr::null_mut(), std::ptr::null_mut(), &raw mut status);
        if text.is_null() {
            return name.to_owned();
        }
        let demangled = std::ffi::CStr::from_ptr(text).to_string_lossy().into_owned();
        libc::free(text.cast());
        demangled
    }
}
