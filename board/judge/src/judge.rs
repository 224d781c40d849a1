//! Judges one submission, from its source to its verdict.

use std::time::Duration;

use board_problems::{Case, Launch, Place, Problem, Set, Shape};
use serde_json::{Value as Json, json};

use crate::check::{Posed, Question};
use crate::code::Code;
use crate::compile::{CompileError, Compiled, Compiler};
use crate::event::{BenchmarkResult, DebugInfo, Event, SampleResult, TestResult, Verdict};
use crate::gpu::Gpu;
use crate::job::{Endpoint, Job};
use crate::measure::{Measurement, Unmeasured};
use crate::rules;
use crate::session::{Fault, Session};
use crate::statistics;
use crate::tools::Tools;

/// HIP error codes that are reported as specific events.
const OUT_OF_MEMORY: i32 = 2;
const NO_DEVICE: i32 = 100;
const LAUNCH_TIMED_OUT: i32 = 702;

/// Most bytes of a program's output that users are shown.
const MOST_SHOWN: usize = 16 << 10;
/// Most elements of an array that a sample shows.
const MOST_ELEMENTS: usize = 256;

/// Judges a submission and emits its events. The last event is the verdict.
pub fn run(job: &Job, tools: &Tools, emit: &mut dyn FnMut(Event)) {
    let mut judge = Judge { job, tools, emit, flags: Vec::new() };
    if let Err(last) = judge.run() {
        (judge.emit)(*last);
    }
}

/// An event that ends a submission early.
type Ending = Box<Event>;

pub(crate) struct Judge<'a> {
    pub job: &'a Job,
    pub tools: &'a Tools,
    pub emit: &'a mut dyn FnMut(Event),
    pub flags: Vec<String>,
}

/// A loaded solution.
struct Solution<'a> {
    problem: &'a Problem,
    gpu: &'static Gpu,
    shape: Shape,
    session: Session,
}

impl Judge<'_> {
    fn run(&mut self) -> Result<(), Ending> {
        let gpu = Gpu::find(&self.job.gpu)
            .ok_or_else(|| error("unknown GPU", &format!("there is no GPU {:?}", self.job.gpu)))?;
        if self.job.endpoint == Endpoint::Sandbox {
            return crate::program::run(self, gpu);
        }
        let problem = board_problems::find(&self.job.problem).ok_or_else(|| {
            error("unknown problem", &format!("there is no problem {:?}", self.job.problem))
        })?;
        if !problem.dtypes.contains(&self.job.dtype) {
            let names: Vec<&str> = problem.dtypes.iter().map(|dtype| dtype.name()).collect();
            let text = format!(
                "{} does not support the type {}; it supports {}",
                problem.slug,
                self.job.dtype.name(),
                names.join(", ")
            );
            return Err(error("unknown type", &text));
        }
        self.obey_rules()?;
        let shape = Shape::of(&self.job.source).ok_or_else(|| {
            let wanted = problem.signature(self.job.dtype, Shape::Kernel);
            compile_error(
                "there is no function named solution",
                &format!("its declaration must be\n{wanted}"),
            )
        })?;
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

    pub fn obey_rules(&mut self) -> Result<(), Ending> {
        let whole = self.job.endpoint == Endpoint::Sandbox;
        match rules::breach(&self.job.source, whole) {
            None => Ok(()),
            Some(breach) => Err(Box::new(Event::Rejected {
                message: breach.message(),
                details: breach.details(),
                rule: breach.rule.to_owned(),
            })),
        }
    }

    fn launch(&self, problem: &Problem, case: &Case) -> Result<Launch, Ending> {
        problem.launch_of(case, &self.job.source).map_err(|problem| {
            compile_error("a launch directive in the source is invalid", &problem.to_string())
        })
    }

    pub fn compiling(&mut self) {
        (self.emit)(Event::Compiling { message: "Compiling HIP kernel with hipcc...".to_owned() });
    }

    pub fn compiler<'b>(&'b self, gpu: &'b Gpu) -> Compiler<'b> {
        Compiler::new(self.tools, gpu.target, seconds(self.job.limits.compile_s))
    }

    /// Emits the result of the compilation. Returns whether the submission continues.
    pub fn compiled(&mut self, compiled: &Compiled, code: &Code, gpu: &Gpu, workgroup: u32) -> bool {
        let alone = self.job.endpoint == Endpoint::Compile;
        let listings = code.listings();
        (self.emit)(Event::Compiled {
            compile_ms: compiled.took.as_secs_f64() * 1e3,
            cached: compiled.cached,
            kernels: code.facts(gpu, workgroup),
            warnings: compiled.warnings.clone(),
            isa: alone.then(|| listings.clone()),
        });
        if !alone {
            (self.emit)(Event::Isa { kernels: listings });
        }
        !alone
    }

    /// Compiles a kernel and loads it. The runner process starts in parallel.
    fn kernel<'p>(
        &mut self,
        problem: &'p Problem,
        gpu: &'static Gpu,
    ) -> Result<Option<Solution<'p>>, Ending> {
        self.compiling();
        let session = match self.job.endpoint {
            Endpoint::Compile => None,
            _ => Some(self.own_session()?),
        };
        let compiled = self.compiler(gpu).kernel(&self.job.source).map_err(|error| ending_of(&error))?;
        let code = parse(&compiled.code)?;
        let workgroup = match problem.cases.last() {
            Some(case) => self.launch(problem, case)?.block.iter().product(),
            None => 256,
        };
        let go_on = self.compiled(&compiled, &code, gpu, workgroup);
        if let Some(complaint) = code.complaint(problem, self.job.dtype) {
            return Err(compile_error("solution has the wrong signature", &complaint));
        }
        let (true, Some(session)) = (go_on, session) else { return Ok(None) };
        let mut solution = Solution { problem, gpu, shape: Shape::Kernel, session };
        solution.session.allow(seconds(self.job.limits.run_s));
        let loaded = solution.session.load(&compiled.code, "solution");
        self.survived(loaded, &mut solution)?;
        Ok(Some(solution))
    }

    fn own_session(&self) -> Result<Session, Ending> {
        let Job { worker, token, limits, .. } = self.job;
        Session::own(self.tools, worker, token.as_deref(), limits.output, seconds(limits.whole_s))
            .map_err(|source| error("the runner process could not be started", &source.to_string()))
    }

    fn host<'p>(&mut self, problem: &'p Problem, gpu: &'static Gpu) -> Result<Option<Solution<'p>>, Ending> {
        let session = crate::program::solution(self, problem, gpu)?;
        Ok(session.map(|session| Solution { problem, gpu, shape: Shape::Host, session }))
    }

    fn judge(&mut self, solution: &mut Solution) -> Result<(), Ending> {
        solution.session.allow(seconds(self.job.limits.run_s));
        let device = solution.session.device();
        let device = self.survived(device, solution)?;
        if !device.to_ascii_uppercase().contains(solution.gpu.name) {
            return Err(error(
                "wrong GPU",
                &format!("{} was requested, but the worker has {device}", solution.gpu.name),
            ));
        }
        match self.job.endpoint {
            Endpoint::Sample => self.sample(solution),
            Endpoint::Checker => {
                let results = self.check(solution)?;
                let flags = std::mem::take(&mut self.flags);
                (self.emit)(Event::Checked {
                    passed_tests: results.len(),
                    total_tests: results.len(),
                    test_results: results,
                    flags,
                });
                Ok(())
            }
            Endpoint::Full => {
                let results = self.check(solution)?;
                (self.emit)(Event::Checked {
                    passed_tests: results.len(),
                    total_tests: results.len(),
                    test_results: results,
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

    fn question<'p>(&self, problem: &'p Problem) -> Question<'p> {
        Question { problem, dtype: self.job.dtype, seed: self.job.seed }
    }

    fn place(&self) -> Place {
        if self.job.emulated { Place::Emulated } else { Place::Real }
    }

    /// Checks every case. If any fails, the submission ends after all have been tried.
    fn check(&mut self, solution: &mut Solution) -> Result<Vec<TestResult>, Ending> {
        let problem = solution.problem;
        let cases: Vec<&Case> = problem.cases(Set::Check, self.place()).collect();
        let total_tests = cases.len();
        let message = format!("Checking {total_tests} cases on {}", self.device_words(solution.gpu));
        (self.emit)(Event::Checking { message, total_tests });
        let mut results = Vec::new();
        let mut wrong: Option<DebugInfo> = None;
        for (index, case) in cases.iter().enumerate() {
            let launch = self.launch(problem, case)?;
            solution.session.allow(seconds(self.job.limits.run_s));
            // The last case, which is the largest, runs twice to detect nondeterminism.
            let twice = index + 1 == total_tests;
            let checked = self.check_case(solution, case, launch, index + 1, twice);
            let (result, debug) = self.survived(checked, solution)?;
            (self.emit)(Event::TestResult { result: result.clone(), total_tests });
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
        let question = self.question(solution.problem);
        let session = &mut solution.session;
        let mut posed = Posed::new(session, question, case, launch, 0, 0)?;
        let answer = posed.answer(session, 0)?;
        let mut found = posed.verdict(test_id, &answer);
        if twice && found.1.is_none() {
            let again = posed.answer(session, 1)?;
            if again.outputs != answer.outputs {
                let text = format!("not-deterministic: {} gave different bits for equal inputs", case.name);
                self.flags.push(text);
                found = posed.verdict(test_id, &again);
            }
        }
        posed.buffers.free(session)?;
        Ok(found)
    }

    fn device_words(&self, gpu: &Gpu) -> String {
        if self.job.emulated { format!("a software {}", gpu.name) } else { gpu.name.to_owned() }
    }

    fn measure(&mut self, solution: &mut Solution) -> Result<(), Ending> {
        let problem = solution.problem;
        let cases: Vec<&Case> = problem.cases(Set::Bench, self.place()).collect();
        let total_tests = cases.len();
        let message = format!("Measuring {total_tests} cases on {}", self.device_words(solution.gpu));
        (self.emit)(Event::Benchmarking { message, total_tests });
        let mut results: Vec<BenchmarkResult> = Vec::new();
        let mut deterministic = !self.flags.iter().any(|flag| flag.starts_with("not-deterministic"));
        for (index, case) in cases.iter().enumerate() {
            let measurement = Measurement {
                question: self.question(problem),
                gpu: solution.gpu,
                emulated: self.job.emulated,
                case,
                launch: self.launch(problem, case)?,
                test_id: index + 1,
                time: seconds(self.job.limits.run_s),
                doubted: solution.shape == Shape::Host,
            };
            let measured = match measurement.run(&mut solution.session) {
                Ok(measured) => measured,
                Err(Unmeasured::Fault(fault)) => return Err(self.ending(fault, solution)),
                Err(Unmeasured::Wrong(wrong)) => {
                    let (result, debug_info) = *wrong;
                    return Err(Box::new(Event::WrongAnswer {
                        debug_info: Box::new(debug_info),
                        passed_tests: index,
                        total_tests,
                        test_results: vec![result],
                    }));
                }
                Err(Unmeasured::Inconsistent(details)) => {
                    return Err(Box::new(Event::Rejected {
                        message: "the solution behaves differently when it is measured".to_owned(),
                        details,
                        rule: "inconsistent-output".to_owned(),
                    }));
                }
            };
            deterministic &= measured.deterministic;
            self.flags.extend(measured.flags);
            (self.emit)(Event::BenchmarkResult { result: Box::new(measured.result.clone()), total_tests });
            results.push(measured.result);
        }
        let times = results.iter().map(|result| result.runtime_ms);
        let avg_gflops = match results.iter().map(|result| result.gflops).collect::<Option<Vec<f64>>>() {
            Some(values) => statistics::geometric_mean(values.into_iter()),
            None => None,
        };
        (self.emit)(Event::Benchmarked {
            avg_runtime_ms: statistics::geometric_mean(times).unwrap_or(0.0),
            avg_gflops,
            total_tests,
            emulated: self.job.emulated,
            deterministic,
            flags: std::mem::take(&mut self.flags),
            test_results: results,
        });
        Ok(())
    }

    fn sample(&mut self, solution: &mut Solution) -> Result<(), Ending> {
        let problem = solution.problem;
        let Some(case) = problem.cases(Set::Sample, self.place()).next() else {
            return Err(error("no sample", &format!("{} has no sample", problem.slug)));
        };
        (self.emit)(Event::Checking { message: "Running the sample".to_owned(), total_tests: 1 });
        let launch = self.launch(problem, case)?;
        let question = self.question(problem);
        let session = &mut solution.session;
        session.allow(seconds(self.job.limits.run_s));
        let posed = Posed::new(session, question, case, launch, 0, 0)
            .and_then(|posed| Ok((posed.answer(session, 0)?, posed)));
        let (answer, mut posed) = self.survived(posed, solution)?;
        let (result, debug_info) = posed.verdict(1, &answer);
        let array = |element: board_problems::Dtype, shape: &[usize], bytes: &[u8]| json!({ "shape": shape, "values": numbers(element, bytes) });
        let mut input = serde_json::Map::new();
        for argument in &posed.prepared.arguments {
            if let Some(bytes) = argument.value.bytes() {
                let (element, shape) = (argument.value.element(), argument.value.shape().to_vec());
                let shown = match argument.value {
                    board_problems::Value::Scalar { .. } => numbers(element, bytes)[0].clone(),
                    _ => array(element, &shape, bytes),
                };
                input.insert(argument.name.clone(), shown);
            }
        }
        let (mut output, mut expected_output) = (serde_json::Map::new(), serde_json::Map::new());
        for (expected, found) in posed.expected().iter().zip(&answer.outputs) {
            let right = expected.values.encode(expected.element);
            output.insert(expected.name.clone(), array(expected.element, &expected.shape, found));
            expected_output.insert(expected.name.clone(), array(expected.element, &expected.shape, &right));
        }
        let remains = solution.session.end();
        let sample = Box::new(SampleResult {
            input: Json::Object(input),
            output: Json::Object(output),
            expected_output: Json::Object(expected_output),
            debug_info,
            stdout: self.tools.shown(&remains.output, MOST_SHOWN),
            stderr: self.tools.shown(&remains.error, MOST_SHOWN),
        });
        (self.emit)(match result.status {
            Verdict::Passed => Event::Passed(sample),
            Verdict::Failed => Event::Failed(sample),
        });
        Ok(())
    }

    fn survived<T>(&self, result: Result<T, Fault>, solution: &mut Solution) -> Result<T, Ending> {
        result.map_err(|fault| self.ending(fault, solution))
    }

    /// Converts a fault to the event that the submitter sees.
    fn ending(&self, fault: Fault, solution: &mut Solution) -> Ending {
        use sandbox::Stop;
        let remains = solution.session.end();
        let said = self.tools.shown(&remains.error, MOST_SHOWN);
        let details = |text: &str| if said.is_empty() { text.to_owned() } else { format!("{text}\n{said}") };
        let runtime = |message: String, details: String| Box::new(Event::RuntimeError { message, details });
        match (fault, remains.stop) {
            (Fault::Time, _) | (_, Some(Stop::Time)) => Box::new(Event::TimeLimitExceeded {
                message: format!("the solution took longer than {} s", self.job.limits.run_s),
                details: said,
            }),
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
                error("the device cannot be reached", &details(&text))
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
                runtime("the solution closed the harness's connection to the judge".to_owned(), said)
            }
            (Fault::Gone, None) => error("the runner process of the judge has ended", &said),
            (Fault::InvalidReply(text), None) => {
                error("the runner process of the judge has failed", &details(&text))
            }
        }
    }
}

fn parse(code: &[u8]) -> Result<Code, Ending> {
    Code::parse(code).map_err(|problem| error("the compiled code cannot be read", &problem.to_string()))
}

/// Converts the first elements of an array to JSON. Numbers that JSON cannot represent become strings.
fn numbers(element: board_problems::Dtype, bytes: &[u8]) -> Json {
    let bytes = &bytes[..bytes.len().min(MOST_ELEMENTS * element.size())];
    if element.is_float() {
        let number = |value: f64| if value.is_finite() { json!(value) } else { json!(value.to_string()) };
        element.decode(bytes).into_iter().map(number).collect()
    } else {
        let number = |value: i128| match i64::try_from(value) {
            Ok(small) if small.unsigned_abs() < 1 << 53 => json!(small),
            _ => json!(value.to_string()),
        };
        element.decode_integers(bytes).into_iter().map(number).collect()
    }
}

pub(crate) fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value.clamp(0.001, 86_400.0)).unwrap_or(Duration::from_secs(60))
}

pub(crate) fn error(error: &str, details: &str) -> Ending {
    Box::new(Event::Error { error: error.to_owned(), message: error.to_owned(), details: details.to_owned() })
}

pub(crate) fn compile_error(message: &str, details: &str) -> Ending {
    Box::new(Event::CompileError { message: message.to_owned(), details: details.to_owned() })
}

/// Converts a compiler error to the event that the submitter sees.
pub(crate) fn ending_of(failure: &CompileError) -> Ending {
    match failure {
        CompileError::Source { message, details } => compile_error(message, details),
        other => {
            let mut text = String::new();
            let mut cause = std::error::Error::source(other);
            while let Some(source) = cause {
                text = format!("{text}{source}\n");
                cause = source.source();
            }
            error(&other.to_string(), &text)
        }
    }
}
