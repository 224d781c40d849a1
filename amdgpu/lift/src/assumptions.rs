//! What a translation may take for granted, and the code that it starts from.

use code_object::{CodeObject, RelocationKind};

/// What is known of every launch that runs the result. A launch that breaks an assumption needs another translation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Assumptions {
    /// Address at which the code object is loaded.
    pub base: u64,
    /// Work-items of a workgroup in each dimension.
    pub block: Option<[u32; 3]>,
    /// Every wave has 64 work-items, so that EXEC starts with all lanes.
    pub full_waves: bool,
    /// Pointers among the kernel arguments: byte offset in the argument block, and the power of two that divides the pointer.
    pub alignments: Vec<(u32, u8)>,
    /// Bytes of scratch of a lane if the size of the kernel's stack is not known (recursion, calls through pointers).
    pub stack_bytes: u32,
}

/// Executable code of a code object, as it is loaded.
#[derive(Clone, Copy, Debug)]
pub struct Code<'a> {
    /// Address of the first byte, relative to the code object's base.
    pub address: u64,
    /// The bytes.
    pub bytes: &'a [u8],
    /// Addresses in the code that the code object's data contain, relative to its base: functions that may be called through
    /// pointers. [`function_pointers`] finds them.
    pub pointers: &'a [u64],
}

/// Addresses of code that the data of a code object contain, relative to its base.
pub fn function_pointers(object: &CodeObject) -> Vec<u64> {
    let values = object.relocations().iter().filter_map(|relocation| match relocation.kind {
        RelocationKind::Relative64 | RelocationKind::Abs64 => relocation.value(0),
        _ => None,
    });
    let is_code = |address: &u64| {
        let mut segments = object.segments().iter();
        segments.any(|segment| segment.is_executable() && segment.contains(*address, 4))
    };
    values.map(|(address, _)| address).filter(is_code).collect()
}

impl Code<'_> {
    /// The bytes from an address (relative to the base) on; empty if the address is outside.
    pub fn at(&self, address: u64) -> &[u8] {
        let offset = address.checked_sub(self.address).and_then(|offset| usize::try_from(offset).ok());
        offset.and_then(|offset| self.bytes.get(offset..)).unwrap_or_default()
    }
}
