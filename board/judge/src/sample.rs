//! Verifies some rows of a sample. The secret seed chooses them, and the reference computes them alone, so this is possible for every
//! sample of cases that are too large to be verified whole. Other threads compute them ahead, so that the device does not wait.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::Scope;

use board_problems::{Case, Expected, Generator, Part, Prepared, Source, mixed, with_threads};

use crate::buffers;
use crate::check::{CheckSpec, PlacedCase};
use crate::session::{Fault, Session};
use crate::times::{Step, Times};

/// Most indices along an axis.
const MOST: usize = 16;
/// Cost of the rows of one sample, which takes a host some ten milliseconds: operations of the reference, and inputs.
const MOST_COST: f64 = 1e7;
const COST_OF_INPUT: f64 = 10.0;
/// Most inputs of the rows of one sample.
const MOST_INPUTS: usize = 10_000_000;
/// Half of the indices along an axis must save so much of the cost; otherwise inputs that all of them need are most of it.
const WORTH: f64 = 0.75;
/// Most reads from the device for one sample.
const MOST_READS: usize = 64;
/// Threads that compute references ahead.
const MOST_THREADS: usize = 4;
/// First of the numbers that the choices of rows are derived from, apart from those for inputs.
const CHOICES: u64 = 20_000;

/// Chooses rows of a case, and computes what they must contain.
pub(crate) struct Sampler<'a> {
    spec: CheckSpec<'a>,
    case: &'a Case,
    /// What the device generates inputs with; `None` if the host makes them.
    generators: Option<Vec<Option<Generator>>>,
    /// Scalars.
    outline: Prepared,
}

/// Rows of one sample, with their expected contents.
pub(crate) struct Rows<'a> {
    sampler: &'a Sampler<'a>,
    part: Part<'a>,
    expected: Vec<Expected>,
}

impl<'a> Sampler<'a> {
    /// Returns `None` if no row of this case can be computed alone, or only from very many inputs.
    pub fn new(spec: CheckSpec<'a>, case: &'a Case) -> Option<Sampler<'a>> {
        if spec.problem.axes(case).is_empty() {
            return None;
        }
        let generators = spec.problem.generators(case, spec.dtype);
        let sampler = Sampler { spec, case, generators, outline: spec.problem.outline(case, spec.dtype) };
        (sampler.choose(0).inputs() <= MOST_INPUTS).then_some(sampler)
    }

    /// Computes rows of a sample with these inputs.
    pub fn known(&'a self, round: u64, inputs: &Prepared) -> Rows<'a> {
        self.rows(round, |index| Source::Known(inputs.arguments[index].value.bytes().unwrap_or_default()))
    }

    /// Computes rows of a sample whose inputs the device generates.
    fn generated(&'a self, round: u64, generators: &[Option<Generator>]) -> Rows<'a> {
        let seed = self.spec.seed(self.case, round);
        self.rows(round, |index| match generators[index] {
            Some(generator) => Source::Generated(generator, buffers::seed_of_argument(seed, index)),
            None => Source::Known(self.outline.arguments[index].value.bytes().unwrap_or_default()),
        })
    }

    fn rows<'s>(&'a self, round: u64, source: impl Fn(usize) -> Source<'s>) -> Rows<'a> {
        let part = self.choose(self.spec.seed(self.case, CHOICES + round));
        let expected = part.expected(source);
        Rows { sampler: self, part, expected }
    }

    /// Chooses as many indices along every axis as the cost permits.
    fn choose(&self, seed: u64) -> Part<'a> {
        let CheckSpec { problem, dtype, .. } = self.spec;
        let axes = problem.axes(self.case);
        let part = |counts: &[usize], run: usize| {
            let mut random = Random { seed, drawn: 0 };
            let last = axes.len() - 1;
            let run_of = |axis: usize| if axis == last { run } else { 1 };
            let each = axes.iter().zip(counts).enumerate();
            let chosen = each.map(|(axis, (extent, count))| random.indices(*extent, *count, run_of(axis)));
            problem.part(self.case, dtype, chosen.collect())
        };
        let flops = problem.flops(self.case).unwrap_or(0.0);
        let cost = |part: &Part<'_>| part.flops(flops) + COST_OF_INPUT * part.inputs() as f64;
        let mut counts: Vec<usize> = axes.iter().map(|extent| (*extent).min(MOST)).collect();
        let mut chosen = part(&counts, 1);
        loop {
            let is_slow = reads(&chosen) > MOST_READS;
            if !is_slow && cost(&chosen) <= MOST_COST {
                break;
            }
            let halved = (0..counts.len()).filter(|axis| counts[*axis] > 1).map(|axis| {
                let mut fewer = counts.clone();
                fewer[axis] /= 2;
                (part(&fewer, 1), fewer)
            });
            let burden = |part: &Part<'_>| if is_slow { reads(part) as f64 } else { cost(part) };
            let least = halved.min_by(|(one, _), (two, _)| burden(one).total_cmp(&burden(two)));
            match least {
                Some((fewer, its)) if is_slow || cost(&fewer) < WORTH * cost(&chosen) => {
                    (chosen, counts) = (fewer, its);
                }
                _ => break,
            }
        }
        // Neighbours along the last axis cost no further reads.
        let mut run = 2;
        while run * counts[counts.len() - 1] <= 2 * axes[axes.len() - 1] {
            let longer = part(&counts, run);
            if cost(&longer) > MOST_COST || reads(&longer) > MOST_READS {
                break;
            }
            chosen = longer;
            run *= 2;
        }
        chosen
    }

    /// Starts threads that compute the rows of the samples of these rounds, in about this order. They do so for every sample, so what
    /// they take from the other processors tells a solution nothing. `None` if the host makes the inputs.
    pub fn ahead<'scope>(
        &'a self,
        scope: &'scope Scope<'scope, '_>,
        times: &'scope Times,
        rounds: Range<u64>,
    ) -> Option<Ahead<'a>>
    where
        'a: 'scope,
    {
        let generators = self.generators.as_deref()?;
        let available = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = (available / 2).clamp(1, MOST_THREADS);
        let (sender, receiver) = sync_channel(2 * threads);
        let next = std::sync::Arc::new(AtomicU64::new(rounds.start));
        for _ in 0..threads {
            let (sender, next, rounds) = (sender.clone(), next.clone(), rounds.clone());
            scope.spawn(move || {
                loop {
                    let round = next.fetch_add(1, Ordering::Relaxed);
                    if !rounds.contains(&round) {
                        return;
                    }
                    let rows =
                        times.of_another_thread(|| with_threads(1, || self.generated(round, generators)));
                    // The receiver is gone when there are enough samples.
                    if sender.send((round, rows)).is_err() {
                        return;
                    }
                }
            });
        }
        Some(Ahead { sampler: self, generators, receiver, early: BTreeMap::new() })
    }
}

/// Returns the number of reads that a part needs.
fn reads(part: &Part<'_>) -> usize {
    part.outputs().map(|(_, bytes)| buffers::merged(&bytes).len()).sum()
}

/// Rows of samples that other threads compute.
pub(crate) struct Ahead<'a> {
    sampler: &'a Sampler<'a>,
    generators: &'a [Option<Generator>],
    receiver: Receiver<(u64, Rows<'a>)>,
    /// Those of later rounds.
    early: BTreeMap<u64, Rows<'a>>,
}

impl<'a> Ahead<'a> {
    /// Returns the rows of a round. Computes them if the other threads do not: no sample may stay without.
    pub fn take(&mut self, round: u64) -> Rows<'a> {
        loop {
            if let Some(rows) = self.early.remove(&round) {
                return rows;
            }
            let Ok((other, rows)) = self.receiver.recv() else {
                return self.sampler.generated(round, self.generators);
            };
            self.early.insert(other, rows);
        }
    }
}

impl Rows<'_> {
    /// Compares the rows with what the last call wrote. Returns a description of the first wrong element.
    pub fn complaint(&self, session: &mut Session, placed: &PlacedCase) -> Result<Option<String>, Fault> {
        let Sampler { spec, case, .. } = self.sampler;
        for ((index, bytes), expected) in self.part.outputs().zip(&self.expected) {
            let found = placed.buffers.read(session, index, &bytes)?;
            let compare = || spec.problem.compare(case, spec.dtype, expected, &found);
            let comparison = placed.times().of(Step::Comparison, compare);
            if let Some(wrong) = comparison.samples.first() {
                let coordinates: Vec<String> =
                    self.part.coordinates(index, &wrong.index).iter().map(usize::to_string).collect();
                let (name, at) = (&expected.name, coordinates.join(", "));
                let text = format!("`{name}` at [{at}] is {} instead of {}", wrong.actual, wrong.expected);
                return Ok(Some(text));
            }
        }
        Ok(None)
    }
}

/// Random numbers from a secret seed.
struct Random {
    seed: u64,
    drawn: u64,
}

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.drawn += 1;
        ((u128::from(mixed(self.seed, self.drawn)) * limit as u128) >> 64) as usize
    }

    /// Chooses so many runs of neighbours, in ascending order and without repetition.
    fn indices(&mut self, extent: usize, count: usize, run: usize) -> Vec<usize> {
        let run = run.min(extent);
        let mut chosen: Vec<usize> = match count * run >= extent {
            true => (0..extent).collect(),
            false => (0..count)
                .flat_map(|_| {
                    let start = self.below(extent - run + 1);
                    start..start + run
                })
                .collect(),
        };
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use board_problems::{Dtype, Place, Set, all, find};

    fn sampler<'a>(slug: &str, case: usize) -> Sampler<'a> {
        let problem = find(slug).unwrap();
        let case = problem.cases(Set::Bench, Place::Real).nth(case).unwrap();
        Sampler::new(CheckSpec { problem, dtype: Dtype::Float32, seed: 77 }, case).unwrap()
    }

    #[test]
    fn rows_of_every_measured_case_are_cheap_to_compute_and_to_read() {
        for problem in all() {
            for case in problem.cases(Set::Bench, Place::Real) {
                let spec = CheckSpec { problem, dtype: problem.dtypes[0], seed: 3 };
                let Some(sampler) = Sampler::new(spec, case) else { continue };
                let part = sampler.choose(4);
                let name = format!("{}: {}", problem.slug, case.name);
                let flops = part.flops(problem.flops(case).unwrap_or(0.0));
                assert!(flops <= 2e8, "{name}: {flops}");
                assert!(reads(&part) <= MOST_READS, "{name}: {}", reads(&part));
                assert!(part.outputs().all(|(_, bytes)| !bytes.is_empty()), "{name}");
            }
        }
    }

    #[test]
    fn every_measured_case_is_verified_whole_or_by_rows() {
        let most = crate::Limits::default().reference_flops;
        for problem in all() {
            for case in problem.cases(Set::Bench, Place::Real) {
                let whole = problem.flops(case).unwrap_or(0.0) <= most;
                let spec = CheckSpec { problem, dtype: problem.dtypes[0], seed: 1 };
                assert!(whole || Sampler::new(spec, case).is_some(), "{}: {}", problem.slug, case.name);
            }
        }
    }

    #[test]
    fn the_choice_depends_on_the_seed_and_covers_every_row_in_time() {
        let sampler = sampler("matrix-multiplication", 0);
        let rows = |seed| {
            let part = sampler.choose(seed);
            let first = part.outputs().next().unwrap().1;
            first.iter().map(|bytes| bytes.start / (4 * 4096)).collect::<std::collections::BTreeSet<usize>>()
        };
        assert_eq!(rows(1), rows(1));
        assert_ne!(rows(1), rows(2));
        // A hundred samples touch most blocks of 64 rows.
        let blocks: std::collections::BTreeSet<usize> = (0..100).flat_map(rows).map(|row| row / 64).collect();
        assert!(blocks.len() >= 60, "{}", blocks.len());
    }

    #[test]
    fn rows_that_are_computed_ahead_are_those_of_their_round() {
        let problem = find("softmax").unwrap();
        let case = problem.cases(Set::Bench, Place::Emulated).next().unwrap();
        let spec = CheckSpec { problem, dtype: Dtype::Float32, seed: 5 };
        let sampler = Sampler::new(spec, case).unwrap();
        let times = Times::default();
        std::thread::scope(|scope| {
            let mut ahead = sampler.ahead(scope, &times, 10..40).unwrap();
            let generators = sampler.generators.as_deref().unwrap();
            for round in [12, 10, 11, 39] {
                let (found, alone) = (ahead.take(round), sampler.generated(round, generators));
                assert_eq!(found.expected, alone.expected);
            }
            // No other thread computes that round.
            assert_eq!(ahead.take(99).expected, sampler.generated(99, generators).expected);
        });
    }
}
