//! Execution units: which one an instruction occupies, for how long, and which registers it reads and writes.

use isa::{Arch, Flags, Format, Inst, Op, Operand};
use serde::Serialize;

use super::gpu::{ISSUE, MATRIX_WRITE_BACK, PASS, QUARTER_RATE};

/// A unit that executes instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Vector ALU of a SIMD.
    Valu,
    /// Matrix core of a SIMD.
    Matrix,
    /// Scalar ALU of a compute unit.
    Salu,
    /// Branch and message unit of a compute unit.
    Branch,
    /// Local data share of a compute unit.
    Lds,
    /// Vector memory unit of a compute unit.
    VectorMemory,
    /// Scalar memory unit of a compute unit.
    ScalarMemory,
}

impl Unit {
    /// Unit of an instruction.
    pub fn of(inst: &Inst) -> Unit {
        match inst.format {
            Format::Sopp => Unit::Branch,
            Format::Sop1 | Format::Sop2 | Format::Sopc | Format::Sopk => Unit::Salu,
            Format::Smem => Unit::ScalarMemory,
            Format::Ds => Unit::Lds,
            Format::Flat
            | Format::Global
            | Format::Scratch
            | Format::Mubuf
            | Format::Mtbuf
            | Format::Mimg => Unit::VectorMemory,
            // Matrix operations on doubles run on the vector ALU's datapath, but occupy it like a matrix core.
            _ if is_matrix(inst) => Unit::Matrix,
            _ => Unit::Valu,
        }
    }
}

/// Number of registers that the scoreboard tracks: scalars, SCC, vectors, accumulators.
pub(crate) const REGISTERS: usize = ACCUMULATORS as usize + 256;
const SCC: u16 = 128;
const VECTORS: u16 = 256;
const ACCUMULATORS: u16 = 512;

/// Consecutive registers of an operand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Registers {
    pub first: u16,
    pub count: u16,
}

impl Registers {
    fn of(operand: Operand, dwords: u32) -> Registers {
        let first = match operand {
            Operand::Sgpr(index) => u16::from(index),
            Operand::FlatScratchLo => 102,
            Operand::FlatScratchHi => 103,
            Operand::VccLo => 106,
            Operand::VccHi => 107,
            Operand::Ttmp(index) => 108 + u16::from(index),
            Operand::M0 => 124,
            Operand::Scc => SCC,
            Operand::Vgpr(index) => VECTORS + u16::from(index),
            Operand::Agpr(index) => ACCUMULATORS + u16::from(index),
            // EXEC is forwarded to all units.
            _ => return Registers::default(),
        };
        let limit = if first < VECTORS { VECTORS } else { REGISTERS as u16 };
        Registers { first, count: (dwords.max(1) as u16).min(limit - first) }
    }
}

/// Timing of one instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed {
    pub unit: Unit,
    /// Cycles during which one execution occupies its unit. For memory units the operands decide, so this is the issue alone.
    pub busy: u64,
    /// Cycles from issue until other instructions can use the result, for results that hardware tracks.
    pub result: u64,
    /// Cycles from issue until a matrix operation can accumulate onto the result.
    pub accumulate: u64,
    pub reads: [Registers; 4],
    pub writes: [Registers; 2],
    /// Index of the source that is an accumulator.
    pub accumulator: Option<usize>,
}

impl Timed {
    pub fn of(arch: Arch, inst: &Inst) -> Timed {
        let unit = Unit::of(inst);
        let busy = match unit {
            Unit::Matrix => matrix_passes(arch, inst) * PASS,
            Unit::Valu => ISSUE * valu_rate(inst),
            _ => ISSUE,
        };
        let result = match unit {
            Unit::Matrix => busy + MATRIX_WRITE_BACK,
            _ => busy,
        };
        let mut writes = [Registers::of(inst.dst, inst.dst_width()), Registers::of(inst.sdst, 2)];
        // Waits protect loaded registers, not the scoreboard.
        if !matches!(unit, Unit::Valu | Unit::Matrix | Unit::Salu) {
            writes = [Registers::default(); 2];
        }
        Timed {
            unit,
            busy,
            result,
            accumulate: busy,
            reads: std::array::from_fn(|index| Registers::of(inst.src[index], inst.src_width(index))),
            writes,
            accumulator: (unit == Unit::Matrix && !is_sparse(inst)).then_some(2),
        }
    }
}

/// Whether the instruction is a matrix multiplication.
fn is_matrix(inst: &Inst) -> bool {
    let flags = inst.encoding().flags;
    flags.has(Flags::MFMA) || flags.has(Flags::SMFMAC)
}

fn is_sparse(inst: &Inst) -> bool {
    inst.encoding().flags.has(Flags::SMFMAC)
}

/// Issue slots of a vector operation, relative to a simple one. Doubles run at full rate on both architectures.
fn valu_rate(inst: &Inst) -> u64 {
    const QUARTER: [&str; 10] = [
        "v_rcp_",
        "v_rsq_",
        "v_sqrt_",
        "v_exp_",
        "v_log_",
        "v_sin_",
        "v_cos_",
        "v_cvt_",
        "v_mul_hi_",
        "v_mad_u64",
    ];
    let name = inst.op.name();
    // Packed conversions are simple selections of bits.
    let simple = name.starts_with("v_cvt_pk") || name.contains("_f64") && name.starts_with("v_cvt_");
    if !simple && QUARTER.iter().any(|start| name.starts_with(start)) { QUARTER_RATE } else { 1 }
}

/// Shape of a matrix operation: rows, columns, depth.
fn matrix_shape(op: Op) -> Option<[u64; 3]> {
    let name = op.name();
    let part =
        name.split('_').find(|part| part.contains('x') && part.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut numbers = part.split('x').map(|number| {
        let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().ok()
    });
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

/// Passes of a matrix operation, of four cycles each, as in LLVM's scheduling models of both architectures.
fn matrix_passes(arch: Arch, inst: &Inst) -> u64 {
    let Some([rows, _, depth]) = matrix_shape(inst.op) else { return 8 };
    let double = inst.encoding().flags.has(Flags::F64);
    match (arch, rows) {
        (_, 4) if double => 4,
        (_, 4) => 2,
        (_, _) if double => 8,
        (Arch::Gfx942, 16) if is_sparse(inst) => 4,
        (Arch::Gfx942, _) if is_sparse(inst) => 8,
        (Arch::Gfx942, 16) if depth >= 8 => 4,
        (Arch::Gfx942, 32) if depth >= 8 || inst.op.name().contains("xf32") => 8,
        (_, 16) => 8,
        _ => 16,
    }
}

/// Floating-point operations of one execution with this many lanes; a fused multiply-add is two. Integer matrix operations count too.
pub(crate) fn flops(inst: &Inst, lanes: u64) -> u64 {
    if let (true, Some([rows, columns, depth])) = (is_matrix(inst), matrix_shape(inst.op)) {
        let elements =
            u64::from(inst.dst_width()) / if inst.encoding().flags.has(Flags::F64) { 2 } else { 1 };
        let blocks = (elements * 64 / (rows * columns)).max(1);
        return 2 * rows * columns * depth * blocks;
    }
    if Unit::of(inst) != Unit::Valu {
        return 0;
    }
    let name = inst.op.name();
    let packed = if name.starts_with("v_pk_") { 2 } else { 1 };
    let is_float = ["_f16", "_f32", "_f64", "_bf16"].iter().any(|end| name.contains(end));
    let rest = name.trim_start_matches("v_pk_").trim_start_matches("v_");
    let each = match () {
        () if !is_float => 0,
        () if ["fma", "mad", "mac"].iter().any(|start| rest.starts_with(start)) => 2,
        () if rest.starts_with("dot2") => 4,
        () if ["add", "sub", "mul", "rcp", "rsq", "sqrt", "exp", "log"]
            .iter()
            .any(|start| rest.starts_with(start)) =>
        {
            1
        }
        () => 0,
    };
    each * packed * lanes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inst(name: &str) -> Inst {
        let op = Op::from_name(name).unwrap_or_else(|| panic!("{name}"));
        Inst {
            op,
            format: op.encoding().format,
            size: 8,
            dst: Operand::None,
            sdst: Operand::None,
            src: [Operand::None; 4],
            imm: 0,
            modifiers: Default::default(),
            memory: Default::default(),
            dpp: None,
            sdwa: None,
        }
    }

    #[test]
    fn matrix_rates_are_those_of_the_data_sheets() {
        // Operations per cycle of a compute unit.
        for (arch, name, rate) in [
            (Arch::Gfx90a, "v_mfma_f32_32x32x8f16", 1024),
            (Arch::Gfx90a, "v_mfma_f32_16x16x16f16", 1024),
            (Arch::Gfx90a, "v_mfma_f32_32x32x2f32", 256),
            (Arch::Gfx90a, "v_mfma_f32_16x16x4f32", 256),
            (Arch::Gfx90a, "v_mfma_f32_32x32x8bf16_1k", 1024),
            (Arch::Gfx90a, "v_mfma_f32_32x32x4bf16", 512),
            (Arch::Gfx90a, "v_mfma_i32_32x32x8i8", 1024),
            (Arch::Gfx90a, "v_mfma_f64_16x16x4f64", 256),
            (Arch::Gfx942, "v_mfma_f32_32x32x8_f16", 2048),
            (Arch::Gfx942, "v_mfma_f32_16x16x16_bf16", 2048),
            (Arch::Gfx942, "v_mfma_f32_32x32x2_f32", 256),
            (Arch::Gfx942, "v_mfma_f32_32x32x4_xf32", 1024),
            (Arch::Gfx942, "v_mfma_f32_16x16x8_xf32", 1024),
            (Arch::Gfx942, "v_mfma_f32_16x16x32_fp8_fp8", 4096),
            (Arch::Gfx942, "v_mfma_i32_32x32x16_i8", 4096),
            (Arch::Gfx942, "v_mfma_f64_16x16x4_f64", 256),
            (Arch::Gfx942, "v_smfmac_f32_32x32x16_f16", 4096),
        ] {
            let inst = inst(name);
            let timed = Timed::of(arch, &inst);
            assert_eq!(timed.unit, Unit::Matrix, "{name}");
            assert_eq!(4 * flops(&inst, 64) / timed.busy, rate, "{arch:?} {name}");
        }
    }

    #[test]
    fn vector_rates_are_those_of_the_scheduling_model() {
        for (name, slots) in [
            ("v_fma_f32", 1),
            ("v_fma_f64", 1),
            ("v_pk_fma_f32", 1),
            ("v_mul_lo_u32", 1),
            ("v_rcp_f32", 4),
            ("v_exp_f32", 4),
            ("v_rsq_f64", 4),
            ("v_cvt_f32_i32", 4),
        ] {
            assert_eq!(Timed::of(Arch::Gfx942, &inst(name)).busy, ISSUE * slots, "{name}");
        }
    }

    #[test]
    fn arithmetic_counts_as_floating_point_and_address_arithmetic_does_not() {
        for (name, each) in
            [("v_fma_f32", 2), ("v_pk_fma_f32", 4), ("v_add_f64", 1), ("v_add_u32", 0), ("v_mov_b32", 0)]
        {
            assert_eq!(flops(&inst(name), 64), 64 * each, "{name}");
        }
    }
}
