//! Tests of snapshots of a session's device state.

use hip_api::types::{hipErrorNotReady, hipErrorNotSupported};

use crate::rig::{HELD, MODULE, Rig};
use backend::{Command, Holding, Scope};

/// A snapshot lists everything, or the back end supports none.
pub fn what_there_is_is_told_while_nothing_runs_or_refused(rig: Rig) {
    let device = &rig.device;
    let (a, b) = (rig.alloc(5 << 20), rig.alloc(4096));
    let stream = rig.stream(0x100, true);
    device.create_event(0x200, 0, 0).unwrap();
    device.create_event(0x201, 0, 0).unwrap();
    rig.run(stream, Command::write_flat(a + (3 << 20), vec![7; 100]));
    rig.run(stream, Command::RecordEvent(0x200));
    rig.wait(Scope::Stream(stream)).unwrap();
    let inventory = match device.capture() {
        Err(error) => return assert_eq!(error.code, hipErrorNotSupported),
        Ok(inventory) => inventory,
    };
    let mut allocated: Vec<(u64, u64)> =
        inventory.allocations.iter().map(|it| (it.address, it.bytes)).collect();
    allocated.sort_unstable();
    assert_eq!(allocated, [(a, 5 << 20), (b, 4096)]);
    let modules: Vec<u64> = inventory.modules.iter().map(|it| it.module).collect();
    assert_eq!(modules, [MODULE]);
    assert_eq!((inventory.functions.len(), inventory.images.len()), (5, 1));
    assert!(inventory.streams.iter().any(|it| it.stream == 0x100 && it.non_blocking));
    let reached = |event| {
        let found = inventory.events.iter().find(|it| it.event == event);
        found.expect("the inventory lists the event").reached
    };
    assert!(reached(0x200).is_some_and(|time| time <= inventory.clock) && reached(0x201).is_none());

    let mut bytes = vec![0; 5 << 20];
    let mut end = 0;
    device
        .show(Holding::At(a), 0..5 << 20, &mut |offset, shown| {
            assert!(offset >= end, "in order");
            end = offset + shown.len() as u64;
            bytes[offset as usize..end as usize].copy_from_slice(shown);
            true
        })
        .unwrap();
    assert!(bytes[3 << 20..][..100].iter().all(|byte| *byte == 7));
    assert_eq!(bytes.iter().filter(|byte| **byte != 0).count(), 100);
    assert!(device.show(Holding::At(a + 4096), 0..10, &mut |_, _| true).is_err(), "nothing starts there");
    // A part, which need not begin or end with a page, and which ends with the holding.
    let parts = [(3 << 20) + 50..(3 << 20) + 60, (3 << 20) + 90..(3 << 20) + 200, (5 << 20) - 10..u64::MAX];
    for part in parts {
        device
            .show(Holding::At(a), part.clone(), &mut |offset, shown| {
                assert!(part.start <= offset && offset + shown.len() as u64 <= part.end.min(5 << 20));
                assert!(shown == &bytes[offset as usize..][..shown.len()]);
                bytes[offset as usize..][..shown.len()].fill(0);
                true
            })
            .unwrap();
    }
    assert_eq!(bytes.iter().filter(|byte| **byte != 0).count(), 80);

    assert!(!device.waits_for_host());
    rig.hold(stream);
    assert!(device.waits_for_host());
    assert_eq!(device.capture().unwrap_err().code, hipErrorNotReady);
    device.host_function_done(HELD).unwrap();
    rig.wait(Scope::Stream(stream)).unwrap();
    assert_eq!(device.capture().unwrap().allocations.len(), 2);
}
