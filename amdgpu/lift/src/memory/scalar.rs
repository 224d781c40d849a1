//! SMEM: scalar loads, clocks and cache operations. Scalar stores and atomics are not lifted: compilers do not generate them.

use isa::{AccessKind, Flags, Inst, Op};

use super::element::load;
use super::facts::trailing_zeros;
use super::{Operands, Outcome, unsupported, words};
use crate::Builder;
use crate::form::*;

pub fn lift(b: &mut Builder, inst: &Inst, operands: &Operands) -> Result<Outcome, String> {
    match inst.op {
        Op::s_memtime => return Ok(clock(b, Clock::Cycles)),
        Op::s_memrealtime => return Ok(clock(b, Clock::Time)),
        // The form has no scalar cache: what other lanes wrote must be visible to scalar loads.
        Op::s_dcache_inv | Op::s_dcache_inv_vol | Op::s_dcache_wb | Op::s_dcache_wb_vol => {
            b.append(Operation::Fence(MemoryScope::Device), &[], &[]);
            return Ok(Outcome::default());
        }
        Op::s_atc_probe | Op::s_atc_probe_buffer | Op::s_dcache_discard | Op::s_dcache_discard_x2 => {
            return Ok(Outcome::default());
        }
        _ => {}
    }
    let Some(access) = inst.op.memory_access() else { return unsupported("the operation") };
    if access.kind != AccessKind::Load {
        return unsupported("a scalar store or atomic");
    }
    if inst.encoding().flags.has(Flags::SCRATCH) {
        return unsupported("a scalar access to scratch");
    }
    let bytes = u8::try_from(access.bytes).map_err(|error| error.to_string())?;
    if inst.op.name().starts_with("s_buffer_") {
        return buffer(b, inst, operands, usize::from(bytes) / 4);
    }
    let [low, high] = words(operands, 0, 2)? else { return unsupported("the base") };
    let base = b.pack(*low, *high);
    let address = match operands.sources[1].first() {
        Some(register) => {
            let zero = b.word(0);
            let register = b.pack(*register, zero);
            b.binary(Binary::Add, base, register)
        }
        None => base,
    };
    let mut memory = Access {
        space: Space::Global,
        bytes,
        signed: false,
        offset: inst.imm,
        scope: MemoryScope::Wave,
        align: 2,
    };
    // The hardware ignores the two low bits of the sum.
    let address = match (trailing_zeros(b.function, address) >= 2, inst.imm % 4 == 0) {
        (true, true) => address,
        (_, true) => clear_low_bits(b, address),
        _ => {
            memory.offset = 0;
            let offset = b.double(i64::from(inst.imm) as u64);
            let sum = b.binary(Binary::Add, address, offset);
            clear_low_bits(b, sum)
        }
    };
    let mask = b.bit(true);
    Ok(Outcome::scalars(load(b, mask, address, memory)))
}

fn clear_low_bits(b: &mut Builder, address: Value) -> Value {
    let mask = b.double(!3);
    b.binary(Binary::And, address, mask)
}

fn clock(b: &mut Builder, clock: Clock) -> Outcome {
    let time = b.append(Operation::Clock(clock), &[], &[(Kind::Double, Shape::Uniform)])[0];
    let words = vec![b.low(time), b.high(time)];
    Outcome::scalars(words)
}

/// `s_buffer_load`: each dword is checked against the size of the buffer, and reads zero beyond it.
fn buffer(b: &mut Builder, inst: &Inst, operands: &Operands, dwords: usize) -> Result<Outcome, String> {
    let [low, high, records, _] = words(operands, 0, 4)? else { return unsupported("the resource") };
    let sixteen = b.word(0xffff);
    let base_high = b.binary(Binary::And, *high, sixteen);
    let base = b.pack(*low, base_high);
    let stride = b.extract(*high, 16, 14, false);
    let zero = b.word(0);
    let one = b.word(1);
    let raw = b.compare(Compare::Equal, stride, zero);
    let unit = b.select(raw, one, stride);
    let size = b.pure(Operation::MultiplyWide { signed: false }, &[*records, unit], Kind::Double);
    let mut offset = b.double(i64::from(inst.imm) as u64);
    if let Some(register) = operands.sources[1].first() {
        let register = b.pack(*register, zero);
        offset = b.binary(Binary::Add, register, offset);
    }
    let offset = clear_low_bits(b, offset);
    let first = b.binary(Binary::Add, base, offset);
    let mut out = Vec::new();
    for k in 0..dwords {
        // A negative offset is a large number: `offset < size` before `offset + 4 <= size`, which may wrap.
        let skip = b.double(4 * k as u64);
        let at = b.binary(Binary::Add, offset, skip);
        let four = b.double(4);
        let end = b.binary(Binary::Add, at, four);
        let starts = b.compare(Compare::LessUnsigned, at, size);
        let ends = b.compare(Compare::LessEqualUnsigned, end, size);
        let inside = b.binary(Binary::And, starts, ends);
        let memory = Access {
            space: Space::Global,
            bytes: 4,
            signed: false,
            offset: 4 * k as i32,
            scope: MemoryScope::Wave,
            align: 0,
        };
        out.extend(load(b, inside, first, memory));
    }
    Ok(Outcome::scalars(out))
}
