//! Translated kernels on a GPU: compiled by the driver once for every set of assumptions, from PTX or from the cache on disk.

use std::collections::{HashMap, HashSet};
use std::ffi::{CString, c_int, c_void};
use std::sync::Arc;
use std::time::{Duration, Instant};

use backend::{DeviceError, Launch};
use code_object::{Arg, ArgKind, Kernel};
use hip_api::types::{hipErrorInvalidImage, hipErrorNotSupported};
use lift::Assumptions;

use crate::cache::Cache;
use crate::error::call;
use crate::functions::Functions;
use crate::gpu::Gpu;
use crate::module::{Function, Module};
use crate::translate::{Facts, Program, Request, Translator};
use crate::types::*;

/// Pointers that are multiples of 2 to this power are not told apart: no access is wider.
const MOST_ALIGNMENT: u32 = 4;
/// Bytes of the driver's compiler messages that are kept.
const LOG_BYTES: usize = 8 << 10;

/// Modules with more kernels are libraries, of which a program uses few.
const PRELOADED_KERNELS: usize = 16;
/// Largest machine code of a kernel that is preloaded.
const PRELOADED_BYTES: u64 = 4 << 10;
/// No further kernel is preloaded after this time.
const PRELOAD_TIME: Duration = Duration::from_millis(200);

/// Translations of a module's kernels, or why there is none, by the address of the entry.
#[derive(Default)]
pub(crate) struct Translations {
    known: HashMap<(u64, Key), Result<Arc<Compiled>, DeviceError>>,
    /// Workgroup shapes for which the module's kernels have been preloaded.
    preloaded: HashSet<[u32; 3]>,
}

impl Translations {
    /// The translations that the driver has loaded.
    pub(crate) fn loaded(&self) -> impl Iterator<Item = &Arc<Compiled>> {
        self.known.values().flatten()
    }
}

/// What a translation depends on besides the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) block: [u32; 3],
    /// Offset and alignment of every pointer argument, as powers of two.
    pub(crate) alignments: Vec<(u32, u8)>,
    /// Bytes of a lane's stack, if the compiler could not determine its size.
    pub(crate) stack_bytes: u32,
}

impl Key {
    /// The key of a launch with this argument block, on a device whose stack limit is `stack`.
    pub(crate) fn of(kernel: &Kernel, launch: &Launch, stack: u32) -> Key {
        let stack_bytes = if kernel.uses_dynamic_stack { stack } else { 0 };
        Key { block: launch.block, alignments: alignments(kernel, launch).collect(), stack_bytes }
    }

    /// Whether it is the key of a launch.
    fn is_of(&self, kernel: &Kernel, launch: &Launch, stack: u32) -> bool {
        let mut known = self.alignments.iter();
        self.block == launch.block
            && self.stack_bytes == if kernel.uses_dynamic_stack { stack } else { 0 }
            && alignments(kernel, launch).all(|it| known.next() == Some(&it))
            && known.next().is_none()
    }

    /// The key that a kernel will probably be launched with: pointers come from allocations.
    fn probable(kernel: &Kernel, block: [u32; 3]) -> Key {
        let alignments = pointers(kernel).map(|arg| (arg.offset, MOST_ALIGNMENT as u8)).collect();
        Key { block, alignments, stack_bytes: 0 }
    }

    fn assumptions(&self, base: u64) -> Assumptions {
        let items: u32 = self.block.iter().product();
        Assumptions {
            base,
            block: Some(self.block),
            full_waves: items.is_multiple_of(64),
            alignments: self.alignments.clone(),
            stack_bytes: self.stack_bytes,
        }
    }
}

/// Offset and alignment of every pointer argument of a launch, as powers of two.
fn alignments(kernel: &Kernel, launch: &Launch) -> impl Iterator<Item = (u32, u8)> {
    pointers(kernel).filter_map(|arg| {
        let start = arg.offset as usize;
        let bytes = launch.arguments.get(start..start + 8)?;
        let pointer = u64::from_le_bytes(bytes.try_into().ok()?);
        Some((arg.offset, pointer.trailing_zeros().min(MOST_ALIGNMENT) as u8))
    })
}

/// The pointers among a kernel's arguments.
fn pointers(kernel: &Kernel) -> impl Iterator<Item = &Arg> {
    kernel.explicit().iter().filter(|arg| arg.kind == ArgKind::GlobalBuffer)
}

/// A kernel that the driver has loaded.
pub(crate) struct Compiled {
    module: usize,
    function: usize,
    pub(crate) facts: Facts,
    /// Dynamic shared memory that the function was permitted so far.
    pub(crate) permitted: std::sync::atomic::AtomicU32,
}

impl Compiled {
    pub(crate) fn function(&self) -> CuFunction {
        self.function as CuFunction
    }

    pub(crate) fn module(&self) -> CuModule {
        self.module as CuModule
    }

    /// Loads PTX or a cubin, which ends with a zero byte if it is text.
    pub(crate) fn load(functions: &Functions, image: &[u8], facts: Facts) -> Result<Compiled, DeviceError> {
        let mut module = std::ptr::null_mut();
        call!(functions, cuModuleLoadData(&raw mut module, image.as_ptr().cast()))?;
        let entry = CString::new(facts.entry.as_str())
            .map_err(|_| DeviceError::invalid_value("the entry's name contains a NUL byte"))?;
        let mut function = std::ptr::null_mut();
        call!(functions, cuModuleGetFunction(&raw mut function, module, entry.as_ptr()))?;
        let permitted = std::sync::atomic::AtomicU32::new(48 << 10);
        Ok(Compiled { module: module as usize, function: function as usize, facts, permitted })
    }

    pub(crate) fn attribute(&self, functions: &Functions, number: c_int) -> i32 {
        let mut value = 0;
        let _ = call!(functions, cuFuncGetAttribute(&raw mut value, number, self.function()));
        value
    }
}

/// Translates and compiles kernels.
pub(crate) struct Programs {
    pub(crate) functions: Arc<Functions>,
    pub(crate) translator: Arc<dyn Translator>,
    pub(crate) cache: Option<Cache>,
    pub(crate) driver_version: i32,
}

impl Programs {
    /// The compiled form of a kernel for a launch. Translates it at the first launch with these assumptions, and calls `slow` before
    /// that. `report` receives the name of a kernel that is not in the cache, then `None`. The context of `gpu` must be current.
    pub(crate) fn get(
        &self,
        gpu: &Gpu,
        function: &Function,
        launch: &Launch,
        stack: u32,
        slow: impl FnOnce(),
        report: &dyn Fn(Option<&str>),
    ) -> Result<Arc<Compiled>, DeviceError> {
        let mut recent = function.recent.lock();
        if let Some((key, compiled)) = &*recent
            && key.is_of(&function.kernel, launch, stack)
        {
            return Ok(Arc::clone(compiled));
        }
        let key = (function.kernel.entry_address, Key::of(&function.kernel, launch, stack));
        let mut translations = function.module.translations.lock();
        if let Some(known) = translations.known.get(&key) {
            *recent = known.as_ref().ok().map(|compiled| (key.1, Arc::clone(compiled)));
            return known.clone();
        }
        drop(recent);
        slow();
        let made = self.make(gpu, &function.module, &function.kernel, &key.1, report).map(Arc::new);
        translations.known.insert(key, made.clone());
        if translations.preloaded.insert(launch.block) {
            self.preload(gpu, &function.module, launch.block, &mut translations);
        }
        made
    }

    /// Loads the small kernels of a module for a workgroup shape, before the first kernel with that shape starts: the driver waits
    /// for all running kernels when it loads one, so a kernel that waits for another one that is not loaded yet would wait for
    /// ever.
    fn preload(&self, gpu: &Gpu, module: &Module, block: [u32; 3], translations: &mut Translations) {
        let kernels = module.object.kernels();
        if kernels.len() > PRELOADED_KERNELS {
            return;
        }
        let begin = Instant::now();
        let items: u32 = block.iter().product();
        for kernel in kernels {
            let bytes = module.object.symbol(&kernel.name).map_or(0, |symbol| symbol.size);
            // Kernels with a stack or a heap call functions that take long to translate.
            let is_small = bytes <= PRELOADED_BYTES
                && items <= kernel.max_flat_workgroup_size
                && kernel.private_size == 0
                && !kernel.uses_dynamic_stack
                && !kernel.has_arg(&ArgKind::HiddenHostcallBuffer);
            let key = (kernel.entry_address, Key::probable(kernel, block));
            if is_small && begin.elapsed() < PRELOAD_TIME && !translations.known.contains_key(&key) {
                // Small kernels take no time worth a report.
                let made = self.make(gpu, module, kernel, &key.1, &|_| ()).map(Arc::new);
                translations.known.insert(key, made);
            }
        }
    }

    fn make(
        &self,
        gpu: &Gpu,
        module: &Module,
        kernel: &Kernel,
        key: &Key,
        report: &dyn Fn(Option<&str>),
    ) -> Result<Compiled, DeviceError> {
        let name = self.name(gpu, module, kernel, key);
        if let Some((facts, cubin)) = self.cache.as_ref().and_then(|cache| cache.get(&name)) {
            match Compiled::load(&self.functions, &cubin, facts) {
                Ok(compiled) => return Ok(compiled),
                Err(error) => tracing::warn!("a cached translation of {} is not used: {error}", kernel.name),
            }
        }
        report(Some(&kernel.name));
        let made = self.translate(gpu, module, kernel, key, &name);
        report(None);
        made
    }

    /// Translates and compiles a kernel, and adds it to the cache under this name.
    fn translate(
        &self,
        gpu: &Gpu,
        module: &Module,
        kernel: &Kernel,
        key: &Key,
        name: &str,
    ) -> Result<Compiled, DeviceError> {
        let begin = Instant::now();
        let target = ptx::Target { sm: gpu.capability, ptx: ptx_version(self.driver_version) };
        let code = module.code(kernel);
        let code =
            code.ok_or_else(|| DeviceError::invalid_value("the kernel's code is not in its module"))?;
        let assumptions = key.assumptions(module.base);
        let request = Request { arch: module.arch, code, kernel, assumptions, target };
        let Program { text, facts } = self.translator.translate(&request).map_err(|reason| {
            let text = format!("kernel {} cannot be translated for {}: {reason}", kernel.name, gpu.name);
            DeviceError::new(hipErrorNotSupported, text)
        })?;
        let translated = begin.elapsed();
        let cubin = self.compile(&kernel.name, &text)?;
        let compiled = Compiled::load(&self.functions, &cubin, facts)?;
        tracing::info!(
            "translated {} for workgroups of {:?}: {} lines of PTX in {} ms, compiled in {} ms: {} registers, {} bytes of local \
             memory",
            kernel.name,
            key.block,
            text.lines().count(),
            translated.as_millis(),
            (begin.elapsed() - translated).as_millis(),
            compiled.attribute(&self.functions, function::REGISTERS),
            compiled.attribute(&self.functions, function::LOCAL_BYTES),
        );
        if let Some(cache) = &self.cache {
            cache.put(name, &compiled.facts, &cubin);
        }
        Ok(compiled)
    }

    /// Name of a translation in the cache: the hash of everything that it depends on.
    fn name(&self, gpu: &Gpu, module: &Module, kernel: &Kernel, key: &Key) -> String {
        let mut hash = blake3::Hasher::new();
        let mut add = |bytes: &[u8]| {
            hash.update(&(bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        add(self.translator.version().as_bytes());
        add(&module.hash);
        add(&module.base.to_le_bytes());
        add(kernel.name.as_bytes());
        add(format!("{key:?} {:?} {} {}", module.arch, gpu.capability, self.driver_version).as_bytes());
        hash.finalize().to_hex().to_string()
    }

    /// Compiles PTX to a cubin for the current context's GPU.
    fn compile(&self, kernel: &str, text: &str) -> Result<Vec<u8>, DeviceError> {
        let functions = &self.functions;
        let mut log = vec![0u8; LOG_BYTES];
        let mut options = [JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES];
        let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), LOG_BYTES as *mut c_void];
        let mut state = std::ptr::null_mut();
        call!(functions, cuLinkCreate_v2(2, options.as_mut_ptr(), values.as_mut_ptr(), &raw mut state))?;
        let mut text: Vec<u8> = text.as_bytes().to_vec();
        text.push(0);
        let added = call!(
            functions,
            cuLinkAddData_v2(
                state,
                JIT_INPUT_PTX,
                text.as_mut_ptr().cast(),
                text.len(),
                c"kernel".as_ptr(),
                0,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        );
        let (mut cubin, mut bytes) = (std::ptr::null_mut(), 0);
        let linked =
            added.and_then(|()| call!(functions, cuLinkComplete(state, &raw mut cubin, &raw mut bytes)));
        let result = linked.map(|()| {
            // SAFETY: the driver has stored the address and size of the cubin, which it owns until the link state is destroyed.
            unsafe { std::slice::from_raw_parts(cubin as *const u8, bytes) }.to_vec()
        });
        let _ = call!(functions, cuLinkDestroy(state));
        result.map_err(|error| {
            let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
            let said = String::from_utf8_lossy(&log[..end]).trim().to_owned();
            let code = if error.is_fault() { error.code } else { hipErrorInvalidImage };
            DeviceError::new(code, format!("the driver cannot compile kernel {kernel}: {error}; {said}"))
        })
    }
}

/// The PTX version that a driver of this CUDA version understands.
fn ptx_version(driver: i32) -> (u8, u8) {
    match driver {
        13000.. => (9, 0),
        12080.. => (8, 7),
        12040.. => (8, 4),
        12010.. => (8, 1),
        _ => (8, 0),
    }
}
