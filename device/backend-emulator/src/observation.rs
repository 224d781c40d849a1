//! Observation of a session's kernels (trace, profile, performance model, check): its configuration and output files.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backend::DeviceError;
use emulator::observe::model::model_text;
use emulator::observe::{ObserveOptions, Observer, TraceOptions, check_text, profile_text};
use hip_api::types::hipErrorInvalidValue;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// What to observe. Several sessions may share one configuration: traces are appended, and each session writes a separate result file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObserveConfig {
    /// Observes only kernels whose name contains this.
    pub kernel: Option<String>,
    /// Observes only the launch with this index, starting at 0.
    pub launch: Option<u64>,
    /// Traces one wave.
    pub trace: Option<TraceConfig>,
    /// Counts what kernels execute.
    pub profile: bool,
    /// Estimates the time that kernels take on a real GPU.
    #[serde(default)]
    pub model: bool,
    /// Detects races and invalid accesses. Kernels then run on one thread, so that results are reproducible.
    pub check: bool,
    /// Folder to which each session writes `PID.json` when it ends.
    pub folder: PathBuf,
}

/// The wave to trace, and the output file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceConfig {
    /// Workgroup of the wave.
    pub workgroup: [u32; 3],
    /// Index of the wave in its workgroup.
    pub wave: u32,
    /// Lane whose registers are shown; the first active one by default.
    pub lane: Option<u32>,
    /// Maximum number of instructions to trace.
    pub limit: Option<u64>,
    /// File to which the trace is appended.
    pub file: PathBuf,
}

/// Output files of a session, opened before its process enters the sandbox.
#[derive(Debug)]
pub struct ObserveFiles {
    trace: Option<File>,
    findings: File,
}

impl ObserveFiles {
    /// Opens the files that a configuration names.
    pub fn open(config: &ObserveConfig) -> Result<ObserveFiles, DeviceError> {
        let trace = config.trace.as_ref().map(open_trace).transpose()?;
        let path = findings_path(config);
        let findings = File::create(&path).map_err(|error| refused(&path, &error))?;
        Ok(ObserveFiles { trace, findings })
    }
}

/// Results that a session writes to its file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Findings {
    /// Number of kernel launches.
    pub launches: u64,
    /// Number of observed launches.
    pub looked_at: u64,
    /// Number of traced waves.
    pub traced: u64,
    /// The profile as text.
    pub profile_text: String,
    /// The profile as JSON.
    pub profile: serde_json::Value,
    /// The estimates of the performance model as text.
    pub model_text: String,
    /// The estimates of the performance model as JSON.
    pub model: serde_json::Value,
    /// The result of the check as text.
    pub check_text: String,
    /// The result of the check as JSON.
    pub check: serde_json::Value,
    /// Number of problems that the check found.
    pub problems: u64,
}

/// The observer of a session and its output file.
pub(crate) struct Observation {
    pub(crate) observer: Arc<Observer>,
    path: PathBuf,
    /// The file at `path`, if it is already open.
    findings: Option<File>,
    reported: Mutex<bool>,
}

impl Observation {
    pub(crate) fn open(
        config: &ObserveConfig,
        files: Option<&ObserveFiles>,
    ) -> Result<Observation, DeviceError> {
        let mut trace: Option<Box<dyn Write + Send>> = None;
        if let Some(options) = &config.trace {
            trace = Some(Box::new(match files.and_then(|files| files.trace.as_ref()) {
                Some(file) => again(file, &options.file)?,
                None => open_trace(options)?,
            }));
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
            profile: config.profile,
            model: config.model,
            check: config.check,
        };
        let observer = Arc::new(Observer::new(options, trace));
        let path = findings_path(config);
        let findings = files.map(|files| again(&files.findings, &path)).transpose()?;
        Ok(Observation { observer, path, findings, reported: Mutex::new(false) })
    }

    /// Writes the results. Only the first call has an effect.
    pub(crate) fn tell(&self) {
        let mut reported = self.reported.lock();
        if std::mem::replace(&mut *reported, true) {
            return;
        }
        self.observer.flush();
        let written = self
            .findings()
            .and_then(|findings| serde_json::to_vec(&findings))
            .map_err(std::io::Error::from)
            .and_then(|text| match &self.findings {
                Some(file) => std::io::Write::write_all(&mut &*file, &text),
                None => std::fs::write(&self.path, text),
            });
        if let Err(error) = written {
            tracing::error!("cannot write observation results to {}: {error}", self.path.display());
        }
    }

    fn findings(&self) -> serde_json::Result<Findings> {
        let mut findings = Findings {
            launches: self.observer.launches(),
            looked_at: self.observer.looked_at(),
            traced: self.observer.traced(),
            ..Findings::default()
        };
        if let Some(profile) = self.observer.profile() {
            findings.profile_text = profile_text(&profile);
            findings.profile = serde_json::to_value(&profile)?;
        }
        if let Some(estimates) = self.observer.model() {
            findings.model_text = model_text(&estimates);
            findings.model = serde_json::to_value(&estimates)?;
        }
        if let Some(report) = self.observer.check() {
            findings.problems = report.problems();
            findings.check_text = check_text(&report);
            findings.check = serde_json::to_value(&report)?;
        }
        Ok(findings)
    }
}

fn findings_path(config: &ObserveConfig) -> PathBuf {
    config.folder.join(format!("{}.json", std::process::id()))
}

fn open_trace(config: &TraceConfig) -> Result<File, DeviceError> {
    let file = File::options().create(true).append(true).open(&config.file);
    file.map_err(|error| refused(&config.file, &error))
}

fn again(file: &File, path: &Path) -> Result<File, DeviceError> {
    file.try_clone().map_err(|error| refused(path, &error))
}

fn refused(path: &Path, error: &std::io::Error) -> DeviceError {
    DeviceError::new(hipErrorInvalidValue, format!("{}: {error}", path.display()))
}
