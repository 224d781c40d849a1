//! Devices, their queue, and estimates of cost and time.

use serde::{Deserialize, Serialize};

use crate::Endpoint;
use crate::named::named;

named! {
    /// Whether a device accepts work.
    pub enum DeviceState {
        /// It accepts submissions and runs them.
        Ready = "ready",
        /// It finishes what it runs and starts nothing.
        Draining = "draining",
        /// It cannot be reached or rented.
        Offline = "offline",
        /// It is being started.
        Provisioning = "provisioning",
    }
}

/// A device of the board.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub struct DeviceInfo {
    /// Name that submissions use.
    pub gpu_type: String,
    /// Name for people.
    pub name: String,
    /// embedded, worker or dstack.
    pub place: String,
    /// Whether it is a software GPU.
    pub emulated: bool,
    /// Price in dollars per hour.
    pub price_per_hour: f64,
    /// Number of waiting submissions.
    pub queue_length: usize,
    /// Number of running submissions.
    pub running: usize,
    /// Number of submissions that run at the same time.
    pub slots: usize,
    /// Number of GPUs, which problems for several GPUs need.
    pub gpus: u32,
    /// Expected time until a new submission starts.
    pub expected_wait_s: f64,
    /// Whether it accepts work.
    pub state: DeviceState,
    /// Whether a submission would start immediately.
    pub warm: bool,
}

/// All devices.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Devices {
    /// The devices.
    pub devices: Vec<DeviceInfo>,
}

/// A request for an estimate.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
pub struct EstimateBody {
    /// The slug of a problem. Its earlier submissions make the estimate better.
    #[serde(alias = "problemSlug")]
    pub problem: Option<String>,
    /// A device of `/api/devices`.
    #[serde(alias = "gpuType")]
    pub gpu_type: String,
    /// checker, benchmark, full (the default), sample, sandbox, compile, custom, check or profile.
    pub endpoint: Option<String>,
}

/// Estimated cost and time of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Estimate {
    /// Estimated cost, from the duration of recent similar submissions.
    pub cost_usd: f64,
    /// Seconds on the device.
    pub seconds: f64,
    /// Whether the device is ready now.
    pub warm: bool,
    /// Seconds until it starts: submissions ahead of it, and the start of the device.
    pub queue_s: f64,
}

/// A waiting or running submission.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub struct QueueEntry {
    /// Id of the submission.
    pub id: String,
    /// Name of the author.
    pub user: String,
    /// Slug of the problem.
    pub problem: String,
    /// Device.
    pub gpu: String,
    /// What was requested.
    pub endpoint: Endpoint,
    /// Queue position; 0 for a running submission.
    pub position: usize,
    /// Expected time until it starts.
    pub expected_wait_s: f64,
    /// Milliseconds since the Unix epoch.
    pub queued_at: i64,
    /// Whether it runs.
    pub running: bool,
}

/// Running submissions, then waiting ones in the order they will start.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Queue {
    /// The submissions.
    pub entries: Vec<QueueEntry>,
    /// Number of running submissions.
    pub running: usize,
    /// Number of waiting submissions.
    pub waiting: usize,
}
