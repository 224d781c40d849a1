//! Row of a reference: the function that computes the outputs of a problem, and its access to the arguments.

use super::real::{Exact, Mode, Real};
use crate::argument::{Prepared, Value};
use crate::case::Case;
use crate::dtype::Dtype;
use crate::maker::Maker;
use crate::threads::fill;
use crate::values::Values;
use std::marker::PhantomData;
use std::ops::Range;

/// Operations of an element, roughly: to decode it and to compute a function.
pub(crate) const WORK: usize = 16;
/// Elements that are decoded at a time.
const BLOCK: usize = 1 << 14;

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
        let numbers = self.reals(name);
        let decoded =
            fill(numbers.len(), 1, 1, |range, part| numbers.element.decode_into(numbers.bytes(range), part));
        decoded.into_iter().map(Real::input).collect()
    }

    /// Returns a buffer of floating-point numbers, for references that need each of them once.
    pub(crate) fn reals(&self, name: &str) -> Reals<'_, M> {
        let (element, all) = self.contents(name);
        Reals { element, all, mode: PhantomData }
    }

    /// Returns a buffer as integers.
    pub(crate) fn integers(&self, name: &str) -> Vec<i64> {
        let numbers = self.whole(name);
        fill(numbers.len(), 1, 1, |range, part| numbers.read(range, part))
    }

    /// Returns a buffer of integers, for references that need each of them once.
    pub(crate) fn whole(&self, name: &str) -> Integers<'_> {
        let (element, all) = self.contents(name);
        Integers { element, all }
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

/// A buffer of floating-point numbers, decoded where they are needed: as f64 they have up to four times the size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reals<'a, M> {
    element: Dtype,
    all: &'a [u8],
    mode: PhantomData<M>,
}

impl<M: Mode> Reals<'_, M> {
    /// Returns the number of elements.
    pub(crate) fn len(&self) -> usize {
        self.all.len() / self.element.size()
    }

    /// Decodes some elements.
    pub(crate) fn range(&self, range: Range<usize>) -> Vec<Real<M>> {
        self.element.decode(self.bytes(range)).into_iter().map(Real::input).collect()
    }

    /// Decodes all elements, some at a time.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Real<M>> {
        let starts = (0..self.len()).step_by(BLOCK);
        starts.flat_map(|start| self.range(start..(start + BLOCK).min(self.len())))
    }

    fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.all[range.start * self.element.size()..range.end * self.element.size()]
    }
}

/// A buffer of integers, decoded where they are needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Integers<'a> {
    element: Dtype,
    all: &'a [u8],
}

impl Integers<'_> {
    /// Returns the number of elements.
    pub(crate) fn len(&self) -> usize {
        self.all.len() / self.element.size()
    }

    /// Decodes some elements.
    pub(crate) fn range(&self, range: Range<usize>) -> Vec<i64> {
        let mut numbers = vec![0; range.len()];
        self.read(range, &mut numbers);
        numbers
    }

    fn read(&self, range: Range<usize>, numbers: &mut [i64]) {
        let size = self.element.size();
        self.element.decode_low_bits_into(&self.all[range.start * size..range.end * size], numbers);
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

/// Applies `f` to the elements of inputs with the same number of them.
pub(crate) fn each<M: Mode, const N: usize>(
    call: &Call<'_, M>,
    names: [&str; N],
    f: impl Fn([Real<M>; N]) -> Real<M> + Sync,
) -> Vec<Values> {
    let inputs = names.map(|name| call.reals(name));
    let count = inputs.iter().map(Reals::len).min().unwrap_or(0);
    vec![Values::Floats(fill(count, 1, WORK, |range, part| {
        let decoded = inputs.each_ref().map(|input| input.range(range.clone()));
        for (index, element) in part.iter_mut().enumerate() {
            *element = f(decoded.each_ref().map(|input| input[index])).output();
        }
    }))]
}

/// Like [`each`], for integers.
pub(crate) fn each_integer<M: Mode, const N: usize>(
    call: &Call<'_, M>,
    names: [&str; N],
    f: impl Fn([i64; N]) -> i64 + Sync,
) -> Vec<Values> {
    let inputs = names.map(|name| call.whole(name));
    let count = inputs.iter().map(Integers::len).min().unwrap_or(0);
    vec![Values::Integers(fill(count, 1, WORK, |range, part| {
        let decoded = inputs.each_ref().map(|input| input.range(range.clone()));
        for (index, element) in part.iter_mut().enumerate() {
            *element = f(decoded.each_ref().map(|input| input[index]));
        }
    }))]
}

/// Applies `f` to every row of an input: it gets the position of the row and its elements, and writes a row of `width` elements.
pub(crate) fn each_row<M: Mode>(
    call: &Call<'_, M>,
    name: &str,
    length: usize,
    width: usize,
    f: impl Fn(usize, &[Real<M>], &mut [f64]) + Sync,
) -> Vec<Values> {
    let input = call.reals(name);
    let rows = input.len() / length;
    let work = WORK * length / width.max(1);
    vec![Values::Floats(fill(rows * width, width, work, |range, part| {
        let decoded = input.range(range.start / width * length..range.end / width * length);
        let rows = decoded.chunks_exact(length).zip(part.chunks_exact_mut(width));
        rows.enumerate().for_each(|(index, (row, to))| f(range.start / width + index, row, to));
    }))]
}

/// Writes numbers to a row of an output.
pub(crate) fn write<M: Mode>(to: &mut [f64], values: impl IntoIterator<Item = Real<M>>) {
    to.iter_mut().zip(values).for_each(|(element, value)| *element = value.output());
}
