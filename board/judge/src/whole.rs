//! Verifies whole outputs of samples on another thread while the device works on later ones, and makes the inputs that the host has to make
//! before the device needs them.
//!
//! What is computed during a call must not depend on whether that call will be verified: a solution could notice it, because computations
//! take processors and memory bandwidth from others. So inputs are made for every sample, and a verification starts after its call.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use board_problems::{Case, Prepared, Value, with_threads};

use crate::check::{CheckSpec, Sample};
use crate::times::{Step, Times};

/// Most bytes of the arguments and expected outputs of a sample that another thread computes with. Two samples are in memory then.
const MOST_BYTES: usize = 2 << 30;
/// Size of an expected element.
const EXPECTED_BYTES: usize = 8;

/// Inputs that another thread makes, those of one sample ahead.
pub(crate) struct InputsAhead {
    receiver: Receiver<Prepared>,
}

impl InputsAhead {
    /// Starts to make the inputs of the samples of these rounds, in this order. `None` if the device generates them, or if they would need
    /// too much memory.
    pub fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        times: &'scope Times,
        (spec, case): (CheckSpec<'scope>, &'scope Case),
        rounds: Range<u64>,
    ) -> Option<InputsAhead> {
        if spec.problem.generators(case, spec.dtype).is_some() || bytes(spec, case) > MOST_BYTES {
            return None;
        }
        let (sender, receiver) = sync_channel(0);
        scope.spawn(move || {
            for round in rounds {
                let inputs = times.of_another_thread(|| with_threads(half(), || spec.inputs(case, round)));
                // The receiver is gone when there are enough samples.
                if sender.send(inputs).is_err() {
                    return;
                }
            }
        });
        Some(InputsAhead { receiver })
    }

    /// Returns the inputs of the next round; `None` after the last one, or if the other thread has panicked.
    pub fn take(&mut self) -> Option<Sample> {
        let prepared = self.receiver.recv().ok()?;
        Some(Sample { prepared, expected: None })
    }
}

/// Compares outputs with whole references, on another thread.
pub(crate) struct Verifier<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    times: &'scope Times,
    spec: CheckSpec<'scope>,
    case: &'scope Case,
    /// Whether two samples need too much memory, so that this thread waits.
    is_large: bool,
    /// The verification that is under way: whether the outputs are right, and the time that it took.
    running: Option<ScopedJoinHandle<'scope, (bool, Duration)>>,
    spent: Duration,
}

impl<'scope, 'env> Verifier<'scope, 'env> {
    pub fn new(
        scope: &'scope Scope<'scope, 'env>,
        times: &'scope Times,
        (spec, case): (CheckSpec<'scope>, &'scope Case),
    ) -> Verifier<'scope, 'env> {
        let is_large = bytes(spec, case) > MOST_BYTES;
        Verifier { scope, times, spec, case, is_large, running: None, spent: Duration::ZERO }
    }

    /// Starts to verify the outputs of a call that had these inputs. Waits for the one before; returns whether that was right.
    pub fn start(&mut self, inputs: Prepared, outputs: Vec<Vec<u8>>) -> bool {
        let was_right = self.wait();
        let (spec, case, times) = (self.spec, self.case, self.times);
        let threads = if self.is_large { usize::MAX } else { half() };
        self.running = Some(self.scope.spawn(move || {
            let start = Instant::now();
            let is_right = times.of_another_thread(|| {
                with_threads(threads, || {
                    let expected = spec.problem.expected(case, spec.dtype, &inputs);
                    drop(inputs);
                    let mut pairs = expected.iter().zip(&outputs);
                    expected.len() == outputs.len()
                        && pairs
                            .all(|(right, found)| spec.problem.compare(case, spec.dtype, right, found).passed)
                })
            });
            (is_right, start.elapsed())
        }));
        was_right && (!self.is_large || self.wait())
    }

    /// Returns whether the last outputs are right, as far as that is known without waiting.
    pub fn poll(&mut self) -> bool {
        match &self.running {
            Some(running) if running.is_finished() => self.join(),
            _ => true,
        }
    }

    /// Waits until the last outputs are verified; returns whether they are right.
    pub fn wait(&mut self) -> bool {
        let times = self.times;
        times.of(Step::Ahead, || self.join())
    }

    fn join(&mut self) -> bool {
        let Some(running) = self.running.take() else { return true };
        let (is_right, took) = running.join().unwrap_or_else(|panic| resume_unwind(panic));
        self.spent += took;
        is_right
    }

    /// Returns the time that all verifications took.
    pub fn spent(&self) -> Duration {
        self.spent
    }
}

/// Threads for what is computed while the device works. The other processors are for the programs that serve it.
fn half() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).div_ceil(2)
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

    fn small(slug: &str) -> (CheckSpec<'static>, &'static Case) {
        let problem = find(slug).unwrap();
        let case = problem.cases(Set::Bench, Place::Emulated).next().unwrap();
        (CheckSpec { problem, dtype: Dtype::Float32, seed: 5 }, case)
    }

    #[test]
    fn inputs_that_the_host_makes_come_in_the_order_of_their_rounds() {
        let (spec, case) = small("cholesky");
        let times = Times::default();
        std::thread::scope(|scope| {
            let mut ahead = InputsAhead::start(scope, &times, (spec, case), 3..6).unwrap();
            for round in 3..6 {
                assert_eq!(ahead.take().unwrap().prepared, spec.inputs(case, round));
            }
            assert!(ahead.take().is_none());
        });
    }

    #[test]
    fn inputs_that_the_device_generates_or_that_are_large_are_not_made_ahead() {
        let times = Times::default();
        let problem = find("vector-addition").unwrap();
        let large = problem.cases(Set::Bench, Place::Real).last().unwrap();
        let spec = CheckSpec { problem, dtype: Dtype::Float32, seed: 5 };
        assert!(bytes(spec, large) > MOST_BYTES);
        std::thread::scope(|scope| {
            assert!(InputsAhead::start(scope, &times, small("softmax"), 3..6).is_none());
            assert!(InputsAhead::start(scope, &times, (spec, large), 3..6).is_none());
        });
    }

    #[test]
    fn a_wrong_output_is_noticed_when_its_verification_ends() {
        let (spec, case) = small("softmax");
        let inputs = |round| spec.inputs(case, round);
        let right = |round| {
            let expected = spec.problem.expected(case, spec.dtype, &inputs(round));
            expected.iter().map(|it| it.values.encode(it.element)).collect::<Vec<_>>()
        };
        let mut wrong = right(2);
        wrong[0][..4].copy_from_slice(&f32::NAN.to_le_bytes());
        let times = Times::default();
        std::thread::scope(|scope| {
            for is_large in [false, true] {
                let mut verifier = Verifier::new(scope, &times, (spec, case));
                verifier.is_large = is_large;
                assert!(verifier.wait());
                assert!(verifier.start(inputs(1), right(1)));
                // Where two samples would need too much memory, a start waits for its own verification.
                assert_eq!(verifier.start(inputs(2), wrong.clone()), !is_large);
                assert_eq!(verifier.start(inputs(3), right(3)), is_large);
                assert!(verifier.wait() && verifier.poll());
                assert!(verifier.spent() > Duration::ZERO);
            }
        });
    }

    #[test]
    fn a_panic_of_the_other_thread_reaches_the_one_that_waits() {
        let (spec, case) = small("softmax");
        let times = Times::default();
        let panic = std::panic::catch_unwind(|| {
            std::thread::scope(|scope| {
                let mut verifier = Verifier::new(scope, &times, (spec, case));
                // Without its inputs the reference cannot compute.
                verifier.start(Prepared { arguments: Vec::new(), ..spec.inputs(case, 1) }, Vec::new());
                verifier.wait()
            })
        });
        assert!(panic.is_err());
    }
}
