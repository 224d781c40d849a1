//! Tolerances let honest single precision pass, in any order of summation, and do not let half precision pass for it.

use board_problems::reference::Arithmetic;
use board_problems::{Case, Comparison, Direction, Dtype, Place, Problem, Set, all};

const SEEDS: [u64; 3] = [11, 12, 13];

/// How every output of a case compares if it is computed in this arithmetic.
fn compared(problem: &Problem, case: &Case, arithmetic: Arithmetic, seed: u64) -> Vec<Comparison> {
    let dtype = Dtype::Float32;
    let prepared = problem.prepare(case, dtype, seed);
    let expected = problem.expected(case, dtype, &prepared);
    let actual = problem.computed_in(arithmetic, case, dtype, &prepared);
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
                    for found in
                        compared(problem, case, arithmetic, seed).iter().filter(|found| !found.passed)
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
fn half_precision_never_passes_for_single() {
    let mut passed = Vec::new();
    for problem in single_precision_problems().filter(|problem| !problem.exact) {
        // Half precision loses nothing of inputs that are no single-precision numbers to begin with.
        let loses = problem.parameters.iter().any(|parameter| {
            parameter.direction != Direction::Out && parameter.element.dtype(Dtype::Float32) == Dtype::Float32
        });
        let ways = if loses { &[Arithmetic::HalfInputs, Arithmetic::Half][..] } else { &[Arithmetic::Half] };
        for arithmetic in ways.iter().copied() {
            for seed in SEEDS {
                let caught = problem
                    .cases(Set::Check, Place::Emulated)
                    .any(|case| compared(problem, case, arithmetic, seed).iter().any(|found| !found.passed));
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
