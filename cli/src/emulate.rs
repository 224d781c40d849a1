//! `remora emulate`: runs a program on a local software GPU and traces, profiles, models or checks its kernels.
//!
//! A private worker observes the kernels and writes its results to a folder. This command waits until the worker's last process has
//! exited and prints the results to standard error or to files, so that they do not mix with the program's output.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use backend_emulator::{Findings, ObserveConfig, TraceConfig};

use crate::env::Environment;
use crate::output::errln;
use crate::run::{Job, LocalGpu, PrivateWorker};

/// Maximum size of a result file.
const MAX_FINDINGS: u64 = 1 << 30;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Reports are printed to standard error after the program has ended, or written to the given files.
Build the program with -g to see source lines. Kernels run many times slower while they are observed.
The exit code is the program's own; if that is 0 and --check found problems, it is 1.

Examples:
  remora emulate --check -- ./my_program
  remora emulate --profile --json profile.json -- ./my_program
  remora emulate --model --device mi300x -- ./my_program
  remora emulate --trace --kernel saxpy --limit 40 -- ./saxpy
  remora emulate --trace=wave.txt --workgroup 3,1 --wave 2 --lane 17 -- ./matmul 256"
)]
pub struct Arguments {
    /// Software GPU: mi300x, mi300a, mi325x, mi210 or mi250x [default: one that the program was built for]. Repeatable
    #[arg(long, value_name = "MODEL")]
    device: Vec<String>,
    /// Seconds after which a kernel is aborted; 0 means no limit
    #[arg(long, value_name = "SECONDS")]
    watchdog: Option<f64>,
    /// Memory size of the software GPU, such as 16G
    #[arg(long, value_name = "BYTES")]
    memory: Option<String>,
    /// Observe only kernels whose name contains NAME
    #[arg(long, value_name = "NAME", help_heading = "Selection")]
    kernel: Option<String>,
    /// Observe only launch N of these kernels, counted from 0. A trace covers only launch 0 by default
    #[arg(long, value_name = "N", help_heading = "Selection")]
    launch: Option<u64>,
    /// Trace every instruction of one wave: the EXEC mask, the registers written and the addresses accessed
    #[arg(long, value_name = "FILE", help_heading = "Trace")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    trace: Option<PathBuf>,
    /// Workgroup to trace
    #[arg(long, value_name = "X[,Y[,Z]]", help_heading = "Trace", requires = "trace", value_parser = position)]
    workgroup: Option<[u32; 3]>,
    /// Wave of the workgroup to trace: wave 0 has the first 64 work-items
    #[arg(long, value_name = "N", help_heading = "Trace", requires = "trace", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..16))]
    wave: u32,
    /// Lane whose registers and addresses are shown [default: the first active lane]
    #[arg(long, value_name = "N", help_heading = "Trace", requires = "trace")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..64))]
    lane: Option<u32>,
    /// Maximum number of instructions to trace; 0 means no limit
    #[arg(long, value_name = "COUNT", help_heading = "Trace", requires = "trace", default_value_t = 1000)]
    limit: u64,
    /// Profile kernels: instruction mix, hot blocks, memory traffic, bank conflicts, divergence
    #[arg(long, value_name = "FILE", help_heading = "Profile and check")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    profile: Option<PathBuf>,
    /// Estimate the time of kernels on the real GPU and what limits them: units, caches, HBM, latency; stalls by instruction
    #[arg(long, value_name = "FILE", help_heading = "Profile and check")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    model: Option<PathBuf>,
    /// Check kernels for data races, out-of-bounds accesses and reads of uninitialized local memory
    #[arg(long, value_name = "FILE", help_heading = "Profile and check")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    check: Option<PathBuf>,
    /// Write the results of --profile, --model and --check to FILE as JSON
    #[arg(long, value_name = "FILE", help_heading = "Profile and check")]
    json: Option<PathBuf>,
    /// Program to run and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

pub fn emulate(arguments: &Arguments, environment: &Environment) -> Result<ExitCode> {
    ensure!(
        arguments.json.is_none()
            || [&arguments.profile, &arguments.model, &arguments.check].iter().any(|file| file.is_some()),
        "--json needs --profile, --model or --check"
    );
    let job = match Job::new(&arguments.program, environment)? {
        Ok(job) => job,
        Err(code) => return Ok(code),
    };
    let folder = tempfile::Builder::new()
        .prefix("remora-")
        .tempdir()
        .context("cannot create a folder for the reports")?;
    let observe = observation(arguments, folder.path())?;
    let (mut gone, held) = std::io::pipe().context("cannot create a pipe to the worker")?;
    let held = OwnedFd::from(held);
    let local = LocalGpu {
        device: &arguments.device,
        watchdog: arguments.watchdog,
        memory: arguments.memory.as_deref(),
        observe: observe.as_ref().map(|observe| (observe, held.as_fd())),
    };
    if let Some(code) = job.refused(&local.isas(&job)) {
        return Ok(code);
    }
    let (endpoint, worker) = PrivateWorker::start(&job, &local, environment)?;
    drop(held);
    let code = job.run(&endpoint, environment)?;
    drop(worker);
    let Some(observe) = observe else { return Ok(code) };
    // No data is ever written to the pipe. Its end of file comes when the worker's last process has exited.
    gone.read_to_end(&mut Vec::new()).context("cannot wait for the worker to exit")?;
    let problems = report(arguments, &observe)?;
    Ok(if problems > 0 && code == ExitCode::SUCCESS { ExitCode::FAILURE } else { code })
}

/// The observation that the worker is to make; `None` if no option requests one.
fn observation(arguments: &Arguments, folder: &Path) -> Result<Option<ObserveConfig>> {
    // Fail now rather than after a long run.
    for file in
        [&arguments.profile, &arguments.model, &arguments.check, &arguments.json].into_iter().flatten()
    {
        if !is_standard(file) {
            create(file)?;
        }
    }
    let trace = match &arguments.trace {
        None => None,
        Some(file) => {
            let file = if is_standard(file) { folder.join("trace") } else { std::path::absolute(file)? };
            create(&file)?;
            Some(TraceConfig {
                workgroup: arguments.workgroup.unwrap_or_default(),
                wave: arguments.wave,
                lane: arguments.lane,
                limit: (arguments.limit > 0).then_some(arguments.limit),
                file,
            })
        }
    };
    let observe = ObserveConfig {
        kernel: arguments.kernel.clone(),
        launch: arguments.launch,
        trace,
        profile: arguments.profile.is_some(),
        model: arguments.model.is_some(),
        check: arguments.check.is_some(),
        folder: folder.to_owned(),
    };
    Ok((observe.trace.is_some() || observe.profile || observe.model || observe.check).then_some(observe))
}

/// Whether a report goes to standard error (`-`).
fn is_standard(file: &Path) -> bool {
    file.as_os_str() == "-"
}

fn create(file: &Path) -> Result<File> {
    File::create(file).with_context(|| format!("cannot write {}", file.display()))
}

/// Prints the results of the worker's sessions; returns the number of problems that the check found.
fn report(arguments: &Arguments, observe: &ObserveConfig) -> Result<u64> {
    let findings = findings(&observe.folder)?;
    if let Some(trace) = &observe.trace {
        if trace.file.starts_with(&observe.folder) {
            let mut text = File::open(&trace.file).context("cannot read the trace")?;
            // A closed pipe, such as from `head`, is not an error.
            let _ = std::io::copy(&mut text, &mut std::io::stderr().lock());
        }
        if findings.iter().all(|findings| findings.traced == 0) {
            errln!("remora: no wave was traced: {}", untraced(arguments, &findings));
        }
    }
    // Skip sessions that observed no kernel: an empty report must not look like a clean result.
    let seen: Vec<&Findings> = findings.iter().filter(|findings| findings.looked_at > 0).collect();
    if let Some(file) = &arguments.profile {
        let text: String = seen.iter().map(|findings| findings.profile_text.as_str()).collect();
        show(file, if text.is_empty() { "== profile: no kernel was observed\n" } else { &text })?;
    }
    if let Some(file) = &arguments.model {
        let text: String = seen.iter().map(|findings| findings.model_text.as_str()).collect();
        show(file, if text.is_empty() { "== model: no kernel was observed\n" } else { &text })?;
    }
    if let Some(file) = &arguments.check {
        let text: String = seen.iter().map(|findings| findings.check_text.as_str()).collect();
        show(file, if text.is_empty() { "== check: no kernel was observed\n" } else { &text })?;
    }
    if let Some(file) = &arguments.json {
        let session = |findings: &Findings| {
            serde_json::json!({
                "launches": findings.launches,
                "profile": findings.profile,
                "model": findings.model,
                "check": findings.check,
            })
        };
        let sessions: Vec<serde_json::Value> = findings.iter().map(session).collect();
        let text = serde_json::to_string_pretty(&serde_json::json!({ "sessions": sessions }))?;
        std::fs::write(file, text + "\n").with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(findings.iter().map(|findings| findings.problems).sum())
}

/// Writes a report to its file, or to standard error.
fn show(file: &Path, text: &str) -> Result<()> {
    if is_standard(file) {
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
        return Ok(());
    }
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// The reason why there is no trace.
fn untraced(arguments: &Arguments, findings: &[Findings]) -> String {
    let launches: u64 = findings.iter().map(|findings| findings.launches).sum();
    if launches == 0 {
        return "the program launched no kernel".to_owned();
    }
    let kernel =
        arguments.kernel.as_ref().map_or(String::new(), |kernel| format!(" of a kernel named {kernel}"));
    let [x, y, z] = arguments.workgroup.unwrap_or_default();
    format!(
        "none of {launches} launches was launch {}{kernel} with workgroup {x},{y},{z} and wave {}",
        arguments.launch.unwrap_or(0),
        arguments.wave
    )
}

/// The results of all sessions, ordered by process ID.
fn findings(folder: &Path) -> Result<Vec<Findings>> {
    let mut files: Vec<(u32, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json")
            && let Some(pid) = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok())
        {
            files.push((pid, path));
        }
    }
    files.sort();
    let read = |path: &Path| -> Result<Option<Findings>> {
        let mut text = Vec::new();
        File::open(path)?.take(MAX_FINDINGS).read_to_end(&mut text)?;
        // A session creates its file when it starts; if it is killed, the file stays empty.
        Ok(if text.is_empty() { None } else { Some(serde_json::from_slice(&text)?) })
    };
    let read = |path: &Path| read(path).with_context(|| format!("{}", path.display()));
    files.iter().filter_map(|(_, path)| read(path).transpose()).collect()
}

/// Parses `X`, `X,Y` or `X,Y,Z`.
fn position(text: &str) -> Result<[u32; 3], String> {
    let wrong = || format!("\"{text}\" is not a workgroup ID; write for example 3 or 3,1,0");
    let mut position = [0; 3];
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 3 {
        return Err(wrong());
    }
    for (place, part) in position.iter_mut().zip(parts) {
        *place = part.trim().parse().map_err(|_| wrong())?;
    }
    Ok(position)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_board_names_limits_as_the_model_does() {
        let names = backend_emulator::Resource::ALL.map(backend_emulator::Resource::name);
        assert_eq!(names, board_contract::LIMITS);
    }

    #[test]
    fn workgroups_are_named_by_one_two_or_three_numbers() {
        assert_eq!(position("3"), Ok([3, 0, 0]));
        assert_eq!(position("3,1"), Ok([3, 1, 0]));
        assert_eq!(position("3,1,2"), Ok([3, 1, 2]));
        for wrong in ["", "x", "1,", "1,2,3,4", "-1"] {
            assert!(position(wrong).is_err(), "{wrong}");
        }
    }
}
