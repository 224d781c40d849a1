//! Loaded code objects and their kernels, by ID.

use std::collections::HashMap;
use std::sync::Arc;

use backend::{DeviceError, FunctionId, FunctionRecord, Inventory, ModuleId, ModuleRecord};
use code_object::CodeObject;
use emulator::{LoadedKernel, Module};
use hip_api::types::{hipErrorInvalidImage, hipErrorNoBinaryForGpu, hipErrorNotFound};
use isa::Arch;

use crate::memory::Memory;

pub(crate) struct Loaded {
    pub(crate) device: u32,
    pub(crate) module: Module,
}

/// The modules and functions of a session.
#[derive(Default)]
pub(crate) struct Modules {
    modules: HashMap<ModuleId, Loaded>,
    functions: HashMap<FunctionId, (ModuleId, Arc<LoadedKernel>)>,
}

impl Modules {
    /// Parses an image, loads it at `base` and relocates it.
    pub(crate) fn load(
        &mut self,
        memory: &Memory,
        device: u32,
        arch: Arch,
        id: ModuleId,
        base: u64,
        image: &[u8],
    ) -> Result<(), DeviceError> {
        if self.modules.contains_key(&id) {
            return Err(DeviceError::invalid_handle(format!("module {id:#x} exists already")));
        }
        let object = CodeObject::parse(Arc::from(image)).map_err(|error| {
            DeviceError::new(hipErrorInvalidImage, format!("invalid code object: {error}"))
        })?;
        memory.map_module(device, base, object.load_size())?;
        let bytes = object.load_size();
        // SAFETY: the range was just mapped for this module only; it is unmapped only after the module is unloaded and all
        // work has ended.
        let loaded = unsafe { Module::load(object, arch, base, memory.table(device)) };
        match loaded {
            Ok(module) => {
                memory.show_module(device, base, bytes)?;
                self.modules.insert(id, Loaded { device, module });
                Ok(())
            }
            Err(error) => {
                memory.unmap(base);
                let code = match error {
                    emulator::module::Error::Architecture { .. } => hipErrorNoBinaryForGpu,
                    _ => hipErrorInvalidImage,
                };
                Err(DeviceError::new(code, error.to_string()))
            }
        }
    }

    /// Removes a module, so that new work cannot use it. When earlier work has ended, the caller must remove its kernels with
    /// [`Modules::forget`] and free its memory with [`release`].
    pub(crate) fn unload(&mut self, id: ModuleId) -> Result<Loaded, DeviceError> {
        self.modules.remove(&id).ok_or_else(|| unknown_module(id))
    }

    /// Removes the kernels of an unloaded module. Compares kernels by pointer, because their IDs may have been reused.
    pub(crate) fn forget(&mut self, loaded: &Loaded) {
        let is_its = |kernel: &Arc<LoadedKernel>| {
            loaded.module.kernel(kernel.name()).is_some_and(|own| Arc::ptr_eq(own, kernel))
        };
        self.functions.retain(|_, (_, kernel)| !is_its(kernel));
    }

    pub(crate) fn take_device(&mut self, device: u32) -> Vec<Loaded> {
        let gone: Vec<ModuleId> =
            self.modules.iter().filter(|(_, loaded)| loaded.device == device).map(|(id, _)| *id).collect();
        let gone: Vec<Loaded> = gone.into_iter().filter_map(|id| self.unload(id).ok()).collect();
        for loaded in &gone {
            self.forget(loaded);
        }
        gone
    }

    pub(crate) fn global(&self, id: ModuleId, name: &str) -> Result<(u64, u64), DeviceError> {
        let loaded = self.modules.get(&id).ok_or_else(|| unknown_module(id))?;
        let found = loaded.module.symbol_address(name);
        found.ok_or_else(|| DeviceError::new(hipErrorNotFound, format!("the module has no symbol {name}")))
    }

    pub(crate) fn define(&mut self, id: FunctionId, module: ModuleId, name: &str) -> Result<(), DeviceError> {
        let loaded = self.modules.get(&module).ok_or_else(|| unknown_module(module))?;
        let kernel = loaded.module.kernel(name).or_else(|| loaded.module.kernel(name.strip_suffix(".kd")?));
        let kernel = kernel
            .ok_or_else(|| DeviceError::new(hipErrorNotFound, format!("the module has no kernel {name}")))?;
        self.functions.insert(id, (module, Arc::clone(kernel)));
        Ok(())
    }

    /// Records modules and functions; identical code objects are stored once.
    pub(crate) fn capture(&self, inventory: &mut Inventory) {
        // Equal images are found by comparing those of the same size: hashing them all would read hundreds of megabytes.
        let mut images: HashMap<usize, Vec<usize>> = HashMap::new();
        for (id, loaded) in &self.modules {
            let object = loaded.module.object();
            let alike = images.entry(object.image().len()).or_default();
            let is_this = |known: &Arc<[u8]>| Arc::ptr_eq(known, object.image()) || known == object.image();
            let known = alike.iter().copied().find(|index| is_this(&inventory.images[*index]));
            let image = known.unwrap_or_else(|| {
                alike.push(inventory.images.len());
                inventory.images.push(Arc::clone(object.image()));
                inventory.images.len() - 1
            });
            let (base, bytes) = (loaded.module.base(), object.load_size());
            inventory.modules.push(ModuleRecord { device: loaded.device, module: *id, base, bytes, image });
        }
        let functions = self.functions.iter().filter(|(_, (module, _))| self.modules.contains_key(module));
        inventory.functions.extend(functions.map(|(id, (module, kernel))| FunctionRecord {
            function: *id,
            module: *module,
            name: kernel.name().to_owned(),
        }));
    }

    /// Fails unless a kernel may be launched. A kernel of an unloaded module may not, although queued launches still find it.
    pub(crate) fn check(&self, id: FunctionId) -> Result<(), DeviceError> {
        let found = self.functions.get(&id).filter(|(module, _)| self.modules.contains_key(module));
        found.map(drop).ok_or_else(|| unknown_function(id))
    }

    /// Looks up a kernel and its module.
    pub(crate) fn function(&self, id: FunctionId) -> Result<(ModuleId, Arc<LoadedKernel>), DeviceError> {
        let found = self.functions.get(&id).map(|(module, kernel)| (*module, Arc::clone(kernel)));
        found.ok_or_else(|| unknown_function(id))
    }
}

/// Frees the memory of an unloaded module.
pub(crate) fn release(memory: &Memory, loaded: &Loaded) {
    for table in memory.tables() {
        loaded.module.unload(table);
    }
    memory.unmap(loaded.module.base());
}

fn unknown_function(id: FunctionId) -> DeviceError {
    DeviceError::invalid_handle(format!("there is no function {id:#x}"))
}

fn unknown_module(id: ModuleId) -> DeviceError {
    DeviceError::invalid_handle(format!("there is no module {id:#x}"))
}
