//! All runs of a board in one dstack project: tracks those in use and stops the others.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::records::{Record, Records};
use super::rest::{Client, RestError};
use crate::config::DstackConfig;

/// Interval between sweeps for unused runs.
const SWEEP: Duration = Duration::from_secs(60);
/// Most attempts to stop a run before it is left to the next sweep.
const TRIES: u32 = 5;

/// A board's view of a dstack project.
#[derive(Debug)]
pub struct Project {
    pub config: Arc<DstackConfig>,
    pub client: Client,
    pub records: Records,
    /// Names of runs that a keeper manages.
    in_use: Mutex<HashSet<String>>,
    /// Runs left by the previous server, for keepers to reuse.
    left: Mutex<Vec<Record>>,
    /// Held while a run is recorded and marked as in use, so that a sweep does not see it as unused in between.
    writing: tokio::sync::Mutex<()>,
}

impl Project {
    /// Opens a project and reads the runs that the previous server left. `gpus` are those that have a keeper.
    pub fn open(config: &Arc<DstackConfig>, folder: &Path, gpus: &[&str]) -> Result<Arc<Project>, String> {
        let records = Records::open(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let client =
            Client::new(&config.url, &config.project, &config.token).map_err(|error| error.to_string())?;
        let mut left: Vec<Record> = Vec::new();
        // The newest run of each GPU is reused; the others are unused.
        for record in records.all() {
            if gpus.contains(&record.gpu.as_str()) {
                left.retain(|other| other.gpu != record.gpu);
                left.push(record);
            }
        }
        let in_use = Mutex::new(left.iter().map(|record| record.name.clone()).collect());
        let project = Arc::new(Project {
            config: Arc::clone(config),
            client,
            records,
            in_use,
            left: Mutex::new(left),
            writing: tokio::sync::Mutex::default(),
        });
        let weak = Arc::downgrade(&project);
        tokio::spawn(async move {
            while let Some(project) = weak.upgrade() {
                if let Err(error) = project.sweep().await {
                    tracing::warn!("the sweep for unused runs failed: {error}");
                }
                drop(project);
                tokio::time::sleep(SWEEP).await;
            }
        });
        Ok(project)
    }

    /// Takes the run of a GPU that the previous server left.
    pub fn take_left(&self, gpu: &str) -> Option<Record> {
        let mut left = self.left.lock();
        let index = left.iter().position(|record| record.gpu == gpu)?;
        Some(left.swap_remove(index))
    }

    /// Creates the record of a new run and marks it as in use.
    pub async fn create(&self, gpu: &str, most: Option<f64>) -> std::io::Result<Record> {
        let _writing = self.writing.lock().await;
        let record = self.records.create(gpu, most).await?;
        self.in_use.lock().insert(record.name.clone());
        Ok(record)
    }

    /// Stops all runs of this board that no keeper manages.
    pub async fn sweep(&self) -> Result<(), RestError> {
        let recorded = {
            let _writing = self.writing.lock().await;
            self.records.all()
        };
        let active = self.client.active(&self.records.prefix()).await?;
        let is_used = |name: &str| self.in_use.lock().contains(name);
        for run in &active {
            if !is_used(run.name()) && !run.status.is_over() {
                tracing::warn!("run {} is not in use; stopping it", run.name());
                self.client.stop(&[run.name()], false).await?;
            }
        }
        for record in recorded {
            if !is_used(&record.name) && !active.iter().any(|run| run.name() == record.name) {
                self.records.remove(&record.name);
            }
        }
        Ok(())
    }

    /// Stops a run, whether or not dstack has it. If that fails, the next sweep retries.
    pub async fn end(&self, name: &str) {
        let mut pause = Duration::from_millis(500);
        for attempt in 1..=TRIES {
            match self.try_end(name).await {
                Ok(()) => {
                    self.in_use.lock().remove(name);
                    self.records.remove(name);
                    return;
                }
                Err(error) => {
                    tracing::warn!("stopping run {name} failed (attempt {attempt}): {error}");
                    if !error.may_pass() {
                        break;
                    }
                }
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        self.in_use.lock().remove(name);
        tracing::error!("run {name} could not be stopped; the server retries as long as it runs");
    }

    async fn try_end(&self, name: &str) -> Result<(), RestError> {
        match self.client.run(name).await? {
            None => Ok(()),
            Some(run) if run.status.is_over() => Ok(()),
            Some(_) => self.client.stop(&[name], false).await,
        }
    }
}
