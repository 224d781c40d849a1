//! Results of compiling, checking and measuring a submission.
//!
//! Structures with a default also read records that were stored before a field existed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::named::named;
use crate::{Counters, DebugInfo};

named! {
    /// Verdict on one case.
    pub enum Verdict {
        /// The outputs are correct.
        Passed = "PASSED",
        /// The outputs are wrong, or something was written that must not be.
        Failed = "FAILED",
    }
}

/// Result of checking a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TestResult {
    /// Number of the case, counted from 1.
    pub test_id: usize,
    /// Name of the case.
    pub name: String,
    /// Verdict on the case.
    pub status: Verdict,
    /// Run time of the call.
    pub runtime_ms: f64,
    /// Largest difference between an expected and an actual element.
    pub max_difference: f64,
    /// Why the case failed, if not because of wrong numbers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
}

/// Properties of a compiled kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct KernelFacts {
    /// Name of the kernel.
    pub name: String,
    /// Vector registers.
    pub vgprs: u32,
    /// Accumulation registers.
    pub agprs: u32,
    /// Scalar registers.
    pub sgprs: u32,
    /// Static local memory.
    pub lds_bytes: u32,
    /// Private memory of a lane.
    pub scratch_bytes: u32,
    /// Occupancy: workgroups that fit on one compute unit at once.
    pub workgroups_per_cu: u32,
    /// Wavefronts of these workgroups on each SIMD of the compute unit, on average; 8 at most.
    pub waves_per_simd: f64,
    /// Vector registers spilled to private memory.
    pub spilled_vgprs: u32,
    /// Scalar registers spilled.
    pub spilled_sgprs: u32,
    /// Workgroup size in work-items for which the occupancy was computed: that of the launch.
    pub workgroup: u32,
    /// Dynamic local memory of a workgroup for which the occupancy was computed: that of the launch.
    pub dynamic_lds_bytes: u32,
}

/// A line of disassembly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct IsaLine {
    /// Offset in the kernel.
    pub address: u64,
    /// The instruction.
    pub text: String,
    /// Source line that the instruction was compiled from.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub source_line: Option<u32>,
}

/// Disassembly of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct IsaListing {
    /// Name of the kernel or function.
    pub kernel: String,
    /// Its instructions.
    pub lines: Vec<IsaLine>,
}

/// Disassembly of a submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Isa {
    /// All kernels and functions.
    pub kernels: Vec<IsaListing>,
}

/// Roofline of a case: lower bounds of its run time that hold for every kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct Roofline {
    /// Operations of the case, if they are known.
    #[schema(required)]
    pub flops: Option<f64>,
    /// Bytes that any kernel has to read and write.
    pub bytes: f64,
    /// Arithmetic intensity in operations per byte.
    #[schema(required)]
    pub intensity: Option<f64>,
    /// Peak operations per second of the GPU, on the fastest units with which a solution can be precise enough.
    pub peak_flops: f64,
    /// These units: `float32`, `float16 matrix`, `xf32 matrix`. Empty in records from before they were named.
    pub peak_unit: String,
    /// Peak memory bandwidth of the GPU.
    pub peak_bytes_per_s: f64,
}

/// Result of measuring a case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct BenchmarkResult {
    /// Number of the case, counted from 1.
    pub test_id: usize,
    /// Name of the case.
    pub name: String,
    /// Median run time; on a software GPU the performance model's estimate for the real one.
    pub runtime_ms: f64,
    /// Lower end of the 95 % confidence interval of the median.
    pub ci_low_ms: f64,
    /// Upper end of the interval.
    pub ci_high_ms: f64,
    /// Mean run time.
    pub mean_ms: f64,
    /// Shortest run time.
    pub min_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    /// All run times, in order.
    pub samples_ms: Vec<f64>,
    /// Number of outliers. They are reported but not excluded from the statistics.
    pub rejected: usize,
    /// Operations per second, if the operations are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gflops: Option<f64>,
    /// Bytes per second.
    pub gbytes_per_s: f64,
    /// Lower bound of the run time on this GPU for any kernel; 0 if unknown.
    pub floor_ms: f64,
    /// Where the lower bound comes from.
    pub roofline: Roofline,
    /// Counters of one launch; software GPUs only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counters>,
    /// Whether the times are the performance model's estimate.
    #[serde(default)]
    pub estimated: bool,
    /// The resource that limits the slowest kernel, by the performance model.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limited_by: Option<String>,
    /// Whether the cache was flushed before each sample.
    pub cold_cache: bool,
}

/// A number of a sample. Numbers that JSON cannot represent are strings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum SampleNumber {
    /// An integer that a double represents exactly.
    Integer(i64),
    /// A finite number.
    Real(f64),
    /// An infinity, NaN, or a large integer.
    Text(String),
}

/// An array of a sample. Long arrays are truncated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SampleArray {
    /// Extents of the whole array.
    pub shape: Vec<usize>,
    /// The first elements.
    pub values: Vec<SampleNumber>,
}

/// An argument of a sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum SampleValue {
    /// An array.
    Array(SampleArray),
    /// A scalar.
    Scalar(SampleNumber),
}

/// Arguments of a sample, by name.
pub type SampleValues = BTreeMap<String, SampleValue>;

/// Result of the sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SampleResult {
    /// Inputs.
    pub input: BTreeMap<String, SampleValue>,
    /// Outputs of the solution.
    pub output: BTreeMap<String, SampleValue>,
    /// Outputs of the reference.
    pub expected_output: BTreeMap<String, SampleValue>,
    /// What is wrong, if anything is.
    #[schema(required)]
    pub debug_info: Option<DebugInfo>,
    /// Standard output of the solution.
    pub stdout: String,
    /// Standard error of the solution.
    pub stderr: String,
}
