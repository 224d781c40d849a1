//! Tests of instruction counters.

use hip_api::types::{hipErrorInvalidValue, hipErrorNotSupported};

use crate::rig::{Rig, arguments};
use backend::Scope;

/// Counters cover the kernels between begin and end of counting.
pub fn what_kernels_execute_is_counted_while_it_is_asked_for_or_refused(rig: Rig) {
    let buffer = rig.alloc(4096);
    let stream = rig.stream(0x100, false);
    let add_one = || {
        rig.kernel(stream, 1, 128, arguments(buffer, &[128]));
        rig.wait(Scope::Stream(stream)).unwrap();
    };
    add_one();
    match rig.device.begin_counting(0) {
        Err(error) => assert_eq!(error.code, hipErrorNotSupported),
        Ok(()) => {
            add_one();
            let once = rig.device.end_counting(0).unwrap();
            assert_eq!((once.launches, once.waves), (1, 2));
            assert_eq!((once.bytes_read >= 512, once.bytes_written), (true, 512), "{once:?}");
            let kinds = [once.vector, once.scalar, once.matrix, once.vector_memory, once.scalar_memory];
            let more = [once.local_memory, once.branches, once.other];
            assert_eq!(once.instructions, kinds.iter().chain(&more).sum::<u64>());
            // Counting is reproducible, and kernels between two counting periods are not counted.
            add_one();
            rig.device.begin_counting(0).unwrap();
            add_one();
            assert_eq!(rig.device.end_counting(0).unwrap(), once);
            assert_eq!(rig.device.end_counting(0).unwrap_err().code, hipErrorInvalidValue);
            assert!(rig.device.begin_counting(99).is_err());
        }
    }
}
