//! Objects registered by the program's static constructors: fat binaries, kernel stubs, device variables.
//!
//! Registration only fills these maps: it runs under the loader's lock, before main, perhaps for 100,000 kernels of which
//! a handful will be launched. Images are parsed on first use.

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock, OnceLock};

use code_object::FatBinary;
use parking_lot::RwLock;

use super::address_hash::AddressHash;

/// One registered fat binary. `id` is never reused.
#[derive(Debug)]
pub struct Binary {
    pub id: u64,
    image: StaticPointer<u8>,
    parsed: OnceLock<Result<FatBinary, code_object::Error>>,
    /// A message was printed that it has no code for a device.
    pub reported: AtomicBool,
}

/// A pointer into the image of a loaded program or library.
///
/// Valid from registration until `__hipUnregisterFatBinary`, which the image's own destructors call.
#[derive(Clone, Copy, Debug)]
struct StaticPointer<T>(*const T);

// SAFETY: the memory it points to is immutable and outlives the registration.
unsafe impl<T> Send for StaticPointer<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for StaticPointer<T> {}

/// A kernel stub or device variable: its binary and its name there.
#[derive(Clone, Debug)]
pub struct Symbol {
    pub binary: Arc<Binary>,
    name: StaticPointer<c_char>,
    pub bytes: usize,
}

#[derive(Debug, Default)]
struct Registry {
    binaries: HashMap<u64, Registered>,
    functions: HashMap<usize, Symbol, AddressHash>,
    variables: HashMap<usize, Symbol, AddressHash>,
    next_id: u64,
}

/// A binary and the symbols registered with it, which are removed together.
#[derive(Debug)]
struct Registered {
    binary: Arc<Binary>,
    functions: Vec<usize>,
    variables: Vec<usize>,
}

static REGISTRY: LazyLock<RwLock<Registry>> = LazyLock::new(RwLock::default);

impl Binary {
    /// The image, parsed once on first use.
    pub fn fat_binary(&self) -> Result<&FatBinary, &code_object::Error> {
        self.parsed
            .get_or_init(|| {
                // SAFETY: the compiler's wrapper points at a complete container, which stays mapped while registered.
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

/// Registers an image; the number is the cookie that the program passes back.
pub fn add_binary(image: *const u8) -> u64 {
    let mut registry = REGISTRY.write();
    registry.next_id += 1;
    let id = registry.next_id;
    let binary = Arc::new(Binary {
        id,
        image: StaticPointer(image),
        parsed: OnceLock::new(),
        reported: AtomicBool::new(false),
    });
    registry.binaries.insert(id, Registered { binary, functions: Vec::new(), variables: Vec::new() });
    id
}

/// Registers a kernel; true if the address was already registered.
pub fn add_function(binary: u64, stub: usize, name: *const c_char) -> bool {
    let registry = &mut *REGISTRY.write();
    let Some(registered) = registry.binaries.get_mut(&binary) else { return false };
    registered.functions.push(stub);
    let binary = Arc::clone(&registered.binary);
    registry.functions.insert(stub, Symbol { binary, name: StaticPointer(name), bytes: 0 }).is_some()
}

pub fn add_variable(binary: u64, variable: usize, name: *const c_char, bytes: usize) {
    let registry = &mut *REGISTRY.write();
    if let Some(registered) = registry.binaries.get_mut(&binary) {
        registered.variables.push(variable);
        let binary = Arc::clone(&registered.binary);
        registry.variables.insert(variable, Symbol { binary, name: StaticPointer(name), bytes });
    }
}

/// Removes an image and its symbols. Returns its kernel stubs as well.
pub fn remove_binary(id: u64) -> Option<(Arc<Binary>, Vec<usize>)> {
    let registry = &mut *REGISTRY.write();
    let Registered { binary, functions, variables } = registry.binaries.remove(&id)?;
    forget(&mut registry.functions, &functions, id);
    forget(&mut registry.variables, &variables, id);
    Some((binary, functions))
}

/// Removes the symbols that still belong to a binary: another may have registered the same address since.
fn forget(symbols: &mut HashMap<usize, Symbol, AddressHash>, addresses: &[usize], binary: u64) {
    for address in addresses {
        if symbols.get(address).is_some_and(|symbol| symbol.binary.id == binary) {
            symbols.remove(address);
        }
    }
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
        let binaries: Vec<u64> = (0..500).map(|_| add_binary(std::ptr::null())).collect();
        for stub in 0..121_000 {
            add_function(binaries[stub / 242], 0x5000_0000 + stub, c"kernel".as_ptr());
        }
        assert_eq!(function(0x5000_0000 + 120_999).unwrap().name(), "kernel");
        assert!(function(0x4fff_ffff).is_none());
        for (index, binary) in binaries.into_iter().enumerate() {
            let stub = 0x5000_0000 + index * 242;
            assert!(function(stub).is_some());
            let (_, stubs) = remove_binary(binary).unwrap();
            assert!(stubs.iter().copied().eq(stub..stub + 242), "the stubs of the binary are returned");
            assert!(function(stub).is_none());
        }
    }

    #[test]
    fn an_address_that_was_registered_again_stays_with_its_new_binary() {
        let (old, new) = (add_binary(std::ptr::null()), add_binary(std::ptr::null()));
        assert!(!add_function(old, 0x6000_0000, c"old".as_ptr()));
        assert!(add_function(new, 0x6000_0000, c"new".as_ptr()), "the address was already registered");
        remove_binary(old).unwrap();
        assert_eq!(function(0x6000_0000).unwrap().name(), "new");
        remove_binary(new).unwrap();
        assert!(function(0x6000_0000).is_none());
    }
}
