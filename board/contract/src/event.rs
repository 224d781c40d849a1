//! Events of a submission, in the order in which they happen. The judge reports most of them; the server adds those of the queue.

use serde::{Deserialize, Serialize};

use crate::{
    AccessReport, BenchmarkResult, DebugInfo, IsaListing, KernelFacts, ProfileReport, SampleResult, Status,
    TestResult,
};

/// An event of a submission. Its JSON has the [`Status`] in the field `status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "status", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Event {
    /// The submission waits for a device.
    InQueue {
        /// Description of the step.
        message: String,
        /// Queue position, counted from 1.
        position: usize,
        /// Expected time until it starts.
        expected_wait_s: f64,
    },
    /// The server has a warning about the request.
    Warning {
        /// The warning.
        message: String,
    },
    /// The device is being made ready.
    Provisioning {
        /// Description of the step.
        message: String,
    },
    /// The compiler runs.
    Compiling {
        /// Description of the step.
        message: String,
    },
    /// The source compiles.
    Compiled {
        /// Duration of the compilation.
        compile_ms: f64,
        /// Whether the result came from the cache.
        #[serde(default)]
        cached: bool,
        /// Properties of the kernels.
        kernels: Vec<KernelFacts>,
        /// Warnings of the compiler.
        #[serde(default)]
        warnings: String,
        /// Disassembly; only for the `compile` endpoint.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        isa: Option<Vec<IsaListing>>,
    },
    /// The disassembly. It is stored with the submission, not streamed.
    Isa {
        /// All kernels and functions.
        kernels: Vec<IsaListing>,
    },
    /// The check begins.
    Checking {
        /// Description of the step.
        message: String,
        /// Number of cases.
        total_tests: usize,
    },
    /// A case was checked.
    TestResult {
        /// Its result.
        result: TestResult,
        /// Number of cases.
        total_tests: usize,
    },
    /// The output of a case is wrong.
    WrongAnswer {
        /// The first failing case.
        debug_info: Box<DebugInfo>,
        /// Number of correct cases.
        passed_tests: usize,
        /// Number of cases.
        total_tests: usize,
        /// Results of the cases.
        #[serde(default)]
        test_results: Vec<TestResult>,
    },
    /// All cases are correct.
    Checked {
        /// Number of correct cases.
        passed_tests: usize,
        /// Number of cases.
        total_tests: usize,
        /// Results of the cases.
        #[serde(default)]
        test_results: Vec<TestResult>,
        /// Whether equal inputs gave bit-identical outputs. Sums in any order, as with atomics, are correct but not deterministic.
        #[serde(default = "yes")]
        deterministic: bool,
        /// Suspicious observations for human review. They exclude a submission from leaderboards.
        #[serde(default)]
        flags: Vec<String>,
    },
    /// The measurement begins.
    Benchmarking {
        /// Description of the step.
        message: String,
        /// Number of cases.
        total_tests: usize,
    },
    /// A case was measured.
    BenchmarkResult {
        /// Its result.
        result: Box<BenchmarkResult>,
        /// Number of cases.
        total_tests: usize,
    },
    /// All cases were measured.
    Benchmarked {
        /// Results of the cases.
        #[serde(default)]
        test_results: Vec<BenchmarkResult>,
        /// Geometric mean of the run times.
        avg_runtime_ms: f64,
        /// Lower end of the 95 % confidence interval of the mean.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        ci_low_ms: Option<f64>,
        /// Upper end of the interval.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        ci_high_ms: Option<f64>,
        /// Geometric mean of the operations per second, if they are known for all cases.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        avg_gflops: Option<f64>,
        /// Number of cases.
        total_tests: usize,
        /// Whether the device is a software GPU.
        #[serde(default)]
        emulated: bool,
        /// Name of the device, as its worker reports it: `NVIDIA H200 as gfx942`.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        device: Option<String>,
        /// Whether equal inputs gave bit-identical outputs. Sums in any order, as with atomics, are correct but not deterministic.
        #[serde(default)]
        deterministic: bool,
        /// What the solution printed.
        #[serde(default)]
        output: String,
        /// Suspicious observations for human review. They exclude a submission from leaderboards.
        #[serde(default)]
        flags: Vec<String>,
    },
    /// The result of the sample is correct.
    Passed(Box<SampleResult>),
    /// The result of the sample is wrong.
    Failed(Box<SampleResult>),
    /// The check of memory accesses found nothing.
    Clean {
        /// What was checked.
        report: Box<AccessReport>,
    },
    /// The check of memory accesses found problems.
    Findings {
        /// The findings.
        report: Box<AccessReport>,
    },
    /// The profile is complete.
    Profiled {
        /// The profile.
        profile: Box<ProfileReport>,
    },
    /// A program in the sandbox printed a line.
    SandboxOutput {
        /// stdout or stderr.
        stream: String,
        /// The line.
        line: String,
    },
    /// A program in the sandbox succeeded.
    SandboxSuccess {
        /// Standard output.
        stdout: String,
        /// Standard error.
        stderr: String,
        /// Exit status.
        return_code: i32,
    },
    /// A program in the sandbox failed.
    SandboxError {
        /// How it failed.
        message: String,
        /// Standard output.
        stdout: String,
        /// Standard error.
        stderr: String,
        /// Exit status; -1 if it has none.
        return_code: i32,
    },
    /// A program in the sandbox took too long.
    SandboxTimeout {
        /// The limit.
        message: String,
        /// Standard output.
        stdout: String,
        /// Standard error.
        stderr: String,
    },
    /// The source does not compile.
    CompileError {
        /// What is wrong.
        message: String,
        /// Messages of the compiler.
        details: String,
    },
    /// The solution failed while it ran.
    RuntimeError {
        /// How it failed.
        message: String,
        /// Output of the solution.
        details: String,
    },
    /// The solution took too long.
    TimeLimitExceeded {
        /// The limit.
        message: String,
        /// Output of the solution.
        details: String,
    },
    /// The solution needs too much memory.
    MemoryLimitExceeded {
        /// The limit.
        message: String,
        /// Output of the solution.
        details: String,
    },
    /// A rule was broken, or an exploit was detected.
    Rejected {
        /// What is wrong.
        message: String,
        /// Where, or how it was detected.
        details: String,
        /// Name of the rule.
        rule: String,
    },
    /// The submission could not be judged.
    Error {
        /// Kind of the error.
        error: String,
        /// Description of the error.
        message: String,
        /// Its causes.
        details: String,
    },
    /// The submission was cancelled.
    Cancelled {
        /// Description of the end.
        message: String,
    },
}

/// Figures of an event that are stored with the submission when it ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Number of correct cases.
    pub passed_tests: Option<usize>,
    /// Number of cases.
    pub total_tests: Option<usize>,
    /// Geometric mean of the run times.
    pub avg_runtime_ms: Option<f64>,
    /// Lower end of the 95 % confidence interval of the mean.
    pub ci_low_ms: Option<f64>,
    /// Upper end of the interval.
    pub ci_high_ms: Option<f64>,
    /// Geometric mean of the operations per second.
    pub avg_gflops: Option<f64>,
    /// Instructions of all measured cases together; software GPUs only.
    pub instructions: Option<f64>,
    /// Whether equal inputs gave bit-identical outputs.
    pub deterministic: Option<bool>,
    /// Suspicious observations for human review.
    pub flags: Vec<String>,
}

/// Value of `deterministic` in records from before checks had it.
fn yes() -> bool {
    true
}

impl Event {
    /// Creates an error event.
    pub fn error(error: impl Into<String>, message: impl Into<String>, details: impl Into<String>) -> Event {
        Event::Error { error: error.into(), message: message.into(), details: details.into() }
    }

    /// Returns the status.
    pub fn status(&self) -> Status {
        match self {
            Event::InQueue { .. } => Status::InQueue,
            Event::Warning { .. } => Status::Warning,
            Event::Provisioning { .. } => Status::Provisioning,
            Event::Compiling { .. } => Status::Compiling,
            Event::Compiled { .. } => Status::Compiled,
            Event::Isa { .. } => Status::Isa,
            Event::Checking { .. } => Status::Checking,
            Event::TestResult { .. } => Status::TestResult,
            Event::WrongAnswer { .. } => Status::WrongAnswer,
            Event::Checked { .. } => Status::Checked,
            Event::Benchmarking { .. } => Status::Benchmarking,
            Event::BenchmarkResult { .. } => Status::BenchmarkResult,
            Event::Benchmarked { .. } => Status::Benchmarked,
            Event::Passed(_) => Status::Passed,
            Event::Failed(_) => Status::Failed,
            Event::Clean { .. } => Status::Clean,
            Event::Findings { .. } => Status::Findings,
            Event::Profiled { .. } => Status::Profiled,
            Event::SandboxOutput { .. } => Status::SandboxOutput,
            Event::SandboxSuccess { .. } => Status::SandboxSuccess,
            Event::SandboxError { .. } => Status::SandboxError,
            Event::SandboxTimeout { .. } => Status::SandboxTimeout,
            Event::CompileError { .. } => Status::CompileError,
            Event::RuntimeError { .. } => Status::RuntimeError,
            Event::TimeLimitExceeded { .. } => Status::TimeLimitExceeded,
            Event::MemoryLimitExceeded { .. } => Status::MemoryLimitExceeded,
            Event::Rejected { .. } => Status::Rejected,
            Event::Error { .. } => Status::Error,
            Event::Cancelled { .. } => Status::Cancelled,
        }
    }

    /// Returns the figures of the event.
    pub fn outcome(&self) -> Outcome {
        match self {
            Event::WrongAnswer { passed_tests, total_tests, .. } => Outcome {
                passed_tests: Some(*passed_tests),
                total_tests: Some(*total_tests),
                ..Outcome::default()
            },
            Event::Checked { passed_tests, total_tests, deterministic, flags, .. } => Outcome {
                passed_tests: Some(*passed_tests),
                total_tests: Some(*total_tests),
                deterministic: Some(*deterministic),
                flags: flags.clone(),
                ..Outcome::default()
            },
            Event::Benchmarked {
                test_results,
                avg_runtime_ms,
                ci_low_ms,
                ci_high_ms,
                avg_gflops,
                total_tests,
                deterministic,
                flags,
                ..
            } => {
                let counted = test_results.iter().filter_map(|result| result.counts);
                let instructions: f64 = counted.map(|counters| counters.instructions as f64).sum();
                Outcome {
                    passed_tests: None,
                    total_tests: Some(*total_tests),
                    avg_runtime_ms: Some(*avg_runtime_ms),
                    ci_low_ms: *ci_low_ms,
                    ci_high_ms: *ci_high_ms,
                    avg_gflops: *avg_gflops,
                    instructions: (instructions > 0.0).then_some(instructions),
                    deterministic: Some(*deterministic),
                    flags: flags.clone(),
                }
            }
            _ => Outcome::default(),
        }
    }
}

/// Time and cost of a submission. Part of its last event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Bill {
    /// Seconds on the device.
    #[schema(required = false, nullable)]
    pub execution_time: f64,
    /// Cost of these seconds.
    #[schema(required = false, nullable)]
    pub cost_usd: f64,
}

impl Bill {
    /// Rounds the time to milliseconds and the cost to millionths of a dollar.
    pub fn new(execution_time: f64, cost_usd: f64) -> Bill {
        let round = |value: f64, parts: f64| (value * parts).round() / parts;
        Bill { execution_time: round(execution_time, 1e3), cost_usd: round(cost_usd, 1e6) }
    }
}

/// The check that a submission had passed before it ended otherwise. Part of its last event, unless that has its own figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PassedCheck {
    /// Number of correct cases of the check.
    #[schema(required = false, nullable)]
    pub passed_tests: usize,
    /// Number of cases of the check.
    #[schema(required = false, nullable)]
    pub checked_tests: usize,
}

/// An event as the server stores and sends it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EventRecord {
    /// The event.
    #[serde(flatten)]
    pub event: Event,
    /// Number of the event, counted from 1. Changes of the queue position have none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<i64>,
    /// The submission.
    pub submission_id: String,
    /// Milliseconds since the Unix epoch.
    pub timestamp: i64,
    /// Time and cost; only the last event has them.
    #[serde(flatten)]
    #[schema(value_type = Bill)]
    pub bill: Option<Bill>,
    /// An earlier check; only the last event has it.
    #[serde(flatten)]
    #[schema(value_type = PassedCheck)]
    pub check: Option<PassedCheck>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(event: Event) -> EventRecord {
        EventRecord {
            event,
            id: Some(7),
            submission_id: "mine".to_owned(),
            timestamp: 1000,
            bill: None,
            check: None,
        }
    }

    fn benchmarked() -> Event {
        Event::Benchmarked {
            test_results: vec![BenchmarkResult::default()],
            avg_runtime_ms: 1.5,
            ci_low_ms: Some(1.25),
            ci_high_ms: None,
            avg_gflops: None,
            total_tests: 1,
            emulated: true,
            device: None,
            deterministic: true,
            output: String::new(),
            flags: vec!["slow".to_owned()],
        }
    }

    #[test]
    fn what_the_server_says_of_an_event_is_not_the_judges_to_change() {
        let line = r#"{"status":"CHECKING","message":"","id":99,"submission_id":"x","total_tests":4}"#;
        let event: Event = serde_json::from_str(line).unwrap();
        assert_eq!(
            serde_json::to_string(&record(event)).unwrap(),
            r#"{"status":"CHECKING","message":"","total_tests":4,"id":7,"submission_id":"mine","timestamp":1000}"#
        );
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let wrong = Event::WrongAnswer {
            debug_info: Box::default(),
            passed_tests: 1,
            total_tests: 2,
            test_results: Vec::new(),
        };
        let mut ended = record(benchmarked());
        ended.bill = Some(Bill::new(1.0, 0.0));
        ended.check = Some(PassedCheck { passed_tests: 2, checked_tests: 2 });
        let mut refused = record(wrong);
        refused.bill = Some(Bill::new(1.0, 0.5));
        for written in [ended, refused, record(Event::Compiling { message: "x".to_owned() })] {
            let text = serde_json::to_string(&written).unwrap();
            assert_eq!(text.matches("\"passed_tests\"").count(), usize::from(written.bill.is_some()));
            assert_eq!(serde_json::from_str::<EventRecord>(&text).unwrap(), written, "{text}");
        }
    }

    #[test]
    fn the_status_of_an_event_is_its_tag() {
        let events = [
            Event::Compiling { message: String::new() },
            Event::error("x", "y", "z"),
            Event::Isa { kernels: Vec::new() },
            benchmarked(),
        ];
        for event in events {
            assert_eq!(serde_json::to_value(&event).unwrap()["status"], event.status().name());
        }
    }

    #[test]
    fn lines_that_are_no_events_are_refused() {
        for line in
            ["", "hello", "[]", "{}", r#"{"status":3}"#, r#"{"status":"a\nid: 4"}"#, r#"{"status":""}"#]
        {
            assert!(serde_json::from_str::<Event>(line).is_err(), "{line}");
        }
    }

    #[test]
    fn the_price_of_the_first_design_s_example_comes_out() {
        let bill = Bill::new(390.87, 1.99 * 390.87 / 3600.0);
        assert_eq!((bill.execution_time, bill.cost_usd), (390.87, 0.216064));
        let outcome = benchmarked().outcome();
        assert_eq!((outcome.avg_runtime_ms, outcome.ci_low_ms), (Some(1.5), Some(1.25)));
        assert_eq!((outcome.deterministic, outcome.flags), (Some(true), vec!["slow".to_owned()]));
    }
}
