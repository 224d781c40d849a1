//! The kernels of a device: loaded modules, kernels built ahead of time, the disk cache, and the run-time compiler for the rest.

use std::collections::HashMap;
use std::ffi::{CString, c_char, c_void};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hip_api::types::{
    HIPRTC_ERROR_INTERNAL_ERROR, HIPRTC_SUCCESS, hipFunction_t, hipModule_t, hiprtcProgram, hiprtcResult,
};
use parking_lot::Mutex;
use tensor_core::error::DeviceError;

use crate::ahead;
use crate::cache::DiskCache;
use crate::library::{Library, call};
use crate::replay::{Begun, ReplayStatistics, Replays};
use crate::source::{Kernel, Launch, hash, whole};
use crate::stream::Stream;

/// Options for identical results everywhere. The generated source includes no headers, so the last option makes a Remora worker skip them.
const OPTIONS: [&str; 5] = ["-O3", "-std=c++17", "-ffp-contract=off", "-fwrapv", "-D__REMORA_NO_HEADERS__"];

/// Counts of kernels by origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelStatistics {
    /// Kernels that were built ahead of time.
    pub ahead: u64,
    /// Kernels from the disk cache.
    pub from_disk: u64,
    /// Kernels compiled at run time.
    pub compiled: u64,
    /// Number of compiler runs: several kernels are compiled at once.
    pub compilations: u64,
    /// Kernel launches.
    pub launches: u64,
    /// Launches of kernels that interpret steps, because there is no compiler.
    pub interpreted: u64,
    /// Matrix products and convolutions that a library computed.
    pub by_library: u64,
    /// Launches that were replayed as graphs.
    pub replays: ReplayStatistics,
}

/// All kernels of one device.
#[derive(Debug)]
pub(crate) struct Kernels {
    stream: Arc<Stream>,
    architecture: String,
    cache: Mutex<Option<DiskCache>>,
    state: Mutex<State>,
    /// Whether repeated sequences of launches are replayed as graphs.
    replaying: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// By the source text of their kernels.
    functions: HashMap<String, Function>,
    /// By the hash of their code.
    modules: HashMap<String, Function>,
    replays: Replays,
    statistics: KernelStatistics,
}

/// A HIP handle as an integer, so that it can be used from any thread.
#[derive(Clone, Copy, Debug)]
struct Function(usize);

impl Kernels {
    pub(crate) fn new(stream: Arc<Stream>, architecture: &str, cache: Option<&Path>) -> Kernels {
        Kernels {
            stream,
            architecture: architecture.to_owned(),
            cache: Mutex::new(cache.map(DiskCache::new)),
            state: Mutex::default(),
            replaying: AtomicBool::new(true),
        }
    }

    pub(crate) fn keep(&self, folder: Option<&Path>) {
        *self.cache.lock() = folder.map(DiskCache::new);
    }

    pub(crate) fn statistics(&self) -> KernelStatistics {
        let state = self.state.lock();
        KernelStatistics { replays: state.replays.statistics, ..state.statistics }
    }

    pub(crate) fn set_replaying(&self, replaying: bool) {
        self.replaying.store(replaying, Ordering::Relaxed);
    }

    pub(crate) fn is_replaying(&self) -> bool {
        self.replaying.load(Ordering::Relaxed)
    }

    /// Submits launches in order, after compiling all missing kernels at once.
    pub(crate) fn run(&self, launches: &[Launch]) -> Result<(), DeviceError> {
        let mut state = self.state.lock();
        self.prepare(&mut state, launches.iter().map(|launch| &*launch.kernel))?;
        state.statistics.launches += launches.len() as u64;
        state.statistics.interpreted += launches.iter().filter(|launch| launch.kernel.ready).count() as u64;
        let functions: Vec<usize> =
            launches.iter().filter_map(|launch| launch.kernel.function.get().copied()).collect();
        if self.is_replaying() && state.replays.begin(&self.stream, launches, &functions)? == Begun::Replayed
        {
            return Ok(());
        }
        let library = &self.stream.library;
        for (launch, function) in launches.iter().zip(functions) {
            let mut arguments = [launch.words.as_ptr().cast_mut().cast::<c_void>()];
            call!(
                library,
                runtime.hipModuleLaunchKernel(
                    function as hipFunction_t,
                    launch.groups,
                    1,
                    1,
                    launch.threads,
                    1,
                    1,
                    0,
                    self.stream.handle(),
                    arguments.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            )?;
        }
        Ok(())
    }

    /// Counts a product or convolution that a library computes.
    pub(crate) fn count_library_call(&self) {
        self.state.lock().statistics.by_library += 1;
    }

    /// Whether such launches would be replayed as a graph.
    pub(crate) fn replays(&self, launches: &[Launch]) -> bool {
        let functions: Vec<usize> =
            launches.iter().filter_map(|launch| launch.kernel.function.get().copied()).collect();
        self.is_replaying()
            && functions.len() == launches.len()
            && self.state.lock().replays.knows(launches, &functions)
    }

    fn prepare<'a>(
        &self,
        state: &mut State,
        kernels: impl Iterator<Item = &'a Kernel>,
    ) -> Result<(), DeviceError> {
        let mut missing: Vec<&Kernel> = Vec::new();
        let all: Vec<&Kernel> = kernels.filter(|kernel| kernel.function.get().is_none()).collect();
        for kernel in &all {
            if state.functions.contains_key(&kernel.text) || missing.iter().any(|it| it.text == kernel.text) {
                continue;
            }
            if !self.find(state, kernel)? {
                missing.push(kernel);
            }
        }
        self.build(state, &missing)?;
        for kernel in all {
            let Function(function) = state.functions[&kernel.text];
            kernel.function.get_or_init(|| function);
        }
        Ok(())
    }

    /// Compiles kernels, all in one compiler run.
    fn build(&self, state: &mut State, missing: &[&Kernel]) -> Result<(), DeviceError> {
        if missing.is_empty() {
            return Ok(());
        }
        let code = self.compile(&whole(missing.iter().copied()))?;
        state.statistics.compilations += 1;
        state.statistics.compiled += missing.len() as u64;
        if let Some(cache) = &*self.cache.lock() {
            let keys: Vec<String> = missing.iter().map(|kernel| self.key(kernel)).collect();
            cache.keep(&keys, &code);
        }
        let module = self.module(state, &hash(&code), &code)?;
        for kernel in missing {
            let function = self.function(module, &kernel.name())?;
            state.functions.insert(kernel.text.clone(), function);
        }
        Ok(())
    }

    /// Loads the kernel if it was built ahead of time or is in the disk cache; returns whether it was found.
    fn find(&self, state: &mut State, kernel: &Kernel) -> Result<bool, DeviceError> {
        let target = self.architecture.split(':').next().unwrap_or_default();
        let name = kernel.name();
        if kernel.ready {
            let (_, code) = ahead::interpreter(target).ok_or_else(|| {
                DeviceError::Unavailable(format!("no kernels were built ahead for {target}"))
            })?;
            let module = self.module(state, &format!("interpret {target}"), code)?;
            state.functions.insert(kernel.text.clone(), self.function(module, &name)?);
            return Ok(true);
        }
        if let Some(code) = ahead::find(target, &name) {
            let module = self.module(state, &format!("ahead {target}"), code)?;
            state.functions.insert(kernel.text.clone(), self.function(module, &name)?);
            state.statistics.ahead += 1;
            return Ok(true);
        }
        let Some((hash, code)) = self.cache.lock().as_ref().and_then(|cache| cache.find(&self.key(kernel)))
        else {
            return Ok(false);
        };
        let module = self.module(state, &hash, &code)?;
        state.functions.insert(kernel.text.clone(), self.function(module, &name)?);
        state.statistics.from_disk += 1;
        Ok(true)
    }

    /// The disk cache key of a kernel: its whole source, the target, the options and the crate version.
    fn key(&self, kernel: &Kernel) -> String {
        let all = format!(
            "{}\n{}\n{}\n{}",
            env!("CARGO_PKG_VERSION"),
            self.architecture,
            OPTIONS.join(" "),
            whole([kernel])
        );
        hash(all.as_bytes())
    }

    fn module(&self, state: &mut State, name: &str, code: &[u8]) -> Result<Function, DeviceError> {
        if let Some(module) = state.modules.get(name) {
            return Ok(*module);
        }
        let mut module = std::ptr::null_mut();
        call!(self.stream.library, runtime.hipModuleLoadData(&mut module, code.as_ptr().cast()))?;
        let module = Function(module as usize);
        state.modules.insert(name.to_owned(), module);
        Ok(module)
    }

    fn function(&self, module: Function, name: &str) -> Result<Function, DeviceError> {
        let mut function = std::ptr::null_mut();
        let name = c_string(name);
        call!(
            self.stream.library,
            runtime.hipModuleGetFunction(&mut function, module.0 as hipModule_t, name.as_ptr())
        )?;
        Ok(Function(function as usize))
    }

    fn compile(&self, text: &str) -> Result<Vec<u8>, DeviceError> {
        let library = &*self.stream.library;
        let none = || {
            DeviceError::NoCompiler(
                "no run-time compiler (libhiprtc) was found next to the HIP runtime".to_owned(),
            )
        };
        let compiler = library.compiler.as_ref().ok_or_else(none)?;
        let (source, name) = (c_string(text), c_string("pyflame"));
        let mut program = Program { table: Table { compiler, library }, handle: std::ptr::null_mut() };
        call!(
            program.table,
            compiler.hiprtcCreateProgram(
                &mut program.handle,
                source.as_ptr(),
                name.as_ptr(),
                0,
                std::ptr::null(),
                std::ptr::null(),
            )
        )?;
        let target = c_string(&format!("--offload-arch={}", self.architecture));
        let options: Vec<CString> = OPTIONS.iter().map(|option| c_string(option)).chain([target]).collect();
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let compile = compiler.hiprtcCompileProgram.ok_or_else(|| library.missing("hiprtcCompileProgram"))?;
        // SAFETY: the handle is a program of this compiler; the array has the given number of NUL-terminated strings.
        let status = unsafe { compile(program.handle, options.len() as i32, options.as_ptr()) };
        if let Err(error) = program.table.check("hiprtcCompileProgram", status) {
            let log = program.log();
            if log.is_empty() {
                // The source is not at fault: the compiler is unreachable, and synchronizing returns the device's error.
                self.stream.synchronize()?;
            }
            // An internal error is not one of the source either: a worker without a compiler reports it, with the reason.
            if status == HIPRTC_ERROR_INTERNAL_ERROR {
                let why = if log.is_empty() { error.to_string() } else { log.trim().to_owned() };
                return Err(DeviceError::NoCompiler(why));
            }
            return Err(DeviceError::Compile { log: format!("{error}\n{log}") });
        }
        let mut bytes = 0;
        call!(program.table, compiler.hiprtcGetCodeSize(program.handle, &mut bytes))?;
        let mut code = vec![0_u8; bytes];
        call!(program.table, compiler.hiprtcGetCode(program.handle, code.as_mut_ptr().cast()))?;
        Ok(code)
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        if self.stream.select().is_ok() {
            self.state.get_mut().replays.clear(&self.stream);
            for (_, module) in std::mem::take(&mut self.state.get_mut().modules) {
                // A failure cannot be reported from drop.
                let _ = call!(self.stream.library, runtime.hipModuleUnload(module.0 as hipModule_t));
            }
        }
    }
}

/// The compiler's functions, with error reporting.
struct Table<'a> {
    compiler: &'a crate::library::Compiler,
    library: &'a Library,
}

impl Table<'_> {
    /// The compiler has its own error numbers.
    fn check(&self, call: &'static str, status: hiprtcResult) -> Result<(), DeviceError> {
        if status == HIPRTC_SUCCESS {
            return Ok(());
        }
        Err(DeviceError::Call { call, error: format!("error {}", status.0) })
    }

    fn missing(&self, call: &'static str) -> DeviceError {
        self.library.missing(call)
    }
}

/// A hiprtc program, destroyed on drop.
struct Program<'a> {
    table: Table<'a>,
    handle: hiprtcProgram,
}

impl Program<'_> {
    fn log(&self) -> String {
        let mut bytes = 0;
        let size = call!(self.table, compiler.hiprtcGetProgramLogSize(self.handle, &mut bytes));
        let mut log = vec![0_u8; bytes];
        if size.is_err()
            || bytes == 0
            || call!(self.table, compiler.hiprtcGetProgramLog(self.handle, log.as_mut_ptr().cast())).is_err()
        {
            return String::new();
        }
        String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned()
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            let _ = call!(self.table, compiler.hiprtcDestroyProgram(&mut self.handle));
        }
    }
}

/// Removes NUL bytes, which generated source never contains.
fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}
