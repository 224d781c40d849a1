//! Loads code objects: placed, parsed and looked up on the client, so that loading needs no round trip.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use code_object::{CodeObject, FatBinary};
use hip_api::types::*;
use parking_lot::Mutex;
use session::arena::charge;
use wire::capability;

use super::memory::Kind;
use super::module::{Function, Module};
use super::runtime::Runtime;
use super::variables;
use crate::telemetry::report;

/// Set in the cookie of managed variables of a loaded module, to distinguish them from those of registered binaries.
const OF_MODULES: u64 = 1 << 63;

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
    pub(super) fn load_from(
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
        let hash = session::upload::hash(code.image());
        let image = Arc::clone(code.image());
        let (id, module) = self
            .tables
            .modules
            .insert_with(|id| Module { id, device, base: place.start, code, functions: Mutex::default() })
            .ok_or(hipErrorOutOfMemory)?;
        // Locked until the frame is in the ring: a second load of the same image must not overtake the bytes.
        let mut sent = self.kernels.sent_images.lock();
        let known = !sent.insert(hash) || self.connection.has_content(&hash);
        let body = if known { Arc::from([]) } else { image };
        let operation =
            wire::LoadModule { module: id, device: self.devices[device].ordinal, base: place.start, hash };
        self.allocate_remote_with(&operation, &body).inspect_err(|_| {
            self.tables.modules.remove(id);
            self.memory.remove(place.start);
            ledger.give_back(charge(bytes));
        })?;
        Ok(module)
    }

    pub fn unload_module(&self, id: u64) -> Result<(), hipError_t> {
        let module = self.tables.modules.remove(id).ok_or(hipErrorNotFound)?;
        variables::remove_binary(id | OF_MODULES);
        for function in module.functions.lock().values() {
            self.tables.functions.remove(function.id);
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
            .tables
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
    pub(super) fn place_variables(
        &self,
        device: usize,
        binary: u64,
        module: &Module,
    ) -> Result<(), hipError_t> {
        let variables = variables::of_binary(binary);
        if variables.is_empty() {
            return Ok(());
        }
        self.share_variables()?;
        for variable in variables {
            let Ok((pointer, _)) = self.place_of(module, &variable.name) else { continue };
            let view = self.memory.view(variable.address, variable.bytes).ok_or(hipErrorInvalidSymbol)?;
            // On a new non-blocking stream, and synchronously: kernels on any stream may follow.
            let own = self.create_stream_on(device, hipStreamNonBlocking, 0, Vec::new())?;
            let operation = wire::Write { stream: own, destination: pointer };
            let written = self.call_with_body(&operation, &view.to_le_bytes());
            self.tables.streams.remove(own);
            self.post(&wire::DestroyStream { stream: own }, &[])?;
            written?;
        }
        Ok(())
    }
}
