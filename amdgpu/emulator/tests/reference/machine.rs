//! The reference machine: one wave as plain arrays, and how vector instructions read and write it, one lane at a time.
//!
//! Implements operands and modifiers: registers, constants, neg and abs, op_sel, SDWA, DPP, omod and clamp. The operations
//! themselves are in `vector.rs` and `scalar.rs`.

use emulator::Mode;
use isa::{Arch, DataType, Dpp, Element, Flags, Format, Inst, Op, Operand};

use isa_reference::exact::{self, F16, F32, F64, Unit};
use isa_reference::{Lane, Outcome, evaluate};

pub const VCC: usize = 106;
pub const M0: usize = 124;
pub const EXEC: usize = 126;

/// First accumulation register in the register file.
pub const ACCUMULATORS: usize = 48;
pub const REGISTERS: usize = 96;

#[derive(Clone, Debug)]
pub struct Machine {
    pub arch: Arch,
    pub v: Vec<[u32; 64]>,
    pub s: [u32; 128],
    pub scc: bool,
    pub mode: Mode,
    /// Lanes whose result is a NaN with an unspecified payload.
    pub nans: u64,
}

impl Machine {
    pub fn pair(&self, at: usize) -> u64 {
        u64::from(self.s[at]) | u64::from(self.s[at + 1]) << 32
    }

    pub fn set_pair(&mut self, at: usize, value: u64) {
        self.s[at] = value as u32;
        self.s[at + 1] = (value >> 32) as u32;
    }

    pub fn exec(&self) -> u64 {
        self.pair(EXEC)
    }

    /// Reads a scalar source of up to 64 bits.
    pub fn scalar_source(&self, operand: Operand, data_type: DataType) -> u64 {
        if let Some(at) = scalar_index(operand) {
            return if data_type.dwords() == 2 { self.pair(at) } else { u64::from(self.s[at]) };
        }
        let wide = data_type.element_bits() == 64;
        let aperture = |high: u64, low: u64| if wide { high << 32 | low } else { low };
        match operand {
            Operand::Vccz => u64::from(self.pair(VCC) == 0),
            Operand::Execz => u64::from(self.exec() == 0),
            Operand::Scc => u64::from(self.scc),
            Operand::SharedBase => aperture(0x0001_0000, 0),
            Operand::SharedLimit => aperture(0x0001_0000, 0xffff_ffff),
            Operand::PrivateBase => aperture(0x0002_0000, 0),
            Operand::PrivateLimit => aperture(0x0002_0000, 0xffff_ffff),
            Operand::None => 0,
            // 16-bit integer operations read the halves of an f32 constant.
            Operand::Float(bits) if data_type.element_bits() == 16 && !data_type.is_float() => bits.into(),
            _ => operand.constant_bits(data_type).expect("a constant"),
        }
    }

    pub fn vector_index(operand: Operand) -> Option<usize> {
        match operand {
            Operand::Vgpr(n) => Some(usize::from(n)),
            Operand::Agpr(n) => Some(ACCUMULATORS + usize::from(n)),
            _ => None,
        }
    }

    fn raw(&self, operand: Operand, data_type: DataType, lane: usize) -> u64 {
        let Some(at) = Machine::vector_index(operand) else {
            let value = self.scalar_source(operand, data_type);
            // A constant of packed floats is used for both halves.
            let pair = matches!(data_type, DataType::F32x2 | DataType::B32x2);
            let repeats = pair && scalar_index(operand).is_none();
            return if repeats { value | value << 32 } else { value };
        };
        let high = if data_type.dwords() == 2 { self.v[at + 1][lane] } else { 0 };
        u64::from(self.v[at][lane]) | u64::from(high) << 32
    }

    /// Runs a vector instruction lane by lane. Returns false for operations without a reference implementation.
    pub fn vector(&mut self, inst: &Inst) -> bool {
        if let Some(done) = self.across_lanes(inst) {
            return done;
        }
        let row = inst.encoding();
        let exec = self.exec();
        let before = self.clone();
        let mut mask = 0;
        let writes_mask = row.flags.has(Flags::CARRY_OUT) || row.format == Format::Vopc;
        for number in 0..64 {
            let reads = inst.dpp.map(|dpp| (dpp, source_lane(dpp.ctrl, number, exec)));
            let mut s = [0; 3];
            for (n, source) in s.iter_mut().enumerate() {
                *source = before.source(inst, n, number, reads.as_ref());
            }
            let carry_at = if row.flags.has(Flags::CARRY_IN) { scalar_index(inst.src[2]) } else { None };
            let lane = Lane {
                mode: &self.mode,
                s,
                carry: carry_at.is_some_and(|at| before.pair(at) >> number & 1 == 1),
                number,
                clamp: inst.modifiers.clamp,
            };
            let Some(outcome) = evaluate(inst.op, &lane) else { return false };
            let active = exec >> number & 1 == 1
                && reads
                    .as_ref()
                    .is_none_or(|(dpp, from)| writes(dpp, number) && (dpp.bound_ctrl || from.is_some()));
            if !active {
                continue;
            }
            let (value, bit) = match outcome {
                Outcome::Value(value) => (Some(value), false),
                Outcome::Mask(bit) => (None, bit),
                Outcome::Both(value, bit) => (Some(value), bit),
            };
            mask |= u64::from(bit) << number;
            if let Some(value) = value {
                self.write(inst, number, value);
            }
        }
        if writes_mask {
            let at = scalar_index(inst.sdst).expect("a scalar destination");
            self.set_pair(at, mask);
            if inst.op.name().starts_with("v_cmpx") {
                self.set_pair(EXEC, mask);
            }
        }
        true
    }

    /// Runs operations that are not lane-local, or whose results are wider than 64 bits.
    fn across_lanes(&mut self, inst: &Inst) -> Option<bool> {
        let exec = self.exec();
        let at = Machine::vector_index(inst.dst);
        match inst.op {
            Op::v_readfirstlane_b32 | Op::v_readlane_b32 => {
                let lane = match inst.op {
                    Op::v_readlane_b32 => self.scalar_source(inst.src[1], DataType::B32) as usize & 63,
                    _ if exec == 0 => 0,
                    _ => exec.trailing_zeros() as usize,
                };
                let value = self.raw(inst.src[0], DataType::B32, lane);
                self.s[scalar_index(inst.dst)?] = value as u32;
            }
            Op::v_writelane_b32 => {
                let lane = self.scalar_source(inst.src[1], DataType::B32) as usize & 63;
                self.v[at?][lane] = self.scalar_source(inst.src[0], DataType::B32) as u32;
            }
            Op::v_swap_b32 => {
                let other = Machine::vector_index(inst.src[0])?;
                for lane in (0..64).filter(|lane| exec >> lane & 1 == 1) {
                    (self.v[at?][lane], self.v[other][lane]) = (self.v[other][lane], self.v[at?][lane]);
                }
            }
            Op::v_pk_mov_b32 => {
                let before = self.clone();
                for lane in (0..64).filter(|lane| exec >> lane & 1 == 1) {
                    for n in 0..2 {
                        let shift = 32 * u32::from(inst.modifiers.op_sel >> n & 1);
                        let pair = before.raw(inst.src[n], DataType::B32x2, lane);
                        self.v[at? + n][lane] = (pair >> shift) as u32;
                    }
                }
            }
            Op::v_mqsad_u32_u8 => {
                let before = self.clone();
                let third = Machine::vector_index(inst.src[2])?;
                for lane in (0..64).filter(|lane| exec >> lane & 1 == 1) {
                    let window = before.raw(inst.src[0], DataType::B64, lane);
                    let reference = before.raw(inst.src[1], DataType::B32, lane);
                    for n in 0..4 {
                        let s = [window >> (8 * n), reference, before.v[third + n][lane].into()];
                        let sums = Lane {
                            mode: &self.mode,
                            s,
                            carry: false,
                            number: lane,
                            clamp: inst.modifiers.clamp,
                        };
                        let Some(Outcome::Value(sum)) = evaluate(Op::v_msad_u8, &sums) else {
                            return None;
                        };
                        self.v[at? + n][lane] = sum as u32;
                    }
                }
            }
            _ => return None,
        }
        Some(true)
    }

    /// Source `n` of a lane, with modifiers applied.
    fn source(&self, inst: &Inst, n: usize, lane: usize, dpp: Option<&(Dpp, Option<usize>)>) -> u64 {
        let row = inst.encoding();
        let mut data_type = row.src[n];
        if n == 2 && accumulates(inst.op) {
            return self.raw(inst.dst, row.dst, lane);
        }
        if data_type == DataType::None || row.flags.has(Flags::CARRY_IN) && n == 2 {
            return 0;
        }
        let m = &inst.modifiers;
        let set = |mask: u8| mask >> n & 1 == 1;
        let mix = row.flags.has(Flags::MIX);
        if mix && !set(m.op_sel_hi) {
            data_type = DataType::F32;
        }
        let mut bits = match dpp {
            Some((_, from)) if n == 0 => from.map_or(0, |from| self.raw(inst.src[0], data_type, from)),
            _ => self.raw(inst.src[n], data_type, lane),
        };
        if let Some(sdwa) = &inst.sdwa
            && n < 2
        {
            let (selection, sext) =
                if n == 0 { (sdwa.src0_sel, sdwa.src0_sext) } else { (sdwa.src1_sel, sdwa.src1_sext) };
            bits = select(selection, sext, bits as u32).into();
        }
        let packed = inst.format == Format::Vop3p;
        if mix {
            if set(m.op_sel_hi) {
                bits = bits >> if set(m.op_sel) { 16 } else { 0 } & 0xffff;
                bits = exact::Number::of(F16, bits).bits(F32, 0);
            }
            return sign(bits, 31, set(m.neg), set(m.abs));
        }
        if packed && data_type.element_bits() == 16 {
            let low = bits >> if set(m.op_sel) { 16 } else { 0 } & 0xffff;
            let high = bits >> if set(m.op_sel_hi) { 16 } else { 0 } & 0xffff;
            let float = data_type.is_float();
            return sign(low, 15, float && set(m.neg), false)
                | sign(high, 15, float && set(m.neg_hi), false) << 16;
        }
        if data_type == DataType::F32x2 {
            let low = bits >> if set(m.op_sel) { 32 } else { 0 } & 0xffff_ffff;
            let high = bits >> if set(m.op_sel_hi) { 32 } else { 0 } & 0xffff_ffff;
            return sign(low, 31, set(m.neg), false) | sign(high, 31, set(m.neg_hi), false) << 32;
        }
        if data_type == DataType::B32x2 {
            return bits;
        }
        if data_type.element_bits() == 16 && data_type.count() == 1 {
            bits = bits >> if !packed && set(m.op_sel) { 16 } else { 0 } & 0xffff;
        }
        let floating = data_type.is_float() || inst.op == Op::v_cndmask_b32;
        if floating && data_type.count() == 1 {
            let top = if inst.op == Op::v_cndmask_b32 { 31 } else { data_type.element_bits() - 1 };
            bits = sign(bits, top, set(m.neg), set(m.abs));
        }
        bits
    }

    /// Writes a lane's result: applies omod, clamp, the written half or byte, and SDWA.
    fn write(&mut self, inst: &Inst, lane: usize, value: u64) {
        let row = inst.encoding();
        let data_type = destination_type(inst);
        let m = &inst.modifiers;
        let value = self.finish(data_type, m.omod, m.clamp, value);
        if data_type == DataType::F32 && F32.is_nan(value)
            || data_type == DataType::F16 && F16.is_nan(value & 0xffff)
        {
            self.nans |= 1 << lane;
        }
        let at = Machine::vector_index(inst.dst).expect("a vector destination");
        let old = self.v[at][lane];
        let half = |high: bool| {
            let shift = if high { 16 } else { 0 };
            old & !(0xffff << shift) | (value as u32 & 0xffff) << shift
        };
        let low = match inst.op {
            Op::v_fma_mixlo_f16 => half(false),
            Op::v_fma_mixhi_f16 => half(true),
            Op::v_cvt_pk_fp8_f32 | Op::v_cvt_pk_bf8_f32 => half(m.op_sel & 8 != 0),
            _ if row.flags.has(Flags::OPSEL) && row.dst.element_bits() == 16 && row.dst.count() == 1 => {
                half(m.op_sel & 8 != 0)
            }
            _ => value as u32,
        };
        self.v[at][lane] = match &inst.sdwa {
            Some(sdwa) => place(sdwa.dst_sel, sdwa.dst_unused, old, low),
            None => low,
        };
        if data_type.dwords() == 2 {
            self.v[at + 1][lane] = (value >> 32) as u32;
        }
    }

    /// Applies omod and clamp to each float in a result.
    fn finish(&self, data_type: DataType, omod: u8, clamp: bool, value: u64) -> u64 {
        if data_type.element() != Element::Float {
            return value;
        }
        let format = match data_type.element_bits() {
            16 => F16,
            32 => F32,
            _ => F64,
        };
        let mut out = 0;
        for n in 0..data_type.count() {
            let shift = n * format.bits;
            let bits = value >> shift & (u64::MAX >> (64 - format.bits));
            out |= self.finish_one(&Unit::of(format, &self.mode), omod, clamp, bits) << shift;
        }
        out
    }

    fn finish_one(&self, unit: &Unit, omod: u8, clamp: bool, mut bits: u64) -> u64 {
        let format = unit.format;
        // omod applies only if neither IEEE mode nor subnormal results are enabled; it loses the sign of zero.
        if omod != 0 && !self.mode.ieee && unit.flush_out && !format.is_nan(bits) {
            let power = [0, 1, 2, -1][usize::from(omod)];
            bits = unit.write(exact::Number::of(format, bits).scaled(power));
            if bits == format.sign() {
                bits = 0;
            }
        }
        if clamp {
            let one = exact::Number::integer(1).bits(format, 0);
            if format.is_nan(bits) {
                bits = if self.mode.dx10_clamp { 0 } else { bits };
            } else if bits & format.sign() != 0 {
                bits = 0;
            } else if bits > one {
                bits = one;
            }
        }
        bits
    }
}

/// Destination type for omod and clamp.
fn destination_type(inst: &Inst) -> DataType {
    inst.encoding().dst
}

/// Index of a scalar register.
pub fn scalar_index(operand: Operand) -> Option<usize> {
    Some(match operand {
        Operand::Sgpr(n) => usize::from(n),
        Operand::FlatScratchLo => 102,
        Operand::FlatScratchHi => 103,
        Operand::XnackMaskLo => 104,
        Operand::XnackMaskHi => 105,
        Operand::VccLo => VCC,
        Operand::VccHi => VCC + 1,
        Operand::Ttmp(n) => 108 + usize::from(n),
        Operand::M0 => M0,
        Operand::ExecLo => EXEC,
        Operand::ExecHi => EXEC + 1,
        _ => return None,
    })
}

/// Whether the operation's third source is its destination.
pub fn accumulates(op: Op) -> bool {
    let name = op.name();
    ["v_fmac_", "v_mac_", "v_pk_fmac_", "v_cvt_pkaccum_"].iter().any(|start| name.starts_with(start))
        || name.starts_with("v_dot") && name.contains("c_")
}

fn sign(bits: u64, top: u32, neg: bool, abs: bool) -> u64 {
    let bits = if abs { bits & !(1 << top) } else { bits };
    if neg { bits ^ 1 << top } else { bits }
}

/// SDWA selection: bytes 0 to 3, words 4 and 5, dword 6.
fn select(selection: u8, sext: bool, bits: u32) -> u32 {
    let (low, width) = match selection {
        0..=3 => (8 * u32::from(selection), 8),
        4 => (0, 16),
        5 => (16, 16),
        _ => return bits,
    };
    let part = bits >> low & ((1 << width) - 1);
    if sext && part >> (width - 1) == 1 { part | u32::MAX << width } else { part }
}

fn place(selection: u8, unused: u8, old: u32, value: u32) -> u32 {
    let (low, width) = match selection {
        0..=3 => (8 * u32::from(selection), 8),
        4 => (0, 16),
        5 => (16, 16),
        _ => return value,
    };
    let part = value & ((1 << width) - 1);
    let mut out = 0;
    for bit in 0..32 {
        let filled = if bit >= low && bit < low + width {
            part >> (bit - low) & 1
        } else {
            match unused {
                0 => 0,
                1 if bit > low => part >> (width - 1),
                1 => 0,
                _ => old >> bit & 1,
            }
        };
        out |= filled << bit;
    }
    out
}

/// Whether the row and bank masks enable a lane.
fn writes(dpp: &Dpp, lane: usize) -> bool {
    dpp.row_mask >> (lane / 16) & 1 == 1 && dpp.bank_mask >> (lane % 16 / 4) & 1 == 1
}

/// Lane that a DPP control reads from, if it exists and is active.
fn source_lane(ctrl: u16, lane: usize, exec: u64) -> Option<usize> {
    let (row, column, count) = (lane / 16 * 16, lane % 16, usize::from(ctrl & 15));
    let within = |column: Option<usize>| column.filter(|column| *column < 16).map(|column| row + column);
    let from = match ctrl {
        0x000..=0x0ff => Some(lane / 4 * 4 + usize::from(ctrl >> (2 * (lane % 4)) & 3)),
        0x101..=0x10f => within(Some(column + count)),
        0x111..=0x11f => within(column.checked_sub(count)),
        0x121..=0x12f => within(Some((column + 16 - count) % 16)),
        0x130 => Some(lane + 1).filter(|lane| *lane < 64),
        0x134 => Some((lane + 1) % 64),
        0x138 => lane.checked_sub(1),
        0x13c => Some((lane + 63) % 64),
        0x140 => within(Some(15 - column)),
        0x141 => Some(lane / 8 * 8 + 7 - lane % 8),
        0x142 => row.checked_sub(1),
        0x143 => Some(31).filter(|_| lane > 31),
        _ => within(Some(count)),
    };
    from.filter(|from| exec >> from & 1 == 1)
}
