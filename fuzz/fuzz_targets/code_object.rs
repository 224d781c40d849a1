//! Fuzzes the parsers of fat binaries, code objects and host programs: they reject or parse the input, but never panic.
#![no_main]

use std::sync::Arc;

use code_object::{CodeObject, FatBinary, SourceLines, container_size, embedded_targets};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = container_size(bytes);
    let _ = embedded_targets(bytes);
    let _ = SourceLines::parse(bytes).find(0x1000);
    let _ = CodeObject::parse(Arc::from(bytes));
    if let Ok(binary) = FatBinary::parse(bytes) {
        for entry in binary.entries() {
            if let Ok(object) = CodeObject::parse(Arc::clone(&entry.image)) {
                for kernel in object.kernels() {
                    assert!(kernel.entry_address < object.load_size());
                    assert!(kernel.args.iter().all(|arg| arg.offset + arg.size <= kernel.kernarg_size));
                }
                for relocation in object.relocations() {
                    if let Some((_, size)) = relocation.value(0) {
                        assert!(relocation.address + size as u64 <= object.load_size());
                    }
                }
            }
        }
    }
});
