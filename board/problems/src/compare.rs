//! Comparison of outputs with expected values. NaN is never correct, even if NaN was expected.

use crate::argument::Value;
use crate::dtype::Dtype;
use crate::threads;
use crate::values::Values;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Number of largest differences that are reported.
const WORST: usize = 5;
/// Number of first differences that are reported.
const FIRST: usize = 20;

/// An element `a` passes for `e` if `|a - e| <= atol + rtol * |e|`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tolerance {
    /// Relative tolerance.
    pub rtol: f64,
    /// Absolute tolerance.
    pub atol: f64,
}

impl Tolerance {
    /// Returns the default tolerance of a type: a few rounding errors.
    pub(crate) fn usual(dtype: Dtype) -> Self {
        let both = |tolerance| Self { rtol: tolerance, atol: tolerance };
        match dtype {
            Dtype::Float16 => both(2e-3),
            Dtype::Bfloat16 => both(1.6e-2),
            Dtype::Float32 => both(1e-5),
            Dtype::Float64 => both(1e-11),
            _ => both(0.0),
        }
    }

    /// Returns whether an element passes.
    pub fn accepts(self, expected: f64, actual: f64) -> bool {
        expected.is_finite() && (actual - expected).abs() <= self.atol + self.rtol * expected.abs()
    }
}

/// Expected contents and shape of an output.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// Name of the output.
    pub name: String,
    /// Element type.
    pub element: Dtype,
    /// Extents.
    pub shape: Vec<usize>,
    /// Contents.
    pub values: Values,
}

impl Expected {
    /// Returns the outputs of a call as the expected outputs of another.
    pub fn of_output(name: &str, value: &Value, bytes: &[u8]) -> Expected {
        let element = value.element();
        let values = match element {
            _ if element.is_float() => Values::Floats(element.decode(bytes)),
            Dtype::Uint64 => {
                Values::Naturals(element.decode_integers(bytes).into_iter().map(|it| it as u64).collect())
            }
            _ => Values::Integers(element.decode_integers(bytes).into_iter().map(|it| it as i64).collect()),
        };
        Expected { name: name.to_owned(), element, shape: value.shape().to_vec(), values }
    }
}

/// What a solution wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ValueKind {
    /// A finite number.
    Number,
    /// NaN.
    NotANumber,
    /// An infinity.
    Infinite,
    /// Nothing: the output is too short.
    Missing,
}

impl ValueKind {
    fn of(value: f64) -> Self {
        match value {
            value if value.is_nan() => Self::NotANumber,
            value if value.is_infinite() => Self::Infinite,
            _ => Self::Number,
        }
    }
}

/// One wrong element. Numbers are strings, because some have more bits than JSON numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mismatch {
    /// Coordinates of the element.
    pub index: Vec<usize>,
    /// Value of the reference.
    pub expected: String,
    /// Value of the solution.
    pub actual: String,
    /// Absolute difference; a word if there is none.
    pub difference: String,
    /// What the solution wrote.
    pub kind: ValueKind,
}

/// Result of comparing an output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Whether every element passes.
    pub passed: bool,
    /// Differences over the elements that are finite numbers.
    pub max_difference: f64,
    /// Mean over all elements.
    pub mean_difference: f64,
    /// Number of wrong elements.
    pub mismatches: u64,
    /// Number of elements.
    pub total: u64,
    /// Elements that are NaN.
    pub not_a_number: u64,
    /// Elements that are infinite.
    pub infinite: u64,
    /// The largest and the first differences, in index order.
    pub samples: Vec<Mismatch>,
}

/// Comparison of one element.
struct Element {
    wrong: bool,
    kind: ValueKind,
    difference: f64,
}

impl Element {
    const MISSING: Element = Element { wrong: true, kind: ValueKind::Missing, difference: f64::INFINITY };

    fn of_floats(tolerance: Tolerance, right: f64, found: f64) -> Element {
        Element {
            wrong: !tolerance.accepts(right, found),
            kind: ValueKind::of(found),
            difference: (found - right).abs(),
        }
    }

    fn of_integers(tolerance: Tolerance, right: i128, found: i128) -> Element {
        let difference = (found - right).abs() as f64;
        let allowed = tolerance.atol + tolerance.rtol * right.abs() as f64;
        Element { wrong: difference > allowed, kind: ValueKind::Number, difference }
    }
}

/// Elements that are compared as one block. Sums are computed per block and then added, so they do not depend on the number of threads.
const BLOCK: usize = 1 << 15;

/// Compares an output with its expected contents.
pub(crate) fn compare(tolerance: Tolerance, expected: &Expected, actual: &[u8]) -> Comparison {
    let total = expected.values.len();
    let blocks = threads::parts(total, BLOCK, |range| {
        let mut found = Found::default();
        let first = range.start;
        elements(tolerance, expected, actual, range, |offset, element, _| found.add(first + offset, element));
        found
    });
    let mut all = Found::default();
    blocks.into_iter().for_each(|block| all.append(block));
    let mut shown: Vec<usize> = all.worst.into_iter().map(|(_, index)| index).chain(all.first).collect();
    shown.sort_unstable();
    shown.dedup();
    let mut samples = Vec::new();
    for index in shown {
        elements(tolerance, expected, actual, index..index + 1, |_, element, show| {
            let missing = element.kind == ValueKind::Missing;
            let (right, found) = show();
            samples.push(Mismatch {
                index: coordinates(index, &expected.shape),
                expected: right,
                actual: found,
                difference: if missing { MISSING.to_owned() } else { number(element.difference) },
                kind: element.kind,
            });
        });
    }
    Comparison {
        passed: all.mismatches == 0,
        max_difference: all.max,
        mean_difference: if total == 0 { 0.0 } else { all.sum / total as f64 },
        mismatches: all.mismatches,
        total: total as u64,
        not_a_number: all.not_a_number,
        infinite: all.infinite,
        samples,
    }
}

/// What is shown of an element that the output does not have.
const MISSING: &str = "missing";

/// Compares some elements: calls `visit` with the offset of each, its comparison, and what shows its expected and its actual value.
fn elements(
    tolerance: Tolerance,
    expected: &Expected,
    actual: &[u8],
    range: Range<usize>,
    mut visit: impl FnMut(usize, Element, &dyn Fn() -> (String, String)),
) {
    let element = expected.element;
    let bytes = |index: usize| (index * element.size()).min(actual.len());
    let present = &actual[bytes(range.start)..bytes(range.end)];
    let mut floats = |right: &dyn Fn(usize) -> f64| {
        let found = element.decode(present);
        for (offset, &found) in found.iter().enumerate() {
            let right = right(range.start + offset);
            let compared = Element::of_floats(tolerance, right, found);
            visit(offset, compared, &|| (number(right), number(found)));
        }
        for offset in found.len()..range.len() {
            let right = right(range.start + offset);
            visit(offset, Element::MISSING, &|| (number(right), MISSING.to_owned()));
        }
    };
    // Integers expected in a floating-point output are compared as floats, so that fractions are not cut off.
    match &expected.values {
        Values::Floats(values) => return floats(&|index| values[index]),
        Values::Integers(values) if element.is_float() => return floats(&|index| values[index] as f64),
        Values::Naturals(values) if element.is_float() => return floats(&|index| values[index] as f64),
        Values::Integers(_) | Values::Naturals(_) => {}
    }
    let right = |index: usize| match &expected.values {
        Values::Naturals(values) => i128::from(values[index]),
        Values::Integers(values) => i128::from(values[index]),
        Values::Floats(values) => values[index] as i128,
    };
    let found = element.decode_integers(present);
    for (offset, &found) in found.iter().enumerate() {
        let right = right(range.start + offset);
        let compared = Element::of_integers(tolerance, right, found);
        visit(offset, compared, &|| (right.to_string(), found.to_string()));
    }
    for offset in found.len()..range.len() {
        let right = right(range.start + offset);
        visit(offset, Element::MISSING, &|| (right.to_string(), MISSING.to_owned()));
    }
}

/// What a comparison found in some elements.
#[derive(Default)]
struct Found {
    mismatches: u64,
    not_a_number: u64,
    infinite: u64,
    sum: f64,
    max: f64,
    /// The first wrong elements.
    first: Vec<usize>,
    /// The largest differences, largest first, and the first ones among equals. NaN counts as larger than any difference.
    worst: Vec<(f64, usize)>,
}

impl Found {
    fn add(&mut self, index: usize, element: Element) {
        self.not_a_number += u64::from(element.kind == ValueKind::NotANumber);
        self.infinite += u64::from(element.kind == ValueKind::Infinite);
        if element.difference.is_finite() {
            self.sum += element.difference;
            self.max = self.max.max(element.difference);
        }
        if element.wrong {
            self.mismatches += 1;
            self.add_first(index);
            let rank = if element.difference.is_nan() { f64::INFINITY } else { element.difference };
            self.add_worst(rank, index);
        }
    }

    fn add_first(&mut self, index: usize) {
        if self.first.len() < FIRST {
            self.first.push(index);
        }
    }

    fn add_worst(&mut self, rank: f64, index: usize) {
        if self.worst.len() < WORST || self.worst.last().is_some_and(|(least, _)| rank > *least) {
            let place = self.worst.partition_point(|(other, _)| *other >= rank);
            self.worst.insert(place, (rank, index));
            self.worst.truncate(WORST);
        }
    }

    /// Adds what was found in the elements that follow.
    fn append(&mut self, next: Found) {
        self.mismatches += next.mismatches;
        self.not_a_number += next.not_a_number;
        self.infinite += next.infinite;
        self.sum += next.sum;
        self.max = self.max.max(next.max);
        next.first.into_iter().for_each(|index| self.add_first(index));
        next.worst.into_iter().for_each(|(rank, index)| self.add_worst(rank, index));
    }
}

/// Converts an index of a row-major array to coordinates.
fn coordinates(index: usize, shape: &[usize]) -> Vec<usize> {
    let mut rest = index;
    let mut place: Vec<usize> = shape
        .iter()
        .rev()
        .map(|extent| {
            let along = rest % extent.max(&1);
            rest /= extent.max(&1);
            along
        })
        .collect();
    place.reverse();
    place
}

/// Formats a number with nine digits, enough to distinguish any two floats, without trailing zeros. What is no finite number is a word.
fn number(value: f64) -> String {
    match ValueKind::of(value) {
        ValueKind::NotANumber => return "not a number".to_owned(),
        ValueKind::Infinite => return if value > 0.0 { "infinite" } else { "-infinite" }.to_owned(),
        ValueKind::Number | ValueKind::Missing => {}
    }
    if value == 0.0 || (1e-4..1e9).contains(&value.abs()) {
        let text = format!("{value:.9}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        return if text == "-0" { "0".to_owned() } else { text.to_owned() };
    }
    format!("{value:.8e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLERANCE: Tolerance = Tolerance { rtol: 1e-3, atol: 1e-3 };

    fn floats(values: &[f64], shape: &[usize]) -> Expected {
        Expected {
            name: "output".to_owned(),
            element: Dtype::Float32,
            shape: shape.to_vec(),
            values: Values::Floats(values.to_vec()),
        }
    }

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn what_is_near_enough_passes_and_differences_are_counted() {
        let right = floats(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
        assert!(compare(TOLERANCE, &right, &bytes(&[1.0005, 2.0, 3.0, 4.0])).passed);
        let found = compare(TOLERANCE, &right, &bytes(&[1.0, 2.5, 3.0, 3.0]));
        assert!(!found.passed);
        assert_eq!((found.mismatches, found.total), (2, 4));
        assert_eq!((found.not_a_number, found.infinite), (0, 0));
        assert_eq!(found.max_difference, 1.0);
        assert_eq!(found.mean_difference, 1.5 / 4.0);
        assert_eq!(found.samples[0].index, [0, 1]);
        assert_eq!(found.samples[1].index, [1, 1]);
        assert_eq!((found.samples[1].expected.as_str(), found.samples[1].actual.as_str()), ("4", "3"));
    }

    #[test]
    fn no_number_passes_for_anything_and_nothing_passes_for_no_number() {
        let wrong = bytes(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY]);
        let found = compare(TOLERANCE, &floats(&[1.0, 2.0, 3.0], &[3]), &wrong);
        assert_eq!((found.mismatches, found.not_a_number, found.infinite), (3, 1, 2));
        let words: Vec<(&str, &str, ValueKind)> = found
            .samples
            .iter()
            .map(|sample| (sample.actual.as_str(), sample.difference.as_str(), sample.kind))
            .collect();
        assert_eq!(
            words,
            [
                ("not a number", "not a number", ValueKind::NotANumber),
                ("infinite", "infinite", ValueKind::Infinite),
                ("-infinite", "infinite", ValueKind::Infinite),
            ]
        );
        assert!(!compare(TOLERANCE, &floats(&[f64::NAN], &[1]), &bytes(&[f32::NAN])).passed);
        assert!(!compare(TOLERANCE, &floats(&[f64::INFINITY], &[1]), &bytes(&[f32::INFINITY])).passed);
    }

    #[test]
    fn an_output_cut_short_is_wrong_where_it_is_missing() {
        let found = compare(TOLERANCE, &floats(&[1.0, 2.0, 3.0], &[3]), &bytes(&[1.0, 2.0]));
        assert_eq!(found.mismatches, 1);
        assert_eq!(
            (found.samples[0].actual.as_str(), found.samples[0].kind),
            ("missing", ValueKind::Missing)
        );
    }

    #[test]
    fn the_worst_are_shown_with_the_first() {
        let right = floats(&vec![0.0; 1000], &[1000]);
        let mut wrong = vec![1.0; 1000];
        wrong[700] = 9.0;
        let found = compare(TOLERANCE, &right, &bytes(&wrong));
        assert_eq!(found.mismatches, 1000);
        assert!(found.samples.len() <= WORST + FIRST);
        assert_eq!(found.samples.iter().filter(|sample| sample.index == [700]).count(), 1);
        assert_eq!(
            found.samples[..FIRST].iter().map(|s| s.index[0]).collect::<Vec<_>>(),
            (0..20).collect::<Vec<_>>()
        );
    }

    #[test]
    fn blocks_and_threads_find_what_one_pass_finds() {
        let total = 3 * BLOCK + 17;
        let right = floats(&vec![0.0; total], &[total]);
        let mut wrong = vec![0.0; total];
        for (index, value) in [(5, 2.0), (BLOCK - 1, 7.0), (BLOCK, 7.0), (2 * BLOCK + 3, f32::NAN)] {
            wrong[index] = value;
        }
        wrong[3 * BLOCK..].fill(1.0);
        let compared =
            |threads| threads::with_small_parts(threads, || compare(TOLERANCE, &right, &bytes(&wrong)));
        let found = compared(3);
        assert_eq!(found, compared(1));
        assert_eq!((found.mismatches, found.not_a_number, found.max_difference), (21, 1, 7.0));
        assert_eq!(found.mean_difference, (2.0 + 14.0 + 17.0) / total as f64);
        let shown: Vec<usize> = found.samples.iter().map(|sample| sample.index[0]).collect();
        let expected = [5, BLOCK - 1, BLOCK, 2 * BLOCK + 3].into_iter().chain(3 * BLOCK..3 * BLOCK + 16);
        assert!(shown.iter().copied().eq(expected), "{shown:?}");
    }

    #[test]
    fn integers_are_compared_whole() {
        let exact = Tolerance { rtol: 0.0, atol: 0.0 };
        let right = Expected {
            name: "output".to_owned(),
            element: Dtype::Uint64,
            shape: vec![1],
            values: Values::Naturals(vec![u64::MAX]),
        };
        assert!(compare(exact, &right, &u64::MAX.to_le_bytes()).passed);
        let found = compare(exact, &right, &(u64::MAX - 1).to_le_bytes());
        assert!(!found.passed);
        assert_eq!(found.samples[0].expected, "18446744073709551615");
        let halves = Expected { element: Dtype::Float32, values: Values::Integers(vec![2]), ..right };
        assert!(!compare(exact, &halves, &2.5f32.to_le_bytes()).passed);
    }
}
