//! Computes inputs and whole expected outputs of samples ahead of the device, on other threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::Scope;

use board_problems::{Case, Expected, Prepared, Value, with_threads};

use crate::check::CheckSpec;
use crate::times::Times;

/// Most bytes of the inputs and expected outputs of a sample that is computed ahead. Two are in memory then: one is used meanwhile.
const MOST_BYTES: usize = 2 << 30;
/// Size of an expected element.
const EXPECTED_BYTES: usize = 8;

/// Inputs of a sample, and expected outputs if they have been computed.
pub(crate) struct Sample {
    pub prepared: Prepared,
    pub expected: Option<Vec<Expected>>,
}

/// A sample that will be wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub round: u64,
    /// Whether the host makes its inputs, and so needs them in any case.
    pub inputs: bool,
    /// Whether its outputs are compared whole,
    pub whole: bool,
    /// even if that is done rarely.
    pub rarely: bool,
}

/// Samples that another thread computes.
pub(crate) struct SamplesAhead {
    receiver: Receiver<(u64, Sample)>,
    wanted: Vec<Wanted>,
    progress: Arc<Progress>,
}

/// What the other thread does not have to compute any more.
#[derive(Default)]
struct Progress {
    /// Samples of earlier rounds.
    round: AtomicU64,
    /// Expected outputs of samples that are compared unless that is done rarely.
    is_rare: AtomicBool,
}

impl SamplesAhead {
    /// Starts to compute samples, in this order. One is ready while the one before is used. `None` if they would need too much memory.
    pub fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        times: &'scope Times,
        spec: CheckSpec<'scope>,
        case: &'scope Case,
        wanted: Vec<Wanted>,
    ) -> Option<SamplesAhead> {
        if bytes(spec, case) > MOST_BYTES {
            return None;
        }
        // The others are for the thread that waits for the device, and for the programs that serve it.
        let threads = std::thread::available_parallelism().map_or(1, usize::from).div_ceil(2);
        let (sender, receiver) = sync_channel(0);
        let progress = Arc::new(Progress::default());
        let it = SamplesAhead { receiver, wanted: wanted.clone(), progress: Arc::clone(&progress) };
        scope.spawn(move || {
            for sample in wanted {
                let whole = match progress.is_rare.load(Ordering::Relaxed) {
                    true => sample.rarely,
                    false => sample.whole,
                };
                if sample.round < progress.round.load(Ordering::Relaxed) || !(whole || sample.inputs) {
                    continue;
                }
                let computed = times.of_another_thread(|| {
                    with_threads(threads, || {
                        let prepared = spec.inputs(case, sample.round);
                        let expected = whole.then(|| spec.problem.expected(case, spec.dtype, &prepared));
                        Sample { prepared, expected }
                    })
                });
                // The receiver is gone when there are enough samples.
                if sender.send((sample.round, computed)).is_err() {
                    return;
                }
            }
        });
        Some(it)
    }

    /// Notes that samples are compared whole rarely from now on.
    pub fn be_rare(&self) {
        self.progress.is_rare.store(true, Ordering::Relaxed);
    }

    /// Returns the sample of a round, and drops those of earlier ones. `None` if it is not wanted, or too late for it.
    pub fn take(&mut self, round: u64) -> Option<Sample> {
        let is_rare = self.progress.is_rare.load(Ordering::Relaxed);
        let is_wanted =
            |it: &Wanted| it.round == round && (it.inputs || if is_rare { it.rarely } else { it.whole });
        if !self.wanted.iter().any(is_wanted) {
            return None;
        }
        self.progress.round.store(round, Ordering::Relaxed);
        loop {
            let (next, sample) = self.receiver.recv().ok()?;
            match next.cmp(&round) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => return Some(sample),
                std::cmp::Ordering::Greater => return None,
            }
        }
    }
}

/// Bytes of the arguments and the expected outputs of a sample.
fn bytes(spec: CheckSpec<'_>, case: &Case) -> usize {
    let outline = spec.problem.outline(case, spec.dtype);
    let outputs = outline.arguments.iter().map(|argument| &argument.value);
    let outputs = outputs.filter(|value| matches!(value, Value::Output { .. } | Value::InOut { .. }));
    let outputs: usize = outputs.map(|value| value.shape().iter().product::<usize>()).sum();
    spec.problem.bytes_of_arguments(case, spec.dtype) + EXPECTED_BYTES * outputs
}

#[cfg(test)]
mod tests {
    use super::*;
    use board_problems::{Dtype, Place, Set, find};

    #[test]
    fn samples_that_are_computed_ahead_are_those_of_their_round() {
        // The device generates the inputs of the first one, and the host those of the second.
        for slug in ["softmax", "cholesky"] {
            let problem = find(slug).unwrap();
            let case = problem.cases(Set::Bench, Place::Emulated).next().unwrap();
            let spec = CheckSpec { problem, dtype: Dtype::Float32, seed: 5 };
            let wanted = [(3, true), (4, false), (7, true), (9, true), (12, true), (20, true)]
                .map(|(round, whole)| Wanted { round, inputs: !whole, whole, rarely: round >= 20 });
            let times = Times::default();
            std::thread::scope(|scope| {
                let mut ahead = SamplesAhead::start(scope, &times, spec, case, wanted.to_vec()).unwrap();
                let right = |round| {
                    let inputs = spec.inputs(case, round);
                    (problem.expected(case, spec.dtype, &inputs), inputs)
                };
                for (round, whole) in [(3, true), (4, false), (9, true)] {
                    let sample = ahead.take(round).unwrap();
                    let (expected, inputs) = right(round);
                    assert_eq!(sample.prepared, inputs);
                    assert_eq!(sample.expected, whole.then_some(expected));
                    // Nobody wants that round, so nothing waits for it.
                    assert!(ahead.take(1000 + round).is_none());
                }
                ahead.be_rare();
                assert!(ahead.take(12).is_none());
                assert_eq!(ahead.take(20).unwrap().expected, Some(right(20).0));
            });
        }
    }

    #[test]
    fn samples_that_need_too_much_memory_are_not_computed_ahead() {
        let problem = find("vector-addition").unwrap();
        let spec = CheckSpec { problem, dtype: Dtype::Float32, seed: 5 };
        let large = problem.cases(Set::Bench, Place::Real).last().unwrap();
        let times = Times::default();
        std::thread::scope(|scope| {
            assert!(SamplesAhead::start(scope, &times, spec, large, Vec::new()).is_none());
        });
    }
}
