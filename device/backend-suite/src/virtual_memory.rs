//! Tests of physical memory and its mappings.

use std::sync::mpsc;

use hip_api::types::{
    hipErrorIllegalAddress, hipErrorInvalidHandle, hipErrorInvalidValue, hipErrorOutOfMemory,
};

use crate::rig::{PATIENCE, Rig, arguments, copy};
use backend::{
    Command, DeviceError, MemoryAccess, PHYSICAL_GRANULARITY as GRAIN, Scope, Shareable, SharedMemory,
};

const MEMORY: u64 = 0x6000;

/// An address for mappings, far from the allocations of `Rig::alloc`.
fn place(rig: &Rig) -> u64 {
    rig.device.arena().base + (1 << 30)
}

impl Rig {
    /// Maps new memory of one granule at an address.
    fn mapped(&self, memory: u64, address: u64, access: MemoryAccess) {
        self.device.create_memory(0, memory, GRAIN).unwrap();
        self.device.map_memory(memory, 0, address, GRAIN).unwrap();
        self.device.set_access(0, address, GRAIN, access).unwrap();
    }

    fn shared(&self, what: Shareable) -> Result<SharedMemory, DeviceError> {
        let (sender, shared) = mpsc::channel();
        self.device.share(what, Box::new(move |it| drop(sender.send(it))));
        shared.recv_timeout(PATIENCE).expect("sharing completes within the timeout")
    }
}

/// Kernels use physical memory through its mappings.
pub fn mapped_memory_is_zero_and_works_like_any_other(rig: Rig) {
    let a = place(&rig);
    rig.mapped(MEMORY, a, MemoryAccess::ReadWrite);
    assert_eq!(rig.word(0, a + GRAIN - 4), 0);
    rig.kernel(0, 1, 64, arguments(a, &[64]));
    assert_eq!(rig.word(0, a + 252), 1);
    // A second mapping of the same memory shows the same bytes.
    let b = a + 4 * GRAIN;
    rig.device.map_memory(MEMORY, 0, b, GRAIN).unwrap();
    rig.device.set_access(0, b, GRAIN, MemoryAccess::ReadWrite).unwrap();
    rig.kernel(0, 1, 64, arguments(b, &[64]));
    assert_eq!(rig.word(0, a + 252), 2);
}

/// Copies may cross from one mapping to the next.
pub fn neighbouring_mappings_are_one_range_for_copies(rig: Rig) {
    let a = place(&rig);
    rig.mapped(MEMORY, a, MemoryAccess::ReadWrite);
    rig.mapped(MEMORY + 1, a + GRAIN, MemoryAccess::ReadWrite);
    let edge = a + GRAIN - 8;
    rig.run(0, Command::write_flat(edge, (1..=16).collect()));
    assert_eq!(rig.read(0, edge, 16).unwrap(), (1..=16).collect::<Vec<u8>>());
    rig.device.unmap_memory(a, 2 * GRAIN).unwrap();
    assert_eq!(rig.read(0, edge, 4).unwrap_err().code, hipErrorInvalidValue);
    // The physical memory still exists and can be mapped elsewhere.
    let b = a + 8 * GRAIN;
    rig.device.map_memory(MEMORY + 1, 0, b, GRAIN).unwrap();
    rig.device.set_access(0, b, GRAIN, MemoryAccess::Read).unwrap();
    assert_eq!(rig.read(0, b, 8).unwrap(), (9..=16).collect::<Vec<u8>>());
}

/// Kernels cannot write to a read-only mapping.
pub fn a_write_to_a_mapping_for_reading_is_a_fault(rig: Rig) {
    let (a, b) = (place(&rig), rig.alloc(64));
    rig.mapped(MEMORY, a, MemoryAccess::Read);
    rig.run(0, copy(b, a, 4));
    assert_eq!(rig.word(0, b), 0, "reading is allowed");
    rig.kernel(0, 1, 1, arguments(a, &[1]));
    assert_eq!(rig.wait(Scope::Device(0)).unwrap_err().code, hipErrorIllegalAddress);
}

/// Kernels cannot read a mapping without access rights.
pub fn a_mapping_without_access_is_a_fault_for_kernels(rig: Rig) {
    let a = place(&rig);
    rig.mapped(MEMORY, a, MemoryAccess::ReadWrite);
    rig.kernel(0, 1, 1, arguments(a, &[1]));
    rig.wait(Scope::Device(0)).unwrap();
    rig.device.set_access(0, a, GRAIN, MemoryAccess::None).unwrap();
    rig.kernel(0, 1, 1, arguments(a, &[1]));
    assert_eq!(rig.wait(Scope::Device(0)).unwrap_err().code, hipErrorIllegalAddress);
}

/// A mapping keeps released memory alive.
pub fn physical_memory_lives_as_long_as_its_mapping(rig: Rig) {
    let a = place(&rig);
    let before = rig.device.memory(0).unwrap().used;
    rig.mapped(MEMORY, a, MemoryAccess::ReadWrite);
    assert_eq!(rig.device.memory(0).unwrap().used, before + GRAIN);
    rig.device.release_memory(MEMORY).unwrap();
    rig.kernel(0, 1, 1, arguments(a, &[1]));
    assert_eq!(rig.word(0, a), 1);
    rig.device.unmap_memory(a, GRAIN).unwrap();
    rig.wait(Scope::Everything).unwrap();
    assert_eq!(rig.device.memory(0).unwrap().used, before);
    assert_eq!(rig.device.release_memory(MEMORY).unwrap_err().code, hipErrorInvalidHandle);
}

/// Invalid calls of virtual memory management fail.
pub fn invalid_mappings_are_refused(rig: Rig) {
    let (a, taken) = (place(&rig), rig.alloc(64));
    let device = &rig.device;
    let free = device.memory(0).unwrap().free;
    let huge = device.create_memory(0, MEMORY, (free + GRAIN).next_multiple_of(GRAIN)).unwrap_err();
    assert_eq!(huge.code, hipErrorOutOfMemory);
    assert!(device.create_memory(0, MEMORY, 4096).is_err(), "not a multiple of the granularity");
    device.create_memory(0, MEMORY, GRAIN).unwrap();
    assert!(device.create_memory(0, MEMORY, GRAIN).is_err(), "an ID in use is rejected");
    for (offset, address, bytes) in [
        (0, a + 4096, GRAIN),
        (0, a, 2 * GRAIN),
        (GRAIN, a, GRAIN),
        (0, a, 0),
        (0, device.arena().base - GRAIN, GRAIN),
        (0, taken / GRAIN * GRAIN, GRAIN),
    ] {
        let refused = device.map_memory(MEMORY, offset, address, bytes);
        assert!(refused.is_err(), "{bytes} bytes at {address:#x} from offset {offset:#x}");
    }
    device.map_memory(MEMORY, 0, a, GRAIN).unwrap();
    assert!(device.map_memory(MEMORY, 0, a, GRAIN).is_err(), "taken");
    assert!(device.set_access(0, a, GRAIN / 2, MemoryAccess::Read).is_err(), "half a mapping");
    assert!(device.set_access(0, a, 2 * GRAIN, MemoryAccess::Read).is_err(), "more than is mapped");
    assert!(device.set_access(9, a, GRAIN, MemoryAccess::Read).is_err(), "no such device");
    assert!(device.unmap_memory(a + GRAIN, GRAIN).is_err());
    assert!(device.unmap(a).is_err(), "not an allocation");
    rig.wait(Scope::Device(0)).expect("none of this is a fault");
}

/// Exported memory that is imported again has the same bytes.
pub fn shared_memory_is_the_same_under_another_number(rig: Rig) {
    let a = place(&rig);
    rig.mapped(MEMORY, a, MemoryAccess::ReadWrite);
    let shared = rig.shared(Shareable::Memory(MEMORY)).unwrap();
    assert_eq!(shared.bytes, GRAIN);
    rig.device.open_memory(0, MEMORY + 1, shared).unwrap();
    rig.device.map_memory(MEMORY + 1, 0, a + GRAIN, GRAIN).unwrap();
    rig.device.set_access(0, a + GRAIN, GRAIN, MemoryAccess::ReadWrite).unwrap();
    rig.kernel(0, 1, 1, arguments(a + GRAIN, &[1]));
    assert_eq!(rig.word(0, a), 1);
    assert!(rig.shared(Shareable::Memory(0x7777)).is_err());
    assert!(rig.shared(Shareable::Allocation(a)).is_err(), "a mapping is not an allocation");
}
