//! Device memory at addresses the caller chooses: a reserved address range into which physical chunks are mapped on demand.

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_void;
use std::sync::Arc;

use backend::{Arena, DeviceError};
use hip_api::types::*;
use limits::SessionSlot;
use parking_lot::Mutex;

use crate::error::call;
use crate::functions::Functions;

/// Allocations are charged in multiples of this many bytes, as clients assume.
const GRANULE: u64 = 4096;
/// Size of the reserved range if the client proposes none.
const DEFAULT_ARENA_BYTES: u64 = 1 << 40;

/// Allocation properties of the arena's chunks.
fn properties(device: u32) -> hipMemAllocationProp {
    hipMemAllocationProp {
        r#type: hipMemAllocationTypePinned,
        location: hipMemLocation { r#type: hipMemLocationTypeDevice, id: device as c_int },
        ..hipMemAllocationProp::default()
    }
}

/// Allocation properties of memory that can be exported as a file descriptor.
pub(crate) fn shareable(device: u32) -> hipMemAllocationProp {
    hipMemAllocationProp { requestedHandleType: hipMemHandleTypePosixFileDescriptor, ..properties(device) }
}

#[derive(Clone, Copy, Debug)]
struct Allocation {
    bytes: u64,
    device: u32,
    /// A mapping of physical memory. The bytes are charged to the physical memory, not to the mapping.
    mapped: bool,
}

struct Chunk {
    handle: usize,
    users: u32,
}

#[derive(Default)]
struct State {
    allocations: BTreeMap<u64, Allocation>,
    chunks: HashMap<u64, Chunk>,
    used: HashMap<u32, u64>,
}

/// The address space of a session on real hardware.
pub(crate) struct Memory {
    functions: Arc<Functions>,
    arena: Arena,
    chunk: u64,
    devices: u32,
    /// Limits that this session shares with the worker's other sessions.
    seat: Option<SessionSlot>,
    state: Mutex<State>,
}

impl Memory {
    /// Reserves the address range, at `wanted` if the driver permits.
    pub(crate) fn new(
        functions: &Arc<Functions>,
        devices: u32,
        wanted: Option<Arena>,
        seat: Option<SessionSlot>,
    ) -> Result<Memory, DeviceError> {
        let mut supported = 0;
        call!(
            functions,
            hipDeviceGetAttribute(&raw mut supported, hipDeviceAttributeVirtualMemoryManagementSupported, 0)
        )?;
        if supported == 0 || functions.hipMemAddressReserve.is_none() {
            return Err(DeviceError::not_supported(format!(
                "{} has no virtual memory management on this GPU, so memory cannot be mapped at given addresses; use a newer ROCm",
                functions.path().display()
            )));
        }
        let properties = properties(0);
        let mut chunk = 0usize;
        call!(
            functions,
            hipMemGetAllocationGranularity(
                &raw mut chunk,
                &raw const properties,
                hipMemAllocationGranularityRecommended
            )
        )?;
        let chunk = (chunk as u64).max(4096);
        let (base, bytes) = wanted.map_or((0, DEFAULT_ARENA_BYTES), |arena| (arena.base, arena.bytes));
        let bytes = bytes.next_multiple_of(chunk);
        let mut address = std::ptr::null_mut();
        call!(
            functions,
            hipMemAddressReserve(&raw mut address, bytes as usize, chunk as usize, base as *mut c_void, 0)
        )?;
        let arena = Arena { base: address as u64, bytes };
        let functions = Arc::clone(functions);
        Ok(Memory { functions, arena, chunk, devices, seat, state: Mutex::new(State::default()) })
    }

    pub(crate) fn arena(&self) -> Arena {
        self.arena
    }

    pub(crate) fn map(&self, device: u32, address: u64, bytes: u64) -> Result<(), DeviceError> {
        if bytes == 0 || !self.arena.contains(address, bytes) {
            return Err(DeviceError::invalid_value(format!(
                "{bytes} bytes at {address:#x} are not in the arena"
            )));
        }
        let mut state = self.state.lock();
        let before = state.allocations.range(..address + bytes).next_back();
        if before.is_some_and(|(start, it)| start + it.bytes > address) {
            return Err(DeviceError::invalid_value(format!(
                "{bytes} bytes at {address:#x} overlap another allocation"
            )));
        }
        self.take(device, bytes)?;
        let mut mapped = Vec::new();
        for chunk in self.chunks(address, bytes) {
            let result = match state.chunks.get_mut(&chunk) {
                Some(chunk) => {
                    chunk.users += 1;
                    Ok(())
                }
                None => self.back(device, chunk).map(|handle| {
                    state.chunks.insert(chunk, Chunk { handle, users: 1 });
                }),
            };
            if let Err(error) = result {
                for chunk in mapped {
                    self.drop_user(&mut state, chunk);
                }
                self.give(device, bytes);
                return Err(error);
            }
            mapped.push(chunk);
        }
        state.allocations.insert(address, Allocation { bytes, device, mapped: false });
        *state.used.entry(device).or_default() += bytes;
        Ok(())
    }

    /// Frees an allocation. All work that may access it must have ended.
    pub(crate) fn unmap(&self, address: u64) -> Result<(), DeviceError> {
        let mut state = self.state.lock();
        let Some(it) = state.allocations.remove(&address) else {
            return Err(DeviceError::invalid_value(format!("nothing is allocated at {address:#x}")));
        };
        *state.used.entry(it.device).or_default() -= it.bytes;
        self.give(it.device, it.bytes);
        for chunk in self.chunks(address, it.bytes) {
            self.drop_user(&mut state, chunk);
        }
        Ok(())
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

    /// Free bytes under the worker's limit, and that limit; `None` without a limit.
    pub(crate) fn allowance(&self, device: u32) -> Option<(u64, u64)> {
        self.seat.as_ref().and_then(|seat| seat.memory(device))
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
        let overlaps = before.is_some_and(|(start, it)| start + it.bytes > address);
        if overlaps || self.chunks(address, bytes).any(|chunk| state.chunks.contains_key(&chunk)) {
            return Err(taken());
        }
        map()?;
        state.allocations.insert(address, Allocation { bytes, device, mapped: true });
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

    pub(crate) fn device_of(&self, address: u64) -> Option<u32> {
        self.state.lock().allocations.get(&address).filter(|it| !it.mapped).map(|it| it.device)
    }

    pub(crate) fn used(&self, device: u32) -> u64 {
        self.state.lock().used.get(&device).copied().unwrap_or(0)
    }

    /// Checks that a range is device memory. Addresses outside the arena pass: they may belong to modules, whose addresses only the
    /// runtime knows.
    pub(crate) fn check(&self, address: u64, bytes: u64) -> Result<(), DeviceError> {
        let end = address.checked_add(bytes);
        if end.is_none() || address < 4096 {
            return Err(DeviceError::invalid_value(format!(
                "{bytes} bytes at {address:#x} are not device memory"
            )));
        }
        if !self.arena.contains(address, 0) {
            return Ok(());
        }
        let state = self.state.lock();
        let mut at = address;
        loop {
            let owner = state.allocations.range(..=at).next_back();
            let owner = owner.filter(|(start, it)| at < *start + it.bytes.next_multiple_of(256));
            match owner {
                Some((start, it)) if end.is_some_and(|end| end <= start + it.bytes.next_multiple_of(256)) => {
                    return Ok(());
                }
                // Adjacent mappings count as one range.
                Some((start, it)) if it.mapped => at = start + it.bytes,
                _ => {
                    let text = format!("{bytes} bytes at {address:#x} are not device memory");
                    return Err(DeviceError::invalid_value(text));
                }
            }
        }
    }

    fn chunks(&self, address: u64, bytes: u64) -> impl Iterator<Item = u64> + use<> {
        let first = address / self.chunk * self.chunk;
        (first..address + bytes).step_by(self.chunk as usize)
    }

    /// Maps physical memory of `device` at a chunk and grants every device access.
    fn back(&self, device: u32, chunk: u64) -> Result<usize, DeviceError> {
        let functions = &self.functions;
        let properties = properties(device);
        let mut handle: hipMemGenericAllocationHandle_t = std::ptr::null_mut();
        let size = self.chunk as usize;
        call!(functions, hipMemCreate(&raw mut handle, size, &raw const properties, 0))?;
        let at = chunk as *mut c_void;
        if let Err(error) = call!(functions, hipMemMap(at, size, 0, handle, 0)) {
            let _ = call!(functions, hipMemRelease(handle));
            return Err(error);
        }
        let access: Vec<hipMemAccessDesc> = (0..self.devices)
            .map(|device| hipMemAccessDesc {
                location: hipMemLocation { r#type: hipMemLocationTypeDevice, id: device as c_int },
                flags: hipMemAccessFlagsProtReadWrite,
            })
            .collect();
        if let Err(error) = call!(functions, hipMemSetAccess(at, size, access.as_ptr(), access.len())) {
            let _ = call!(functions, hipMemUnmap(at, size));
            let _ = call!(functions, hipMemRelease(handle));
            return Err(error);
        }
        Ok(handle as usize)
    }

    fn drop_user(&self, state: &mut State, chunk: u64) {
        let Some(it) = state.chunks.get_mut(&chunk) else { return };
        it.users -= 1;
        if it.users > 0 {
            return;
        }
        let handle = it.handle as hipMemGenericAllocationHandle_t;
        state.chunks.remove(&chunk);
        let functions = &self.functions;
        // On failure the memory stays mapped until the session process exits.
        let _ = call!(functions, hipMemUnmap(chunk as *mut c_void, self.chunk as usize));
        let _ = call!(functions, hipMemRelease(handle));
    }
}
