//! Einstein summation.

use smallvec::SmallVec;

use crate::error::TensorError;
use crate::layout::Shape;
use crate::ops::axes::Axes;
use crate::ops::diagonal::diagonal;
use crate::ops::elementwise::mul;
use crate::ops::matmul::{Counts, contract};
use crate::ops::reduce::{finish, sum_over};
use crate::ops::shape::{broadcast_to, permuted, to_shape};
use crate::tensor::{Result, Tensor};

type Letters = SmallVec<[char; 6]>;

/// Computes an einsum such as "bij,bjk->bik". Letters name axes; letters missing from the output are summed over. "..." stands
/// for all axes without a letter, which broadcast from the last. A letter repeated in one operand takes the diagonal. Without an
/// arrow the output has the axes of "...", then every letter that appears once, in alphabetical order.
pub fn einsum(equation: &str, operands: &[&Tensor]) -> Result<Tensor> {
    let refuse = |why: String| TensorError::shape("einsum", format!("'{equation}': {why}"));
    let text: String = equation.chars().filter(|letter| !letter.is_whitespace()).collect();
    let (inputs, output) = match text.split_once("->") {
        Some((inputs, output)) => (inputs, Some(output)),
        None => (text.as_str(), None),
    };
    let inputs: Vec<&str> = inputs.split(',').collect();
    if inputs.len() != operands.len() || operands.is_empty() {
        return Err(refuse(format!(
            "the equation has {} operands, {} tensors are given",
            inputs.len(),
            operands.len()
        )));
    }
    let inputs = inputs
        .iter()
        .zip(operands)
        .map(|(names, operand)| {
            named(names, operand.rank()).ok_or_else(|| {
                refuse(format!("{names} does not name the dimensions of {:?} by letters", operand.shape()))
            })
        })
        .collect::<Result<Vec<Letters>>>()?;
    let unnamed =
        inputs.iter().map(|letters| letters.iter().filter(|letter| is_rest(**letter)).count()).max();
    let output: Letters = match output {
        Some(output) => {
            let rank = match output.contains("...") {
                true => output.len() - 3 + unnamed.unwrap_or(0),
                false => output.len(),
            };
            named(output, rank)
                .ok_or_else(|| refuse(format!("the output {output} is not made of letters")))?
        }
        None => {
            let mut once: Letters =
                inputs.iter().flatten().copied().filter(|&letter| !is_rest(letter)).collect();
            once.sort_unstable();
            let all = once.clone();
            once.retain(|letter| all.iter().filter(|other| *other == letter).count() == 1);
            rest(unnamed.unwrap_or(0)).chain(once).collect()
        }
    };
    for (n, letter) in output.iter().enumerate() {
        if !inputs.iter().any(|letters| letters.contains(letter)) || output[..n].contains(letter) {
            return Err(refuse(format!("'{letter}' of the output is in no operand, or twice in the output")));
        }
    }
    let mut lengths: Vec<(char, usize)> = Vec::new();
    for (&letter, &length) in inputs.iter().flatten().zip(operands.iter().flat_map(|operand| operand.shape()))
    {
        match lengths.iter_mut().find(|(known, _)| *known == letter) {
            None => lengths.push((letter, length)),
            Some((_, known)) if *known == 1 => *known = length,
            Some((_, known)) if *known == length || length == 1 => {}
            Some((_, known)) => return Err(refuse(format!("'{letter}' is {known} and {length}"))),
        }
    }
    let mut terms =
        inputs.iter().zip(operands).map(|(letters, operand)| Term::new(letters, operand, &lengths));
    let mut left = match terms.next() {
        Some(first) => first?,
        None => return Err(refuse("there are no operands".into())),
    };
    let terms: Vec<Term> = terms.collect::<Result<_>>()?;
    for (n, right) in terms.iter().enumerate() {
        let later = |letter: &char| {
            output.contains(letter) || terms[n + 1..].iter().any(|term| term.letters.contains(letter))
        };
        left = left.times(right, later)?;
    }
    left.only(|letter| output.contains(letter))?.ordered(&output)
}

/// Returns the axis names of a tensor: its letters, and for "..." as many placeholder names as are missing. `None` if the names
/// do not match the rank.
fn named(names: &str, rank: usize) -> Option<Letters> {
    let (before, missing, after) = match names.split_once("...") {
        None => (names, 0, ""),
        Some((before, after)) => {
            let letters = before.len() + after.len();
            (before, rank.checked_sub(letters)?, after)
        }
    };
    let letters: Letters = before.chars().chain(rest(missing)).chain(after.chars()).collect();
    (letters.len() == rank && before.chars().chain(after.chars()).all(|letter| letter.is_ascii_alphabetic()))
        .then_some(letters)
}

/// Placeholder names for axes without a letter, counted from the last so that they broadcast.
fn rest(count: usize) -> impl Iterator<Item = char> {
    (0..count).rev().filter_map(|number| char::from_u32(FIRST_REST + number as u32))
}

fn is_rest(letter: char) -> bool {
    u32::from(letter) >= FIRST_REST
}

/// The start of Unicode's private use area, which contains no letters.
const FIRST_REST: u32 = 0xE000;

/// A tensor whose axes have distinct names.
struct Term {
    letters: Letters,
    tensor: Tensor,
}

impl Term {
    fn new(letters: &Letters, operand: &Tensor, lengths: &[(char, usize)]) -> Result<Term> {
        let length = |letter: &char| {
            lengths.iter().find(|(known, _)| known == letter).map_or(1, |(_, length)| *length)
        };
        let wide = broadcast_to(operand, &letters.iter().map(length).collect::<Shape>())?;
        let mut term = Term { letters: letters.clone(), tensor: wide };
        while let Some((first, second)) = twice(&term.letters) {
            term.tensor = diagonal(&term.tensor, 0, first as isize, second as isize)?;
            term.letters.remove(second);
            let letter = term.letters.remove(first);
            term.letters.push(letter);
        }
        Ok(term)
    }

    /// Sums over all letters that `keep` rejects.
    fn only(self, keep: impl Fn(&char) -> bool) -> Result<Term> {
        let gone: Axes = (0..self.letters.len()).filter(|&axis| !keep(&self.letters[axis])).collect();
        let tensor = finish(&sum_over(&self.tensor, &gone)?, &gone, false)?;
        Ok(Term { letters: self.letters.into_iter().filter(|letter| keep(letter)).collect(), tensor })
    }

    fn ordered(&self, letters: &[char]) -> Result<Tensor> {
        let place = |letter: &char| self.letters.iter().position(|own| own == letter);
        let order: Option<Axes> = letters.iter().map(place).collect();
        match order {
            Some(order) if order.len() == self.letters.len() => Ok(permuted(&self.tensor, &order)),
            _ => Err(TensorError::shape("einsum", "the output lacks a letter")),
        }
    }

    fn times(self, right: &Term, later: impl Fn(&char) -> bool) -> Result<Term> {
        let left = self.only_shared_or(right, &later)?;
        let right = Term { letters: right.letters.clone(), tensor: right.tensor.clone() }
            .only_shared_or(&left, &later)?;
        let both = |letter: &&char| right.letters.contains(letter);
        let batch: Letters =
            left.letters.iter().filter(both).filter(|letter| later(letter)).copied().collect();
        let depth: Letters =
            left.letters.iter().filter(both).filter(|letter| !later(letter)).copied().collect();
        let free = |term: &Term, other: &Term| -> Letters {
            term.letters.iter().filter(|letter| !other.letters.contains(letter)).copied().collect()
        };
        let (rows, columns) = (free(&left, &right), free(&right, &left));
        let join = |parts: [&Letters; 3]| -> Letters { parts.into_iter().flatten().copied().collect() };
        let letters = join([&batch, &rows, &columns]);
        let (a, b) = (
            left.ordered(&join([&batch, &rows, &depth]))?,
            right.ordered(&join([&batch, &columns, &depth]))?,
        );
        let tensor = if depth.is_empty() {
            // Nothing is summed: a broadcast product.
            let mut apart = Shape::from(&a.shape()[..batch.len() + rows.len()]);
            apart.extend(columns.iter().map(|_| 1));
            let mut beside = Shape::from(&b.shape()[..batch.len()]);
            beside.extend(rows.iter().map(|_| 1));
            beside.extend_from_slice(&b.shape()[batch.len()..]);
            mul(&to_shape(&a, &apart)?, &to_shape(&b, &beside)?)?
        } else {
            let counts =
                Counts { batch: batch.len(), rows: rows.len(), columns: columns.len(), depth: depth.len() };
            contract(&a, &b, counts)?
        };
        Ok(Term { letters, tensor })
    }

    /// Sums over letters that neither `other` nor any later operand has.
    fn only_shared_or(self, other: &Term, later: impl Fn(&char) -> bool) -> Result<Term> {
        self.only(|letter| other.letters.contains(letter) || later(letter))
    }
}

fn twice(letters: &[char]) -> Option<(usize, usize)> {
    (0..letters.len()).find_map(|first| {
        (first + 1..letters.len())
            .find(|&second| letters[first] == letters[second])
            .map(|second| (first, second))
    })
}
