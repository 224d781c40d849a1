//! The audit library of `remora run`: makes the dynamic linker load Remora's `libamdhip64` wherever a program names one.
//!
//! `LD_LIBRARY_PATH` is not enough. A DT_RPATH has precedence over it, and a `dlopen` of an absolute path does not use it; wheels of
//! PyTorch and others have both. The dynamic linker asks an audit library (`LD_AUDIT`, rtld-audit(7)) for every name it is about
//! to search, and reports every object it has loaded. This one replaces the names of `libamdhip64` and `libhiprtc`, and prints a
//! line if another `libamdhip64` was loaded all the same.
//!
//! Every process below `remora run` loads it, HIP program or not, so it must cost next to nothing: no libc (a second one would be
//! loaded, because audit libraries have a namespace of their own), no allocation, no thread-local storage, a few system calls. It
//! defines no `la_symbind` and no `la_pltenter`, so calls between libraries cost what they cost without it.

#![cfg_attr(not(test), no_std)]

pub mod elf;
pub mod name;
pub mod system;

pub mod take_over;

#[cfg(feature = "standalone")]
mod entry;
