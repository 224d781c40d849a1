//! Modules: code objects in device memory at given addresses, and their kernels, which are translated when they are first launched.

use std::collections::HashMap;
use std::sync::Arc;

use backend::{DeviceError, FunctionId, ModuleId};
use code_object::{CodeObject, Kernel, RelocationTarget};
use hip_api::types::{hipErrorInvalidImage, hipErrorNoBinaryForGpu, hipErrorNotFound};
use isa::Arch;
use lift::Code;
use parking_lot::Mutex;

use crate::program::{Compiled, Key, Translations};

/// A loaded code object.
pub(crate) struct Module {
    pub(crate) id: ModuleId,
    pub(crate) device: u32,
    pub(crate) base: u64,
    pub(crate) arch: Arch,
    pub(crate) object: CodeObject,
    /// Hash of the code object's file.
    pub(crate) hash: [u8; 32],
    /// The relocated image, as it is in device memory at the load.
    image: Vec<u8>,
    /// Translations of its kernels.
    pub(crate) translations: Mutex<Translations>,
    /// Functions that may be called through pointers.
    pointers: Vec<u64>,
}

impl Module {
    /// Parses a code object and relocates it to `base`.
    pub(crate) fn parse(
        id: ModuleId,
        device: u32,
        base: u64,
        arch: Arch,
        file: &[u8],
    ) -> Result<Module, DeviceError> {
        let bad = |text: String| DeviceError::new(hipErrorInvalidImage, text);
        let object = CodeObject::parse(file.into()).map_err(|error| bad(error.to_string()))?;
        let processor = object.target().processor.as_str();
        let fits = match arch {
            Arch::Gfx90a => processor == "gfx90a",
            Arch::Gfx942 => matches!(processor, "gfx942" | "gfx9-4-generic"),
        };
        if !fits {
            let text = format!("code object is for {processor}, the device is {arch:?}");
            return Err(DeviceError::new(hipErrorNoBinaryForGpu, text));
        }
        let image = relocate(&object, base).map_err(bad)?;
        let (hash, pointers) = (*blake3::hash(file).as_bytes(), lift::function_pointers(&object));
        let translations = Mutex::default();
        Ok(Module { id, device, base, arch, hash, image, translations, pointers, object })
    }

    /// The bytes at the base.
    pub(crate) fn image(&self) -> &[u8] {
        &self.image
    }

    /// Address and size of a symbol.
    pub(crate) fn symbol(&self, name: &str) -> Result<(u64, u64), DeviceError> {
        let symbol = self.object.symbol(name);
        let found = symbol.map(|symbol| (self.base + symbol.value, symbol.size));
        found.ok_or_else(|| DeviceError::new(hipErrorNotFound, format!("the module has no symbol {name}")))
    }

    /// The executable segment that contains the entry of a kernel.
    pub(crate) fn code(&self, kernel: &Kernel) -> Option<Code<'_>> {
        let mut segments = self.object.segments().iter();
        let segment = segments.find(|it| it.is_executable() && it.contains(kernel.entry_address, 4))?;
        let start = usize::try_from(segment.vaddr).ok()?;
        let bytes = self.image.get(start..start.checked_add(segment.bytes.len())?)?;
        Some(Code { address: segment.vaddr, bytes, pointers: &self.pointers })
    }
}

/// The segments of a code object with all relocations applied, zero elsewhere.
fn relocate(object: &CodeObject, base: u64) -> Result<Vec<u8>, String> {
    let mut image = vec![0; object.load_size() as usize];
    let outside = || "a segment or relocation lies outside the code object's load range".to_owned();
    for segment in object.segments() {
        let bytes: &[u8] = &segment.bytes;
        let bytes = &bytes[..bytes.len().min(segment.memsz as usize)];
        let start = segment.vaddr as usize;
        let to = start.checked_add(bytes.len()).and_then(|end| image.get_mut(start..end));
        to.ok_or_else(outside)?.copy_from_slice(bytes);
    }
    for relocation in object.relocations() {
        if let RelocationTarget::Undefined(symbol) = &relocation.target {
            let at = relocation.address;
            return Err(format!("relocation at {at:#x} needs symbol {symbol}, which is not defined"));
        }
        let Some((value, size)) = relocation.value(base) else {
            return Err(format!("relocation at {:#x} has an unknown type", relocation.address));
        };
        let (start, size) = (relocation.address as usize, size.min(8));
        let to = start.checked_add(size).and_then(|end| image.get_mut(start..end));
        to.ok_or_else(outside)?.copy_from_slice(&value.to_le_bytes()[..size]);
    }
    Ok(image)
}

/// A kernel with an ID.
pub(crate) struct Function {
    pub(crate) module: Arc<Module>,
    pub(crate) name: Arc<str>,
    pub(crate) kernel: Kernel,
    /// The translation of the last launch, which the next one probably needs as well.
    pub(crate) recent: Mutex<Option<(Key, Arc<Compiled>)>>,
}

/// The modules and functions of a session.
#[derive(Default)]
pub(crate) struct Modules {
    modules: HashMap<ModuleId, Arc<Module>>,
    functions: HashMap<FunctionId, Arc<Function>>,
}

impl Modules {
    pub(crate) fn is_free(&self, id: ModuleId) -> bool {
        !self.modules.contains_key(&id)
    }

    pub(crate) fn insert(&mut self, module: Module) {
        self.modules.insert(module.id, Arc::new(module));
    }

    pub(crate) fn get(&self, id: ModuleId) -> Result<&Arc<Module>, DeviceError> {
        self.modules
            .get(&id)
            .ok_or_else(|| DeviceError::invalid_handle(format!("there is no module {id:#x}")))
    }

    /// Removes a module, whose translations are to be unloaded, and its functions.
    pub(crate) fn remove(&mut self, id: ModuleId) -> Result<Arc<Module>, DeviceError> {
        let module = Arc::clone(self.get(id)?);
        self.modules.remove(&id);
        self.functions.retain(|_, function| function.module.id != id);
        Ok(module)
    }

    pub(crate) fn define(&mut self, id: FunctionId, module: ModuleId, name: &str) -> Result<(), DeviceError> {
        let module = Arc::clone(self.get(module)?);
        let object = &module.object;
        let kernel = object.kernel(name).or_else(|| object.kernel(name.strip_suffix(".kd")?));
        let kernel = kernel
            .ok_or_else(|| DeviceError::new(hipErrorNotFound, format!("the module has no kernel {name}")))?
            .clone();
        let name = Arc::from(kernel.name.as_str());
        let function = Function { module, name, kernel, recent: Mutex::default() };
        self.functions.insert(id, Arc::new(function));
        Ok(())
    }

    pub(crate) fn function(&self, id: FunctionId) -> Result<Arc<Function>, DeviceError> {
        self.functions
            .get(&id)
            .cloned()
            .ok_or_else(|| DeviceError::invalid_handle(format!("there is no function {id:#x}")))
    }

    /// IDs of the modules of a device.
    pub(crate) fn of_device(&self, device: u32) -> Vec<ModuleId> {
        self.modules.values().filter(|module| module.device == device).map(|module| module.id).collect()
    }
}
