//! Compiles the bench programs, and sends them commands.

use super::{ARCHITECTURE, loops};
use crate::build::Built;
use crate::examples::{ARCHITECTURES, checked};
use crate::local_worker::LocalWorker;
use crate::repo::Repo;
use crate::stamp::{Inputs, Stamp};
use crate::step;
use crate::toolchain::Toolchain;
use anyhow::{Context, Result, bail};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Kernels whose instructions are counted.
const COUNTED: &[&str] = &["fma_loop", "packed_fma_loop"];

/// The compiled programs.
#[derive(Debug, Clone)]
pub struct Programs {
    pub calls: PathBuf,
    pub remote: PathBuf,
    pub scale: PathBuf,
    pub kernels: PathBuf,
    /// The loops of `kernels` as native code.
    pub native: PathBuf,
    /// Like `native`, without AVX-512.
    pub native_v3: PathBuf,
    /// The device code of `kernels`.
    pub code_object: PathBuf,
    /// Instructions per loop iteration of each counted kernel.
    pub turns: HashMap<String, u64>,
    lib: PathBuf,
    logs: PathBuf,
}

impl Programs {
    /// Returns the programs of an earlier build.
    pub fn load(repo: &Repo, built: &Built) -> Result<Programs> {
        let mut programs = Programs::named(repo, built);
        let path = programs.turns_file();
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        programs.turns = serde_json::from_str(&text).with_context(|| format!("{}", path.display()))?;
        Ok(programs)
    }

    fn named(repo: &Repo, built: &Built) -> Programs {
        let folder = repo.target.join("bench");
        Programs {
            calls: folder.join("calls"),
            remote: folder.join("remote"),
            scale: folder.join("scale"),
            kernels: folder.join("kernels"),
            native: folder.join("native"),
            native_v3: folder.join("native-v3"),
            code_object: folder.join("kernels.co"),
            turns: HashMap::new(),
            lib: built.lib.clone(),
            logs: repo.logs(),
        }
    }

    fn turns_file(&self) -> PathBuf {
        self.code_object.with_file_name("turns.json")
    }

    /// Compiles the programs that are out of date.
    pub fn compile(repo: &Repo, toolchain: &Toolchain, built: &Built) -> Result<Programs> {
        let folder = repo.target.join("bench");
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let source = |name: &str| repo.root.join("bench").join(name);
        let mut programs = Programs::named(repo, built);
        let inputs = Inputs::new()
            .file(&source("command.h"))?
            .file(&source("calls.hip"))?
            .file(&source("remote.hip"))?
            .file(&source("scale.hip"))?
            .file(&source("kernels.hip"))?
            .file(&source("native.cpp"))?
            .text(&step::command_line(&clang(toolchain)));
        let stamp = Stamp::new(folder.join("stamp"), inputs);
        if stamp.is_fresh() {
            return Programs::load(repo, built);
        }
        step::heading("compiling the bench programs");
        let parts = [
            ("calls", &programs.calls),
            ("remote", &programs.remote),
            ("scale", &programs.scale),
            ("kernels", &programs.kernels),
        ];
        let compile = |name: &str, program: &Path| {
            let object = program.with_extension("o");
            let source = source(&format!("{name}.hip"));
            checked(clang(toolchain).arg("-c").arg(source).arg("-o").arg(&object))?;
            let mut link = Command::new(&toolchain.clang);
            link.arg(&object).arg("-o").arg(program).arg("-L").arg(&built.lib).arg("-l:libamdhip64.so.6");
            link.arg("-pthread");
            checked(&mut link)
        };
        let compile_native = |program: &Path, flags: &[&str]| {
            let mut native = Command::new(&toolchain.clang);
            native.args(["-O3", "-std=c++17"]).args(flags).arg(source("native.cpp"));
            checked(native.arg("-o").arg(program))
        };
        // Without the last option, clang uses only half of the CPU's vector width.
        let whole: &[&str] = &["-march=native", "-mprefer-vector-width=512"];
        std::thread::scope(|scope| {
            let (compile, compile_native) = (&compile, &compile_native);
            let mut running: Vec<_> =
                parts.map(|(name, program)| scope.spawn(move || compile(name, program))).into();
            for (program, flags) in [(&programs.native, whole), (&programs.native_v3, &["-march=x86-64-v3"])]
            {
                running.push(scope.spawn(move || compile_native(program, flags)));
            }
            let mut device = flags(toolchain.compile_hip(&[ARCHITECTURE]));
            device.args(["--offload-device-only", "--no-gpu-bundle-output", "-c"]).arg(source("kernels.hip"));
            checked(device.arg("-o").arg(&programs.code_object))?;
            running.into_iter().try_for_each(|thread| match thread.join() {
                Ok(result) => result.map(drop),
                Err(_) => bail!("a thread that compiled a bench program panicked"),
            })
        })?;
        for kernel in COUNTED {
            let turn = loops::instructions(&programs.code_object, kernel)?;
            programs.turns.insert((*kernel).to_owned(), turn);
        }
        fs::write(programs.turns_file(), serde_json::to_string(&programs.turns)?)?;
        stamp.write()?;
        Ok(programs)
    }

    /// The path of a log file.
    pub fn log(&self, name: &str) -> PathBuf {
        self.logs.join(format!("bench-{name}.log"))
    }

    /// Starts a program against a worker.
    pub fn start(&self, program: &Path, worker: &LocalWorker) -> Result<BenchProcess> {
        self.start_at(program, worker.address())
    }

    /// Starts a program against the worker at an address.
    pub fn start_at(&self, program: &Path, address: SocketAddr) -> Result<BenchProcess> {
        self.start_on(program, &address.to_string())
    }

    /// Like [`Programs::start_at`], with an address in the client's notation.
    pub fn start_on(&self, program: &Path, worker: &str) -> Result<BenchProcess> {
        self.start_with(program, worker, &[])
    }

    /// Like [`Programs::start_on`], with additional environment variables.
    pub fn start_with(
        &self,
        program: &Path,
        worker: &str,
        variables: &[(&str, &str)],
    ) -> Result<BenchProcess> {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", &self.lib).env("REMORA_STATS", "1");
        command.env("REMORA_WORKER", worker).envs(variables.iter().copied());
        self.spawn(program, command)
    }

    /// Starts the native loops.
    pub fn start_native(&self, program: &Path) -> Result<BenchProcess> {
        self.spawn(program, Command::new(program))
    }

    fn spawn(&self, program: &Path, command: Command) -> Result<BenchProcess> {
        // Several instances of a program may run at once.
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let log = self.log(&format!("{name}-{}", STARTED.fetch_add(1, Ordering::Relaxed) % 512));
        BenchProcess::spawn(command, log)
    }
}

fn clang(toolchain: &Toolchain) -> Command {
    let names: Vec<&str> = ARCHITECTURES.iter().map(|(architecture, _)| *architecture).collect();
    flags(toolchain.compile_hip(&names))
}

/// Keeps the compiler from merging pairs of instructions in kernels that count them.
fn flags(mut command: Command) -> Command {
    command.arg("-fno-slp-vectorize");
    command
}

/// A running bench program that waits for commands.
#[derive(Debug)]
pub struct BenchProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    log: PathBuf,
}

impl BenchProcess {
    /// Starts a program with its standard error in `log`.
    pub fn spawn(mut command: Command, log: PathBuf) -> Result<BenchProcess> {
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file);
        let mut child =
            command.spawn().with_context(|| format!("cannot start {}", step::command_line(&command)))?;
        let stdin = child.stdin.take().context("the program has no standard input")?;
        let stdout = child.stdout.take().context("the program has no standard output")?;
        Ok(BenchProcess { child, stdin: Some(stdin), stdout: BufReader::new(stdout), log })
    }

    /// The file with the program's standard error.
    pub fn log(&self) -> &Path {
        &self.log
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a command; returns the numbers of its reply.
    pub fn query(&mut self, command: &str) -> Result<Vec<u64>> {
        let stdin = self.stdin.as_mut().context("the program's standard input is closed")?;
        writeln!(stdin, "{command}").and_then(|()| stdin.flush()).with_context(|| self.gone(command))?;
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        match line.trim().strip_prefix("ok") {
            Some(numbers) => Ok(numbers.split_whitespace().map(str::parse).collect::<Result<_, _>>()?),
            None if line.is_empty() => bail!("{}", self.gone(command)),
            None => bail!("`{command}` failed: {}; log: {}", line.trim(), self.log.display()),
        }
    }

    /// Sends a command that replies with one time; returns it in seconds.
    pub fn seconds(&mut self, command: &str) -> Result<f64> {
        match self.query(command)?[..] {
            [nanoseconds] => Ok(nanoseconds as f64 * 1e-9),
            ref others => bail!("`{command}` replied with {} numbers instead of one", others.len()),
        }
    }

    /// Lets the program exit, and reads the counters of its client library.
    pub fn finish(mut self) -> Result<Counters> {
        self.stdin = None;
        let status = self.child.wait()?;
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        if !status.success() {
            bail!("a bench program exited with {status}:\n{said}");
        }
        said.lines()
            .find_map(counters)
            .with_context(|| format!("no counters in {}:\n{said}", self.log.display()))
    }

    /// Kills the program with SIGKILL, without a chance to clean up.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill().context("cannot kill a program")
    }

    fn gone(&self, command: &str) -> String {
        format!("no reply to `{command}`; log: {}", self.log.display())
    }
}

impl Drop for BenchProcess {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}

/// The counters of the client library over the life of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    pub round_trips: u64,
    pub posted: u64,
    pub sent: u64,
    pub received: u64,
    pub reconnects: u64,
}

/// `remora: 5 round trips, 7 posted, 99 bytes sent, 88 received, 0 reconnects`
fn counters(line: &str) -> Option<Counters> {
    let line = line.strip_prefix("remora: ")?;
    let number = |suffix: &str| {
        line.split(", ").find_map(|part| part.strip_suffix(suffix)).and_then(|text| text.trim().parse().ok())
    };
    Some(Counters {
        round_trips: number(" round trips")?,
        posted: number(" posted")?,
        sent: number(" bytes sent")?,
        received: number(" received")?,
        reconnects: number(" reconnects")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_are_found_in_their_line() {
        let line = "remora: 5 round trips, 7 posted, 99 bytes sent, 88 received, 0 reconnects";
        assert_eq!(
            counters(line),
            Some(Counters { round_trips: 5, posted: 7, sent: 99, received: 88, reconnects: 0 })
        );
        assert_eq!(counters("remora: connected"), None);
    }
}
