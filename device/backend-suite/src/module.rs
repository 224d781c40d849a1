//! Tests of modules: global variables and unloading.

use backend::Command;
use hip_api::types::hipErrorInvalidHandle;

use crate::rig::{MODULE, Rig, arguments, launch};

/// Copies and kernels see the same global variables.
pub fn globals_are_shared_between_kernels_and_copies(rig: Rig) {
    let a = rig.alloc(64);
    let (address, bytes) = rig.device.global(MODULE, "counter").unwrap();
    assert_eq!(bytes, 4);
    assert_eq!(rig.word(0, address), 41);
    rig.kernel(0, 5, 1, arguments(a, &[]));
    assert_eq!(rig.word(0, a), 42);
    rig.run(0, Command::write_flat(address, 99i32.to_le_bytes().to_vec()));
    rig.kernel(0, 5, 1, arguments(a, &[]));
    assert_eq!(rig.word(0, a), 100);
    assert!(rig.device.global(MODULE, "nothing").is_err());
    rig.device.unload_module(MODULE).unwrap();
    let gone = rig.device.enqueue(0, 1, launch(5, 1, arguments(a, &[])));
    assert_eq!(gone.unwrap_err().code, hipErrorInvalidHandle);
}

/// Queued launches run although their module is unloaded.
pub fn launches_before_the_end_of_their_module_are_made(rig: Rig) {
    let a = rig.alloc(64);
    rig.slow_store(0, a + 4, 1);
    rig.kernel(0, 5, 1, arguments(a, &[]));
    rig.device.unload_module(MODULE).unwrap();
    assert_eq!(rig.word(0, a), 42);
}
