//! Faults: why a dispatch was aborted, and where in the kernel and the grid it happened.

use std::fmt;

/// Kind of a fault, without its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// An access to an address that the dispatch may not access.
    IllegalAddress {
        /// The address.
        address: u64,
        /// Whether it is a write.
        write: bool,
    },
    /// An atomic on an address that is not a multiple of its size.
    Misaligned {
        /// The address.
        address: u64,
    },
    /// An access past the private memory (stack) of a work-item.
    PrivateOverflow {
        /// Offset of the access in bytes.
        offset: u64,
        /// Size of the private memory in bytes.
        size: u32,
    },
    /// `s_trap`: the kernel itself gave up (`abort`, `assert`, `__builtin_trap`).
    Trap {
        /// Number of the trap.
        id: u16,
    },
    /// An encoding or operation that the emulator does not support; the text names it.
    IllegalInstruction {
        /// Description.
        text: String,
    },
    /// The host has unmapped a page that kernels may access.
    MissingPage {
        /// The address.
        address: u64,
    },
    /// A jump to an address that is not an instruction of the module.
    IllegalTarget {
        /// The address.
        address: u64,
    },
    /// A hostcall (a kernel's request to the host) that is malformed or not supported.
    Hostcall {
        /// Description.
        text: String,
    },
    /// The watchdog's deadline passed.
    Timeout,
    /// The caller cancelled the dispatch.
    Cancelled,
    /// Every wave of a workgroup is waiting, and none can continue.
    Deadlock,
    /// The dispatch needs more than the device has, or is invalid.
    Resources {
        /// Description.
        text: String,
    },
    /// A bug in this emulator: one of its threads panicked.
    Internal {
        /// Description.
        text: String,
    },
}

impl FaultKind {
    /// Whether the fault is an invalid memory access (as opposed to an aborted or impossible execution).
    pub fn is_memory(&self) -> bool {
        matches!(
            self,
            FaultKind::IllegalAddress { .. }
                | FaultKind::Misaligned { .. }
                | FaultKind::PrivateOverflow { .. }
                | FaultKind::MissingPage { .. }
        )
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::IllegalAddress { address, write } => {
                let verb = if *write { "write" } else { "read" };
                write!(f, "memory access fault: {verb} of address {address:#x}")?;
                if *address < 0x10000 { f.write_str(" (null pointer)") } else { Ok(()) }
            }
            FaultKind::Misaligned { address } => {
                write!(f, "memory access fault: misaligned atomic at address {address:#x}")
            }
            FaultKind::PrivateOverflow { offset, size } => {
                write!(
                    f,
                    "memory access fault: private offset {offset:#x} past the {size} bytes of a work-item's stack"
                )
            }
            FaultKind::MissingPage { address } => {
                write!(f, "memory access fault: no page is mapped on the host at address {address:#x}")
            }
            FaultKind::Trap { id } => write!(f, "trap {id} raised by the kernel"),
            FaultKind::IllegalInstruction { text } => write!(f, "illegal instruction: {text}"),
            FaultKind::IllegalTarget { address } => {
                write!(f, "jump to address {address:#x}, which is not an instruction")
            }
            FaultKind::Hostcall { text } => write!(f, "host call: {text}"),
            FaultKind::Timeout => f.write_str("watchdog: the kernel ran past its time limit"),
            FaultKind::Cancelled => f.write_str("the dispatch was cancelled"),
            FaultKind::Deadlock => f.write_str("deadlock: every wave of the workgroup waits"),
            FaultKind::Resources { text } => write!(f, "not enough resources: {text}"),
            FaultKind::Internal { text } => write!(f, "internal failure of the emulator: {text}"),
        }
    }
}

/// A fault and its location. Only the first fault of a dispatch is reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What happened.
    pub kind: FaultKind,
    /// Name of the kernel.
    pub kernel: Box<str>,
    /// Address of the instruction, and its offset from the kernel's entry; zero when no instruction caused the fault.
    pub pc: u64,
    /// Offset of the instruction from the entry of the kernel, in bytes.
    pub offset: i64,
    /// The instruction, disassembled.
    pub instruction: Box<str>,
    /// Index of the workgroup.
    pub workgroup: [u32; 3],
    /// Work-item within the workgroup, for faults caused by one lane.
    pub work_item: Option<[u32; 3]>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in kernel {}", self.kind, self.kernel)?;
        if self.pc != 0 {
            let sign = if self.offset < 0 { '-' } else { '+' };
            write!(f, " at pc {:#x} (entry {sign}{:#x}", self.pc, self.offset.unsigned_abs())?;
            if !self.instruction.is_empty() {
                write!(f, ", `{}`", self.instruction)?;
            }
            let [x, y, z] = self.workgroup;
            write!(f, "), workgroup ({x}, {y}, {z})")?;
        }
        if let Some([x, y, z]) = self.work_item {
            write!(f, ", work-item ({x}, {y}, {z})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}
