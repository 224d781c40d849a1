//! What is right, for every problem: one row each, one file a family.
//!
//! References are written once over [`Real`], whose [`Mode`] says how every operation is rounded: not at all
//! (f64, the truth, which judges submissions), or as tests want it, which judge the tolerances.

mod activation;
mod attention;
mod convolution;
mod field;
mod graph;
mod image;
mod loss;
mod matmul;
mod norm;
mod numeric;
mod pooling;
mod quantised;
mod real;
mod reduction;
mod scan;
mod softmax;
mod sorting;
mod vector;

use crate::case::Case;
use crate::compare::Values;
use crate::dtype::Dtype;
use crate::prepare::{Maker, Prepared, Value};
pub use real::{Exact, Mode, Real};
use std::marker::PhantomData;

/// A problem's reference, and the maker of its inputs if it has one.
#[derive(Debug)]
pub struct Row {
    slug: &'static str,
    pub(crate) inputs: Option<fn(&mut Maker<'_>)>,
    pub(crate) exact: fn(&Call<'_, Exact>) -> Vec<Values>,
    #[cfg(test)]
    pub(crate) tried: fn(&Call<'_, crate::tolerance::Tried>) -> Vec<Values>,
}

/// Writes the rows of a family: `"slug" => function` or `"slug" => function, maker`.
macro_rules! rows {
    ($($slug:literal => $compute:path $(, $inputs:path)?;)*) => {
        &[$($crate::reference::Row {
            slug: $slug,
            inputs: $crate::reference::rows!(@inputs $($inputs)?),
            exact: $compute,
            #[cfg(test)]
            tried: $compute,
        },)*]
    };
    (@inputs) => { None };
    (@inputs $inputs:path) => { Some($inputs) };
}
pub(crate) use rows;

const FAMILIES: &[&[Row]] = &[
    activation::ROWS,
    attention::ROWS,
    convolution::ROWS,
    field::ROWS,
    graph::ROWS,
    image::ROWS,
    loss::ROWS,
    matmul::ROWS,
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

pub(crate) fn row(slug: &str) -> Option<&'static Row> {
    FAMILIES.iter().copied().flatten().find(|row| row.slug == slug)
}

/// Names of all references.
#[cfg(test)]
pub(crate) fn slugs() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().copied().flatten().map(|row| row.slug)
}

/// One call of a reference: its arguments by name.
#[derive(Debug)]
pub struct Call<'a, M> {
    case: &'a Case,
    prepared: &'a Prepared,
    mode: PhantomData<M>,
}

impl<'a, M: Mode> Call<'a, M> {
    pub(crate) fn new(case: &'a Case, prepared: &'a Prepared) -> Self {
        Self { case, prepared, mode: PhantomData }
    }

    /// A size of the case.
    pub(crate) fn size(&self, name: &str) -> usize {
        usize::try_from(self.case.size(name)).unwrap_or(0)
    }

    /// A floating-point scalar, as the type of the argument has it.
    pub(crate) fn scalar(&self, name: &str) -> Real<M> {
        self.floats(name)[0]
    }

    /// A buffer of floating-point numbers.
    pub(crate) fn floats(&self, name: &str) -> Vec<Real<M>> {
        let (element, bytes) = self.contents(name);
        element.decode(bytes).into_iter().map(Real::input).collect()
    }

    /// A buffer of whole numbers.
    pub(crate) fn integers(&self, name: &str) -> Vec<i64> {
        let (element, bytes) = self.contents(name);
        element.decode_integers(bytes).into_iter().map(|value| value as i64).collect()
    }

    fn contents(&self, name: &str) -> (Dtype, &[u8]) {
        let argument = self.prepared.argument(name).unwrap_or_else(|| panic!("no argument {name}"));
        match &argument.value {
            Value::Input { element, bytes, .. }
            | Value::InOut { element, bytes, .. }
            | Value::Scalar { element, bytes } => (*element, bytes),
            Value::Output { .. } => panic!("{name} is an output"),
        }
    }
}

/// One output of floating-point numbers.
pub(crate) fn floats<M: Mode>(values: impl IntoIterator<Item = Real<M>>) -> Vec<Values> {
    vec![Values::Floats(values.into_iter().map(Real::output).collect())]
}

/// One output of whole numbers.
pub(crate) fn integers(values: impl IntoIterator<Item = i64>) -> Vec<Values> {
    vec![Values::Integers(values.into_iter().collect())]
}
