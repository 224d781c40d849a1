//! Precision that a correct solution needs for its inputs. It decides which units of a GPU can compute a problem.

use crate::dtype::Dtype;
use crate::parameter::Direction;
use crate::problem::Problem;

/// Largest relative error of rounding to ten mantissa bits, as xf32 (TF32) and float16 have them.
const TEN_BIT_ROUNDING: f64 = 1.0 / 2048.0;

/// Least precision of the inputs with which a solution passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputPrecision {
    /// All bits of the element type.
    Whole,
    /// Ten mantissa bits: the tolerance of single precision is as large as their rounding errors.
    TenBits,
    /// The inputs have at most eight bits, so that narrow types represent them exactly.
    Byte,
}

impl Problem {
    /// Returns the precision that a solution needs for its inputs.
    pub fn input_precision(&self, dtype: Dtype) -> InputPrecision {
        let mut sizes = self
            .parameters
            .iter()
            .filter(|parameter| matches!(parameter.direction, Direction::In | Direction::InOut))
            .map(|parameter| parameter.element.dtype(dtype).size())
            .peekable();
        if sizes.peek().is_some() && sizes.all(|size| size == 1) {
            return InputPrecision::Byte;
        }
        match dtype {
            // The absolute tolerance says nothing without the magnitude of the results, and is smaller in all problems.
            Dtype::Float32 if self.tolerance(dtype).rtol >= TEN_BIT_ROUNDING => InputPrecision::TenBits,
            _ => InputPrecision::Whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Tolerance;
    use crate::set::{all, find};

    #[test]
    fn single_precision_problems_need_whole_inputs_unless_these_are_bytes() {
        // The tests of the tolerances show that inputs of ten bits are refused.
        for problem in all().iter().filter(|problem| problem.dtypes.contains(&Dtype::Float32)) {
            let floats = problem.parameters.iter().any(|parameter| {
                matches!(parameter.direction, Direction::In | Direction::InOut)
                    && parameter.element.dtype(Dtype::Float32) == Dtype::Float32
            });
            let expected = if floats { InputPrecision::Whole } else { InputPrecision::Byte };
            assert_eq!(problem.input_precision(Dtype::Float32), expected, "{}", problem.slug);
        }
    }

    #[test]
    fn a_tolerance_above_the_rounding_of_ten_bits_permits_them() {
        let mut problem = find("matrix-multiplication").unwrap().clone();
        for (rtol, expected) in [(1e-3, InputPrecision::TenBits), (4e-4, InputPrecision::Whole)] {
            problem.tolerances.insert(Dtype::Float32, Tolerance { rtol, atol: 1e-5 });
            assert_eq!(problem.input_precision(Dtype::Float32), expected, "{rtol}");
        }
        assert_eq!(problem.input_precision(Dtype::Float64), InputPrecision::Whole);
    }
}
