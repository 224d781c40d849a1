//! What is told of a submission, in the order it happens.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// What became of one case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    Passed,
    Failed,
}

/// A case that was checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestResult {
    /// Counted from 1.
    pub test_id: usize,
    pub name: String,
    pub status: Verdict,
    pub runtime_ms: f64,
    pub max_difference: f64,
    /// Why it failed, where that is not a matter of numbers.
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

/// What is wrong with the first failing case.
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

/// What the compiler made of one kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelFacts {
    pub name: String,
    pub vgprs: u32,
    pub agprs: u32,
    pub sgprs: u32,
    pub lds_bytes: u32,
    pub scratch_bytes: u32,
    /// How many waves fit on one SIMD at once.
    pub waves_per_simd: u32,
    pub spilled_vgprs: u32,
    pub spilled_sgprs: u32,
    /// The work-items of a workgroup that this was worked out for.
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

/// A kernel as the device reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsaListing {
    pub kernel: String,
    pub lines: Vec<IsaLine>,
}

/// What bounds a case from below, whatever the kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Roofline {
    pub flops: Option<f64>,
    pub bytes: f64,
    /// Operations for each byte.
    pub intensity: Option<f64>,
    pub peak_flops: f64,
    pub peak_bytes_per_s: f64,
}

/// What a launch executed on a software GPU. Exact, and the same each time for a kernel without races.
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
    /// By lanes, before any cache.
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub bank_conflicts: u64,
}

/// A case that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkResult {
    pub test_id: usize,
    pub name: String,
    /// The median.
    pub runtime_ms: f64,
    pub ci_low_ms: f64,
    pub ci_high_ms: f64,
    pub mean_ms: f64,
    pub min_ms: f64,
    pub p95_ms: f64,
    pub samples_ms: Vec<f64>,
    /// Samples far from the median. They are shown, and not left out of it.
    pub rejected: usize,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gflops: Option<f64>,
    pub gbytes_per_s: f64,
    /// No kernel is faster on this GPU; 0 where that is not known.
    pub floor_ms: f64,
    pub roofline: Roofline,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub counts: Option<Counts>,
    /// Whether the cache was emptied before each sample.
    pub cold_cache: bool,
}

/// What is told of a submission. The service adds who and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Event {
    Compiling {
        message: String,
    },
    Compiled {
        compile_ms: f64,
        /// Whether the result was there already.
        cached: bool,
        kernels: Vec<KernelFacts>,
        warnings: String,
        /// Only where nothing but the compilation was asked for.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        isa: Option<Vec<IsaListing>>,
    },
    /// Kept beside a submission, not streamed.
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
        /// The geometric mean over the cases.
        avg_runtime_ms: f64,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        avg_gflops: Option<f64>,
        total_tests: usize,
        emulated: bool,
        /// Whether equal inputs gave equal bits.
        deterministic: bool,
        /// What people should look at.
        flags: Vec<String>,
    },
    /// The sample came out right.
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
    /// A rule was broken, or a trick was found.
    Rejected {
        message: String,
        details: String,
        rule: String,
    },
    /// The judge itself could not do its work.
    Error {
        error: String,
        message: String,
        details: String,
    },
}

/// What became of the sample. Long arrays are cut.
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
    /// Whether nothing follows.
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
