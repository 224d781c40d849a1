//! Observing the kernels of a session: what was asked for, and the files the answers go to.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backend::DeviceError;
use emulator::observe::{ObserveOptions, Observer, TraceOptions};
use hip_api::types::hipErrorInvalidValue;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// What to observe. Several sessions may be given the same one: traces are appended, and each session has result files of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObserveConfig {
    /// Only kernels whose name contains this.
    pub kernel: Option<String>,
    /// Only this one of their launches, from 0.
    pub launch: Option<u64>,
    pub trace: Option<TraceConfig>,
    /// Where each session leaves `PID.json` when it ends.
    pub folder: PathBuf,
}

/// Which wave to trace, and where to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceConfig {
    pub workgroup: [u32; 3],
    pub wave: u32,
    pub lane: Option<u32>,
    pub limit: Option<u64>,
    pub file: PathBuf,
}

/// What a session leaves behind.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Findings {
    /// Kernels launched, and waves traced.
    pub launches: u64,
    pub traced: u64,
}

/// The observer of a session, and where it reports to.
pub(crate) struct Observation {
    pub(crate) observer: Arc<Observer>,
    folder: PathBuf,
    told: Mutex<bool>,
}

impl Observation {
    pub(crate) fn open(config: &ObserveConfig) -> Result<Observation, DeviceError> {
        let mut trace: Option<Box<dyn Write + Send>> = None;
        if let Some(options) = &config.trace {
            let file = File::options().create(true).append(true).open(&options.file);
            trace = Some(Box::new(file.map_err(|error| refused(&options.file, &error))?));
        }
        let options = ObserveOptions {
            kernel: config.kernel.clone(),
            launch: config.launch,
            trace: config.trace.as_ref().map(|trace| TraceOptions {
                workgroup: trace.workgroup,
                wave: trace.wave,
                lane: trace.lane,
                limit: trace.limit,
            }),
        };
        let observer = Arc::new(Observer::new(options, trace));
        Ok(Observation { observer, folder: config.folder.clone(), told: Mutex::new(false) })
    }

    /// Writes down what was seen; once, whoever asks.
    pub(crate) fn tell(&self) {
        let mut told = self.told.lock();
        if std::mem::replace(&mut *told, true) {
            return;
        }
        self.observer.flush();
        let findings = Findings { launches: self.observer.launches(), traced: self.observer.traced() };
        let path = self.folder.join(format!("{}.json", std::process::id()));
        let written = serde_json::to_vec(&findings)
            .map_err(std::io::Error::from)
            .and_then(|text| std::fs::write(&path, text));
        if let Err(error) = written {
            tracing::error!("{} was not written: {error}", path.display());
        }
    }
}

fn refused(path: &Path, error: &std::io::Error) -> DeviceError {
    DeviceError::new(hipErrorInvalidValue, format!("{}: {error}", path.display()))
}
