//! dstack's data types: run specifications, offers, run status and termination reasons.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::config::{DstackConfig, WorkerBackend};

/// Port of the worker inside its container.
pub const WORKER_PORT: u16 = 18515;
/// Port of dstack's SSH server in a container.
const CONTAINER_SSH: u16 = 10022;
/// Seconds that a task waits for its program to be uploaded.
const PROGRAM_WAIT: u32 = 600;

/// Specification of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunSpec {
    pub run_name: String,
    pub configuration: Value,
    pub ssh_key_pub: String,
}

/// Identity of a run.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    pub name: &'a str,
    /// Tag of the board.
    pub tag: &'a str,
    /// Token of its worker.
    pub token: &'a str,
    pub public_key: &'a str,
}

impl RunSpec {
    /// Specifies a task that runs a worker with one GPU. `most` is the highest price per hour.
    pub fn worker(config: &DstackConfig, gpu: &str, identity: Identity<'_>, most: Option<f64>) -> RunSpec {
        let mut configuration = json!({
            "type": "task",
            "name": identity.name,
            "image": config.image,
            // With both set, dstack does not query the image registry for every plan.
            "user": "root",
            "resources": {
                "gpu": { "vendor": "amd", "name": [gpu], "count": 1 },
                "cpu": "x86:1..", "memory": "1GB..", "disk": "1GB..",
            },
            "commands": commands(config, gpu, identity.name),
            "env": { "REMORA_TOKEN": identity.token, "REMORA_LOG": "info" },
            "tags": { "remora-board": identity.tag },
            // A machine rented for the run is released this long after it ends, unless the fleet is configured otherwise.
            "idle_duration": config.instance_idle.as_secs(),
            "max_duration": config.longest.as_secs(),
            "stop_duration": 10,
            "spot_policy": if config.spot { "auto" } else { "on-demand" },
        });
        if !config.fleets.is_empty() {
            configuration["fleets"] = json!(config.fleets);
        }
        if let Some(most) = most.filter(|most| *most > 0.0) {
            configuration["max_price"] = json!(most);
        }
        RunSpec {
            run_name: identity.name.to_owned(),
            configuration,
            ssh_key_pub: identity.public_key.to_owned(),
        }
    }
}

/// Returns the commands of the task. They contain no data from submissions.
fn commands(config: &DstackConfig, gpu: &str, name: &str) -> Vec<String> {
    let mut worker = match config.backend {
        WorkerBackend::Hip => "--backend hip".to_owned(),
        WorkerBackend::Emulator => format!("--backend emulator --device {}", gpu.to_lowercase()),
    };
    // An idle worker exits even if the board is gone, which ends its run and releases the machine.
    let idle = config.worker_idle().as_secs();
    worker.push_str(&format!(" --listen 127.0.0.1:{WORKER_PORT} --exit-when-idle {idle}"));
    match &config.program {
        Some(program) => vec![format!("exec {program} worker {worker}")],
        None => {
            let program = sent_program(name);
            // One command: dstack joins several with `&&`.
            vec![format!(
                "waited=0; until [ -x {program} ]; do [ $waited -lt {PROGRAM_WAIT} ] || exit 90; \
                 waited=$((waited + 1)); sleep 1; done; exec {program} worker {worker}"
            )]
        }
    }
}

/// Returns the path in the container to which the board uploads the worker's program.
pub fn sent_program(name: &str) -> String {
    format!("/tmp/{name}/remora")
}

/// An offer of a machine.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Offer {
    pub backend: String,
    #[serde(default)]
    pub region: String,
    #[serde(default)]
    pub price: f64,
    pub availability: String,
}

impl Offer {
    /// Returns whether the offer is available, as far as dstack knows.
    pub fn is_available(&self) -> bool {
        matches!(self.availability.as_str(), "unknown" | "available" | "idle")
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct Plan {
    #[serde(default)]
    pub job_plans: Vec<JobPlan>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct JobPlan {
    #[serde(default)]
    pub offers: Vec<Offer>,
}

/// Status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Pending,
    Submitted,
    Provisioning,
    Pulling,
    Running,
    Terminating,
    Terminated,
    Aborted,
    Failed,
    Done,
    #[serde(other)]
    Other,
}

impl Status {
    /// Returns whether the run has ended or is ending.
    pub fn is_over(self) -> bool {
        matches!(
            self,
            Status::Terminating | Status::Terminated | Status::Aborted | Status::Failed | Status::Done
        )
    }
}

/// A run.
#[derive(Clone, Debug, Deserialize)]
pub struct Run {
    pub id: String,
    pub status: Status,
    #[serde(default)]
    pub status_message: Option<String>,
    #[serde(default)]
    pub termination_reason: Option<String>,
    #[serde(default)]
    pub submitted_at: Value,
    pub run_spec: RunName,
    #[serde(default)]
    pub latest_job_submission: Option<Job>,
    #[serde(default)]
    pub error: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct RunName {
    #[serde(default)]
    pub run_name: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Job {
    pub status: Status,
    #[serde(default)]
    pub status_message: Option<String>,
    #[serde(default)]
    pub termination_reason: Option<String>,
    #[serde(default)]
    pub termination_reason_message: Option<String>,
    #[serde(default)]
    pub exit_status: Option<i64>,
    #[serde(default)]
    pub job_provisioning_data: Option<Machine>,
    #[serde(default)]
    pub job_runtime_data: Option<Runtime>,
    #[serde(default)]
    pub image_pull_progress: Option<PullProgress>,
}

/// The machine of a run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Machine {
    #[serde(default)]
    pub backend: String,
    #[serde(default)]
    pub region: String,
    #[serde(default)]
    pub hostname: Option<String>,
    #[serde(default)]
    pub price: f64,
    #[serde(default)]
    pub username: String,
    #[serde(default)]
    pub ssh_port: Option<u16>,
    /// Whether SSH connects to the host, and the container is one more hop away.
    #[serde(default)]
    pub dockerized: bool,
    #[serde(default)]
    pub ssh_proxy: Option<Hop>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Runtime {
    #[serde(default)]
    pub ports: Option<BTreeMap<String, u16>>,
    #[serde(default)]
    pub username: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct PullProgress {
    #[serde(default)]
    pub downloaded_bytes: u64,
    #[serde(default)]
    pub extracted_bytes: u64,
    #[serde(default)]
    pub total_bytes: u64,
    #[serde(default)]
    pub is_total_bytes_final: bool,
}

/// One hop of an SSH connection.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Hop {
    pub hostname: String,
    pub username: String,
    pub port: u16,
}

impl Run {
    pub fn name(&self) -> &str {
        self.run_spec.run_name.as_deref().unwrap_or_default()
    }

    /// Returns the price per hour, once it is known.
    pub fn price(&self) -> Option<f64> {
        Some(self.latest_job_submission.as_ref()?.job_provisioning_data.as_ref()?.price)
    }

    fn job_status(&self) -> Status {
        self.latest_job_submission.as_ref().map_or(self.status, |job| job.status)
    }

    pub fn is_running(&self) -> bool {
        self.status == Status::Running && self.job_status() == Status::Running
    }

    /// Returns a progress message for waiting users.
    pub fn progress(&self) -> String {
        let job = self.latest_job_submission.as_ref();
        let machine = job.and_then(|job| job.job_provisioning_data.as_ref());
        let at = machine
            .filter(|machine| !machine.backend.is_empty())
            .map(|machine| match machine.region.as_str() {
                "" | "remote" => format!(" ({})", machine.backend),
                region => format!(" ({}, {region})", machine.backend),
            })
            .unwrap_or_default();
        match self.job_status() {
            Status::Pending | Status::Submitted => "Looking for a machine".to_owned(),
            Status::Provisioning => format!("The machine is starting{at}"),
            Status::Pulling => match job.and_then(|job| job.image_pull_progress) {
                Some(pull) if pull.total_bytes > 0 => format!("Pulling the image{at}: {}", pull.words()),
                _ => format!("Pulling the image{at}"),
            },
            Status::Running => format!("Connecting to the worker{at}"),
            _ => "The run is ending".to_owned(),
        }
    }

    /// Returns a message for users that says why the run ended.
    pub fn why_ended(&self, gpu: &str, most: Option<f64>) -> String {
        let job = self.latest_job_submission.as_ref();
        let said = |text: Option<&String>| text.filter(|text| !text.is_empty()).cloned();
        let words = job
            .and_then(|job| said(job.termination_reason_message.as_ref()))
            .or_else(|| job.and_then(|job| said(job.status_message.as_ref())))
            .or_else(|| said(self.error.as_ref()))
            .or_else(|| said(self.status_message.as_ref()));
        let reason = job
            .and_then(|job| job.termination_reason.as_deref())
            .or(self.termination_reason.as_deref())
            .unwrap_or("no reason given");
        let cap = most.map(|most| format!(" for at most ${most:.2} an hour")).unwrap_or_default();
        let text = match reason {
            "failed_to_start_due_to_no_capacity" if is_fleet(words.as_deref()) => {
                format!("no fleet of the dstack project has a {gpu}{cap}")
            }
            "failed_to_start_due_to_no_capacity" => format!("no {gpu} is available at the moment{cap}"),
            "interrupted_by_no_capacity" => format!("the {gpu} was taken away by its provider"),
            "instance_unreachable" => "the machine is no longer reachable".to_owned(),
            "waiting_runner_limit_exceeded" => "the machine did not come up in time".to_owned(),
            "waiting_instance_limit_exceeded" => "the machine was not ready in time".to_owned(),
            "creating_container_error" => "the container could not be started (check the image)".to_owned(),
            "container_exited_with_error" => match job.and_then(|job| job.exit_status) {
                Some(status) => format!("the worker ended with exit status {status}"),
                None => "the worker ended with an error".to_owned(),
            },
            "done_by_runner" => "the worker ended".to_owned(),
            "terminated_by_user" | "aborted_by_user" => "a user stopped the run".to_owned(),
            "max_duration_exceeded" => "the run reached its maximum duration".to_owned(),
            "log_quota_exceeded" => "the run wrote more to its log than allowed".to_owned(),
            reason => format!("the run ended ({})", reason.replace('_', " ")),
        };
        match words.filter(|words| words != reason) {
            Some(words) => format!("{text}; dstack says: {words}"),
            None => text,
        }
    }

    /// Returns the SSH hops to the container; the last one is the container itself.
    pub fn hops(&self) -> Option<Vec<Hop>> {
        let job = self.latest_job_submission.as_ref()?;
        let machine = job.job_provisioning_data.as_ref()?;
        let runtime = job.job_runtime_data.as_ref();
        let hostname = machine.hostname.clone()?;
        let container_user =
            runtime.and_then(|runtime| runtime.username.clone()).unwrap_or_else(|| "root".to_owned());
        let port = machine.ssh_port.unwrap_or(22);
        let mut hops: Vec<Hop> = machine.ssh_proxy.clone().into_iter().collect();
        if machine.dockerized {
            hops.push(Hop { hostname, username: machine.username.clone(), port });
            let ports = runtime.and_then(|runtime| runtime.ports.as_ref());
            let mapped = ports.and_then(|ports| ports.get(&CONTAINER_SSH.to_string()).copied());
            hops.push(Hop {
                hostname: "localhost".to_owned(),
                username: container_user,
                port: mapped.unwrap_or(CONTAINER_SSH),
            });
        } else {
            hops.push(Hop { hostname, username: container_user, port });
        }
        Some(hops)
    }
}

fn is_fleet(words: Option<&str>) -> bool {
    words.is_some_and(|words| words.to_lowercase().contains("fleet"))
}

impl PullProgress {
    fn words(self) -> String {
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        // In steps of 10 %, to keep the number of events low.
        let share = |bytes: u64| (bytes as f64 / self.total_bytes as f64 * 10.0).min(10.0).floor() * 10.0;
        // No percentage while the total is not final.
        if !self.is_total_bytes_final {
            return format!("{:.0} GB so far", gigabytes(self.downloaded_bytes));
        }
        format!(
            "{}% of {:.1} GB downloaded, {}% unpacked",
            share(self.downloaded_bytes),
            gigabytes(self.total_bytes),
            share(self.extracted_bytes)
        )
    }
}
