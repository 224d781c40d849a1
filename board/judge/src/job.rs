//! A job for the judge: the submission, its device and its limits.

use board_contract::{CustomInput, Endpoint};
use board_problems::Dtype;
use serde::{Deserialize, Serialize};

/// Limits of a submission. Seconds may be fractional.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Time limit of the compilation.
    pub compile_s: f64,
    /// Time that the solution may take in one case of a check. In a measurement it may take as much before the samples, for all of them,
    /// and after them. What the judge itself computes, reads and writes does not count.
    pub run_s: f64,
    /// Time limit of everything after the compilation.
    pub whole_s: f64,
    /// Host memory limit in bytes of the process that runs the solution.
    pub memory: u64,
    /// Most bytes of its output that are kept.
    pub output: u64,
    /// Operations of a case above which the reference does not compute whole outputs of a measurement, but some rows of every call.
    pub reference_flops: f64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            compile_s: 60.0,
            run_s: 30.0,
            whole_s: 180.0,
            memory: 4 << 30,
            output: 64 << 10,
            reference_flops: 2e10,
        }
    }
}

/// Access to a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Address of the worker: `host:port`, `tls://host:port` or `unix:/path`.
    pub worker: String,
    /// Token of the worker, if it requires one. It must permit administration, because the judge observes sessions.
    #[serde(default)]
    pub token: Option<String>,
}

/// What a judge prints to request a device. It then reads a [`Grant`] as JSON from the next line of its standard input.
pub const DEVICE_REQUEST: &str = r#"{"request":"device"}"#;

/// One submission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Id of the submission.
    pub id: String,
    /// The problem's slug; ignored by the `sandbox` endpoint.
    #[serde(default)]
    pub problem: String,
    /// Element type.
    pub dtype: Dtype,
    /// The source.
    pub source: String,
    /// What is done with it.
    pub endpoint: Endpoint,
    /// GPU model, such as `MI300X`.
    pub gpu: String,
    /// The device. Without it the judge requests one after the compilation, so that no GPU is taken while clang runs.
    #[serde(default)]
    pub device: Option<Grant>,
    /// Whether the device is a software GPU, whose counters are exact and whose times mean little.
    #[serde(default)]
    pub emulated: bool,
    /// Seed of the hidden inputs. Secret until the submission is judged.
    pub seed: u64,
    /// Inputs for the endpoint `custom`.
    #[serde(default)]
    pub custom: Option<CustomInput>,
    /// Limits.
    #[serde(default)]
    pub limits: Limits,
}
