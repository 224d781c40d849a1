//! Measures the run time of a solution: samples on changing inputs and addresses, verified, and summarised by their median.

use std::time::{Duration, Instant};

use board_contract::{BenchmarkResult, Counters, DebugInfo, Roofline, TestResult};
use board_problems::{Case, Launch};

use crate::check::{CallOutput, CheckSpec, PlacedCase};
use crate::gpu::Gpu;
use crate::session::{Fault, Session};
use crate::statistics;

/// Number of input sets that samples choose from. They differ in addresses and contents.
const SETS: u32 = 3;
/// Number of samples on a software GPU, whose times mean little.
const EMULATED_SAMPLES: usize = 6;
const LEAST_SAMPLES: usize = 10;
const MOST_SAMPLES: usize = 200;
/// Total device time of the samples, in ms, unless the time limit is reached first.
const ENOUGH_MS: f64 = 200.0;
/// Relative standard error of the mean at which sampling stops.
const ENOUGH_ERROR: f64 = 0.005;
const WARM_UPS: u64 = 3;
/// Outputs up to this size in bytes are verified after every sample, larger ones after samples chosen unpredictably.
const READ_ALWAYS: usize = 16 << 20;
/// A reference with more operations takes too long on the host. Such a case is compared with an untimed call of the solution instead.
const MOST_REFERENCE_FLOPS: f64 = 2e10;

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
    /// Whether the reported time is untrusted. Solutions of the host shape run in the process that takes the time.
    pub untrusted_times: bool,
}

/// Why a case could not be measured.
pub(crate) enum MeasureError {
    Fault(Fault),
    /// Wrong on the inputs of the measurement, although the check passed.
    Wrong(Box<(TestResult, DebugInfo)>),
    /// Correct before the measurement, but not during it.
    Inconsistent(String),
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
        session.allow(self.time);
        let mut sets = Vec::new();
        for set in 0..SETS {
            let round = 1000 + u64::from(set);
            sets.push(PlacedCase::new(session, self.spec, self.case, self.launch, round, 1 + set)?);
        }
        // Verify before anything is timed.
        let mut first = Vec::new();
        for set in &mut sets {
            let answer = set.answer(session, 0)?;
            self.require_correct(set, &answer)?;
            first.push(answer.outputs);
        }
        let counts = if self.emulated {
            sets[0].call(session, 1, 0, true)?.counts.map(Counters::from_array)
        } else {
            for round in 0..WARM_UPS {
                sets[(round % u64::from(SETS)) as usize].call(session, 1 + round, 0, false)?;
            }
            None
        };
        let flush = if self.emulated { 0 } else { 2 * self.gpu.last_cache };
        let mut samples = Vec::new();
        let mut host_samples = Vec::new();
        let mut deterministic = true;
        let begun = Instant::now();
        while !self.is_enough(&samples, begun.elapsed()) {
            let round = samples.len() as u64;
            // The secret seed decides which set is used and whether its outputs are verified.
            let chance = self.spec.seed(self.case, 2000 + round);
            let index = (chance % u64::from(SETS)) as usize;
            let called = sets[index].call(session, 100 + round, flush, false)?;
            samples.push(called.device_ms);
            host_samples.push(called.host_ms);
            let size: usize = first[index].iter().map(Vec::len).sum();
            if size <= READ_ALWAYS || (chance >> 32).is_multiple_of(8) || samples.len() <= 2 {
                deterministic &= self.look(session, &mut sets[index], &first[index])?;
            }
        }
        // Verify again after the timing.
        for (set, first) in sets.iter_mut().zip(&first) {
            set.call(session, 10_000, 0, false)?;
            deterministic &= self.look(session, set, first)?;
        }
        for set in &sets {
            set.buffers.free(session)?;
        }
        let prepared = &sets[0].prepared;
        Ok(self.describe(&samples, &host_samples, prepared.flops, prepared.bytes, counts, deterministic))
    }

    /// Returns whether the outputs of the last call are bit-identical to those of the first. Different outputs must be correct as well.
    fn look(
        &self,
        session: &mut Session,
        set: &mut PlacedCase,
        first: &[Vec<u8>],
    ) -> Result<bool, MeasureError> {
        let (outputs, forbidden) = set.buffers.outputs(session)?;
        if let Some(forbidden) = forbidden {
            return Err(MeasureError::Inconsistent(forbidden.message()));
        }
        if outputs == *first {
            return Ok(true);
        }
        if self.has_reference(set) && !set.compare(&outputs).iter().all(|comparison| comparison.passed) {
            let text = "outputs were correct in the check and wrong during the measurement";
            return Err(MeasureError::Inconsistent(text.to_owned()));
        }
        Ok(false)
    }

    fn has_reference(&self, set: &PlacedCase) -> bool {
        set.prepared.flops.unwrap_or(0.0) <= MOST_REFERENCE_FLOPS
    }

    fn require_correct(&self, set: &mut PlacedCase, answer: &CallOutput) -> Result<(), MeasureError> {
        if let Some(forbidden) = &answer.forbidden {
            return Err(MeasureError::Inconsistent(forbidden.message()));
        }
        if !self.has_reference(set) {
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
        long || known || samples.len() >= MOST_SAMPLES || (elapsed > self.time / 2 && samples.len() >= 3)
    }

    fn describe(
        &self,
        samples: &[f64],
        host_samples: &[f64],
        flops: Option<f64>,
        bytes: f64,
        counts: Option<Counters>,
        deterministic: bool,
    ) -> Measured {
        let known = |samples: &[f64]| statistics::summary(samples);
        let Some(summary) = known(samples) else { unreachable!("a loop that ends takes a sample") };
        let dtype = self.spec.dtype;
        let roof = self.gpu.roof(dtype, self.spec.problem.input_precision(dtype));
        let seconds = (bytes / self.gpu.bytes_per_s).max(flops.unwrap_or(0.0) / roof.flops);
        let floor_ms = seconds * 1e3;
        let mut flags = Vec::new();
        // Times on a software GPU cannot be compared with hardware limits.
        if !self.emulated {
            if summary.median < 0.9 * floor_ms {
                flags.push(format!(
                    "faster-than-hardware: {} took {} ms; the lower bound on {} is {floor_ms} ms",
                    self.case.name, summary.median, self.gpu.name
                ));
            }
            let host = known(host_samples).map_or(0.0, |summary| summary.median);
            if self.untrusted_times && host > 3.0 * summary.median + 2.0 {
                flags.push(format!(
                    "work-outside-events: {} took {host} ms on the host and {} ms by the device's events",
                    self.case.name, summary.median
                ));
            }
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
                peak_flops: roof.flops,
                peak_unit: roof.unit.to_owned(),
                peak_bytes_per_s: self.gpu.bytes_per_s,
            },
            counts,
            cold_cache: !self.emulated,
        };
        Measured { result, deterministic, flags }
    }
}
