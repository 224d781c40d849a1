//! Why a kernel cannot be lifted or translated.

/// Why a kernel cannot be translated: the instruction and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("kernel {kernel}: {instruction} at {address:#x}: {reason}")]
pub struct Refusal {
    /// Name of the kernel.
    pub kernel: String,
    /// Address of the instruction, relative to the code object's base.
    pub address: u64,
    /// The instruction's disassembly.
    pub instruction: String,
    /// What is missing.
    pub reason: String,
}
