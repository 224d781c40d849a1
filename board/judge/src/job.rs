//! What is to be judged, and within which limits.

use board_problems::Dtype;
use serde::{Deserialize, Serialize};

/// How far a submission is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Endpoint {
    /// Is it right?
    Checker,
    /// How fast is it? Right it has to be too.
    Benchmark,
    /// Both.
    Full,
    /// The one small case that is shown.
    Sample,
    /// A whole program with `main`, judged by nobody.
    Sandbox,
    /// Does it compile, and to what?
    Compile,
}

/// How much a submission gets. Seconds may be fractions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    pub compile_s: f64,
    /// One case: a check, or all samples of a measurement.
    pub run_s: f64,
    /// Everything after the compilation.
    pub whole_s: f64,
    /// Bytes of host memory of the process that runs the solution.
    pub memory: u64,
    /// Bytes that are kept of what it prints.
    pub output: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { compile_s: 60.0, run_s: 30.0, whole_s: 180.0, memory: 4 << 30, output: 64 << 10 }
    }
}

/// One submission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub id: String,
    /// The problem's slug; of no matter to the sandbox.
    #[serde(default)]
    pub problem: String,
    pub dtype: Dtype,
    pub source: String,
    pub endpoint: Endpoint,
    /// `MI300X` and the like.
    pub gpu: String,
    /// Where the device is: `host:port`, `tls://host:port` or `unix:/path`.
    pub worker: String,
    #[serde(default)]
    pub token: Option<String>,
    /// The device is software: counts are exact, times mean little.
    #[serde(default)]
    pub emulated: bool,
    /// What hidden inputs follow from. Secret until the submission is judged.
    pub seed: u64,
    #[serde(default)]
    pub limits: Limits,
}
