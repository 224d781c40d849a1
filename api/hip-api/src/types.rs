//! The C types of HIP under the vendor's own names, laid out as in the vendor's HIP 7 header.
//!
//! Owns every type that appears in a row of the table. Enumerations are transparent integers, so a value that this
//! version does not know is carried, never undefined. Structs that no implemented function reads are opaque.

#![allow(
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    reason = "vendor names stay exact in vendor places"
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

/// Every struct and union with its layout.
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

/// Every enumeration with its constants.
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

/// Every flag macro with its value.
pub fn flags() -> impl Iterator<Item = &'static (&'static str, u32)> {
    [device::FLAGS, launch::FLAGS, memory::FLAGS, stream::FLAGS, texture::FLAGS].into_iter().flatten()
}
