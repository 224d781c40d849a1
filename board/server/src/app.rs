//! What the parts of a running server share.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use axum::http::StatusCode;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::config::Config;
use crate::error::Refusal;
use crate::hub::Hub;
use crate::metrics::Histogram;
use crate::places::Device;
use crate::queue::{self, Turns};
use crate::scheduler::Running;
use crate::store::{Store, StoreError, Waiting};

/// A running server.
#[derive(Debug)]
pub struct App {
    pub config: Config,
    pub store: Store,
    pub hub: Hub,
    pub devices: Vec<Arc<Device>>,
    /// Submissions that run now, by identifier.
    pub running: Mutex<HashMap<String, Running>>,
    pub turns: Mutex<Turns>,
    /// The places of everything that waits, as they were when the queue was last looked at.
    pub positions: Mutex<HashMap<String, usize>>,
    /// Tells the queue that something changed.
    pub wake: Notify,
    /// Held while a submission is accepted.
    pub gate: tokio::sync::Mutex<()>,
    pub stopping: watch::Sender<bool>,
    pub started: Instant,
    pub counters: Counters,
}

/// What is counted since the server started.
#[derive(Debug, Default)]
pub struct Counters {
    pub requests: AtomicU64,
    pub refused: AtomicU64,
    pub finished: AtomicU64,
    /// Seconds from a submission to its verdict.
    pub latency: Mutex<Histogram>,
}

impl App {
    pub fn new(config: Config, store: Store, devices: Vec<Arc<Device>>) -> App {
        App {
            config,
            store,
            hub: Hub::default(),
            devices,
            running: Mutex::default(),
            turns: Mutex::default(),
            positions: Mutex::default(),
            wake: Notify::new(),
            gate: tokio::sync::Mutex::default(),
            stopping: watch::Sender::new(false),
            started: Instant::now(),
            counters: Counters::default(),
        }
    }

    /// The device of this name.
    pub fn device(&self, gpu_type: &str) -> Result<&Arc<Device>, Refusal> {
        let found = self.devices.iter().find(|device| device.config.gpu_type.eq_ignore_ascii_case(gpu_type));
        found.ok_or_else(|| {
            let names: Vec<&str> =
                self.devices.iter().map(|device| device.config.gpu_type.as_str()).collect();
            Refusal::new(StatusCode::BAD_REQUEST, format!("there is no GPU \"{gpu_type}\" here"))
                .details(format!("There are {}.", names.join(", ")))
        })
    }

    /// How long such submissions take; of those that nobody made yet, a guess.
    pub async fn usual_seconds(&self, gpu: &str, endpoint: &str) -> Result<f64, StoreError> {
        let guess = match endpoint {
            "full" | "benchmark" => 5.0,
            "sandbox" => 3.0,
            _ => 2.0,
        };
        Ok(self.store.usual_seconds(gpu, endpoint).await?.unwrap_or(guess))
    }

    /// Everything that waits for a device, in the order it will start.
    pub async fn line(&self, gpu: &str) -> Result<Vec<Waiting>, StoreError> {
        let waiting = self.store.waiting().await?;
        let turns = self.turns.lock();
        Ok(queue::order(waiting.iter().filter(|one| one.gpu == gpu), &turns).into_iter().cloned().collect())
    }

    /// The place in the queue that the next submission of a user would get, and the seconds until it starts.
    pub async fn next_position(&self, user: &str, gpu: &str) -> Result<(usize, f64), StoreError> {
        let line = self.line(gpu).await?;
        let mine = line.iter().filter(|one| one.user_id == user).count();
        // In every round each user starts one: before this one come at most as many of each other user as it is in its own line.
        let mut others: HashMap<&str, usize> = HashMap::new();
        for one in line.iter().filter(|one| one.user_id != user) {
            *others.entry(&one.user_id).or_default() += 1;
        }
        let before: usize = mine + others.values().map(|count| (*count).min(mine + 1)).sum::<usize>();
        let position = before + 1;
        Ok((position, self.wait_at(gpu, position).await?))
    }

    /// The seconds until the submission at a place of the queue starts.
    pub async fn wait_at(&self, gpu: &str, position: usize) -> Result<f64, StoreError> {
        let slots = self
            .devices
            .iter()
            .find(|device| device.config.gpu_type == gpu)
            .map_or(1, |device| device.config.slots.max(1));
        let busy = self.running.lock().values().filter(|one| one.gpu == gpu).count();
        let free = slots.saturating_sub(busy);
        if position <= free {
            return Ok(0.0);
        }
        let usual = self.usual_seconds(gpu, "full").await?;
        Ok((position - free) as f64 * usual / slots as f64)
    }
}
