//! Compiler command lines. The compiler driver is queried once for the commands it would run (`-###`); the judge then runs these directly,
//! with precompiled headers.
//!
//! The results are cached in the cache folder, keyed by a hash of everything they depend on.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox::{Command, Limits, SandboxError};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::tools::{LIBRARY, Tools};

/// Part of every hash, so that cache entries of older versions are not used.
const VERSION: &str = "5";

/// File name of a source in compiler messages.
pub(crate) const SOURCE: &str = "solution.hip";

/// Option of the linker. It would start a thread per processor, and where namespaces are denied the sandbox limits the threads of all
/// submissions together.
const ONE_THREAD: &str = "--threads=1";

/// File name of precompiled headers in the sandbox.
const PRECOMPILED: &str = "headers.pch";

/// Headers to precompile, if they exist.
const HEADERS: &[&str] = &["hip/hip_runtime.h", "hip/hip_fp16.h", "hip/hip_bf16.h", "hip/hip_bfloat16.h"];
const HOST_HEADERS: &[&str] = &["cmath", "cstdint", "cstdio", "cstdlib", "cstring", "algorithm", "vector"];

/// Why a compiler cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// A file could not be read or written.
    #[error("{what}")]
    Io {
        /// The file.
        what: String,
        /// The cause.
        source: io::Error,
    },
    /// The driver could not be run.
    #[error("the compiler could not be run")]
    Sandbox(#[from] SandboxError),
    /// The driver does not say how it would do something.
    #[error("the compiler driver printed no command for {what}: {said}")]
    Driver {
        /// What was requested.
        what: &'static str,
        /// Output of the driver.
        said: String,
    },
    /// The headers could not be precompiled.
    #[error("precompiling the headers failed: {0}")]
    Headers(String),
}

/// Side of a source to compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Device,
    Host,
}

/// Compiler commands, as argument lists that begin with the program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Recipe {
    /// Compiles a source to an object; without precompiled headers, input and output.
    device: Vec<String>,
    host: Vec<String>,
    /// Links objects to device code; the objects are appended.
    pub device_link: Vec<String>,
    /// Links an object to a program.
    pub host_link: Vec<String>,
    pub key: String,
    #[serde(skip)]
    folder: PathBuf,
}

impl Recipe {
    /// Reads the recipe from the cache, or queries the driver.
    pub fn find(tools: &Tools, target: &str) -> Result<Recipe, RecipeError> {
        let key = key(tools, target)?;
        let folder = tools.cache.join("recipes").join(&key);
        let file = folder.join("recipe.json");
        if let Some(mut kept) =
            fs::read(&file).ok().and_then(|text| serde_json::from_slice::<Recipe>(&text).ok())
        {
            kept.folder = folder;
            return Ok(kept);
        }
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        let recipe = Recipe {
            device: ask(tools, target, "device code", &["--offload-device-only", "-c"], "\"-cc1\"")?,
            host: ask(tools, target, "host code", &["--offload-host-only", "-c", "-fPIE"], "\"-cc1\"")?,
            device_link: device_link(tools)?,
            host_link: host_link(tools)?,
            key,
            folder,
        };
        let text = serde_json::to_vec(&recipe).unwrap_or_default();
        write_atomically(&file, &text).map_err(at(&file))?;
        Ok(recipe)
    }

    /// Returns the command that compiles [`SOURCE`] in its working folder to `output`.
    pub fn compile(
        &self,
        side: Side,
        precompiled: Option<&Path>,
        extra: &[&str],
        output: &str,
    ) -> Vec<String> {
        let mut command = match side {
            Side::Device => self.device.clone(),
            Side::Host => self.host.clone(),
        };
        if let Some(headers) = precompiled {
            // The precompiled headers already include this one.
            if let Some(place) = command.iter().position(|argument| argument == "-include") {
                command.drain(place..place + 2);
            }
            command.extend(["-include-pch".to_owned(), headers.display().to_string()]);
        }
        command.extend(extra.iter().map(|&argument| argument.to_owned()));
        command.extend(["-o", output, "-x", "hip", SOURCE].map(str::to_owned));
        command
    }

    /// Returns the precompiled headers of a side. Creates them if they are missing, which takes seconds.
    pub fn precompiled(&self, tools: &Tools, side: Side) -> Result<PathBuf, RecipeError> {
        let name = match side {
            Side::Device => "device",
            Side::Host => "host",
        };
        let result = self.folder.join(format!("{name}.pch"));
        if result.is_file() {
            return Ok(result);
        }
        let _alone = lock(&self.folder.join("lock")).map_err(at(&self.folder))?;
        if result.is_file() {
            return Ok(result);
        }
        let mut text = String::new();
        let mut include = |header: &str| text.push_str(&format!("#include <{header}>\n"));
        HEADERS
            .iter()
            .filter(|name| tools.toolchain.hip.join("include").join(name).is_file())
            .for_each(|name| include(name));
        HOST_HEADERS.iter().for_each(|name| include(name));
        let header = self.folder.join(format!("{name}.h"));
        fs::write(&header, text).map_err(at(&header))?;
        let mut command = match side {
            Side::Device => self.device.clone(),
            Side::Host => self.host.clone(),
        };
        for argument in &mut command {
            if argument == "-emit-obj" {
                *argument = "-emit-pch".to_owned();
            }
        }
        command.extend(["-o", PRECOMPILED, "-x", "hip"].map(str::to_owned));
        command.push(header.display().to_string());
        let jailed =
            jailed(tools, &command[0]).arguments(&command[1..]).visible(&header).collect(PRECOMPILED);
        let mut ended = jailed.run()?;
        match ended.collected.pop().flatten().filter(|_| ended.success()) {
            // World-readable, because the compiler runs as another user.
            Some(content) => {
                let fresh = self.folder.join(format!("{name}.{}.fresh", std::process::id()));
                fs::write(&fresh, content).map_err(at(&fresh))?;
                fs::rename(&fresh, &result).map_err(at(&result))?;
            }
            None => return Err(RecipeError::Headers(String::from_utf8_lossy(&ended.error).into_owned())),
        }
        Ok(result)
    }
}

/// Returns whether a source can use precompiled headers: nothing before its last include may change their meaning.
pub(crate) fn may_use_precompiled(source: &str) -> bool {
    let directive = |line: &str, name: &str| {
        line.trim_start().strip_prefix('#').is_some_and(|rest| rest.trim_start().starts_with(name))
    };
    let last_include = source.lines().enumerate().filter(|(_, line)| directive(line, "include")).last();
    let before = last_include.map_or(0, |(index, _)| index);
    !source.lines().take(before).any(|line| {
        ["define", "undef", "if", "pragma"].iter().any(|name| directive(line, name)) && !line.contains("once")
    })
}

/// Hashes everything the compiler's behaviour depends on.
fn key(tools: &Tools, target: &str) -> Result<String, RecipeError> {
    let clang = tools.toolchain.clang.canonicalize().map_err(at(&tools.toolchain.clang))?;
    let mut hasher = Sha256::new();
    let mut add = |text: &str| {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    };
    add(VERSION);
    add(target);
    for path in [&clang, &tools.toolchain.hip, &tools.toolchain.device_libs, &tools.libraries] {
        let data = fs::metadata(path).map_err(at(path))?;
        add(&path.display().to_string());
        add(&format!("{} {}", data.size(), data.mtime()));
    }
    Ok(hex(&hasher.finalize()))
}

/// Queries the driver for the commands it would run, and returns the one that contains a marker.
fn ask(
    tools: &Tools,
    target: &str,
    what: &'static str,
    flags: &[&str],
    mark: &str,
) -> Result<Vec<String>, RecipeError> {
    let Tools { toolchain, .. } = tools;
    let command = jailed(tools, &toolchain.clang)
        .arguments(["-###", "-x", "hip", "-std=c++17", "-O3", "-gline-tables-only", "-fuse-cuid=none"])
        // Keeps local paths out of the debug information.
        .arguments(["-fdebug-compilation-dir=.".to_owned(), format!("--offload-arch={target}")])
        .arguments([
            "--no-gpu-bundle-output".to_owned(),
            format!("--rocm-path={}", toolchain.hip.display()),
            format!("--rocm-device-lib-path={}", toolchain.device_libs.display()),
            "-isystem".to_owned(),
            toolchain.hip.join("include").display().to_string(),
        ])
        .arguments(flags.iter().copied())
        .arguments([SOURCE, "-o", "output.o"]);
    let (lines, said) = dry_run(command)?;
    let line = lines.into_iter().find(|line| line.contains(mark));
    let mut command = line.map(|line| split(&line)).ok_or(RecipeError::Driver { what, said })?;
    // Input and output are added later, so remove the options that name the dummy source.
    for flag in ["-o", "-x", "-main-file-name", "-dumpdir"] {
        if let Some(place) = command.iter().rposition(|argument| argument == flag) {
            command.drain(place..(place + 2).min(command.len()));
        }
    }
    command.retain(|argument| argument != SOURCE);
    command.extend(["-main-file-name".to_owned(), SOURCE.to_owned()]);
    Ok(command)
}

fn device_link(tools: &Tools) -> Result<Vec<String>, RecipeError> {
    let linker = linker(tools)?;
    let arguments = ["-flavor", "gnu", "-m", "elf64_amdgpu", "--no-undefined", "-shared", ONE_THREAD];
    Ok([linker].into_iter().chain(arguments.map(str::to_owned)).collect())
}

/// Returns the path of lld, next to the compiler.
fn linker(tools: &Tools) -> Result<String, RecipeError> {
    let clang = tools.toolchain.clang.canonicalize().map_err(at(&tools.toolchain.clang))?;
    let beside = clang.parent().unwrap_or(Path::new("/")).join("lld");
    if beside.is_file() {
        return Ok(beside.display().to_string());
    }
    Err(RecipeError::Driver { what: "the linker", said: format!("{} not found", beside.display()) })
}

fn host_link(tools: &Tools) -> Result<Vec<String>, RecipeError> {
    let library = tools.libraries.join(LIBRARY);
    let command = jailed(tools, &tools.toolchain.clang)
        .arguments(["-###", "-fuse-ld=lld", "-pie", "-o", "output", "input.o", "-pthread"])
        .arguments([&library])
        .visible(&library);
    let (lines, said) = dry_run(command)?;
    let line = lines.into_iter().find(|line| line.contains("input.o"));
    let what = "linking programs";
    let mut link = line.map(|line| split(&line)).ok_or(RecipeError::Driver { what, said })?;
    link[0] = linker(tools)?;
    link.splice(1..1, ["-flavor", "gnu", ONE_THREAD].map(str::to_owned));
    Ok(link)
}

/// Builds a sandboxed compiler command that reads only the compiler's own files. It is confined like those that read submitted sources.
fn jailed(tools: &Tools, program: impl Into<PathBuf>) -> Command {
    let limits = Limits {
        wall: Duration::from_secs(300),
        cpu: Duration::from_secs(300),
        memory: 3 << 30,
        file: 256 << 20,
        folder: 512 << 20,
        ..Limits::default()
    };
    with_toolchain(tools, Command::new(program).limits(limits).isolation(tools.isolation))
}

fn dry_run(command: Command) -> Result<(Vec<String>, String), RecipeError> {
    // The driver checks that its inputs exist, but does not read them.
    let ended = command.file(SOURCE, "").file("input.o", "").run()?;
    let said = String::from_utf8_lossy(&ended.error).into_owned();
    Ok((said.lines().filter(|line| line.starts_with(" \"")).map(str::to_owned).collect(), said))
}

/// Splits a command line printed by the driver into arguments. They are quoted, with backslashes before quotes, backslashes and dollars.
fn split(line: &str) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character != '"' {
            continue;
        }
        let mut argument = String::new();
        while let Some(character) = characters.next() {
            match character {
                '"' => break,
                '\\' => argument.extend(characters.next()),
                character => argument.push(character),
            }
        }
        arguments.push(argument);
    }
    arguments
}

/// Shows a sandboxed command the files of the machine that the commands of a recipe read.
pub(crate) fn with_toolchain(tools: &Tools, mut command: Command) -> Command {
    for path in tools.toolchain.files() {
        command = command.visible(path);
    }
    match tools.toolchain.library_path() {
        Some(folder) => command.environment("LD_LIBRARY_PATH", folder),
        None => command,
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let file = tempfile::NamedTempFile::new_in(folder)?;
    fs::write(file.path(), bytes)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn at(path: &Path) -> impl Fn(io::Error) -> RecipeError {
    let what = path.display().to_string();
    move |source| RecipeError::Io { what: what.clone(), source }
}

/// Locks a file against other threads and processes until the returned file is dropped.
fn lock(path: &Path) -> io::Result<File> {
    let file = File::options().create(true).append(true).open(path)?;
    // SAFETY: a system call on an open file descriptor.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_driver_are_split_at_their_quotes() {
        assert_eq!(split(r#" "/usr/bin/ld" "-a b" "q\"\\\$""#), ["/usr/bin/ld", "-a b", "q\"\\$"]);
        assert!(split("").is_empty());
    }

    #[test]
    fn a_source_that_changes_what_headers_mean_reads_them_itself() {
        assert!(may_use_precompiled("#include <hip/hip_runtime.h>\n#define N 3\n"));
        assert!(may_use_precompiled("__global__ void f();"));
        assert!(!may_use_precompiled("#define X\n#include <hip/hip_runtime.h>\n"));
        assert!(!may_use_precompiled("#include <cmath>\n # define X\n#include <hip/hip_runtime.h>\n"));
    }
}
