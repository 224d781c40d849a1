//! Formats the arguments of a call as JSON members for the trace.
//!
//! The format depends on the type: numbers, dimensions, constants by name, kernels by name, addresses; out-pointers are
//! omitted. [`shown!`] tries three traits in order, so that the function table does not have to specify the format of
//! each argument.

use std::ffi::c_void;
use std::fmt::Debug;

use hip_api::types::*;

use crate::os::demangle::demangled;
use crate::state::{registry, runtime};
use crate::telemetry::members::Members;

/// Structs are truncated to this many characters.
const STRUCT_LETTERS: usize = 96;

/// Formats one argument according to its type.
macro_rules! shown {
    ($out:expr, $name:expr, $value:expr) => {{
        #[allow(unused_imports, reason = "the type decides which of them is used")]
        use $crate::abi::arguments::{ShownAsDebug, ShownAsNothing, ShownAsSuch};
        (&&&$crate::abi::arguments::Shown($value)).show($name, $out)
    }};
}
pub(crate) use shown;

#[derive(Debug)]
pub struct Shown<T>(pub T);

/// Tried first: types with a specific format.
pub trait ShownAsSuch {
    fn show(&self, name: &str, out: &mut Members);
}

/// Tried next: pointers to input or output memory, which are omitted.
pub trait ShownAsNothing {
    fn show(&self, _name: &str, _out: &mut Members) {}
}

/// Tried last: constants, by name, and small structs.
pub trait ShownAsDebug {
    fn show(&self, name: &str, out: &mut Members);
}

macro_rules! numbers {
    ($($ty:ty)*) => { $(
        impl ShownAsSuch for &&Shown<$ty> {
            fn show(&self, name: &str, out: &mut Members) {
                out.number(name, self.0);
            }
        }
    )* };
}

numbers! { u8 u16 u32 u64 usize i32 i64 bool }

impl ShownAsSuch for &&Shown<f32> {
    fn show(&self, name: &str, out: &mut Members) {
        if self.0.is_finite() {
            out.number(name, self.0);
        }
    }
}

impl ShownAsSuch for &&Shown<dim3> {
    fn show(&self, name: &str, out: &mut Members) {
        let dim3 { x, y, z } = self.0;
        out.number(name, format_args!("[{x},{y},{z}]"));
    }
}

macro_rules! handles {
    ($($ty:ty)*) => { $(
        impl ShownAsSuch for &&Shown<$ty> {
            fn show(&self, name: &str, out: &mut Members) {
                out.address(name, self.0 as usize);
            }
        }
    )* };
}

handles! { hipStream_t hipEvent_t hipGraphExec_t hipGraph_t hipModule_t *mut c_void }

impl ShownAsSuch for &&Shown<*const c_void> {
    fn show(&self, name: &str, out: &mut Members) {
        let address = self.0 as usize;
        // Kernel launches and kernel queries pass the address of the host stub.
        match registry::function(address) {
            Some(symbol) => out.string("kernel", &demangled(&symbol.name())),
            None => out.address(name, address),
        }
    }
}

impl ShownAsSuch for &&Shown<hipFunction_t> {
    fn show(&self, name: &str, out: &mut Members) {
        let found = runtime::existing().and_then(|runtime| runtime.tables.functions.get(self.0 as u64));
        match found {
            Some(function) => out.string("kernel", &demangled(&function.kernel.name)),
            None => out.address(name, self.0 as usize),
        }
    }
}

impl<T> ShownAsNothing for &Shown<*mut T> {}
impl<T> ShownAsNothing for &Shown<*const T> {}

impl<T: Debug> ShownAsDebug for Shown<T> {
    fn show(&self, name: &str, out: &mut Members) {
        let text: String = format!("{:?}", self.0).chars().take(STRUCT_LETTERS).collect();
        out.string(name, &text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_shown_by_their_type() {
        let mut out = Members::default();
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
}
