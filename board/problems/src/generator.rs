//! Input generators for elements that do not depend on each other. The device runs them for every sample. The host generates the same
//! bits to verify a sample, and does not read them back: a submission can change memory and code on the device.

use std::ops::Range;

use half::{bf16, f16};

use crate::case::Case;
use crate::dtype::Dtype;
use crate::expression::known;
use crate::parameter::{Direction, Fill};
use crate::problem::Problem;

/// How a device generates an input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Generator {
    /// Element type.
    pub element: Dtype,
    /// Number of elements.
    pub count: usize,
    /// What the elements are.
    pub numbers: Numbers,
}

/// Random numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Numbers {
    /// Real numbers from `[low, high)`.
    Uniform {
        /// Lower bound, inclusive.
        low: f64,
        /// Upper bound, exclusive.
        high: f64,
    },
    /// Integers from `low` to `high`, inclusive.
    Integers {
        /// Lower bound.
        low: i64,
        /// Upper bound.
        high: i64,
    },
    /// Random bits.
    Bits,
}

impl Generator {
    /// Returns the elements that the device generates from a seed, bit for bit.
    pub fn elements(&self, seed: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.count * self.element.size());
        self.append(seed, 0..self.count, &mut bytes);
        bytes
    }

    /// Appends some of the elements. Each depends on the seed and its position alone.
    pub(crate) fn append(&self, seed: u64, elements: Range<usize>, bytes: &mut Vec<u8>) {
        let random = elements.map(|index| mixed(seed, index as u64 + 1));
        match (self.numbers, self.element) {
            (Numbers::Uniform { low, high }, _) => {
                let span = high - low;
                self.floats(bytes, random.map(|bits| span.mul_add((bits >> 11) as f64 * UNIT, low)));
            }
            (Numbers::Integers { low, high }, element) => {
                let span = high.abs_diff(low).wrapping_add(1);
                let whole = random.map(|bits| {
                    let above = (u128::from(bits) * u128::from(span)) >> 64;
                    (low as u64).wrapping_add(above as u64)
                });
                match element.is_float() {
                    true => self.floats(bytes, whole.map(|bits| bits as i64 as f64)),
                    false => self.low_bits(bytes, whole),
                }
            }
            (Numbers::Bits, _) => self.low_bits(bytes, random),
        }
    }

    fn floats(&self, bytes: &mut Vec<u8>, numbers: impl Iterator<Item = f64>) {
        match self.element {
            // Rounded twice, as on the device.
            Dtype::Float16 => extend(bytes, numbers.map(|it| f16::from_f32(it as f32).to_le_bytes())),
            Dtype::Bfloat16 => extend(bytes, numbers.map(|it| bf16::from_f32(it as f32).to_le_bytes())),
            Dtype::Float32 => extend(bytes, numbers.map(|it| (it as f32).to_le_bytes())),
            _ => extend(bytes, numbers.map(f64::to_le_bytes)),
        }
    }

    /// The low bits of each number, as many as an element has.
    fn low_bits(&self, bytes: &mut Vec<u8>, numbers: impl Iterator<Item = u64>) {
        match self.element.size() {
            1 => extend(bytes, numbers.map(|it| (it as u8).to_le_bytes())),
            2 => extend(bytes, numbers.map(|it| (it as u16).to_le_bytes())),
            4 => extend(bytes, numbers.map(|it| (it as u32).to_le_bytes())),
            _ => extend(bytes, numbers.map(u64::to_le_bytes)),
        }
    }
}

/// 2^-53.
const UNIT: f64 = 1.0 / (1_u64 << 53) as f64;

/// The random bits of an element, counted from 1.
fn mixed(seed: u64, index: u64) -> u64 {
    let z = seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn extend<const N: usize>(bytes: &mut Vec<u8>, elements: impl Iterator<Item = [u8; N]>) {
    bytes.extend(elements.flatten());
}

impl Problem {
    /// Returns the generators of a case in the order of the signature: `None` inside for scalars and outputs. `None` if inputs depend
    /// on each other.
    pub fn generators(&self, case: &Case, dtype: Dtype) -> Option<Vec<Option<Generator>>> {
        if self.row.inputs.is_some() {
            return None;
        }
        let mut generators = Vec::new();
        for parameter in &self.parameters {
            if matches!(parameter.direction, Direction::Out | Direction::Scalar) {
                generators.push(None);
                continue;
            }
            let element = parameter.element.dtype(dtype);
            let numbers = match &parameter.fill {
                Fill::Uniform { low, high } if element.is_float() => {
                    Numbers::Uniform { low: *low, high: *high }
                }
                // As in `prepare`: integers with about as many digits.
                Fill::Uniform { low, high } => {
                    Numbers::Integers { low: (low * 1000.0) as i64, high: (high * 1000.0) as i64 }
                }
                Fill::Integers { low, high } => Numbers::Integers {
                    low: known(low.integer(&case.sizes)),
                    high: known(high.integer(&case.sizes)),
                },
                Fill::Bits => Numbers::Bits,
                Fill::Made => return None,
            };
            let count = parameter.extents(case).iter().product();
            generators.push(Some(Generator { element, count, numbers }));
        }
        Some(generators)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::{all, find};

    #[test]
    fn most_problems_have_inputs_that_a_device_can_generate() {
        let can = |problem: &&Problem| problem.generators(&problem.cases[0], problem.dtypes[0]).is_some();
        let count = all().iter().filter(can).count();
        assert!(count * 10 > all().len() * 8, "{count} of {}", all().len());
    }

    #[test]
    fn elements_are_in_their_range_and_follow_from_the_seed() {
        let generator = |element, numbers| Generator { element, count: 1000, numbers };
        for element in [Dtype::Float16, Dtype::Bfloat16, Dtype::Float32, Dtype::Float64] {
            let uniform = generator(element, Numbers::Uniform { low: -2.0, high: 1.0 });
            let numbers = element.decode(&uniform.elements(7));
            assert_eq!(numbers.len(), 1000);
            assert!(numbers.iter().all(|it| (-2.0..=1.0).contains(it)), "{element}");
            assert!(numbers.iter().any(|it| *it < -1.9) && numbers.iter().any(|it| *it > 0.9), "{element}");
            assert_eq!(uniform.elements(7), uniform.elements(7));
            assert_ne!(uniform.elements(7), uniform.elements(8));
        }
        for element in [Dtype::Int8, Dtype::Int32, Dtype::Int64, Dtype::Float32] {
            let integers = generator(element, Numbers::Integers { low: -3, high: 3 });
            let mut numbers = element.decode_integers(&integers.elements(7));
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers, [-3, -2, -1, 0, 1, 2, 3], "{element}");
        }
        assert_eq!(generator(Dtype::Uint8, Numbers::Bits).elements(7).len(), 1000);
        assert_eq!(generator(Dtype::Float16, Numbers::Bits).elements(7).len(), 2000);
    }

    #[test]
    fn generators_follow_the_signature() {
        let problem = find("axpy").unwrap();
        let generators = problem.generators(&problem.cases[0], Dtype::Float32).unwrap();
        let numbers = Numbers::Uniform { low: -1.0, high: 1.0 };
        let input = Some(Generator { element: Dtype::Float32, count: 8, numbers });
        assert_eq!(generators, [None, input, input, None]);
    }
}
