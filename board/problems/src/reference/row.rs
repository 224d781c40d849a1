//! Row of a reference: the function that computes the outputs of a problem, and its access to the arguments.

use super::real::{Exact, Mode, Real};
use crate::argument::{Prepared, Value};
use crate::case::Case;
use crate::dtype::Dtype;
use crate::maker::Maker;
use crate::values::Values;
use std::marker::PhantomData;

/// A problem's reference, and its input maker if it has one.
#[derive(Debug)]
pub struct Row {
    pub(super) slug: &'static str,
    pub(crate) inputs: Option<fn(&mut Maker<'_>)>,
    pub(crate) exact: fn(&Call<'_, Exact>) -> Vec<Values>,
    #[cfg(test)]
    pub(crate) tried: fn(&Call<'_, super::tried::Tried>) -> Vec<Values>,
}

/// Defines the rows of a family: `"slug" => function` or `"slug" => function, maker`.
macro_rules! rows {
    ($($slug:literal => $compute:path $(, $inputs:path)?;)*) => {
        &[$($crate::reference::row::Row {
            slug: $slug,
            inputs: $crate::reference::row::rows!(@inputs $($inputs)?),
            exact: $compute,
            #[cfg(test)]
            tried: $compute,
        },)*]
    };
    (@inputs) => { None };
    (@inputs $inputs:path) => { Some($inputs) };
}
pub(crate) use rows;

/// One call of a reference, with access to its arguments by name.
#[derive(Debug)]
pub struct Call<'a, M> {
    case: &'a Case,
    prepared: &'a Prepared,
    /// Of a part of a case: the indices of the rows that an argument has, by name.
    places: Vec<(String, Vec<usize>)>,
    mode: PhantomData<M>,
}

impl<'a, M: Mode> Call<'a, M> {
    pub(crate) fn new(case: &'a Case, prepared: &'a Prepared) -> Self {
        Self::of_part(case, prepared, Vec::new())
    }

    /// Has arguments with a part of their rows, whose indices are `places`.
    pub(crate) fn of_part(case: &'a Case, prepared: &'a Prepared, places: Vec<(String, Vec<usize>)>) -> Self {
        Self { case, prepared, places, mode: PhantomData }
    }

    /// Returns the indices of the rows that an argument has, of so many.
    pub(crate) fn places(&self, name: &str, rows: usize) -> Vec<usize> {
        let part = self.places.iter().find(|(of, _)| of == name);
        part.map_or_else(|| (0..rows).collect(), |(_, places)| places.clone())
    }

    /// Returns a size of the case.
    pub(crate) fn size(&self, name: &str) -> usize {
        usize::try_from(self.case.size(name)).unwrap_or(0)
    }

    /// Returns a floating-point scalar, rounded to the type of the argument.
    pub(crate) fn scalar(&self, name: &str) -> Real<M> {
        self.floats(name)[0]
    }

    /// Returns a buffer as floating-point numbers.
    pub(crate) fn floats(&self, name: &str) -> Vec<Real<M>> {
        let (element, bytes) = self.contents(name);
        element.decode(bytes).into_iter().map(Real::input).collect()
    }

    /// Returns a buffer as integers.
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

/// Builds a single output of floating-point numbers.
pub(crate) fn floats<M: Mode>(values: impl IntoIterator<Item = Real<M>>) -> Vec<Values> {
    vec![Values::Floats(values.into_iter().map(Real::output).collect())]
}

/// Builds a single output of integers.
pub(crate) fn integers(values: impl IntoIterator<Item = i64>) -> Vec<Values> {
    vec![Values::Integers(values.into_iter().collect())]
}
