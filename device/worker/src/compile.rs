//! Run-time compilation: HIP source in, code object out, through a clang on this machine.
//!
//! A program is compiled in a folder of its own, with a time limit and only options from a known list: a client may
//! compile, not choose what the compiler reads, writes or loads. Successes are kept on disk by the hash of everything that
//! went in.

use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use hip_api::hiprtcResult;
use hip_api::types::{
    HIPRTC_ERROR_COMPILATION, HIPRTC_ERROR_INTERNAL_ERROR, HIPRTC_ERROR_INVALID_INPUT,
    HIPRTC_ERROR_INVALID_OPTION, HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID, HIPRTC_SUCCESS,
};
use sha2::{Digest, Sha256};
use wire::{Field, Reader};

use crate::name_expression;
use crate::prelude;
use toolchain::{Toolchain, ToolchainProblem};

const TIME_LIMIT: Duration = Duration::from_secs(300);
const MAX_LOG_BYTES: u64 = 1 << 20;
const MAX_CODE_BYTES: u64 = 12 << 20;
/// When the kept results exceed this, the oldest go.
const MAX_CACHE_BYTES: u64 = 1 << 30;
/// Part of every hash: results of an older layout are not found.
const CACHE_VERSION: &str = "1";

/// What a program asks to be compiled.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Target of the device, used unless the options name one.
    pub isa: String,
    pub name: String,
    pub source: String,
    /// Name and content of headers the source may include.
    pub headers: Vec<(String, String)>,
    pub options: Vec<String>,
    /// Names whose symbols are wanted.
    pub expressions: Vec<String>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Response {
    pub status: hiprtcResult,
    pub log: String,
    pub lowered: Vec<String>,
    pub code: Vec<u8>,
    pub bitcode: Vec<u8>,
}

/// Why nothing was compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    #[error("the worker has no run-time compiler: {0}")]
    Toolchain(#[from] ToolchainProblem),
    #[error("the option {0} is not accepted")]
    Option(String),
    #[error("the header name {0:?} is not a relative path")]
    HeaderName(String),
    #[error("{what}")]
    Io { what: &'static str, source: std::io::Error },
    #[error("the compiler took longer than {} seconds", TIME_LIMIT.as_secs())]
    TooSlow,
    #[error("the result has {0} bytes, the limit is {MAX_CODE_BYTES}")]
    TooLarge(u64),
}

impl CompileError {
    fn status(&self) -> hiprtcResult {
        match self {
            CompileError::Option(_) => HIPRTC_ERROR_INVALID_OPTION,
            CompileError::HeaderName(_) => HIPRTC_ERROR_INVALID_INPUT,
            CompileError::TooSlow | CompileError::TooLarge(_) => HIPRTC_ERROR_COMPILATION,
            CompileError::Toolchain(_) | CompileError::Io { .. } => HIPRTC_ERROR_INTERNAL_ERROR,
        }
    }
}

/// The run-time compiler of a worker.
#[derive(Debug)]
pub struct Compiler {
    toolchain: Result<Toolchain, ToolchainProblem>,
    version: OnceLock<String>,
    cache: Option<PathBuf>,
}

impl Compiler {
    /// Finds the toolchain, in `root` if one is named. Results are kept in `cache`.
    pub fn new(root: Option<PathBuf>, cache: Option<PathBuf>) -> Compiler {
        Compiler { toolchain: Toolchain::find(root.as_deref()), version: OnceLock::new(), cache }
    }

    pub(crate) fn toolchain(&self) -> Result<&Toolchain, CompileError> {
        Ok(self.toolchain.as_ref().map_err(Clone::clone)?)
    }

    pub fn is_available(&self) -> bool {
        self.toolchain.is_ok()
    }

    /// Compiles, or finds what an equal request gave before.
    pub fn compile(&self, request: &Request) -> Response {
        self.try_compile(request).unwrap_or_else(|error| {
            let mut log = error.to_string();
            if let Some(cause) = std::error::Error::source(&error) {
                log = format!("{log}: {cause}");
            }
            finished(error.status(), log)
        })
    }

    fn try_compile(&self, request: &Request) -> Result<Response, CompileError> {
        let toolchain = self.toolchain()?;
        let options = Options::parse(&request.options, &request.isa)?;
        let key = self.key(toolchain, request);
        if let Some(response) = self.cached(&key) {
            return Ok(response);
        }
        let folder = tempfile::tempdir()
            .map_err(|source| CompileError::Io { what: "no folder for the compilation", source })?;
        write_sources(folder.path(), request)?;
        let response = build(toolchain, folder.path(), request, &options)?;
        if response.status == HIPRTC_SUCCESS {
            self.keep(&key, &response);
        }
        Ok(response)
    }

    /// The hash of everything that can change the result.
    fn key(&self, toolchain: &Toolchain, request: &Request) -> String {
        let version = self.version.get_or_init(|| {
            let output = Command::new(&toolchain.clang).arg("--version").output();
            output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
        });
        let mut all = Vec::new();
        let fixed = [
            CACHE_VERSION.to_owned(),
            version.clone(),
            toolchain.clang.display().to_string(),
            toolchain.hip.display().to_string(),
            toolchain.device_libs.display().to_string(),
            prelude::text(),
        ];
        fixed.to_vec().put(&mut all);
        for text in [&request.isa, &request.name, &request.source] {
            text.put(&mut all);
        }
        request.headers.put(&mut all);
        request.options.put(&mut all);
        request.expressions.put(&mut all);
        Sha256::digest(&all).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn cached(&self, key: &str) -> Option<Response> {
        let bytes = std::fs::read(self.cache.as_ref()?.join(key)).ok()?;
        let mut reader = Reader::new(&bytes);
        let kept = wire::reply::Compile::take(&mut reader).ok()?;
        reader.finish("kept result").ok()?;
        Some(Response {
            status: HIPRTC_SUCCESS,
            log: kept.log,
            lowered: kept.lowered,
            code: kept.code.0,
            bitcode: kept.bitcode.0,
        })
    }

    /// Keeps a result. That it cannot be kept is no failure of the compilation.
    fn keep(&self, key: &str, response: &Response) {
        let Some(cache) = &self.cache else { return };
        let kept = wire::reply::Compile {
            status: 0,
            log: response.log.clone(),
            lowered: response.lowered.clone(),
            code: wire::Bytes(response.code.clone()),
            bitcode: wire::Bytes(response.bitcode.clone()),
        };
        let mut bytes = Vec::new();
        kept.put(&mut bytes);
        let written = std::fs::create_dir_all(cache).and_then(|()| {
            let file = tempfile::NamedTempFile::new_in(cache)?;
            std::fs::write(file.path(), &bytes)?;
            file.persist(cache.join(key)).map_err(|error| error.error)?;
            prune(cache)
        });
        if let Err(error) = written {
            tracing::warn!("a compiled program was not kept: {error}");
        }
    }
}

/// A program compiled with this macro defined uses none of HIP's headers, which take ten times as long to read as a small kernel. Other
/// compilers of hiprtc programs see a macro that means nothing.
const NO_HEADERS: &str = "__REMORA_NO_HEADERS__";

/// The options of a request, sorted into what the compiler gets.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    target: String,
    standard: Option<String>,
    passed: Vec<String>,
    /// `-fgpu-rdc`: the result is bitcode for a linker, not code.
    relocatable: bool,
    /// The program brings everything it uses, and is spared the headers.
    alone: bool,
}

impl Options {
    fn parse(options: &[String], isa: &str) -> Result<Options, CompileError> {
        let mut it = Options { target: isa.to_owned(), ..Options::default() };
        let mut rest = options.iter().map(|option| option.trim()).filter(|option| !option.is_empty());
        while let Some(option) = rest.next() {
            let refused = || CompileError::Option(option.to_owned());
            let mut value_of = |names: &[&str]| -> Option<Result<String, CompileError>> {
                names.iter().find_map(|name| {
                    let after = option.strip_prefix(name)?;
                    if let Some(value) = after.strip_prefix('=') {
                        return Some(Ok(value.to_owned()));
                    }
                    if !after.is_empty() {
                        return None;
                    }
                    Some(rest.next().map(str::to_owned).ok_or_else(refused))
                })
            };
            if let Some(value) = value_of(&["--offload-arch", "--gpu-architecture", "-arch", "--gpu-arch"]) {
                it.target = value?;
            } else if let Some(value) = value_of(&["--std", "-std"]) {
                it.standard = Some(value?);
            } else if let Some(value) = value_of(&["-D", "--define-macro"]) {
                it.passed.push(format!("-D{}", value?));
            } else if let Some(value) = value_of(&["-U", "--undefine-macro"]) {
                it.passed.push(format!("-U{}", value?));
            } else if let Some(value) = value_of(&["-I", "--include-path"]) {
                it.include(&value?);
            } else if let Some(path) = option.strip_prefix("-I") {
                it.include(path);
            } else if let Some(value) = value_of(&["-include", "--pre-include"]) {
                let value = value?;
                if relative(&value).is_none() {
                    return Err(refused());
                }
                it.passed.extend(["-include".to_owned(), value]);
            } else if let Some(value) = value_of(&["-mllvm"]) {
                let value = value?;
                if !value.starts_with("-amdgpu") || value.contains("file") {
                    return Err(refused());
                }
                it.passed.extend(["-mllvm".to_owned(), value]);
            } else {
                match option {
                    "-fgpu-rdc" => it.relocatable = true,
                    "--use_fast_math" | "-use_fast_math" => it.passed.push("-ffast-math".to_owned()),
                    // The name before clang 11, still in use.
                    "-fcuda-flush-denormals-to-zero" => {
                        it.passed.push("-fgpu-flush-denormals-to-zero".to_owned());
                    }
                    "-fno-cuda-flush-denormals-to-zero" => {
                        it.passed.push("-fno-gpu-flush-denormals-to-zero".to_owned());
                    }
                    "--fmad=true" => it.passed.push("-ffp-contract=fast".to_owned()),
                    "--fmad=false" => it.passed.push("-ffp-contract=off".to_owned()),
                    // Meant for other compilers, or what this one does anyway.
                    "-default-device"
                    | "--device-c"
                    | "-dc"
                    | "-w"
                    | "-x"
                    | "hip"
                    | "-nogpuinc"
                    | "-nogpulib"
                    | "-fno-gpu-rdc"
                    | "--cuda-device-only"
                    | "--offload-device-only"
                    | "-c" => {}
                    other if is_harmless(other) => it.passed.push(other.to_owned()),
                    _ => return Err(refused()),
                }
            }
        }
        it.alone = it.passed.iter().any(|option| option.strip_prefix("-D") == Some(NO_HEADERS));
        if it.target.is_empty() || !it.target.chars().all(|c| c.is_ascii_alphanumeric() || ":+-.".contains(c))
        {
            return Err(CompileError::Option(format!("--offload-arch={}", it.target)));
        }
        Ok(it)
    }

    /// Include paths name folders of the client's machine; only those among the headers sent mean something here.
    fn include(&mut self, path: &str) {
        if let Some(path) = relative(path) {
            self.passed.push(format!("-I{}", path.display()));
        }
    }
}

/// Options that change code generation or diagnostics and touch no file.
fn is_harmless(option: &str) -> bool {
    const PREFIXES: &[&str] = &["-D", "-U", "-O", "-W", "-f", "-m", "-g", "-pedantic", "-ansi", "-Rpass"];
    const REFUSED: &[&str] = &[
        "-Wl,",
        "-Wa,",
        "-Wp,",
        "-fplugin",
        "-fpass-plugin",
        "-fmodule",
        "-fprofile",
        "-ftime-trace",
        "-fsanitize",
        "-fuse-ld",
        "-fcrash",
        "-fdebug",
        "-ffile",
        "-fcoverage",
        "-fcs-profile",
        "-fthinlto",
        "-fembed",
        "-fproc",
        "-foptimization-record",
        "-fsave",
        "-fdiagnostics-log",
        "-fbasic-block",
        "-fxray",
        "-fcuda",
        "-fopenmp",
        "-fms-secure",
        "-fvtable",
        "-fbuild",
        "-mllvm",
        "-mlink",
        "-fintegrated",
        "-fno-integrated",
        "-gen-",
        "-fparse-all-comments=",
        "-fcomment",
        "-fauto-profile",
        "-frandomize",
        "-fdepfile",
        "-fapinotes",
    ];
    PREFIXES.iter().any(|prefix| option.starts_with(prefix))
        && !REFUSED.iter().any(|prefix| option.starts_with(prefix))
        && !option.contains('/')
        || option.starts_with("-D")
}

/// A path that stays below where it starts.
fn relative(path: &str) -> Option<&Path> {
    let path = Path::new(path);
    let inside = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    (inside && !path.as_os_str().is_empty()).then_some(path)
}

fn write_sources(folder: &Path, request: &Request) -> Result<(), CompileError> {
    let write = |path: &Path, text: &str| {
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::write(path, text))
            .map_err(|source| CompileError::Io { what: "the source cannot be written", source })
    };
    for (name, text) in &request.headers {
        let path = relative(name).ok_or_else(|| CompileError::HeaderName(name.clone()))?;
        write(&folder.join("sources").join(path), text)?;
    }
    write(&folder.join("prelude.h"), &prelude::text())?;
    let source = format!(
        "#line 1 \"{}\"\n{}{}",
        request.name.replace(['"', '\\', '\n'], "_"),
        request.source,
        name_expression::probes(&request.expressions)
    );
    write(&folder.join("sources/program.hip"), &source)
}

fn build(
    toolchain: &Toolchain,
    folder: &Path,
    request: &Request,
    options: &Options,
) -> Result<Response, CompileError> {
    let output = folder.join("program.out");
    let mut command = Command::new(&toolchain.clang);
    command
        .current_dir(folder.join("sources"))
        .args(["-x", "hip", "--offload-device-only", "--no-gpu-bundle-output", "-O3", "-D__HIPCC_RTC__"])
        .arg(format!("--offload-arch={}", options.target))
        .arg(format!("-std={}", options.standard.as_deref().unwrap_or("c++17")))
        .arg(format!("--rocm-path={}", toolchain.hip.display()))
        .arg(format!("--rocm-device-lib-path={}", toolchain.device_libs.display()))
        .arg("-isystem")
        .arg(toolchain.hip.join("include"))
        .args(["-I.", "-Wno-unused-command-line-argument"]);
    if options.alone {
        command.args(["-ffreestanding", "-nogpuinc"]);
    } else {
        command.arg("-include").arg(folder.join("prelude.h"));
    }
    command
        .args(&options.passed)
        .args(if options.relocatable { &["-fgpu-rdc", "-emit-llvm", "-c"][..] } else { &[] })
        .arg("program.hip")
        .arg("-o")
        .arg(&output);
    let (succeeded, log) = run(command, folder)?;
    if !succeeded {
        let names = log.contains("name expression:") && !log.contains("program.hip:");
        let status = if names { HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID } else { HIPRTC_ERROR_COMPILATION };
        return Ok(finished(status, log));
    }
    let result = result_in(&output)?;
    if options.relocatable {
        return Ok(Response { status: HIPRTC_SUCCESS, log, lowered: vec![], code: vec![], bitcode: result });
    }
    match name_expression::lowered(&result, &request.expressions) {
        Ok(lowered) => Ok(Response { status: HIPRTC_SUCCESS, log, lowered, code: result, bitcode: vec![] }),
        Err(text) => Ok(finished(HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID, format!("{log}{text}\n"))),
    }
}

/// What a compiler or linker left in a file.
pub(crate) fn result_in(output: &Path) -> Result<Vec<u8>, CompileError> {
    let bytes = std::fs::metadata(output).map_or(0, |data| data.len());
    if bytes > MAX_CODE_BYTES {
        return Err(CompileError::TooLarge(bytes));
    }
    std::fs::read(output)
        .map_err(|source| CompileError::Io { what: "the compiled program cannot be read", source })
}

/// A response without code.
pub(crate) fn finished(status: hiprtcResult, log: String) -> Response {
    Response { status, log, lowered: vec![], code: vec![], bitcode: vec![] }
}

/// Runs the compiler with a time limit; its diagnostics go to a file, so that no pipe can fill up.
pub(crate) fn run(mut command: Command, folder: &Path) -> Result<(bool, String), CompileError> {
    let io = |what| move |source| CompileError::Io { what, source };
    let path = folder.join("log");
    let log = std::fs::File::create(&path).map_err(io("no log for the compiler"))?;
    let copy = log.try_clone().map_err(io("no log for the compiler"))?;
    command.stdin(Stdio::null()).stdout(log).stderr(copy);
    let mut child = command.spawn().map_err(io("the compiler did not start"))?;
    let deadline = Instant::now() + TIME_LIMIT;
    let mut pause = Duration::from_millis(2);
    let status = loop {
        if let Some(status) = child.try_wait().map_err(io("the compiler was lost"))? {
            break status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return Err(CompileError::TooSlow);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    let mut text = Vec::new();
    let file = std::fs::File::open(&path).map_err(io("the compiler's log cannot be read"))?;
    file.take(MAX_LOG_BYTES).read_to_end(&mut text).map_err(io("the compiler's log cannot be read"))?;
    Ok((status.success(), String::from_utf8_lossy(&text).into_owned()))
}

/// Drops the oldest results until the rest fits.
fn prune(cache: &Path) -> std::io::Result<()> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(cache)? {
        let entry = entry?;
        let data = entry.metadata()?;
        files.push((data.modified()?, data.len(), entry.path()));
    }
    let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
    files.sort();
    for (_, bytes, path) in files {
        if total <= MAX_CACHE_BYTES {
            break;
        }
        // Another session may have dropped it first.
        let _ = std::fs::remove_file(path);
        total -= bytes;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &[&str]) -> Result<Options, CompileError> {
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        Options::parse(&options, "gfx942")
    }

    #[test]
    fn options_of_both_vendors_are_understood() {
        let it = parse(&["--gpu-architecture=gfx90a", "-DN=4", "-D", "M", "--std=c++20", "-O1"]).unwrap();
        assert_eq!(it.target, "gfx90a");
        assert_eq!(it.standard.as_deref(), Some("c++20"));
        assert_eq!(it.passed, ["-DN=4", "-DM", "-O1"]);
        let it =
            parse(&["--offload-arch", "gfx942:xnack-", "--use_fast_math", "-I/opt/rocm/include"]).unwrap();
        assert_eq!(it.target, "gfx942:xnack-");
        assert_eq!(it.passed, ["-ffast-math"]);
        let it = parse(&["-fcuda-flush-denormals-to-zero", "-fno-gpu-flush-denormals-to-zero"]).unwrap();
        assert_eq!(it.passed, ["-fgpu-flush-denormals-to-zero", "-fno-gpu-flush-denormals-to-zero"]);
        assert!(!it.alone && parse(&["-D__REMORA_NO_HEADERS__"]).unwrap().alone);
    }

    #[test]
    fn options_that_reach_beyond_the_program_are_refused() {
        for option in [
            "-fplugin=evil.so",
            "@file",
            "-Xclang",
            "-o",
            "--config=x",
            "-Wl,-o,x",
            "-fprofile-generate=/tmp/x",
            "-mllvm",
            "-include",
            "--offload-arch=gfx942;rm",
            "-B/tmp",
        ] {
            assert!(parse(&[option]).is_err(), "{option}");
        }
        assert!(parse(&["-include", "../../etc/passwd"]).is_err());
        assert!(parse(&["-mllvm", "-stats-file=x"]).is_err());
    }

    #[test]
    fn header_names_stay_inside_the_folder() {
        for name in ["/etc/x", "../x", "a/../../x", ""] {
            assert!(relative(name).is_none(), "{name}");
        }
        assert!(relative("a/b.h").is_some());
    }
}
