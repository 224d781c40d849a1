//! `remora doctor`: checks the installation, and reports what is missing and how to fix it.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use serde_json::json;
use worker::{Compiler, CompilerConfig, Toolchain};

use crate::compiler;
use crate::devices::bytes;
use crate::env::Environment;
use crate::inspect::inspect;
use crate::library;
use crate::machine;
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
    check_processor(&mut report);
    check_worker(&mut report, arguments, environment);
    check_compiler(&mut report, environment);
    check_rocm(&mut report);
    let has_nvidia = check_cuda(&mut report);
    check_machine(&mut report, has_nvidia);
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
    let build = "install Remora's client libraries (in the repository: `cargo xtask build`), or point HIP_REMOTE_LIB_DIR at them";
    let Some(dir) = library::find(environment) else {
        let places: Vec<String> =
            library::search_folders(environment).iter().map(|place| place.display().to_string()).collect();
        let found = format!("no libamdhip64.so.* in {}", places.join(", "));
        return report.add(Finding::Broken, "client libraries", &found, build);
    };
    for name in library::SONAMES {
        let path = dir.join(name);
        match library::problem(&path) {
            None => report.add(Finding::Good, name, &path.display().to_string(), ""),
            Some(problem) => {
                report.add(Finding::Broken, name, &format!("{}: {problem}", path.display()), build)
            }
        }
    }
    check_audit(report, &dir);
}

/// Checks the audit library. It is optional: programs without an RPATH run without it.
fn check_audit(report: &mut Report, dir: &Path) {
    let path = dir.join(library::AUDIT);
    if path.is_file() {
        return report.add(Finding::Good, library::AUDIT, &path.display().to_string(), "");
    }
    let found = format!("{} not found", path.display());
    let remedy = "without it, programs with an RPATH or an absolute path load that libamdhip64 instead; build it with `cargo xtask build`";
    report.add(Finding::Absent, library::AUDIT, &found, remedy);
}

fn check_processor(report: &mut Report) {
    #[cfg(target_arch = "x86_64")]
    {
        let levels = [
            (
                "AVX-512",
                std::is_x86_feature_detected!("avx512f") && std::is_x86_feature_detected!("avx512bw"),
            ),
            ("AVX2", std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma")),
        ];
        let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
        match levels.iter().find(|(_, has)| *has) {
            Some((level, _)) => {
                report.add(Finding::Good, "processor", &format!("{level}, {threads} threads for software GPUs"), "");
            }
            None => report.add(
                Finding::Absent,
                "processor",
                "neither AVX-512 nor AVX2",
                "software GPUs run, but several times slower; in a virtual machine, pass the host's CPU through",
            ),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    report.add(Finding::Good, "processor", std::env::consts::ARCH, "");
}

fn check_worker(report: &mut Report, arguments: &Arguments, environment: &Environment) {
    let environment = &environment.for_worker(arguments.worker.as_deref());
    let endpoint = match environment.worker(None) {
        Ok(Some(endpoint)) => endpoint,
        Ok(None) => {
            let found = "none is configured, so `remora run` starts a software GPU for each program";
            let remedy =
                "to use another machine, start `remora worker` there and set REMORA_WORKER=host:port";
            return report.add(Finding::Absent, "worker", found, remedy);
        }
        Err(error) => {
            return report.add(Finding::Broken, "worker", &format!("{error:#}"), "correct the address");
        }
    };
    match inspect(&endpoint, environment) {
        Ok(status) => {
            let devices: Vec<&str> = status.devices.iter().map(|device| device.name.as_str()).collect();
            let found = format!("{endpoint} answers: {} with {}", status.worker, devices.join(", "));
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

fn check_compiler(report: &mut Report, environment: &Environment) {
    match Toolchain::find(environment.toolchain.as_deref()) {
        Ok(found) => {
            report.add(Finding::Good, "hiprtc compiler", &found.clang.display().to_string(), "");
            report.add(Finding::Good, "HIP headers", &found.hip.join("include").display().to_string(), "");
            let (missing, libraries) = (compiler::unsupported(&found), found.device_libs.display());
            if missing.is_empty() {
                report.add(Finding::Good, "device libraries", &libraries.to_string(), "");
            } else {
                let problem = format!("{libraries} does not support {missing}");
                report.add(Finding::Absent, "device libraries", &problem, "install AMD's ROCm to /opt/rocm");
            }
            let config =
                CompilerConfig { toolchain: environment.toolchain.clone(), ..CompilerConfig::default() };
            match Compiler::new(&config).confinement() {
                Ok(level) => report.add(Finding::Good, "compiler confinement", level, ""),
                Err(error) => {
                    let error = format!("{:#}", anyhow::Error::from(error));
                    report.add(Finding::Absent, "compiler confinement", &error, "");
                }
            }
        }
        Err(problem) => {
            let remedy = format!(
                "`remora serve` and programs that compile kernels at run time need it: {}, or set REMORA_TOOLCHAIN",
                compiler::remedy()
            );
            report.add(Finding::Absent, "hiprtc compiler", &problem.to_string(), &remedy);
        }
    }
}

fn check_rocm(report: &mut Report) {
    let kfd = Path::new("/dev/kfd").exists();
    // In a separate process, because the runtime may crash without its driver.
    let probe = std::env::current_exe().and_then(|program| Command::new(program).arg("probe-hip").output());
    let text =
        probe.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    let finding = if text.starts_with("ready") { Finding::Good } else { Finding::Absent };
    let found = match text.as_str() {
        "" => "the runtime crashed while it was loaded",
        text => text,
    };
    let remedy = if kfd {
        "install ROCm's libamdhip64 to use this machine's AMD GPU with `remora worker --backend hip`"
    } else {
        "only `remora worker --backend hip` needs an AMD GPU and ROCm; software GPUs need neither"
    };
    report.add(finding, "AMD's runtime", found, remedy);
}

/// Returns whether NVIDIA's driver has GPUs.
fn check_cuda(report: &mut Report) -> bool {
    // In a separate process: the driver changes the process that loads it.
    let probe = std::env::current_exe().and_then(|program| Command::new(program).arg("probe-cuda").output());
    let text =
        probe.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    let finding = if text.starts_with("ready") { Finding::Good } else { Finding::Absent };
    let found = match text.as_str() {
        "" => "the driver library crashed while it was loaded",
        text => text,
    };
    let remedy = "only `remora worker --backend cuda` needs an NVIDIA GPU and its driver (CUDA 12 or later)";
    report.add(finding, "NVIDIA's driver", found, remedy);
    finding == Finding::Good
}

/// Reports the GPUs of this machine that the agent would offer, and whether NVIDIA's can be listed.
fn check_machine(report: &mut Report, has_nvidia: bool) {
    let (gpus, problems) = machine::gpus();
    for gpu in &gpus {
        let device = &gpu.device;
        let used = gpu.memory_used.map(|used| format!(", {} used", bytes(used))).unwrap_or_default();
        let address = gpu.address().map(|address| format!(" at {address}")).unwrap_or_default();
        let found = format!(
            "{}{address}, {}{used}, driver {}, {}",
            device.model,
            bytes(device.memory),
            device.driver,
            device.uuid
        );
        report.add(Finding::Good, &format!("{} GPU", device.vendor()), &found, "");
    }
    for problem in problems.iter().filter(|_| has_nvidia) {
        let remedy = "`remora agent` and the provider library need it to offer NVIDIA GPUs; it is part of NVIDIA's driver";
        report.add(Finding::Absent, "NVIDIA's management library", problem, remedy);
    }
}

/// Loads NVIDIA's driver and prints the names of its GPUs.
pub fn probe_cuda(library: Option<&Path>) -> Result<ExitCode> {
    match backend_cuda::Cuda::names(library) {
        Ok(names) => crate::output::outln!("ready: {}", names.join(", ")),
        Err(error) => crate::output::outln!("{} (status {})", error.text, error.code.0),
    }
    Ok(ExitCode::SUCCESS)
}

/// Loads AMD's runtime and prints its GPUs: their names, or one line per GPU with its PCI address, in the runtime's order.
pub fn probe_hip(library: Option<&Path>, addresses: bool) -> Result<ExitCode> {
    // The back end redirects standard output to capture kernel output, so the result is written to a duplicate.
    let mut out =
        File::from(std::io::stdout().as_fd().try_clone_to_owned().context("standard output is closed")?);
    let text = match backend_hip::Hip::open(library, None, None) {
        Ok(hip) if addresses => {
            hip.pci_addresses().iter().map(|address| format!("gpu {address}\n")).collect()
        }
        Ok(hip) => format!("ready: {}\n", hip.names().join(", ")),
        Err(error) => format!("{} (status {})\n", error.text, error.code.0),
    };
    out.write_all(text.as_bytes()).context("cannot write to standard output")?;
    Ok(ExitCode::SUCCESS)
}
