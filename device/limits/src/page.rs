//! Shared-memory page of one worker's processes: limits, compute debt and usage counters, all of them atomic numbers.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::config::LimitConfig;
use crate::pace::{Pace, WHOLE};

const MAGIC: u64 = u64::from_le_bytes(*b"REMLIM02");
/// Upper bounds; no machine has that many devices.
const MAX_DEVICES: u64 = 256;
const MAX_SEATS: u64 = 1 << 16;

#[repr(C)]
struct Head {
    magic: AtomicU64,
    devices: AtomicU64,
    seats: AtomicU64,
    /// Bytes of host memory that all sessions together may use.
    host_limit: AtomicU64,
}

/// Limits and usage of one device, over all sessions.
#[repr(C)]
pub(crate) struct DeviceRow {
    /// Bytes; `u64::MAX` for no limit.
    pub(crate) memory_limit: AtomicU64,
    /// Bytes that sessions may book without asking the supervisor for a larger grant.
    pub(crate) granted: AtomicU64,
    /// Bytes that are always granted.
    pub(crate) request: AtomicU64,
    /// Maximum to which the grant could grow.
    pub(crate) within_reach: AtomicU64,
    /// Compute share in millionths of the device's time.
    pub(crate) share: AtomicU64,
    pub(crate) paid_until: AtomicU64,
    /// Nanoseconds of device time used.
    pub(crate) spent: AtomicU64,
    pub(crate) launches: AtomicU64,
    /// Throttled launches, and the nanoseconds they waited.
    pub(crate) waits: AtomicU64,
    pub(crate) waited: AtomicU64,
    /// Allocations refused because of the limit.
    pub(crate) refused: AtomicU64,
}

/// Usage of one device by one session.
#[repr(C)]
pub(crate) struct SeatRow {
    pub(crate) memory: AtomicU64,
    pub(crate) spent: AtomicU64,
}

/// Usage of a device since the worker started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Bytes of device memory in use.
    pub memory: u64,
    /// `None` if memory is not limited.
    pub memory_limit: Option<u64>,
    /// Nanoseconds of device time used.
    pub spent: u64,
    /// Number of kernel launches.
    pub launches: u64,
    /// Number of launches that were throttled.
    pub waits: u64,
    /// Nanoseconds that throttled launches waited.
    pub waited: u64,
    /// Number of allocations refused because of the limit.
    pub refused: u64,
}

/// The shared page.
#[derive(Debug)]
pub struct Page {
    file: File,
    at: NonNull<u8>,
    bytes: usize,
    devices: u32,
    seats: u32,
    /// Held together with the file lock, which excludes other processes but not other threads of this one.
    pub(crate) booking: Mutex<()>,
}

// SAFETY: the mapping lives as long as the page, and all fields in it are atomic.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

fn bytes_of(devices: u64, seats: u64) -> u64 {
    size_of::<Head>() as u64
        + devices * size_of::<DeviceRow>() as u64
        + seats * devices * size_of::<SeatRow>() as u64
        + seats * size_of::<AtomicU64>() as u64
}

impl Page {
    /// Creates a page for the given numbers of devices and sessions.
    pub fn create(limits: &LimitConfig, devices: u32, seats: u32) -> io::Result<Page> {
        let (devices, seats) =
            (u64::from(devices).clamp(1, MAX_DEVICES), u64::from(seats).clamp(1, MAX_SEATS));
        // SAFETY: the name is NUL-terminated; the new descriptor is owned by the file only.
        let file = unsafe {
            let fd =
                libc::memfd_create(c"remora-limits".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            File::from(OwnedFd::from_raw_fd(fd))
        };
        file.set_len(bytes_of(devices, seats))?;
        // Without seals a session could truncate the file, and every other process would get SIGBUS when it reads the page.
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: no pointers are passed; the descriptor is open.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let page = Page::map(file, bytes_of(devices, seats), devices as u32, seats as u32)?;
        let share = Pace::percent(limits.compute.unwrap_or(100.0)).share();
        for device in 0..page.devices {
            let row = page.device(device);
            let memory = limits.memory.unwrap_or(u64::MAX);
            row.memory_limit.store(memory, Ordering::Relaxed);
            row.granted.store(memory, Ordering::Relaxed);
            row.request.store(limits.memory_request.unwrap_or(memory), Ordering::Relaxed);
            row.within_reach.store(memory, Ordering::Relaxed);
            row.share.store(share, Ordering::Relaxed);
            row.paid_until.store(crate::now(), Ordering::Relaxed);
        }
        let head = page.head();
        head.devices.store(devices, Ordering::Relaxed);
        head.seats.store(seats, Ordering::Relaxed);
        head.host_limit.store(limits.host_limit(devices as u32), Ordering::Relaxed);
        head.magic.store(MAGIC, Ordering::Release);
        Ok(page)
    }

    /// Maps a page that another process created.
    pub fn open(fd: OwnedFd) -> io::Result<Page> {
        let wrong = || io::Error::other("invalid limits page: wrong size or header");
        let file = File::from(fd);
        let bytes = file.metadata()?.len();
        if bytes < bytes_of(1, 1) || bytes > bytes_of(MAX_DEVICES, MAX_SEATS) {
            return Err(wrong());
        }
        let mut page = Page::map(file, bytes, 0, 0)?;
        let head = page.head();
        let (devices, seats) = (head.devices.load(Ordering::Relaxed), head.seats.load(Ordering::Relaxed));
        let fits = (1..=MAX_DEVICES).contains(&devices) && (1..=MAX_SEATS).contains(&seats);
        if head.magic.load(Ordering::Acquire) != MAGIC || !fits || bytes_of(devices, seats) != bytes {
            return Err(wrong());
        }
        (page.devices, page.seats) = (devices as u32, seats as u32);
        Ok(page)
    }

    fn map(file: File, bytes: u64, devices: u32, seats: u32) -> io::Result<Page> {
        // SAFETY: a new shared mapping, at an address that the kernel chooses, of a file whose size was just checked or set.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(at.cast::<u8>()) {
            Some(at) if at.as_ptr().cast() != libc::MAP_FAILED => {
                Ok(Page { file, at, bytes: bytes as usize, devices, seats, booking: Mutex::new(()) })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The memfd with which other processes map the page.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Number of devices.
    pub fn devices(&self) -> u32 {
        self.devices
    }

    /// Number of slots for sessions.
    pub fn seats(&self) -> u32 {
        self.seats
    }

    fn head(&self) -> &Head {
        // SAFETY: the mapping is at least a head long and page-aligned; its fields are atomic.
        unsafe { self.at.cast::<Head>().as_ref() }
    }

    pub(crate) fn device(&self, device: u32) -> &DeviceRow {
        assert!(device < self.devices, "device {device} of {}", self.devices);
        let offset = size_of::<Head>() + device as usize * size_of::<DeviceRow>();
        // SAFETY: within the mapping by the check above and the mapping's size; rows consist of 8-byte numbers at multiples of 8.
        unsafe { self.at.add(offset).cast::<DeviceRow>().as_ref() }
    }

    pub(crate) fn seat_row(&self, seat: u32, device: u32) -> &SeatRow {
        assert!(device < self.devices && seat < self.seats, "seat {seat}, device {device}");
        let before = size_of::<Head>() + self.devices as usize * size_of::<DeviceRow>();
        let row = seat as usize * self.devices as usize + device as usize;
        // SAFETY: as above.
        unsafe { self.at.add(before + row * size_of::<SeatRow>()).cast::<SeatRow>().as_ref() }
    }

    /// Bytes of host memory that the session at `seat` has booked.
    pub(crate) fn seat_host(&self, seat: u32) -> &AtomicU64 {
        assert!(seat < self.seats, "seat {seat}");
        let rows = self.devices as usize * size_of::<DeviceRow>()
            + self.seats as usize * self.devices as usize * size_of::<SeatRow>();
        let offset = size_of::<Head>() + rows + seat as usize * size_of::<AtomicU64>();
        // SAFETY: as above; these numbers follow the seat rows.
        unsafe { self.at.add(offset).cast::<AtomicU64>().as_ref() }
    }

    /// Bytes of host memory that all sessions together may use.
    pub fn host_limit(&self) -> u64 {
        self.head().host_limit.load(Ordering::Relaxed)
    }

    /// Sets the grant of a device in bytes, and the maximum to which it could grow.
    pub fn grant(&self, device: u32, bytes: u64, within_reach: u64) {
        let row = self.device(device);
        row.granted.store(bytes, Ordering::Relaxed);
        row.within_reach.store(within_reach.max(bytes), Ordering::Relaxed);
    }

    /// Usage of a device by all sessions together.
    pub fn account(&self, device: u32) -> Account {
        let row = self.device(device);
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Account {
            memory: self.memory_used(device),
            memory_limit: Some(read(&row.memory_limit)).filter(|limit| *limit != u64::MAX),
            spent: read(&row.spent),
            launches: read(&row.launches),
            waits: read(&row.waits),
            waited: read(&row.waited),
            refused: read(&row.refused),
        }
    }

    /// Nanoseconds of device time that one session has used.
    pub fn spent_by(&self, seat: u32, device: u32) -> u64 {
        self.seat_row(seat, device).spent.load(Ordering::Relaxed)
    }

    /// Releases everything that the session at `seat` had booked, after its process has ended.
    pub fn vacate(&self, seat: u32) {
        for device in 0..self.devices {
            let row = self.seat_row(seat, device);
            row.memory.store(0, Ordering::Relaxed);
            row.spent.store(0, Ordering::Relaxed);
        }
        self.seat_host(seat).store(0, Ordering::Relaxed);
    }

    pub(crate) fn pace(&self, device: u32) -> Pace {
        Pace::millionths(self.device(device).share.load(Ordering::Relaxed))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: mapped by this page; all references into the mapping borrow from the page, so none are left.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}

/// One session's slot in the page.
#[derive(Clone, Debug)]
pub struct SessionSlot {
    page: Arc<Page>,
    seat: u32,
    grow: Option<Grow>,
}

/// Requests more bytes of a device from the supervisor; returns whether the caller should retry.
#[derive(Clone)]
struct Grow(Arc<dyn Fn(u32, u64) -> bool + Send + Sync>);

impl std::fmt::Debug for Grow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Grow")
    }
}

impl SessionSlot {
    /// Returns `None` if the page has no such slot.
    pub fn new(page: Arc<Page>, seat: u32) -> Option<SessionSlot> {
        (seat < page.seats).then_some(SessionSlot { page, seat, grow: None })
    }

    /// Sets the callback that requests a larger grant if an allocation fits the limit but not the grant.
    pub fn growing(self, ask: impl Fn(u32, u64) -> bool + Send + Sync + 'static) -> SessionSlot {
        SessionSlot { grow: Some(Grow(Arc::new(ask))), ..self }
    }

    pub(crate) fn ask_for(&self, device: u32, bytes: u64) -> bool {
        self.grow.as_ref().is_some_and(|grow| (grow.0)(device, bytes))
    }

    /// The page that the slot is on.
    pub fn page(&self) -> &Page {
        &self.page
    }

    pub(crate) fn number(&self) -> u32 {
        self.seat
    }

    /// Whether launches are throttled at all.
    pub fn is_paced(&self, device: u32) -> bool {
        self.page.device(device).share.load(Ordering::Relaxed) < WHOLE
    }

    /// The time until which the device's use is paid for.
    pub(crate) fn paid_until(&self, device: u32) -> u64 {
        self.page.device(device).paid_until.load(Ordering::Relaxed)
    }

    /// Charges `spent` nanoseconds of device time for work that began at `begun`.
    pub fn charge(&self, device: u32, begun: u64, spent: u64) {
        let row = self.page.device(device);
        self.page.pace(device).charge(&row.paid_until, begun, spent);
        row.spent.fetch_add(spent, Ordering::Relaxed);
        self.page.seat_row(self.seat, device).spent.fetch_add(spent, Ordering::Relaxed);
    }

    /// Counts a launch.
    pub fn count_launch(&self, device: u32) {
        self.page.device(device).launches.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a throttled launch and the time it waited.
    pub(crate) fn count_wait(&self, device: u32, nanoseconds: u64) {
        let row = self.page.device(device);
        row.waits.fetch_add(1, Ordering::Relaxed);
        row.waited.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_of_a_page_see_the_same_numbers() {
        let limits = LimitConfig { compute: Some(50.0), ..LimitConfig::default() };
        let page = Arc::new(Page::create(&limits, 2, 4).unwrap());
        let copy: OwnedFd = page.file().try_clone().unwrap().into();
        let other = Arc::new(Page::open(copy).unwrap());
        assert_eq!((other.devices(), other.seats()), (2, 4));
        SessionSlot::new(Arc::clone(&other), 3).unwrap().charge(1, crate::now(), 500);
        assert_eq!(page.account(1).spent, 500);
        assert_eq!((page.spent_by(3, 1), page.spent_by(3, 0)), (500, 0));
        page.vacate(3);
        assert_eq!((page.account(1).spent, other.spent_by(3, 1)), (500, 0));
        assert!(SessionSlot::new(other, 4).is_none());
    }

    #[test]
    fn what_is_no_page_is_refused() {
        let file = |bytes: u64| {
            let file = tempfile();
            file.set_len(bytes).unwrap();
            OwnedFd::from(file)
        };
        for bytes in [0, 8, 4096, 1 << 30] {
            assert!(Page::open(file(bytes)).is_err(), "{bytes}");
        }
        let page = Page::create(&LimitConfig::default(), 1, 1).unwrap();
        page.head().seats.store(1 << 15, Ordering::Relaxed);
        assert!(Page::open(page.file().try_clone().unwrap().into()).is_err());
    }

    fn tempfile() -> File {
        // SAFETY: the name is terminated; the descriptor is new and becomes the file's.
        unsafe { File::from_raw_fd(libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC)) }
    }
}
