//! `remora doctor`: checks the installation, and reports what is missing and how to fix it.

#[cfg(unix)]
mod machine;

#[cfg(unix)]
pub use machine::{probe_cuda, probe_hip};

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use crate::devices::transports;
use crate::env::Environment;
use crate::inspect::inspect;
use crate::library;
use crate::os;
use crate::output::outln;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Worker to check: host:port, tls://host:port, unix:/path or a URL from an agent
    #[arg(long, value_name = "ENDPOINT")]
    worker: Option<String>,
    /// Print JSON: the parts with name, state (ok, absent, missing), what was found and the remedy, and the number of missing parts
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Finding {
    Good,
    /// Missing, but optional.
    Absent,
    /// Missing or broken, and required.
    Broken,
}

/// Prints the findings, or keeps them for JSON, and counts the broken parts.
#[derive(Default)]
struct Report {
    broken: usize,
    /// The parts so far; `None` if they are printed at once.
    parts: Option<Vec<serde_json::Value>>,
}

impl Report {
    fn add(&mut self, finding: Finding, what: &str, found: &str, remedy: &str) {
        self.broken += usize::from(finding == Finding::Broken);
        let (mark, state) = match finding {
            Finding::Good => ("ok     ", "ok"),
            Finding::Absent => ("absent ", "absent"),
            Finding::Broken => ("MISSING", "missing"),
        };
        let remedy = Some(remedy).filter(|remedy| finding != Finding::Good && !remedy.is_empty());
        if let Some(parts) = &mut self.parts {
            parts.push(json!({ "name": what, "state": state, "found": found, "remedy": remedy }));
            return;
        }
        outln!("{mark}  {what}: {found}");
        if let Some(remedy) = remedy {
            outln!("         -> {remedy}");
        }
    }
}

pub fn examine(arguments: &Arguments, environment: &Environment) -> Result<ExitCode> {
    let mut report = Report { parts: arguments.json.then(Vec::new), ..Report::default() };
    check_libraries(&mut report, environment);
    check_worker(&mut report, arguments, environment);
    #[cfg(unix)]
    machine::check(&mut report, environment);
    if let Some(parts) = report.parts {
        outln!("{}", serde_json::to_string_pretty(&json!({ "parts": parts, "missing": report.broken }))?);
        return Ok(if report.broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    if report.broken == 0 {
        outln!("\nAll required parts were found.");
        return Ok(ExitCode::SUCCESS);
    }
    outln!(
        "\n{} required part{} missing or broken.",
        report.broken,
        if report.broken == 1 { " is" } else { "s are" }
    );
    Ok(ExitCode::FAILURE)
}

fn check_libraries(report: &mut Report, environment: &Environment) {
    let Some(dir) = library::find(environment) else {
        let places: Vec<String> =
            library::search_folders(environment).iter().map(|place| place.display().to_string()).collect();
        let found = format!("no {} in {}", os::library::PATTERN, places.join(", "));
        return report.add(Finding::Broken, "client libraries", &found, os::library::REMEDY);
    };
    for name in os::library::NAMES {
        let path = dir.join(name);
        match os::library::problem(&path) {
            None => report.add(Finding::Good, name, &path.display().to_string(), ""),
            Some(problem) => {
                let found = format!("{}: {problem}", path.display());
                report.add(Finding::Broken, name, &found, os::library::REMEDY)
            }
        }
    }
    #[cfg(unix)]
    machine::check_audit(report, &dir);
}

fn check_worker(report: &mut Report, arguments: &Arguments, environment: &Environment) {
    let environment = &environment.for_worker(arguments.worker.as_deref());
    let endpoint = match environment.worker(None) {
        Ok(Some(endpoint)) => endpoint,
        Ok(None) => {
            return report_no_worker(report);
        }
        Err(error) => {
            return report.add(Finding::Broken, "worker", &format!("{error:#}"), "correct the address");
        }
    };
    match inspect(&endpoint, environment) {
        Ok(status) => {
            let devices: Vec<&str> = status.devices.iter().map(|device| device.name.as_str()).collect();
            let sessions = format!("{} sessions{}", status.sessions.len(), transports(&status));
            let found =
                format!("{endpoint} answers: {} with {}; {sessions}", status.worker, devices.join(", "));
            report.add(Finding::Good, "worker", &found, "");
        }
        Err(error) => {
            let text = format!("{error:#}");
            let remedy = if text.contains("access denied") || text.contains("token") {
                "set REMORA_TOKEN (or REMORA_TOKEN_FILE) to the worker's token"
            } else if text.contains("TLS") || text.contains("ertificate") {
                "use tls://host:port and set REMORA_TLS_CA to the worker's certificate or sha256:FINGERPRINT"
            } else {
                "start `remora worker` there, and check address, port and firewall"
            };
            report.add(Finding::Broken, "worker", &text, remedy);
        }
    }
}

/// On Linux a program then runs on a software GPU; elsewhere it cannot run.
fn report_no_worker(report: &mut Report) {
    let (finding, found) = match cfg!(unix) {
        true => {
            (Finding::Absent, "none is configured, so `remora run` starts a software GPU for each program")
        }
        false => (Finding::Broken, "none is configured, and software GPUs run on Linux only"),
    };
    let remedy = "to use another machine, start `remora worker` there and set REMORA_WORKER=host:port";
    report.add(finding, "worker", found, remedy);
}
