//! The example of a statement: the sample case in numbers, computed by the reference.

use std::collections::BTreeMap;

use board_contract::{ProblemExample, SampleArray, SampleNumber, SampleValue};
use board_problems::{Dtype, Place, Problem, Set, Value};

/// Seed of the judge's sample, so that a statement shows what the page's button "Sample" runs.
const SEED: u64 = 0;

/// Integers below this size are exact in JSON.
const EXACT: u64 = 1 << 53;

/// Returns the inputs and expected outputs of a problem's sample, in its first element type; `None` for a problem without a sample.
pub fn of(problem: &Problem) -> Option<ProblemExample> {
    let dtype = *problem.dtypes.first()?;
    let case = problem.cases(Set::Sample, Place::Emulated).next()?;
    let prepared = problem.prepare(case, dtype, SEED);
    let mut input = BTreeMap::new();
    for argument in &prepared.arguments {
        let Some(bytes) = argument.value.bytes() else { continue };
        let values = numbers(argument.value.element(), bytes);
        let value = match argument.value {
            Value::Scalar { .. } => values.into_iter().next().map(SampleValue::Scalar),
            _ => Some(array(argument.value.shape(), values)),
        };
        input.extend(value.map(|value| (argument.name.clone(), value)));
    }
    let output = problem.expected(case, dtype, &prepared).into_iter().map(|expected| {
        // Rounded to the element type, as a solution would write it.
        let values = numbers(expected.element, &expected.values.encode(expected.element));
        (expected.name, array(&expected.shape, values))
    });
    let output = output.collect();
    Some(ProblemExample { dtype: dtype.name().to_owned(), case: case.name.clone(), input, output })
}

fn array(shape: &[usize], values: Vec<SampleNumber>) -> SampleValue {
    SampleValue::Array(SampleArray { shape: shape.to_vec(), values })
}

/// Decodes elements. Numbers that JSON cannot represent become strings.
fn numbers(element: Dtype, bytes: &[u8]) -> Vec<SampleNumber> {
    if element.is_float() {
        let number = |value: f64| match value.is_finite() {
            true => SampleNumber::Real(value),
            false => SampleNumber::Text(value.to_string()),
        };
        return element.decode(bytes).into_iter().map(number).collect();
    }
    let number = |value: i128| match i64::try_from(value) {
        Ok(small) if small.unsigned_abs() < EXACT => SampleNumber::Integer(small),
        _ => SampleNumber::Text(value.to_string()),
    };
    element.decode_integers(bytes).into_iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_has_an_example_with_whole_arrays() {
        for problem in board_problems::all() {
            let example = of(problem).unwrap_or_else(|| panic!("{} has no sample", problem.slug));
            assert!(!example.output.is_empty(), "{}", problem.slug);
            for (name, value) in example.input.iter().chain(&example.output) {
                let SampleValue::Array(array) = value else { continue };
                assert_eq!(
                    array.values.len(),
                    array.shape.iter().product::<usize>(),
                    "{}: {name}",
                    problem.slug
                );
                assert!(array.values.len() <= 4096, "{}: {name} is too long for a page", problem.slug);
            }
        }
    }

    #[test]
    fn the_example_of_leaky_relu_obeys_its_formula() {
        let example = of(board_problems::find("leaky-relu").unwrap()).unwrap();
        let (SampleValue::Array(input), SampleValue::Array(output)) =
            (&example.input["input"], &example.output["output"])
        else {
            panic!("{example:?}")
        };
        let SampleValue::Scalar(SampleNumber::Real(alpha)) = example.input["alpha"] else {
            panic!("{example:?}")
        };
        assert_eq!(input.shape, [2, 4]);
        for pair in input.values.iter().zip(&output.values) {
            let (SampleNumber::Real(x), SampleNumber::Real(y)) = pair else { panic!("{pair:?}") };
            let expected = if *x > 0.0 { *x } else { alpha * x };
            assert!((y - expected).abs() < 1e-6, "{x} {y}");
        }
    }
}
