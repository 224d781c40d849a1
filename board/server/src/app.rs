//! Shared state of a running server.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use axum::http::StatusCode;
use board_contract::Endpoint;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::config::Config;
use crate::devices::Device;
use crate::error::Refusal;
use crate::histogram::Histogram;
use crate::hub::Hub;
use crate::login::Logins;
use crate::queue::{self, Turns};
use crate::ranking;
use crate::store::{Store, StoreError, Submission, Waiting};

/// A running server.
#[derive(Debug)]
pub struct App {
    pub config: Config,
    pub store: Store,
    pub logins: Logins,
    pub hub: Hub,
    pub devices: Vec<Arc<Device>>,
    /// Running submissions by id.
    pub running: Mutex<HashMap<String, Running>>,
    pub turns: Mutex<Turns>,
    /// Queue positions of waiting submissions, as of the scheduler's last pass.
    pub positions: Mutex<HashMap<String, usize>>,
    /// Wakes the scheduler when something changed.
    pub wake: Notify,
    /// Serializes the acceptance of submissions.
    pub gate: tokio::sync::Mutex<()>,
    pub stopping: watch::Sender<bool>,
    /// Overall rankings; locked while they are computed, so that concurrent requests compute them once.
    pub ranking: tokio::sync::Mutex<ranking::Cached>,
    pub started: Instant,
    pub counters: Counters,
}

/// A running submission.
#[derive(Debug)]
pub struct Running {
    pub user_id: String,
    pub gpu: String,
    pub cancel: watch::Sender<bool>,
}

/// Counters since the server started.
#[derive(Debug, Default)]
pub struct Counters {
    pub requests: AtomicU64,
    pub refused: AtomicU64,
    pub finished: AtomicU64,
    /// Seconds from submission to verdict.
    pub latency: Mutex<Histogram>,
}

impl App {
    pub fn new(config: Config, store: Store, logins: Logins, devices: Vec<Arc<Device>>) -> App {
        App {
            config,
            store,
            logins,
            hub: Hub::default(),
            devices,
            running: Mutex::default(),
            turns: Mutex::default(),
            positions: Mutex::default(),
            wake: Notify::new(),
            gate: tokio::sync::Mutex::default(),
            stopping: watch::Sender::new(false),
            ranking: tokio::sync::Mutex::default(),
            started: Instant::now(),
            counters: Counters::default(),
        }
    }

    /// Finds a device by name.
    pub fn device(&self, gpu_type: &str) -> Result<&Arc<Device>, Refusal> {
        let found = self.devices.iter().find(|device| device.config.gpu_type.eq_ignore_ascii_case(gpu_type));
        found.ok_or_else(|| {
            let names: Vec<&str> =
                self.devices.iter().map(|device| device.config.gpu_type.as_str()).collect();
            Refusal::new(StatusCode::BAD_REQUEST, format!("this server has no GPU \"{gpu_type}\""))
                .details(format!("Available: {}.", names.join(", ")))
        })
    }

    /// Finds a device by name; the first device without a name.
    pub fn device_or_first(&self, gpu_type: Option<&str>) -> Result<&Arc<Device>, Refusal> {
        match gpu_type.filter(|gpu| !gpu.is_empty()) {
            Some(gpu) => self.device(gpu),
            None => self.devices.first().ok_or_else(|| Refusal::not_found("this server has no devices")),
        }
    }

    /// Returns the usual seconds of such submissions on a device, for this problem if there were any; a default if there were none yet.
    pub async fn usual_seconds(
        &self,
        gpu: &str,
        endpoint: Endpoint,
        problem: &str,
    ) -> Result<f64, StoreError> {
        let guess = match endpoint {
            Endpoint::Full | Endpoint::Benchmark => 3.0,
            Endpoint::Sandbox | Endpoint::Checker | Endpoint::Sample | Endpoint::Custom => 1.0,
            // Observed kernels run many times slower.
            Endpoint::Check | Endpoint::Profile => 5.0,
            // It needs no device.
            Endpoint::Compile => return Ok(0.0),
        };
        if let Some(usual) = self.store.usual_seconds(gpu, endpoint, Some(problem)).await? {
            return Ok(usual);
        }
        Ok(self.store.usual_seconds(gpu, endpoint, None).await?.unwrap_or(guess))
    }

    /// Returns the submissions that wait for a device, in the order they will start.
    pub async fn line(&self, gpu: &str) -> Result<Vec<Waiting>, StoreError> {
        let waiting = self.store.waiting().await?;
        let turns = self.turns.lock();
        Ok(queue::order(waiting.iter().filter(|one| one.gpu == gpu), &turns).into_iter().cloned().collect())
    }

    /// Returns the queue position that a user's next submission would get, and the seconds until it starts.
    pub async fn next_position(&self, user: &str, gpu: &str) -> Result<(usize, f64), StoreError> {
        let line = self.line(gpu).await?;
        let mine = line.iter().filter(|one| one.user_id == user).count();
        // Each round starts one submission per user. So at most as many submissions of each other user come first as this one's
        // number among the user's own.
        let mut others: HashMap<&str, usize> = HashMap::new();
        for one in line.iter().filter(|one| one.user_id != user) {
            *others.entry(&one.user_id).or_default() += 1;
        }
        let before: usize = mine + others.values().map(|count| (*count).min(mine + 1)).sum::<usize>();
        let position = before + 1;
        Ok((position, self.wait_at(gpu, position).await?))
    }

    /// Returns the queue positions that unfinished submissions get when they are requeued together, and the seconds until they start.
    pub async fn requeue_positions(&self, joining: &[Submission]) -> Result<Vec<(usize, f64)>, StoreError> {
        let waiting = self.store.waiting().await?;
        let positions = queue::requeue_positions(&waiting, joining, &self.turns.lock());
        let mut found = Vec::new();
        for (submission, position) in joining.iter().zip(positions) {
            let gpu = &submission.summary.gpu;
            // They have given up their slots, or are about to.
            let leaves = |id: &str| joining.iter().any(|other| other.summary.id == id);
            let busy = self.running.lock().iter().filter(|(id, one)| !leaves(id) && &one.gpu == gpu).count();
            found.push((position, self.wait(gpu, position, busy).await?));
        }
        Ok(found)
    }

    /// Returns the seconds until the submission at a queue position starts.
    pub async fn wait_at(&self, gpu: &str, position: usize) -> Result<f64, StoreError> {
        let busy = self.running.lock().values().filter(|one| one.gpu == gpu).count();
        self.wait(gpu, position, busy).await
    }

    async fn wait(&self, gpu: &str, position: usize, busy: usize) -> Result<f64, StoreError> {
        let slots = self
            .devices
            .iter()
            .find(|device| device.config.gpu_type == gpu)
            .map_or(1, |device| device.config.slots.max(1));
        // Those that are compiled ahead use the device before.
        let before = (position + busy).saturating_sub(slots);
        if before == 0 {
            return Ok(0.0);
        }
        let usual = self.usual_seconds(gpu, Endpoint::Full, "").await?;
        Ok(before as f64 * usual / slots as f64)
    }
}
