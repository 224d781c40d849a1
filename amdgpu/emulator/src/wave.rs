//! The state of one wave: registers, execution mask, mode, and where its memory is.

use std::ops::{Deref, DerefMut};
use std::ptr;

use isa::Inst;

use crate::fault::FaultKind;
use crate::memory::RangeCache;
use crate::program::Program;
use crate::workgroup::Surroundings;

/// One 32-bit register of 64 lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Lanes(pub [u32; 64]);

impl Lanes {
    pub const ZERO: Lanes = Lanes([0; 64]);

    #[inline(always)]
    pub fn splat(value: u32) -> Lanes {
        Lanes([value; 64])
    }
}

/// The MODE register, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// 0 nearest even, 1 +inf, 2 -inf, 3 zero.
    pub round_f32: u8,
    pub round_f64: u8,
    /// 0 flush both, 1 flush output?, 3 allow denormals (bit 0 inputs, bit 1 outputs).
    pub denorm_f32: u8,
    pub denorm_f64: u8,
    pub dx10_clamp: bool,
    pub ieee: bool,
    pub fp16_ovfl: bool,
}

impl Default for Mode {
    /// What HIP compilers ask for: nearest even, denormals kept, IEEE, DX10 clamp.
    fn default() -> Mode {
        Mode {
            round_f32: 0,
            round_f64: 0,
            denorm_f32: 3,
            denorm_f64: 3,
            dx10_clamp: true,
            ieee: true,
            fp16_ovfl: false,
        }
    }
}

impl Mode {
    /// The bits `s_getreg_b32` and `s_setreg_b32` see.
    pub fn to_bits(self) -> u32 {
        u32::from(self.round_f32 & 3)
            | u32::from(self.round_f64 & 3) << 2
            | u32::from(self.denorm_f32 & 3) << 4
            | u32::from(self.denorm_f64 & 3) << 6
            | u32::from(self.dx10_clamp) << 8
            | u32::from(self.ieee) << 9
            | u32::from(self.fp16_ovfl) << 23
    }

    pub fn from_bits(bits: u32) -> Mode {
        Mode {
            round_f32: (bits & 3) as u8,
            round_f64: (bits >> 2 & 3) as u8,
            denorm_f32: (bits >> 4 & 3) as u8,
            denorm_f64: (bits >> 6 & 3) as u8,
            dx10_clamp: bits >> 8 & 1 != 0,
            ieee: bits >> 9 & 1 != 0,
            fp16_ovfl: bits >> 23 & 1 != 0,
        }
    }

    /// The mode a kernel descriptor's `compute_pgm_rsrc1` asks for.
    pub fn from_rsrc1(rsrc1: u32) -> Mode {
        Mode {
            round_f32: (rsrc1 >> 12 & 3) as u8,
            round_f64: (rsrc1 >> 14 & 3) as u8,
            denorm_f32: (rsrc1 >> 16 & 3) as u8,
            denorm_f64: (rsrc1 >> 18 & 3) as u8,
            dx10_clamp: rsrc1 >> 21 & 1 != 0,
            ieee: rsrc1 >> 23 & 1 != 0,
            fp16_ovfl: rsrc1 >> 26 & 1 != 0,
        }
    }
}

/// Scalar registers live in one file indexed by the hardware's operand number.
pub mod sreg {
    pub const FLAT_SCRATCH: usize = 102;
    pub const XNACK_MASK: usize = 104;
    pub const VCC: usize = 106;
    pub const TTMP: usize = 108;
    pub const M0: usize = 124;
    pub const EXEC: usize = 126;
    /// Not registers of the hardware: where `src_vccz`, `src_execz` and `src_scc` are put just before they are read.
    pub const VCCZ: usize = 128;
    pub const EXECZ: usize = 130;
    pub const SCC: usize = 132;
    pub const COUNT: usize = 136;
}

/// The scalar file, by lines of the cache: a row of it that lay across two would be stored twice.
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
    pub scc: bool,
    /// Index of the next micro-op (set by `Flow::Jump`).
    pub pc: usize,
    pub mode: Mode,
    /// Broadcast constants and decoded instructions of the running program (owned by it; it outlives the wave).
    pub constants: *const Lanes,
    pub insts: *const Inst,
    /// Room for handlers to build modified or broadcast sources in; contents do not survive a micro-op.
    pub scratch: Box<[Lanes; 16]>,
    /// The running program; null in a wave that only runs single micro-ops (tests).
    pub program: *const Program,
    /// Target address of a jump that leaves the program (`Flow::Far`).
    pub far: u64,
    /// What went wrong, with the first lane it went wrong in, when a handler returned `Flow::Fault`.
    pub fault: Option<(FaultKind, Option<u8>)>,
    /// Local memory of the workgroup, shared by its waves, which all run on one thread.
    pub lds: *mut u8,
    pub lds_size: u32,
    /// Private memory of this wave: 64 lanes of `private_size` bytes, dwords interleaved by lane.
    pub private: *mut u8,
    pub private_size: u32,
    /// Position in the workgroup.
    pub index: u32,
    /// Micro-ops left until other waves get their turn.
    pub budget: u32,
    /// Micro-ops executed.
    pub executed: u64,
    /// Entries after which a run of micro-ops becomes native code; `u32::MAX` is never.
    pub native: u32,
    /// Ranges that recent accesses hit, by instruction.
    pub ranges: RangeCache,
    /// The dispatch and the workgroup around the wave; null in a wave that only runs single micro-ops (tests).
    pub surroundings: *const Surroundings,
    /// Nonzero between `s_set_gpr_idx_on` and `_off`; which operands are indexed is in M0.
    pub gpr_index_mode: u8,
    /// `s_setvskip`: vector instructions do nothing.
    pub vskip: bool,
    /// Depth of the stack of `s_cbranch_g_fork`.
    pub fork_depth: u8,
    /// The grid barrier's phase this wave waits for the end of.
    pub arrived: Option<u64>,
}

// SAFETY: the pointers are to the program, the workgroup's memory and the dispatch, which all outlive the wave and are used by
// the one thread that runs the wave at a time.
unsafe impl Send for Wave {}

impl Wave {
    /// A wave with `vgpr_count` zeroed registers, all lanes active, and no program or memory.
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
            surroundings: ptr::null(),
            gpr_index_mode: 0,
            vskip: false,
            fork_depth: 0,
            arrived: None,
        };
        wave.set_sgpr64(sreg::EXEC, !0);
        wave
    }

    #[inline(always)]
    pub fn exec(&self) -> u64 {
        self.sgpr64(sreg::EXEC)
    }

    #[inline(always)]
    pub fn vcc(&self) -> u64 {
        self.sgpr64(sreg::VCC)
    }

    #[inline(always)]
    pub fn sgpr64(&self, index: usize) -> u64 {
        u64::from(self.sgprs[index]) | u64::from(self.sgprs[index + 1]) << 32
    }

    #[inline(always)]
    pub fn set_sgpr64(&mut self, index: usize, value: u64) {
        self.sgprs[index] = value as u32;
        self.sgprs[index + 1] = (value >> 32) as u32;
    }
}
