//! Memory that is mapped twice.

use std::io;
use std::ptr::null_mut;

use windows_sys::Win32::Foundation::{CloseHandle, HANDLE, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::Memory::{
    CreateFileMappingW, FILE_MAP_READ, FILE_MAP_WRITE, MEM_RELEASE, MEM_RESERVE, MEMORY_MAPPED_VIEW_ADDRESS,
    MapViewOfFileEx, PAGE_NOACCESS, PAGE_READWRITE, UnmapViewOfFile, VirtualAlloc, VirtualFree,
};

/// How often to look for room: between the search and the mapping another thread may take it.
const ATTEMPTS: usize = 64;

/// Maps `bytes` bytes, a multiple of the allocation granularity (64 KiB), twice in succession; returns the address of the first
/// mapping.
pub fn map(bytes: usize) -> io::Result<*mut u8> {
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
        last = map_section(section, bytes);
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
fn map_section(section: HANDLE, bytes: usize) -> io::Result<*mut u8> {
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
        Ok(base.cast())
    }
}

/// Removes both mappings.
///
/// # Safety
/// [`map`] returned the address for this size, and nothing refers to the memory any more.
pub unsafe fn unmap(base: *mut u8, bytes: usize) {
    for half in [0, bytes] {
        // SAFETY: guaranteed by the caller; each view is removed by its own address.
        unsafe {
            let view = base.add(half).cast();
            UnmapViewOfFile(MEMORY_MAPPED_VIEW_ADDRESS { Value: view });
        }
    }
}
