//! Loaded code objects: placed, parsed and looked up on the client, so that loading needs no round trip.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use code_object::{CodeObject, FatBinary, Kernel};
use hip_api::types::*;
use parking_lot::Mutex;
use wire::capability;

use crate::state::memory::Kind;
use crate::state::registry::{self, Symbol};
use crate::state::runtime::Runtime;
use crate::state::variables;
use crate::telemetry::report;
use session::arena::charge;
use session::upload;

/// Set in the cookie of managed variables of a loaded module, to distinguish them from those of registered binaries.
const OF_MODULES: u64 = 1 << 63;

/// A code object on a device.
#[derive(Debug)]
pub struct Module {
    pub id: u64,
    pub device: usize,
    /// Load address; symbol addresses are relative to it.
    pub base: u64,
    pub code: CodeObject,
    functions: Mutex<HashMap<String, Arc<Function>>>,
}

/// A kernel of a module.
#[derive(Debug)]
pub struct Function {
    pub id: u64,
    pub module: u64,
    pub device: usize,
    pub kernel: Kernel,
    /// For hipKernelNameRef: the name, NUL-terminated.
    pub c_name: std::ffi::CString,
    /// Attributes changed by hipFuncSetAttribute.
    pub attributes: Mutex<HashMap<u32, i32>>,
}

impl Runtime {
    /// Loads an image (a code object or a fat binary) for `device`.
    pub fn load_module(&self, device: usize, image: &[u8]) -> Result<Arc<Module>, hipError_t> {
        let binary = FatBinary::parse(image).map_err(|error| {
            report::line(format_args!("the module image is not a code object: {error}"));
            hipErrorInvalidImage
        })?;
        let module = self.load_from(device, &binary, None)?;
        self.make_variables(&module).inspect_err(|_| {
            let _ = self.unload_module(module.id);
        })?;
        Ok(module)
    }

    /// `reported` is set once a line about missing code for the device was printed, to print it only once.
    fn load_from(
        &self,
        device: usize,
        binary: &FatBinary,
        reported: Option<&AtomicBool>,
    ) -> Result<Arc<Module>, hipError_t> {
        let target = &self.devices.get(device).ok_or(hipErrorInvalidDevice)?.target;
        let entry = binary.select(target).ok_or_else(|| {
            if reported.is_some_and(|reported| reported.swap(true, Ordering::Relaxed)) {
                return hipErrorNoBinaryForGpu;
            }
            let found: Vec<String> =
                binary.entries().iter().filter_map(|e| e.target.as_ref()).map(|t| t.to_string()).collect();
            report::line(format_args!(
                "no code for {target} in the image (it has: {}); build with --offload-arch={}",
                if found.is_empty() { "none".to_owned() } else { found.join(", ") },
                target.processor
            ));
            hipErrorNoBinaryForGpu
        })?;
        let code = CodeObject::parse(Arc::clone(&entry.image)).map_err(|error| {
            report::line(format_args!("the module image is damaged: {error}"));
            hipErrorInvalidImage
        })?;
        self.place_module(device, code)
    }

    fn place_module(&self, device: usize, code: CodeObject) -> Result<Arc<Module>, hipError_t> {
        let bytes = code.load_size().max(1);
        let ledger = &self.devices[device].ledger;
        ledger.book(charge(bytes))?;
        let Some(place) = self.memory.reserve(bytes, Kind::Module, device, 0, 0) else {
            ledger.give_back(charge(bytes));
            return Err(hipErrorOutOfMemory);
        };
        let hash = upload::hash(code.image());
        let image = Arc::clone(code.image());
        let (id, module) = self
            .modules
            .insert_with(|id| Module { id, device, base: place.start, code, functions: Mutex::default() })
            .ok_or(hipErrorOutOfMemory)?;
        // Locked until the frame is in the ring: a second load of the same image must not overtake the bytes.
        let mut sent = self.sent_images.lock();
        let known = !sent.insert(hash) || self.connection.has_content(&hash);
        let body = if known { Arc::from([]) } else { image };
        let operation =
            wire::LoadModule { module: id, device: self.devices[device].ordinal, base: place.start, hash };
        self.take_shared(&operation, &body).inspect_err(|_| {
            self.modules.remove(id);
            self.memory.remove(place.start);
            ledger.give_back(charge(bytes));
        })?;
        Ok(module)
    }

    pub fn unload_module(&self, id: u64) -> Result<(), hipError_t> {
        let module = self.modules.remove(id).ok_or(hipErrorNotFound)?;
        variables::remove_binary(id | OF_MODULES);
        for function in module.functions.lock().values() {
            self.functions.remove(function.id);
        }
        if let Some(place) = self.memory.remove(module.base) {
            self.devices[module.device].ledger.give_back(charge(place.bytes));
        }
        self.post(&wire::UnloadModule { module: id }, &[])
    }

    /// Looks up a kernel by name; defines it on the worker on first use.
    pub fn function(&self, module: &Module, name: &str) -> Result<Arc<Function>, hipError_t> {
        let mut functions = module.functions.lock();
        if let Some(function) = functions.get(name) {
            return Ok(Arc::clone(function));
        }
        let kernel = module.code.kernel(name).ok_or(hipErrorNotFound)?.clone();
        let c_name = std::ffi::CString::new(name).map_err(|_| hipErrorInvalidValue)?;
        let (id, function) = self
            .functions
            .insert_with(|id| Function {
                id,
                module: module.id,
                device: module.device,
                kernel,
                c_name,
                attributes: Mutex::default(),
            })
            .ok_or(hipErrorOutOfMemory)?;
        self.post(&wire::DefineFunction { function: id, module: module.id, name: name.to_owned() }, &[])?;
        functions.insert(name.to_owned(), Arc::clone(&function));
        Ok(function)
    }

    /// Address and size of a device variable.
    pub fn global(&self, module: &Module, name: &str) -> Result<(u64, u64), hipError_t> {
        let managed = variables::of_binary(module.id | OF_MODULES).into_iter().find(|it| it.name == name);
        if let Some(variable) = managed {
            return Ok((variable.address, variable.bytes));
        }
        self.place_of(module, name)
    }

    /// Address and size of a symbol of a module.
    fn place_of(&self, module: &Module, name: &str) -> Result<(u64, u64), hipError_t> {
        let symbol = module.code.symbol(name).ok_or(hipErrorNotFound)?;
        if self.connection.capabilities() & capability::PLACED_MODULES != 0 {
            return Ok((module.base + symbol.value, symbol.size));
        }
        let reply = self.call(&wire::ModuleGlobal { module: module.id, name: name.to_owned() })?;
        Ok((reply.address, reply.bytes))
    }

    /// The module of a registered binary on `device`; loaded on first use.
    pub fn binary_module(&self, device: usize, binary: &registry::Binary) -> Result<Arc<Module>, hipError_t> {
        let mut binaries = self.binaries.lock();
        if let Some(module) = binaries.get(&(binary.id, device)) {
            return Ok(Arc::clone(module));
        }
        let parsed = binary.fat_binary().map_err(|error| {
            report::line(format_args!("the program's embedded GPU code cannot be read: {error}"));
            hipErrorInvalidImage
        })?;
        let module = self.load_from(device, parsed, Some(&binary.reported))?;
        self.place_variables(device, binary.id, &module)?;
        binaries.insert((binary.id, device), Arc::clone(&module));
        crate::process::exit::notice_exit();
        Ok(module)
    }

    /// Allocates the managed variables of a loaded module: the compiler stores the initial value of `x` in `x.managed`.
    fn make_variables(&self, module: &Module) -> Result<(), hipError_t> {
        let own = module.id | OF_MODULES;
        for symbol in module.code.symbols() {
            let Some(name) = symbol.name.strip_suffix(".managed") else { continue };
            let Ok(name) = std::ffi::CString::new(name) else { continue };
            // A symbol without file contents starts as zeros, like the memory.
            let first = module.code.bytes_at(symbol.value, symbol.size as usize);
            let first = first.map_or(std::ptr::null(), <[u8]>::as_ptr);
            // SAFETY: null, or as many bytes as the symbol has; the name is NUL-terminated.
            let made = unsafe { variables::add(own, first, name.as_ptr(), symbol.size as usize, 256) };
            made.ok_or(hipErrorOutOfMemory)?;
        }
        self.place_variables(module.device, own, module)
    }

    /// Writes the addresses of managed variables into a module: it has a pointer to each, under the variable's name.
    fn place_variables(&self, device: usize, binary: u64, module: &Module) -> Result<(), hipError_t> {
        let variables = variables::of_binary(binary);
        if variables.is_empty() {
            return Ok(());
        }
        self.share_variables()?;
        for variable in variables {
            let Ok((pointer, _)) = self.place_of(module, &variable.name) else { continue };
            let view = self.memory.view(variable.address, variable.bytes).ok_or(hipErrorInvalidSymbol)?;
            // On a new non-blocking stream, and synchronously: kernels on any stream may follow.
            let own = crate::calls::stream::create_on(self, device, hipStreamNonBlocking, 0, Vec::new())?;
            let operation = wire::Write { stream: own, destination: pointer };
            let written = self.call_with_body(&operation, &view.to_le_bytes());
            self.streams.remove(own);
            self.post(&wire::DestroyStream { stream: own }, &[])?;
            written?;
        }
        Ok(())
    }

    /// The kernel of a host stub on `device`.
    #[inline]
    pub fn stub(&self, device: usize, stub: usize) -> Result<Arc<Function>, hipError_t> {
        if let Some(function) = self.stubs.read().get(&(stub, device)) {
            return Ok(Arc::clone(function));
        }
        self.resolve_stub(device, stub)
    }

    #[cold]
    fn resolve_stub(&self, device: usize, stub: usize) -> Result<Arc<Function>, hipError_t> {
        let symbol = registry::function(stub).ok_or(hipErrorInvalidDeviceFunction)?;
        let module = self.binary_module(device, &symbol.binary)?;
        let function = self.function(&module, &symbol.name()).map_err(|_| hipErrorInvalidDeviceFunction)?;
        self.stubs.write().insert((stub, device), Arc::clone(&function));
        Ok(function)
    }

    /// Drops a cached stub whose address another library has registered.
    #[cold]
    pub fn forget_stub(&self, stub: usize) {
        self.stubs.write().retain(|(address, _), _| *address != stub);
    }

    /// Address and size of the device variable of a host shadow variable, on `device`.
    pub fn symbol(&self, device: usize, symbol: &Symbol) -> Result<(u64, u64), hipError_t> {
        let module = self.binary_module(device, &symbol.binary)?;
        self.global(&module, &symbol.name()).map_err(|_| hipErrorInvalidSymbol)
    }

    /// Unloads the modules of a binary when its library is closed; `stubs` are its kernels.
    pub fn unload_binary(&self, binary: u64, stubs: &[usize]) {
        for device in 0..self.devices.len() {
            let Some(module) = self.binaries.lock().remove(&(binary, device)) else { continue };
            let mut resolved = self.stubs.write();
            for stub in stubs {
                if resolved.get(&(*stub, device)).is_some_and(|function| function.module == module.id) {
                    resolved.remove(&(*stub, device));
                }
            }
            drop(resolved);
            let _ = self.unload_module(module.id);
        }
    }
}
