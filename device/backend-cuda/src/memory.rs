//! Device memory at addresses the caller chooses: a reserved address range into which physical memory is mapped on demand.
//!
//! The driver maps memory in chunks of 2 MiB, so small allocations share chunks. A chunk that an allocation fills only in part is
//! a block by itself; the whole chunks of an allocation are one block, since a call of the driver costs the same for any size.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use backend::{Arena, DeviceError, PHYSICAL_GRANULARITY};
use limits::SessionSlot;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::error::call;
use crate::functions::Functions;
use crate::gpu::Gpu;
use crate::types::*;

/// Allocations are charged in multiples of this many bytes, as clients assume.
const GRANULE: u64 = 4096;
/// Size of the reserved range if the client proposes none.
const DEFAULT_ARENA_BYTES: u64 = 1 << 40;
/// Where a range is reserved if the client proposes none; the driver may choose another address.
const DEFAULT_ARENA_BASE: u64 = 0x2000_0000_0000;
const CHUNK: u64 = PHYSICAL_GRANULARITY;
/// The driver reserves smaller ranges, and those that are not aligned to this, where it likes.
const WINDOW: u64 = 32 << 20;
/// Unused blocks of one chunk that stay mapped, because mapping takes far longer than a small allocation should.
const MOST_SPARE: usize = 64;
/// Allocations from this size on are compared with the free memory before the driver is asked.
const LARGE: u64 = 64 << 20;

/// Allocation properties of memory of a device.
pub(crate) fn properties(gpu: &Gpu) -> MemAllocationProp {
    MemAllocationProp {
        kind: ALLOCATION_PINNED,
        handle_types: 0,
        location: MemLocation { kind: LOCATION_DEVICE, id: gpu.device },
        win32: std::ptr::null_mut(),
        flags: [0; 8],
    }
}

#[derive(Clone, Debug)]
struct Allocation {
    bytes: u64,
    device: u32,
    /// Start addresses of the blocks that hold it.
    blocks: Vec<u64>,
    /// A mapping of physical memory. The bytes are charged to the physical memory, not to the mapping.
    mapped: bool,
    /// A module, which only [`Memory::unmap`] of its loader may free.
    module: bool,
    /// It stands for host memory, which a reset of the device does not free.
    host: bool,
}

/// What an allocation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Memory of the device.
    Device,
    /// A copy of host memory, which kernels access.
    Host,
    /// A code object.
    Module,
}

/// Physical memory that is mapped at an address.
struct Block {
    bytes: u64,
    handle: CuMemory,
    device: u32,
    users: u32,
}

#[derive(Default)]
struct State {
    allocations: BTreeMap<u64, Allocation>,
    /// Allocations that were freed while work was queued that may use them.
    freed: BTreeMap<u64, Allocation>,
    blocks: BTreeMap<u64, Block>,
    /// Windows outside the arena that are reserved.
    outside: BTreeSet<u64>,
    used: Vec<u64>,
    spare: usize,
}

/// The address space of a session.
pub(crate) struct Memory {
    functions: Arc<Functions>,
    gpus: Arc<Vec<Gpu>>,
    arena: Arena,
    /// Limits that this session shares with the worker's other sessions.
    seat: Option<SessionSlot>,
    state: Mutex<State>,
    released: Condvar,
}

impl Memory {
    /// Reserves the address range: at `wanted`, or not at all.
    pub(crate) fn new(
        functions: &Arc<Functions>,
        gpus: &Arc<Vec<Gpu>>,
        wanted: Option<Arena>,
        seat: Option<SessionSlot>,
    ) -> Result<Memory, DeviceError> {
        let first = gpus.first().ok_or_else(|| DeviceError::invalid_device(0))?;
        first.enter()?;
        let properties = properties(first);
        let mut chunk = 0usize;
        call!(functions, cuMemGetAllocationGranularity(&raw mut chunk, &raw const properties, 0))?;
        if !CHUNK.is_multiple_of(chunk.max(1) as u64) {
            return Err(DeviceError::not_supported(format!(
                "the driver maps memory in chunks of {chunk} bytes, which do not divide 2 MiB"
            )));
        }
        let arena = wanted.unwrap_or(Arena { base: DEFAULT_ARENA_BASE, bytes: DEFAULT_ARENA_BYTES });
        let bytes = arena.bytes.checked_next_multiple_of(CHUNK);
        let bytes = bytes.ok_or_else(|| DeviceError::invalid_value("the arena exceeds the address space"))?;
        let mut address = 0;
        call!(functions, cuMemAddressReserve(&raw mut address, bytes as usize, 0, arena.base, 0))?;
        if wanted.is_some() && address != arena.base {
            let _ = call!(functions, cuMemAddressFree(address, bytes as usize));
            return Err(DeviceError::out_of_memory(format!(
                "the driver cannot reserve {bytes} bytes at {:#x}, where the client has its arena",
                arena.base
            )));
        }
        Ok(Memory {
            functions: Arc::clone(functions),
            gpus: Arc::clone(gpus),
            arena: Arena { base: address, bytes },
            seat,
            state: Mutex::new(State { used: vec![0; gpus.len()], ..State::default() }),
            released: Condvar::new(),
        })
    }

    pub(crate) fn arena(&self) -> Arena {
        self.arena
    }

    /// Allocates zeroed memory at an address of the arena. Waits if a freed allocation is still in use there.
    pub(crate) fn map(&self, device: u32, address: u64, bytes: u64, what: What) -> Result<(), DeviceError> {
        if bytes == 0 || !self.arena.contains(address, bytes) {
            return Err(DeviceError::invalid_value(format!(
                "{bytes} bytes at {address:#x} are not in the arena"
            )));
        }
        let state = self.state.lock();
        self.allocate(state, device, address, bytes, what)
    }

    /// Allocates zeroed memory at an address outside the arena, if the driver can reserve it.
    pub(crate) fn map_outside(&self, device: u32, address: u64, bytes: u64) -> Result<(), DeviceError> {
        let refused = |why: &str| {
            DeviceError::invalid_value(format!("cannot map {bytes} bytes at {address:#x}: {why}"))
        };
        let end = address.checked_add(bytes).filter(|_| bytes > 0 && address >= CHUNK);
        let end = end.ok_or_else(|| refused("not an address range"))?;
        if end > self.arena.base && address < self.arena.base + self.arena.bytes {
            return Err(refused("the range lies in the arena"));
        }
        self.gpus[device as usize].enter()?;
        let mut state = self.state.lock();
        for window in (address / WINDOW..end.div_ceil(WINDOW)).map(|number| number * WINDOW) {
            if state.outside.contains(&window) {
                continue;
            }
            let mut found = 0;
            call!(self.functions, cuMemAddressReserve(&raw mut found, WINDOW as usize, 0, window, 0))?;
            if found != window {
                let _ = call!(self.functions, cuMemAddressFree(found, WINDOW as usize));
                return Err(refused("this process uses the addresses"));
            }
            state.outside.insert(window);
        }
        self.allocate(state, device, address, bytes, What::Host)
    }

    fn allocate(
        &self,
        mut state: MutexGuard<'_, State>,
        device: u32,
        address: u64,
        bytes: u64,
        what: What,
    ) -> Result<(), DeviceError> {
        let overlaps = |map: &BTreeMap<u64, Allocation>| {
            let before = map.range(..address + bytes).next_back();
            before.is_some_and(|(start, it)| start + it.bytes > address)
        };
        while overlaps(&state.freed) {
            self.released.wait(&mut state);
        }
        if overlaps(&state.allocations) {
            return Err(DeviceError::invalid_value(format!(
                "{bytes} bytes at {address:#x} overlap another allocation"
            )));
        }
        let gpu = &self.gpus[device as usize];
        if bytes >= LARGE {
            let (free, _) = gpu.memory()?;
            if bytes > free {
                return Err(DeviceError::out_of_memory(format!(
                    "cannot allocate {bytes} bytes: {free} are free on device {device}"
                )));
            }
        }
        self.take(device, bytes)?;
        let backed = self.back(&mut state, device, address, bytes);
        let zeroed = backed.and_then(|blocks| match gpu.zero(address, bytes) {
            Ok(()) => Ok(blocks),
            Err(error) => {
                blocks.iter().for_each(|block| self.drop_user(&mut state, *block));
                Err(error)
            }
        });
        let blocks = zeroed.inspect_err(|_| self.give(device, bytes))?;
        state.used[device as usize] += bytes;
        let (module, host) = (what == What::Module, what == What::Host);
        state.allocations.insert(address, Allocation { bytes, device, blocks, mapped: false, module, host });
        Ok(())
    }

    /// Forbids new work with an allocation. [`Memory::release`] frees it when earlier work has ended.
    pub(crate) fn unmap(&self, address: u64, module: bool) -> Result<(), DeviceError> {
        let mut state = self.state.lock();
        if state.allocations.get(&address).is_none_or(|it| it.mapped || it.module != module) {
            return Err(DeviceError::invalid_value(format!("nothing is allocated at {address:#x}")));
        }
        if let Some(it) = state.allocations.remove(&address) {
            state.freed.insert(address, it);
        }
        Ok(())
    }

    /// Frees an allocation that was unmapped and that no work uses any longer.
    pub(crate) fn release(&self, address: u64) {
        let mut state = self.state.lock();
        let Some(it) = state.freed.remove(&address) else { return };
        state.used[it.device as usize] -= it.bytes;
        self.give(it.device, it.bytes);
        it.blocks.iter().for_each(|block| self.drop_user(&mut state, *block));
        self.released.notify_all();
    }

    /// Addresses of a device's allocations, without modules, mappings and host memory.
    pub(crate) fn of_device(&self, device: u32) -> Vec<u64> {
        let state = self.state.lock();
        let is_own = |it: &Allocation| it.device == device && !it.mapped && !it.module && !it.host;
        let own = state.allocations.iter().filter(|(_, it)| is_own(it));
        own.map(|(address, _)| *address).collect()
    }

    /// Device of the allocation that holds an address.
    pub(crate) fn owner(&self, address: u64) -> u32 {
        let state = self.state.lock();
        state.allocations.range(..=address).next_back().map_or(0, |(_, it)| it.device)
    }

    /// Books memory against the worker's limit.
    pub(crate) fn take(&self, device: u32, bytes: u64) -> Result<(), DeviceError> {
        let Some(seat) = &self.seat else { return Ok(()) };
        let asked = bytes.checked_next_multiple_of(GRANULE).unwrap_or(u64::MAX);
        seat.take(device, asked).map_err(|left| {
            DeviceError::out_of_memory(format!("cannot allocate {bytes} bytes: {left} on device {device}"))
        })
    }

    pub(crate) fn give(&self, device: u32, bytes: u64) {
        if let Some(seat) = &self.seat {
            seat.give(device, bytes.next_multiple_of(GRANULE));
        }
    }

    /// Counts physical memory of the session.
    pub(crate) fn count(&self, device: u32, bytes: u64) {
        self.state.lock().used[device as usize] += bytes;
    }

    pub(crate) fn discount(&self, device: u32, bytes: u64) {
        self.state.lock().used[device as usize] -= bytes;
    }

    /// Free bytes under the worker's limit, and that limit; `None` without a limit.
    pub(crate) fn allowance(&self, device: u32) -> Option<(u64, u64)> {
        self.seat.as_ref().and_then(|seat| seat.memory(device))
    }

    pub(crate) fn used(&self, device: u32) -> u64 {
        self.state.lock().used.get(device as usize).copied().unwrap_or(0)
    }

    /// Registers a mapping that `map` creates, if the address range is free.
    pub(crate) fn book(
        &self,
        device: u32,
        address: u64,
        bytes: u64,
        map: impl FnOnce() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let taken = || DeviceError::invalid_value(format!("{bytes} bytes at {address:#x} are not free"));
        if !self.arena.contains(address, bytes) {
            return Err(taken());
        }
        let mut state = self.state.lock();
        let before = state.allocations.range(..address + bytes).next_back();
        if before.is_some_and(|(start, it)| start + it.bytes > address) {
            return Err(taken());
        }
        self.drop_spare(&mut state, address, bytes);
        let before = state.blocks.range(..address + bytes).next_back();
        if before.is_some_and(|(start, it)| start + it.bytes > address) {
            return Err(taken());
        }
        map()?;
        let it = Allocation { bytes, device, blocks: Vec::new(), mapped: true, module: false, host: false };
        state.allocations.insert(address, it);
        Ok(())
    }

    pub(crate) fn unbook(&self, address: u64) {
        self.state.lock().allocations.remove(&address);
    }

    /// The mappings that exactly cover a range, without gaps.
    pub(crate) fn mappings(&self, address: u64, bytes: u64) -> Result<Vec<(u64, u64)>, DeviceError> {
        let wrong = || {
            let text = format!("{bytes} bytes at {address:#x} are not whole mappings");
            DeviceError::invalid_value(text)
        };
        let end = address.checked_add(bytes).filter(|end| *end > address).ok_or_else(wrong)?;
        let state = self.state.lock();
        let (mut at, mut found) = (address, Vec::new());
        while at < end {
            let it = state.allocations.get(&at).filter(|it| it.mapped).ok_or_else(wrong)?;
            found.push((at, it.bytes));
            at += it.bytes;
        }
        if at == end { Ok(found) } else { Err(wrong()) }
    }

    /// Checks that a range is memory of the session.
    pub(crate) fn check(&self, address: u64, bytes: u64) -> Result<(), DeviceError> {
        let wrong =
            || DeviceError::invalid_value(format!("{bytes} bytes at {address:#x} are not device memory"));
        let end = address.checked_add(bytes).ok_or_else(wrong)?;
        let state = self.state.lock();
        let mut at = address;
        loop {
            let owner = state.allocations.range(..=at).next_back();
            let owner = owner.filter(|(start, it)| at < *start + it.bytes.next_multiple_of(256));
            match owner {
                Some((start, it)) if end <= start + it.bytes.next_multiple_of(256) => return Ok(()),
                // Adjacent mappings count as one range.
                Some((start, it)) if it.mapped => at = start + it.bytes,
                _ => return Err(wrong()),
            }
        }
    }

    /// Maps physical memory at a fresh block and grants every device access.
    pub(crate) fn map_physical(
        &self,
        device: u32,
        address: u64,
        bytes: u64,
        handle: CuMemory,
    ) -> Result<(), DeviceError> {
        let functions = &self.functions;
        call!(functions, cuMemMap(address, bytes as usize, 0, handle, 0))?;
        let owner = &self.gpus[device as usize];
        let reaches = |gpu: &&Gpu| {
            let mut can = 0;
            gpu.device == owner.device
                || (call!(functions, cuDeviceCanAccessPeer(&raw mut can, gpu.device, owner.device)).is_ok()
                    && can != 0)
        };
        let access: Vec<MemAccessDesc> = self.gpus.iter().filter(reaches).map(access).collect();
        call!(functions, cuMemSetAccess(address, bytes as usize, access.as_ptr(), access.len())).inspect_err(
            |_| {
                let _ = call!(functions, cuMemUnmap(address, bytes as usize));
            },
        )
    }

    /// Provides physical memory for a range: counts its users up, and creates what is missing. Returns the blocks.
    fn back(
        &self,
        state: &mut State,
        device: u32,
        address: u64,
        bytes: u64,
    ) -> Result<Vec<u64>, DeviceError> {
        self.gpus[device as usize].enter()?;
        let end = (address + bytes).next_multiple_of(CHUNK);
        let mut held: Vec<u64> = Vec::new();
        let mut at = address / CHUNK * CHUNK;
        while at < end {
            let before = state.blocks.range(..=at).next_back().map(|(start, block)| (*start, block.bytes));
            let present = before.filter(|(start, bytes)| at < start + bytes);
            let (start, bytes) = match present {
                Some(present) => present,
                None => {
                    let next = state.blocks.range(at..end).next().map_or(end, |(start, _)| *start);
                    let bytes = block_bytes(at, next, address, address + bytes);
                    match self.create(state, device, bytes, at) {
                        Ok(()) => (at, bytes),
                        Err(error) => {
                            held.iter().for_each(|block| self.drop_user(state, *block));
                            return Err(error);
                        }
                    }
                }
            };
            if let Some(block) = state.blocks.get_mut(&start) {
                if block.users == 0 && present.is_some() {
                    state.spare -= 1;
                }
                block.users += 1;
            }
            held.push(start);
            at = start + bytes;
        }
        Ok(held)
    }

    /// Creates a block without users.
    fn create(&self, state: &mut State, device: u32, bytes: u64, at: u64) -> Result<(), DeviceError> {
        let functions = &self.functions;
        let properties = properties(&self.gpus[device as usize]);
        let mut handle: CuMemory = 0;
        let mut made =
            call!(functions, cuMemCreate(&raw mut handle, bytes as usize, &raw const properties, 0));
        if made.is_err() && state.spare > 0 {
            self.drop_spare(state, 0, u64::MAX);
            made = call!(functions, cuMemCreate(&raw mut handle, bytes as usize, &raw const properties, 0));
        }
        made?;
        self.map_physical(device, at, bytes, handle).inspect_err(|_| {
            let _ = call!(functions, cuMemRelease(handle));
        })?;
        state.blocks.insert(at, Block { bytes, handle, device, users: 0 });
        Ok(())
    }

    fn drop_user(&self, state: &mut State, start: u64) {
        let Some(block) = state.blocks.get_mut(&start) else { return };
        block.users -= 1;
        if block.users > 0 {
            return;
        }
        if block.bytes == CHUNK && state.spare < MOST_SPARE {
            state.spare += 1;
            return;
        }
        if let Some(block) = state.blocks.remove(&start) {
            self.destroy(start, &block);
        }
    }

    /// Unmaps the unused blocks in a range.
    fn drop_spare(&self, state: &mut State, address: u64, bytes: u64) {
        let end = address.saturating_add(bytes);
        let gone: Vec<u64> = state
            .blocks
            .range(address..end)
            .filter(|(_, block)| block.users == 0)
            .map(|(at, _)| *at)
            .collect();
        for start in gone {
            if let Some(block) = state.blocks.remove(&start) {
                state.spare -= 1;
                self.destroy(start, &block);
            }
        }
    }

    fn destroy(&self, start: u64, block: &Block) {
        // On failure the memory stays mapped until the session process exits.
        let _ = self.gpus[block.device as usize].enter();
        let _ = call!(self.functions, cuMemUnmap(start, block.bytes as usize));
        let _ = call!(self.functions, cuMemRelease(block.handle));
    }
}

/// Access of a GPU to memory, for reading and writing.
fn access(gpu: &Gpu) -> MemAccessDesc {
    MemAccessDesc {
        location: MemLocation { kind: LOCATION_DEVICE, id: gpu.device },
        flags: ACCESS_READ_WRITE,
    }
}

/// Size of the block that starts at the chunk `at`, for the allocation from `start` to `end`, where `next` is the next block or
/// the end: a single chunk if the allocation fills it only in part, else all chunks that it fills.
fn block_bytes(at: u64, next: u64, start: u64, end: u64) -> u64 {
    let is_whole = at >= start && at + CHUNK <= end;
    if is_whole { next.min(end / CHUNK * CHUNK) - at } else { CHUNK }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_that_are_filled_in_part_are_blocks_by_themselves() {
        let blocks = |start: u64, end: u64, taken: u64| {
            let (mut at, mut found) = (start / CHUNK * CHUNK, Vec::new());
            while at < end {
                let next = if at < taken {
                    taken.min(end.next_multiple_of(CHUNK))
                } else {
                    end.next_multiple_of(CHUNK)
                };
                let bytes = block_bytes(at, next, start, end);
                found.push((at / CHUNK, bytes / CHUNK));
                at += bytes;
            }
            found
        };
        assert_eq!(blocks(0, 4 * CHUNK, u64::MAX), [(0, 4)]);
        assert_eq!(blocks(0, 4 * CHUNK + 1, u64::MAX), [(0, 4), (4, 1)]);
        assert_eq!(blocks(4096, 4 * CHUNK - 1, u64::MAX), [(0, 1), (1, 2), (3, 1)]);
        assert_eq!(blocks(4096, 8192, u64::MAX), [(0, 1)]);
        assert_eq!(blocks(0, 8 * CHUNK, 3 * CHUNK), [(0, 3), (3, 5)]);
    }
}
