//! Descriptions of inputs whose elements are independent of each other, so that a device can generate them.

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
    fn generators_follow_the_signature() {
        let problem = find("axpy").unwrap();
        let generators = problem.generators(&problem.cases[0], Dtype::Float32).unwrap();
        let numbers = Numbers::Uniform { low: -1.0, high: 1.0 };
        let input = Some(Generator { element: Dtype::Float32, count: 8, numbers });
        assert_eq!(generators, [None, input, input, None]);
    }
}
