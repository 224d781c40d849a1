//! Reference implementations of all problems: one row per problem, one file per family.
//!
//! References are written once over [`real::Real`], whose [`real::Mode`] defines the rounding of every operation. Submissions are judged in f64 without
//! further rounding; tests use other modes to validate the tolerances.

mod activation;
mod attention;
mod convolution;
mod field;
mod graph;
mod image;
mod loss;
mod matmul;
mod multi;
mod norm;
mod numeric;
mod pooling;
mod product;
mod quantised;
pub(crate) mod real;
mod reduction;
pub(crate) mod row;
mod scan;
mod softmax;
mod sorting;
#[cfg(test)]
pub(crate) mod tried;
mod vector;
mod wide;

use row::Row;

const FAMILIES: &[&[Row]] = &[
    activation::ROWS,
    attention::ROWS,
    convolution::ROWS,
    field::ROWS,
    graph::ROWS,
    image::ROWS,
    loss::ROWS,
    matmul::ROWS,
    multi::ROWS,
    norm::ROWS,
    numeric::ROWS,
    pooling::ROWS,
    quantised::ROWS,
    reduction::ROWS,
    scan::ROWS,
    softmax::ROWS,
    sorting::ROWS,
    vector::ROWS,
];

pub(crate) fn find(slug: &str) -> Option<&'static Row> {
    FAMILIES.iter().copied().flatten().find(|row| row.slug == slug)
}

/// Returns the slugs of all references.
#[cfg(test)]
pub(crate) fn slugs() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().copied().flatten().map(|row| row.slug)
}

#[cfg(test)]
mod tests {
    use crate::case::{Place, Set};
    use crate::compare::Expected;
    use crate::set::all;
    use crate::threads::with_small_parts;
    use crate::values::Values;

    /// The bits of all values: a comparison of numbers would not tell zero from negative zero.
    fn bits(expected: &[Expected]) -> Vec<Vec<u64>> {
        let of_values = |values: &Values| match values {
            Values::Floats(values) => values.iter().map(|value| value.to_bits()).collect(),
            Values::Integers(values) => values.iter().map(|value| *value as u64).collect(),
            Values::Naturals(values) => values.clone(),
        };
        expected.iter().map(|expected| of_values(&expected.values)).collect()
    }

    #[test]
    fn references_and_inputs_have_the_same_bits_on_any_number_of_threads() {
        for problem in all() {
            let cases = problem.cases(Set::Check, Place::Emulated);
            for case in cases.chain(problem.cases(Set::Sample, Place::Emulated)) {
                for dtype in &problem.dtypes {
                    let computed = |threads| {
                        with_small_parts(threads, || {
                            let prepared = problem.prepare(case, *dtype, 5);
                            let expected = bits(&problem.expected(case, *dtype, &prepared));
                            (prepared, expected)
                        })
                    };
                    assert!(computed(1) == computed(3), "{}: {}: {dtype}", problem.slug, case.name);
                }
            }
        }
    }
}
