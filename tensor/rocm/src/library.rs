//! Functions of a libamdhip64, AMD's or Remora's, resolved by name at run time. Nothing is linked: without the library there is
//! no ROCm device, but no failure to load either.

use std::ffi::{CStr, OsString, c_void};
use std::path::{Path, PathBuf};

use hip_api::hip_functions;
use hip_api::types::{hipError_t, hipSuccess};
use tensor_core::error::DeviceError;

/// Names tried when no file is given, newest first.
const RUNTIMES: &[&str] = &["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];
const COMPILERS: &[&str] = &["libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so"];
/// ROCm's default installation folder, in case the loader does not search it.
const FOLDER: &str = "/opt/rocm/lib";

hip_functions! {
    /// The runtime functions used here.
    pub(crate) struct Runtime {
        optional:
        hipDeviceGetAttribute,
        hipDeviceReset,
        hipDeviceSynchronize,
        hipEventCreate,
        hipEventDestroy,
        hipEventElapsedTime,
        hipEventRecord,
        hipEventSynchronize,
        hipFree,
        hipFreeAsync,
        hipGetDeviceCount,
        hipGetDeviceProperties,
        hipGetDevicePropertiesR0600,
        hipGetErrorString,
        hipGetLastError,
        hipGraphAddKernelNode,
        hipGraphCreate,
        hipGraphDestroy,
        hipGraphExecDestroy,
        hipGraphExecKernelNodeSetParams,
        hipGraphInstantiate,
        hipGraphLaunch,
        hipHostFree,
        hipHostMalloc,
        hipMalloc,
        hipMallocAsync,
        hipMemGetInfo,
        hipMemcpyAsync,
        hipMemcpyPeerAsync,
        hipMemcpyWithStream,
        hipModuleGetFunction,
        hipModuleLaunchKernel,
        hipModuleLoadData,
        hipModuleUnload,
        hipPointerGetAttributes,
        hipSetDevice,
        hipStreamCreateWithFlags,
        hipStreamDestroy,
        hipStreamSynchronize,
        hipStreamWaitEvent,
    }
}

hip_functions! {
    /// The run-time compiler functions used here.
    pub(crate) struct Compiler {
        optional:
        hiprtcCompileProgram,
        hiprtcCreateProgram,
        hiprtcDestroyProgram,
        hiprtcGetCode,
        hiprtcGetCodeSize,
        hiprtcGetProgramLog,
        hiprtcGetProgramLogSize,
    }
}

/// An open runtime with its compiler.
pub(crate) struct Library {
    pub runtime: Runtime,
    pub compiler: Option<Compiler>,
    path: PathBuf,
    /// Keeps the code mapped as long as the pointers above.
    _opened: Vec<libloading::Library>,
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.path.display())
    }
}

impl Library {
    /// Opens `file`, or what the loader finds under the usual names.
    pub(crate) fn open(file: Option<&Path>) -> Result<Library, DeviceError> {
        let (library, path) = first(file, RUNTIMES).map_err(|tried| {
            DeviceError::Unavailable(format!(
                "no HIP runtime could be loaded ({tried}); install ROCm, or Remora's client library, or set PYFLAME_HIP_LIBRARY to one"
            ))
        })?;
        // SAFETY: a HIP runtime, which stays loaded as long as `Library`.
        let runtime = unsafe { Runtime::resolve(|name| address(&library, name)) };
        // SAFETY: as above.
        let mut compiler = unsafe { Compiler::resolve(|name| address(&library, name)) };
        let mut opened = vec![library];
        if compiler.hiprtcCompileProgram.is_none() {
            // HIP 7 moved these functions to a separate library, which is in the same folder as the runtime.
            let beside = path.parent().filter(|folder| !folder.as_os_str().is_empty()).and_then(|folder| {
                COMPILERS.iter().map(|name| folder.join(name)).find(|candidate| candidate.is_file())
            });
            if let Ok((library, _)) = first(beside.as_deref(), COMPILERS) {
                // SAFETY: HIP's run-time compiler, which stays loaded as long as `Library`.
                compiler = unsafe { Compiler::resolve(|name| address(&library, name)) };
                opened.push(library);
            }
        }
        let compiler = compiler.hiprtcCompileProgram.is_some().then_some(compiler);
        Ok(Library { runtime, compiler, path, _opened: opened })
    }

    /// A runtime of functions with these addresses; null for those that it lacks.
    ///
    /// # Safety
    ///
    /// They have the types of HIP's functions.
    #[cfg(test)]
    pub(crate) unsafe fn of(address: impl Fn(&CStr) -> *mut c_void) -> Library {
        // SAFETY: guaranteed by the caller; functions of the process are never unloaded.
        let runtime = unsafe { Runtime::resolve(address) };
        Library { runtime, compiler: None, path: PathBuf::new(), _opened: Vec::new() }
    }

    /// Converts a status to a result that names the call.
    pub(crate) fn check(&self, call: &'static str, status: hipError_t) -> Result<(), DeviceError> {
        if status == hipSuccess {
            return Ok(());
        }
        let words = self.runtime.hipGetErrorString.map_or(String::new(), |describe| {
            // SAFETY: returns null or a static, terminated string for any code.
            let text = unsafe { describe(status) };
            if text.is_null() {
                return String::new();
            }
            // SAFETY: not null, terminated and static, as above.
            format!(": {}", unsafe { CStr::from_ptr(text) }.to_string_lossy())
        });
        Err(DeviceError::Call { call, error: format!("error {}{words}", status.0) })
    }

    pub(crate) fn missing(&self, call: &'static str) -> DeviceError {
        DeviceError::Call { call, error: format!("{} does not export this function", self.path.display()) }
    }
}

/// Returns the address of a symbol, or null if the library lacks it.
pub(crate) fn address(library: &libloading::Library, name: &CStr) -> *mut c_void {
    // SAFETY: the address is only copied here, and a symbol of any type has one.
    unsafe { library.get::<*mut c_void>(name.to_bytes_with_nul()) }.map_or(std::ptr::null_mut(), |it| *it)
}

/// Returns the first library that opens, or all names tried with the first error.
pub(crate) fn first(file: Option<&Path>, names: &[&str]) -> Result<(libloading::Library, PathBuf), String> {
    let candidates: Vec<PathBuf> = match file {
        Some(file) => vec![file.to_owned()],
        None => {
            let bare = names.iter().map(PathBuf::from);
            bare.chain(names.iter().map(|name| Path::new(FOLDER).join(name))).collect()
        }
    };
    let mut problem = None;
    for path in &candidates {
        // SAFETY: this runs the library's constructors, as loading any runtime does.
        match unsafe { libloading::Library::new(OsString::from(path)) } {
            Ok(library) => return Ok((library, path.clone())),
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    let tried: Vec<String> = candidates.iter().map(|path| path.display().to_string()).collect();
    let problem = problem.map_or(String::new(), |error| format!("; {error}"));
    Err(format!("tried {}{problem}", tried.join(", ")))
}

/// Calls a function of a table: `call!(library, runtime.hipSetDevice(0))`.
macro_rules! call {
    ($library:expr, $table:ident.$name:ident($($argument:expr),* $(,)?)) => {
        match $library.$table.$name {
            Some(function) => {
                // SAFETY: the signature is the table's; pointers are valid for the call wherever this is used, and handles come
                // from the library itself.
                let status = unsafe { function($($argument),*) };
                $library.check(stringify!($name), status)
            }
            None => Err($library.missing(stringify!($name))),
        }
    };
}
pub(crate) use call;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named_with_what_to_do() {
        let problem = Library::open(Some(Path::new("/nowhere/libamdhip64.so"))).unwrap_err().to_string();
        assert!(
            problem.contains("/nowhere/libamdhip64.so") && problem.contains("PYFLAME_HIP_LIBRARY"),
            "{problem}"
        );
    }
}
