//! Tests of faults, resets and invalid requests.

use backend::{MemoryKind, Scope};
use hip_api::types::{hipErrorIllegalAddress, hipErrorInvalidHandle, hipErrorInvalidValue};

use crate::rig::{MIB, Note, Rig, SLOW, arguments, fill, launch};

/// A fault is reported once and returned by every later call.
pub fn a_wild_write_is_a_sticky_fault_told_once(rig: Rig) {
    let a = rig.alloc(64);
    rig.device.enqueue(0, 0x55, launch(3, 1, arguments(0, &[]))).unwrap();
    // Either queued after the faulting kernel and cancelled, or rejected because the fault has already happened.
    if let Err(error) = rig.device.enqueue(0, 0x56, launch(2, 1, arguments(a, &[1, SLOW]))) {
        assert_eq!(error.code, hipErrorIllegalAddress);
    }
    let error = rig.wait(Scope::Stream(0)).unwrap_err();
    assert_eq!(error.code, hipErrorIllegalAddress);
    let Note::Failed(tag, error) = rig.note() else { panic!("the failure is reported") };
    assert_eq!((tag, error.code), (0x55, hipErrorIllegalAddress));
    assert!(error.text.contains("write_through"), "the text names the kernel: {error}");
    assert_eq!(rig.wait(Scope::Device(0)).unwrap_err().code, hipErrorIllegalAddress);
    assert_eq!(rig.read(0, a, 4).unwrap_err().code, hipErrorIllegalAddress);
    let fill = fill(a, 0, 4, 1);
    assert_eq!(rig.device.enqueue(0, 1, fill).unwrap_err().code, hipErrorIllegalAddress);
    assert!(rig.notes.try_recv().is_err(), "nothing else is reported");
    rig.device.unmap(a).expect("memory can still be freed");
}

/// A device works again after a reset.
pub fn reset_forgets_a_fault(rig: Rig) {
    let a = rig.alloc(64);
    rig.kernel(0, 3, 1, arguments(0, &[]));
    rig.wait(Scope::Device(0)).unwrap_err();
    rig.device.reset(0).unwrap();
    assert_eq!(rig.device.memory(0).unwrap().used, 0, "memory and modules are freed");
    rig.device.map(0, MemoryKind::Device, a, 64).unwrap();
    rig.run(0, fill(a, 3, 4, 1));
    assert_eq!(rig.word(0, a), 3);
}

/// Commands with invalid addresses or handles fail when they are queued.
pub fn invalid_addresses_and_handles_are_refused(rig: Rig) {
    let a = rig.alloc(64);
    let arena = rig.device.arena();
    for address in [0, 8, arena.base - 4096, a + 4096, u64::MAX - 2] {
        let fill = fill(address, 0, 4, 1);
        assert_eq!(rig.device.enqueue(0, 1, fill).unwrap_err().code, hipErrorInvalidValue, "{address:#x}");
        assert_eq!(rig.read(0, address, 4).unwrap_err().code, hipErrorInvalidValue, "{address:#x}");
    }
    let past = fill(a, 0, 4, 1 << 40);
    assert_eq!(rig.device.enqueue(0, 1, past).unwrap_err().code, hipErrorInvalidValue);
    let lost = rig.device.enqueue(0xdead, 1, launch(1, 1, arguments(a, &[1])));
    assert_eq!(lost.unwrap_err().code, hipErrorInvalidHandle, "no such stream");
    let lost = rig.device.enqueue(0, 1, launch(99, 1, arguments(a, &[1])));
    assert_eq!(lost.unwrap_err().code, hipErrorInvalidHandle, "no such function");
    assert_eq!(rig.wait(Scope::Event(0xdead)).unwrap_err().code, hipErrorInvalidHandle);
    assert!(rig.device.create_stream(0, 3, false, 0).is_err(), "IDs of null streams are reserved");
    assert!(rig.device.create_stream(9, 0x100, false, 0).is_err(), "no such device");
    assert!(rig.device.load_module(0, 5, arena.base + 8 * MIB, b"not a code object").is_err());
    assert!(rig.device.map(0, MemoryKind::Device, a, 64).is_err(), "the range is in use");
    rig.wait(Scope::Device(0)).expect("none of this is a fault");
}
