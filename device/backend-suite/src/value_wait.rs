//! Tests of streams that wait for a value in memory.

use hip_api::types::hipErrorInvalidValue;

use crate::rig::{Rig, arguments};
use backend::{Command, Comparison, Scope, ValueWait};

/// A stream continues when another stream has written the value.
pub fn a_stream_waits_for_a_value_that_another_writes(rig: Rig) {
    let (waiting, writing) = (rig.stream(0x100, true), rig.stream(0x101, true));
    let (flag, a) = (rig.alloc(64), rig.alloc(64));
    let wait =
        ValueWait { address: flag, wide: false, value: 3, mask: u64::MAX, comparison: Comparison::AtLeast };
    rig.run(waiting, Command::WaitValue(wait));
    rig.kernel(waiting, 1, 1, arguments(a, &[1]));
    assert!(!rig.device.query(Scope::Stream(waiting)).unwrap());
    // A kernel on another stream increments the flag up to the value.
    for turn in 1..=3 {
        assert_eq!(rig.word(writing, a), 0, "the stream continued at {}", turn - 1);
        rig.kernel(writing, 1, 1, arguments(flag, &[1]));
        rig.wait(Scope::Stream(writing)).unwrap();
    }
    rig.wait(Scope::Stream(waiting)).unwrap();
    assert_eq!(rig.word(writing, a), 1);
}

/// All comparisons, masks and widths of value waits.
pub fn waits_for_values_compare_as_asked(rig: Rig) {
    let flag = rig.alloc(64);
    rig.run(0, Command::write_flat(flag, 0xf0f0_0000_0000_1234u64.to_le_bytes().to_vec()));
    let wait = |wide, value, mask, comparison| ValueWait { address: flag, wide, value, mask, comparison };
    // All of these conditions are already met; an unmet one would block the stream forever.
    for met in [
        wait(false, 0x1234, u64::MAX, Comparison::Equal),
        wait(false, 0x34, 0xff, Comparison::Equal),
        wait(true, 0xf0f0_0000_0000_1234, u64::MAX, Comparison::Equal),
        wait(true, 0xf0f0_0000_0000_0000, u64::MAX, Comparison::AtLeast),
        wait(false, 0x0030, u64::MAX, Comparison::And),
        wait(false, 0xffff_0000, u64::MAX, Comparison::Nor),
    ] {
        rig.run(0, Command::WaitValue(met));
    }
    rig.wait(Scope::Stream(0)).unwrap();
    for unmet in
        [wait(false, 0x1235, u64::MAX, Comparison::AtLeast), wait(false, 1, u64::MAX, Comparison::And)]
    {
        assert!(!unmet.is_met_by(0x1234), "{unmet:?}");
    }
    assert!(!wait(false, 0xffff_edcb, u64::MAX, Comparison::Nor).is_met_by(0x1234));
    let stray = ValueWait { address: 0x1000, ..wait(false, 0, 0, Comparison::Equal) };
    assert_eq!(rig.device.enqueue(0, 1, Command::WaitValue(stray)).unwrap_err().code, hipErrorInvalidValue);
}
