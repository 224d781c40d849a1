//! Elements that loads and stores move: size, sign, and the half of the register.

use isa::{Inst, Op};

use crate::Builder;
use crate::form::*;

/// Element that an instruction moves between memory and registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    /// Bytes in memory.
    pub bytes: u8,
    /// Sign-extended in a word.
    pub signed: bool,
    /// Half of the register, for instructions that move one half.
    pub half: Option<Half>,
}

/// Half of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    Low,
    High,
}

impl Element {
    /// Element of a load or store.
    pub fn of(inst: &Inst) -> Option<Element> {
        let bytes = inst.op.memory_access()?.bytes;
        let name = inst.op.name();
        let half = match () {
            () if name.ends_with("_d16_hi") => Some(Half::High),
            () if name.ends_with("_d16") => Some(Half::Low),
            () => None,
        };
        Some(Element { bytes: u8::try_from(bytes).ok()?, signed: is_signed(inst.op), half })
    }

    /// Register value of a loaded element of one word. Loading a half clears the other half, as with SRAM ECC.
    pub fn widened(self, b: &mut Builder, word: Value) -> Value {
        match self.half {
            None => word,
            Some(Half::Low) if !self.signed => word,
            Some(Half::Low) => b.extract(word, 0, 16, false),
            Some(Half::High) => {
                let sixteen = b.word(16);
                b.binary(Binary::ShiftLeft, word, sixteen)
            }
        }
    }

    /// Words to store, from the words of the register.
    pub fn narrowed(self, b: &mut Builder, words: &[Value]) -> Vec<Value> {
        match self.half {
            Some(Half::High) => vec![b.extract(words[0], 16, 16, false)],
            _ => words.to_vec(),
        }
    }

    /// Number of words.
    pub fn words(self) -> usize {
        usize::from(self.bytes).div_ceil(4)
    }
}

/// Whether a load of one or two bytes is sign-extended.
fn is_signed(op: Op) -> bool {
    let name = op.name();
    ["_sbyte", "_sshort", "read_i8", "read_i16"].iter().any(|part| name.contains(part))
}

/// A load: results are zero in lanes outside the mask.
pub fn load(b: &mut Builder, mask: Value, address: Value, access: Access) -> Vec<Value> {
    // Lanes have scratch of their own: one address is different memory in each.
    let shape = match access.space {
        Space::Private | Space::Flat => Shape::Lane,
        _ => b.function.shape(mask).max(b.function.shape(address)),
    };
    let results = vec![(Kind::Word, shape); usize::from(access.bytes).div_ceil(4)];
    b.append(Operation::Load(access), &[mask, address], &results)
}

/// A store.
pub fn store(b: &mut Builder, mask: Value, address: Value, words: &[Value], access: Access) {
    let operands: Vec<Value> = [mask, address].iter().chain(words).copied().collect();
    b.append(Operation::Store(access), &operands, &[]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_follow_the_names() {
        let element = |name: &str| {
            let op = Op::from_name(name).expect("an operation");
            (op.memory_access().map(|access| access.bytes), is_signed(op))
        };
        assert_eq!(element("global_load_sbyte_d16_hi"), (Some(1), true));
        assert_eq!(element("ds_read_i16"), (Some(2), true));
        assert_eq!(element("ds_read_u16_d16"), (Some(2), false));
        assert_eq!(element("scratch_load_lds_sshort"), (Some(2), true));
        assert_eq!(element("buffer_load_short_d16"), (Some(2), false));
        assert_eq!(element("global_load_dwordx3"), (Some(12), false));
    }
}
