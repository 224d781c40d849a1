//! A byte FIFO in shared memory: one direction of a shared-memory link.
//!
//! The producer counts the bytes it has written (`tail`), the consumer those it has read (`head`). Both counters are in the shared
//! memory, where the other process can overwrite them at any time, as it can the bytes. So each side
//!
//! * keeps its own counter in private memory, publishes it, and never reads it back;
//! * reads the other side's counter once per operation and refuses a value outside the buffer;
//! * copies bytes out of the buffer before anything interprets them, and never reads a byte twice.
//!
//! A hostile peer can thus send any byte stream, which it can over a socket too, and end the connection, but nothing else.

use std::io::{self, IoSlice};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use parking_lot::Mutex;

/// Bytes copied before they are published, so that both sides of a large transfer copy at the same time.
const CHUNK_BYTES: usize = 64 << 10;

/// The counters of one direction, in shared memory. Each has its own pair of cache lines, because the other side polls it.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Counters {
    tail: Line,
    head: Line,
}

#[repr(C, align(128))]
#[derive(Debug, Default)]
struct Line(AtomicU64);

/// The place of one direction in shared memory.
#[derive(Clone, Copy, Debug)]
struct Place {
    counters: NonNull<Counters>,
    bytes: NonNull<u8>,
    /// A power of two.
    capacity: usize,
}

// SAFETY: the memory is accessed through atomics, or copied by the one thread that holds `turn`; its owner keeps it mapped.
unsafe impl Send for Place {}
// SAFETY: as above.
unsafe impl Sync for Place {}

impl Place {
    fn counters(&self) -> &Counters {
        // SAFETY: mapped and aligned as `Producer::new` and `Consumer::new` require. Both fields are atomic, so concurrent writes
        // of the other process are allowed.
        unsafe { self.counters.as_ref() }
    }

    fn offset(&self, position: u64) -> usize {
        position as usize & (self.capacity - 1)
    }

    /// The number of bytes in the buffer, if the counters are possible ones.
    fn used(&self, tail: u64, head: u64) -> io::Result<usize> {
        let used = tail.wrapping_sub(head);
        if used <= self.capacity as u64 {
            return Ok(used as usize);
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "the peer's position in the shared memory is out of range: {tail} bytes written, {head} read, room for {}",
                self.capacity
            ),
        ))
    }
}

/// The writing side.
#[derive(Debug)]
pub(crate) struct Producer {
    place: Place,
    /// Held by the thread that writes.
    turn: Mutex<()>,
    tail: AtomicU64,
    /// The consumer's counter when it was last read, which was valid.
    seen_head: AtomicU64,
}

impl Producer {
    /// # Safety
    /// `counters` and `capacity` bytes from `bytes` on must be mapped, writable, and aligned for their types, for as long as this
    /// object exists. In this process only this object may write them. `capacity` must be a power of two.
    pub(crate) unsafe fn new(counters: NonNull<Counters>, bytes: NonNull<u8>, capacity: usize) -> Producer {
        let place = Place { counters, bytes, capacity };
        Producer { place, turn: Mutex::new(()), tail: AtomicU64::new(0), seen_head: AtomicU64::new(0) }
    }

    /// Writes as many bytes as there is room for; returns 0 if there is none. Calls `published` whenever the consumer can see more.
    pub(crate) fn write(&self, slices: &[IoSlice<'_>], mut published: impl FnMut()) -> io::Result<usize> {
        let _turn = self.turn.lock();
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        let start = self.tail.load(Ordering::Relaxed);
        let mut room = self.room_for(start, total)?;
        let (mut tail, mut unpublished) = (start, 0);
        let mut publish = |tail| {
            self.tail.store(tail, Ordering::Relaxed);
            self.place.counters().tail.0.store(tail, Ordering::Release);
            published();
        };
        for slice in slices {
            let mut rest: &[u8] = slice;
            while !rest.is_empty() && room > 0 {
                let at = self.place.offset(tail);
                let step = rest.len().min(room).min(self.place.capacity - at).min(CHUNK_BYTES - unpublished);
                // SAFETY: `step` bytes from `at` on are inside the buffer. The consumer does not read them before they are
                // published; if it does, it reads garbage, which is its own fault.
                unsafe {
                    std::ptr::copy_nonoverlapping(rest.as_ptr(), self.place.bytes.as_ptr().add(at), step);
                }
                (rest, room) = (&rest[step..], room - step);
                (tail, unpublished) = (tail.wrapping_add(step as u64), unpublished + step);
                if unpublished == CHUNK_BYTES {
                    publish(tail);
                    unpublished = 0;
                }
            }
        }
        if unpublished > 0 {
            publish(tail);
        }
        Ok(tail.wrapping_sub(start) as usize)
    }

    /// The free bytes of the buffer.
    pub(crate) fn room(&self) -> io::Result<usize> {
        let _turn = self.turn.lock();
        self.room_for(self.tail.load(Ordering::Relaxed), self.place.capacity)
    }

    /// The bytes that the consumer has not read. An estimate while another thread writes, because the two counters are read one
    /// after the other.
    pub(crate) fn waiting(&self) -> usize {
        let head = self.place.counters().head.0.load(Ordering::Acquire);
        let waiting = self.tail.load(Ordering::Acquire).wrapping_sub(head);
        waiting.min(self.place.capacity as u64) as usize
    }

    /// The bytes that the consumer has read, as it claims.
    pub(crate) fn delivered(&self) -> u64 {
        self.place.counters().head.0.load(Ordering::Relaxed)
    }

    /// The free bytes if they suffice, or all there are. Reads the consumer's counter only if those that were free at the last look
    /// do not suffice: its cache line then stays with the consumer.
    fn room_for(&self, tail: u64, wanted: usize) -> io::Result<usize> {
        let room = self.place.capacity - self.place.used(tail, self.seen_head.load(Ordering::Relaxed))?;
        if room >= wanted {
            return Ok(room);
        }
        let head = self.place.counters().head.0.load(Ordering::Acquire);
        let used = self.place.used(tail, head)?;
        self.seen_head.store(head, Ordering::Relaxed);
        Ok(self.place.capacity - used)
    }
}

/// The reading side.
#[derive(Debug)]
pub(crate) struct Consumer {
    place: Place,
    /// Held by the thread that reads.
    turn: Mutex<()>,
    head: AtomicU64,
}

impl Consumer {
    /// # Safety
    /// The same as of [`Producer::new`].
    pub(crate) unsafe fn new(counters: NonNull<Counters>, bytes: NonNull<u8>, capacity: usize) -> Consumer {
        let place = Place { counters, bytes, capacity };
        Consumer { place, turn: Mutex::new(()), head: AtomicU64::new(0) }
    }

    /// Reads the bytes that are there, as far as `buffer` has room; returns 0 if there are none. Calls `freed` with the number of
    /// free bytes whenever the producer can see more of them.
    #[inline]
    pub(crate) fn read(&self, buffer: &mut [u8], mut freed: impl FnMut(usize)) -> io::Result<usize> {
        let _turn = self.turn.lock();
        let start = self.head.load(Ordering::Relaxed);
        let mut used = self.place.used(self.place.counters().tail.0.load(Ordering::Acquire), start)?;
        let mut head = start;
        let mut rest = buffer;
        while !rest.is_empty() && used > 0 {
            let at = self.place.offset(head);
            let step = rest.len().min(used).min(self.place.capacity - at).min(CHUNK_BYTES);
            let (part, after) = std::mem::take(&mut rest).split_at_mut(step);
            // SAFETY: `step` bytes from `at` on are inside the buffer and were published. The producer may change them meanwhile:
            // then the copy has garbage, as if it had sent that. The fence keeps the compiler from reading the source again in
            // place of the copy.
            unsafe {
                std::ptr::copy_nonoverlapping(self.place.bytes.as_ptr().add(at), part.as_mut_ptr(), step);
            }
            compiler_fence(Ordering::SeqCst);
            (rest, used, head) = (after, used - step, head.wrapping_add(step as u64));
            self.head.store(head, Ordering::Relaxed);
            self.place.counters().head.0.store(head, Ordering::Release);
            freed(self.place.capacity - used);
        }
        Ok(head.wrapping_sub(start) as usize)
    }

    /// Size of the buffer.
    pub(crate) fn capacity(&self) -> usize {
        self.place.capacity
    }

    /// Whether there are bytes to read, or the producer's counter is invalid, which the next read reports.
    #[inline]
    pub(crate) fn has_bytes(&self) -> bool {
        self.place.counters().tail.0.load(Ordering::Acquire) != self.head.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shared memory of one direction, in this process.
    struct Memory {
        counters: Box<Counters>,
        bytes: Box<[u8]>,
    }

    impl Memory {
        fn new(capacity: usize) -> Memory {
            Memory { counters: Box::default(), bytes: vec![0; capacity].into_boxed_slice() }
        }

        fn place(&mut self) -> (NonNull<Counters>, NonNull<u8>, usize) {
            let capacity = self.bytes.len();
            let bytes = NonNull::new(self.bytes.as_mut_ptr()).unwrap();
            (NonNull::from(&mut *self.counters), bytes, capacity)
        }

        fn ends(&mut self) -> (Producer, Consumer) {
            let (counters, bytes, capacity) = self.place();
            // SAFETY: the memory outlives both in every test below.
            unsafe { (Producer::new(counters, bytes, capacity), Consumer::new(counters, bytes, capacity)) }
        }

        fn consumer(&mut self) -> Consumer {
            self.ends().1
        }
    }

    /// A small generator of numbers that looks random and is the same in every run.
    struct Numbers(u64);

    impl Numbers {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }

        fn below(&mut self, limit: usize) -> usize {
            (self.next() % limit as u64) as usize
        }
    }

    #[test]
    fn bytes_come_in_order_in_any_portions_and_around_the_end() {
        let mut memory = Memory::new(1 << 12);
        let (producer, consumer) = memory.ends();
        let mut numbers = Numbers(7);
        let sent: Vec<u8> = (0..100_000).map(|at| (at % 251) as u8 ^ (at >> 8) as u8).collect();
        let (mut written, mut got) = (0, Vec::new());
        while got.len() < sent.len() {
            let portion = numbers.below(6000).min(sent.len() - written);
            let (head, body) = sent[written..written + portion].split_at(portion / 3);
            written += producer.write(&[IoSlice::new(head), IoSlice::new(body)], || ()).unwrap();
            assert_eq!(producer.waiting(), written - got.len());
            let mut buffer = vec![0; numbers.below(5000)];
            let read = consumer.read(&mut buffer, |_| ()).unwrap();
            got.extend_from_slice(&buffer[..read]);
        }
        assert!(got == sent && !consumer.has_bytes());
        assert_eq!(producer.delivered(), sent.len() as u64);
    }

    #[test]
    fn a_full_fifo_takes_nothing_and_an_empty_one_gives_nothing() {
        let mut memory = Memory::new(1 << 12);
        let (producer, consumer) = memory.ends();
        let block = vec![1; 5000];
        assert_eq!(producer.write(&[IoSlice::new(&block)], || ()).unwrap(), 1 << 12);
        assert_eq!(producer.write(&[IoSlice::new(&block)], || ()).unwrap(), 0);
        assert_eq!(producer.room().unwrap(), 0);
        let mut buffer = vec![0; 5000];
        let mut free = 0;
        assert_eq!(consumer.read(&mut buffer, |bytes| free = bytes).unwrap(), 1 << 12);
        assert_eq!((consumer.read(&mut buffer, |_| ()).unwrap(), free), (0, 1 << 12));
    }

    #[test]
    fn a_large_transfer_is_published_in_pieces() {
        let mut memory = Memory::new(1 << 20);
        let (producer, consumer) = memory.ends();
        let block = vec![1; 1 << 20];
        let (mut published, mut freed) = (0, 0);
        producer.write(&[IoSlice::new(&block)], || published += 1).unwrap();
        consumer.read(&mut vec![0; 1 << 20], |_| freed += 1).unwrap();
        assert_eq!((published, freed), ((1 << 20) / CHUNK_BYTES, (1 << 20) / CHUNK_BYTES));
    }

    #[test]
    fn counters_out_of_range_are_an_error_and_never_an_access_outside_the_buffer() {
        let mut memory = Memory::new(1 << 12);
        let shared = std::ptr::from_ref(&*memory.counters);
        let (producer, consumer) = memory.ends();
        // SAFETY: the box lives until the end of the test, and its fields are atomic.
        let shared = unsafe { &*shared };
        let mut buffer = vec![0; 1 << 13];
        for tail in [(1 << 12) + 1, u64::MAX, 1 << 63] {
            shared.tail.0.store(tail, Ordering::Relaxed);
            let error = consumer.read(&mut buffer, |_| ()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
        for head in [1, u64::MAX - (1 << 12), 1 << 40] {
            shared.head.0.store(head, Ordering::Relaxed);
            let error = producer.write(&[IoSlice::new(&buffer)], || ()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{head}");
        }
    }

    /// A hostile peer that overwrites every word of the shared memory with random values. Each read either fails or returns at most what the buffer has, and
    /// a read that succeeds moves the private counter by exactly what it returned.
    #[test]
    fn a_reader_survives_any_values_of_the_counters() {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        let mut memory = Memory::new(1 << 12);
        let shared = std::ptr::from_ref(&*memory.counters);
        let consumer = memory.consumer();
        // SAFETY: the box lives until the end of the test, and its fields are atomic.
        let shared = unsafe { &*shared };
        let (mut refused, mut accepted) = (0, 0);
        for _ in 0..200_000 {
            let own = consumer.head.load(Ordering::Relaxed);
            let tail = match numbers.below(4) {
                0 => numbers.next(),
                1 => own.wrapping_add(numbers.next() % (1 << 13)),
                2 => own.wrapping_sub(numbers.next() % (1 << 13)),
                _ => own.wrapping_add(numbers.next() % (1 << 12)),
            };
            shared.tail.0.store(tail, Ordering::Relaxed);
            shared.head.0.store(numbers.next(), Ordering::Relaxed);
            let mut buffer = vec![0; numbers.below(1 << 13)];
            match consumer.read(&mut buffer, |free| assert!(free <= 1 << 12)) {
                Ok(read) => {
                    assert!(read <= buffer.len() && read <= 1 << 12);
                    assert_eq!(consumer.head.load(Ordering::Relaxed), own.wrapping_add(read as u64));
                    accepted += 1;
                }
                Err(_) => {
                    assert_eq!(consumer.head.load(Ordering::Relaxed), own);
                    refused += 1;
                }
            }
        }
        assert!(refused > 1000 && accepted > 1000, "{refused} refused, {accepted} accepted");
    }

    #[test]
    fn two_threads_move_a_stream() {
        let mut memory = Memory::new(1 << 14);
        let (producer, consumer) = memory.ends();
        let total = 4 << 20;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let block = vec![7; 10_000];
                let mut left = total;
                while left > 0 {
                    let part = &block[..left.min(block.len())];
                    left -= producer.write(&[IoSlice::new(part)], || ()).unwrap();
                }
            });
            let (mut got, mut buffer) = (0, vec![0; 3000]);
            while got < total {
                let read = consumer.read(&mut buffer, |_| ()).unwrap();
                assert!(buffer[..read].iter().all(|byte| *byte == 7));
                got += read;
            }
        });
    }
}
