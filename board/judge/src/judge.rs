//! Judges one submission, from its source to its verdict.

mod inspect;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use board_contract::{
    BenchmarkResult, DebugInfo, Endpoint, Event, SampleArray, SampleNumber, SampleResult, SampleValue,
    SampleValues, TestResult, Verdict,
};
use board_problems::{Case, Dtype, Launch, Place, Problem, Set, Shape};

use crate::check::{CheckSpec, PlacedCase};
use crate::code::{Code, Workgroup};
use crate::context::Context;
use crate::custom::{self, ComputedCase};
use crate::ending::{self, Ending, seconds};
use crate::generator;
use crate::gpu::Gpu;
use crate::job::{Grant, Job};
use crate::measure::{MeasureError, Measurement};
use crate::program;
use crate::session::{Fault, Late, OWN_REQUEST, Session};
use crate::statistics;
use crate::tools::Tools;

/// HIP error codes that are reported as specific events.
const OUT_OF_MEMORY: i32 = 2;
const NO_DEVICE: i32 = 100;
const LAUNCH_TIMED_OUT: i32 = 702;

/// Most elements of an array that a sample shows.
const MOST_ELEMENTS: usize = 256;

/// Judges a submission and emits its events. The last event is the verdict. `request` returns a device for a job that has none.
pub fn run(
    job: &Job,
    tools: &Tools,
    request: &mut dyn FnMut() -> Option<Grant>,
    emit: &mut dyn FnMut(Event),
) {
    let mut judge = Judge {
        context: Context { job, tools, emit, request, granted: None, observer: None },
        custom: None,
        flags: Vec::new(),
        deterministic: true,
        device: String::new(),
    };
    // A panic, such as one of a reference, is an error of this submission, which must have a last event.
    let ended = catch_unwind(AssertUnwindSafe(|| judge.run()));
    let ended = ended.unwrap_or_else(|panic| Err(ending::error("the judge failed", panic_text(&*panic))));
    if let Err(last) = ended {
        (judge.context.emit)(*last);
    }
}

/// Returns the text of a panic.
fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a text")
}

/// Judge of one submission.
struct Judge<'a> {
    context: Context<'a>,
    /// The case of the endpoint `custom`.
    custom: Option<ComputedCase>,
    /// Suspicious observations for human review.
    flags: Vec<String>,
    /// Whether equal inputs gave bit-identical outputs so far. It is not suspicious if they did not: sums with atomics are honest.
    deterministic: bool,
    /// Name of the device, as the worker reports it.
    device: String,
}

/// A loaded solution.
struct Solution<'a> {
    problem: &'a Problem,
    gpu: &'static Gpu,
    session: Session,
}

impl Judge<'_> {
    fn run(&mut self) -> Result<(), Ending> {
        let gpu = Gpu::find(&self.context.job.gpu).ok_or_else(|| {
            ending::error("unknown GPU", &format!("there is no GPU {:?}", self.context.job.gpu))
        })?;
        if self.context.job.endpoint == Endpoint::Sandbox {
            return program::run(&mut self.context, gpu);
        }
        let problem = board_problems::find(&self.context.job.problem).ok_or_else(|| {
            ending::error("unknown problem", &format!("there is no problem {:?}", self.context.job.problem))
        })?;
        if !problem.dtypes.contains(&self.context.job.dtype) {
            let names: Vec<&str> = problem.dtypes.iter().map(|dtype| dtype.name()).collect();
            let text = format!(
                "{} does not support the type {}; it supports {}",
                problem.slug,
                self.context.job.dtype.name(),
                names.join(", ")
            );
            return Err(ending::error("unknown type", &text));
        }
        self.context.check_rules()?;
        let job = self.context.job;
        if job.endpoint.is_observed() && !job.emulated {
            return Err(ending::error(
                "no software GPU",
                "only a software GPU can check and profile kernels",
            ));
        }
        if job.endpoint == Endpoint::Custom {
            let input = job.custom.clone().unwrap_or_default();
            let computed = custom::compute(problem, job.dtype, &input, seconds(job.limits.run_s))?;
            self.launch(problem, &computed.custom.case)?;
            self.custom = Some(computed);
        }
        let shape = Shape::of(&self.context.job.source).ok_or_else(|| {
            let wanted = problem.signature(self.context.job.dtype, problem.shape());
            ending::compile_error(
                "there is no function named solution",
                &format!("its declaration must be\n{wanted}"),
            )
        })?;
        if !problem.permits(shape) {
            let wanted = problem.signature(self.context.job.dtype, problem.shape());
            let message =
                format!("{} is for {} GPUs, but a kernel runs on one", problem.slug, problem.devices);
            return Err(ending::compile_error(&message, &format!("the declaration must be\n{wanted}")));
        }
        // Launch directives are checked first, before anything takes time.
        for case in &problem.cases {
            self.launch(problem, case)?;
        }
        let mut solution = match shape {
            Shape::Kernel => self.kernel(problem, gpu)?,
            Shape::Host => self.host(problem, gpu)?,
        };
        let Some(solution) = &mut solution else { return Ok(()) };
        self.judge(solution)
    }

    fn launch(&self, problem: &Problem, case: &Case) -> Result<Launch, Ending> {
        problem.launch_of(case, &self.context.job.source).map_err(|problem| {
            ending::compile_error("a launch directive in the source is invalid", &problem.to_string())
        })
    }

    /// Returns the largest case that this job runs on its device. The occupancy is that of its launch, which may depend on the sizes.
    fn largest_case<'p>(&self, problem: &'p Problem) -> Option<&'p Case> {
        let set = match self.context.job.endpoint {
            Endpoint::Sample | Endpoint::Custom => Set::Sample,
            Endpoint::Checker | Endpoint::Check => Set::Check,
            Endpoint::Benchmark
            | Endpoint::Full
            | Endpoint::Compile
            | Endpoint::Sandbox
            | Endpoint::Profile => Set::Bench,
        };
        problem.cases(set, self.place()).last()
    }

    /// Compiles a kernel and loads it. If the job has its device, the runner process starts in parallel.
    fn kernel<'p>(
        &mut self,
        problem: &'p Problem,
        gpu: &'static Gpu,
    ) -> Result<Option<Solution<'p>>, Ending> {
        self.context.compiling();
        let session = match (self.context.job.endpoint, &self.context.job.device) {
            (Endpoint::Compile, _) | (_, None) => None,
            _ => Some(self.session()?),
        };
        let compiled = self
            .context
            .compiler(gpu)
            .kernel(&self.context.job.source)
            .map_err(|error| ending::of_compiler(&error))?;
        let code = parse(&compiled.code)?;
        let chosen = self.custom.as_ref().map(|computed| &computed.custom.case);
        let group = match chosen.or_else(|| self.largest_case(problem)) {
            Some(case) => Workgroup::of(&self.launch(problem, case)?),
            None => Workgroup::USUAL,
        };
        let go_on = self.context.compiled(&compiled, &code, gpu, group);
        if let Some(complaint) = code.complaint(problem, self.context.job.dtype) {
            return Err(ending::compile_error("solution has the wrong signature", &complaint));
        }
        if !go_on {
            return Ok(None);
        }
        let session = match session {
            Some(session) => session,
            None => self.session()?,
        };
        let mut solution = Solution { problem, gpu, session };
        solution.session.allow(seconds(self.context.job.limits.run_s));
        let loaded = solution.session.load(&compiled.code, "solution");
        self.survived(loaded, &mut solution)?;
        Ok(Some(solution))
    }

    fn session(&mut self) -> Result<Session, Ending> {
        let Grant { worker, token } = self.context.device()?;
        let limits = &self.context.job.limits;
        Session::start(self.context.tools, &worker, token.as_deref(), limits.output, seconds(limits.whole_s))
            .map_err(|source| ending::error("the runner process could not be started", &source.to_string()))
    }

    fn host<'p>(&mut self, problem: &'p Problem, gpu: &'static Gpu) -> Result<Option<Solution<'p>>, Ending> {
        let Some(host) = program::solution(&mut self.context, problem, gpu)? else { return Ok(None) };
        let mut session = self.session()?;
        session.call_through(host);
        Ok(Some(Solution { problem, gpu, session }))
    }

    fn judge(&mut self, solution: &mut Solution) -> Result<(), Ending> {
        solution.session.allow(seconds(self.context.job.limits.run_s));
        let device = solution.session.device();
        let device = self.survived(device, solution)?;
        // Results are ranked by the GPU's name. So a device of another kind must not give any.
        if !solution.gpu.is(&device) {
            return Err(ending::error(
                "wrong GPU",
                &format!("{} was requested, but the worker has {device}", solution.gpu.name),
            ));
        }
        self.device = device;
        self.require_devices(solution)?;
        match self.context.job.endpoint {
            Endpoint::Sample | Endpoint::Custom => self.sample(solution),
            Endpoint::Check => self.check_accesses(solution),
            Endpoint::Profile => self.profile(solution),
            Endpoint::Checker => {
                let results = self.check(solution)?;
                let flags = std::mem::take(&mut self.flags);
                (self.context.emit)(Event::Checked {
                    passed_tests: results.len(),
                    total_tests: results.len(),
                    test_results: results,
                    deterministic: self.deterministic,
                    flags,
                });
                Ok(())
            }
            Endpoint::Full => {
                let results = self.check(solution)?;
                (self.context.emit)(Event::Checked {
                    passed_tests: results.len(),
                    total_tests: results.len(),
                    test_results: results,
                    deterministic: self.deterministic,
                    flags: self.flags.clone(),
                });
                self.measure(solution)
            }
            Endpoint::Benchmark => {
                self.check(solution)?;
                self.measure(solution)
            }
            Endpoint::Sandbox | Endpoint::Compile => Ok(()),
        }
    }

    /// Ends the submission if the worker has too few GPUs for its problem.
    fn require_devices(&mut self, solution: &mut Solution) -> Result<(), Ending> {
        let needed = solution.problem.devices;
        if needed == 1 {
            return Ok(());
        }
        let found = solution.session.device_count();
        let found = self.survived(found, solution)?;
        if found >= needed {
            return Ok(());
        }
        let text = format!("{} needs {needed} GPUs, but the worker has {found}", solution.problem.slug);
        Err(ending::error("too few GPUs", &text))
    }

    fn spec<'p>(&self, problem: &'p Problem) -> CheckSpec<'p> {
        CheckSpec { problem, dtype: self.context.job.dtype, seed: self.context.job.seed }
    }

    fn place(&self) -> Place {
        if self.context.job.emulated { Place::Emulated } else { Place::Real }
    }

    /// Checks every case. If any fails, the submission ends after all have been tried.
    fn check(&mut self, solution: &mut Solution) -> Result<Vec<TestResult>, Ending> {
        let problem = solution.problem;
        let cases: Vec<&Case> = problem.cases(Set::Check, self.place()).collect();
        let total_tests = cases.len();
        let message = format!("Checking {total_tests} cases on {}", self.device_words(solution.gpu));
        (self.context.emit)(Event::Checking { message, total_tests });
        let mut results = Vec::new();
        let mut wrong: Option<DebugInfo> = None;
        for (index, case) in cases.iter().enumerate() {
            let launch = self.launch(problem, case)?;
            solution.session.allow(seconds(self.context.job.limits.run_s));
            // The last case, which is the largest, runs twice to detect nondeterminism.
            let twice = index + 1 == total_tests;
            let started = self.begin_times(solution);
            let checked = self.check_case(solution, case, launch, index + 1, twice);
            self.show_times(solution, started, &format!("check: {}", case.name));
            let (result, debug) = self.survived(checked, solution)?;
            (self.context.emit)(Event::TestResult { result: result.clone(), total_tests });
            results.push(result);
            wrong = wrong.or(debug);
        }
        match wrong {
            None => Ok(results),
            Some(debug_info) => Err(Box::new(Event::WrongAnswer {
                debug_info: Box::new(debug_info),
                passed_tests: results.iter().filter(|result| result.status == Verdict::Passed).count(),
                total_tests,
                test_results: results,
            })),
        }
    }

    fn check_case(
        &mut self,
        solution: &mut Solution,
        case: &Case,
        launch: Launch,
        test_id: usize,
        twice: bool,
    ) -> Result<(TestResult, Option<DebugInfo>), Fault> {
        let spec = self.spec(solution.problem);
        let session = &mut solution.session;
        let mut placed = PlacedCase::new(session, spec, case, launch, 0, 0)?;
        let answer = placed.answer(session, 0)?;
        let mut found = placed.verdict(test_id, &answer);
        if twice && found.1.is_none() {
            let again = placed.answer(session, 1)?;
            if again.outputs != answer.outputs {
                self.deterministic = false;
                found = placed.verdict(test_id, &again);
            }
        }
        placed.buffers.free(session)?;
        Ok(found)
    }

    /// Begins a case.
    fn begin_times(&self, solution: &Solution) -> Instant {
        solution.session.times().clear();
        Instant::now()
    }

    /// Shows where the time of a case went.
    fn show_times(&self, solution: &Solution, started: Instant, case: &str) {
        if let Some(show) = self.context.tools.show_times {
            let name = format!("{}, {case}", solution.problem.slug);
            show(&solution.session.times().line(started.elapsed(), &name));
        }
    }

    fn device_words(&self, gpu: &Gpu) -> String {
        match gpu.imitator {
            _ if self.context.job.emulated => format!("a software {}", gpu.name),
            Some(device) => device.to_owned(),
            None => gpu.name.to_owned(),
        }
    }

    fn measure(&mut self, solution: &mut Solution) -> Result<(), Ending> {
        let problem = solution.problem;
        let cases: Vec<&Case> = problem.cases(Set::Bench, self.place()).collect();
        let total_tests = cases.len();
        let message = format!("Measuring {total_tests} cases on {}", self.device_words(solution.gpu));
        (self.context.emit)(Event::Benchmarking { message, total_tests });
        let generator = self.context.compiler(solution.gpu).kernel(generator::SOURCE);
        let generator = generator.map_err(|error| {
            ending::error("the generator of inputs cannot be compiled", &error.to_string())
        })?;
        let loaded = solution.session.load_generator(&generator.code);
        self.survived(loaded, solution)?;
        let mut results: Vec<BenchmarkResult> = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            let measurement = Measurement {
                spec: self.spec(problem),
                gpu: solution.gpu,
                emulated: self.context.job.emulated,
                case,
                launch: self.launch(problem, case)?,
                test_id: index + 1,
                time: seconds(self.context.job.limits.run_s),
                most_flops: self.context.job.limits.reference_flops,
            };
            let started = self.begin_times(solution);
            let measured = measurement.run(&mut solution.session);
            self.show_times(solution, started, &format!("measurement: {}", case.name));
            let measured = match measured {
                Ok(measured) => measured,
                Err(MeasureError::Fault(fault)) => return Err(self.ending(fault, solution)),
                Err(MeasureError::Wrong(wrong)) => {
                    let (result, debug_info) = *wrong;
                    return Err(Box::new(Event::WrongAnswer {
                        debug_info: Box::new(debug_info),
                        passed_tests: index,
                        total_tests,
                        test_results: vec![result],
                    }));
                }
                Err(MeasureError::Unverifiable(details)) => {
                    return Err(ending::error("the measurement cannot be verified", &details));
                }
                Err(MeasureError::Inconsistent(details)) => {
                    return Err(Box::new(Event::Rejected {
                        message: "the solution behaves differently when it is measured".to_owned(),
                        details,
                        rule: "inconsistent-output".to_owned(),
                    }));
                }
            };
            self.deterministic &= measured.deterministic;
            self.flags.extend(measured.flags);
            (self.context.emit)(Event::BenchmarkResult {
                result: Box::new(measured.result.clone()),
                total_tests,
            });
            results.push(measured.result);
        }
        let times = results.iter().map(|result| result.runtime_ms);
        let intervals: Vec<_> =
            results.iter().map(|result| (result.runtime_ms, result.ci_low_ms, result.ci_high_ms)).collect();
        let interval = statistics::geometric_interval(&intervals);
        let avg_gflops = match results.iter().map(|result| result.gflops).collect::<Option<Vec<f64>>>() {
            Some(values) => statistics::geometric_mean(values.into_iter()),
            None => None,
        };
        let output = self.context.tools.shown(&solution.session.end().output);
        (self.context.emit)(Event::Benchmarked {
            output,
            avg_runtime_ms: statistics::geometric_mean(times).unwrap_or(0.0),
            ci_low_ms: interval.map(|(low, _)| low),
            ci_high_ms: interval.map(|(_, high)| high),
            avg_gflops,
            total_tests,
            emulated: self.context.job.emulated,
            device: Some(self.device.clone()),
            deterministic: self.deterministic,
            flags: std::mem::take(&mut self.flags),
            test_results: results,
        });
        Ok(())
    }

    fn sample(&mut self, solution: &mut Solution) -> Result<(), Ending> {
        let problem = solution.problem;
        let custom = self.custom.take();
        let chosen = custom.as_ref().map(|computed| &computed.custom.case);
        let Some(case) = chosen.or_else(|| problem.cases(Set::Sample, self.place()).next()) else {
            return Err(ending::error("no sample", &format!("{} has no sample", problem.slug)));
        };
        let what = if custom.is_some() { &case.name } else { "the sample" };
        (self.context.emit)(Event::Checking { message: format!("Running {what}"), total_tests: 1 });
        let launch = self.launch(problem, case)?;
        let spec = self.spec(problem);
        let session = &mut solution.session;
        session.allow(seconds(self.context.job.limits.run_s));
        let placed = match &custom {
            Some(computed) => {
                let known = (computed.prepared.clone(), computed.expected.clone());
                PlacedCase::known(session, spec, case, launch, known)
            }
            None => PlacedCase::new(session, spec, case, launch, 0, 0),
        };
        let placed = placed.and_then(|mut placed| Ok((placed.answer(session, 0)?, placed)));
        let (answer, mut placed) = self.survived(placed, solution)?;
        let (result, debug_info) = placed.verdict(1, &answer);
        let mut input = SampleValues::new();
        for argument in &placed.prepared.arguments {
            let Some(bytes) = argument.value.bytes() else { continue };
            let element = argument.value.element();
            let shown = match argument.value {
                board_problems::Value::Scalar { .. } => {
                    numbers(element, bytes).into_iter().next().map(SampleValue::Scalar)
                }
                _ => Some(array(element, argument.value.shape(), bytes)),
            };
            input.extend(shown.map(|shown| (argument.name.clone(), shown)));
        }
        let (mut output, mut expected_output) = (SampleValues::new(), SampleValues::new());
        for (expected, found) in placed.expected().iter().zip(&answer.outputs) {
            let right = expected.values.encode(expected.element);
            output.insert(expected.name.clone(), array(expected.element, &expected.shape, found));
            expected_output.insert(expected.name.clone(), array(expected.element, &expected.shape, &right));
        }
        let ended = solution.session.end();
        let sample = Box::new(SampleResult {
            input,
            output,
            expected_output,
            debug_info,
            stdout: self.context.tools.shown(&ended.output),
            stderr: self.context.tools.shown(&ended.error),
        });
        (self.context.emit)(match result.status {
            Verdict::Passed => Event::Passed(sample),
            Verdict::Failed => Event::Failed(sample),
        });
        Ok(())
    }

    fn survived<T>(&self, result: Result<T, Fault>, solution: &mut Solution) -> Result<T, Ending> {
        result.map_err(|fault| self.ending(fault, solution))
    }

    /// Returns the event for a time limit that ran out. `used` is the time of the solution until now.
    fn late(&self, late: Late, used: Duration, said: String) -> Ending {
        let limits = &self.context.job.limits;
        let exceeded =
            |message: String| Box::new(Event::TimeLimitExceeded { message, details: said.clone() });
        match late {
            Late::Solution => exceeded(format!("the solution took longer than {} s", limits.run_s)),
            Late::Request => ending::error(
                "the device does not answer",
                &format!("it did not answer a request of the judge within {} s", OWN_REQUEST.as_secs()),
            ),
            // Less than half of the time was the solution's, so the judge was too slow.
            Late::Submission if used < seconds(limits.whole_s) / 2 => ending::error(
                "the judge took too long",
                &format!(
                    "compiled code is judged for {} s at most; verification took most of them, and the solution {:.1} s",
                    limits.whole_s,
                    used.as_secs_f64()
                ),
            ),
            Late::Submission => exceeded(format!(
                "all cases together took longer than {} s, of which the solution took {:.1} s",
                limits.whole_s,
                used.as_secs_f64()
            )),
        }
    }

    /// Converts a fault to the event that the submitter sees.
    fn ending(&self, fault: Fault, solution: &mut Solution) -> Ending {
        use sandbox::Stop;
        let ended = solution.session.end();
        let said = self.context.tools.shown(&ended.error);
        let details = |text: &str| if said.is_empty() { text.to_owned() } else { format!("{text}\n{said}") };
        let runtime = |message: String, details: String| Box::new(Event::RuntimeError { message, details });
        match (fault, ended.stop) {
            (Fault::Rejected { rule, text }, _) => {
                Box::new(Event::Rejected { message: text, details: said, rule: rule.to_owned() })
            }
            (Fault::Worker(text), _) => ending::error("the device failed", &details(&text)),
            (Fault::Time(late), _) => self.late(late, solution.session.used(), said),
            // The process of a solution may run until the end of the submission.
            (_, Some(Stop::Time)) => self.late(Late::Submission, solution.session.used(), said),
            (_, Some(Stop::Memory)) => Box::new(Event::MemoryLimitExceeded {
                message: "the solution needs too much memory".to_owned(),
                details: said,
            }),
            (Fault::Hip { code: LAUNCH_TIMED_OUT, text }, _) => Box::new(Event::TimeLimitExceeded {
                message: "a kernel ran too long".to_owned(),
                details: details(&text),
            }),
            // Not the submitter's fault.
            (Fault::Hip { code: NO_DEVICE, text }, _) => {
                ending::error("the device cannot be reached", &details(&text))
            }
            (Fault::Hip { code: OUT_OF_MEMORY, text }, _) => Box::new(Event::MemoryLimitExceeded {
                message: "the device has no memory left".to_owned(),
                details: details(&text),
            }),
            (Fault::Hip { text, .. }, _) => runtime(text.clone(), details(&text)),
            (_, Some(Stop::Output)) => runtime("the solution prints too much".to_owned(), said),
            (_, Some(Stop::Folder)) => runtime("the solution writes too much to files".to_owned(), said),
            (_, Some(Stop::Signalled(signal))) => {
                runtime(format!("the solution was killed by signal {signal}"), said)
            }
            (Fault::Gone, Some(Stop::Exited(code))) => {
                runtime(format!("the solution exited with code {code}"), said)
            }
            (Fault::InvalidReply(text), Some(_)) => {
                runtime(format!("the solution interfered with its harness: {text}"), said)
            }
            (Fault::Gone, Some(Stop::Cancelled)) => {
                runtime("the solution closed a connection of its harness".to_owned(), said)
            }
            (Fault::Gone, None) => ending::error("the runner process of the judge has ended", &said),
            (Fault::InvalidReply(text), None) => {
                ending::error("the runner process of the judge has failed", &details(&text))
            }
        }
    }
}

fn parse(code: &[u8]) -> Result<Code, Ending> {
    Code::parse(code)
        .map_err(|problem| ending::error("the compiled code cannot be read", &problem.to_string()))
}

fn array(element: Dtype, shape: &[usize], bytes: &[u8]) -> SampleValue {
    SampleValue::Array(SampleArray { shape: shape.to_vec(), values: numbers(element, bytes) })
}

/// Converts the first elements of an array. Numbers that JSON cannot represent become strings.
fn numbers(element: Dtype, bytes: &[u8]) -> Vec<SampleNumber> {
    let bytes = &bytes[..bytes.len().min(MOST_ELEMENTS * element.size())];
    if element.is_float() {
        let number = |value: f64| match value.is_finite() {
            true => SampleNumber::Real(value),
            false => SampleNumber::Text(value.to_string()),
        };
        element.decode(bytes).into_iter().map(number).collect()
    } else {
        let number = |value: i128| match i64::try_from(value) {
            Ok(small) if small.unsigned_abs() < 1 << 53 => SampleNumber::Integer(small),
            _ => SampleNumber::Text(value.to_string()),
        };
        element.decode_integers(bytes).into_iter().map(number).collect()
    }
}
