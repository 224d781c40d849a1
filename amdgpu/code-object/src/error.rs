//! Errors of parsing containers.

use crate::target::TargetIdError;

/// Error of parsing a container.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The first bytes match no known container.
    #[error("not a code object, an offload bundle or a compressed bundle")]
    UnknownContainer,
    /// A field points past the end of the data.
    #[error("{what} reaches past the end of the data")]
    Truncated {
        /// The part that does not fit.
        what: &'static str,
    },
    /// A claimed size is larger than [`crate::limits`] allows.
    #[error("{what} of {value} exceeds the limit of {limit}")]
    TooLarge {
        /// What the size refers to.
        what: &'static str,
        /// The claimed size.
        value: u64,
        /// The maximum size.
        limit: u64,
    },
    /// A field has a value that the format does not permit.
    #[error("malformed {what}")]
    Malformed {
        /// The invalid part.
        what: &'static str,
    },
    /// A compressed bundle of an unknown version.
    #[error("compressed bundle version {0} is unknown")]
    CompressedVersion(u16),
    /// A compressed bundle with an unknown compression method.
    #[error("compression method {0} is unknown")]
    CompressionMethod(u16),
    /// The decompressor rejected the payload.
    #[error("compressed bundle cannot be expanded")]
    Decompress(#[source] std::io::Error),
    /// The payload expands to a different size than the header declares.
    #[error("compressed bundle expands to {actual} bytes or more but its header declares {declared}")]
    ExpandedSize {
        /// Size declared in the header.
        declared: u64,
        /// Size of the output when decompression was stopped.
        actual: u64,
    },
    /// The ELF structure is invalid.
    #[error("malformed ELF file")]
    Elf(#[source] object::read::Error),
    /// An ELF file for another machine.
    #[error("ELF machine {0} is not an AMD GPU")]
    NotAmdGpu(u16),
    /// An AMD GPU ELF file for an OS ABI other than HSA.
    #[error("ELF OS ABI {0} is not AMDGPU HSA")]
    NotHsa(u8),
    /// An unsupported code object version.
    #[error("code object ABI version {0} is not supported (1 to 4 are)")]
    AbiVersion(u8),
    /// Not a linked code object.
    #[error("ELF type {0} is not a linked code object")]
    NotLinked(u16),
    /// The processor number in the ELF flags is unknown.
    #[error("processor number {0:#x} is unknown")]
    UnknownProcessor(u32),
    /// Invalid target ID.
    #[error("invalid target ID")]
    Target(#[from] TargetIdError),
    /// The metadata note is not MessagePack.
    #[error("metadata note is not valid MessagePack")]
    Metadata(#[source] rmpv::decode::Error),
    /// The metadata is MessagePack, but does not have the expected structure.
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
        /// The missing symbol.
        symbol: String,
    },
    /// A kernel's descriptor or entry point is outside the loadable segments.
    #[error("{what} of kernel {kernel} lies outside the code object")]
    KernelOutside {
        /// The kernel's name.
        kernel: String,
        /// Descriptor or entry point.
        what: &'static str,
    },
    /// Two kernels have the same name.
    #[error("kernel {0} is defined twice")]
    DuplicateKernel(String),
    /// A symbol is outside the loadable segments.
    #[error("symbol {0} lies outside the code object")]
    SymbolOutside(String),
}

impl From<object::read::Error> for Error {
    fn from(error: object::read::Error) -> Error {
        Error::Elf(error)
    }
}
