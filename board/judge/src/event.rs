//! Events that the judge reports about a submission, in order.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// Verdict on one case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    Passed,
    Failed,
}

/// Result of checking a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestResult {
    /// Counted from 1.
    pub test_id: usize,
    pub name: String,
    pub status: Verdict,
    pub runtime_ms: f64,
    pub max_difference: f64,
    /// Why the case failed, if not because of wrong numbers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
}

/// One wrong element.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    pub expected: String,
    pub actual: String,
    pub diff: String,
}

/// Debug information on the first failing case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DebugInfo {
    pub case: String,
    pub output: String,
    pub shape: Vec<usize>,
    pub max_difference: f64,
    pub mean_difference: f64,
    pub mismatches: u64,
    pub total_elements: u64,
    pub sample_differences: BTreeMap<String, Difference>,
    pub message: String,
}

/// Properties of a compiled kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelFacts {
    pub name: String,
    pub vgprs: u32,
    pub agprs: u32,
    pub sgprs: u32,
    pub lds_bytes: u32,
    pub scratch_bytes: u32,
    /// Occupancy: wavefronts that fit on one SIMD at once.
    pub waves_per_simd: u32,
    pub spilled_vgprs: u32,
    pub spilled_sgprs: u32,
    /// Workgroup size in work-items for which the occupancy was computed.
    pub workgroup: u32,
}

/// A line of disassembly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsaLine {
    pub address: u64,
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub source_line: Option<u32>,
}

/// Disassembly of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsaListing {
    pub kernel: String,
    pub lines: Vec<IsaLine>,
}

/// Roofline of a case: lower bounds of its run time that hold for every kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Roofline {
    pub flops: Option<f64>,
    pub bytes: f64,
    /// Arithmetic intensity in operations per byte.
    pub intensity: Option<f64>,
    pub peak_flops: f64,
    pub peak_bytes_per_s: f64,
}

/// Counters of a launch on a software GPU. They are exact, and deterministic for a kernel without races.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub launches: u64,
    pub waves: u64,
    pub instructions: u64,
    pub valu: u64,
    pub salu: u64,
    pub mfma: u64,
    pub vmem: u64,
    pub smem: u64,
    pub lds: u64,
    pub branch: u64,
    pub other: u64,
    /// Bytes accessed by lanes, before any cache.
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub bank_conflicts: u64,
}

/// Result of measuring a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkResult {
    pub test_id: usize,
    pub name: String,
    /// Median run time.
    pub runtime_ms: f64,
    pub ci_low_ms: f64,
    pub ci_high_ms: f64,
    pub mean_ms: f64,
    pub min_ms: f64,
    pub p95_ms: f64,
    pub samples_ms: Vec<f64>,
    /// Number of outliers. They are reported but not excluded from the statistics.
    pub rejected: usize,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gflops: Option<f64>,
    pub gbytes_per_s: f64,
    /// Lower bound of the run time on this GPU for any kernel; 0 if unknown.
    pub floor_ms: f64,
    pub roofline: Roofline,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub counts: Option<Counts>,
    /// Whether the cache was flushed before each sample.
    pub cold_cache: bool,
}

/// An event of a submission. The server adds the submission's id and the time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Event {
    Compiling {
        message: String,
    },
    Compiled {
        compile_ms: f64,
        /// Whether the result came from the cache.
        cached: bool,
        kernels: Vec<KernelFacts>,
        warnings: String,
        /// Disassembly; only for the `compile` endpoint.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        isa: Option<Vec<IsaListing>>,
    },
    /// Stored with the submission, not streamed.
    Isa {
        kernels: Vec<IsaListing>,
    },
    Checking {
        message: String,
        total_tests: usize,
    },
    TestResult {
        result: TestResult,
        total_tests: usize,
    },
    WrongAnswer {
        debug_info: Box<DebugInfo>,
        passed_tests: usize,
        total_tests: usize,
        test_results: Vec<TestResult>,
    },
    Checked {
        passed_tests: usize,
        total_tests: usize,
        test_results: Vec<TestResult>,
        flags: Vec<String>,
    },
    Benchmarking {
        message: String,
        total_tests: usize,
    },
    BenchmarkResult {
        result: Box<BenchmarkResult>,
        total_tests: usize,
    },
    Benchmarked {
        test_results: Vec<BenchmarkResult>,
        /// Geometric mean over the cases.
        avg_runtime_ms: f64,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        avg_gflops: Option<f64>,
        total_tests: usize,
        emulated: bool,
        /// Whether equal inputs gave bit-identical outputs.
        deterministic: bool,
        /// Suspicious observations for human review.
        flags: Vec<String>,
    },
    /// The result of the sample is correct.
    Passed(Box<SampleResult>),
    Failed(Box<SampleResult>),
    SandboxOutput {
        stream: String,
        line: String,
    },
    SandboxSuccess {
        stdout: String,
        stderr: String,
        return_code: i32,
    },
    SandboxError {
        message: String,
        stdout: String,
        stderr: String,
        return_code: i32,
    },
    SandboxTimeout {
        message: String,
        stdout: String,
        stderr: String,
    },
    CompileError {
        message: String,
        details: String,
    },
    RuntimeError {
        message: String,
        details: String,
    },
    TimeLimitExceeded {
        message: String,
        details: String,
    },
    MemoryLimitExceeded {
        message: String,
        details: String,
    },
    /// A rule was broken, or an exploit was detected.
    Rejected {
        message: String,
        details: String,
        rule: String,
    },
    /// The judge itself failed.
    Error {
        error: String,
        message: String,
        details: String,
    },
}

/// Result of the sample. Long arrays are truncated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampleResult {
    pub input: Json,
    pub output: Json,
    pub expected_output: Json,
    pub debug_info: Option<DebugInfo>,
    pub stdout: String,
    pub stderr: String,
}

impl Event {
    /// Returns whether this is the last event of a submission.
    pub fn is_last(&self, endpoint: crate::Endpoint) -> bool {
        use crate::Endpoint;
        match self {
            Event::Compiled { .. } => endpoint == Endpoint::Compile,
            Event::Checked { .. } => !matches!(endpoint, Endpoint::Full | Endpoint::Benchmark),
            Event::Compiling { .. }
            | Event::Isa { .. }
            | Event::Checking { .. }
            | Event::TestResult { .. }
            | Event::Benchmarking { .. }
            | Event::BenchmarkResult { .. }
            | Event::SandboxOutput { .. } => false,
            _ => true,
        }
    }
}
