//! Why an evaluation stopped.

/// Why an evaluation stopped before its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// An access to memory that does not exist.
    #[error("no memory for {bytes} bytes at {address:#x}")]
    Address {
        /// The address.
        address: u64,
        /// Bytes of the access.
        bytes: u32,
    },
    /// An atomic access that is not aligned to its size.
    #[error("atomic access of {bytes} bytes at {address:#x}, which is not aligned")]
    Misaligned {
        /// The address.
        address: u64,
        /// Bytes of the access.
        bytes: u32,
    },
    /// An access beyond a lane's scratch.
    #[error("scratch offset {offset:#x} is beyond {size} bytes")]
    Private {
        /// Offset of the access.
        offset: u32,
        /// Bytes of scratch of a lane.
        size: usize,
    },
    /// [`crate::Operation::Require`] found its bit clear.
    #[error("what the translation takes for granted at {address:#x} does not hold")]
    Required {
        /// Address of the machine instruction.
        address: u64,
    },
    /// The kernel stopped itself.
    #[error("trap {0}")]
    Trap(u8),
    /// More instructions than allowed.
    #[error("more than {0} instructions")]
    Steps(u64),
    /// Some waves wait at a barrier that others will never reach.
    #[error("a barrier that not all waves reach")]
    Barrier,
    /// The function is not well-formed.
    #[error("malformed function: {0}")]
    Malformed(String),
}
