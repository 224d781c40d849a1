//! Measures the run time of a solution: samples with new inputs at changing addresses, verified, and summarised by their median.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use board_contract::{BenchmarkResult, Counters, DebugInfo, Roofline, TestResult};
use board_problems::{Case, Launch};

use crate::check::{CallOutput, CheckSpec, PlacedCase};
use crate::gpu::Gpu;
use crate::sample::{Ahead, Rows, Sampler};
use crate::session::{Fault, Session};
use crate::statistics;
use crate::times::Step;
use crate::whole::{InputsAhead, Verifier};

/// Number of sets of addresses that samples choose from.
const SETS: u32 = 3;
/// Number of samples on a software GPU, whose times mean little.
const EMULATED_SAMPLES: usize = 6;
const LEAST_SAMPLES: usize = 10;
const MOST_SAMPLES: usize = 200;
/// Total device time of the samples, in ms, unless the time limit is reached first.
const ENOUGH_MS: f64 = 200.0;
/// Time after which few samples suffice. New inputs of large cases take the host longer than the device.
const LONG: Duration = Duration::from_secs(8);
/// Relative standard error of the mean at which sampling stops.
const ENOUGH_ERROR: f64 = 0.005;
const WARM_UPS: u64 = 3;
/// First of the numbers that the inputs of samples are derived from.
const SAMPLES: u64 = 3000;
/// Where rows of every sample are verified, one sample in so many is verified whole on a GPU, chosen unpredictably. On a software GPU
/// all are.
const VERIFIED_ONE_IN: u64 = 8;
/// Size of the arguments above which fewer samples are verified whole, because that takes the host seconds.
const LARGE_BYTES: usize = 64 << 20;
const LARGE_VERIFIED_ONE_IN: u64 = 32;
/// Time for whole verifications of the samples of a case whose rows are verified in every sample. After that few are verified whole, but
/// a solution never knows that none will be.
const ENOUGH_VERIFYING: Duration = Duration::from_secs(3);
const RARELY_VERIFIED_ONE_IN: u64 = 128;
/// Where no rows can be verified, the first samples are all verified whole, and then one in so many. At least half of the samples must be
/// wrong to change the median, so a solution that skips work has to escape in as many.
const SURELY_VERIFIED: usize = 4;
const WITHOUT_ROWS_VERIFIED_ONE_IN: u64 = 2;
/// Most operations of one instruction of a wave: packed multiply-add in 64 lanes, and the largest matrix instruction.
const FLOPS_PER_VECTOR: f64 = 256.0;
const FLOPS_PER_MATRIX: f64 = 65_536.0;
/// Share of the nominal operations of a problem that every algorithm needs. Clever ones need fewer than the definition.
const LEAST_SHARE: f64 = 0.1;

/// A measurement: the case and the device.
pub(crate) struct Measurement<'a> {
    pub spec: CheckSpec<'a>,
    pub gpu: &'a Gpu,
    pub emulated: bool,
    pub case: &'a Case,
    pub launch: Launch,
    pub test_id: usize,
    /// Time for all samples.
    pub time: Duration,
    /// A reference with more operations takes too long on the host. Then some rows of every call are verified, and nothing whole.
    pub most_flops: f64,
}

/// What other threads compute for a measurement.
struct Helpers<'s, 'scope, 'env> {
    /// Chooses rows to verify, if there are any that can be computed alone.
    sampler: Option<&'s Sampler<'s>>,
    rows: Option<Ahead<'s>>,
    inputs: Option<InputsAhead>,
    verifier: Verifier<'scope, 'env>,
}

/// Why a case could not be measured.
pub(crate) enum MeasureError {
    Fault(Fault),
    /// Wrong on the inputs of the measurement, although the check passed.
    Wrong(Box<(TestResult, DebugInfo)>),
    /// Correct before the measurement, but not during it.
    Inconsistent(String),
    /// The judge can verify neither whole outputs nor rows.
    Unverifiable(String),
}

impl From<Fault> for MeasureError {
    fn from(fault: Fault) -> MeasureError {
        MeasureError::Fault(fault)
    }
}

/// A measured time, with flags for human review.
pub(crate) struct Measured {
    pub result: BenchmarkResult,
    pub deterministic: bool,
    pub flags: Vec<String>,
}

impl Measurement<'_> {
    pub fn run(&self, session: &mut Session) -> Result<Measured, MeasureError> {
        // On a software GPU every sample is verified whole, if there is a reference for that.
        let sampler = match self.emulated && self.has_reference() {
            true => None,
            false => Sampler::new(self.spec, self.case),
        };
        if sampler.is_none() && !self.has_reference() {
            return Err(MeasureError::Unverifiable(format!(
                "{}: a reference for all outputs has too many operations, and no rows can be computed alone",
                self.case.name
            )));
        }
        let times = Arc::clone(session.times());
        let most = if self.emulated { EMULATED_SAMPLES } else { MOST_SAMPLES };
        let rounds = SAMPLES..SAMPLES + most as u64;
        std::thread::scope(|scope| {
            let case = (self.spec, self.case);
            let rows = sampler.as_ref().and_then(|sampler| sampler.ahead(scope, &times, rounds.clone()));
            let inputs = InputsAhead::start(scope, &times, case, rounds);
            let verifier = Verifier::new(scope, &times, case);
            self.sample(session, Helpers { sampler: sampler.as_ref(), rows, inputs, verifier })
        })
    }

    /// The secret seed decides whether all outputs of a sample are verified. `is_spent`: enough time was spent on that.
    fn is_verified(&self, index: usize, has_rows: bool, is_spent: bool) -> bool {
        let large = self.spec.problem.bytes_of_arguments(self.case, self.spec.dtype) > LARGE_BYTES;
        self.emulated
            || !has_rows && index < SURELY_VERIFIED
            || (self.chance(index) >> 32).is_multiple_of(verified_one_in(has_rows, large, is_spent))
    }

    fn chance(&self, index: usize) -> u64 {
        self.spec.seed(self.case, 2000 + index as u64)
    }

    fn sample(
        &self,
        session: &mut Session,
        mut helpers: Helpers<'_, '_, '_>,
    ) -> Result<Measured, MeasureError> {
        session.allow(self.time);
        let start = Instant::now();
        // Global variables of the check do not exist any more.
        session.reload()?;
        let flush = if self.emulated { 0 } else { 2 * self.gpu.last_cache };
        let mut sets = Vec::new();
        for set in 0..SETS {
            let place = (1000 + u64::from(set), 1 + set);
            sets.push(PlacedCase::outline(session, self.spec, self.case, self.launch, place)?);
        }
        // Verify before anything is timed.
        let first = &mut sets[0];
        first.renew(session, 1100, None)?;
        let called = first.call(session, 0, flush, false)?;
        first.learn();
        let (outputs, forbidden) = first.buffers.outputs(session, &first.prepared)?;
        self.require_correct(first, &CallOutput { called, outputs, forbidden })?;
        self.require_rows(session, first, helpers.sampler.map(|it| it.known(1100, &first.prepared)))?;
        first.forget();
        if !self.emulated {
            for round in 0..WARM_UPS {
                let set = &mut sets[(round % u64::from(SETS)) as usize];
                set.renew(session, 1200 + round, None)?;
                set.call(session, 1 + round, flush, false)?;
                set.forget();
            }
        }
        session.allow(self.time);
        let (samples, counts) = self.samples(session, &mut sets, &mut helpers, (start, flush))?;
        let sampler = helpers.sampler;
        // What was computed for further samples is not needed.
        drop(helpers);
        session.allow(self.time);
        let deterministic = self.repeats(session, &mut sets, sampler, flush)?;
        for set in &sets {
            set.buffers.free(session)?;
        }
        let prepared = &sets[0].prepared;
        let outputs = sets[0].output_bytes();
        Ok(self.describe(&samples, prepared.flops, prepared.bytes, counts, deterministic, outputs))
    }

    /// Takes the samples. Returns their times, and the counters of one of them on a software GPU.
    fn samples(
        &self,
        session: &mut Session,
        sets: &mut [PlacedCase],
        helpers: &mut Helpers<'_, '_, '_>,
        (start, flush): (Instant, u64),
    ) -> Result<(Vec<f64>, Option<Counters>), MeasureError> {
        // The call that is counted is a sample like the others, and verified like them: a solution that does less in it is wrong.
        let mut counts = None;
        let counted = (self.spec.seed(self.case, 1500) % EMULATED_SAMPLES as u64) as usize;
        let mut samples = Vec::new();
        let (mut verifying, mut is_any_verified) = (Duration::ZERO, false);
        loop {
            let index = samples.len();
            let round = index as u64;
            let counting = self.emulated && index == counted;
            // The secret seed decides which addresses are used. An estimate repeats exactly at the same addresses.
            let set = if counting { 0 } else { (self.chance(index) % u64::from(SETS)) as usize };
            let set = &mut sets[set];
            // Until the call has ended, everything is the same for all samples. Whether this one is verified is decided after that, so
            // that a solution cannot notice it in time to compute only then.
            let inputs = session.times().of(Step::Ahead, || helpers.inputs.as_mut()?.take());
            set.renew(session, SAMPLES + round, inputs)?;
            let called = set.call(session, 100 + round, flush, counting)?;
            if counting {
                counts = called.counts.map(Counters::from_array);
            }
            samples.push(called.device_ms);
            let is_last = self.is_enough(&samples, start.elapsed());
            let rows = match &mut helpers.rows {
                Some(ahead) => Some(session.times().of(Step::Ahead, || ahead.take(SAMPLES + round))),
                // The host made these inputs, so it knows them.
                None => helpers.sampler.map(|sampler| sampler.known(SAMPLES + round, &set.prepared)),
            };
            self.require_rows(session, set, rows)?;
            let has_rows = helpers.sampler.is_some();
            let is_spent = has_rows && verifying + helpers.verifier.spent() > ENOUGH_VERIFYING;
            // A case without any such sample would be measured without a whole verification that a solution cannot foresee.
            if self.is_verified(index, has_rows, is_spent) || is_last && !is_any_verified {
                let begun = Instant::now();
                is_any_verified = true;
                set.learn();
                let outputs = self.download(session, set)?;
                let inputs = set.forget().prepared;
                verifying += begun.elapsed();
                if self.has_reference() {
                    self.require(helpers.verifier.start(inputs, outputs))?;
                }
            }
            self.require(helpers.verifier.poll())?;
            set.forget();
            if is_last {
                break;
            }
        }
        self.require(helpers.verifier.wait())?;
        Ok((samples, counts))
    }

    /// Returns a flag if kernels executed less than the case needs, whatever the algorithm: then something else computed the result.
    fn too_little_work(&self, counts: &Counters, flops: Option<f64>, outputs: u64) -> Option<String> {
        let most = counts.valu as f64 * FLOPS_PER_VECTOR + counts.mfma as f64 * FLOPS_PER_MATRIX;
        let needed = flops.unwrap_or(0.0) * LEAST_SHARE;
        let case = &self.case.name;
        if most < needed {
            return Some(format!(
                "too-few-instructions: {case} needs about {needed:.0} operations; its instructions do {most:.0} at most"
            ));
        }
        (counts.bytes_written < outputs).then(|| {
            let written = counts.bytes_written;
            format!("too-few-writes: {case} has {outputs} bytes of outputs; kernels wrote {written} bytes")
        })
    }

    /// Reads the outputs of the last call.
    fn download(&self, session: &mut Session, set: &PlacedCase) -> Result<Vec<Vec<u8>>, MeasureError> {
        let (outputs, forbidden) = set.buffers.outputs(session, &set.prepared)?;
        match forbidden {
            Some(forbidden) => Err(MeasureError::Inconsistent(forbidden.message())),
            None => Ok(outputs),
        }
    }

    fn require_right(&self, set: &mut PlacedCase, outputs: &[Vec<u8>]) -> Result<(), MeasureError> {
        self.require(!self.has_reference() || set.compare(outputs).iter().all(|comparison| comparison.passed))
    }

    /// Rejects a solution whose outputs are not right.
    fn require(&self, is_right: bool) -> Result<(), MeasureError> {
        match is_right {
            true => Ok(()),
            false => Err(MeasureError::Inconsistent(format!(
                "outputs were correct in the check and wrong during the measurement of {}",
                self.case.name
            ))),
        }
    }

    /// Calls the solution twice with the same inputs, at different addresses, as for samples. Returns whether all bits of the outputs are
    /// the same. If there is no reference, the outputs of both calls must agree within the tolerance.
    fn repeats(
        &self,
        session: &mut Session,
        sets: &mut [PlacedCase],
        sampler: Option<&Sampler<'_>>,
        flush: u64,
    ) -> Result<bool, MeasureError> {
        let set = &mut sets[0];
        set.renew(session, 9000, None)?;
        set.call(session, 9000, flush, false)?;
        set.learn();
        let outputs = self.download(session, set)?;
        self.require_right(set, &outputs)?;
        self.require_rows(session, set, sampler.map(|sampler| sampler.known(9000, &set.prepared)))?;
        let sample = set.forget();
        let set = &mut sets[1];
        set.renew(session, 9000, Some(sample))?;
        set.call(session, 10_000, flush, false)?;
        set.learn();
        let again = self.download(session, set)?;
        // The same bits are right again.
        if again == outputs {
            return Ok(true);
        }
        self.require_right(set, &again)?;
        if !self.has_reference() && !set.agree(&outputs, &again) {
            let text = "two calls with the same inputs gave different outputs";
            return Err(MeasureError::Inconsistent(text.to_owned()));
        }
        Ok(false)
    }

    /// Returns whether the reference can compute whole outputs.
    fn has_reference(&self) -> bool {
        self.spec.problem.flops(self.case).unwrap_or(0.0) <= self.most_flops
    }

    /// Rejects a solution with a wrong element in these rows of its last call.
    fn require_rows(
        &self,
        session: &mut Session,
        set: &PlacedCase,
        rows: Option<Rows<'_>>,
    ) -> Result<(), MeasureError> {
        let Some(rows) = rows else { return Ok(()) };
        match rows.complaint(session, set)? {
            None => Ok(()),
            Some(wrong) => Err(MeasureError::Inconsistent(format!(
                "outputs were correct in the check, but wrong during the measurement of {}: {wrong}",
                self.case.name
            ))),
        }
    }

    fn require_correct(&self, set: &mut PlacedCase, answer: &CallOutput) -> Result<(), MeasureError> {
        if let Some(forbidden) = &answer.forbidden {
            return Err(MeasureError::Inconsistent(forbidden.message()));
        }
        if !self.has_reference() {
            return Ok(());
        }
        match set.verdict(self.test_id, answer) {
            (_, None) => Ok(()),
            (result, Some(debug)) => Err(MeasureError::Wrong(Box::new((result, debug)))),
        }
    }

    fn is_enough(&self, samples: &[f64], elapsed: Duration) -> bool {
        if self.emulated {
            return samples.len() >= EMULATED_SAMPLES;
        }
        let total: f64 = samples.iter().sum();
        let long = total >= 5.0 * ENOUGH_MS && samples.len() >= 5;
        let known = samples.len() >= LEAST_SAMPLES
            && total >= ENOUGH_MS
            && statistics::relative_error(samples) < ENOUGH_ERROR;
        let slow = elapsed > LONG && samples.len() >= LEAST_SAMPLES;
        long || known
            || slow
            || samples.len() >= MOST_SAMPLES
            || (elapsed > self.time / 2 && samples.len() >= 3)
    }

    fn describe(
        &self,
        samples: &[f64],
        flops: Option<f64>,
        bytes: f64,
        counts: Option<Counters>,
        deterministic: bool,
        outputs: u64,
    ) -> Measured {
        // The wall time of a software GPU says nothing about the real one. Its model does, and repeats exactly.
        let estimate = counts.filter(|counts| counts.estimated_ns > 0);
        let estimate = estimate.map(|counts| vec![counts.estimated_ns as f64 / 1e6]);
        let (samples, estimated) = (estimate.as_deref().unwrap_or(samples), estimate.is_some());
        let known = |samples: &[f64]| statistics::summary(samples);
        let Some(summary) = known(samples) else { unreachable!("a loop that ends takes a sample") };
        let dtype = self.spec.dtype;
        let roof = self.gpu.roof(dtype, self.spec.problem.input_precision(dtype));
        let devices = f64::from(self.spec.problem.devices);
        let seconds = (bytes / self.gpu.bytes_per_s).max(flops.unwrap_or(0.0) / roof.flops) / devices;
        let floor_ms = seconds * 1e3;
        let mut flags = Vec::new();
        match &counts {
            // Times on a software GPU cannot be compared with hardware limits, but what it executed can.
            // Results of one GPU may be copied to the others.
            Some(counts) => {
                let outputs = outputs / u64::from(self.spec.problem.devices);
                flags.extend(self.too_little_work(counts, flops, outputs));
            }
            None if summary.median < floor_ms => flags.push(format!(
                "faster-than-hardware: {} took {} ms; the lower bound on {} is {floor_ms} ms",
                self.case.name, summary.median, self.gpu.name
            )),
            None => {}
        }
        let per_second = |amount: f64| amount / (summary.median.max(1e-9) / 1e3) / 1e9;
        let result = BenchmarkResult {
            test_id: self.test_id,
            name: self.case.name.clone(),
            runtime_ms: summary.median,
            ci_low_ms: summary.low,
            ci_high_ms: summary.high,
            mean_ms: summary.mean,
            min_ms: summary.min,
            p95_ms: summary.p95,
            samples_ms: samples.to_vec(),
            rejected: summary.outliers,
            gflops: flops.map(per_second),
            gbytes_per_s: per_second(bytes),
            floor_ms,
            roofline: Roofline {
                flops,
                bytes,
                intensity: flops.map(|flops| flops / bytes),
                peak_flops: roof.flops * devices,
                peak_unit: roof.unit.to_owned(),
                peak_bytes_per_s: self.gpu.bytes_per_s * devices,
            },
            counts,
            estimated,
            limited_by: counts.and_then(|counts| counts.limited_by()).map(str::to_owned),
            cold_cache: !self.emulated || estimated,
        };
        Measured { result, deterministic, flags }
    }
}

/// On a GPU one sample in so many is verified whole. `is_spent`: rows are verified, and enough time was spent on more.
fn verified_one_in(has_rows: bool, large: bool, is_spent: bool) -> u64 {
    match (has_rows, is_spent, large) {
        (false, ..) => WITHOUT_ROWS_VERIFIED_ONE_IN,
        (_, true, _) => RARELY_VERIFIED_ONE_IN,
        (_, _, true) => LARGE_VERIFIED_ONE_IN,
        _ => VERIFIED_ONE_IN,
    }
}
