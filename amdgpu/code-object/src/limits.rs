//! The largest sizes a container may claim. Far above anything compilers emit, far below anything that
//! could exhaust a machine by claim alone.

/// Bytes of one image, compressed or not.
pub const IMAGE_BYTES: u64 = 2 << 30;
/// Bytes one fat binary may expand to, all its containers together.
pub const EXPANDED_BYTES: u64 = 4 << 30;
/// Entries of one bundle.
pub const BUNDLE_ENTRIES: u64 = 4096;
/// Bundles in one fat binary, and entries in all of them together.
pub const FAT_BINARY_ENTRIES: usize = 1 << 20;
/// Bytes of one bundle entry's id.
pub const ID_BYTES: u64 = 4096;
/// Symbols, relocations or kernels of one code object.
pub const TABLE_ENTRIES: usize = 1 << 20;
/// Arguments of one kernel.
pub const KERNEL_ARGS: usize = 1 << 16;
/// Bytes of the metadata note.
pub const METADATA_BYTES: usize = 256 << 20;
/// Nesting of the metadata note; the real ones need about twelve decoder levels.
pub const METADATA_DEPTH: usize = 32;
/// Address range a code object may ask to be loaded into.
pub const LOAD_BYTES: u64 = 1 << 38;
/// Bytes of one debug section.
pub const DEBUG_BYTES: u64 = 256 << 20;
/// Rows of a code object's line tables.
pub const SOURCE_ROWS: usize = 4 << 20;
