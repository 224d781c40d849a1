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
