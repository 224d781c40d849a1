//! A compilation: its request, its result, and the errors that keep it from having one.

use std::path::PathBuf;
use std::time::Duration;

use hip_api::hiprtcResult;
use hip_api::types::{
    HIPRTC_ERROR_COMPILATION, HIPRTC_ERROR_INTERNAL_ERROR, HIPRTC_ERROR_INVALID_INPUT,
    HIPRTC_ERROR_INVALID_OPTION,
};
use sandbox::SandboxError;
use serde::{Deserialize, Serialize};
use toolchain::ToolchainProblem;

/// Limit on a result.
pub(crate) const MAX_CODE_BYTES: u64 = 12 << 20;

/// Configuration of a worker's run-time compiler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompilerConfig {
    /// Path of the toolchain; `None` searches the usual paths.
    pub toolchain: Option<PathBuf>,
    /// Cache folder; `None` disables the cache.
    pub cache: Option<PathBuf>,
    /// Runs the compiler even if the machine offers no confinement.
    #[serde(default)]
    pub unconfined: bool,
}

/// A compilation request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// ISA of the device, used unless the options name a target.
    pub isa: String,
    /// Name of the source in messages.
    pub name: String,
    /// The program.
    pub source: String,
    /// Names and contents of headers that the source may include.
    pub headers: Vec<(String, String)>,
    /// Options of the compiler.
    pub options: Vec<String>,
    /// Name expressions whose lowered symbol names are requested.
    pub expressions: Vec<String>,
}

/// Result of a compilation.
#[derive(Clone, Debug)]
pub struct Response {
    /// Result of the compilation.
    pub status: hiprtcResult,
    /// Messages of the compiler.
    pub log: String,
    /// Mangled names of the expressions, in their order.
    pub lowered: Vec<String>,
    /// The code object; empty if there is none.
    pub code: Vec<u8>,
    /// LLVM bitcode, if it was requested.
    pub bitcode: Vec<u8>,
}

/// Error that kept the compiler from producing a result.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum CompileError {
    #[error("the worker has no run-time compiler: {0}")]
    Toolchain(#[from] ToolchainProblem),
    #[error("the option {0} is not accepted")]
    Option(String),
    #[error("the header name {0:?} is not a relative path")]
    HeaderName(String),
    #[error(
        "the worker refuses run-time compilation because it cannot confine the compiler on this machine. Allow user \
         namespaces, or use a kernel with Landlock (Linux 5.13 or newer); or start the worker with --unconfined-compiler, \
         which lets every client read every file that the worker can read"
    )]
    Unconfined { source: SandboxError },
    #[error("the compiler could not be run")]
    Sandbox { source: SandboxError },
    #[error("the compiler took longer than {} seconds", .0.as_secs())]
    TooSlow(Duration),
    #[error("the compiler needed more than {0} bytes of memory")]
    TooMuchMemory(u64),
    #[error("the compiler wrote more than {0} bytes of files")]
    TooManyFiles(u64),
    #[error("the compiler was killed by signal {0}")]
    Signalled(i32),
    #[error("the compilation was cancelled")]
    Cancelled,
    #[error("the compiler reported success but wrote no result")]
    NoResult,
    #[error("the result has {0} bytes, the limit is {MAX_CODE_BYTES}")]
    TooLarge(u64),
}

impl CompileError {
    /// The code that a program gets.
    pub(crate) fn status(&self) -> hiprtcResult {
        match self {
            CompileError::Option(_) => HIPRTC_ERROR_INVALID_OPTION,
            CompileError::HeaderName(_) => HIPRTC_ERROR_INVALID_INPUT,
            CompileError::TooSlow(_)
            | CompileError::TooMuchMemory(_)
            | CompileError::TooManyFiles(_)
            | CompileError::Signalled(_)
            | CompileError::NoResult
            | CompileError::TooLarge(_) => HIPRTC_ERROR_COMPILATION,
            CompileError::Toolchain(_)
            | CompileError::Unconfined { .. }
            | CompileError::Sandbox { .. }
            | CompileError::Cancelled => HIPRTC_ERROR_INTERNAL_ERROR,
        }
    }
}

impl From<SandboxError> for CompileError {
    fn from(source: SandboxError) -> CompileError {
        match source {
            SandboxError::TooWeak { .. } => CompileError::Unconfined { source },
            source => CompileError::Sandbox { source },
        }
    }
}

/// Builds a response without code.
pub(crate) fn finished(status: hiprtcResult, log: String) -> Response {
    Response { status, log, lowered: vec![], code: vec![], bitcode: vec![] }
}
