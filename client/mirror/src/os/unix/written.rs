//! Tracks which pages were written since the last query, with the kernel's help.
//!
//! The pages are write-protected in the asynchronous mode of userfaultfd (Linux 6.7): the kernel itself lifts the protection at
//! the first write and records it. This needs no signal and no handler thread, and system calls that write into the memory work.
//! On kernels without this mode there is no tracker, and everything is compared.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const PAGE: usize = 4096;

const UFFD_USER_MODE_ONLY: libc::c_int = 1;
const UFFD_API: u64 = 0xaa;
const FEATURE_WP_UNPOPULATED: u64 = 1 << 13;
const FEATURE_WP_ASYNC: u64 = 1 << 15;
const REGISTER_MODE_WP: u64 = 1 << 1;

const SCAN_WP_MATCHING: u64 = 1 << 0;
const SCAN_CHECK_WPASYNC: u64 = 1 << 1;
const PAGE_IS_WRITTEN: u64 = 1 << 1;
/// Limit on page ranges returned by one scan.
const ANSWERS: usize = 256;

#[repr(C)]
struct UffdApi {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct UffdRange {
    start: u64,
    bytes: u64,
}

#[repr(C)]
struct UffdRegister {
    range: UffdRange,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    answers: u64,
    answers_length: u64,
    most_pages: u64,
    inverted: u64,
    mask: u64,
    any_of: u64,
    returned: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

/// Number of an ioctl that reads and writes its argument.
const fn both_ways(kind: u8, number: u64, bytes: usize) -> u64 {
    3 << 30 | (bytes as u64) << 16 | (kind as u64) << 8 | number
}

const UFFDIO_API: u64 = both_ways(0xaa, 0x3f, size_of::<UffdApi>());
const UFFDIO_REGISTER: u64 = both_ways(0xaa, 0, size_of::<UffdRegister>());
/// The kernel declares this one as read-only.
const UFFDIO_UNREGISTER: u64 = 2 << 30 | (size_of::<UffdRange>() as u64) << 16 | 0xaa << 8 | 1;
const PAGEMAP_SCAN: u64 = both_ways(b'f', 16, size_of::<ScanArguments>());

/// Reports which pages of the watched ranges were written.
#[derive(Debug)]
pub struct Tracker {
    faults: OwnedFd,
    pages: File,
}

impl Tracker {
    /// Opens a tracker, if the kernel supports it.
    pub fn open() -> io::Result<Tracker> {
        Tracker::with_pages(File::open("/proc/self/pagemap")?)
    }

    /// Like [`Tracker::open`], but with an already open `/proc/self/pagemap`, which a confined process cannot open.
    pub fn with_pages(pages: File) -> io::Result<Tracker> {
        // SAFETY: the call takes flags and returns a new descriptor or an error.
        let faults = unsafe {
            // Needs no privilege: only faults in user mode are covered, and in this mode no fault is delivered at all.
            let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | UFFD_USER_MODE_ONLY;
            let descriptor = libc::syscall(libc::SYS_userfaultfd, flags);
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(descriptor as i32)
        };
        let features = FEATURE_WP_ASYNC | FEATURE_WP_UNPOPULATED;
        let mut api = UffdApi { api: UFFD_API, features, ioctls: 0 };
        // SAFETY: the structure is the one this request takes.
        unsafe { control(&faults, UFFDIO_API, &mut api) }?;
        Ok(Tracker { faults, pages })
    }

    /// Starts watching whole pages. They count as written until the first query.
    ///
    /// # Safety
    /// The range must be ordinary private memory that its owner keeps mapped until `forget`.
    pub unsafe fn watch(&self, start: u64, bytes: u64) -> io::Result<()> {
        let range = UffdRange { start, bytes };
        let mut register = UffdRegister { range, mode: REGISTER_MODE_WP, ioctls: 0 };
        // SAFETY: the structure is the one this request takes; contents and mapping of the memory do not change.
        unsafe { control(&self.faults, UFFDIO_REGISTER, &mut register) }
    }

    /// Stops watching a range.
    pub fn forget(&self, start: u64, bytes: u64) {
        let mut range = UffdRange { start, bytes };
        // An error is ignored: the range may be unmapped already.
        // SAFETY: the structure is the one this request takes.
        let _ = unsafe { control(&self.faults, UFFDIO_UNREGISTER, &mut range) };
    }

    /// Appends the ranges of a watched range that were written since the last query, as offsets from its start. Resets them.
    pub fn take(&self, start: u64, bytes: u64, written: &mut Vec<Range<usize>>) -> io::Result<()> {
        let mut answers = [PageRegion { start: 0, end: 0, categories: 0 }; ANSWERS];
        let end = start + bytes.next_multiple_of(PAGE as u64);
        let mut from = start;
        while from < end {
            let mut scan = ScanArguments {
                size: size_of::<ScanArguments>() as u64,
                flags: SCAN_WP_MATCHING | SCAN_CHECK_WPASYNC,
                start: from,
                end,
                walk_end: 0,
                answers: answers.as_mut_ptr() as u64,
                answers_length: ANSWERS as u64,
                most_pages: 0,
                inverted: 0,
                mask: PAGE_IS_WRITTEN,
                any_of: 0,
                returned: PAGE_IS_WRITTEN,
            };
            // SAFETY: the structure is the one this request takes, and `answers` has room for the number of entries it states.
            let count = unsafe { control_for(&self.pages, PAGEMAP_SCAN, &mut scan) }?;
            for answer in &answers[..count.min(ANSWERS)] {
                let last = (answer.end - start).min(bytes);
                written.push((answer.start - start) as usize..last as usize);
            }
            if scan.walk_end <= from {
                break;
            }
            from = scan.walk_end;
        }
        Ok(())
    }
}

/// # Safety
/// `argument` must be what `request` takes.
unsafe fn control<T>(file: &impl AsRawFd, request: u64, argument: &mut T) -> io::Result<()> {
    // SAFETY: guaranteed by the caller.
    unsafe { control_for(file, request, argument) }.map(|_| ())
}

/// # Safety
/// `argument` must be what `request` takes.
unsafe fn control_for<T>(file: &impl AsRawFd, request: u64, argument: &mut T) -> io::Result<usize> {
    // SAFETY: guaranteed by the caller.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), request as _, std::ptr::from_mut(argument)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as usize) }
}
