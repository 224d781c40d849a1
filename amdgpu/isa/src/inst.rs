//! Decoded instructions: the input of the emulator's compiler and of the disassembler.

use crate::table::{Encoding, Flags};
use crate::{DataType, Op};

/// The supported instruction sets. Both are executed by the same code; the decode tables differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    Gfx90a,
    Gfx942,
}

/// Encoding family of an instruction. A VOP2 operation in its 64-bit form has `Format::Vop3` and the same [`Op`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    Sop1,
    Sop2,
    Sopc,
    Sopk,
    Sopp,
    Smem,
    Vop1,
    Vop2,
    Vopc,
    Vop3,
    Vop3p,
    Ds,
    Flat,
    Global,
    Scratch,
    Mubuf,
    Mtbuf,
    Mimg,
    Exp,
}

/// One operand. A register number is the first of `width` consecutive registers; the operation determines the width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Operand {
    #[default]
    None,
    /// s0..s101
    Sgpr(u8),
    /// v0..v255
    Vgpr(u8),
    /// a0..a255 (accumulation registers)
    Agpr(u8),
    /// ttmp0..ttmp15
    Ttmp(u8),
    FlatScratchLo,
    FlatScratchHi,
    XnackMaskLo,
    XnackMaskHi,
    VccLo,
    VccHi,
    M0,
    ExecLo,
    ExecHi,
    /// Inline integer constant -16..=64.
    Int(i8),
    /// Inline float constant, as f32 bits: ±0.5, ±1, ±2, ±4, 1/(2π). The operand type determines its actual bits.
    Float(f32Bits),
    /// 32-bit literal that follows the instruction.
    Literal(u32),
    SharedBase,
    SharedLimit,
    PrivateBase,
    PrivateLimit,
    PopsExitingWaveId,
    Vccz,
    Execz,
    Scc,
    /// `lds_direct`
    LdsDirect,
}

/// Inline float constant as f32 bits (so that [`Operand`] can be `Eq`).
#[expect(non_camel_case_types, reason = "reads as a primitive")]
pub type f32Bits = u32;

/// DPP control word of a VOP1/VOP2/VOPC instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dpp {
    /// The 9-bit `dpp_ctrl` field.
    pub ctrl: u16,
    pub row_mask: u8,
    pub bank_mask: u8,
    pub bound_ctrl: bool,
}

impl Dpp {
    /// `row_newbcast:0..15`, the only control that 64-bit operations support.
    pub const fn is_row_newbcast(ctrl: u16) -> bool {
        ctrl >= 0x150 && ctrl <= 0x15f
    }

    /// Whether the control exists on these architectures.
    pub const fn is_valid(ctrl: u16) -> bool {
        matches!(
            ctrl,
            0x000..=0x0ff          // quad_perm
                | 0x101..=0x10f    // row_shl
                | 0x111..=0x11f    // row_shr
                | 0x121..=0x12f    // row_ror
                | 0x130            // wave_shl
                | 0x134            // wave_rol
                | 0x138            // wave_shr
                | 0x13c            // wave_ror
                | 0x140            // row_mirror
                | 0x141            // row_half_mirror
                | 0x142            // row_bcast:15
                | 0x143            // row_bcast:31
                | 0x150..=0x15f    // row_newbcast
        )
    }
}

/// SDWA selections. `*_sel`: 0..3 byte 0..3, 4 word 0, 5 word 1, 6 dword.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sdwa {
    pub dst_sel: u8,
    /// 0 pad, 1 sign-extend, 2 preserve.
    pub dst_unused: u8,
    pub src0_sel: u8,
    pub src0_sext: bool,
    pub src1_sel: u8,
    pub src1_sext: bool,
}

/// Source and result modifiers. Bit `i` of a mask applies to `src[i]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Modifiers {
    pub neg: u8,
    pub abs: u8,
    /// VOP3P: negation of the high half.
    pub neg_hi: u8,
    /// VOP3/VOP3P: bit 3 selects the destination half.
    pub op_sel: u8,
    pub op_sel_hi: u8,
    pub clamp: bool,
    /// 0 none, 1 *2, 2 *4, 3 /2.
    pub omod: u8,
    /// Integer sources of a floating-point operation whose `neg` bit is set. No effect; kept for the disassembly.
    pub sext: u8,
    /// MFMA broadcast controls.
    pub cbsz: u8,
    pub abid: u8,
    pub blgp: u8,
}

/// Bits of memory instructions. On gfx942, `glc` is named sc0, `slc` nt, and `scc` sc1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct MemoryBits {
    pub glc: bool,
    pub slc: bool,
    pub scc: bool,
    pub lds: bool,
    pub offen: bool,
    pub idxen: bool,
    /// FLAT family: `saddr` is a register (not `off`).
    pub has_saddr: bool,
    /// `sve`: SCRATCH on gfx942 uses the vector address (SVE bit). `gds`: the GDS bit of DS.
    pub sve: bool,
    pub gds: bool,
    /// SMEM: the offset is an SGPR (`src[1]`), an immediate (`offset`), or both.
    pub soffset_en: bool,
    pub imm: bool,
    pub tfe: bool,
    /// SMEM probes: the 7-bit mode, encoded in the data register field.
    pub probe: u8,
    /// MIMG: the components that are moved, and the form of the coordinates.
    pub dmask: u8,
    pub unorm: bool,
    pub a16: bool,
    pub da: bool,
    pub lwe: bool,
    pub d16: bool,
    /// MTBUF data and number format.
    pub dfmt: u8,
    pub nfmt: u8,
}

/// A decoded instruction.
///
/// Operands by format:
/// * SOP1 `dst, src[0]`; SOP2 `dst, src[0..2]`; SOPC `src[0..2]`; SOPK `dst, imm` (simm16); SOPP `imm` (simm16).
/// * SMEM `dst` (data, also the store source), `src[0]` base pair, `src[1]` soffset or None, `imm` offset.
/// * VOP1/VOP2/VOPC/VOP3: `dst`, `sdst` (carry-out or compare mask; VOPC e32 writes `VccLo` as `sdst` and has no `dst`;
///   VOP3 compare puts its SGPR pair in `sdst`), `src[0..3]` (carry-in / v_cndmask selector is the last source, written out
///   as `VccLo` in the e32 forms). v_readlane/readfirstlane have an SGPR `dst`. fmaak/fmamk have their literal as a source in
///   assembly order.
/// * VOP3P incl. MFMA: `dst`, `src[0..3]`; SMFMAC: `src[2]` is the index register, the accumulator is `dst`.
/// * DS: `dst`, `src[0]` address, `src[1]` data0, `src[2]` data1, `imm` = 16-bit offset (or offset0 | offset1 << 8 for the 2-address forms,
///   which is the same 16 bits). The ds_gws operations have their data in `src[0]`.
/// * FLAT/GLOBAL/SCRATCH: `dst`, `src[0]` vector address, `src[1]` data, `src[2]` saddr or None, `imm` signed offset.
/// * MUBUF/MTBUF: `dst` (loads and returning atomics), `src[0]` vaddr, `src[1]` data (stores, atomics), `src[2]` resource (4 SGPRs),
///   `src[3]` soffset, `imm` 12-bit offset.
///
/// Agpr operands appear as `Operand::Agpr` wherever the `acc` bits select them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Inst {
    pub op: Op,
    pub format: Format,
    /// Encoded size in bytes: 4, 8 or 12 (with literal).
    pub size: u8,
    pub dst: Operand,
    pub sdst: Operand,
    pub src: [Operand; 4],
    pub imm: i32,
    pub modifiers: Modifiers,
    pub memory: MemoryBits,
    pub dpp: Option<Dpp>,
    pub sdwa: Option<Sdwa>,
}

impl Inst {
    /// The row in the encoding tables.
    pub fn encoding(&self) -> &'static Encoding {
        self.op.encoding()
    }

    /// Number of 32-bit registers of the destination; for memory operations, of the loaded or returned data.
    pub fn dst_width(&self) -> u32 {
        self.dst_type().dwords()
    }

    /// Type of the destination.
    pub fn dst_type(&self) -> DataType {
        self.encoding().dst
    }

    /// Number of 32-bit registers of source `index`.
    pub fn src_width(&self, index: usize) -> u32 {
        self.src_type(index).dwords()
    }

    /// Type of source `index`, with the operand order documented at [`Inst`].
    pub fn src_type(&self, index: usize) -> DataType {
        let declared = self.encoding().src[index];
        match (self.format, index) {
            // With a scalar base, the vector address of GLOBAL is a 32-bit offset.
            (Format::Global, 0) if self.memory.has_saddr => DataType::U32,
            (Format::Global, 2) if self.memory.has_saddr => DataType::U64,
            (Format::Scratch, 2) if self.memory.has_saddr => DataType::U32,
            (Format::Mubuf | Format::Mtbuf, 0) if self.memory.idxen && self.memory.offen => DataType::U64,
            (Format::Smem, 1) if self.src[1] != Operand::None => DataType::U32,
            (Format::Mimg, 3) if self.src[3] != Operand::None => DataType::B128,
            _ => declared,
        }
    }

    /// MIMG: number of 32-bit registers of the data, which depends on the selected components. Atomics move one or two
    /// components, compare-and-swap twice as many; other masks are invalid for them.
    pub fn image_data_width(&self) -> Option<u32> {
        let flags = self.encoding().flags;
        let components = self.memory.dmask.count_ones().max(1);
        match (self.memory.dmask, flags.has(Flags::COMPARE)) {
            _ if !flags.has(Flags::ATOMIC) && self.memory.d16 => Some(components.div_ceil(2)),
            _ if !flags.has(Flags::ATOMIC) => Some(components),
            (0x1 | 0x3, false) | (0x3 | 0xf, true) => Some(components),
            _ => None,
        }
    }
}
