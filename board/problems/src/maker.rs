//! Random inputs, and inputs whose numbers depend on each other.

use crate::case::Case;
use crate::dtype::Dtype;
use crate::parameter::Parameter;
use crate::threads;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use std::collections::BTreeMap;

/// Words of a stream that one random number consumes.
const WORDS_OF_A_NUMBER: u128 = 2;
/// Operations that make one byte, roughly.
const WORK: usize = 8;

/// Random numbers of one input: a separate stream for every seed, problem, case and name.
#[derive(Clone)]
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    /// Starts the stream of an input.
    pub(crate) fn new(slug: &str, case: &Case, seed: u64, name: &str) -> Self {
        let mut key = [0; 32];
        let parts = [seed, hash(slug), hash(&case.name), hash(name)];
        for (place, part) in key.chunks_exact_mut(8).zip(parts) {
            place.copy_from_slice(&part.to_le_bytes());
        }
        Self(ChaCha8Rng::from_seed(key))
    }

    /// Starts a stream that these names distinguish from others.
    pub(crate) fn named(seed: u64, names: &[&str]) -> Self {
        let names = names.iter().fold(seed, |sum, name| sum.rotate_left(17) ^ hash(name));
        Self(ChaCha8Rng::seed_from_u64(names))
    }

    /// Returns the stream from the position after so many further numbers.
    fn after(&self, numbers: usize) -> Self {
        let mut later = self.0.clone();
        later.set_word_pos(later.get_word_pos() + WORDS_OF_A_NUMBER * numbers as u128);
        Self(later)
    }

    /// Encodes elements, each from as many random numbers of this stream, on several threads.
    pub(crate) fn elements(
        &self,
        element: Dtype,
        count: usize,
        numbers: usize,
        encode: impl Fn(usize, &mut Random, &mut Vec<u8>) + Sync,
    ) -> Vec<u8> {
        let size = element.size();
        threads::fill(count * size, size, WORK, |range, part| {
            let (range, mut bytes) = (range.start / size..range.end / size, Vec::with_capacity(part.len()));
            let mut random = self.after(range.start * numbers);
            range.for_each(|index| encode(index, &mut random, &mut bytes));
            part.copy_from_slice(&bytes);
        })
    }

    /// Fills bytes with random bits.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    /// Returns a number from `[low, high)`, with all 53 bits random.
    pub(crate) fn uniform(&mut self, low: f64, high: f64) -> f64 {
        let unit = (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        low + (high - low) * unit
    }

    /// Returns an integer from `low` to `high`, inclusive.
    pub(crate) fn integer(&mut self, low: i64, high: i64) -> i64 {
        let span = u128::from(high.abs_diff(low)) + 1;
        let offset = (u128::from(self.0.next_u64()) * span) >> 64;
        (i128::from(low) + offset as i128) as i64
    }

    /// Returns a random permutation of `0..count`.
    pub(crate) fn permutation(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            order.swap(last, self.integer(0, last as i64) as usize);
        }
        order
    }
}

/// FNV-1a hash, used only to separate the streams.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Generates inputs whose numbers depend on each other.
pub(crate) struct Maker<'a> {
    slug: &'a str,
    parameters: &'a [Parameter],
    case: &'a Case,
    dtype: Dtype,
    seed: u64,
    made: BTreeMap<String, Vec<u8>>,
}

impl<'a> Maker<'a> {
    pub(crate) fn new(
        slug: &'a str,
        parameters: &'a [Parameter],
        case: &'a Case,
        dtype: Dtype,
        seed: u64,
    ) -> Self {
        Self { slug, parameters, case, dtype, seed, made: BTreeMap::new() }
    }

    /// Returns the generated inputs by name.
    pub(crate) fn finish(self) -> BTreeMap<String, Vec<u8>> {
        self.made
    }

    pub(crate) fn size(&self, name: &str) -> usize {
        usize::try_from(self.case.size(name)).unwrap_or(0)
    }

    pub(crate) fn random(&self, name: &str) -> Random {
        Random::new(self.slug, self.case, self.seed, name)
    }

    pub(crate) fn floats(&mut self, name: &str, values: impl IntoIterator<Item = f64>) {
        let element = self.element(name);
        let mut bytes = Vec::new();
        values.into_iter().for_each(|value| element.encode(value, &mut bytes));
        self.made.insert(name.to_owned(), bytes);
    }

    /// Makes an input of numbers that depend on their position and on so many random numbers.
    pub(crate) fn random_numbers(
        &mut self,
        name: &str,
        count: usize,
        numbers: usize,
        number: impl Fn(usize, &mut Random) -> f64 + Sync,
    ) {
        let element = self.element(name);
        let bytes = self.random(name).elements(element, count, numbers, |index, random, bytes| {
            element.encode(number(index, random), bytes);
        });
        self.made.insert(name.to_owned(), bytes);
    }

    pub(crate) fn integers(&mut self, name: &str, values: impl IntoIterator<Item = i64>) {
        let element = self.element(name);
        let mut bytes = Vec::new();
        values.into_iter().for_each(|value| element.encode_integer(value.into(), &mut bytes));
        self.made.insert(name.to_owned(), bytes);
    }

    fn element(&self, name: &str) -> Dtype {
        let parameter = self.parameters.iter().find(|parameter| parameter.name == name);
        parameter.unwrap_or_else(|| panic!("no parameter {name}")).element.dtype(self.dtype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_stream_has_the_numbers_that_follow() {
        let random = Random::named(7, &["numbers"]);
        let mut one_by_one = random.clone();
        let numbers: Vec<i64> = (0..100).map(|_| one_by_one.integer(i64::MIN, i64::MAX)).collect();
        for start in [0, 1, 7, 8, 9, 63, 99] {
            assert_eq!(random.after(start).integer(i64::MIN, i64::MAX), numbers[start], "{start}");
        }
        let bytes = threads::with_small_parts(3, || {
            random.elements(Dtype::Int64, 50, 2, |_, random, bytes| {
                let (one, two) = (random.integer(i64::MIN, i64::MAX), random.integer(i64::MIN, i64::MAX));
                Dtype::Int64.encode_integer((one ^ two).into(), bytes);
            })
        });
        let expected = numbers.chunks_exact(2).map(|pair| i128::from(pair[0] ^ pair[1]));
        assert!(Dtype::Int64.decode_integers(&bytes).into_iter().eq(expected));
    }
}
