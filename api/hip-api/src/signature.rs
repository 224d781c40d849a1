//! C signatures of the table's rows: one function-pointer type per function, under the function's name, and
//! [`hip_functions!`](crate::hip_functions), which declares a struct of such pointers.

#![allow(non_camel_case_types, non_snake_case, reason = "the names are HIP's own")]

use core::ffi::CStr;
use core::fmt;

use crate::types::*;

macro_rules! signatures {
    ($($family:ident { $(
        [$number:literal $node:literal ($($soname:literal)*) $class:ident]
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;
    )* })*) => { $($(
        #[doc = concat!("C signature of `", stringify!($name), "`.")]
        pub type $name = unsafe extern "C" fn($($arg: $ty),*) -> $ret;
    )*)* };
}

crate::for_each_hip_fn! { signatures }

/// The error for a library that lacks a required function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingFunction {
    /// The symbol that was not found.
    pub name: &'static str,
}

impl fmt::Display for MissingFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the library does not export {}", self.name)
    }
}

impl std::error::Error for MissingFunction {}

/// Declares a struct of HIP function pointers, with the signatures of the table and a loader.
///
/// The loader is `unsafe fn resolve(lookup)`, where `lookup` returns the address of a symbol, or null if there is none. With
/// `required`, the fields are function pointers and `resolve` fails with a [`MissingFunction`](crate::signature::MissingFunction);
/// with `optional`, the fields are `Option`s of them.
///
/// ```
/// hip_api::hip_functions! {
///     /// The functions that this program needs.
///     #[derive(Debug)]
///     struct Hip { required: hipMalloc, hipFree }
/// }
///
/// // SAFETY: no address is returned.
/// let missing = unsafe { Hip::resolve(|_| std::ptr::null_mut()) };
/// assert_eq!(missing.unwrap_err().name, "hipMalloc");
/// ```
#[macro_export]
macro_rules! hip_functions {
    ($(#[$meta:meta])* $visibility:vis struct $table:ident { required: $($name:ident),* $(,)? }) => {
        $(#[$meta])*
        #[allow(non_snake_case, reason = "the names are HIP's own")]
        $visibility struct $table {
            $(#[doc = concat!("`", stringify!($name), "`")] pub $name: $crate::signature::$name,)*
        }

        impl $table {
            /// Resolves the functions by name.
            ///
            /// # Safety
            ///
            /// `lookup` returns null, or the address of the HIP function with this name, in a library that stays loaded as long as
            /// the functions are called.
            $visibility unsafe fn resolve(
                mut lookup: impl FnMut(&'static ::core::ffi::CStr) -> *mut ::core::ffi::c_void,
            ) -> ::core::result::Result<Self, $crate::signature::MissingFunction> {
                ::core::result::Result::Ok($table { $(
                    $name: $crate::hip_functions!(@pointer lookup, $name)
                        .ok_or($crate::signature::MissingFunction { name: stringify!($name) })?,
                )* })
            }
        }
    };
    ($(#[$meta:meta])* $visibility:vis struct $table:ident { optional: $($name:ident),* $(,)? }) => {
        $(#[$meta])*
        #[allow(non_snake_case, reason = "the names are HIP's own")]
        $visibility struct $table {
            $(
                #[doc = concat!("`", stringify!($name), "`")]
                pub $name: ::core::option::Option<$crate::signature::$name>,
            )*
        }

        impl $table {
            /// Resolves the functions by name.
            ///
            /// # Safety
            ///
            /// `lookup` returns null, or the address of the HIP function with this name, in a library that stays loaded as long as
            /// the functions are called.
            $visibility unsafe fn resolve(
                mut lookup: impl FnMut(&'static ::core::ffi::CStr) -> *mut ::core::ffi::c_void,
            ) -> Self {
                $table { $($name: $crate::hip_functions!(@pointer lookup, $name),)* }
            }
        }
    };
    (@pointer $lookup:ident, $name:ident) => {{
        const NAME: &::core::ffi::CStr =
            $crate::signature::terminated(concat!(stringify!($name), "\0"));
        let address = $lookup(NAME);
        // SAFETY: the caller of `resolve` promises null, which is `None`, or the function with this name; the table has its C
        // signature, which a test compares with the vendor's header.
        unsafe {
            ::core::mem::transmute::<
                *mut ::core::ffi::c_void,
                ::core::option::Option<$crate::signature::$name>,
            >(address)
        }
    }};
}

/// A NUL-terminated literal as a C string, for [`hip_functions!`](crate::hip_functions).
#[doc(hidden)]
pub const fn terminated(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("not terminated by exactly one NUL"),
    }
}

#[cfg(test)]
mod tests {
    use core::ffi::{CStr, c_void};
    use core::ptr;

    use crate::types::{hipError_t, hipSuccess};

    crate::hip_functions! {
        #[derive(Debug)]
        struct Required { required: hipDeviceSynchronize, hipDeviceReset }
    }

    crate::hip_functions! {
        #[derive(Debug)]
        struct Optional { optional: hipDeviceSynchronize, hipDeviceReset }
    }

    unsafe extern "C" fn succeed() -> hipError_t {
        hipSuccess
    }

    /// A library that has only one of the two functions.
    fn lookup(name: &CStr) -> *mut c_void {
        if name == c"hipDeviceSynchronize" { succeed as *mut c_void } else { ptr::null_mut() }
    }

    #[test]
    fn functions_are_called_through_the_addresses_of_their_symbols() {
        // SAFETY: both functions have the signature of `succeed`.
        let all = unsafe { Required::resolve(|_| succeed as *mut c_void) }.unwrap();
        // SAFETY: they take no arguments.
        assert_eq!(unsafe { [(all.hipDeviceSynchronize)(), (all.hipDeviceReset)()] }, [hipSuccess; 2]);
    }

    #[test]
    fn an_optional_function_may_be_missing_and_a_required_one_is_named() {
        // SAFETY: the function that is found has the signature of `succeed`.
        let (optional, required) = unsafe { (Optional::resolve(lookup), Required::resolve(lookup)) };
        assert!(optional.hipDeviceSynchronize.is_some() && optional.hipDeviceReset.is_none());
        assert_eq!(required.unwrap_err().to_string(), "the library does not export hipDeviceReset");
    }
}
