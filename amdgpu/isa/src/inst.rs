//! Decoded instructions: the input of the emulator's compiler and of the disassembler.

use crate::table::{Encoding, Flags};
use crate::{DataType, Op};

/// The supported instruction sets. Both are executed by the same code; the decode tables differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    /// MI210, MI250X.
    Gfx90a,
    /// MI300A, MI300X, MI325X.
    Gfx942,
}

/// Encoding family of an instruction. A VOP2 operation in its 64-bit form has `Format::Vop3` and the same [`Op`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Scalar, one source.
    Sop1,
    /// Scalar, two sources.
    Sop2,
    /// Scalar comparison.
    Sopc,
    /// Scalar with a 16-bit immediate.
    Sopk,
    /// Program control.
    Sopp,
    /// Scalar memory.
    Smem,
    /// Vector, one source.
    Vop1,
    /// Vector, two sources.
    Vop2,
    /// Vector comparison.
    Vopc,
    /// Vector, 64-bit encoding.
    Vop3,
    /// Packed, mixed-precision and matrix operations.
    Vop3p,
    /// Local and global data share.
    Ds,
    /// Memory through generic addresses.
    Flat,
    /// Global memory.
    Global,
    /// Private memory.
    Scratch,
    /// Untyped buffers.
    Mubuf,
    /// Typed buffers.
    Mtbuf,
    /// Images.
    Mimg,
    /// Export; not decoded.
    Exp,
}

/// One operand. A register number is the first of `width` consecutive registers; the operation determines the width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Operand {
    /// The operand does not exist.
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
    /// FLAT_SCRATCH, low dword.
    FlatScratchLo,
    /// FLAT_SCRATCH, high dword.
    FlatScratchHi,
    /// XNACK_MASK, low dword.
    XnackMaskLo,
    /// XNACK_MASK, high dword.
    XnackMaskHi,
    /// VCC, low dword.
    VccLo,
    /// VCC, high dword.
    VccHi,
    /// M0.
    M0,
    /// EXEC, low dword.
    ExecLo,
    /// EXEC, high dword.
    ExecHi,
    /// Inline integer constant -16..=64.
    Int(i8),
    /// Inline float constant, as f32 bits: ±0.5, ±1, ±2, ±4, 1/(2π). The operand type determines its actual bits.
    Float(f32Bits),
    /// 32-bit literal that follows the instruction.
    Literal(u32),
    /// First address of the shared aperture.
    SharedBase,
    /// Last address of the shared aperture.
    SharedLimit,
    /// First address of the private aperture.
    PrivateBase,
    /// Last address of the private aperture.
    PrivateLimit,
    /// Wave ID of primitive-ordered pixel shaders.
    PopsExitingWaveId,
    /// Whether VCC is zero.
    Vccz,
    /// Whether EXEC is zero.
    Execz,
    /// The scalar condition code.
    Scc,
    /// `lds_direct`
    LdsDirect,
}

/// Inline float constant as f32 bits (so that [`Operand`] can be `Eq`).
#[expect(non_camel_case_types, reason = "used like a primitive type")]
pub type f32Bits = u32;

/// DPP control word of a VOP1/VOP2/VOPC instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dpp {
    /// The 9-bit `dpp_ctrl` field.
    pub ctrl: u16,
    /// Rows of 16 lanes that are written.
    pub row_mask: u8,
    /// Banks of four lanes in each row that are written.
    pub bank_mask: u8,
    /// Invalid source lanes read zero, instead of disabling the lane.
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
    /// Part of the destination that is written.
    pub dst_sel: u8,
    /// 0 pad, 1 sign-extend, 2 preserve.
    pub dst_unused: u8,
    /// Part of source 0.
    pub src0_sel: u8,
    /// Whether source 0 is sign-extended.
    pub src0_sext: bool,
    /// Part of source 1.
    pub src1_sel: u8,
    /// Whether source 1 is sign-extended.
    pub src1_sext: bool,
}

/// Source and result modifiers. Bit `i` of a mask applies to `src[i]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Modifiers {
    /// Negation.
    pub neg: u8,
    /// Absolute value, before negation.
    pub abs: u8,
    /// VOP3P: negation of the high half.
    pub neg_hi: u8,
    /// VOP3/VOP3P: bit 3 selects the destination half.
    pub op_sel: u8,
    /// VOP3P: half that the high half of the operation reads.
    pub op_sel_hi: u8,
    /// Clamps the result.
    pub clamp: bool,
    /// 0 none, 1 *2, 2 *4, 3 /2.
    pub omod: u8,
    /// Integer sources of a floating-point operation whose `neg` bit is set. No effect; kept for the disassembly.
    pub sext: u8,
    /// MFMA broadcast controls.
    pub cbsz: u8,
    /// MFMA: block that is broadcast.
    pub abid: u8,
    /// MFMA: permutation or negation of the second matrix.
    pub blgp: u8,
}

/// Bits of memory instructions. On gfx942, `glc` is named sc0, `slc` nt, and `scc` sc1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct MemoryBits {
    /// Globally coherent; atomics return the old value.
    pub glc: bool,
    /// System-level coherent, or non-temporal.
    pub slc: bool,
    /// System coherence.
    pub scc: bool,
    /// The data goes to LDS.
    pub lds: bool,
    /// Buffers: the vector address has an offset.
    pub offen: bool,
    /// Buffers: the vector address has an index.
    pub idxen: bool,
    /// FLAT family: `saddr` is a register (not `off`).
    pub has_saddr: bool,
    /// `sve`: SCRATCH on gfx942 uses the vector address (SVE bit). `gds`: the GDS bit of DS.
    pub sve: bool,
    /// DS: global instead of local data share.
    pub gds: bool,
    /// SMEM: the offset is an SGPR (`src[1]`), an immediate (`offset`), or both.
    pub soffset_en: bool,
    /// SMEM: the immediate offset is used.
    pub imm: bool,
    /// Texture fail enable.
    pub tfe: bool,
    /// SMEM probes: the 7-bit mode, encoded in the data register field.
    pub probe: u8,
    /// MIMG: the components that are moved, and the form of the coordinates.
    pub dmask: u8,
    /// MIMG: coordinates are not normalised.
    pub unorm: bool,
    /// MIMG: coordinates are 16-bit.
    pub a16: bool,
    /// MIMG: an array of images.
    pub da: bool,
    /// MIMG: LOD warning enable.
    pub lwe: bool,
    /// MIMG: 16-bit data.
    pub d16: bool,
    /// MTBUF data and number format.
    pub dfmt: u8,
    /// MTBUF number format.
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
    /// The operation.
    pub op: Op,
    /// Encoding format of this instruction.
    pub format: Format,
    /// Encoded size in bytes: 4, 8 or 12 (with literal).
    pub size: u8,
    /// Destination.
    pub dst: Operand,
    /// Scalar destination.
    pub sdst: Operand,
    /// Sources.
    pub src: [Operand; 4],
    /// Immediate or offset.
    pub imm: i32,
    /// Source and result modifiers.
    pub modifiers: Modifiers,
    /// Bits of memory instructions.
    pub memory: MemoryBits,
    /// DPP control.
    pub dpp: Option<Dpp>,
    /// SDWA selections.
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
