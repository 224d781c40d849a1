//! Operations on virtual memory: reserve, create, map, share with other processes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hip_api::types::*;

use super::memory::Kind;
use super::runtime::Runtime;
use super::virtual_memory::{GRANULARITY, Mapping, Physical, Properties, Reservation};

impl Runtime {
    /// Reserves addresses.
    pub fn reserve_addresses(&self, bytes: u64, alignment: u64) -> Result<u64, hipError_t> {
        // A range this large starts at a multiple of the granularity.
        let slack = if alignment > GRANULARITY { alignment } else { 0 };
        let wanted = bytes.checked_add(slack).ok_or(hipErrorOutOfMemory)?;
        let taken = self.memory.take_addresses(wanted).ok_or(hipErrorOutOfMemory)?;
        let start = if slack == 0 { taken } else { taken.next_multiple_of(alignment) };
        let reservation = Reservation { bytes, taken: (taken, wanted) };
        self.virtual_memory.layout.lock().reservations.insert(start, reservation);
        Ok(start)
    }

    /// Frees reserved addresses; nothing may be mapped there.
    pub fn return_addresses(&self, start: u64, bytes: u64) -> Result<(), hipError_t> {
        let mut layout = self.virtual_memory.layout.lock();
        let known = layout.reservations.get(&start).is_some_and(|it| it.bytes == bytes);
        if !known || layout.mappings.range(start..start + bytes).next().is_some() {
            return Err(hipErrorInvalidValue);
        }
        if let Some(it) = layout.reservations.remove(&start) {
            self.memory.return_addresses(it.taken.0, it.taken.1);
        }
        Ok(())
    }

    /// Allocates physical memory on a device.
    pub fn create_physical(
        &self,
        device: usize,
        bytes: u64,
        properties: hipMemAllocationProp,
    ) -> Result<u64, hipError_t> {
        let ledger = &self.devices[device].ledger;
        ledger.book(bytes)?;
        let (memory, _) = self.new_physical(device, bytes, properties, false).inspect_err(|_| {
            ledger.give_back(bytes);
        })?;
        let device = self.devices[device].ordinal;
        self.allocate_remote(&wire::CreateMemory { device, memory, bytes }).inspect_err(|_| {
            self.tables.physical.remove(memory);
            ledger.give_back(bytes);
        })?;
        Ok(memory)
    }

    /// Imports physical memory of another session under a new handle.
    pub fn import_physical(
        &self,
        device: usize,
        token: [u8; 32],
        properties: hipMemAllocationProp,
    ) -> Result<(u64, u64), hipError_t> {
        let (memory, physical) = self.new_physical(device, 0, properties, true)?;
        let ordinal = self.devices[device].ordinal;
        let opened = self.call(&wire::OpenMemory { device: ordinal, memory, token });
        let bytes = opened.inspect_err(|_| drop(self.tables.physical.remove(memory)))?.bytes;
        physical.bytes.store(bytes, Ordering::SeqCst);
        Ok((memory, bytes))
    }

    fn new_physical(
        &self,
        device: usize,
        bytes: u64,
        properties: hipMemAllocationProp,
        imported: bool,
    ) -> Result<(u64, std::sync::Arc<Physical>), hipError_t> {
        let physical = Physical {
            device,
            bytes: AtomicU64::new(bytes),
            properties: Properties(properties),
            imported,
            references: AtomicU32::new(1),
            mappings: AtomicU32::new(0),
        };
        self.tables.physical.insert_with(|_| physical).ok_or(hipErrorOutOfMemory)
    }

    /// Drops one handle reference.
    pub fn release_physical(&self, memory: u64) -> Result<(), hipError_t> {
        let physical = self.tables.physical.get(memory).ok_or(hipErrorInvalidValue)?;
        let less = |count: u32| count.checked_sub(1);
        let left = physical.references.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        left.map_err(|_| hipErrorInvalidValue)?;
        self.drop_physical(memory, &physical)
    }

    fn drop_physical(&self, memory: u64, physical: &Physical) -> Result<(), hipError_t> {
        let used = |count: &AtomicU32| count.load(Ordering::SeqCst) > 0;
        if used(&physical.references)
            || used(&physical.mappings)
            || self.tables.physical.remove(memory).is_none()
        {
            return Ok(());
        }
        if !physical.imported {
            self.devices[physical.device].ledger.give_back(physical.bytes());
        }
        self.post(&wire::ReleaseMemory { memory }, &[])
    }

    /// The physical memory at an address, with one more handle reference.
    pub fn retain_physical(&self, address: u64) -> Result<u64, hipError_t> {
        let layout = self.virtual_memory.layout.lock();
        let memory = layout.mapping_at(address).ok_or(hipErrorInvalidValue)?.memory;
        self.tables
            .physical
            .get(memory)
            .ok_or(hipErrorInvalidValue)?
            .references
            .fetch_add(1, Ordering::SeqCst);
        Ok(memory)
    }

    /// Maps physical memory at reserved addresses.
    pub fn map_physical(&self, memory: u64, address: u64, bytes: u64) -> Result<(), hipError_t> {
        let physical = self.tables.physical.get(memory).ok_or(hipErrorInvalidValue)?;
        let aligned = [address, bytes].iter().all(|it| it.is_multiple_of(GRANULARITY));
        let room = physical.bytes().next_multiple_of(GRANULARITY);
        if bytes == 0 || !aligned || bytes > room || physical.references.load(Ordering::SeqCst) == 0 {
            return Err(hipErrorInvalidValue);
        }
        let end = address.checked_add(bytes).ok_or(hipErrorInvalidValue)?;
        let mut layout = self.virtual_memory.layout.lock();
        let reserved = layout.reservations.range(..=address).next_back();
        if reserved.is_none_or(|(start, it)| end > start + it.bytes) {
            return Err(hipErrorInvalidValue);
        }
        let before = layout.mappings.range(..end).next_back();
        if before.is_some_and(|(start, it)| start + it.bytes > address) {
            return Err(hipErrorInvalidValue);
        }
        physical.mappings.fetch_add(1, Ordering::SeqCst);
        layout.mappings.insert(address, Mapping { bytes, memory, access: HashMap::new() });
        let usable = physical.bytes().min(bytes);
        self.memory.insert(address, usable, Kind::Virtual, physical.device, 0, 0);
        self.post(&wire::MapMemory { memory, offset: 0, address, bytes }, &[])
    }

    /// Unmaps memory, after earlier work has ended.
    pub fn unmap_physical(&self, address: u64, bytes: u64) -> Result<(), hipError_t> {
        let mut layout = self.virtual_memory.layout.lock();
        let whole = layout.whole(address, bytes)?;
        let gone: Vec<Mapping> = whole.iter().filter_map(|start| layout.mappings.remove(start)).collect();
        drop(layout);
        for start in whole {
            self.memory.remove(start);
        }
        self.post(&wire::UnmapMemory { address, bytes }, &[])?;
        for mapping in gone {
            if let Some(physical) = self.tables.physical.get(mapping.memory) {
                physical.mappings.fetch_sub(1, Ordering::SeqCst);
                self.drop_physical(mapping.memory, &physical)?;
            }
        }
        Ok(())
    }

    pub fn set_access(&self, address: u64, bytes: u64, device: usize, access: u32) -> Result<(), hipError_t> {
        let mut layout = self.virtual_memory.layout.lock();
        for start in layout.whole(address, bytes)? {
            if let Some(mapping) = layout.mappings.get_mut(&start) {
                mapping.access.insert(device, access);
            }
        }
        drop(layout);
        let device = self.devices[device].ordinal;
        self.post(&wire::SetAccess { device, address, bytes, access }, &[])
    }

    pub fn access_of(&self, address: u64, device: usize) -> Result<u32, hipError_t> {
        let layout = self.virtual_memory.layout.lock();
        let mapping = layout.mapping_at(address).ok_or(hipErrorInvalidValue)?;
        Ok(mapping.access.get(&device).copied().unwrap_or(0))
    }

    /// Opens memory of another session for every device; `offset` is the program's offset in it.
    pub fn open_shared(&self, token: [u8; 32], offset: u64) -> Result<u64, hipError_t> {
        let (device, _) = self.current()?;
        let (memory, bytes) = self.import_physical(device, token, hipMemAllocationProp::default())?;
        let room = bytes.next_multiple_of(GRANULARITY);
        let start = self.reserve_addresses(room, GRANULARITY)?;
        self.map_physical(memory, start, room)?;
        for device in 0..self.devices.len() {
            self.set_access(start, room, device, hipMemAccessFlagsProtReadWrite.0)?;
        }
        self.release_physical(memory)?;
        let pointer = start + offset.min(bytes);
        self.virtual_memory.layout.lock().imports.insert(pointer, start);
        Ok(pointer)
    }

    /// Closes what [`open_shared`](Runtime::open_shared) opened.
    pub fn close_shared(&self, pointer: u64) -> Result<(), hipError_t> {
        let mut layout = self.virtual_memory.layout.lock();
        let start = layout.imports.remove(&pointer).ok_or(hipErrorInvalidValue)?;
        let bytes = layout.reservations.get(&start).ok_or(hipErrorInvalidValue)?.bytes;
        drop(layout);
        self.unmap_physical(start, bytes)?;
        self.return_addresses(start, bytes)
    }

    /// Forgets the memory of a device that was reset, after the worker has.
    pub fn forget_physical(&self, device: usize) {
        let gone = self.tables.physical.remove_where(|it| it.device == device);
        for physical in gone.iter().filter(|it| !it.imported) {
            self.devices[device].ledger.give_back(physical.bytes());
        }
        let mut layout = self.virtual_memory.layout.lock();
        let lost: Vec<u64> = layout
            .mappings
            .iter()
            .filter(|(_, it)| self.tables.physical.get(it.memory).is_none())
            .map(|(at, _)| *at)
            .collect();
        for start in lost {
            layout.mappings.remove(&start);
            self.memory.remove(start);
        }
    }
}
