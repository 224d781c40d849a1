//! Correctness check of a solution on all cases, with hidden inputs, poisoned outputs and guard regions.

use board_contract::{DebugInfo, Difference, ElementKind, OutputDifferences, TestResult, Verdict};
use board_problems::{
    Case, Comparison, Dtype, Expected, Launch, Mismatch, Prepared, Problem, Value, ValueKind,
};
use sha2::{Digest, Sha256};
use std::sync::Arc;

use crate::buffers::{self, Buffers, ForbiddenWrite};
use crate::host_solution::HostWork;
use crate::message::{Call, CallReport, Preparation};
use crate::session::{Called, Fault, Session};
use crate::times::{Step, Times};

/// So many bytes may be copied between host and device: a count, a flag, a small table.
const SMALL_BYTES: u64 = 4096;
/// Of larger arguments, less than one in so many bytes may be. The time of what the host computes from them is not measured everywhere.
const HOST_SHARE: u64 = 16;

/// What a solution is checked for: problem, element type and seed.
#[derive(Clone, Copy)]
pub(crate) struct CheckSpec<'a> {
    pub problem: &'a Problem,
    pub dtype: Dtype,
    pub seed: u64,
}

impl CheckSpec<'_> {
    /// Derives a seed from the submission's secret, the case and the round, and from nothing else.
    pub fn seed(&self, case: &Case, round: u64) -> u64 {
        let mut hasher = Sha256::new();
        hasher.update(self.seed.to_le_bytes());
        for text in [self.problem.slug.as_str(), case.name.as_str(), self.dtype.name()] {
            hasher.update((text.len() as u64).to_le_bytes());
            hasher.update(text);
        }
        hasher.update(format!("{:?}", case.set));
        hasher.update(round.to_le_bytes());
        let digest = hasher.finalize();
        u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|index| digest[index]))
    }

    /// Returns the arguments of a round of a measurement: what the device generates, if it can, and otherwise what the host makes.
    pub fn inputs(&self, case: &Case, round: u64) -> Prepared {
        let CheckSpec { problem, dtype, .. } = *self;
        let seed = self.seed(case, round);
        let Some(generators) = problem.generators(case, dtype) else {
            return problem.prepare(case, dtype, seed);
        };
        let mut prepared = problem.outline(case, dtype);
        for (index, (argument, generator)) in prepared.arguments.iter_mut().zip(generators).enumerate() {
            if let Some(generator) = generator {
                argument.value.set_bytes(generator.elements(buffers::seed_of_argument(seed, index)));
            }
        }
        prepared
    }
}

/// Inputs of a call, and its expected outputs if they have been computed.
pub(crate) struct Sample {
    pub prepared: Prepared,
    pub expected: Option<Vec<Expected>>,
}

/// A case with its inputs on the device.
pub(crate) struct PlacedCase<'a> {
    pub spec: CheckSpec<'a>,
    pub case: &'a Case,
    pub launch: Launch,
    pub prepared: Prepared,
    pub seed: u64,
    pub buffers: Buffers,
    /// Expected outputs, computed on first use. They never leave this process.
    expected: Option<Vec<Expected>>,
    /// The round of inputs that the device has generated and [`PlacedCase::learn`] has not, with them if they are known from before.
    unlearned: Option<(u64, Option<Sample>)>,
    times: Arc<Times>,
}

/// Result of one call.
pub(crate) struct CallOutput {
    pub called: CallReport,
    pub outputs: Vec<Vec<u8>>,
    pub forbidden: Option<ForbiddenWrite>,
}

impl<'a> PlacedCase<'a> {
    /// Places a case on the device. `place` distinguishes cases that are on the device at the same time.
    pub fn new(
        session: &mut Session,
        spec: CheckSpec<'a>,
        case: &'a Case,
        launch: Launch,
        round: u64,
        place: u32,
    ) -> Result<PlacedCase<'a>, Fault> {
        let seed = spec.seed(case, round);
        let times = Arc::clone(session.times());
        let prepared = times.of(Step::Inputs, || spec.problem.prepare(case, spec.dtype, seed));
        let buffers = Buffers::place(session, &prepared, place * 256, seed, buffers::GUARD)?;
        Ok(PlacedCase { spec, case, launch, prepared, seed, buffers, expected: None, unlearned: None, times })
    }

    /// Places a case in buffers without guard regions, for a device that checks accesses.
    pub fn without_guards(
        session: &mut Session,
        spec: CheckSpec<'a>,
        case: &'a Case,
        launch: Launch,
    ) -> Result<PlacedCase<'a>, Fault> {
        let seed = spec.seed(case, 0);
        let prepared = spec.problem.prepare(case, spec.dtype, seed);
        let buffers = Buffers::place(session, &prepared, 0, seed, 0)?;
        let times = Arc::clone(session.times());
        Ok(PlacedCase { spec, case, launch, prepared, seed, buffers, expected: None, unlearned: None, times })
    }

    /// Places a case whose arguments and expected outputs are known.
    pub fn known(
        session: &mut Session,
        spec: CheckSpec<'a>,
        case: &'a Case,
        launch: Launch,
        (prepared, expected): (Prepared, Vec<Expected>),
    ) -> Result<PlacedCase<'a>, Fault> {
        let seed = spec.seed(case, 0);
        let buffers = Buffers::place(session, &prepared, 0, seed, buffers::GUARD)?;
        let (expected, times) = (Some(expected), Arc::clone(session.times()));
        Ok(PlacedCase { spec, case, launch, prepared, seed, buffers, expected, unlearned: None, times })
    }

    /// Places a case on the device, without inputs: [`PlacedCase::renew`] provides them.
    pub fn outline(
        session: &mut Session,
        spec: CheckSpec<'a>,
        case: &'a Case,
        launch: Launch,
        (round, place): (u64, u32),
    ) -> Result<PlacedCase<'a>, Fault> {
        let seed = spec.seed(case, round);
        let prepared = spec.problem.outline(case, spec.dtype);
        let buffers = Buffers::place(session, &prepared, place * 256, seed, buffers::GUARD)?;
        let times = Arc::clone(session.times());
        Ok(PlacedCase { spec, case, launch, prepared, seed, buffers, expected: None, unlearned: None, times })
    }

    /// Gives the case the inputs of a round: the device generates them if it can, and otherwise the host makes them. `known` has them if
    /// they were computed before. What this does is the same whether the call will be verified or not, and the host does not compute
    /// what the device generates: a solution could measure that, and compute only what is verified.
    pub fn renew(&mut self, session: &mut Session, round: u64, known: Option<Sample>) -> Result<(), Fault> {
        let CheckSpec { problem, dtype, .. } = self.spec;
        self.forget();
        match problem.generators(self.case, dtype) {
            Some(generators) => {
                self.buffers.generate(session, &generators, self.spec.seed(self.case, round))?;
                self.unlearned = Some((round, known));
            }
            None => {
                let sample = known.unwrap_or_else(|| self.make(round));
                self.buffers.rewrite(session, &sample.prepared)?;
                (self.prepared, self.expected) = (sample.prepared, sample.expected);
            }
        }
        Ok(())
    }

    /// Computes on the host what the device has generated for the last call, so that all of its outputs can be verified. Only after the
    /// call: see [`PlacedCase::renew`].
    pub fn learn(&mut self) {
        let Some((round, known)) = self.unlearned.take() else { return };
        let sample = known.unwrap_or_else(|| self.make(round));
        (self.prepared, self.expected) = (sample.prepared, sample.expected);
        self.buffers.know(&self.prepared);
    }

    fn make(&self, round: u64) -> Sample {
        let prepared = self.times.of(Step::Inputs, || self.spec.inputs(self.case, round));
        Sample { prepared, expected: None }
    }

    /// Frees the memory for inputs and expected outputs, and returns them.
    pub fn forget(&mut self) -> Sample {
        let outline = self.spec.problem.outline(self.case, self.spec.dtype);
        self.buffers.forget();
        self.unlearned = None;
        Sample { prepared: std::mem::replace(&mut self.prepared, outline), expected: self.expected.take() }
    }

    /// Calls the solution. Each round uses another poison pattern for the outputs.
    pub fn call(
        &mut self,
        session: &mut Session,
        round: u64,
        flush: u64,
        count: bool,
    ) -> Result<CallReport, Fault> {
        let pattern = buffers::poison(self.seed.wrapping_add(round).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let fills = self.buffers.poison(session, &self.prepared, pattern)?;
        let call = Call {
            grid: self.launch.grid,
            block: self.launch.block,
            local: self.launch.dynamic_lds,
            count,
            slots: self.buffers.slots(),
        };
        let Called { report, work } = session.call(Preparation { flush, fills }, call)?;
        work.map_or(Ok(()), |work| self.require_device_work(&work))?;
        Ok(report)
    }

    /// Rejects a solution of the host shape that computes on the host. It would have to download its inputs, or upload its outputs.
    fn require_device_work(&self, work: &HostWork) -> Result<(), Fault> {
        let reject = |rule, text: String| Err(Fault::Rejected { rule, text });
        let outputs = self.output_bytes();
        let inputs = self.size_of(|value| matches!(value, Value::Input { .. } | Value::InOut { .. }));
        let case = &self.case.name;
        // A case of a few bytes may need no kernel: the first power of a matrix is a copy.
        if work.kernels == 0 && inputs.max(outputs) >= SMALL_BYTES {
            return reject("no-kernel", format!("{case}: the solution launched no kernel"));
        }
        if outputs >= SMALL_BYTES && work.uploaded >= SMALL_BYTES.max(outputs / HOST_SHARE) {
            let uploaded = work.uploaded;
            let text =
                format!("{case}: the solution uploaded {uploaded} bytes, for {outputs} bytes of outputs");
            return reject("outputs-uploaded", text);
        }
        if inputs >= SMALL_BYTES && work.read >= SMALL_BYTES.max(inputs / HOST_SHARE) {
            let read = work.read;
            let text = format!("{case}: the solution downloaded {read} bytes, of {inputs} bytes of inputs");
            return reject("inputs-downloaded", text);
        }
        Ok(())
    }

    /// Returns where the time of the judge goes.
    pub fn times(&self) -> &Times {
        &self.times
    }

    /// Size of all outputs.
    pub fn output_bytes(&self) -> u64 {
        self.size_of(|value| matches!(value, Value::Output { .. } | Value::InOut { .. }))
    }

    fn size_of(&self, wanted: impl Fn(&Value) -> bool) -> u64 {
        let values = self.prepared.arguments.iter().map(|argument| &argument.value);
        values.filter(|value| wanted(value)).map(|value| value.size() as u64).sum()
    }

    /// Calls the solution and reads its outputs.
    pub fn answer(&mut self, session: &mut Session, round: u64) -> Result<CallOutput, Fault> {
        let called = self.call(session, round, 0, false)?;
        let (outputs, forbidden) = self.buffers.outputs(session, &self.prepared)?;
        Ok(CallOutput { called, outputs, forbidden })
    }

    pub fn expected(&mut self) -> &[Expected] {
        let CheckSpec { problem, dtype, .. } = self.spec;
        let (case, prepared) = (self.case, &self.prepared);
        let times = &self.times;
        self.expected
            .get_or_insert_with(|| times.of(Step::Reference, || problem.expected(case, dtype, prepared)))
    }

    /// Compares every output with the expected one.
    pub fn compare(&mut self, outputs: &[Vec<u8>]) -> Vec<Comparison> {
        let CheckSpec { problem, dtype, .. } = self.spec;
        let case = self.case;
        let times = Arc::clone(&self.times);
        let pairs = self.expected().iter().zip(outputs);
        times.of(Step::Comparison, || {
            pairs.map(|(expected, found)| problem.compare(case, dtype, expected, found)).collect()
        })
    }

    /// Returns whether the outputs of two calls agree within the tolerance.
    pub fn agree(&self, first: &[Vec<u8>], second: &[Vec<u8>]) -> bool {
        let CheckSpec { problem, dtype, .. } = self.spec;
        let outputs = self
            .prepared
            .arguments
            .iter()
            .filter(|it| !matches!(it.value, Value::Input { .. } | Value::Scalar { .. }));
        outputs.zip(first.iter().zip(second)).all(|(argument, (first, second))| {
            let expected = Expected::of_output(&argument.name, &argument.value, first);
            problem.compare(self.case, dtype, &expected, second).passed
        })
    }

    /// Returns the test result of a call, and debug information if it is wrong.
    pub fn verdict(&mut self, test_id: usize, answer: &CallOutput) -> (TestResult, Option<DebugInfo>) {
        let comparisons = self.compare(&answer.outputs);
        let forbidden = answer.forbidden.as_ref().map(ForbiddenWrite::message);
        let passed = forbidden.is_none() && comparisons.iter().all(|comparison| comparison.passed);
        let largest = comparisons.iter().map(|comparison| comparison.max_difference).fold(0.0, f64::max);
        let result = TestResult {
            test_id,
            name: self.case.name.clone(),
            status: if passed { Verdict::Passed } else { Verdict::Failed },
            runtime_ms: answer.called.device_ms,
            max_difference: finite(largest),
            message: forbidden.clone(),
        };
        let debug = (!passed).then(|| self.debug(&comparisons, forbidden));
        (result, debug)
    }

    fn debug(&mut self, comparisons: &[Comparison], forbidden: Option<String>) -> DebugInfo {
        let case = self.case.name.clone();
        let outputs: Vec<OutputDifferences> = self
            .expected()
            .iter()
            .zip(comparisons)
            .map(|(expected, comparison)| differences(expected, comparison))
            .collect();
        let wrong = outputs.iter().filter(|output| output.mismatches > 0).map(description);
        let message = forbidden.into_iter().chain(wrong).collect::<Vec<String>>().join("; ");
        DebugInfo { case, message, outputs }
    }
}

/// Returns what is wrong with an output, for pages and terminals.
fn differences(expected: &Expected, comparison: &Comparison) -> OutputDifferences {
    let sample = |sample: &Mismatch| Difference {
        index: sample.index.clone(),
        expected: sample.expected.clone(),
        actual: sample.actual.clone(),
        diff: sample.difference.clone(),
        kind: match sample.kind {
            ValueKind::Number => ElementKind::Number,
            ValueKind::NotANumber => ElementKind::NotANumber,
            ValueKind::Infinite => ElementKind::Infinite,
            ValueKind::Missing => ElementKind::Missing,
        },
    };
    OutputDifferences {
        output: expected.name.clone(),
        shape: expected.shape.clone(),
        max_difference: finite(comparison.max_difference),
        mean_difference: finite(comparison.mean_difference),
        mismatches: comparison.mismatches,
        total_elements: comparison.total,
        not_a_number: comparison.not_a_number,
        infinite: comparison.infinite,
        samples: comparison.samples.iter().map(sample).collect(),
    }
}

fn description(output: &OutputDifferences) -> String {
    let OutputDifferences { output: name, mismatches, total_elements, not_a_number, infinite, .. } = output;
    let mut text = format!("{mismatches} of {total_elements} elements of `{name}` are wrong");
    if *not_a_number > 0 {
        text.push_str(&format!("; {not_a_number} are not a number, as in outputs that were not written"));
    }
    if *infinite > 0 {
        text.push_str(&format!("; {infinite} are infinite"));
    }
    text
}

/// Replaces infinities and NaN, which JSON cannot represent.
fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { f64::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;
    use board_problems::Values;

    /// Compares float32 outputs with expected values.
    fn found(name: &str, right: &[f64], wrong: &[f32]) -> OutputDifferences {
        let problem = board_problems::find("vector-addition").unwrap();
        let expected = Expected {
            name: name.to_owned(),
            element: Dtype::Float32,
            shape: vec![right.len()],
            values: Values::Floats(right.to_vec()),
        };
        let bytes: Vec<u8> = wrong.iter().flat_map(|value| value.to_le_bytes()).collect();
        let comparison = problem.compare(&problem.cases[0], Dtype::Float32, &expected, &bytes);
        differences(&expected, &comparison)
    }

    #[test]
    fn elements_are_in_the_order_of_their_coordinates() {
        let output = found("c", &[0.0; 12], &[1.0; 12]);
        let order: Vec<usize> = output.samples.iter().map(|sample| sample.index[0]).collect();
        assert_eq!(order, (0..12).collect::<Vec<usize>>());
        assert_eq!(description(&output), "12 of 12 elements of `c` are wrong");
    }

    #[test]
    fn what_is_not_a_number_is_told_from_what_is_infinite() {
        let output = found("c", &[0.0; 4], &[f32::NAN, f32::INFINITY, f32::NAN, 0.0]);
        assert_eq!((output.mismatches, output.not_a_number, output.infinite), (3, 2, 1));
        let kinds: Vec<ElementKind> = output.samples.iter().map(|sample| sample.kind).collect();
        assert_eq!(kinds, [ElementKind::NotANumber, ElementKind::Infinite, ElementKind::NotANumber]);
        assert!(output.samples.iter().all(|sample| !sample.actual.is_empty() && !sample.diff.is_empty()));
        let text = description(&output);
        assert!(text.contains("2 are not a number") && text.contains("1 are infinite"), "{text}");
    }
}
