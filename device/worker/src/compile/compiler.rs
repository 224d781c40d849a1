//! Run-time compilation: compiles HIP source to a code object with a clang on this machine.
//!
//! The compiler reads untrusted source, so it runs in a sandbox. It sees the submitted sources, HIP's headers, the device
//! libraries and itself, all read-only; it has no network; its time, memory, processes and files are limited. Successful results
//! are cached on disk by the hash of all inputs. Runs in the compiler service of a session (`service.rs`), never in the
//! session's own process.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use hip_api::types::{HIPRTC_ERROR_COMPILATION, HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID, HIPRTC_SUCCESS};
use sandbox::{IsolationRange, Level, Limits, Stop};
use toolchain::{Toolchain, ToolchainProblem};

use crate::compile::budget::CompileBudget;
use crate::compile::cache::CompileCache;
use crate::compile::name_expression;
use crate::compile::options::{Options, relative};
use crate::compile::prelude;
use crate::compile::task::{CompileError, CompilerConfig, MAX_CODE_BYTES, Request, Response, finished};

/// Output file of the compiler or linker, in the private folder.
pub(crate) const OUTPUT: &str = "program.out";
/// Folder of the sources, in the private folder.
const SOURCES: &str = "sources";
const PROGRAM: &str = "program.hip";

/// Limits of one compiler or linker. The CPU time of each process is limited here; that of a session by its compute limit.
fn limits() -> Limits {
    Limits {
        wall: Duration::from_secs(300),
        cpu: Duration::from_secs(300),
        memory: 3 << 30,
        output: 1 << 20,
        file: 256 << 20,
        folder: 512 << 20,
        processes: 64,
    }
}

/// The run-time compiler of a worker.
#[derive(Debug)]
pub struct Compiler {
    toolchain: Result<Toolchain, ToolchainProblem>,
    cache: Option<CompileCache>,
    isolation: IsolationRange,
    limits: Limits,
    budget: Option<CompileBudget>,
}

impl Compiler {
    /// Finds the toolchain and opens the cache.
    pub fn new(config: &CompilerConfig) -> Compiler {
        let least = if config.unconfined { Level::Limited } else { Level::Restricted };
        Compiler {
            toolchain: Toolchain::find(config.toolchain.as_deref()),
            cache: config.cache.clone().map(CompileCache::new),
            isolation: IsolationRange { least, most: Level::Namespaces },
            limits: limits(),
            budget: None,
        }
    }

    /// Overrides the levels of confinement. For tests of each level.
    pub fn with_isolation(self, isolation: IsolationRange) -> Compiler {
        Compiler { isolation, ..self }
    }

    /// Overrides the limits. For tests of each limit.
    pub fn with_limits(self, limits: Limits) -> Compiler {
        Compiler { limits, ..self }
    }

    /// Charges the compiler's CPU time to a session's compute limit.
    pub(crate) fn with_budget(self, budget: Option<CompileBudget>) -> Compiler {
        Compiler { budget, ..self }
    }

    pub(crate) fn toolchain(&self) -> Result<&Toolchain, CompileError> {
        Ok(self.toolchain.as_ref().map_err(Clone::clone)?)
    }

    /// Returns how this machine confines the compiler, or why it cannot.
    pub fn confinement(&self) -> Result<&'static str, CompileError> {
        let command = confined(self.toolchain()?).arguments(["--version"]);
        let ended = command.limits(self.limits.clone()).isolation(self.isolation).run()?;
        Ok(ended.level.name())
    }

    /// Compiles, or returns the cached result of an equal request.
    pub fn compile(&self, request: &Request) -> Response {
        self.try_compile(request)
            .unwrap_or_else(|error| finished(error.status(), crate::error::one_line(&error)))
    }

    fn try_compile(&self, request: &Request) -> Result<Response, CompileError> {
        let toolchain = self.toolchain()?;
        let options = Options::parse(&request.options, &request.isa)?;
        let key = CompileCache::key(toolchain, request);
        if let Some(response) = self.cache.as_ref().and_then(|cache| cache.get(&key)) {
            return Ok(response);
        }
        let response = self.build(toolchain, request, &options, &key)?;
        if response.status == HIPRTC_SUCCESS
            && let Some(cache) = &self.cache
        {
            cache.keep(&key, &response);
        }
        Ok(response)
    }

    fn build(
        &self,
        toolchain: &Toolchain,
        request: &Request,
        options: &Options,
        key: &str,
    ) -> Result<Response, CompileError> {
        // Clang derives a unique id for internal symbols from the source's path. In the sandbox all paths are equal, and programs
        // that are linked together would define the same symbol, so the id is set explicitly.
        let id = format!("-cuid={}", &key[..16]);
        let result = self.run(command(toolchain, request, options)?.arguments([id]))?;
        let (code, log) = match result {
            Ran { code: Some(code), log } => (code, log),
            Ran { code: None, log } => {
                let names = log.contains("name expression:") && !log.contains("program.hip:");
                let status =
                    if names { HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID } else { HIPRTC_ERROR_COMPILATION };
                return Ok(finished(status, log));
            }
        };
        if options.relocatable {
            return Ok(Response { bitcode: code, ..finished(HIPRTC_SUCCESS, log) });
        }
        match name_expression::lowered(&code, &request.expressions) {
            Ok(lowered) => Ok(Response { lowered, code, ..finished(HIPRTC_SUCCESS, log) }),
            Err(text) => Ok(finished(HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID, format!("{log}{text}\n"))),
        }
    }

    /// Runs a compiler or linker that writes [`OUTPUT`].
    pub(crate) fn run(&self, command: sandbox::Command) -> Result<Ran, CompileError> {
        let mut command = command.collect(OUTPUT).limits(self.limits.clone()).isolation(self.isolation);
        if let Some(budget) = &self.budget {
            budget.admit();
            command = command.meter(budget.meter());
        }
        let mut ended = command.run()?;
        let log = String::from_utf8_lossy(&[ended.output, ended.error].concat()).into_owned();
        match ended.stop {
            Stop::Exited(0) => {}
            // Diagnostics beyond the limit are cut off; the rest is still returned.
            Stop::Exited(_) | Stop::Output => return Ok(Ran { code: None, log }),
            Stop::Time => return Err(CompileError::TooSlow(self.limits.wall)),
            Stop::Memory => return Err(CompileError::TooMuchMemory(self.limits.memory)),
            Stop::Folder => return Err(CompileError::TooManyFiles(self.limits.folder)),
            Stop::Signalled(signal) => return Err(CompileError::Signalled(signal)),
            Stop::Cancelled => return Err(CompileError::Cancelled),
        }
        let code = ended.collected.pop().flatten().ok_or(CompileError::NoResult)?;
        if code.len() as u64 > MAX_CODE_BYTES {
            return Err(CompileError::TooLarge(code.len() as u64));
        }
        Ok(Ran { code: Some(code), log })
    }
}

/// Output of a compiler or linker; no code if it failed.
pub(crate) struct Ran {
    pub code: Option<Vec<u8>>,
    pub log: String,
}

/// Builds a sandboxed compiler or linker command that can read the toolchain.
pub(crate) fn confined(toolchain: &Toolchain) -> sandbox::Command {
    let mut command = sandbox::Command::new(&toolchain.clang);
    for path in toolchain.files() {
        command = command.visible(path);
    }
    match toolchain.library_path() {
        Some(folder) => command.environment("LD_LIBRARY_PATH", folder),
        None => command,
    }
}

/// Builds the compiler command with the sources of a request.
fn command(
    toolchain: &Toolchain,
    request: &Request,
    options: &Options,
) -> Result<sandbox::Command, CompileError> {
    let mut command = confined(toolchain).start_folder(SOURCES);
    // If headers share a name, the last one wins; none may replace the program itself.
    let mut headers = BTreeMap::new();
    for (name, text) in &request.headers {
        let path = relative(name).ok_or_else(|| CompileError::HeaderName(name.clone()))?;
        let path: PathBuf = path.components().filter(|part| *part != Component::CurDir).collect();
        headers.insert(path, text);
    }
    headers.remove(Path::new(PROGRAM));
    for (path, text) in headers {
        command = command.file(format!("{SOURCES}/{}", path.display()), text.as_bytes());
    }
    let source = format!(
        "#line 1 \"{}\"\n{}{}",
        request.name.replace(['"', '\\', '\n'], "_"),
        request.source,
        name_expression::probes(&request.expressions)
    );
    command = command
        .file(format!("{SOURCES}/{PROGRAM}"), source)
        .arguments(["-x", "hip", "--offload-device-only", "--no-gpu-bundle-output", "-O3", "-D__HIPCC_RTC__"])
        .arguments([
            format!("--offload-arch={}", options.target),
            format!("-std={}", options.standard.as_deref().unwrap_or("c++17")),
            format!("--rocm-path={}", toolchain.hip.display()),
            format!("--rocm-device-lib-path={}", toolchain.device_libs.display()),
            format!("-isystem{}", toolchain.hip.join("include").display()),
        ])
        .arguments(["-I.", "-Wno-unused-command-line-argument"]);
    if options.alone {
        command = command.arguments(["-ffreestanding", "-nogpuinc"]);
    } else {
        command = command.file("prelude.h", prelude::text()).arguments(["-include", "../prelude.h"]);
    }
    let relocatable = if options.relocatable { &["-fgpu-rdc", "-emit-llvm", "-c"][..] } else { &[] };
    Ok(command
        .arguments(&options.passed)
        .arguments(relocatable.iter().copied())
        .arguments([PROGRAM, "-o"])
        .arguments([format!("../{OUTPUT}")]))
}
