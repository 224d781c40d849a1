//! The C ABI, generated from the API table.
//!
//! Each row becomes one exported function. Implemented rows call the Rust function of the same name in
//! `calls/<family>.rs`, so a row without an implementation does not compile; `absent` rows return an error and report
//! that once.

#![allow(non_snake_case, reason = "exports are named as in HIP")]
#![allow(
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "the contract of each is HIP's own"
)]

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use hip_api::types::*;

use crate::abi::arguments::shown;
use crate::calls;
use crate::state::thread;
use crate::telemetry::members::Members;
use crate::telemetry::{observe, report};

/// Return types of the C functions, with the values for errors that HIP has no code for.
trait Returned {
    /// For `absent` rows.
    const ABSENT: Self;
    /// For a panic that reached the C boundary.
    const BROKEN: Self;
    /// Stores the result for hipGetLastError.
    fn remember(&self) {}
    /// The name of the error, if it is one.
    fn failure(&self) -> Option<&'static str> {
        None
    }
}

impl Returned for hipError_t {
    const ABSENT: hipError_t = hipErrorNotSupported;
    const BROKEN: hipError_t = hipErrorUnknown;
    fn remember(&self) {
        thread::remember(*self);
    }
    fn failure(&self) -> Option<&'static str> {
        (*self != hipSuccess).then(|| self.name()).flatten()
    }
}

impl Returned for hiprtcResult {
    const ABSENT: hiprtcResult = HIPRTC_ERROR_LINKING;
    const BROKEN: hiprtcResult = HIPRTC_ERROR_INTERNAL_ERROR;
}

macro_rules! returned {
    ($($ty:ty = $value:expr),* $(,)?) => { $(
        impl Returned for $ty {
            const ABSENT: $ty = $value;
            const BROKEN: $ty = $value;
        }
    )* };
}

returned! {
    () = (),
    bool = false,
    c_int = -1,
    u16 = 0,
    f32 = 0.0,
    usize = 0,
    *const c_char = std::ptr::null(),
    *mut *mut c_void = std::ptr::null_mut(),
    hipChannelFormatDesc = hipChannelFormatDesc { x: 0, y: 0, z: 0, w: 0, f: hipChannelFormatKindNone },
}

/// Return types of the Rust functions: `Result` for functions with a status, the value itself for the others.
trait Answer<C> {
    /// Whether hipGetLastError should return the result.
    const REMEMBERED: bool = true;
    fn into_c(self) -> C;
}

impl Answer<hipError_t> for calls::Status {
    fn into_c(self) -> hipError_t {
        self.err().unwrap_or(hipSuccess)
    }
}

impl Answer<hipError_t> for thread::LastError {
    const REMEMBERED: bool = false;
    fn into_c(self) -> hipError_t {
        self.0
    }
}

impl Answer<hiprtcResult> for Result<(), hiprtcResult> {
    fn into_c(self) -> hiprtcResult {
        self.err().unwrap_or(HIPRTC_SUCCESS)
    }
}

impl<C: Returned> Answer<C> for C {
    fn into_c(self) -> C {
        self
    }
}

/// Runs one exported call: catches panics, sets the function number for its requests, stores its result, and reports it
/// to the enabled observers. `show` formats its arguments.
#[inline(always)]
fn enter<C: Returned, A: Answer<C>>(
    number: u16,
    name: &'static str,
    show: impl Fn(&mut Members),
    body: impl FnOnce() -> A,
) -> C {
    let mut seen = None;
    if observe::state() != 0 {
        // Moved here so that arguments stay in registers when nothing is observed.
        let show = show;
        seen = observe::begin(number, name, &show);
    }
    let outer = thread::enter_call(number);
    let result = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(answer) => answer.into_c(),
        Err(_) => {
            report::line(format_args!("{name} failed inside the client library; please report this"));
            C::BROKEN
        }
    };
    if A::REMEMBERED {
        result.remember();
    }
    thread::leave_call(outer);
    if let Some(open) = seen {
        observe::end(open, result.failure());
    }
    result
}

macro_rules! export {
    ($($family:ident { $(
        [$number:literal $node:literal ($($soname:literal)*) $class:ident]
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;
    )* })*) => {
        $($( export_one! { $class $family $number fn $name($($arg: $ty),*) -> $ret } )*)*

        /// The exported function with this name, for hipGetProcAddress.
        pub fn address_of(name: &str) -> Option<*mut c_void> {
            match name {
                $($( stringify!($name) => Some($name as *mut c_void), )*)*
                _ => None,
            }
        }
    };
}

macro_rules! export_one {
    (absent $family:ident $number:literal fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> $ret {
            let show = move |_out: &mut Members| { $( shown!(_out, stringify!($arg), $arg); )* };
            enter($number, stringify!($name), show, || {
                report::absent($number, stringify!($name));
                <$ret as Returned>::ABSENT
            })
        }
    };
    ($class:ident $family:ident $number:literal fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> $ret {
            let show = move |_out: &mut Members| { $( shown!(_out, stringify!($arg), $arg); )* };
            // SAFETY: the program calls with HIP's contract for this function, which is also the Rust function's
            // contract.
            enter($number, stringify!($name), show, || unsafe { calls::$family::$name($($arg),*) })
        }
    };
}

hip_api::for_each_hip_fn! { export }
