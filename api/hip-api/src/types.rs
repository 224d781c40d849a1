//! The C types of HIP under the vendor's names, laid out as in the vendor's HIP 7 header.
//!
//! Contains every type that appears in a row of the table. Enumerations are transparent integers, so that a value unknown to this
//! version is passed through and is not undefined behaviour. Structs that no implemented function reads are opaque.

#![allow(
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    missing_docs,
    reason = "names are HIP's own; see HIP's documentation"
)]

mod device;
mod graph;
mod handle;
mod interop;
mod launch;
mod memory;
mod properties;
mod status;
mod stream;
mod texture;

pub use core::ffi::{c_char, c_int, c_uint, c_void};

pub use device::*;
pub use graph::*;
pub use handle::*;
pub use interop::*;
pub use launch::*;
pub use memory::*;
pub use properties::*;
pub use status::*;
pub use stream::*;
pub use texture::*;

use crate::ctype::{Enumeration, Layout};

/// All structs and unions with their layout.
pub fn layouts() -> impl Iterator<Item = &'static Layout> {
    [
        device::LAYOUTS,
        graph::LAYOUTS,
        interop::LAYOUTS,
        launch::LAYOUTS,
        launch::UNIONS,
        graph::UNIONS,
        memory::LAYOUTS,
        properties::LAYOUTS,
        texture::LAYOUTS,
    ]
    .into_iter()
    .flatten()
}

/// All enumerations with their constants.
pub fn enumerations() -> impl Iterator<Item = &'static Enumeration> {
    [
        device::ENUMERATIONS,
        graph::ENUMERATIONS,
        interop::ENUMERATIONS,
        launch::ENUMERATIONS,
        memory::ENUMERATIONS,
        status::ENUMERATIONS,
        stream::ENUMERATIONS,
        texture::ENUMERATIONS,
    ]
    .into_iter()
    .flatten()
}

/// All flag macros with their values.
pub fn flags() -> impl Iterator<Item = &'static (&'static str, u32)> {
    [device::FLAGS, launch::FLAGS, memory::FLAGS, stream::FLAGS, texture::FLAGS].into_iter().flatten()
}
