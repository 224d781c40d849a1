//! Parser for AMD GPU program containers: offload bundles (plain and compressed), code object ELF files, kernel descriptors and
//! the MessagePack metadata that describes kernel arguments.
//!
//! It only parses, and derives the occupancy of kernels: it does not load, relocate or run anything, and it is independent of the
//! runtime. All input is untrusted: offsets are checked, sizes are subject to the [`limits`] below, and an invalid file is an
//! [`Error`], never a panic. ELF files of other machines, relocatable objects, and code objects older than version 3 are rejected.

#![warn(missing_docs)]

mod bundle;
mod compressed;
mod descriptor;
mod elf;
mod error;
mod extent;
mod fat_binary;
mod host;
mod kernel;
pub mod limits;
mod metadata;
mod module;
mod occupancy;
mod source_lines;
mod target;

pub use bundle::{BundleEntry, parse_bundle};
pub use descriptor::Descriptor;
pub use elf::{ImageBytes, Relocation, RelocationKind, RelocationTarget, Segment, Symbol, SymbolKind};
pub use error::Error;
pub use extent::{container_size, fat_binary_size};
pub use fat_binary::{Entry, FatBinary};
pub use host::embedded_targets;
pub use kernel::{AddressSpace, Arg, ArgKind, Kernel};
pub use module::CodeObject;
pub use occupancy::{Occupancy, Resources};
pub use source_lines::{SourceLine, SourceLines};
pub use target::{Feature, TargetId};
