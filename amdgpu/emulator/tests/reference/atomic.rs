//! Reference implementation of atomics, from the formulas in the manuals.

use isa_reference::exact::{F16, F32, F64, Format, NEAREST, Number};

const BF16: Format = Format { bits: 16, fraction: 7 };

/// An atomic operation in one normalised spelling, without its format and `_rtn` (`add`, `smin`, `cmpswap`), and the width of its
/// word in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atomic {
    operation: &'static str,
    pub bits: u32,
    /// Float format of the word, if any; the payload of a NaN result is unspecified.
    pub floats: Option<Format>,
}

/// DS spelling, spelling in all other formats, float format.
const NAMES: &[(&str, &str, Option<Format>)] = &[
    ("add_u", "add", None),
    ("sub_u", "sub", None),
    ("rsub_u", "", None),
    ("inc_u", "inc", None),
    ("dec_u", "dec", None),
    ("min_i", "smin", None),
    ("max_i", "smax", None),
    ("min_u", "umin", None),
    ("max_u", "umax", None),
    ("and_b", "and", None),
    ("or_b", "or", None),
    ("xor_b", "xor", None),
    ("mskor_b", "", None),
    ("wrxchg_b", "swap", None),
    ("cmpst_b", "cmpswap", None),
    ("wrap_b", "", None),
    ("cmpst_f32", "", Some(F32)),
    ("cmpst_f64", "", Some(F64)),
    ("min_f32", "", Some(F32)),
    ("max_f32", "", Some(F32)),
    ("min_f64", "min_f64", Some(F64)),
    ("max_f64", "max_f64", Some(F64)),
    ("add_f32", "add_f32", Some(F32)),
    ("add_f64", "add_f64", Some(F64)),
    ("pk_add_f16", "pk_add_f16", Some(F16)),
    ("pk_add_bf16", "pk_add_bf16", Some(BF16)),
];

impl Atomic {
    /// Parses a DS name without `ds_` and `_rtn`.
    pub fn of_local(bare: &str) -> Option<Atomic> {
        if bare == "condxchg32_b64" {
            return Some(Atomic { operation: "condxchg32", bits: 64, floats: None });
        }
        NAMES.iter().find_map(|(name, _, floats)| {
            let (bits, named) = match floats {
                Some(_) => (if name.ends_with("f64") { 64 } else { 32 }, bare == *name),
                None => match bare.strip_prefix(name)? {
                    "32" => (32, true),
                    "64" => (64, true),
                    _ => (0, false),
                },
            };
            named.then_some(Atomic { operation: name, bits, floats: *floats })
        })
    }

    /// Parses the part of a name after `_atomic_`.
    pub fn of_memory(suffix: &str) -> Option<Atomic> {
        let (stem, wide) = suffix.strip_suffix("_x2").map_or((suffix, false), |stem| (stem, true));
        let (name, _, floats) = NAMES.iter().find(|(_, other, _)| !other.is_empty() && *other == stem)?;
        let bits = if wide || name.ends_with("f64") { 64 } else { 32 };
        Some(Atomic { operation: name, bits, floats: *floats })
    }

    /// Whether the operation has two operands.
    pub fn is_pair(self) -> bool {
        ["mskor_b", "cmpst_b", "cmpst_f32", "cmpst_f64", "wrap_b"].contains(&self.operation)
    }

    /// Computes the new word. `first` and `second` are the operands in DS order: the compare value comes before the new value.
    pub fn apply(self, old: u64, first: u64, second: u64) -> u64 {
        let mask = u64::MAX >> (64 - self.bits);
        let signed = |value: u64| (value << (64 - self.bits)) as i64;
        let new = match self.operation {
            "add_u" => old.wrapping_add(first),
            "sub_u" => old.wrapping_sub(first),
            "rsub_u" => first.wrapping_sub(old),
            "inc_u" if old >= first => 0,
            "inc_u" => old + 1,
            "dec_u" if old == 0 || old > first => first,
            "dec_u" => old - 1,
            "min_i" if signed(first) < signed(old) => first,
            "max_i" if signed(first) > signed(old) => first,
            "min_i" | "max_i" => old,
            "min_u" => first.min(old),
            "max_u" => first.max(old),
            "and_b" => old & first,
            "or_b" => old | first,
            "xor_b" => old ^ first,
            "mskor_b" => old & !first | second,
            "wrxchg_b" => first,
            "cmpst_b" if old == first => second,
            "cmpst_b" => old,
            "wrap_b" if old >= first => old - first,
            "wrap_b" => old.wrapping_add(second),
            "condxchg32" => {
                // Each dword is replaced if its operand's top bit is set; that bit is not stored.
                let dword = |shift: u32| {
                    let (old, new) = (old >> shift & 0xffff_ffff, first >> shift & 0xffff_ffff);
                    (if new >> 31 == 1 { new & 0x7fff_ffff } else { old }) << shift
                };
                dword(0) | dword(32)
            }
            operation => {
                let format = self.floats.expect("a float operation");
                let mut new = 0;
                for shift in (0..self.bits).step_by(format.bits as usize) {
                    let part = |word: u64| word >> shift & (u64::MAX >> (64 - format.bits));
                    new |= float(operation, format, part(old), part(first), part(second)) << shift;
                }
                new
            }
        };
        new & mask
    }
}

/// Sums round to nearest even and keep subnormals; a number takes precedence over a NaN.
fn float(operation: &str, format: Format, old: u64, first: u64, second: u64) -> u64 {
    let (was, data) = (Number::of(format, old), Number::of(format, first));
    let order = data.compare(was);
    match operation.split_at(operation.len().min(3)).0 {
        "cmp" if order == Some(std::cmp::Ordering::Equal) => second,
        "cmp" => old,
        "min" if order == Some(std::cmp::Ordering::Less) || format.is_nan(old) => first,
        "max" if order == Some(std::cmp::Ordering::Greater) || format.is_nan(old) => first,
        "min" | "max" => old,
        _ => was.plus(data, NEAREST).bits(format, NEAREST),
    }
}
