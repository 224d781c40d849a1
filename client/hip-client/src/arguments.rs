//! Formats the arguments of a call as JSON members for the trace.
//!
//! The format depends on the type: numbers, dimensions, constants by name, kernels by name, addresses; out-pointers are
//! omitted. [`shown!`] tries three traits in order, so that the function table does not have to specify the format of
//! each argument.

use std::ffi::c_void;
use std::fmt::{Debug, Write};

use hip_api::types::*;

use crate::{registry, runtime};

/// Members of a JSON object, each preceded by a comma.
#[derive(Debug, Default)]
pub struct Arguments {
    pub text: String,
}

/// Names are truncated to this many characters.
const NAME_LETTERS: usize = 1024;
/// Structs are truncated to this many characters.
const STRUCT_LETTERS: usize = 96;

impl Arguments {
    pub fn number(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = write!(self.text, ",\"{name}\":{value}");
    }

    pub fn string(&mut self, name: &str, value: &str) {
        let _ = write!(self.text, ",\"{name}\":\"");
        escape(&mut self.text, value);
        self.text.push('"');
    }

    fn address(&mut self, name: &str, value: usize) {
        let _ = write!(self.text, ",\"{name}\":\"{value:#x}\"");
    }
}

/// Appends text, escaped for a JSON string.
pub fn escape(to: &mut String, text: &str) {
    for c in text.chars().take(NAME_LETTERS) {
        match c {
            '"' | '\\' => to.extend(['\\', c]),
            c if (c as u32) < 0x20 => {
                let _ = write!(to, "\\u{:04x}", c as u32);
            }
            c => to.push(c),
        }
    }
}

/// Formats one argument according to its type.
macro_rules! shown {
    ($out:expr, $name:expr, $value:expr) => {{
        #[allow(unused_imports, reason = "which of them is used depends on the type")]
        use $crate::arguments::{ShownAsDebug, ShownAsNothing, ShownAsSuch};
        (&&&$crate::arguments::Shown($value)).show($name, $out)
    }};
}
pub(crate) use shown;

#[derive(Debug)]
pub struct Shown<T>(pub T);

/// Tried first: types with a specific format.
pub trait ShownAsSuch {
    fn show(&self, name: &str, out: &mut Arguments);
}

/// Tried next: pointers to input or output memory, which are omitted.
pub trait ShownAsNothing {
    fn show(&self, _name: &str, _out: &mut Arguments) {}
}

/// Tried last: constants, by name, and small structs.
pub trait ShownAsDebug {
    fn show(&self, name: &str, out: &mut Arguments);
}

macro_rules! numbers {
    ($($ty:ty)*) => { $(
        impl ShownAsSuch for &&Shown<$ty> {
            fn show(&self, name: &str, out: &mut Arguments) {
                out.number(name, self.0);
            }
        }
    )* };
}

numbers! { u8 u16 u32 u64 usize i32 i64 bool }

impl ShownAsSuch for &&Shown<f32> {
    fn show(&self, name: &str, out: &mut Arguments) {
        if self.0.is_finite() {
            out.number(name, self.0);
        }
    }
}

impl ShownAsSuch for &&Shown<dim3> {
    fn show(&self, name: &str, out: &mut Arguments) {
        let dim3 { x, y, z } = self.0;
        out.number(name, format_args!("[{x},{y},{z}]"));
    }
}

macro_rules! handles {
    ($($ty:ty)*) => { $(
        impl ShownAsSuch for &&Shown<$ty> {
            fn show(&self, name: &str, out: &mut Arguments) {
                out.address(name, self.0 as usize);
            }
        }
    )* };
}

handles! { hipStream_t hipEvent_t hipGraphExec_t hipGraph_t hipModule_t *mut c_void }

impl ShownAsSuch for &&Shown<*const c_void> {
    fn show(&self, name: &str, out: &mut Arguments) {
        let address = self.0 as usize;
        // Kernel launches and kernel queries pass the address of the host stub.
        match registry::function(address) {
            Some(symbol) => out.string("kernel", &demangled(&symbol.name())),
            None => out.address(name, address),
        }
    }
}

impl ShownAsSuch for &&Shown<hipFunction_t> {
    fn show(&self, name: &str, out: &mut Arguments) {
        let found = runtime::existing().and_then(|runtime| runtime.functions.get(self.0 as u64));
        match found {
            Some(function) => out.string("kernel", &demangled(&function.kernel.name)),
            None => out.address(name, self.0 as usize),
        }
    }
}

impl<T> ShownAsNothing for &Shown<*mut T> {}
impl<T> ShownAsNothing for &Shown<*const T> {}

impl<T: Debug> ShownAsDebug for Shown<T> {
    fn show(&self, name: &str, out: &mut Arguments) {
        let text: String = format!("{:?}", self.0).chars().take(STRUCT_LETTERS).collect();
        out.string(name, &text);
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_shown_by_their_type() {
        let mut out = Arguments::default();
        let mut place = 0;
        shown!(&mut out, "size", 64usize);
        shown!(&mut out, "kind", hipMemcpyHostToDevice);
        shown!(&mut out, "grid", dim3::new(1, 2, 3));
        shown!(&mut out, "stream", std::ptr::null_mut() as hipStream_t);
        shown!(&mut out, "dst", 0x1000 as *mut c_void);
        shown!(&mut out, "count", &raw mut place);
        shown!(&mut out, "value", f32::NAN);
        assert_eq!(
            out.text,
            ",\"size\":64,\"kind\":\"hipMemcpyHostToDevice\",\"grid\":[1,2,3],\"stream\":\"0x0\",\"dst\":\"0x1000\""
        );
    }

    #[test]
    fn text_cannot_end_the_string_it_is_in() {
        let mut out = Arguments::default();
        out.string("name", "a\"b\\c\nd");
        assert_eq!(out.text, ",\"name\":\"a\\\"b\\\\c\\u000ad\"");
        out.text.clear();
        out.string("name", &"ä".repeat(2 * NAME_LETTERS));
        assert_eq!(out.text.chars().filter(|c| *c == 'ä').count(), NAME_LETTERS);
    }
}
