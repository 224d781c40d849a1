//! `remora.exe` under Wine: its commands against workers and a board on Linux.

use super::Site;
use crate::examples::Example;
use crate::foreign;
use crate::step;
use crate::windows::wine::windows_path;
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The program that `remora.exe run` runs.
const PROGRAM: &str = "saxpy";
/// A problem of the board, and a solution.
const PROBLEM: &str = "vector-addition";
const SOLUTION: &str = r#"#include <hip/hip_runtime.h>
//!grid (n+255)/256
//!block 256
extern "C" __global__ void solution(const float* input1, const float* input2, float* output, size_t n) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) output[i] = input1[i] + input2[i];
}
"#;
/// Timeout for the board to start.
const BOARD_START: Duration = Duration::from_secs(60);

/// Runs every command and checks what it prints.
pub fn run(site: &Site<'_>, folder: &Path, programs: &[Example]) -> Result<()> {
    step::heading("remora.exe under Wine");
    let remora = folder.join("remora.exe");
    let program = programs.iter().find(|it| it.name == PROGRAM).context("the program was not compiled")?;
    let program = windows_path(&program.program);
    let worker = site.plain.address().to_string();
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("tcp", &["devices"], &["AMD Instinct MI300X", "gfx942"]),
        ("tls", &["devices"], &["AMD Instinct MI300X", "gfx942"]),
        ("tcp", &["devices", "--json"], &["\"isa\""]),
        ("tcp", &["doctor"], &["amdhip64_7.dll", "answers", "All required parts were found."]),
        ("tcp", &["top", "--once", "--interval", "0.1"], &["AMD Instinct MI300X"]),
        ("tcp", &["version"], &["amdhip64_6.dll"]),
        ("tcp", &["config"], &[r"remora\config.toml", "REMORA_WORKER"]),
        ("tcp", &["run", "--", &program], &["PASS saxpy"]),
        ("tls", &["run", "--", &program], &["PASS saxpy"]),
        ("tcp", &["run", "--worker", &worker, "--", &program], &["PASS saxpy"]),
    ];
    for (scheme, arguments, expected) in cases {
        let printed = printed(&mut site.remora_command(&remora, arguments, scheme), true)?;
        check(arguments, &printed, expected)?;
    }
    missing_worker(site, &remora, &program)?;
    impaired(site, &remora, &program)?;
    submit(site, &remora)?;
    Ok(())
}

/// Fails unless the output has every expected text and no escape sequence: it is no console.
fn check(arguments: &[&str], printed: &str, expected: &[&str]) -> Result<()> {
    let line = format!("remora.exe {}", arguments.join(" "));
    for text in expected {
        if !printed.contains(text) {
            bail!("`{line}` did not print \"{text}\":\n{printed}");
        }
    }
    if printed.contains('\x1b') {
        bail!("`{line}` printed escape sequences to a file:\n{printed:?}");
    }
    step::progress(&format!("{line}: right"));
    Ok(())
}

/// Runs a command; returns what it printed to both streams.
fn printed(command: &mut Command, succeeds: bool) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().context("cannot start Wine")?;
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() != succeeds {
        bail!("`{}` ended with {}:\n{text}", step::command_line(command), output.status);
    }
    Ok(text)
}

/// Without a worker, the message says what to do.
fn missing_worker(site: &Site<'_>, remora: &Path, program: &str) -> Result<()> {
    for arguments in [&["run", "--", program][..], &["devices"], &["doctor"]] {
        let mut command = site.wine.bare_command(remora, arguments);
        check(arguments, &printed(&mut command, false)?, &["REMORA_WORKER"])?;
    }
    let arguments = ["run", "--", r"C:\no-such-program.exe"];
    check(&arguments, &printed(&mut site.remora_command(remora, &arguments, "tcp"), false)?, &["not found"])
}

/// A program through the proxy of `remora.exe impair`.
fn impaired(site: &Site<'_>, remora: &Path, program: &str) -> Result<()> {
    let worker = site.plain.address().to_string();
    let mut proxy = site.remora_command(remora, &["impair", "--to", &worker, "--delay", "5"], "tcp");
    proxy.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut proxy = Ended(proxy.spawn().context("cannot start Wine")?);
    let mut line = String::new();
    let output = proxy.0.stdout.take().context("the proxy has no standard output")?;
    BufReader::new(output).read_line(&mut line)?;
    let address =
        line.trim().strip_prefix("listening on ").with_context(|| format!("impair printed: {line}"))?;
    let arguments = ["run", "--worker", address, "--", program];
    check(&arguments, &printed(&mut site.remora_command(remora, &arguments, "tcp"), true)?, &["PASS saxpy"])
}

/// A submission to a board of its own.
fn submit(site: &Site<'_>, remora: &Path) -> Result<()> {
    let folder = site.folder.join("board");
    foreign::remove(&folder)?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let log = site.repo.logs().join("windows-board.log");
    let file = fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut serve = Command::new(site.remora);
    serve.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&folder);
    serve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
    let _board = Ended(serve.spawn().context("cannot start the board")?);
    let url = wait_for_url(&log)?;
    let source = folder.join("kernel.hip");
    fs::write(&source, SOLUTION).with_context(|| format!("cannot write {}", source.display()))?;
    let source = windows_path(&source);
    let arguments = ["submit", &source, "--problem", PROBLEM, "--endpoint", "checker", "--server", &url];
    check(&arguments, &printed(&mut site.remora_command(remora, &arguments, "tcp"), true)?, &["cases passed"])
}

/// The address that the board logs when it is ready.
fn wait_for_url(log: &Path) -> Result<String> {
    let started = Instant::now();
    while started.elapsed() < BOARD_START {
        let text = fs::read_to_string(log).unwrap_or_default();
        if let Some((_, rest)) = text.split_once("the board listens on ") {
            return Ok(rest.split_whitespace().next().unwrap_or_default().to_owned());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    bail!("the board did not start; its log: {}", log.display())
}

/// A process that is ended on drop.
#[derive(Debug)]
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
