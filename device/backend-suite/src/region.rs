//! Tests of box copies and fills.

use std::sync::mpsc;

use hip_api::types::hipErrorInvalidValue;

use super::{PATIENCE, Rig};
use backend::{Command, DeviceError, Extent, Pitched};

/// Two slices of three rows of four bytes; `roomy` places them with a pitch of 16 bytes and 5 rows per slice.
const EXTENT: Extent = Extent { width: 4, height: 3, depth: 2 };

fn roomy(address: u64) -> Pitched {
    Pitched { address, pitch: 16, rows: 5 }
}

pub fn boxes_touch_only_their_rows(rig: Rig) {
    let (a, b) = (rig.alloc(4096), rig.alloc(4096));
    let data: Vec<u8> = (1..=24).collect();
    rig.run(0, Command::WriteBox { to: roomy(a), extent: EXTENT, data: data.clone() });
    let to = Pitched { address: b, pitch: 8, rows: 3 };
    rig.run(0, Command::CopyBox { to, from: roomy(a), extent: EXTENT });
    let narrow = Extent { width: 2, height: 2, depth: 2 };
    rig.run(
        0,
        Command::FillBox { to: Pitched { address: b + 2, ..to }, extent: narrow, value: 0xabcd, width: 2 },
    );
    let mut expected = vec![0; 48];
    for (index, byte) in data.iter().enumerate() {
        expected[index / 4 * 8 + index % 4] = *byte;
    }
    for row in [0, 1, 3, 4] {
        expected[row * 8 + 2..row * 8 + 4].copy_from_slice(&[0xcd, 0xab]);
    }
    assert_eq!(rig.read(0, b, 48).unwrap(), expected);
    let whole = rig.read(0, a, 160).unwrap();
    let touched: Vec<u8> = whole.iter().copied().filter(|byte| *byte != 0).collect();
    assert_eq!(touched, data, "nothing but the box was written");
    assert_eq!(whole[5 * 16], 13, "the second slice starts five rows down");

    let (sender, receiver) = mpsc::channel();
    let sink = Box::new(move |it: Result<&[u8], DeviceError>| drop(sender.send(it.map(<[u8]>::to_vec))));
    rig.run(0, Command::ReadBox { from: roomy(a), extent: EXTENT, sink });
    assert_eq!(receiver.recv_timeout(PATIENCE).unwrap().unwrap(), data);
}

pub fn boxes_beyond_memory_are_refused(rig: Rig) {
    let a = rig.alloc(4096);
    let refused = |command| {
        assert_eq!(rig.device.enqueue(0, 1, command).unwrap_err().code, hipErrorInvalidValue);
    };
    let fill = |to, extent, width| Command::FillBox { to, extent, value: 0, width };
    // The last row of the last slice ends past the allocation.
    let deep = Extent { width: 16, height: 1, depth: 53 };
    refused(fill(Pitched { address: a, pitch: 16, rows: 5 }, deep, 1));
    refused(fill(roomy(a), Extent { width: 17, ..EXTENT }, 1));
    refused(fill(roomy(a), Extent { height: 6, ..EXTENT }, 1));
    refused(fill(roomy(a), Extent { width: 3, ..EXTENT }, 2));
    refused(fill(roomy(a), EXTENT, 3));
    refused(fill(Pitched { address: a, pitch: u64::MAX, rows: u64::MAX }, EXTENT, 1));
    refused(Command::WriteBox { to: roomy(a), extent: EXTENT, data: vec![0; 23] });
    refused(Command::CopyBox { to: roomy(a), from: roomy(a + 4000), extent: EXTENT });
    rig.run(0, fill(roomy(a), Extent { width: 0, ..EXTENT }, 1));
    rig.run(0, fill(roomy(a), Extent { depth: 52, width: 16, height: 1 }, 1));
}
