//! Loaded code objects and their kernels.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use code_object::{CodeObject, Kernel};
use parking_lot::{Mutex, RwLock};

use super::address_hash::AddressHash;

/// A code object on a device.
#[derive(Debug)]
pub struct Module {
    pub id: u64,
    pub device: usize,
    /// Load address; symbol addresses are relative to it.
    pub base: u64,
    pub code: CodeObject,
    /// Kernels that were looked up, by name.
    pub functions: Mutex<HashMap<String, Arc<Function>>>,
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

/// The program's own kernels, as far as they were used.
#[derive(Debug, Default)]
pub struct Kernels {
    /// Modules of registered fat binaries, by (binary, device).
    pub binaries: Mutex<HashMap<(u64, usize), Arc<Module>>>,
    /// Resolved kernel stubs, by (stub address, device): the hot path of a kernel launch.
    pub stubs: RwLock<HashMap<(usize, usize), Arc<Function>, AddressHash>>,
    /// Hashes of the code images that this session has sent.
    pub sent_images: Mutex<HashSet<[u8; 32]>>,
}
