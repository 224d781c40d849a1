//! Physical memory: memfd files that are mapped into the arena at addresses the program chooses.
//!
//! A file has no address, can be mapped twice and can be passed to another process, as virtual memory management and sharing require.
//! Ordinary allocations are anonymous pages, which are cheaper. An allocation that is to be shared is copied to a file, which replaces
//! its pages while no command runs. This file manages files and mappings; the memory table holds the access rights of kernels.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use backend::{
    DeviceError, MemoryAccess, MemoryId, MemoryKind, PHYSICAL_GRANULARITY, Shareable, SharedMemory,
};
use emulator::Access;

use super::{Allocation, Backing, CHUNK, GRANULARITY, Memory, State, chunks};

/// Granularity at which zeros are skipped when an allocation is copied to a file, so that the file stays sparse.
const PIECE: usize = 64 << 10;

const _: () = assert!(PHYSICAL_GRANULARITY == CHUNK);

/// Physical memory, independent of any address.
#[derive(Debug)]
pub(super) struct Physical {
    pub(super) file: File,
    /// Bytes that kernels may use.
    pub(super) bytes: u64,
    /// The device that it belongs to.
    pub(super) device: u32,
    /// Whether the device is charged. Memory of another session is charged there.
    pub(super) charged: bool,
    mappings: u32,
    pub(super) released: bool,
}

impl Memory {
    pub(crate) fn create_physical(&self, device: u32, id: MemoryId, bytes: u64) -> Result<(), DeviceError> {
        if device as usize >= self.quotas.len() {
            return Err(DeviceError::invalid_device(device));
        }
        if bytes == 0 || !bytes.is_multiple_of(CHUNK) {
            return Err(DeviceError::invalid_value(format!(
                "physical memory size {bytes} is not a multiple of 2 MiB"
            )));
        }
        let mut state = self.state.lock();
        state.expect_new(id)?;
        state.accounts.book(device, bytes)?;
        let file = new_file(bytes).inspect_err(|_| state.accounts.give_back(device, bytes))?;
        let memory = Physical { file, bytes, device, charged: true, mappings: 0, released: false };
        state.physical.insert(id, memory);
        Ok(())
    }

    pub(crate) fn release_physical(&self, id: MemoryId) -> Result<(), DeviceError> {
        let mut state = self.state.lock();
        let memory = state.physical.get_mut(&id).filter(|memory| !memory.released);
        memory.ok_or_else(|| unknown(id))?.released = true;
        state.drop_if_unused(id);
        Ok(())
    }

    pub(crate) fn map_physical(
        &self,
        id: MemoryId,
        offset: u64,
        address: u64,
        bytes: u64,
    ) -> Result<(), DeviceError> {
        let aligned = [offset, address, bytes].iter().all(|value| value.is_multiple_of(CHUNK));
        if bytes == 0 || !aligned || !self.arena().contains(address, bytes) {
            let text = format!("invalid mapping of {bytes} bytes at {address:#x} from offset {offset:#x}");
            return Err(DeviceError::invalid_value(text));
        }
        let mut state = self.state.lock();
        let memory = state.physical.get(&id).filter(|memory| !memory.released);
        let memory = memory.ok_or_else(|| unknown(id))?;
        if offset.checked_add(bytes).is_none_or(|end| end > memory.bytes.next_multiple_of(CHUNK)) {
            return Err(DeviceError::invalid_value("the mapping exceeds the physical memory"));
        }
        let before = state.allocations.range(..address + bytes).next_back();
        let overlaps =
            before.is_some_and(|(start, it)| start + it.bytes.next_multiple_of(GRANULARITY) > address);
        if overlaps || chunks(address, bytes).any(|chunk| state.chunks.contains_key(&chunk)) {
            let text = format!("the address range at {address:#x} is already in use");
            return Err(DeviceError::invalid_value(text));
        }
        place(&memory.file, offset, address, bytes)?;
        let visible = memory.bytes.next_multiple_of(self.slack).saturating_sub(offset).min(bytes);
        let device = memory.device;
        let allocation = Allocation {
            bytes,
            device,
            kind: MemoryKind::Device,
            unmapping: false,
            backing: Backing::Physical { id, offset, visible },
        };
        state.allocations.insert(address, allocation);
        if let Some(memory) = state.physical.get_mut(&id) {
            memory.mappings += 1;
        }
        Ok(())
    }

    /// Sets the access rights of a device's kernels to the mappings that make up a range.
    pub(crate) fn set_access(
        &self,
        device: u32,
        address: u64,
        bytes: u64,
        access: MemoryAccess,
    ) -> Result<(), DeviceError> {
        let table = self.tables.get(device as usize).ok_or_else(|| DeviceError::invalid_device(device))?;
        let mappings = self.mappings(address, bytes)?;
        for (start, visible) in mappings {
            table.remove(start);
            let access = match access {
                MemoryAccess::None => continue,
                MemoryAccess::Read => Access::ReadOnly,
                MemoryAccess::ReadWrite => Access::ReadWrite,
            };
            table
                .insert(start, visible, access)
                .map_err(|error| DeviceError::invalid_value(error.to_string()))?;
        }
        Ok(())
    }

    /// The mappings that exactly cover a range, without gaps: the start and the accessible size of each.
    pub(crate) fn mappings(&self, address: u64, bytes: u64) -> Result<Vec<(u64, u64)>, DeviceError> {
        let wrong = || {
            let text = format!("{bytes} bytes at {address:#x} are not whole mappings");
            DeviceError::invalid_value(text)
        };
        let end = address.checked_add(bytes).filter(|end| *end > address).ok_or_else(wrong)?;
        let state = self.state.lock();
        let mut at = address;
        let mut found = Vec::new();
        while at < end {
            let it = state.allocations.get(&at).filter(|it| !it.unmapping).ok_or_else(wrong)?;
            let Backing::Physical { visible, .. } = it.backing else { return Err(wrong()) };
            found.push((at, visible));
            at += it.bytes;
        }
        if at == end { Ok(found) } else { Err(wrong()) }
    }

    pub(crate) fn open_physical(
        &self,
        device: u32,
        id: MemoryId,
        shared: SharedMemory,
    ) -> Result<(), DeviceError> {
        let file = File::from(shared.file);
        let length = file.metadata().map_or(0, |it| it.len());
        if shared.bytes == 0 || shared.bytes.checked_next_multiple_of(CHUNK) != Some(length) {
            let text = format!("invalid shared memory: {} bytes in a file of {length} bytes", shared.bytes);
            return Err(DeviceError::invalid_value(text));
        }
        let mut state = self.state.lock();
        state.expect_new(id)?;
        let memory =
            Physical { file, bytes: shared.bytes, device, charged: false, mappings: 0, released: false };
        state.physical.insert(id, memory);
        Ok(())
    }

    /// Exports memory that is already in a file; `None` for an allocation whose pages must be moved to a file first.
    pub(crate) fn shared(&self, what: Shareable) -> Result<Option<SharedMemory>, DeviceError> {
        let state = self.state.lock();
        let (file, bytes) = match what {
            Shareable::Memory(id) => {
                let memory = state.physical.get(&id).filter(|memory| !memory.released);
                let memory = memory.ok_or_else(|| unknown(id))?;
                (&memory.file, memory.bytes)
            }
            Shareable::Allocation(address) => {
                let it = state.shareable(address)?;
                match state.moved.get(&address) {
                    Some(file) => (file, it.bytes),
                    None => return Ok(None),
                }
            }
        };
        Ok(Some(SharedMemory { file: duplicate(file)?, bytes }))
    }

    /// Moves the pages of an allocation to a file. No command may be running.
    pub(crate) fn move_to_file(&self, address: u64) -> Result<SharedMemory, DeviceError> {
        let mut state = self.state.lock();
        let it = state.shareable(address)?;
        let span = it.bytes.next_multiple_of(GRANULARITY);
        let file = new_file(it.bytes.next_multiple_of(CHUNK))?;
        let failed =
            |error: std::io::Error| DeviceError::out_of_memory(format!("cannot share memory: {error}"));
        // SAFETY: the allocation is mapped, and nothing else accesses it while no command runs.
        let pages = unsafe { self.bytes(address, span) };
        for (index, piece) in pages.chunks(PIECE).enumerate() {
            if piece.iter().any(|byte| *byte != 0) {
                file.write_all_at(piece, (index * PIECE) as u64).map_err(failed)?;
            }
        }
        place(&file, 0, address, span)?;
        let shared = SharedMemory { file: duplicate(&file)?, bytes: it.bytes };
        state.moved.insert(address, file);
        Ok(shared)
    }
}

impl State {
    fn expect_new(&self, id: MemoryId) -> Result<(), DeviceError> {
        if id == 0 || self.physical.contains_key(&id) {
            return Err(DeviceError::invalid_handle(format!("memory {id:#x} exists already or is reserved")));
        }
        Ok(())
    }

    fn shareable(&self, address: u64) -> Result<Allocation, DeviceError> {
        let it = self.allocations.get(&address).filter(|it| !it.unmapping && it.backing == Backing::Pages);
        let text = || format!("no shareable allocation at {address:#x}");
        it.copied().ok_or_else(|| DeviceError::invalid_value(text()))
    }

    /// Removes the mapping of physical memory at an address.
    pub(super) fn forget_mapping(&mut self, address: u64, bytes: u64, id: MemoryId) {
        reserve(address, bytes);
        if let Some(memory) = self.physical.get_mut(&id) {
            memory.mappings -= 1;
        }
        self.drop_if_unused(id);
    }

    fn drop_if_unused(&mut self, id: MemoryId) {
        let gone = |memory: &Physical| memory.released && memory.mappings == 0;
        if self.physical.get(&id).is_some_and(gone)
            && let Some(memory) = self.physical.remove(&id)
            && memory.charged
        {
            self.accounts.give_back(memory.device, memory.bytes);
        }
    }

    /// Releases the physical memory of a device that is reset. Its mappings must have been removed.
    pub(super) fn forget_physical(&mut self, device: u32) {
        for memory in self.physical.values_mut().filter(|memory| memory.device == device) {
            memory.released = true;
        }
        let ids: Vec<MemoryId> = self.physical.keys().copied().collect();
        ids.into_iter().for_each(|id| self.drop_if_unused(id));
    }

    /// Replaces the mapping of a shared file with new pages.
    pub(super) fn take_file_away(&mut self, address: u64, span: u64) {
        if self.moved.remove(&address).is_none() {
            return;
        }
        // SAFETY: the pages belong to this allocation only; the new mapping replaces the file with zeroed pages.
        unsafe {
            libc::mmap(
                address as *mut libc::c_void,
                span as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
                -1,
                0,
            )
        };
    }
}

/// Removes memory and access from a range of the arena; the addresses stay reserved.
pub(super) fn reserve(address: u64, bytes: u64) {
    // SAFETY: the range lies in our reservation, and nothing uses it any more.
    unsafe {
        libc::mmap(
            address as *mut libc::c_void,
            bytes as usize,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
            -1,
            0,
        )
    };
}

fn place(file: &File, offset: u64, address: u64, bytes: u64) -> Result<(), DeviceError> {
    // SAFETY: the range lies in our reservation, and is empty or its contents have been copied to the file.
    let got = unsafe {
        libc::mmap(
            address as *mut libc::c_void,
            bytes as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_FIXED,
            file.as_raw_fd(),
            offset as libc::off_t,
        )
    };
    if got == libc::MAP_FAILED {
        let error = std::io::Error::last_os_error();
        return Err(DeviceError::out_of_memory(format!("cannot map {bytes} bytes: {error}")));
    }
    Ok(())
}

fn new_file(bytes: u64) -> Result<File, DeviceError> {
    let failed = || {
        let error = std::io::Error::last_os_error();
        DeviceError::out_of_memory(format!("cannot allocate {bytes} bytes of physical memory: {error}"))
    };
    // SAFETY: the name is NUL-terminated; the new descriptor is owned by the file only.
    let file = unsafe {
        let fd = libc::memfd_create(c"remora".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            return Err(failed());
        }
        File::from(OwnedFd::from_raw_fd(fd))
    };
    file.set_len(bytes).map_err(|_| failed())?;
    Ok(file)
}

fn duplicate(file: &File) -> Result<OwnedFd, DeviceError> {
    let copy = file.try_clone().map_err(|error| DeviceError::out_of_memory(error.to_string()))?;
    Ok(copy.into())
}

fn unknown(id: MemoryId) -> DeviceError {
    DeviceError::invalid_handle(format!("there is no memory {id:#x}"))
}
