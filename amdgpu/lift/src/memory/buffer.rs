//! MUBUF: memory through buffer resources, with range checks, and scratch through the resource that a kernel is given for it.
//!
//! A resource is a run-time value. Whether it is swizzled or adds the lane number is known for few of them; the others are required
//! to be plain ([`Operation::Require`]), since compilers make no other ones.

use isa::{AccessKind, Arch, Flags, Inst, Op};

use super::atomic::{self, AtomicElement};
use super::element::{Element, load, store};
use super::facts::{known_zeros, trailing_zeros};
use super::fence::{atomic_scope, scope};
use super::{Operands, Outcome, lane_of_local, local_access, unsupported, words};
use crate::Builder;
use crate::form::*;

/// Bit of a resource's second word: dwords are interleaved.
const SWIZZLE: u64 = 1 << 31;
/// Bit of a resource's last word: the lane number is added to the index.
const ADD_LANE: u64 = 1 << 23;
/// The second, third and last word of the resource for scratch: dwords interleaved over 64 lanes, by lane number.
const SCRATCH: [u64; 3] = [SWIZZLE, 0xffff_ffff, ADD_LANE | 3 << 21];

/// Addresses of an access.
struct Place {
    address: Value,
    access: Access,
    /// For each dword, whether it is in range; `None` if all are.
    inside: Option<Vec<Value>>,
}

pub fn lift(b: &mut Builder, arch: Arch, inst: &Inst, operands: &Operands) -> Result<Outcome, String> {
    if inst.memory.tfe {
        return unsupported("texture fail enable");
    }
    let Some(access) = inst.op.memory_access() else { return unsupported("the operation") };
    let bytes = u8::try_from(access.bytes).map_err(|error| error.to_string())?;
    if access.kind == AccessKind::Atomic {
        let Some(element) = AtomicElement::of(inst.op) else { return unsupported("the atomic operation") };
        let place = place(b, inst, operands, element.bytes(), atomic_scope(inst))?;
        let data = words(operands, 1, element.words * if element.pair { 2 } else { 1 })?;
        let mask = last(b, operands.exec, &place);
        let old = atomic::atomic(b, inst, mask, place.address, data, (element, place.access));
        return Ok(Outcome::lanes(old));
    }
    let mut place = place(b, inst, operands, bytes, scope(arch, inst))?;
    if inst.op == Op::buffer_store_lds_dword {
        let from = lane_of_local(b, operands.m0);
        let data = load(b, operands.exec, from, local_access(4, inst.imm));
        let mask = last(b, operands.exec, &place);
        store(b, mask, place.address, &data, place.access);
        return Ok(Outcome::default());
    }
    let Some(element) = Element::of(inst) else { return unsupported("the element") };
    if access.kind == AccessKind::Store {
        let data = element.narrowed(b, words(operands, 1, element.words())?);
        store_parts(b, operands.exec, &place, &data);
        return Ok(Outcome::default());
    }
    place.access.signed = element.signed;
    let loaded = load_parts(b, operands.exec, &place);
    let loaded: Vec<Value> = loaded.into_iter().map(|word| element.widened(b, word)).collect();
    if inst.memory.lds || inst.encoding().flags.has(Flags::LDS_LOAD) {
        let to = lane_of_local(b, operands.m0);
        store(b, operands.exec, to, &loaded, local_access(4, inst.imm));
        return Ok(Outcome::default());
    }
    Ok(Outcome::lanes(loaded))
}

/// The lanes whose whole element is in range.
fn last(b: &mut Builder, exec: Value, place: &Place) -> Value {
    match place.inside.as_ref().and_then(|inside| inside.last()) {
        Some(inside) => b.binary(Binary::And, exec, *inside),
        None => exec,
    }
}

/// The lanes in which dword `k` is in range but the element's last one is not.
fn partly(b: &mut Builder, exec: Value, inside: &[Value], k: usize) -> Value {
    let all = inside[inside.len() - 1];
    let not = b.unary(Unary::Not, all);
    let only = b.binary(Binary::And, inside[k], not);
    b.binary(Binary::And, exec, only)
}

fn dword(place: &Place, k: usize) -> Access {
    Access { bytes: 4, offset: place.access.offset + 4 * k as i32, align: 0, ..place.access }
}

/// Loads an element as a whole where it is in range, and dword by dword where the range ends inside it.
fn load_parts(b: &mut Builder, exec: Value, place: &Place) -> Vec<Value> {
    let mask = last(b, exec, place);
    let mut loaded = load(b, mask, place.address, place.access);
    if let Some(inside) = place.inside.as_ref().filter(|inside| inside.len() > 1) {
        for (k, word) in loaded.iter_mut().enumerate().take(inside.len() - 1) {
            let mask = partly(b, exec, inside, k);
            let part = load(b, mask, place.address, dword(place, k))[0];
            *word = b.binary(Binary::Or, *word, part);
        }
    }
    loaded
}

/// The same for stores.
fn store_parts(b: &mut Builder, exec: Value, place: &Place, data: &[Value]) {
    let mask = last(b, exec, place);
    store(b, mask, place.address, data, place.access);
    if let Some(inside) = place.inside.as_ref().filter(|inside| inside.len() > 1) {
        for k in 0..inside.len() - 1 {
            let mask = partly(b, exec, inside, k);
            store(b, mask, place.address, &data[k..=k], dword(place, k));
        }
    }
}

/// Address and range of an element of `bytes` bytes.
fn place(
    b: &mut Builder,
    inst: &Inst,
    operands: &Operands,
    bytes: u8,
    scope: MemoryScope,
) -> Result<Place, String> {
    let resource = words(operands, 2, 4)?;
    let scalar_offset = words(operands, 3, 1)?[0];
    let constants: Vec<Option<u64>> = resource.iter().map(|word| b.function.constant(*word)).collect();
    let access = Access { space: Space::Global, bytes, signed: false, offset: 0, scope, align: 0 };
    let mut vector = operands.sources[0].iter().copied();
    let index = if inst.memory.idxen { vector.next() } else { None };
    let voffset = if inst.memory.offen { vector.next() } else { None };
    let constants = match operands.resource {
        // In loops and shared functions constants are not known yet. What is taken for granted is checked.
        Some(probable) if probable[1..] == SCRATCH.map(|word| word as u32) => {
            for (word, expected) in resource.iter().zip(probable) {
                let expected = b.word(expected);
                let right = b.compare(Compare::Equal, *word, expected);
                require(b, right);
            }
            probable.map(|word| Some(word.into())).to_vec()
        }
        _ => constants,
    };
    if constants[1..] == SCRATCH.map(Some) && index.is_none() {
        // The scalar offset counts bytes of the whole wave.
        let below = b.word(255);
        let rest = b.binary(Binary::And, scalar_offset, below);
        let zero = b.word(0);
        let fits = b.compare(Compare::Equal, rest, zero);
        require(b, fits);
        let six = b.word(6);
        let mut address = b.binary(Binary::ShiftRight, scalar_offset, six);
        if let Some(base) = constants[0].filter(|base| base % 256 == 0) {
            let base = b.word((base >> 6) as u32);
            address = b.binary(Binary::Add, address, base);
        } else {
            return unsupported("a scratch resource that was moved");
        }
        if let Some(offset) = voffset {
            address = b.binary(Binary::Add, address, offset);
        }
        let access = Access { space: Space::Private, offset: inst.imm, ..access };
        return Ok(Place { address, access, inside: None });
    }
    plain(b, resource[1], SWIZZLE);
    plain(b, resource[3], ADD_LANE);
    let zero = b.word(0);
    let low_half = b.word(0xffff);
    let high = b.binary(Binary::And, resource[1], low_half);
    let base = b.pack(resource[0], high);
    // The offset is a word that wraps; all sums after it are doubles that do not.
    let imm = b.word(inst.imm as u32);
    let offset = match voffset {
        Some(offset) => b.binary(Binary::Add, offset, imm),
        None => imm,
    };
    let mut at = b.pack(offset, zero);
    let mut structured = None;
    if let Some(index) = index {
        let stride = b.extract(resource[1], 16, 14, false);
        let start = b.pure(Operation::MultiplyWide { signed: false }, &[index, stride], Kind::Double);
        at = b.binary(Binary::Add, at, start);
        structured = Some((b.compare(Compare::NotEqual, stride, zero), index));
    }
    let scalar_wide = b.pack(scalar_offset, zero);
    let at = b.binary(Binary::Add, at, scalar_wide);
    let address = b.binary(Binary::Add, base, at);
    let records = b.pack(resource[2], zero);
    let count = usize::from(bytes).div_ceil(4);
    // Where the element's size divides both the range and the offset, an element is in range as a whole or not at all.
    let size = u32::from(bytes).trailing_zeros();
    let whole = bytes.is_power_of_two()
        && structured.is_none()
        && trailing_zeros(b.function, resource[2]) >= size
        && trailing_zeros(b.function, offset) >= size
        && trailing_zeros(b.function, scalar_offset) >= size;
    let mut inside = Vec::new();
    for k in if whole { count - 1 } else { 0 }..count {
        let end = b.double(4 * k as u64 + u64::from(bytes.min(4)));
        let end = b.binary(Binary::Add, at, end);
        let mut within = b.compare(Compare::LessEqualUnsigned, end, records);
        if let Some((structured, index)) = structured {
            let indexed = b.compare(Compare::LessUnsigned, index, resource[2]);
            within = b.select(structured, indexed, within);
        }
        inside.push(within);
    }
    Ok(Place { address, access, inside: Some(inside) })
}

/// Requires a bit of a resource's word to be clear, unless that is known.
fn plain(b: &mut Builder, word: Value, bit: u64) {
    if known_zeros(b.function, word) & bit != 0 {
        return;
    }
    let bit = b.word(bit as u32);
    let set = b.binary(Binary::And, word, bit);
    let zero = b.word(0);
    let clear = b.compare(Compare::Equal, set, zero);
    require(b, clear);
}

/// Stops the grid unless the uniform bit is set.
fn require(b: &mut Builder, bit: Value) {
    if b.function.constant(bit) != Some(1) {
        b.append(Operation::Require, &[bit], &[]);
    }
}
