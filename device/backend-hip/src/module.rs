//! Maps module and function IDs to the runtime's handles.

use std::collections::HashMap;

use backend::{DeviceError, FunctionId, ModuleId};
use hip_api::types::{hipFunction_t, hipModule_t};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Module {
    pub(crate) device: u32,
    handle: usize,
}

impl Module {
    pub(crate) fn handle(self) -> hipModule_t {
        self.handle as hipModule_t
    }
}

#[derive(Debug, Default)]
pub(crate) struct Modules {
    modules: HashMap<ModuleId, Module>,
    functions: HashMap<FunctionId, (ModuleId, usize)>,
}

impl Modules {
    pub(crate) fn insert(&mut self, id: ModuleId, device: u32, handle: hipModule_t) {
        self.modules.insert(id, Module { device, handle: handle as usize });
    }

    pub(crate) fn is_free(&self, id: ModuleId) -> bool {
        !self.modules.contains_key(&id)
    }

    pub(crate) fn get(&self, id: ModuleId) -> Result<Module, DeviceError> {
        self.modules
            .get(&id)
            .copied()
            .ok_or_else(|| DeviceError::invalid_handle(format!("there is no module {id:#x}")))
    }

    pub(crate) fn remove(&mut self, id: ModuleId) -> Result<Module, DeviceError> {
        let module = self.get(id)?;
        self.modules.remove(&id);
        self.functions.retain(|_, (of, _)| *of != id);
        Ok(module)
    }

    pub(crate) fn define(&mut self, id: FunctionId, module: ModuleId, handle: hipFunction_t) {
        self.functions.insert(id, (module, handle as usize));
    }

    pub(crate) fn function(&self, id: FunctionId) -> Result<hipFunction_t, DeviceError> {
        let found = self.functions.get(&id).map(|(_, handle)| *handle as hipFunction_t);
        found.ok_or_else(|| DeviceError::invalid_handle(format!("there is no function {id:#x}")))
    }

    pub(crate) fn forget_device(&mut self, device: u32) {
        self.modules.retain(|_, module| module.device != device);
        let modules = &self.modules;
        self.functions.retain(|_, (module, _)| modules.contains_key(module));
    }
}
