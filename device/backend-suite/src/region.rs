//! Tests of copies, fills, reads and writes of regions. Every case runs on flat regions, rectangles and boxes.

use backend::{Command, Extent, Region};
use hip_api::types::hipErrorInvalidValue;

use crate::rig::{Rig, fill};

/// A flat region, a rectangle and a box.
const EXTENTS: [Extent; 3] = [
    Extent { width: 48, height: 1, depth: 1 },
    Extent { width: 8, height: 3, depth: 1 },
    Extent { width: 8, height: 3, depth: 2 },
];
/// Bytes that hold every region of the tests.
const ROOM: u64 = 256;

/// Layouts of an extent in memory: packed, with gaps between rows, and with gaps between slices too.
fn layouts(address: u64, extent: Extent) -> [Region; 3] {
    let packed = Region::packed(address, extent);
    let spread = Region { pitch: 16, ..packed };
    [packed, spread, Region { rows: 5, ..spread }]
}

/// Stores packed bytes in an image of the memory at `base`, as a command on the region does.
fn scatter(image: &mut [u8], base: u64, region: &Region, data: &[u8]) {
    let mut data = data.iter();
    for z in 0..region.extent.depth {
        for y in 0..region.extent.height {
            for x in 0..region.extent.width {
                let offset = region.address - base + (z * region.rows + y) * region.pitch + x;
                image[offset as usize] = *data.next().expect("as many bytes as the region has");
            }
        }
    }
}

/// Writes, copies and reads touch exactly the bytes of a region, whatever its form.
pub fn regions_of_every_form_touch_only_their_bytes(rig: Rig) {
    let (a, b) = (rig.alloc(4096), rig.alloc(4096));
    let pairs = EXTENTS.into_iter().flat_map(|extent| {
        layouts(a, extent).into_iter().flat_map(move |from| layouts(b, extent).map(|to| (from, to)))
    });
    for (from, to) in pairs {
        let data: Vec<u8> = (1..=from.bytes().unwrap() as u8).collect();
        rig.run(0, fill(a, 0, 4, ROOM / 4));
        rig.run(0, fill(b, 0, 4, ROOM / 4));
        rig.run(0, Command::Write { to: from, data: data.clone() });
        rig.run(0, Command::Copy { to, from });
        for region in [from, to] {
            assert_eq!(rig.read_region(0, region).unwrap(), data, "{from:?} to {to:?}");
            let mut expected = vec![0; ROOM as usize];
            scatter(&mut expected, region.address, &region, &data);
            assert_eq!(rig.read(0, region.address, ROOM).unwrap(), expected, "{from:?} to {to:?}");
        }
    }
}

/// Fills repeat an element of 1, 2 or 4 bytes in a part of the rows.
pub fn fills_of_every_form_repeat_their_element(rig: Rig) {
    let a = rig.alloc(4096);
    for whole in EXTENTS.into_iter().flat_map(|extent| layouts(a, extent)) {
        for element in [1, 2, 4] {
            rig.run(0, fill(a, 0x5555_5555, 4, ROOM / 4));
            let extent = Extent { width: 4, ..whole.extent };
            let to = Region { address: a + 4, extent, ..whole };
            rig.run(0, Command::Fill { to, value: 0xa1b2_c3d4, element });
            let pattern = &0xa1b2_c3d4u32.to_le_bytes()[..element as usize];
            let mut expected = vec![0x55; ROOM as usize];
            scatter(&mut expected, a, &to, &pattern.repeat(to.bytes().unwrap() as usize / pattern.len()));
            assert_eq!(rig.read(0, a, ROOM).unwrap(), expected, "{to:?} by {element}");
        }
    }
}

/// Regions that leave memory, overlap themselves or do not fit their data are refused when they are queued.
pub fn regions_beyond_memory_or_without_sense_are_refused(rig: Rig) {
    let a = rig.alloc(4096);
    let refused = |command| {
        assert_eq!(rig.device.enqueue(0, 1, command).unwrap_err().code, hipErrorInvalidValue);
    };
    let fill = |to, element| Command::Fill { to, value: 0, element };
    for to in EXTENTS.into_iter().flat_map(|extent| layouts(a, extent)) {
        let last = Region { address: a + 4096 - to.span().unwrap(), ..to };
        let past = Region { address: last.address + 1, ..to };
        refused(fill(past, 1));
        refused(fill(Region { address: a - 1, ..to }, 1));
        refused(fill(Region { address: u64::MAX - 8, ..to }, 1));
        refused(Command::Copy { to, from: past });
        refused(Command::Copy { to: past, from: to });
        refused(Command::Write { to: past, data: vec![0; to.bytes().unwrap() as usize] });
        refused(Command::Write { to, data: vec![0; to.bytes().unwrap() as usize - 1] });
        assert_eq!(rig.read_region(0, past).unwrap_err().code, hipErrorInvalidValue);
        refused(fill(to, 3));
        refused(fill(Region { extent: Extent { width: 3, ..to.extent }, ..to }, 2));
        rig.run(0, fill(last, 1));
        rig.run(0, fill(Region { extent: Extent { width: 0, ..to.extent }, ..past }, 1));
    }
    let spread = Region { address: a, pitch: 16, rows: 5, extent: EXTENTS[2] };
    refused(fill(Region { extent: Extent { width: 17, ..EXTENTS[2] }, ..spread }, 1));
    refused(fill(Region { extent: Extent { height: 6, ..EXTENTS[2] }, ..spread }, 1));
    refused(fill(Region { pitch: u64::MAX, rows: u64::MAX, ..spread }, 1));
    refused(fill(Region::rect(a, u64::MAX, 1, u64::MAX), 1));
    refused(Command::Copy { to: spread, from: Region { extent: EXTENTS[1], ..spread } });
}
