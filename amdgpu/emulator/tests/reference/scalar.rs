//! Reference implementation of scalar operations.

use isa::{Inst, Op};

use super::machine::{M0, Machine, scalar_index};

impl Machine {
    /// Runs a scalar instruction that only computes. Returns false for operations without a reference implementation.
    pub fn scalar(&mut self, inst: &Inst) -> bool {
        let row = inst.encoding();
        let a = self.scalar_source(inst.src[0], row.src[0]);
        let b = self.scalar_source(inst.src[1], row.src[1]);
        let wide = row.dst.dwords() == 2;
        let dst = scalar_index(inst.dst);
        let old = dst.map_or(0, |at| if wide { self.pair(at) } else { u64::from(self.s[at]) });
        let Some((value, scc)) = compute(self, inst, a, b, old) else { return false };
        if let Some(value) = value {
            let at = match inst.op {
                Op::s_movreld_b32 | Op::s_movreld_b64 => relative(self, dst.expect("a register"), wide),
                _ => dst.expect("a register"),
            };
            if wide {
                self.set_pair(at, value);
            } else {
                self.s[at] = value as u32;
            }
        }
        if let Some(scc) = scc {
            self.scc = scc;
        }
        true
    }
}

/// Index of a register relative to M0, limited to the last register.
fn relative(machine: &Machine, base: usize, wide: bool) -> usize {
    (base + machine.s[M0] as usize).min(if wide { 106 } else { 107 })
}

type Effect = (Option<u64>, Option<bool>);

/// New value of the destination, if it has one, and of SCC.
fn compute(machine: &mut Machine, inst: &Inst, a: u64, b: u64, old: u64) -> Option<Effect> {
    let name = inst.op.name().strip_prefix("s_")?;
    let scc = machine.scc;
    let (ia, ib) = (a as i32, b as i32);
    let dword = |value: u64| value & 0xffff_ffff;
    let tested = |value: u64| Some((Some(value), Some(value != 0)));
    let plain = |value: u64| Some((Some(value), None));
    let only = |scc: bool| Some((None, Some(scc)));
    let wide = inst.encoding().dst.dwords() == 2;
    let logic = |value: u64| tested(if wide { value } else { dword(value) });
    let signed = |value: i64| Some((Some(dword(value as u64)), Some(value != i64::from(value as i32))));
    let k = i64::from(inst.imm as i16);
    if let Some(operation) = name.strip_suffix("_saveexec_b64") {
        return save_exec(machine, operation, a, false);
    }
    if let Some(operation) = name.strip_suffix("_wrexec_b64") {
        return save_exec(machine, operation, a, true);
    }
    if let Some(rest) = name.strip_prefix("cmpk_") {
        let (condition, kind) = rest.split_once('_')?;
        let order =
            if kind == "i32" { i64::from(old as i32).cmp(&k) } else { old.cmp(&u64::from(inst.imm as u16)) };
        return only(holds(condition, order)?);
    }
    if let Some(rest) = name.strip_prefix("cmp_") {
        let (condition, kind) = rest.split_once('_')?;
        let order = if kind == "i32" { ia.cmp(&ib) } else { a.cmp(&b) };
        return only(holds(condition, order)?);
    }
    match name {
        "add_u32" => Some((Some(dword(a + b)), Some((a + b) >> 32 != 0))),
        "addc_u32" => {
            let sum = a + b + u64::from(scc);
            Some((Some(dword(sum)), Some(sum >> 32 != 0)))
        }
        "sub_u32" => Some((Some(dword(a.wrapping_sub(b))), Some(b > a))),
        "subb_u32" => {
            let taken = b + u64::from(scc);
            Some((Some(dword(a.wrapping_sub(taken))), Some(taken > a)))
        }
        "add_i32" => signed(i64::from(ia) + i64::from(ib)),
        "sub_i32" => signed(i64::from(ia) - i64::from(ib)),
        "min_i32" => Some((Some(dword(ia.min(ib) as u64)), Some(ia < ib))),
        "max_i32" => Some((Some(dword(ia.max(ib) as u64)), Some(ia > ib))),
        "min_u32" => Some((Some(a.min(b)), Some(a < b))),
        "max_u32" => Some((Some(a.max(b)), Some(a > b))),
        "cselect_b32" | "cselect_b64" => plain(if scc { a } else { b }),
        "and_b32" | "and_b64" => logic(a & b),
        "or_b32" | "or_b64" => logic(a | b),
        "xor_b32" | "xor_b64" => logic(a ^ b),
        "andn2_b32" | "andn2_b64" => logic(a & !b),
        "orn2_b32" | "orn2_b64" => logic(a | !b),
        "nand_b32" | "nand_b64" => logic(!(a & b)),
        "nor_b32" | "nor_b64" => logic(!(a | b)),
        "xnor_b32" | "xnor_b64" => logic(!(a ^ b)),
        "not_b32" | "not_b64" => logic(!a),
        "lshl_b32" => logic(a << (b & 31)),
        "lshl_b64" => logic(a << (b & 63)),
        "lshr_b32" => logic(a >> (b & 31)),
        "lshr_b64" => logic(a >> (b & 63)),
        "ashr_i32" => logic((ia >> (b & 31)) as u64),
        "ashr_i64" => logic(((a as i64) >> (b & 63)) as u64),
        "bfm_b32" => plain(dword(((1 << (a & 31)) - 1) << (b & 31))),
        "bfm_b64" => plain(((1_u64 << (a & 63)) - 1) << (b & 63)),
        "bfe_u32" => tested(dword(field(a.into(), b & 31, b >> 16 & 0x7f, false))),
        "bfe_u64" => tested(field(a.into(), b & 63, b >> 16 & 0x7f, false)),
        "bfe_i32" => tested(dword(field(ia.into(), b & 31, (b >> 16 & 0x7f).min(32), true))),
        "bfe_i64" => tested(field((a as i64).into(), b & 63, b >> 16 & 0x7f, true)),
        "mul_i32" => plain(dword(a.wrapping_mul(b))),
        "mul_hi_u32" => plain((a * b) >> 32),
        "mul_hi_i32" => plain(dword(((i64::from(ia) * i64::from(ib)) >> 32) as u64)),
        "absdiff_i32" => tested(dword(ia.wrapping_sub(ib).wrapping_abs() as u32 as u64)),
        "lshl1_add_u32" | "lshl2_add_u32" | "lshl3_add_u32" | "lshl4_add_u32" => {
            let sum = (a << (name.as_bytes()[4] - b'0')) + b;
            Some((Some(dword(sum)), Some(sum >> 32 != 0)))
        }
        "pack_ll_b32_b16" => plain(a & 0xffff | (b & 0xffff) << 16),
        "pack_lh_b32_b16" => plain(a & 0xffff | b & 0xffff_0000),
        "pack_hh_b32_b16" => plain(a >> 16 & 0xffff | b & 0xffff_0000),
        "mov_b32" | "mov_b64" => plain(a),
        "cmov_b32" | "cmov_b64" => plain(if scc { a } else { old }),
        "wqm_b32" | "wqm_b64" => {
            logic((0..64).filter(|bit| a >> (bit & !3) & 15 != 0).map(|bit| 1_u64 << bit).sum())
        }
        "quadmask_b32" | "quadmask_b64" => {
            logic((0..16).filter(|quad| a >> (4 * quad) & 15 != 0).map(|quad| 1_u64 << quad).sum())
        }
        "brev_b32" => plain((0..32).map(|bit| (a >> bit & 1) << (31 - bit)).sum()),
        "brev_b64" => plain((0..64).map(|bit| (a >> bit & 1) << (63 - bit)).sum()),
        "bcnt0_i32_b32" => tested((0..32).filter(|bit| a >> bit & 1 == 0).count() as u64),
        "bcnt0_i32_b64" => tested((0..64).filter(|bit| a >> bit & 1 == 0).count() as u64),
        "bcnt1_i32_b32" => tested((0..32).filter(|bit| a >> bit & 1 == 1).count() as u64),
        "bcnt1_i32_b64" => tested((0..64).filter(|bit| a >> bit & 1 == 1).count() as u64),
        "ff0_i32_b32" => plain(first(32, |bit| a >> bit & 1 == 0)),
        "ff0_i32_b64" => plain(first(64, |bit| a >> bit & 1 == 0)),
        "ff1_i32_b32" => plain(first(32, |bit| a >> bit & 1 == 1)),
        "ff1_i32_b64" => plain(first(64, |bit| a >> bit & 1 == 1)),
        "flbit_i32_b32" => plain(first(32, |bit| a >> (31 - bit) & 1 == 1)),
        "flbit_i32_b64" => plain(first(64, |bit| a >> (63 - bit) & 1 == 1)),
        "flbit_i32" => plain(first(32, |bit| a >> (31 - bit) & 1 != a >> 31 & 1)),
        "flbit_i32_i64" => plain(first(64, |bit| a >> (63 - bit) & 1 != a >> 63)),
        "sext_i32_i8" => plain(dword(a as i8 as u64)),
        "sext_i32_i16" => plain(dword(a as i16 as u64)),
        "abs_i32" => tested(u64::from(ia.unsigned_abs())),
        "bitset0_b32" => plain(old & !(1 << (a & 31))),
        "bitset1_b32" => plain(old | 1 << (a & 31)),
        "bitset0_b64" => plain(old & !(1 << (a & 63))),
        "bitset1_b64" => plain(old | 1 << (a & 63)),
        "bitreplicate_b64_b32" => plain((0..64).map(|bit| (a >> (bit / 2) & 1) << bit).sum()),
        "movrels_b32" => {
            let from = relative(machine, scalar_index(inst.src[0])?, false);
            plain(u64::from(machine.s[from]))
        }
        "movrels_b64" => {
            let from = relative(machine, scalar_index(inst.src[0])?, true);
            plain(machine.pair(from))
        }
        "movreld_b32" | "movreld_b64" => plain(a),
        "bitcmp0_b32" => only(a >> (b & 31) & 1 == 0),
        "bitcmp1_b32" => only(a >> (b & 31) & 1 == 1),
        "bitcmp0_b64" => only(a >> (b & 63) & 1 == 0),
        "bitcmp1_b64" => only(a >> (b & 63) & 1 == 1),
        "movk_i32" => plain(dword(k as u64)),
        "cmovk_i32" => plain(if scc { dword(k as u64) } else { old }),
        "addk_i32" => signed(i64::from(old as i32) + k),
        "mulk_i32" => plain(dword((i64::from(old as i32) * k) as u64)),
        _ => None,
    }
}

fn holds(condition: &str, order: std::cmp::Ordering) -> Option<bool> {
    Some(match condition {
        "eq" => order.is_eq(),
        "lg" => order.is_ne(),
        "gt" => order.is_gt(),
        "ge" => order.is_ge(),
        "lt" => order.is_lt(),
        "le" => order.is_le(),
        _ => return None,
    })
}

fn first(bits: u32, found: impl Fn(u32) -> bool) -> u64 {
    (0..bits).find(|bit| found(*bit)).map_or(0xffff_ffff, u64::from)
}

fn field(value: i128, offset: u64, width: u64, signed: bool) -> u64 {
    let (offset, width) = (offset as u32, (width as u32).min(64));
    if width == 0 {
        return 0;
    }
    let part = value >> offset << (128 - width);
    (if signed { part >> (128 - width) } else { (part as u128 >> (128 - width)) as i128 }) as u64
}

fn save_exec(machine: &mut Machine, operation: &str, a: u64, write: bool) -> Option<Effect> {
    let exec = machine.exec();
    let next = match operation {
        "and" => a & exec,
        "or" => a | exec,
        "xor" => a ^ exec,
        "andn1" => !a & exec,
        "andn2" => a & !exec,
        "orn1" => !a | exec,
        "orn2" => a | !exec,
        "nand" => !(a & exec),
        "nor" => !(a | exec),
        "xnor" => !(a ^ exec),
        _ => return None,
    };
    machine.set_pair(super::machine::EXEC, next);
    Some((Some(if write { next } else { exec }), Some(next != 0)))
}
