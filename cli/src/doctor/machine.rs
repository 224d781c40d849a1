//! What only a machine with workers needs: a processor for software GPUs, compilers, and the vendors' runtimes.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use worker::{Compiler, CompilerConfig, Toolchain};

use super::{Finding, Report};
use crate::compiler;
use crate::devices::bytes;
use crate::env::Environment;
use crate::os::library::AUDIT;

/// Checks everything but the client's libraries and the worker.
pub fn check(report: &mut Report, environment: &Environment) {
    check_processor(report);
    check_compiler(report, environment);
    check_rocm(report);
    let has_nvidia = check_cuda(report);
    check_machine(report, has_nvidia);
}

/// Checks the audit library. It is optional: programs without an RPATH run without it.
pub fn check_audit(report: &mut Report, dir: &Path) {
    let path = dir.join(AUDIT);
    if path.is_file() {
        return report.add(Finding::Good, AUDIT, &path.display().to_string(), "");
    }
    let found = format!("{} not found", path.display());
    let remedy = "without it, programs with an RPATH or an absolute path load that libamdhip64 instead; build it with `cargo xtask build`";
    report.add(Finding::Absent, AUDIT, &found, remedy);
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
    let (gpus, problems) = crate::machine::gpus();
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
