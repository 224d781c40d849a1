//! Two byte FIFOs in shared memory, one per direction, and how their users wait.
//!
//! The worker's executor creates the memory and passes its descriptor over the unix socket of the connection. The socket stays open
//! and carries nothing else: that it is closed is how each side learns that the other process is gone.
//!
//! A thread that waits polls for a while ([`Spin`]), then sets a flag in the shared memory and sleeps on a futex, its side's bell.
//! The other side rings the bell only if the flag is set, so two busy processes make no system call.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::time::{Duration, Instant};

use crate::fifo::{Consumer, Counters, Producer};
use crate::link::{Ready, Wait};
use crate::os::socket::Socket;
use crate::spin::Spin;

/// Bytes of each direction. Both fit into the second-level cache of most processors, which makes a copy through them faster than
/// through main memory.
const CAPACITY: usize = 1 << 20;
/// Capacities that are accepted from the peer.
const CAPACITIES: std::ops::RangeInclusive<usize> = 64 << 10..=64 << 20;
/// Bytes before the first FIFO: one page.
const HEADER_BYTES: usize = 4096;
/// A sleeping writer is woken when this part of its FIFO is free, so that it does not wake for every few bytes.
const WAKING_ROOM: usize = 4;
/// How long a sleeping thread waits before it checks whether the other process still exists: doubled each time, up to the longest.
const FIRST_CHECK: Duration = Duration::from_millis(20);
const LONGEST_CHECK: Duration = Duration::from_millis(320);

/// The descriptor of shared memory, as it is passed between processes.
#[derive(Debug)]
pub struct SharedMemory(pub(crate) OwnedFd);

impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The first page of the shared memory.
#[repr(C)]
#[derive(Debug)]
struct Header {
    /// From the side that created the memory, and to it.
    from_creator: Counters,
    to_creator: Counters,
    creator: Side,
    other: Side,
}

const _: () = assert!(size_of::<Header>() <= HEADER_BYTES);

/// What one side tells the other, apart from the counters.
#[repr(C, align(128))]
#[derive(Debug)]
struct Side {
    /// The futex that threads of this side sleep on. Changes whenever they are to wake.
    bell: AtomicU32,
    /// Whether a thread of this side sleeps until there are bytes to read, or room to write.
    wants_bytes: AtomicU32,
    wants_room: AtomicU32,
    /// This side has shut the connection down.
    closed: AtomicU32,
}

impl Side {
    /// Wakes every thread that sleeps on this side's bell.
    fn ring(&self) {
        self.bell.fetch_add(1, Ordering::Release);
        // SAFETY: passes the address of an aligned word that stays mapped during the call. The kernel does not access memory here.
        unsafe { libc::syscall(libc::SYS_futex, self.bell.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }

    /// Sleeps until the bell differs from `value`, or the time is over; returns false if it is. May return early.
    fn sleep(&self, value: u32, time: Duration) -> bool {
        let limit = libc::timespec {
            tv_sec: time.as_secs() as libc::time_t,
            tv_nsec: time.subsec_nanos() as libc::c_long,
        };
        // SAFETY: the word and the time outlive the call; the kernel only reads both.
        let result =
            unsafe { libc::syscall(libc::SYS_futex, self.bell.as_ptr(), libc::FUTEX_WAIT, value, &limit) };
        result == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ETIMEDOUT)
    }
}

/// Mapped shared memory.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is accessed through atomics and through `Producer` and `Consumer`, which order their accesses.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(memory: &OwnedFd, bytes: usize) -> io::Result<Mapping> {
        // SAFETY: maps a file at a free address chosen by the kernel; nothing existing is replaced.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                memory.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => Ok(Mapping { base, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping is at least as large as the header and page-aligned; every field is atomic, and zero is a valid value.
        unsafe { self.base.cast::<Header>().as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this object owns the mapping, and the FIFOs in it are dropped with the object that holds both.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// Both directions of a connection, as one side sees them.
#[derive(Debug)]
pub(crate) struct FifoPair {
    outgoing: Producer,
    incoming: Consumer,
    is_creator: bool,
    /// This side has shut the connection down. Private, because the peer can change what is in the shared memory.
    is_shut: AtomicBool,
    /// The other process was found to be gone.
    is_peer_gone: AtomicBool,
    reader_spin: Spin,
    writer_spin: Spin,
    mapping: Mapping,
}

impl FifoPair {
    /// Creates the memory, which cannot be resized, so that no access to it can fail. Also returns its descriptor for the peer.
    pub(crate) fn create() -> io::Result<(FifoPair, SharedMemory)> {
        let name = c"remora-link";
        // SAFETY: passes a string; the descriptor is owned from here on.
        let memory = unsafe {
            let fd = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        let bytes = HEADER_BYTES + 2 * CAPACITY;
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: both pass numbers and an open descriptor.
        let failed = unsafe {
            libc::ftruncate(memory.as_raw_fd(), bytes as libc::off_t) != 0
                || libc::fcntl(memory.as_raw_fd(), libc::F_ADD_SEALS, seals) != 0
        };
        if failed {
            return Err(io::Error::last_os_error());
        }
        let pair = FifoPair::over(Mapping::new(&memory, bytes)?, CAPACITY, true);
        Ok((pair, SharedMemory(memory)))
    }

    /// Takes over memory that the peer has created. Refuses memory that could be made smaller, where an access would end this
    /// process, and memory of another size than this layout has.
    pub(crate) fn open(memory: &SharedMemory) -> io::Result<FifoPair> {
        let fd = memory.0.as_raw_fd();
        // SAFETY: passes an open descriptor and no memory.
        let seals = unsafe { libc::fcntl(fd, libc::F_GET_SEALS) };
        if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
            return Err(invalid("the shared memory of the worker is not sealed against shrinking"));
        }
        // SAFETY: all zero is a valid stat, which is writable for the call.
        let bytes = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            if libc::fstat(fd, &raw mut stat) != 0 {
                return Err(io::Error::last_os_error());
            }
            usize::try_from(stat.st_size).unwrap_or(0)
        };
        let capacity = bytes.saturating_sub(HEADER_BYTES) / 2;
        if !capacity.is_power_of_two()
            || !CAPACITIES.contains(&capacity)
            || bytes != HEADER_BYTES + 2 * capacity
        {
            return Err(invalid("the shared memory of the worker has an invalid size"));
        }
        Ok(FifoPair::over(Mapping::new(&memory.0, bytes)?, capacity, false))
    }

    fn over(mapping: Mapping, capacity: usize, is_creator: bool) -> FifoPair {
        let header = mapping.header();
        let (from, to) = (NonNull::from(&header.from_creator), NonNull::from(&header.to_creator));
        // SAFETY: both offsets are inside the mapping.
        let (first, second) =
            unsafe { (mapping.base.add(HEADER_BYTES), mapping.base.add(HEADER_BYTES + capacity)) };
        let (sends, receives) =
            if is_creator { ((from, first), (to, second)) } else { ((to, second), (from, first)) };
        // SAFETY: the counters and `capacity` bytes behind each place are in the mapping, which lives as long as the pair. This
        // process has one pair per mapping, and its two FIFOs do not overlap.
        let (outgoing, incoming) = unsafe {
            (Producer::new(sends.0, sends.1, capacity), Consumer::new(receives.0, receives.1, capacity))
        };
        FifoPair {
            outgoing,
            incoming,
            is_creator,
            is_shut: AtomicBool::new(false),
            is_peer_gone: AtomicBool::new(false),
            reader_spin: Spin::new(),
            writer_spin: Spin::new(),
            mapping,
        }
    }

    fn own(&self) -> &Side {
        let header = self.mapping.header();
        if self.is_creator { &header.creator } else { &header.other }
    }

    fn peer(&self) -> &Side {
        let header = self.mapping.header();
        if self.is_creator { &header.other } else { &header.creator }
    }

    #[inline]
    pub(crate) fn receive(&self, socket: &Socket, buffer: &mut [u8], wait: Wait) -> io::Result<usize> {
        let mut ended = false;
        loop {
            if self.is_shut.load(Ordering::Acquire) {
                return Ok(0);
            }
            let read = self.incoming.read(buffer, |free| self.tell_room(free))?;
            // The end counts only if it was seen before a read that found nothing: the peer's last bytes come before it.
            if read > 0 || ended || buffer.is_empty() {
                return Ok(read);
            }
            ended = self.is_over();
            if wait == Wait::Never && !ended {
                ended = socket.has_ended();
                if !ended {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
            }
            if !ended {
                self.wait(socket, Ready { readable: true, writable: false }, None)?;
            }
        }
    }

    #[inline]
    pub(crate) fn send(&self, socket: &Socket, slices: &[IoSlice<'_>], wait: Wait) -> io::Result<usize> {
        loop {
            if self.is_over() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let written = self.outgoing.write(slices, || self.tell_bytes())?;
            if written > 0 || slices.iter().all(|slice| slice.is_empty()) {
                return Ok(written);
            }
            if wait == Wait::Never {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.wait(socket, Ready { readable: false, writable: true }, None)?;
        }
    }

    /// Waits until there are bytes to read or room to write, as `wanted` says, or the timeout expires. The end of the connection
    /// counts as both.
    pub(crate) fn wait(
        &self,
        socket: &Socket,
        wanted: Ready,
        timeout: Option<Duration>,
    ) -> io::Result<Ready> {
        let look = || -> io::Result<Ready> {
            let over = self.is_over();
            Ok(Ready {
                readable: wanted.readable && (over || self.incoming.has_bytes()),
                writable: wanted.writable && (over || self.outgoing.room()? > 0),
            })
        };
        let is_ready = |ready: &Ready| ready.readable || ready.writable;
        // An error ends the polling; the look after it returns it.
        let poll = || look().as_ref().map_or(true, is_ready);
        let spin = if wanted.readable { &self.reader_spin } else { &self.writer_spin };
        if poll() || spin.until(poll) {
            return look();
        }
        let start = Instant::now();
        let mut check = FIRST_CHECK;
        let own = self.own();
        loop {
            let bell = own.bell.load(Ordering::Acquire);
            if wanted.readable {
                own.wants_bytes.store(1, Ordering::Relaxed);
            }
            if wanted.writable {
                own.wants_room.store(1, Ordering::Relaxed);
            }
            // Pairs with `tell_bytes` and `tell_room`: either this thread sees the bytes, or the peer sees the flag.
            fence(Ordering::SeqCst);
            let ready = look()?;
            if is_ready(&ready) {
                spin.slept(start.elapsed());
                return Ok(ready);
            }
            let left = timeout.map(|timeout| timeout.saturating_sub(start.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(ready);
            }
            let was_rung = own.sleep(bell, left.map_or(check, |left| left.min(check)));
            if !was_rung {
                check = (2 * check).min(LONGEST_CHECK);
                if socket.has_ended() {
                    self.is_peer_gone.store(true, Ordering::Release);
                }
            }
        }
    }

    /// Wakes a thread of the peer that waits for bytes.
    #[inline]
    fn tell_bytes(&self) {
        // Pairs with `wait`.
        fence(Ordering::SeqCst);
        let peer = self.peer();
        if peer.wants_bytes.load(Ordering::Relaxed) != 0 {
            peer.wants_bytes.store(0, Ordering::Relaxed);
            peer.ring();
        }
    }

    /// Wakes a thread of the peer that waits for room, once there is enough.
    #[inline]
    fn tell_room(&self, free: usize) {
        // Pairs with `wait`.
        fence(Ordering::SeqCst);
        let peer = self.peer();
        if peer.wants_room.load(Ordering::Relaxed) != 0 && free >= self.incoming.capacity() / WAKING_ROOM {
            peer.wants_room.store(0, Ordering::Relaxed);
            peer.ring();
        }
    }

    /// Whether a read would return at once, as far as the shared memory tells.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.incoming.has_bytes() || self.is_over()
    }

    /// Whether a small write would not block.
    pub(crate) fn has_room(&self) -> bool {
        self.outgoing.room().map_or(true, |room| room >= HEADER_BYTES)
    }

    /// Bytes sent that the peer has not read, and those that it has.
    pub(crate) fn unread(&self) -> (u64, u64) {
        (self.outgoing.waiting() as u64, self.outgoing.delivered())
    }

    /// Whether one of the sides has shut the connection down, or the other process was found to be gone.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.is_shut.load(Ordering::Acquire)
            || self.is_peer_gone.load(Ordering::Acquire)
            || self.peer().closed.load(Ordering::Acquire) != 0
    }

    /// Ends the connection and wakes every thread of both sides that waits on it.
    pub(crate) fn shutdown(&self) {
        if !self.is_shut.swap(true, Ordering::AcqRel) {
            self.own().closed.store(1, Ordering::Release);
            self.peer().ring();
        }
        // Always: a peer that changes the bell could make a thread miss it, which then wakes at its next check.
        self.own().ring();
    }
}

impl Drop for FifoPair {
    fn drop(&mut self) {
        self.shutdown();
    }
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use super::*;

    fn socket() -> (Socket, Socket) {
        let (left, right) = UnixStream::pair().unwrap();
        (Socket::from_fd(left.into()), Socket::from_fd(right.into()))
    }

    fn memory(bytes: usize, seals: i32) -> SharedMemory {
        // SAFETY: passes a string and numbers; the descriptor is owned at once.
        unsafe {
            let fd = libc::memfd_create(c"test".as_ptr(), libc::MFD_ALLOW_SEALING | libc::MFD_CLOEXEC);
            let memory = OwnedFd::from_raw_fd(fd);
            assert_eq!(libc::ftruncate(fd, bytes as libc::off_t), 0);
            assert_eq!(libc::fcntl(fd, libc::F_ADD_SEALS, seals), 0);
            SharedMemory(memory)
        }
    }

    #[test]
    fn memory_that_can_shrink_or_has_the_wrong_size_is_refused() {
        let right = HEADER_BYTES + 2 * (64 << 10);
        assert!(FifoPair::open(&memory(right, libc::F_SEAL_SHRINK)).is_ok());
        let error = FifoPair::open(&memory(right, 0)).unwrap_err();
        assert!(error.to_string().contains("not sealed"), "{error}");
        for wrong in [0, 4096, right - 1, right + 4096, HEADER_BYTES + 2 * (32 << 10), 3 * right] {
            let error = FifoPair::open(&memory(wrong, libc::F_SEAL_SHRINK)).unwrap_err();
            assert!(error.to_string().contains("invalid size"), "{wrong}: {error}");
        }
        let file = tempfile::tempfile().unwrap();
        file.set_len(right as u64).unwrap();
        assert!(FifoPair::open(&SharedMemory(file.into())).is_err(), "not memory");
    }

    #[test]
    fn the_peer_cannot_resize_the_memory() {
        let (_pair, memory) = FifoPair::create().unwrap();
        for bytes in [0, 4096, HEADER_BYTES + 4 * CAPACITY] {
            // SAFETY: passes numbers.
            assert_eq!(unsafe { libc::ftruncate(memory.0.as_raw_fd(), bytes as libc::off_t) }, -1);
        }
    }

    #[test]
    fn a_peer_that_writes_nonsense_everywhere_causes_errors_and_nothing_else() {
        let (near_socket, _far_socket) = socket();
        for seed in 1..40u64 {
            let (pair, memory) = FifoPair::create().unwrap();
            let hostile = Mapping::new(&memory.0, HEADER_BYTES + 2 * CAPACITY).unwrap();
            let stop = Arc::new(AtomicBool::new(false));
            let scribbler = std::thread::spawn({
                let stop = Arc::clone(&stop);
                move || {
                    // The whole mapping, which may change its thread, and not its pointer.
                    let hostile = &hostile;
                    let mut number = seed;
                    while !stop.load(Ordering::Relaxed) {
                        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let word = (number >> 33) as usize % (HEADER_BYTES / 8);
                        // SAFETY: inside the first page, aligned. The victim accesses it through atomics only.
                        let place = unsafe {
                            &*hostile.base.as_ptr().cast::<std::sync::atomic::AtomicU64>().add(word)
                        };
                        // Small numbers are plausible and get further than random ones.
                        place.store(if number & 4 == 0 { number >> 44 } else { number }, Ordering::Relaxed);
                    }
                }
            });
            let mut buffer = vec![0; 3 * CAPACITY];
            for round in 0..300 {
                let size = (round * 9973) % buffer.len();
                if let Ok(read) = pair.receive(&near_socket, &mut buffer[..size], Wait::Never) {
                    assert!(read <= CAPACITY.min(size));
                }
                if let Ok(sent) = pair.send(&near_socket, &[IoSlice::new(&buffer[..size])], Wait::Never) {
                    assert!(sent <= CAPACITY.min(size));
                }
                let wanted = Ready { readable: true, writable: true };
                let _ = pair.wait(&near_socket, wanted, Some(Duration::from_micros(10)));
                let _ = (pair.has_news(), pair.has_room(), pair.unread());
            }
            pair.shutdown();
            assert_eq!(pair.receive(&near_socket, &mut buffer, Wait::Forever).unwrap(), 0);
            stop.store(true, Ordering::Relaxed);
            scribbler.join().unwrap();
        }
    }

    #[test]
    fn a_peer_whose_process_ends_without_a_word_is_noticed_by_a_reader_and_a_writer() {
        let (near_socket, far_socket) = socket();
        let (pair, memory) = FifoPair::create().unwrap();
        // Never closed: a killed process does not set its flag.
        let peer = std::mem::ManuallyDrop::new(FifoPair::open(&memory).unwrap());
        peer.send(&far_socket, &[IoSlice::new(b"last words")], Wait::Forever).unwrap();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut all = Vec::new();
                let mut buffer = [0; 64];
                loop {
                    match pair.receive(&near_socket, &mut buffer, Wait::Forever).unwrap() {
                        0 => return all,
                        read => all.extend_from_slice(&buffer[..read]),
                    }
                }
            });
            let writer = scope.spawn(|| {
                let block = vec![0; CAPACITY];
                loop {
                    if let Err(error) = pair.send(&near_socket, &[IoSlice::new(&block)], Wait::Forever) {
                        return error.kind();
                    }
                }
            });
            std::thread::sleep(Duration::from_millis(30));
            drop(far_socket);
            assert_eq!(reader.join().unwrap(), b"last words");
            assert_eq!(writer.join().unwrap(), io::ErrorKind::BrokenPipe);
        });
        drop(std::mem::ManuallyDrop::into_inner(peer));
    }
}
