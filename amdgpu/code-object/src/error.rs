//! Why a container was refused.

use crate::target::TargetIdError;

/// Why a container was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The first bytes match no known container.
    #[error("not a code object, an offload bundle or a compressed bundle")]
    UnknownContainer,
    /// A field points behind the end of the data.
    #[error("{what} reaches past the end of the data")]
    Truncated {
        /// The part that did not fit.
        what: &'static str,
    },
    /// A claimed size is larger than [`crate::limits`] allows.
    #[error("{what} of {value} exceeds the limit of {limit}")]
    TooLarge {
        /// What was measured.
        what: &'static str,
        /// The size it claims.
        value: u64,
        /// The largest size accepted.
        limit: u64,
    },
    /// A field holds a value the format does not allow.
    #[error("malformed {what}")]
    Malformed {
        /// The part that is wrong.
        what: &'static str,
    },
    /// A compressed bundle of an unknown version.
    #[error("compressed bundle version {0} is unknown")]
    CompressedVersion(u16),
    /// A compressed bundle with an unknown method.
    #[error("compression method {0} is unknown")]
    CompressionMethod(u16),
    /// The decompressor refused the payload.
    #[error("compressed bundle cannot be expanded")]
    Decompress(#[source] std::io::Error),
    /// The payload expands to another size than the header says.
    #[error("compressed bundle expands to {actual} bytes or more where its header says {declared}")]
    ExpandedSize {
        /// What the header says.
        declared: u64,
        /// What came out before expansion was stopped.
        actual: u64,
    },
    /// The ELF structure is broken.
    #[error("malformed ELF file")]
    Elf(#[source] object::read::Error),
    /// An ELF file of another machine.
    #[error("ELF machine {0} is not an AMD GPU")]
    NotAmdGpu(u16),
    /// An AMD GPU ELF file for another operating environment than HSA.
    #[error("ELF OS ABI {0} is not AMDGPU HSA")]
    NotHsa(u8),
    /// A code object version this crate cannot read.
    #[error("code object ABI version {0} is not supported (1 to 4 are)")]
    AbiVersion(u8),
    /// Not a linked code object.
    #[error("ELF type {0} is not a linked code object")]
    NotLinked(u16),
    /// The processor number of the ELF flags is unknown.
    #[error("processor number {0:#x} is unknown")]
    UnknownProcessor(u32),
    /// Not a target id.
    #[error("bad target id")]
    Target(#[from] TargetIdError),
    /// The metadata note is not MessagePack.
    #[error("metadata note is not valid MessagePack")]
    Metadata(#[source] rmpv::decode::Error),
    /// The metadata is MessagePack of another shape than it must have.
    #[error("metadata field {field} is missing or has the wrong type")]
    MetadataField {
        /// The key.
        field: &'static str,
    },
    /// The metadata names a kernel whose descriptor symbol does not exist.
    #[error("kernel {kernel} has no descriptor symbol {symbol}")]
    MissingDescriptor {
        /// The kernel's name.
        kernel: String,
        /// The symbol that was looked for.
        symbol: String,
    },
    /// A kernel's descriptor or entry point lies outside the loaded segments.
    #[error("{what} of kernel {kernel} lies outside the code object")]
    KernelOutside {
        /// The kernel's name.
        kernel: String,
        /// Which part.
        what: &'static str,
    },
    /// Two kernels share one name.
    #[error("kernel {0} is defined twice")]
    DuplicateKernel(String),
    /// A symbol lies outside the loaded segments.
    #[error("symbol {0} lies outside the code object")]
    SymbolOutside(String),
}

impl From<object::read::Error> for Error {
    fn from(error: object::read::Error) -> Error {
        Error::Elf(error)
    }
}
