//! The argument words of kernels that were built ahead to run any step of their kind.

use std::sync::Arc;

use crate::axes::{Axes, magic};
use crate::source::{Address, Kernel, Launch};
use crate::work::Plan;

/// The number of argument words of every such kernel, `pf::Words<96>`.
const WORDS: usize = 96;
/// The words of a launch that fills a table: `pf_run_fill` has a count and an address too.
const FILLED: usize = WORDS - 3;

/// A table under construction. Its first words are a header with fixed meanings; the others are found by their places.
#[derive(Debug, Default)]
pub(super) struct Table {
    words: Vec<u64>,
    addresses: Vec<usize>,
}

impl Table {
    /// Starts with a header of this many words.
    pub(super) fn with(header: usize) -> Table {
        Table { words: vec![0; header], addresses: Vec::new() }
    }

    /// The number of words so far, which is the place of the next one.
    pub(super) fn place(&self) -> usize {
        self.words.len()
    }

    pub(super) fn set(&mut self, place: usize, word: u64) {
        self.words[place] = word;
    }

    pub(super) fn set_address(&mut self, place: usize, address: Address) {
        self.words[place] = address.0;
        self.addresses.push(place);
    }

    /// Appends a word; returns its place.
    pub(super) fn push(&mut self, word: u64) -> usize {
        self.words.push(word);
        self.words.len() - 1
    }

    pub(super) fn push_address(&mut self, address: Address) -> usize {
        self.addresses.push(self.words.len());
        self.push(address.0)
    }

    /// Appends the walk of operands over axes; returns its place.
    pub(super) fn walk(&mut self, axes: &Axes, operands: &[usize], wide: bool) -> u64 {
        let place = self.push(axes.rank() as u64 | u64::from(wide) << 32);
        for axis in &axes.0 {
            self.push(axis.length as u64);
            self.push(divisor(axis.length, wide));
            for &operand in operands {
                self.push(axis.strides[operand] as u64);
            }
        }
        place as u64
    }

    /// Adds the launch of a kernel with these words. If they are too many for its arguments, other launches write them to memory
    /// first.
    pub(super) fn launch(self, plan: &mut Plan, name: &'static str, groups: usize, threads: u32) {
        if self.words.len() < WORDS {
            let words = [&[0], &self.words[..]].concat();
            let addresses = self.addresses.iter().map(|place| place + 1).collect();
            plan.launches.push(launch(name, groups, threads, words, addresses));
            return;
        }
        let table = plan.workspace(self.words.len() * size_of::<u64>());
        for (number, part) in self.words.chunks(FILLED).enumerate() {
            let first = number * FILLED;
            let to = table.0 + (first * size_of::<u64>()) as u64;
            let words = [&[0, part.len() as u64, to], part].concat();
            let within = self.addresses.iter().filter_map(|&place| place.checked_sub(first));
            let addresses = within.filter(|&place| place < part.len()).map(|place| place + 3);
            plan.launches.push(launch("pf_run_fill", 1, 64, words, addresses.chain([2]).collect()));
        }
        plan.launches.push(launch(name, groups, threads, vec![table.0], vec![0]));
    }
}

/// The bits of 1 / length, with which kernels divide.
pub(super) fn inverse(length: usize) -> u64 {
    (1.0 / length.max(1) as f64).to_bits()
}

/// The number with which kernels divide indices by a length.
pub(super) fn divisor(length: usize, wide: bool) -> u64 {
    if wide { inverse(length) } else { magic(length) }
}

fn launch(
    name: &'static str,
    groups: usize,
    threads: u32,
    mut words: Vec<u64>,
    addresses: Vec<usize>,
) -> Launch {
    words.resize(WORDS, 0);
    let kernel = Arc::new(Kernel::ready(name));
    Launch { kernel, groups: groups.clamp(1, 1 << 22) as u32, threads, words, addresses: addresses.into() }
}
