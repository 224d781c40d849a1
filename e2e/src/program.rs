//! HIP test programs, compiled by common compilers and cached by a hash of their inputs.
//!
//! They are linked against AMD's libraries, never against ours, so they are unmodified HIP programs.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::worker::Worker;
use crate::{Ended, Running, artefact, env};

const CLANG: &str = "/usr/lib/llvm-19/bin/clang++";
const HIPCC: &str = "/usr/bin/hipcc";
const VENDOR: &str = "vendor/usr/lib/x86_64-linux-gnu";
const BITCODE: &str = "device-libs/usr/lib/llvm-17/lib/clang/17/amdgcn/bitcode";

/// A compiled program.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
}

impl Program {
    /// A program of `examples/hip`, built by clang 19 for gfx942 with HIP 6.
    pub fn example(name: &str) -> Program {
        Recipe::example(name).build()
    }

    /// A program of `e2e/programs`, built the same way.
    pub fn test(name: &str) -> Program {
        Recipe::test(name).build()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A command that runs the program with our client libraries, without a configured worker.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.env("LD_LIBRARY_PATH", artefact::library_folder());
        for variable in ["TF_WORKER_HOST", "TF_WORKER_PORT", "TF_DEBUG", "HIP_VISIBLE_DEVICES"] {
            command.env_remove(variable);
        }
        for variable in [
            "WORKER",
            "URL",
            "TOKEN",
            "TOKEN_FILE",
            "TLS_CA",
            "CONNECT_TIMEOUT",
            "SILENCE_TIMEOUT",
            "STRICT",
            "STATS",
            "MAPPED",
            "TRACE",
            "SUMMARY",
            "SHARED_MEMORY",
            "LINKS",
        ] {
            command.env_remove(format!("REMORA_{variable}"));
        }
        command
    }

    /// A command that runs it on a worker.
    pub fn on(&self, worker: &Worker) -> Command {
        let mut command = self.command();
        command.env("TF_WORKER_HOST", worker.host()).env("TF_WORKER_PORT", worker.port().to_string());
        command
    }

    /// Runs it on a worker and waits until it exits.
    pub fn run(&self, worker: &Worker, arguments: &[&str]) -> Ended {
        Running::start(self.on(worker).args(arguments)).finish()
    }
}

/// Sources and options of a program to compile.
#[derive(Debug, Clone)]
pub struct Recipe {
    source: PathBuf,
    name: String,
    hipcc: bool,
    architectures: Vec<String>,
    flags: Vec<String>,
    link_flags: Vec<String>,
    /// Major version of HIP whose headers and library are used.
    series: u32,
    code_object: bool,
}

impl Recipe {
    pub fn example(name: &str) -> Recipe {
        Recipe::new("examples/hip", name)
    }

    pub fn test(name: &str) -> Recipe {
        Recipe::new("e2e/programs", name)
    }

    /// A program whose source file the test has written.
    pub fn file(source: &Path) -> Recipe {
        let name = source.file_stem().expect("the file has a name").to_string_lossy().into_owned();
        Recipe { source: source.to_owned(), ..Recipe::new("", &name) }
    }

    fn new(folder: &str, name: &str) -> Recipe {
        Recipe {
            source: env::workspace().join(folder).join(format!("{name}.hip")),
            name: name.to_owned(),
            hipcc: false,
            architectures: vec!["gfx942".to_owned()],
            flags: Vec::new(),
            link_flags: Vec::new(),
            series: 6,
            code_object: false,
        }
    }

    /// Uses Debian's hipcc with its compiler, headers and library (HIP 5).
    pub fn by_hipcc(mut self) -> Recipe {
        self.hipcc = true;
        self.series = 5;
        self
    }

    pub fn for_architectures(mut self, architectures: &[&str]) -> Recipe {
        self.architectures = architectures.iter().map(|&name| name.to_owned()).collect();
        self
    }

    pub fn with_flag(mut self, flag: &str) -> Recipe {
        self.flags.push(flag.to_owned());
        self
    }

    /// Adds a flag for the linker only. `$ORIGIN` in an RPATH is the folder of the program file.
    pub fn with_link_flag(mut self, flag: &str) -> Recipe {
        self.link_flags.push(flag.to_owned());
        self
    }

    /// Uses headers and library of this HIP major version, 6 or 7.
    pub fn with_series(mut self, series: u32) -> Recipe {
        self.series = series;
        self
    }

    /// Compiles only the device code, to a file for hipModuleLoad.
    pub fn as_code_object(mut self) -> Recipe {
        self.code_object = true;
        self
    }

    /// Compiles the program, unless it is in the cache.
    pub fn build(&self) -> Program {
        let commands = |output: &Path| {
            if self.hipcc {
                vec![self.hipcc_command(output)]
            } else if self.code_object {
                vec![self.code_object_command(output)]
            } else {
                let object = output.with_extension("o");
                vec![self.compile_command(&object), self.link_command(&object, output)]
            }
        };
        let folder = env::program_cache().join(self.hash(&commands(Path::new("output"))));
        fs::create_dir_all(&folder)
            .unwrap_or_else(|error| panic!("cannot create {}: {error}", folder.display()));
        let path = folder.join(&self.name);
        let _lock = lock(&folder.join("lock"));
        if !path.exists() {
            let fresh = folder.join("fresh");
            for mut command in commands(&fresh) {
                run(&mut command);
            }
            fs::rename(&fresh, &path).expect("the compiler made its output");
        }
        Program { path }
    }

    fn hipcc_command(&self, output: &Path) -> Command {
        let mut command = Command::new(artefact::system(HIPCC));
        command.args(["-x", "hip", "-std=c++17", "-O2"]);
        command.arg("-I").arg(env::workspace().join("examples/hip"));
        self.add_architectures(&mut command);
        command.args(&self.flags).arg(&self.source).arg("-o").arg(output);
        command
    }

    fn compile_command(&self, object: &Path) -> Command {
        let mut command = self.clang();
        command.arg("-c").arg(&self.source).arg("-o").arg(object);
        command
    }

    fn code_object_command(&self, output: &Path) -> Command {
        let mut command = self.clang();
        command.args(["--offload-device-only", "--no-gpu-bundle-output"]);
        command.arg(&self.source).arg("-o").arg(output);
        command
    }

    fn clang(&self) -> Command {
        let hip = artefact::toolchain(if self.series == 7 { "hip7/usr" } else { "hip/usr" });
        let mut command = Command::new(artefact::system(CLANG));
        command.args(["-x", "hip", "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror"]);
        self.add_architectures(&mut command);
        command.arg(format!("--rocm-path={}", hip.display()));
        command.arg(format!("--rocm-device-lib-path={}", artefact::toolchain(BITCODE).display()));
        command.arg("-isystem").arg(hip.join("include"));
        command.arg("-I").arg(env::workspace().join("examples/hip"));
        command.args(&self.flags);
        command
    }

    fn link_command(&self, object: &Path, output: &Path) -> Command {
        let library = artefact::toolchain(&format!("{VENDOR}/libamdhip64.so.{}", self.series));
        let mut command = Command::new(artefact::system(CLANG));
        command.arg(object).arg("-o").arg(output).arg(library).arg("-pthread");
        // AMD's library depends on others that may not be installed.
        command.arg("-Wl,--allow-shlib-undefined");
        command.args(&self.link_flags);
        command
    }

    fn add_architectures(&self, command: &mut Command) {
        command.args(self.architectures.iter().map(|name| format!("--offload-arch={name}")));
    }

    fn hash(&self, commands: &[Command]) -> String {
        let mut hasher = Sha256::new();
        for source in [&self.source, &env::workspace().join("examples/hip/check.h")] {
            let text =
                fs::read(source).unwrap_or_else(|error| panic!("cannot read {}: {error}", source.display()));
            hasher.update((text.len() as u64).to_le_bytes());
            hasher.update(text);
        }
        for command in commands {
            hasher.update(format!("{command:?}"));
        }
        let digest = hasher.finalize();
        digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>() + "-" + &self.name
    }
}

/// The symbol versions that an ELF file requires of a library, as readelf prints them.
pub fn version_needs(file: &Path, library: &str) -> Vec<String> {
    let output = Command::new("readelf").args(["-V", "-W"]).arg(file).output().expect("readelf is installed");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut needs = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if let Some((_, file)) = line.split_once("File: ") {
            inside = file.split_whitespace().next() == Some(library);
        } else if let (true, Some((_, name))) = (inside, line.split_once("Name: ")) {
            needs.extend(name.split_whitespace().next().map(str::to_owned));
        }
    }
    needs
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Takes an exclusive file lock between threads and processes; released on drop.
fn lock(path: &Path) -> File {
    let file = File::options()
        .create(true)
        .append(true)
        .open(path)
        .unwrap_or_else(|error| panic!("cannot open {}: {error}", path.display()));
    // SAFETY: flock takes no pointers; `file` keeps the descriptor open.
    while unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } != 0 {
        let error = std::io::Error::last_os_error();
        assert_eq!(error.kind(), std::io::ErrorKind::Interrupted, "cannot lock {}: {error}", path.display());
    }
    file
}
