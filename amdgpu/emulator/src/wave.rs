//! State of one wave: registers, execution mask, mode, and pointers to its memory.

use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use isa::{Inst, Mode};

use crate::context::WaveContext;
use crate::fault::FaultKind;
use crate::memory::RangeCache;

/// One 32-bit vector register: 64 lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Lanes(pub [u32; 64]);

impl Lanes {
    /// Zero in every lane.
    pub const ZERO: Lanes = Lanes([0; 64]);

    /// The same value in every lane.
    #[inline(always)]
    pub fn splat(value: u32) -> Lanes {
        Lanes([value; 64])
    }
}

/// Indices in the scalar register file, which is indexed by the hardware's operand number.
pub mod sreg {
    /// FLAT_SCRATCH, low dword.
    pub const FLAT_SCRATCH: usize = 102;
    /// XNACK_MASK, low dword.
    pub const XNACK_MASK: usize = 104;
    /// VCC, low dword.
    pub const VCC: usize = 106;
    /// First trap temporary.
    pub const TTMP: usize = 108;
    /// M0.
    pub const M0: usize = 124;
    /// EXEC, low dword.
    pub const EXEC: usize = 126;
    /// Not hardware registers: `src_vccz`, `src_execz` and `src_scc` are stored here just before they are read.
    pub const VCCZ: usize = 128;
    /// EXECZ: copy of a condition, see `VCCZ`.
    pub const EXECZ: usize = 130;
    /// SCC: copy of the condition code, see `VCCZ`.
    pub const SCC: usize = 132;
    /// Size of the file.
    pub const COUNT: usize = 136;
}

/// The scalar register file. Aligned to cache lines, since a row that straddles two lines would need two stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Scalars(pub [u32; sreg::COUNT]);

impl Scalars {
    pub const ZERO: Scalars = Scalars([0; sreg::COUNT]);
}

impl Deref for Scalars {
    type Target = [u32; sreg::COUNT];

    #[inline(always)]
    fn deref(&self) -> &[u32; sreg::COUNT] {
        &self.0
    }
}

impl DerefMut for Scalars {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u32; sreg::COUNT] {
        &mut self.0
    }
}

/// One wave of 64 lanes.
#[derive(Debug)]
pub struct Wave {
    /// Architectural VGPRs, then AccVGPRs from `accum_offset`.
    pub vgprs: Box<[Lanes]>,
    /// Scalar file, see [`sreg`]. EXEC is `sgprs[126..128]`, VCC `sgprs[106..108]`.
    pub sgprs: Scalars,
    /// Scalar condition code.
    pub scc: bool,
    /// Index of the next micro-op (set by `Flow::Jump`).
    pub pc: usize,
    /// MODE register.
    pub mode: Mode,
    /// Broadcast constants and decoded instructions of the running program, which owns them and outlives the wave.
    pub constants: *const Lanes,
    /// Decoded instructions of the program.
    pub insts: *const Inst,
    /// Temporary registers in which handlers build modified or broadcast sources; not preserved between micro-ops.
    pub scratch: Box<[Lanes; 16]>,
    /// The running program, see [`crate::Program::of`]; null in a wave that only runs single micro-ops (tests).
    pub(crate) program: *const (),
    /// Target address of a jump that leaves the program (`Flow::Far`).
    pub far: u64,
    /// The fault and the first lane that caused it, set when a handler returns `Flow::Fault`.
    pub fault: Option<(FaultKind, Option<u8>)>,
    /// LDS of the workgroup, shared by its waves, which all run on one thread.
    pub lds: *mut u8,
    /// Size of LDS in bytes.
    pub lds_size: u32,
    /// Private memory of this wave: 64 lanes of `private_size` bytes, dwords interleaved by lane.
    pub private: *mut u8,
    /// Size of private memory per lane in bytes.
    pub private_size: u32,
    /// Position in the workgroup.
    pub index: u32,
    /// Micro-ops left before other waves get their turn.
    pub budget: u32,
    /// Micro-ops executed.
    pub executed: u64,
    /// Number of entries after which a run of micro-ops is compiled to native code; `u32::MAX` means never.
    pub native: u32,
    /// Cache of ranges that recent accesses hit, by instruction.
    pub ranges: RangeCache,
    /// The dispatch and workgroup of the wave; `None` in a wave that only runs single micro-ops (tests).
    pub(crate) context: Option<NonNull<dyn WaveContext>>,
    /// Nonzero between `s_set_gpr_idx_on` and `_off`; M0 selects the indexed operands.
    pub gpr_index_mode: u8,
    /// `s_setvskip`: vector instructions do nothing.
    pub vskip: bool,
    /// Depth of the `s_cbranch_g_fork` stack.
    pub fork_depth: u8,
    /// Phase of the grid barrier at which this wave waits.
    pub arrived: Option<u64>,
}

// SAFETY: the pointers refer to the program, the workgroup's memory and the dispatch. All of them outlive the wave, and only one
// thread at a time runs the wave.
unsafe impl Send for Wave {}

impl Wave {
    /// Creates a wave with `vgpr_count` zeroed registers, all lanes active, and no program or memory.
    pub fn new(vgpr_count: usize) -> Wave {
        let mut wave = Wave {
            vgprs: vec![Lanes::ZERO; vgpr_count].into_boxed_slice(),
            sgprs: Scalars::ZERO,
            scc: false,
            pc: 0,
            mode: Mode::default(),
            constants: ptr::null(),
            insts: ptr::null(),
            scratch: Box::new([Lanes::ZERO; 16]),
            program: ptr::null(),
            far: 0,
            fault: None,
            lds: ptr::null_mut(),
            lds_size: 0,
            private: ptr::null_mut(),
            private_size: 0,
            index: 0,
            budget: 0,
            executed: 0,
            native: u32::MAX,
            ranges: RangeCache::default(),
            context: None,
            gpr_index_mode: 0,
            vskip: false,
            fork_depth: 0,
            arrived: None,
        };
        wave.set_sgpr64(sreg::EXEC, !0);
        wave
    }

    /// The context of the wave. The lifetime is free, so that the wave can be changed meanwhile.
    pub(crate) fn context<'a>(&self) -> Option<&'a dyn WaveContext> {
        // SAFETY: a context is set when a workgroup is prepared. It is part of the workgroup, which runs the wave and outlives it.
        self.context.map(|context| unsafe { context.as_ref() })
    }

    /// EXEC: the active lanes.
    #[inline(always)]
    pub fn exec(&self) -> u64 {
        self.sgpr64(sreg::EXEC)
    }

    /// VCC.
    #[inline(always)]
    pub fn vcc(&self) -> u64 {
        self.sgpr64(sreg::VCC)
    }

    /// The pair of scalar registers at `index`.
    #[inline(always)]
    pub fn sgpr64(&self, index: usize) -> u64 {
        u64::from(self.sgprs[index]) | u64::from(self.sgprs[index + 1]) << 32
    }

    /// Sets the pair of scalar registers at `index`.
    #[inline(always)]
    pub fn set_sgpr64(&mut self, index: usize, value: u64) {
        self.sgprs[index] = value as u32;
        self.sgprs[index + 1] = (value >> 32) as u32;
    }
}
