//! Maximum sizes that a container may claim. They are far above what compilers emit, and low enough that a claimed size cannot
//! exhaust a machine.

/// Size of one image in bytes, compressed or not.
pub const IMAGE_BYTES: u64 = 2 << 30;
/// Bytes that one fat binary may expand to, for all its containers together.
pub const EXPANDED_BYTES: u64 = 4 << 30;
/// Entries in one bundle.
pub const BUNDLE_ENTRIES: u64 = 4096;
/// Bundles in one fat binary, and entries in all of them together.
pub const FAT_BINARY_ENTRIES: usize = 1 << 20;
/// Length of a bundle entry's ID in bytes.
pub const ID_BYTES: u64 = 4096;
/// Symbols, relocations or kernels in one code object.
pub const TABLE_ENTRIES: usize = 1 << 20;
/// Arguments of one kernel.
pub const KERNEL_ARGS: usize = 1 << 16;
/// Total size of the metadata notes in bytes.
pub const METADATA_BYTES: usize = 256 << 20;
/// Nesting depth of a metadata note; real ones need about twelve decoder levels.
pub const METADATA_DEPTH: usize = 32;
/// Address range that a code object may occupy when loaded.
pub const LOAD_BYTES: u64 = 1 << 38;
/// Size of one debug section in bytes.
pub const DEBUG_BYTES: u64 = 256 << 20;
/// Rows in a code object's line tables.
pub const SOURCE_ROWS: usize = 4 << 20;
