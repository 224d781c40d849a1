//! Saves and restores the memory of a session for snapshots: allocations, mappings and contents.
//!
//! Pages that were never written are skipped; `/proc/self/pagemap` lists them.

use std::collections::HashSet;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use backend::{
    AccessRecord, AllocationRecord, DeviceError, Inventory, MappingRecord, MemoryAccess, MemoryId,
    MemoryRecord,
};
use emulator::Access;

use super::{Backing, GRANULARITY, Memory};

/// Memory contents are passed on in pieces of this size.
const PIECE: u64 = 2 << 20;
/// Timeout for pending unmaps to take effect once all work has ended.
const UNMAP_TIMEOUT: Duration = Duration::from_secs(5);
/// Bits of an entry of `/proc/self/pagemap`: the page is in memory or in swap.
const IN_USE: u64 = 0b11 << 62;

impl Memory {
    /// Records allocations, physical memory, mappings and access rights, except the memory of modules, which start at `modules`.
    pub(crate) fn capture(
        &self,
        inventory: &mut Inventory,
        modules: &HashSet<u64>,
    ) -> Result<(), DeviceError> {
        let shared = || DeviceError::not_supported("the session shares memory with other sessions");
        let mut state = self.state.lock();
        while state.allocations.values().any(|it| it.unmapping) {
            if self.left.wait_for(&mut state, UNMAP_TIMEOUT).timed_out() {
                return Err(DeviceError::not_ready("freed memory is still in use"));
            }
        }
        if !state.moved.is_empty() {
            return Err(shared());
        }
        for (address, it) in &state.allocations {
            let (device, kind, address, bytes) = (it.device, it.kind, *address, it.bytes);
            let host_range = it.backing == Backing::HostPages;
            match it.backing {
                Backing::Pages if modules.contains(&address) => {}
                Backing::Pages | Backing::HostPages => {
                    inventory.allocations.push(AllocationRecord { device, kind, address, bytes, host_range });
                }
                Backing::Physical { id, offset, .. } => {
                    inventory.mappings.push(MappingRecord { memory: id, offset, address, bytes });
                    for (table, device) in self.tables.iter().zip(0..) {
                        let access = match table.find(address).map(|range| range.access) {
                            Some(Access::ReadWrite) => MemoryAccess::ReadWrite,
                            Some(Access::ReadOnly) => MemoryAccess::Read,
                            None => continue,
                        };
                        inventory.access.push(AccessRecord { device, address, bytes, access });
                    }
                }
            }
        }
        for (id, it) in &state.physical {
            let device = it.charged.then_some(it.device).ok_or_else(shared)?;
            let (bytes, released) = (it.bytes, it.released);
            inventory.memories.push(MemoryRecord { device, memory: *id, bytes, released });
        }
        Ok(())
    }

    /// Recreates allocations, physical memory and mappings at their old addresses.
    pub(crate) fn restore(&self, inventory: &Inventory) -> Result<(), DeviceError> {
        for it in &inventory.allocations {
            match it.host_range {
                // The address is one of the client's process. By chance, this process may have a library or a stack there.
                true => self
                    .map_host_range(it.device, it.address, it.bytes)
                    .map_err(|error| DeviceError::address_taken(error.text))?,
                false => self.map(it.device, it.kind, it.address, it.bytes)?,
            }
        }
        for it in &inventory.memories {
            self.create_physical(it.device, it.memory, it.bytes)?;
        }
        for it in &inventory.mappings {
            self.map_physical(it.memory, it.offset, it.address, it.bytes)?;
        }
        for it in &inventory.access {
            self.set_access(it.device, it.address, it.bytes, it.access)?;
        }
        Ok(())
    }

    /// Releases the IDs of physical memory that was already released when the snapshot was taken; its mappings keep it alive.
    pub(crate) fn release_restored(&self, inventory: &Inventory) -> Result<(), DeviceError> {
        let released = inventory.memories.iter().filter(|it| it.released);
        released.map(|it| it.memory).try_for_each(|memory| self.release_physical(memory))
    }

    /// The size of the allocation that starts at `address`.
    pub(crate) fn allocated(&self, address: u64) -> Option<u64> {
        let state = self.state.lock();
        let it = state.allocations.get(&address).filter(|it| !it.unmapping);
        it.filter(|it| !matches!(it.backing, Backing::Physical { .. })).map(|it| it.bytes)
    }

    /// Passes the bytes in a range of the memory that starts at `address` to `show`, except pages that were never written.
    ///
    /// # Safety
    /// The range must be mapped and stay mapped, and nothing may write to it during the call.
    pub(crate) unsafe fn show(
        &self,
        address: u64,
        range: Range<u64>,
        show: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) {
        let end = address + range.end;
        let mut at = address + range.start;
        while at < end {
            let next = ((at / PIECE + 1) * PIECE).min(end);
            for (start, stop) in used(self.pages.as_deref(), at, next) {
                // SAFETY: inside the range that the caller guarantees to be mapped.
                if !show(start - address, unsafe { self.bytes(start, stop - start) }) {
                    return;
                }
            }
            at = next;
        }
    }

    /// Passes the bytes of physical memory to `show`.
    pub(crate) fn show_physical(
        &self,
        id: MemoryId,
        range: Range<u64>,
        show: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> Result<(), DeviceError> {
        let state = self.state.lock();
        let it = state.physical.get(&id).ok_or_else(|| unknown(id))?;
        let (file, end) = (it.file.try_clone().map_err(failed)?, it.bytes.min(range.end));
        // Several threads may read it.
        drop(state);
        let mut piece = vec![0; PIECE as usize];
        for at in (range.start..end).step_by(PIECE as usize) {
            let piece = &mut piece[..PIECE.min(end - at) as usize];
            file.read_exact_at(piece, at).map_err(failed)?;
            if !show(at, piece) {
                break;
            }
        }
        Ok(())
    }

    /// Writes to physical memory.
    pub(crate) fn fill_physical(&self, id: MemoryId, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let state = self.state.lock();
        let it = state.physical.get(&id).ok_or_else(|| unknown(id))?;
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > it.bytes) {
            return Err(DeviceError::invalid_value(format!(
                "{} bytes exceed the end of memory {id:#x}",
                bytes.len()
            )));
        }
        it.file.write_all_at(bytes, offset).map_err(failed)
    }
}

/// The parts of a range that have pages. The range must not be longer than [`PIECE`].
fn used(pages: Option<&File>, start: u64, end: u64) -> Vec<(u64, u64)> {
    let first = start / GRANULARITY;
    let count = (end.div_ceil(GRANULARITY) - first) as usize;
    let mut entries = vec![0u8; count * 8];
    let known = pages.is_some_and(|pages| pages.read_exact_at(&mut entries, first * 8).is_ok());
    if !known {
        return vec![(start, end)];
    }
    let mut parts: Vec<(u64, u64)> = Vec::new();
    for (entry, page) in entries.as_chunks::<8>().0.iter().zip(first..) {
        if u64::from_le_bytes(*entry) & IN_USE == 0 {
            continue;
        }
        let (from, to) = ((page * GRANULARITY).max(start), ((page + 1) * GRANULARITY).min(end));
        match parts.last_mut() {
            Some((_, last)) if *last == from => *last = to,
            _ => parts.push((from, to)),
        }
    }
    parts
}

fn unknown(id: MemoryId) -> DeviceError {
    DeviceError::invalid_handle(format!("there is no memory {id:#x}"))
}

fn failed(error: std::io::Error) -> DeviceError {
    DeviceError::out_of_memory(format!("cannot access physical memory: {error}"))
}
