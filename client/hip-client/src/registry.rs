//! What the program's static constructors registered: fat binaries, kernel stubs, device variables.
//!
//! Registration only writes these maps: it runs under the loader's lock, before main, perhaps for 100,000 kernels of which a
//! handful will be launched. Images are looked at on first use.

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::{Arc, LazyLock, OnceLock};

use code_object::FatBinary;
use parking_lot::RwLock;

/// One registered fat binary. `id` is never reused.
#[derive(Debug)]
pub struct Binary {
    pub id: u64,
    image: StaticPointer<u8>,
    parsed: OnceLock<Result<FatBinary, code_object::Error>>,
}

/// A pointer into the image of a loaded program or library.
///
/// Valid from registration until `__hipUnregisterFatBinary`, which the image's own destructors call.
#[derive(Clone, Copy, Debug)]
struct StaticPointer<T>(*const T);

// SAFETY: the memory behind it is immutable and outlives the registration.
unsafe impl<T> Send for StaticPointer<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for StaticPointer<T> {}

/// A kernel stub or device variable: which binary it is in, under which name.
#[derive(Clone, Debug)]
pub struct Symbol {
    pub binary: Arc<Binary>,
    name: StaticPointer<c_char>,
    pub bytes: usize,
}

#[derive(Debug, Default)]
struct Registry {
    binaries: HashMap<u64, Arc<Binary>>,
    functions: HashMap<usize, Symbol>,
    variables: HashMap<usize, Symbol>,
    next_id: u64,
}

static REGISTRY: LazyLock<RwLock<Registry>> = LazyLock::new(RwLock::default);

impl Binary {
    /// The parsed image; parsing happens once, at first use.
    pub fn fat_binary(&self) -> Result<&FatBinary, &code_object::Error> {
        self.parsed
            .get_or_init(|| {
                // SAFETY: the compiler's wrapper points at a whole container, which stays mapped while registered.
                let bytes = unsafe {
                    let size = code_object::fat_binary_size(self.image.0)?;
                    std::slice::from_raw_parts(self.image.0, size)
                };
                FatBinary::parse(bytes)
            })
            .as_ref()
    }
}

impl Symbol {
    pub fn name(&self) -> String {
        // SAFETY: registration passes NUL-terminated strings of the image.
        unsafe { CStr::from_ptr(self.name.0) }.to_string_lossy().into_owned()
    }

    /// The name as the program registered it, with the program's lifetime.
    pub fn name_pointer(&self) -> *const c_char {
        self.name.0
    }
}

/// Registers an image; the number is the cookie the program passes back.
pub fn add_binary(image: *const u8) -> u64 {
    let mut registry = REGISTRY.write();
    registry.next_id += 1;
    let id = registry.next_id;
    let binary = Binary { id, image: StaticPointer(image), parsed: OnceLock::new() };
    registry.binaries.insert(id, Arc::new(binary));
    id
}

pub fn add_function(binary: u64, stub: usize, name: *const c_char) {
    let mut registry = REGISTRY.write();
    if let Some(binary) = registry.binaries.get(&binary).cloned() {
        registry.functions.insert(stub, Symbol { binary, name: StaticPointer(name), bytes: 0 });
    }
}

pub fn add_variable(binary: u64, variable: usize, name: *const c_char, bytes: usize) {
    let mut registry = REGISTRY.write();
    if let Some(binary) = registry.binaries.get(&binary).cloned() {
        registry.variables.insert(variable, Symbol { binary, name: StaticPointer(name), bytes });
    }
}

/// Forgets an image and all that is in it.
pub fn remove_binary(id: u64) -> Option<Arc<Binary>> {
    let mut registry = REGISTRY.write();
    let binary = registry.binaries.remove(&id)?;
    registry.functions.retain(|_, f| f.binary.id != id);
    registry.variables.retain(|_, v| v.binary.id != id);
    Some(binary)
}

pub fn function(stub: usize) -> Option<Symbol> {
    REGISTRY.read().functions.get(&stub).cloned()
}

pub fn variable(address: usize) -> Option<Symbol> {
    REGISTRY.read().variables.get(&address).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_thousand_kernels_register_without_looking_at_the_image() {
        // A null image would crash if anything read it.
        let binary = add_binary(std::ptr::null());
        let started = std::time::Instant::now();
        for stub in 0..121_000 {
            add_function(binary, 0x5000_0000 + stub, c"kernel".as_ptr());
        }
        assert_eq!(function(0x5000_0000 + 120_999).unwrap().name(), "kernel");
        assert!(function(0x4fff_ffff).is_none());
        remove_binary(binary).unwrap();
        assert!(function(0x5000_0000).is_none());
        assert!(started.elapsed().as_secs() < 20, "registration must not scan");
    }
}
