//! The program's own kernels and device variables: found by the addresses that its constructors registered.

use std::sync::Arc;

use hip_api::types::*;

use super::module::{Function, Module};
use super::registry::{self, Symbol};
use super::runtime::Runtime;
use crate::process::exit;
use crate::telemetry::report;

impl Runtime {
    /// The module of a registered binary on `device`; loaded on first use.
    pub fn binary_module(&self, device: usize, binary: &registry::Binary) -> Result<Arc<Module>, hipError_t> {
        let mut binaries = self.kernels.binaries.lock();
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
        exit::notice_exit();
        Ok(module)
    }

    /// The kernel of a host stub on `device`.
    #[inline]
    pub fn stub(&self, device: usize, stub: usize) -> Result<Arc<Function>, hipError_t> {
        if let Some(function) = self.kernels.stubs.read().get(&(stub, device)) {
            return Ok(Arc::clone(function));
        }
        self.resolve_stub(device, stub)
    }

    #[cold]
    fn resolve_stub(&self, device: usize, stub: usize) -> Result<Arc<Function>, hipError_t> {
        let symbol = registry::function(stub).ok_or(hipErrorInvalidDeviceFunction)?;
        let module = self.binary_module(device, &symbol.binary)?;
        let function = self.function(&module, &symbol.name()).map_err(|_| hipErrorInvalidDeviceFunction)?;
        self.kernels.stubs.write().insert((stub, device), Arc::clone(&function));
        Ok(function)
    }

    /// Drops a cached stub whose address another library has registered.
    #[cold]
    pub fn forget_stub(&self, stub: usize) {
        self.kernels.stubs.write().retain(|(address, _), _| *address != stub);
    }

    /// Address and size of the device variable of a host shadow variable, on `device`.
    pub fn symbol(&self, device: usize, symbol: &Symbol) -> Result<(u64, u64), hipError_t> {
        let module = self.binary_module(device, &symbol.binary)?;
        self.global(&module, &symbol.name()).map_err(|_| hipErrorInvalidSymbol)
    }

    /// Unloads the modules of a binary when its library is closed; `stubs` are its kernels.
    pub fn unload_binary(&self, binary: u64, stubs: &[usize]) {
        for device in 0..self.devices.len() {
            let Some(module) = self.kernels.binaries.lock().remove(&(binary, device)) else { continue };
            let mut resolved = self.kernels.stubs.write();
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
