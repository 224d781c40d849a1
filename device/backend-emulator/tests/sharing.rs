//! Memory shared between two sessions: two software GPUs with separate address spaces.

use std::sync::mpsc;
use std::time::Duration;

use backend::{
    Command, Device, DeviceError, MemoryAccess, MemoryKind, PHYSICAL_GRANULARITY, Region, Scope, Shareable,
    SharedMemory, VirtualMemory,
};
use backend_emulator::{DeviceConfig, Emulator, Options};

const PATIENCE: Duration = Duration::from_secs(60);
const MEMORY: u64 = 0x6000;

fn session() -> Emulator {
    let device = DeviceConfig { model: "mi300x".to_owned(), memory: Some(64 << 20) };
    Emulator::open(&Options { devices: vec![device], ..Options::default() }).unwrap()
}

fn share(device: &Emulator, address: u64) -> Result<SharedMemory, DeviceError> {
    let (sender, shared) = mpsc::channel();
    device.share(Shareable::Allocation(address), Box::new(move |it| drop(sender.send(it))));
    shared.recv_timeout(PATIENCE).expect("sharing completes within the timeout")
}

fn read(device: &Emulator, source: u64, bytes: u64) -> Result<Vec<u8>, DeviceError> {
    let (sender, data) = mpsc::channel();
    let sink = Box::new(move |it: Result<&[u8], DeviceError>| drop(sender.send(it.map(<[u8]>::to_vec))));
    device.enqueue(0, 0, Command::Read { from: Region::flat(source, bytes), sink })?;
    data.recv_timeout(PATIENCE).expect("the read completes within the timeout")
}

fn write(device: &Emulator, destination: u64, data: &[u8]) {
    device.enqueue(0, 0, Command::write_flat(destination, data.to_vec())).unwrap();
}

/// Imports shared memory into the other session and maps it; returns the address.
fn open(device: &Emulator, shared: SharedMemory) -> u64 {
    let address = device.arena().base + (1 << 30);
    device.open_memory(0, MEMORY, shared).unwrap();
    device.map_memory(MEMORY, 0, address, PHYSICAL_GRANULARITY).unwrap();
    device.set_access(0, address, PHYSICAL_GRANULARITY, MemoryAccess::ReadWrite).unwrap();
    address
}

#[test]
fn an_allocation_keeps_its_bytes_and_address_when_it_is_shared() {
    let (owner, other) = (session(), session());
    let base = owner.arena().base;
    // Neighbouring allocations in the same 2 MiB chunk are not shared.
    let (before, a, after) = (base, base + 8192, base + 32768);
    for (address, bytes) in [(before, 4096), (a, 10_000), (after, 4096)] {
        owner.map(0, MemoryKind::Device, address, bytes).unwrap();
        write(&owner, address, &[address as u8 | 1; 64]);
    }
    write(&owner, a + 9_000, b"the end");
    let shared = share(&owner, a).unwrap();
    assert_eq!(shared.bytes, 10_000);
    let there = open(&other, shared);
    assert_eq!(read(&other, there + 9_000, 7).unwrap(), b"the end");
    write(&other, there, b"from the other session");
    other.synchronize(Scope::Everything, Box::new(|_| {}));
    assert_eq!(read(&owner, a, 22).unwrap(), b"from the other session");
    write(&owner, a + 100, b"and back");
    assert_eq!(read(&other, there + 100, 8).unwrap(), b"and back");
    assert!(read(&other, there + 10_240, 1).is_err(), "memory past the allocation cannot be read");
    assert_eq!(read(&owner, before, 1).unwrap()[0], before as u8 | 1);
    assert_eq!(read(&owner, after, 1).unwrap()[0], after as u8 | 1);
}

#[test]
fn shared_memory_outlives_the_first_process_that_exits() {
    let (owner, other) = (session(), session());
    let a = owner.arena().base;
    owner.map(0, MemoryKind::Device, a, 4096).unwrap();
    write(&owner, a, b"kept");
    let there = open(&other, share(&owner, a).unwrap());
    owner.unmap(a).unwrap();
    assert_eq!(read(&other, there, 4).unwrap(), b"kept");
    // When the address is allocated again, it has new, private memory.
    owner.map(0, MemoryKind::Device, a, 4096).unwrap();
    assert_eq!(read(&owner, a, 4).unwrap(), [0; 4]);
    write(&owner, a, b"new!");
    assert_eq!(read(&other, there, 4).unwrap(), b"kept");
    drop(owner);
    assert_eq!(read(&other, there, 4).unwrap(), b"kept");
    other.unmap_memory(there, PHYSICAL_GRANULARITY).unwrap();
    other.release_memory(MEMORY).unwrap();
    assert!(read(&other, there, 4).is_err());
}

#[test]
fn what_is_not_allocated_is_not_shared() {
    let owner = session();
    let a = owner.arena().base;
    assert!(share(&owner, a).is_err());
    owner.map(0, MemoryKind::Device, a, 4096).unwrap();
    assert!(share(&owner, a + 64).is_err(), "only whole allocations");
    let file = std::fs::File::open("/dev/null").unwrap();
    let short = SharedMemory { file: file.into(), bytes: 4096 };
    assert!(owner.open_memory(0, MEMORY, short).is_err(), "a file that is too short is rejected");
}
