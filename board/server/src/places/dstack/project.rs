//! All of a board's runs in one dstack project: which of them are in use, and the end of those that are not.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::records::{Record, Records};
use super::rest::{Client, RestError};
use super::settings::DstackConfig;

/// Between two looks for runs that nobody uses.
const SWEEP: Duration = Duration::from_secs(60);
/// How often, and after what pauses, dstack is asked to end a run before it is left to the next sweep.
const TRIES: u32 = 5;

/// A board in a project.
#[derive(Debug)]
pub struct Project {
    pub config: Arc<DstackConfig>,
    pub client: Client,
    pub records: Records,
    /// The names of runs that a keeper takes care of.
    in_use: Mutex<HashSet<String>>,
    /// What the last server left, for keepers to take up.
    left: Mutex<Vec<Record>>,
    /// Held while a run is written down: one that is not counted yet is not one that nobody uses.
    writing: tokio::sync::Mutex<()>,
}

impl Project {
    /// Reads what the last server left. `gpus` are those that somebody will take care of.
    pub fn open(config: &Arc<DstackConfig>, folder: &Path, gpus: &[&str]) -> Result<Arc<Project>, String> {
        let records = Records::open(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let client =
            Client::new(&config.url, &config.project, &config.token).map_err(|error| error.to_string())?;
        let mut left: Vec<Record> = Vec::new();
        // The last of a GPU is the one to take up; what else there is belongs to nobody.
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
                    tracing::warn!("runs that nobody uses were not looked for: {error}");
                }
                drop(project);
                tokio::time::sleep(SWEEP).await;
            }
        });
        Ok(project)
    }

    /// The run of a GPU that the last server left.
    pub fn take_left(&self, gpu: &str) -> Option<Record> {
        let mut left = self.left.lock();
        let index = left.iter().position(|record| record.gpu == gpu)?;
        Some(left.swap_remove(index))
    }

    /// Makes up a run and counts it as in use.
    pub async fn create(&self, gpu: &str, most: Option<f64>) -> std::io::Result<Record> {
        let _writing = self.writing.lock().await;
        let record = self.records.create(gpu, most).await?;
        self.in_use.lock().insert(record.name.clone());
        Ok(record)
    }

    /// Stops every run of this board that nobody takes care of.
    pub async fn sweep(&self) -> Result<(), RestError> {
        let recorded = {
            let _writing = self.writing.lock().await;
            self.records.all()
        };
        let active = self.client.active(&self.records.prefix()).await?;
        let is_used = |name: &str| self.in_use.lock().contains(name);
        for run in &active {
            if !is_used(run.name()) && !run.status.is_over() {
                tracing::warn!("run {} is used by nobody; it is stopped", run.name());
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

    /// Ends a run, whether or not dstack ever heard of it. What cannot be done now is left to the next sweep.
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
                    tracing::warn!("run {name} is not stopped (attempt {attempt}): {error}");
                    if !error.may_pass() {
                        break;
                    }
                }
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        self.in_use.lock().remove(name);
        tracing::error!("run {name} could not be stopped; it will be tried again while a server runs");
    }

    async fn try_end(&self, name: &str) -> Result<(), RestError> {
        match self.client.run(name).await? {
            None => Ok(()),
            Some(run) if run.status.is_over() => Ok(()),
            Some(_) => self.client.stop(&[name], false).await,
        }
    }
}
