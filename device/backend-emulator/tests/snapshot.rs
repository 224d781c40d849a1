//! Saves a session's device state on one software GPU and restores it on another at the same addresses.

use std::sync::mpsc;
use std::time::Duration;

use backend::{
    Arena, Command, Device, DeviceError, HeapRecord, Holding, Inventory, Launch, MemoryAccess, MemoryKind,
    PHYSICAL_GRANULARITY, PieceRecord, Scope, Snapshot, VirtualMemory,
};
use backend_emulator::{DeviceConfig, Emulator, Options};
use backend_suite::KERNELS;

const PATIENCE: Duration = Duration::from_secs(60);

fn session(arena: Option<Arena>, memory: u64) -> Emulator {
    let device = DeviceConfig { model: "mi300x".to_owned(), memory: Some(memory) };
    Emulator::open(&Options { devices: vec![device], arena, ..Options::default() }).unwrap()
}

fn wait(device: &Emulator) -> Result<(), DeviceError> {
    let (sender, done) = mpsc::channel();
    device.synchronize(Scope::Everything, Box::new(move |it| drop(sender.send(it))));
    done.recv_timeout(PATIENCE).expect("work completes within the timeout")
}

fn bytes(device: &Emulator, address: u64, count: u64) -> Vec<u8> {
    let mut found = Vec::new();
    device.read_unordered(address, count, &mut |bytes| found.extend_from_slice(bytes)).unwrap();
    found
}

/// An inventory with the memory contents.
type Taken = (Inventory, Vec<(Holding, u64, Vec<u8>)>);

fn take(device: &Emulator) -> Taken {
    let inventory = device.capture().unwrap();
    let mut contents = Vec::new();
    for (holding, size) in inventory.holdings() {
        device
            .show(holding, 0..size, &mut |offset, bytes| {
                contents.push((holding, offset, bytes.to_vec()));
                true
            })
            .unwrap();
    }
    (inventory, contents)
}

fn put(device: &Emulator, taken: &Taken) {
    device.restore(&taken.0).unwrap();
    for (holding, offset, bytes) in &taken.1 {
        device.fill(*holding, *offset, bytes).unwrap();
    }
}

#[test]
fn memory_modules_streams_and_events_are_where_they_were() {
    let arena = Arena { base: 0x1500_0000_0000, bytes: 1 << 36 };
    let first = session(Some(arena), 256 << 20);
    assert_eq!(first.arena(), arena);
    let base = arena.base + (64 << 20);
    first.load_module(0, 1, arena.base, KERNELS).unwrap();
    first.define_function(5, 1, "bump_counter").unwrap();
    let counter = first.global(1, "counter").unwrap().0;
    first.map(0, MemoryKind::Device, base, 10_000).unwrap();
    first.map(0, MemoryKind::PinnedHost, base + (4 << 20), 4096).unwrap();
    first.create_memory(0, 9, PHYSICAL_GRANULARITY).unwrap();
    let places = [base + (8 << 20), base + (16 << 20)];
    for place in places {
        first.map_memory(9, 0, place, PHYSICAL_GRANULARITY).unwrap();
    }
    first.set_access(0, places[0], PHYSICAL_GRANULARITY, MemoryAccess::ReadWrite).unwrap();
    first.set_access(0, places[1], PHYSICAL_GRANULARITY, MemoryAccess::Read).unwrap();
    first.release_memory(9).unwrap();
    first.create_stream(0, 0x100, true, -1).unwrap();
    let bump = || {
        Command::Launch(Launch {
            function: 5,
            grid: [1, 1, 1],
            block: [1, 1, 1],
            shared_bytes: 0,
            cooperative: false,
            start_event: 0,
            stop_event: 0,
            arguments: (base + (4 << 20)).to_le_bytes().to_vec(),
        })
    };
    for event in [0x200, 0x201] {
        first.create_event(event, 0, 0).unwrap();
        first.enqueue(0x100, 0, Command::RecordEvent(event)).unwrap();
        first.enqueue(0x100, 0, bump()).unwrap();
    }
    first.enqueue(0, 0, Command::write_flat(base + 9000, vec![3; 1000])).unwrap();
    first.enqueue(0, 0, Command::write_flat(places[0], vec![4; 16])).unwrap();
    wait(&first).unwrap();
    let elapsed = first.elapsed(0x200, 0x201).unwrap();
    let used = first.memory(0).unwrap();
    let counted = bytes(&first, counter, 4);
    let taken = take(&first);
    drop(first);

    let second = session(Some(arena), 256 << 20);
    assert_eq!(second.arena(), arena);
    put(&second, &taken);
    assert_eq!(second.memory(0).unwrap(), used);
    assert_eq!(bytes(&second, base + 9000, 1000), [3; 1000]);
    assert_eq!(bytes(&second, base, 9000), [0; 9000]);
    assert_eq!(bytes(&second, places[1], 16), [4; 16]);
    assert_eq!(second.elapsed(0x200, 0x201).unwrap(), elapsed);
    second.enqueue(0x100, 0, Command::RecordEvent(0x201)).unwrap();
    second.enqueue(0x100, 0, bump()).unwrap();
    wait(&second).unwrap();
    assert!(second.elapsed(0x200, 0x201).unwrap() > elapsed, "the clock continues after the restore");
    let before = i32::from_le_bytes(counted.try_into().unwrap());
    assert_eq!(bytes(&second, counter, 4), (before + 1).to_le_bytes());
    assert!(second.release_memory(9).is_err(), "the ID was released before the snapshot");
    second.unmap_memory(places[0], PHYSICAL_GRANULARITY).unwrap();
    second.unmap_memory(places[1], PHYSICAL_GRANULARITY).unwrap();
    wait(&second).unwrap();
    assert_eq!(second.memory(0).unwrap().used, used.used - PHYSICAL_GRANULARITY);
}

#[test]
fn what_does_not_fit_is_refused() {
    let arena = Arena { base: 0x1600_0000_0000, bytes: 1 << 36 };
    let first = session(Some(arena), 64 << 20);
    first.map(0, MemoryKind::Device, arena.base, 48 << 20).unwrap();
    let taken = take(&first);
    drop(first);
    let small = session(Some(arena), 32 << 20);
    assert!(small.restore(&taken.0).is_err(), "a device with less memory");
    assert!(
        small.fill(Holding::At(arena.base), 0, &[1]).is_err()
            && small.fill(Holding::Memory(1), 0, &[1]).is_err()
    );
    let device = session(None, 64 << 20);
    let base = device.arena().base;
    device.map(0, MemoryKind::Device, base, 4096).unwrap();
    assert!(device.fill(Holding::At(base), 4000, &[1; 97]).is_err());
    assert!(device.fill(Holding::At(base), u64::MAX, &[1; 97]).is_err());
    let heap = |base, bytes, block, pieces: &[(u64, u64)]| HeapRecord {
        device: 0,
        base,
        bytes,
        block,
        pieces: pieces
            .iter()
            .map(|(address, bytes)| PieceRecord { address: *address, bytes: *bytes, owner: None })
            .collect(),
    };
    let free = 0x3c00_0000_0000;
    for record in [
        heap(base, 64 << 20, 0, &[]),
        heap(free, 1 << 50, 0, &[]),
        heap(free, 12345, 0, &[]),
        heap(free, 64 << 20, 0, &[(free + (64 << 20), 4096)]),
        heap(free, 64 << 20, 0, &[(free, 4096), (free, 4096)]),
        heap(free, 64 << 20, 0, &[(free, u64::MAX - 4095)]),
        heap(free, 64 << 20, free, &[]),
        HeapRecord { device: 7, ..heap(free, 64 << 20, 0, &[]) },
    ] {
        let inventory = Inventory { heaps: vec![record.clone()], ..Inventory::default() };
        assert!(device.restore(&inventory).is_err(), "{record:?}");
    }
}
