//! The audit library of `remora run`: makes the dynamic linker load Remora's `libamdhip64` wherever a program names one.
//!
//! `LD_LIBRARY_PATH` is not enough. A DT_RPATH takes precedence over it, and a `dlopen` of an absolute path ignores it; wheels of
//! PyTorch and others have both. The dynamic linker passes an audit library (`LD_AUDIT`, rtld-audit(7)) every name it is about to
//! search, and every object it has loaded. This one replaces the names of `libamdhip64` and `libhiprtc`, and prints a line if
//! another `libamdhip64` was loaded nevertheless.
//!
//! Every process below `remora run` loads it, HIP program or not, so it must cost almost nothing: no libc (a second copy would be
//! loaded, because audit libraries have a separate linker namespace), no allocation, no thread-local storage, a few system calls.
//! It defines no `la_symbind` and no `la_pltenter`, so it does not slow down calls between libraries.

#![cfg_attr(not(test), no_std)]

pub mod elf;
pub mod name;
pub mod system;

pub mod take_over;

#[cfg(feature = "standalone")]
mod entry;
