//! Functions of a libamdhip64, AMD's or Remora's, resolved by name at run time. Nothing is linked: without the library there is
//! no ROCm device, but no failure to load either.

use std::ffi::{CStr, OsString, c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};

use tensor_core::error::DeviceError;

/// Names tried when no file is given, newest first.
const RUNTIMES: &[&str] = &["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];
const COMPILERS: &[&str] = &["libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so"];
/// ROCm's default installation folder, in case the loader does not search it.
const FOLDER: &str = "/opt/rocm/lib";

pub(crate) type Status = c_int;
pub(crate) type Handle = *mut c_void;

pub(crate) const OUT_OF_MEMORY: Status = 2;
pub(crate) const NOT_SUPPORTED: Status = 801;
pub(crate) const TO_DEVICE: c_int = 1;
pub(crate) const TO_HOST: c_int = 2;
pub(crate) const NON_BLOCKING: c_uint = 1;

/// `hipKernelNodeParams`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct KernelNode {
    pub block: [c_uint; 3],
    pub extra: *mut *mut c_void,
    /// A function of a module, or a host function's address.
    pub function: Handle,
    pub grid: [c_uint; 3],
    pub arguments: *mut *mut c_void,
    pub shared: c_uint,
}

macro_rules! functions {
    ($(#[$doc:meta])* $table:ident { $(fn $name:ident($($argument:ident: $type:ty),*);)* }) => {
        $(#[$doc])*
        #[allow(non_snake_case, reason = "vendor names are kept exactly")]
        pub(crate) struct $table { $(pub $name: Option<unsafe extern "C" fn($($type),*) -> Status>,)* }

        impl $table {
            fn resolve(library: &libloading::Library) -> $table {
                $table {
                    // SAFETY: the declaration is the function's C signature from the vendor's header; the library stays open as
                    // long as the table, see `Library`.
                    $($name: unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()).ok().map(|it| *it) },)*
                }
            }
        }
    };
}

functions! {
    /// The runtime functions used here.
    Runtime {
        fn hipGetDeviceCount(count: *mut c_int);
        fn hipSetDevice(device: c_int);
        fn hipGetDevicePropertiesR0600(properties: *mut u8, device: c_int);
        fn hipGetDeviceProperties(properties: *mut u8, device: c_int);
        fn hipMemGetInfo(free: *mut usize, total: *mut usize);
        fn hipMalloc(pointer: *mut u64, bytes: usize);
        fn hipFree(pointer: u64);
        fn hipMallocAsync(pointer: *mut u64, bytes: usize, stream: Handle);
        fn hipFreeAsync(pointer: u64, stream: Handle);
        fn hipHostMalloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
        fn hipHostFree(pointer: *mut c_void);
        fn hipMemcpyAsync(to: u64, from: u64, bytes: usize, kind: c_int, stream: Handle);
        fn hipMemcpyWithStream(to: u64, from: u64, bytes: usize, kind: c_int, stream: Handle);
        fn hipStreamCreateWithFlags(stream: *mut Handle, flags: c_uint);
        fn hipStreamDestroy(stream: Handle);
        fn hipStreamSynchronize(stream: Handle);
        fn hipModuleLoadData(module: *mut Handle, image: *const u8);
        fn hipModuleUnload(module: Handle);
        fn hipModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char);
        fn hipModuleLaunchKernel(
            function: Handle,
            grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
            block_x: c_uint, block_y: c_uint, block_z: c_uint,
            shared: c_uint, stream: Handle, arguments: *mut *mut c_void, extra: *mut *mut c_void
        );
        fn hipEventCreate(event: *mut Handle);
        fn hipEventDestroy(event: Handle);
        fn hipEventRecord(event: Handle, stream: Handle);
        fn hipEventSynchronize(event: Handle);
        fn hipEventElapsedTime(milliseconds: *mut f32, from: Handle, to: Handle);
        fn hipGetLastError();
        fn hipGraphCreate(graph: *mut Handle, flags: c_uint);
        fn hipGraphDestroy(graph: Handle);
        fn hipGraphAddKernelNode(
            node: *mut Handle, graph: Handle, after: *const Handle, count: usize, parameters: *const KernelNode
        );
        fn hipGraphInstantiate(
            executable: *mut Handle, graph: Handle, wrong: *mut Handle, log: *mut c_char, bytes: usize
        );
        fn hipGraphExecKernelNodeSetParams(executable: Handle, node: Handle, parameters: *const KernelNode);
        fn hipGraphExecDestroy(executable: Handle);
        fn hipGraphLaunch(executable: Handle, stream: Handle);
    }
}

functions! {
    /// The run-time compiler functions used here.
    Compiler {
        fn hiprtcCreateProgram(
            program: *mut Handle, source: *const c_char, name: *const c_char,
            headers: c_int, contents: *const *const c_char, names: *const *const c_char
        );
        fn hiprtcDestroyProgram(program: *mut Handle);
        fn hiprtcCompileProgram(program: Handle, options: c_int, values: *const *const c_char);
        fn hiprtcGetProgramLogSize(program: Handle, bytes: *mut usize);
        fn hiprtcGetProgramLog(program: Handle, log: *mut c_char);
        fn hiprtcGetCodeSize(program: Handle, bytes: *mut usize);
        fn hiprtcGetCode(program: Handle, code: *mut u8);
    }
}

/// An open runtime with its compiler.
pub(crate) struct Library {
    pub runtime: Runtime,
    pub compiler: Option<Compiler>,
    describe: Option<unsafe extern "C" fn(Status) -> *const c_char>,
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
        let runtime = Runtime::resolve(&library);
        let describe =
            // SAFETY: the signature is `const char* hipGetErrorString(hipError_t)` in every release.
            unsafe { library.get(b"hipGetErrorString\0").ok().map(|it| *it) };
        let mut compiler = Compiler::resolve(&library);
        let mut opened = vec![library];
        if compiler.hiprtcCompileProgram.is_none() {
            // HIP 7 moved these functions to a separate library, which is in the same folder as the runtime.
            let beside = path.parent().filter(|folder| !folder.as_os_str().is_empty()).and_then(|folder| {
                COMPILERS.iter().map(|name| folder.join(name)).find(|candidate| candidate.is_file())
            });
            if let Ok((library, _)) = first(beside.as_deref(), COMPILERS) {
                compiler = Compiler::resolve(&library);
                opened.push(library);
            }
        }
        let compiler = compiler.hiprtcCompileProgram.is_some().then_some(compiler);
        Ok(Library { runtime, compiler, describe, path, _opened: opened })
    }

    /// Converts a status to a result that names the call.
    pub(crate) fn check(&self, call: &'static str, status: Status) -> Result<(), DeviceError> {
        if status == 0 {
            return Ok(());
        }
        let words = self.describe.map_or(String::new(), |describe| {
            // SAFETY: returns null or a static, terminated string for any code.
            let text = unsafe { describe(status) };
            if text.is_null() {
                return String::new();
            }
            // SAFETY: not null, terminated and static, as above.
            format!(": {}", unsafe { CStr::from_ptr(text) }.to_string_lossy())
        });
        Err(DeviceError::Call { call, error: format!("error {status}{words}") })
    }

    pub(crate) fn missing(&self, call: &'static str) -> DeviceError {
        DeviceError::Call { call, error: format!("{} does not export this function", self.path.display()) }
    }
}

/// Returns the first library that opens, or all names tried with the first error.
fn first(file: Option<&Path>, names: &[&str]) -> Result<(libloading::Library, PathBuf), String> {
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
