//! Values that a kernel starts with.

use super::{Kind, Shape};

/// A value that a kernel starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Input {
    /// Address of the kernel argument block.
    KernargPointer,
    /// Address of the dispatch packet.
    DispatchPointer,
    /// Address of the queue descriptor.
    QueuePointer,
    /// Number of the dispatch.
    DispatchId,
    /// Number of the workgroup in dimension 0..3.
    WorkgroupId(u8),
    /// Number of the wave in its workgroup.
    WaveId,
    /// Number of the work-item in its workgroup in dimension 0..3.
    WorkitemId(u8),
    /// Number of the lane in its wave, 0..64.
    LaneNumber,
    /// A bit for each lane with a smaller number: `(1 << lane) - 1`.
    LanesBelow,
    /// Whether the lane has a work-item. The last wave of a workgroup may be partial.
    HasWorkitem,
    /// Address of LDS in the flat address space: `src_shared_base`, the aperture that flat accesses treat as LDS.
    SharedBase,
    /// Address of scratch in the flat address space: `src_private_base`.
    PrivateBase,
    /// Bytes of LDS of a workgroup, static and dynamic.
    LdsBytes,
    /// A register's value before a fragment of code; kernels have none of these.
    Register(Register),
}

/// A machine register, for fragments of code whose start and end state tests compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Register {
    /// A scalar register by its operand number: 0..=101 SGPRs, 102 FLAT_SCRATCH, 104 XNACK_MASK, 106 VCC, 108 TTMP, 124 M0, 126
    /// EXEC, each the low word of its pair.
    Scalar(u8),
    /// A vector register: 0..=255 VGPRs, 256..=511 accumulation registers.
    Vector(u16),
    /// The scalar condition code, a bit.
    Scc,
}

impl Register {
    /// Kind and shape of the value.
    pub fn data(self) -> (Kind, Shape) {
        match self {
            Register::Scalar(_) => (Kind::Word, Shape::Uniform),
            Register::Vector(_) => (Kind::Word, Shape::Lane),
            Register::Scc => (Kind::Bit, Shape::Uniform),
        }
    }
}

impl Input {
    /// Kind and shape of the value.
    pub fn data(self) -> (Kind, Shape) {
        match self {
            Input::KernargPointer
            | Input::DispatchPointer
            | Input::QueuePointer
            | Input::DispatchId
            | Input::SharedBase
            | Input::PrivateBase => (Kind::Double, Shape::Uniform),
            Input::WorkgroupId(_) | Input::WaveId | Input::LdsBytes => (Kind::Word, Shape::Uniform),
            Input::WorkitemId(_) | Input::LaneNumber => (Kind::Word, Shape::Lane),
            Input::LanesBelow => (Kind::Double, Shape::Lane),
            Input::HasWorkitem => (Kind::Bit, Shape::Lane),
            Input::Register(register) => register.data(),
        }
    }
}
