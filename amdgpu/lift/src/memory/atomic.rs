//! Atomic operations by their names, and their operands.

use isa::{Inst, Op};

use crate::Builder;
use crate::form::*;

/// An atomic operation of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicElement {
    /// The operation.
    pub atomic: Atomic,
    /// Words of a datum: 1 or 2.
    pub words: usize,
    /// Has two data.
    pub pair: bool,
}

impl AtomicElement {
    /// The atomic operation of a DS, FLAT, GLOBAL or MUBUF instruction.
    pub fn of(op: Op) -> Option<AtomicElement> {
        let name = op.name();
        let (stem, words) = match name.strip_prefix("ds_") {
            Some(local) => local_stem(local)?,
            None => {
                let (_, suffix) = name.split_once("_atomic_")?;
                let wide = suffix.ends_with("_x2") || suffix.ends_with("f64");
                (suffix.trim_end_matches("_x2").to_owned(), if wide { 2 } else { 1 })
            }
        };
        let atomic = by_stem(&stem)?;
        let pair = matches!(atomic, Atomic::CompareSwap | Atomic::FloatCompareSwap | Atomic::MaskedOr);
        Some(AtomicElement { atomic, words, pair })
    }

    /// Bytes in memory.
    pub fn bytes(self) -> u8 {
        4 * self.words as u8
    }
}

/// A DS name in the spelling of the other formats, and the words of its datum.
fn local_stem(name: &str) -> Option<(String, usize)> {
    let name = name.replace("_rtn", "");
    let words = if name.ends_with("64") { 2 } else { 1 };
    if name.contains("_f") && !name.contains("pk_") || name.contains("pk_") {
        return Some((name, words));
    }
    let (stem, kind) = name.rsplit_once('_')?;
    let stem = match (stem, kind.as_bytes().first()?) {
        ("min", b'i') => "smin",
        ("max", b'i') => "smax",
        ("min", _) => "umin",
        ("max", _) => "umax",
        ("wrxchg", _) => "swap",
        ("cmpst", _) => "cmpswap",
        (stem, _) => stem,
    };
    Some((stem.to_owned(), words))
}

fn by_stem(stem: &str) -> Option<Atomic> {
    Some(match stem {
        "swap" => Atomic::Swap,
        "cmpswap" => Atomic::CompareSwap,
        "add" => Atomic::Add,
        "sub" => Atomic::Subtract,
        "rsub" => Atomic::ReverseSubtract,
        "smin" => Atomic::MinimumSigned,
        "umin" => Atomic::MinimumUnsigned,
        "smax" => Atomic::MaximumSigned,
        "umax" => Atomic::MaximumUnsigned,
        "and" => Atomic::And,
        "or" => Atomic::Or,
        "xor" => Atomic::Xor,
        "inc" => Atomic::Increment,
        "dec" => Atomic::Decrement,
        "mskor" => Atomic::MaskedOr,
        "add_f32" | "add_f64" => Atomic::FloatAdd,
        "min_f32" | "min_f64" => Atomic::FloatMinimum,
        "max_f32" | "max_f64" => Atomic::FloatMaximum,
        "cmpst_f32" | "cmpst_f64" => Atomic::FloatCompareSwap,
        "pk_add_f16" => Atomic::HalfAdd,
        "pk_add_bf16" => Atomic::Bf16Add,
        _ => return None,
    })
}

/// An atomic operation. The old values are returned if the instruction has a destination.
pub fn atomic(
    b: &mut Builder,
    inst: &Inst,
    mask: Value,
    address: Value,
    data: &[Value],
    (element, access): (AtomicElement, Access),
) -> Vec<Value> {
    let returns = if inst.dst == isa::Operand::None { Returns::Nothing } else { Returns::Old };
    append(b, mask, address, data, (element, access, returns))
}

/// An atomic operation that returns the old values or not.
pub fn append(
    b: &mut Builder,
    mask: Value,
    address: Value,
    data: &[Value],
    (element, access, returns): (AtomicElement, Access, Returns),
) -> Vec<Value> {
    let operands: Vec<Value> = [mask, address].iter().chain(data).copied().collect();
    let count = if returns == Returns::Old { element.words } else { 0 };
    b.append(
        Operation::Atomic(element.atomic, access, returns),
        &operands,
        &vec![(Kind::Word, Shape::Lane); count],
    )
}

#[cfg(test)]
mod tests {
    use isa::{ENCODINGS, Flags, Format};

    use super::*;

    fn of(name: &str) -> Option<(Atomic, usize)> {
        AtomicElement::of(Op::from_name(name).expect("an operation"))
            .map(|element| (element.atomic, element.words))
    }

    #[test]
    fn names_give_operations_and_sizes() {
        assert_eq!(of("ds_add_rtn_u64"), Some((Atomic::Add, 2)));
        assert_eq!(of("ds_min_i32"), Some((Atomic::MinimumSigned, 1)));
        assert_eq!(of("ds_max_rtn_u32"), Some((Atomic::MaximumUnsigned, 1)));
        assert_eq!(of("ds_min_rtn_f64"), Some((Atomic::FloatMinimum, 2)));
        assert_eq!(of("ds_wrxchg_rtn_b32"), Some((Atomic::Swap, 1)));
        assert_eq!(of("ds_cmpst_f32"), Some((Atomic::FloatCompareSwap, 1)));
        assert_eq!(of("ds_pk_add_rtn_bf16"), Some((Atomic::Bf16Add, 1)));
        assert_eq!(of("global_atomic_smin_x2"), Some((Atomic::MinimumSigned, 2)));
        assert_eq!(of("flat_atomic_add_f64"), Some((Atomic::FloatAdd, 2)));
        assert_eq!(of("buffer_atomic_cmpswap"), Some((Atomic::CompareSwap, 1)));
    }

    #[test]
    fn all_vector_atomics_but_two_have_an_operation() {
        let formats = [Format::Ds, Format::Flat, Format::Global, Format::Mubuf];
        let missing: Vec<&str> = ENCODINGS
            .iter()
            .filter(|row| formats.contains(&row.format) && row.flags.has(Flags::ATOMIC))
            .filter(|row| AtomicElement::of(row.op).is_none())
            .map(|row| row.op.name())
            .collect();
        let special = [
            "ds_wrxchg2_rtn_b32",
            "ds_wrxchg2st64_rtn_b32",
            "ds_wrap_rtn_b32",
            "ds_wrxchg2_rtn_b64",
            "ds_wrxchg2st64_rtn_b64",
            "ds_condxchg32_rtn_b64",
            "ds_consume",
            "ds_append",
        ];
        assert_eq!(missing, special);
    }
}
