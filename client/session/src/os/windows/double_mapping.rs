//! Memory for a ring buffer, mapped twice so that no frame is split at its end.

use std::io;
use std::ptr::null_mut;

use windows_sys::Win32::Foundation::{CloseHandle, HANDLE, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::Memory::{
    CreateFileMappingW, FILE_MAP_READ, FILE_MAP_WRITE, MEM_RELEASE, MEM_RESERVE, MEMORY_MAPPED_VIEW_ADDRESS,
    MapViewOfFileEx, PAGE_NOACCESS, PAGE_READWRITE, UnmapViewOfFile, VirtualAlloc, VirtualFree,
};

/// How often to look for room: between the search and the mapping another thread may take it.
const ATTEMPTS: usize = 64;

/// Memory mapped twice in succession, so that a range that wraps around is contiguous.
#[derive(Debug)]
pub struct DoubleMapping {
    base: *mut u8,
    bytes: usize,
}

impl DoubleMapping {
    /// Maps `bytes` bytes, a multiple of the allocation granularity (64 KiB) and a power of two.
    pub fn new(bytes: usize) -> io::Result<DoubleMapping> {
        let (high, low) = ((bytes as u64 >> 32) as u32, bytes as u32);
        // SAFETY: a new section of the paging file, without a name.
        let section = unsafe {
            CreateFileMappingW(
                INVALID_HANDLE_VALUE,
                std::ptr::null(),
                PAGE_READWRITE,
                high,
                low,
                std::ptr::null(),
            )
        };
        if section.is_null() {
            return Err(io::Error::last_os_error());
        }
        let mut last = Err(io::ErrorKind::OutOfMemory.into());
        for _ in 0..ATTEMPTS {
            last = DoubleMapping::map(section, bytes);
            if last.is_ok() {
                break;
            }
        }
        // SAFETY: this function opened the handle; views keep the section alive.
        unsafe { CloseHandle(section) };
        last
    }

    /// Finds room for both views and maps them there. Placeholders would make this atomic, but Windows has them since 10 (1803) and
    /// Wine since 8.x only; a view never replaces other memory, so a race merely fails.
    fn map(section: HANDLE, bytes: usize) -> io::Result<DoubleMapping> {
        let access = FILE_MAP_READ | FILE_MAP_WRITE;
        // SAFETY: the reservation is fresh and freed at once; views are mapped where nothing is, and each result is checked.
        unsafe {
            let base = VirtualAlloc(null_mut(), 2 * bytes, MEM_RESERVE, PAGE_NOACCESS);
            if base.is_null() {
                return Err(io::Error::last_os_error());
            }
            VirtualFree(base, 0, MEM_RELEASE);
            let first = MapViewOfFileEx(section, access, 0, 0, bytes, base);
            if first.Value.is_null() {
                return Err(io::Error::last_os_error());
            }
            let second = MapViewOfFileEx(section, access, 0, 0, bytes, base.byte_add(bytes));
            if second.Value.is_null() {
                let error = io::Error::last_os_error();
                UnmapViewOfFile(first);
                return Err(error);
            }
            Ok(DoubleMapping { base: base.cast(), bytes })
        }
    }

    /// Size of one of the two mappings.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address of a position, counted without wrapping.
    ///
    /// # Safety
    /// At most `bytes` bytes from the returned address on may be accessed.
    #[inline]
    pub unsafe fn at(&self, position: u64) -> *mut u8 {
        // SAFETY: the offset is below `bytes`, and twice as many are mapped.
        unsafe { self.base.add(position as usize & (self.bytes - 1)) }
    }
}

impl Drop for DoubleMapping {
    fn drop(&mut self) {
        for half in [0, self.bytes] {
            // SAFETY: this object owns both views, and nothing refers to them any more.
            unsafe {
                let view = self.base.add(half).cast();
                UnmapViewOfFile(MEMORY_MAPPED_VIEW_ADDRESS { Value: view });
            }
        }
    }
}
