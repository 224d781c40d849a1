//! The address space of a session: a reserved address range (arena) in which allocations are committed.
//!
//! A device address is a host address. The emulator's memory table lists exactly the ranges that kernels may access; inaccessible
//! pages around them are a second line of defence. Also does the accounting against each device's quota.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use backend::{Arena, DeviceError, MemoryId, MemoryKind, MemoryUse};
use emulator::guard::Watch;
use emulator::observe::model::PeerMemory;
use emulator::{Access, Memory as Table};
use limits::SessionSlot;
use parking_lot::{Condvar, Mutex, RwLock};

mod accounts;
mod inventory;
mod physical;

use accounts::Accounts;
use physical::{Physical, reserve};

use crate::host_pages::HostPages;

/// Addresses of allocations are multiples of this.
pub(crate) const GRANULARITY: u64 = 4096;
/// Pages are committed in chunks of this size, so that a hundred thousand small allocations do not need as many mappings.
const CHUNK: u64 = 2 << 20;
/// Kernels may access an allocation up to its size rounded up to this, as on hardware, where it is the smallest granularity.
const SLACK: u64 = 256;
/// The same while accesses are checked: a whole dword, because compilers widen loads of smaller elements to one.
const CHECKED_SLACK: u64 = 4;
/// Minimum size of allocations that use huge pages.
const HUGE: u64 = 2 * CHUNK;
/// Interval at which a wait for pending unmaps checks whether to give up.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// Arena sizes to try if the requested range is not free, largest first.
const ARENA_BYTES: &[u64] = &[1 << 42, 1 << 40, 1 << 38, 1 << 36];

/// A reserved address range without committed memory.
#[derive(Debug)]
struct Reservation {
    arena: Arena,
    /// Turns a page fault in the range into a kernel fault instead of a crash of the session process.
    watch: Option<Watch>,
}

impl Reservation {
    fn new(wanted: Option<Arena>) -> Result<Reservation, DeviceError> {
        let mut tries: Vec<(u64, u64)> = Vec::new();
        if let Some(arena) = wanted {
            tries.push((arena.base, arena.bytes));
            tries.push((0, arena.bytes));
        }
        tries.extend(ARENA_BYTES.iter().map(|bytes| (0, *bytes)));
        for (base, bytes) in tries {
            if !base.is_multiple_of(CHUNK)
                || !bytes.is_multiple_of(CHUNK)
                || bytes == 0
                || bytes > isize::MAX as u64
            {
                continue;
            }
            // One chunk more, so that a base chosen by the kernel can be aligned.
            let (length, fixed) =
                if base == 0 { (bytes + CHUNK, 0) } else { (bytes, libc::MAP_FIXED_NOREPLACE) };
            // SAFETY: a new anonymous mapping; MAP_FIXED_NOREPLACE protects existing mappings.
            let got = unsafe {
                libc::mmap(
                    base as *mut libc::c_void,
                    length as usize,
                    libc::PROT_NONE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed,
                    -1,
                    0,
                )
            };
            if got == libc::MAP_FAILED {
                continue;
            }
            let got = got as u64;
            if base != 0 && got != base {
                // SAFETY: just mapped by an old kernel that ignores MAP_FIXED_NOREPLACE; no other code has the address.
                unsafe { libc::munmap(got as *mut libc::c_void, length as usize) };
                continue;
            }
            let arena = Arena { base: got.next_multiple_of(CHUNK), bytes };
            // SAFETY: this reservation owns the addresses, and only kernel memory is ever mapped there.
            let watch = unsafe { Watch::new(arena.base, arena.bytes) };
            return Ok(Reservation { arena, watch });
        }
        Err(DeviceError::out_of_memory("cannot reserve an address range for the session"))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // Before the munmap, because other mappings may use the addresses afterwards.
        drop(self.watch.take());
        // SAFETY: this reservation owns the range, and allocations in it end with the session. The unaligned edges, which are
        // inaccessible, stay reserved until the process exits.
        unsafe { libc::munmap(self.arena.base as *mut libc::c_void, self.arena.bytes as usize) };
    }
}

#[derive(Clone, Copy, Debug)]
struct Allocation {
    bytes: u64,
    device: u32,
    kind: MemoryKind,
    /// `unmap` was called, but earlier work may still use the allocation.
    unmapping: bool,
    backing: Backing,
}

impl Allocation {
    fn is_of(&self, device: u32) -> bool {
        self.device == device && self.kind != MemoryKind::PinnedHost
    }
}

/// Memory that backs the addresses of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backing {
    /// Private pages, charged to the device.
    Pages,
    /// Memory outside the arena.
    HostPages,
    /// A mapping of physical memory, starting at `offset`. The physical memory is charged, not the mapping. Kernels may access the
    /// first `visible` bytes.
    Physical { id: MemoryId, offset: u64, visible: u64 },
}

#[derive(Debug, Default)]
struct State {
    allocations: BTreeMap<u64, Allocation>,
    /// Number of allocations in each committed chunk.
    chunks: HashMap<u64, u32>,
    host_pages: HostPages,
    accounts: Accounts,
    physical: HashMap<MemoryId, Physical>,
    /// Files that replaced the pages of shared allocations, by the allocation's address.
    moved: HashMap<u64, std::fs::File>,
}

/// The memory of a session.
#[derive(Debug)]
pub(crate) struct Memory {
    reservation: Reservation,
    /// The ranges that kernels may access, per device.
    tables: Vec<Arc<Table>>,
    /// Held for reading while a command runs, and for writing while pages are moved to a file.
    pub(crate) still: RwLock<()>,
    quotas: Vec<u64>,
    totals: Vec<u64>,
    state: Mutex<State>,
    left: Condvar,
    /// `/proc/self/pagemap`.
    pages: Option<Arc<File>>,
    /// Kernels may access an allocation up to its size rounded up to this.
    slack: u64,
}

impl Memory {
    /// Reserves the arena, at `wanted` if that is free. There is one quota and one total per device; the seat's limit is shared with
    /// other sessions.
    pub(crate) fn new(
        wanted: Option<Arena>,
        quotas: Vec<u64>,
        totals: Vec<u64>,
        seat: Option<SessionSlot>,
        pages: Option<Arc<File>>,
    ) -> Result<Memory, DeviceError> {
        let state = State { accounts: Accounts::new(quotas.clone(), seat), ..State::default() };
        Ok(Memory {
            reservation: Reservation::new(wanted)?,
            tables: quotas.iter().map(|_| Arc::new(Table::new())).collect(),
            still: RwLock::new(()),
            quotas,
            totals,
            state: Mutex::new(state),
            left: Condvar::new(),
            pages,
            slack: SLACK,
        })
    }

    /// Ends allocations where the program said, so that an access behind the last element is found.
    pub(crate) fn checked(self) -> Memory {
        Memory { slack: CHECKED_SLACK, ..self }
    }

    pub(crate) fn arena(&self) -> Arena {
        self.reservation.arena
    }

    /// The ranges that kernels of a device may access.
    pub(crate) fn table(&self, device: u32) -> &Arc<Table> {
        &self.tables[device as usize]
    }

    /// Grants the kernels of every device access to a range.
    pub(crate) fn allow(&self, start: u64, bytes: u64, access: Access) -> Result<(), DeviceError> {
        for (index, table) in self.tables.iter().enumerate() {
            if let Err(error) = table.insert(start, bytes, access) {
                for table in &self.tables[..index] {
                    table.remove(start);
                }
                return Err(DeviceError::invalid_value(error.to_string()));
            }
        }
        Ok(())
    }

    /// Revokes the access of every device to the range that starts at `start`.
    pub(crate) fn forbid(&self, start: u64) {
        for table in &self.tables {
            table.remove(start);
        }
    }

    /// Grants the other devices access to the ranges that a module has entered into its device's table.
    pub(crate) fn show_module(&self, device: u32, base: u64, bytes: u64) -> Result<(), DeviceError> {
        for range in self.table(device).within(base, bytes) {
            self.table(device).remove(range.start);
            self.allow(range.start, range.end - range.start, range.access)?;
        }
        Ok(())
    }

    /// The tables of all devices.
    pub(crate) fn tables(&self) -> &[Arc<Table>] {
        &self.tables
    }

    /// The memory of devices other than `device`.
    pub(crate) fn peers(&self, device: u32) -> PeerMemory {
        let state = self.state.lock();
        let others = state.allocations.iter().filter(|(_, it)| !it.is_of(device) && it.is_of(it.device));
        PeerMemory::new(others.map(|(start, it)| *start..start + it.bytes))
    }

    /// The device whose memory an address is in; `None` for host memory.
    pub(crate) fn owner(&self, address: u64) -> Option<u32> {
        let state = self.state.lock();
        let (_, it) = state.allocations.range(..=address).next_back()?;
        it.is_of(it.device).then_some(it.device)
    }

    /// Waits until all pending unmaps of a range have taken effect, or until `give_up` returns true.
    pub(crate) fn wait_for(&self, address: u64, bytes: u64, give_up: impl Fn() -> bool) {
        let end = address.saturating_add(bytes);
        let mut state = self.state.lock();
        loop {
            let before = state.allocations.range(..end).next_back();
            let unmapping = before.is_some_and(|(start, it)| it.unmapping && start + it.bytes > address);
            if !unmapping || (self.left.wait_for(&mut state, LOOK_AGAIN).timed_out() && give_up()) {
                return;
            }
        }
    }

    /// Commits `bytes` at `address` and grants kernels access.
    pub(crate) fn map(
        &self,
        device: u32,
        kind: MemoryKind,
        address: u64,
        bytes: u64,
    ) -> Result<(), DeviceError> {
        self.commit(device, kind, address, bytes)?;
        let visible = bytes.next_multiple_of(self.slack);
        self.allow(address, visible, Access::ReadWrite).inspect_err(|_| self.unmap(address))
    }

    /// Commits memory for a module. The module loader sets the access rights.
    pub(crate) fn map_module(&self, device: u32, address: u64, bytes: u64) -> Result<(), DeviceError> {
        self.commit(device, MemoryKind::Device, address, bytes)
    }

    /// Maps memory at an address outside the arena. It counts as host memory, not against a device's quota.
    pub(crate) fn map_host_range(&self, device: u32, address: u64, bytes: u64) -> Result<(), DeviceError> {
        if device as usize >= self.quotas.len() {
            return Err(DeviceError::invalid_device(device));
        }
        let refused = |why: &dyn std::fmt::Display| {
            DeviceError::invalid_value(format!("cannot map {bytes} bytes at {address:#x}: {why}"))
        };
        let arena = self.arena();
        let end = address.saturating_add(bytes);
        if end > arena.base && address < arena.base + arena.bytes {
            return Err(refused(&"the range overlaps the arena"));
        }
        let mut state = self.state.lock();
        self.allow(address, bytes, Access::ReadWrite).map_err(|error| refused(&error))?;
        if let Err(error) = state.host_pages.commit(address, bytes) {
            self.forbid(address);
            return Err(refused(&error));
        }
        let kind = MemoryKind::PinnedHost;
        let backing = Backing::HostPages;
        state.allocations.insert(address, Allocation { bytes, device, kind, unmapping: false, backing });
        Ok(())
    }

    fn commit(&self, device: u32, kind: MemoryKind, address: u64, bytes: u64) -> Result<(), DeviceError> {
        if bytes == 0 || !address.is_multiple_of(GRANULARITY) || !self.arena().contains(address, bytes) {
            return Err(DeviceError::invalid_value(format!(
                "memory of {bytes} bytes at {address:#x} is not in the arena, or not aligned to {GRANULARITY}"
            )));
        }
        if device as usize >= self.quotas.len() {
            return Err(DeviceError::invalid_device(device));
        }
        let span = bytes.next_multiple_of(GRANULARITY);
        let mut state = self.state.lock();
        let before = state.allocations.range(..address + span).next_back();
        if let Some((start, it)) = before
            && start + it.bytes.next_multiple_of(GRANULARITY) > address
        {
            return Err(DeviceError::invalid_value(format!(
                "memory of {bytes} bytes at {address:#x} overlaps {} bytes at {start:#x}",
                it.bytes
            )));
        }
        if kind != MemoryKind::PinnedHost {
            state.accounts.book(device, span)?;
        }
        state
            .allocations
            .insert(address, Allocation { bytes, device, kind, unmapping: false, backing: Backing::Pages });
        if let Err(text) = state.commit(address, span) {
            state.forget(address);
            return Err(DeviceError::out_of_memory(text));
        }
        Ok(())
    }

    /// Marks an allocation as freed, so that new work cannot use it. [`Memory::unmap`] follows when earlier work has ended.
    pub(crate) fn leave(&self, address: u64) -> Result<(), DeviceError> {
        self.start_leaving(address, |backing| !matches!(backing, Backing::Physical { .. }))
    }

    /// Like [`Memory::leave`], but for a mapping of physical memory.
    pub(crate) fn leave_mapping(&self, address: u64) -> Result<(), DeviceError> {
        self.start_leaving(address, |backing| matches!(backing, Backing::Physical { .. }))
    }

    fn start_leaving(&self, address: u64, fits: impl Fn(Backing) -> bool) -> Result<(), DeviceError> {
        let mut state = self.state.lock();
        match state.allocations.get_mut(&address) {
            Some(it) if !it.unmapping && fits(it.backing) => {
                it.unmapping = true;
                Ok(())
            }
            _ => Err(DeviceError::invalid_value(format!("nothing is allocated at {address:#x}"))),
        }
    }

    /// Unmaps a range that [`Memory::leave`] has marked.
    pub(crate) fn unmap(&self, address: u64) {
        let mut state = self.state.lock();
        self.forbid(address);
        state.forget(address);
        self.left.notify_all();
    }

    /// Frees all memory of a device, except host memory that it can access. No work may be running.
    pub(crate) fn clear(&self, device: u32) {
        let mut state = self.state.lock();
        let gone: Vec<u64> =
            state.allocations.iter().filter(|(_, it)| it.is_of(device)).map(|(at, _)| *at).collect();
        for address in gone {
            self.forbid(address);
            state.forget(address);
        }
        state.forget_physical(device);
        self.left.notify_all();
    }

    /// Charges a device for memory outside the arena; false if it does not have that much.
    pub(crate) fn take(&self, device: u32, bytes: u64) -> bool {
        self.state.lock().accounts.book(device, bytes).is_ok()
    }

    /// Releases bytes that [`Memory::take`] has charged.
    pub(crate) fn give(&self, device: u32, bytes: u64) {
        self.state.lock().accounts.give_back(device, bytes);
    }

    pub(crate) fn usage(&self, device: u32) -> Result<MemoryUse, DeviceError> {
        let at = device as usize;
        let state = self.state.lock();
        let used = state.accounts.used(device).ok_or_else(|| DeviceError::invalid_device(device))?;
        Ok(MemoryUse { free: state.accounts.free(device), total: self.totals[at], used })
    }

    /// Fails unless the whole range lies in one allocation, in adjacent mappings or in a module.
    pub(crate) fn check(&self, address: u64, bytes: u64) -> Result<(), DeviceError> {
        if bytes == 0 {
            return Ok(());
        }
        let illegal =
            || DeviceError::invalid_value(format!("{bytes} bytes at {address:#x} are not device memory"));
        let end = address.checked_add(bytes).ok_or_else(illegal)?;
        let mut at = address;
        loop {
            let found = self.tables.iter().find_map(|table| table.find(at)).ok_or_else(illegal)?;
            let state = self.state.lock();
            let owner = state.allocations.range(..=at).next_back();
            let owner = owner.filter(|(start, it)| at < *start + it.bytes.next_multiple_of(self.slack));
            if owner.is_some_and(|(_, it)| it.unmapping) {
                let text = format!("{bytes} bytes at {address:#x} have been freed");
                return Err(DeviceError::invalid_value(text));
            }
            if end <= found.end {
                return Ok(());
            }
            // Adjacent mappings count as one range; adjacent allocations do not.
            if !owner.is_some_and(|(_, it)| matches!(it.backing, Backing::Physical { .. })) {
                return Err(illegal());
            }
            at = found.end;
        }
    }

    /// The bytes of a checked range, for reading.
    ///
    /// # Safety
    /// The range must have passed [`Memory::check`] and must stay mapped while the slice lives: work is queued only after the
    /// check, and `unmap` waits for queued work. If the program has a data race, other streams may write the bytes meanwhile,
    /// as on a GPU; no reference to the bytes outlives the copy.
    pub(crate) unsafe fn bytes(&self, address: u64, bytes: u64) -> &[u8] {
        if bytes == 0 {
            return &[];
        }
        // SAFETY: mapped and readable, by the contract above.
        unsafe { std::slice::from_raw_parts(address as *const u8, bytes as usize) }
    }

    /// Like [`Memory::bytes`], but for writing.
    ///
    /// # Safety
    /// As for [`Memory::bytes`].
    #[allow(clippy::mut_from_ref, reason = "the memory belongs to the emulated device, not to this struct")]
    pub(crate) unsafe fn bytes_mut(&self, address: u64, bytes: u64) -> &mut [u8] {
        if bytes == 0 {
            return &mut [];
        }
        // SAFETY: mapped and writable, by the contract above.
        unsafe { std::slice::from_raw_parts_mut(address as *mut u8, bytes as usize) }
    }
}

impl State {
    /// Makes the chunks of a range accessible.
    fn commit(&mut self, address: u64, span: u64) -> Result<(), String> {
        let mut fresh: Option<(u64, u64)> = None;
        let mut runs = Vec::new();
        for chunk in chunks(address, span) {
            let count = self.chunks.entry(chunk).or_insert(0);
            *count += 1;
            if *count == 1 {
                match &mut fresh {
                    Some((_, end)) if *end == chunk => *end += CHUNK,
                    _ => runs.extend(fresh.replace((chunk, chunk + CHUNK))),
                }
            }
        }
        runs.extend(fresh);
        for (start, end) in runs {
            // SAFETY: the chunks lie in our reservation, and nothing uses them yet.
            let failed = unsafe {
                libc::mprotect(
                    start as *mut libc::c_void,
                    (end - start) as usize,
                    libc::PROT_READ | libc::PROT_WRITE,
                )
            };
            if failed != 0 {
                return Err(format!(
                    "cannot commit {} bytes of host memory: {}",
                    end - start,
                    std::io::Error::last_os_error()
                ));
            }
        }
        if span >= HUGE {
            // Chunks have the size of huge pages, so a page fault maps 2 MiB instead of 4 KiB. Only a hint, so errors are ignored.
            // SAFETY: the range was just made accessible.
            unsafe { libc::madvise(address as *mut libc::c_void, span as usize, libc::MADV_HUGEPAGE) };
        }
        Ok(())
    }

    /// Removes an allocation: its charge, its pages and its references to chunks.
    fn forget(&mut self, address: u64) {
        let Some(it) = self.allocations.remove(&address) else { return };
        match it.backing {
            Backing::HostPages => return self.host_pages.release(address, it.bytes),
            Backing::Physical { id, .. } => return self.forget_mapping(address, it.bytes, id),
            Backing::Pages => {}
        }
        let span = it.bytes.next_multiple_of(GRANULARITY);
        if it.kind != MemoryKind::PinnedHost {
            self.accounts.give_back(it.device, span);
        }
        self.take_file_away(address, span);
        // SAFETY: the pages belong to this allocation only, and all work that may access them has ended.
        unsafe { libc::madvise(address as *mut libc::c_void, span as usize, libc::MADV_DONTNEED) };
        for chunk in chunks(address, span) {
            let Some(count) = self.chunks.get_mut(&chunk) else { continue };
            *count -= 1;
            if *count == 0 {
                self.chunks.remove(&chunk);
                // No allocation uses the chunk any more.
                reserve(chunk, CHUNK);
            }
        }
    }
}

fn chunks(address: u64, span: u64) -> impl Iterator<Item = u64> {
    let first = address / CHUNK * CHUNK;
    (first..address + span).step_by(CHUNK as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn memory() -> Memory {
        Memory::new(None, vec![64 * MIB], vec![128 * MIB], None, None).unwrap()
    }

    #[test]
    fn a_checked_allocation_ends_at_its_last_dword() {
        let visible = |memory: &Memory| {
            let address = memory.arena().base;
            memory.map(0, MemoryKind::Device, address, 502).unwrap();
            memory.table(0).find(address).unwrap().end - address
        };
        assert_eq!(visible(&memory()), 512);
        assert_eq!(visible(&memory().checked()), 504);
    }

    #[test]
    fn mapped_memory_is_zero_writable_and_accounted() {
        let memory = memory();
        let at = memory.arena().base + MIB;
        memory.map(0, MemoryKind::Device, at, 5000).unwrap();
        memory.check(at, 5000).unwrap();
        // SAFETY: checked above.
        unsafe {
            assert!(memory.bytes(at, 5000).iter().all(|byte| *byte == 0));
            memory.bytes_mut(at, 5000).fill(7);
        }
        assert_eq!(
            memory.usage(0).unwrap(),
            MemoryUse { free: 64 * MIB - 8192, total: 128 * MIB, used: 8192 }
        );
        memory.leave(at).unwrap();
        assert!(memory.check(at, 1).is_err(), "new work cannot use freed memory");
        memory.unmap(at);
        assert_eq!(memory.usage(0).unwrap().used, 0);
        memory.map(0, MemoryKind::Device, at, 5000).unwrap();
        // SAFETY: mapped again.
        unsafe { assert!(memory.bytes(at, 5000).iter().all(|byte| *byte == 0)) };
    }

    #[test]
    fn more_than_the_quota_is_out_of_memory_and_changes_nothing() {
        let memory = memory();
        let at = memory.arena().base;
        memory.map(0, MemoryKind::Device, at, 60 * MIB).unwrap();
        let error = memory.map(0, MemoryKind::Device, at + 64 * MIB, 5 * MIB).unwrap_err();
        assert_eq!(error.code, hip_api::types::hipErrorOutOfMemory);
        memory.map(0, MemoryKind::Device, at + 64 * MIB, 4 * MIB).unwrap();
        memory.map(0, MemoryKind::PinnedHost, at + 128 * MIB, 4 * MIB).unwrap();
    }

    #[test]
    fn overlaps_strays_and_misalignment_are_refused() {
        let memory = memory();
        let base = memory.arena().base;
        memory.map(0, MemoryKind::Device, base + MIB, MIB).unwrap();
        for (address, bytes) in
            [(base + MIB, 1), (base + MIB - 4096, 8192), (base + 1, 16), (base - 4096, 16), (base, 0)]
        {
            assert!(memory.map(0, MemoryKind::Device, address, bytes).is_err(), "{address:#x}+{bytes}");
        }
        assert!(memory.map(0, MemoryKind::Device, base, u64::MAX).is_err());
        assert!(memory.map(1, MemoryKind::Device, base, 16).is_err());
        assert!(memory.check(base + MIB + MIB - 8, 16).is_err());
        assert!(memory.leave(base).is_err());
    }

    #[test]
    fn the_offered_arena_is_taken_where_it_is_free() {
        let first = Memory::new(None, vec![MIB], vec![MIB], None, None).unwrap();
        let taken = first.arena();
        let second = Memory::new(Some(taken), vec![MIB], vec![MIB], None, None).unwrap();
        assert_ne!(second.arena().base, taken.base);
        assert_eq!(second.arena().bytes, taken.bytes);
        drop(first);
        let third = Memory::new(Some(taken), vec![MIB], vec![MIB], None, None).unwrap();
        assert_eq!(third.arena(), taken);
    }

    #[test]
    fn many_small_allocations_share_mappings() {
        let memory = Memory::new(None, vec![1 << 40], vec![1 << 40], None, None).unwrap();
        let base = memory.arena().base;
        for at in 0..100_000u64 {
            if at % 1000 == 0 {
                memory.map(0, MemoryKind::Device, base + at * 8192, 100).unwrap();
            }
        }
        for at in 0..2000u64 {
            memory.map(0, MemoryKind::Device, base + (1 << 32) + at * 8192, 100).unwrap();
        }
        for at in 0..2000u64 {
            memory.leave(base + (1 << 32) + at * 8192).unwrap();
            memory.unmap(base + (1 << 32) + at * 8192);
        }
        assert_eq!(memory.usage(0).unwrap().used, 100 * 4096);
    }
}
