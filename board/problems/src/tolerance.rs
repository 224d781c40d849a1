//! Tests of the tolerances: they must accept single precision in any order of summation, and must reject half precision. This module is
//! compiled for tests only.

use crate::argument::Prepared;
use crate::case::{Case, Place, Set};
use crate::compare::Comparison;
use crate::dtype::Dtype;
use crate::parameter::Direction;
use crate::problem::Problem;
use crate::reference::row::Call;
use crate::reference::tried::Arithmetic;
use crate::set::all;

/// Computes the outputs of a solution in this arithmetic, as bytes.
fn computed(
    problem: &Problem,
    arithmetic: Arithmetic,
    case: &Case,
    dtype: Dtype,
    prepared: &Prepared,
) -> Vec<Vec<u8>> {
    let values = arithmetic.during(|| (problem.row.tried)(&Call::new(case, prepared)));
    let outputs = problem.expecting(case, dtype, values);
    outputs.into_iter().map(|output| output.values.encode(output.element)).collect()
}

const SEEDS: [u64; 3] = [11, 12, 13];

/// Compares every output of a case as computed in this arithmetic.
fn compared(
    problem: &Problem,
    case: &Case,
    dtype: Dtype,
    arithmetic: Arithmetic,
    seed: u64,
) -> Vec<Comparison> {
    let prepared = problem.prepare(case, dtype, seed);
    let expected = problem.expected(case, dtype, &prepared);
    let actual = computed(problem, arithmetic, case, dtype, &prepared);
    expected.iter().zip(actual).map(|(right, bytes)| problem.compare(case, dtype, right, &bytes)).collect()
}

fn single_precision_problems() -> impl Iterator<Item = &'static Problem> {
    all().iter().filter(|problem| problem.dtypes.contains(&Dtype::Float32))
}

#[test]
fn honest_single_precision_passes_in_any_order() {
    let mut refused = Vec::new();
    for problem in single_precision_problems() {
        for case in problem.cases(Set::Check, Place::Emulated) {
            for arithmetic in [Arithmetic::Single, Arithmetic::SinglePairwise] {
                for seed in SEEDS {
                    for found in compared(problem, case, Dtype::Float32, arithmetic, seed)
                        .iter()
                        .filter(|found| !found.passed)
                    {
                        let sample = &found.samples[0];
                        refused.push(format!("{}: {}: {arithmetic:?}: {sample:?}", problem.slug, case.name));
                    }
                }
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn single_precision_rounded_to_the_type_of_the_output_passes() {
    let mut refused = Vec::new();
    for problem in all() {
        for dtype in problem.dtypes.iter().copied().filter(|dtype| *dtype != Dtype::Float64) {
            for case in problem.cases(Set::Check, Place::Emulated) {
                for found in compared(problem, case, dtype, Arithmetic::Single, 31) {
                    if !found.passed {
                        refused.push(format!(
                            "{}: {dtype}: {}: {:?}",
                            problem.slug, case.name, found.samples[0]
                        ));
                    }
                }
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn half_precision_never_passes_for_single() {
    let mut passed = Vec::new();
    for problem in single_precision_problems().filter(|problem| !problem.exact) {
        // Half precision cannot degrade inputs that are not in single precision.
        let loses = problem.parameters.iter().any(|parameter| {
            parameter.direction != Direction::Out && parameter.element.dtype(Dtype::Float32) == Dtype::Float32
        });
        let ways = if loses { &[Arithmetic::HalfInputs, Arithmetic::Half][..] } else { &[Arithmetic::Half] };
        for arithmetic in ways.iter().copied() {
            for seed in SEEDS {
                let caught = problem.cases(Set::Check, Place::Emulated).any(|case| {
                    compared(problem, case, Dtype::Float32, arithmetic, seed)
                        .iter()
                        .any(|found| !found.passed)
                });
                if !caught {
                    passed.push(format!("{}: {arithmetic:?}", problem.slug));
                }
            }
        }
    }
    assert!(passed.is_empty(), "{}", passed.join("\n"));
}

#[test]
fn what_is_expected_is_always_a_number() {
    for problem in all() {
        for dtype in &problem.dtypes {
            for case in problem.cases.iter().filter(|case| case.place.is_none()) {
                let prepared = problem.prepare(case, *dtype, 5);
                for expected in problem.expected(case, *dtype, &prepared) {
                    let bytes = expected.values.encode(expected.element);
                    let found = problem.compare(case, *dtype, &expected, &bytes);
                    assert!(found.passed, "{}: {}: {dtype}: {:?}", problem.slug, case.name, found.samples);
                }
            }
        }
    }
}
