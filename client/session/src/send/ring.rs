//! Ring buffer of unacknowledged frames, in order of their numbers.
//!
//! Application threads append, the holder of the outgoing lock sends, and the reader of acknowledgements frees. Sent
//! bytes stay in place until acknowledged, so a new connection is resent from the ring. Bulk bodies may stay in the
//! program's memory: the slot refers to them, and the thread that lent them waits until they are acknowledged.

use std::cell::UnsafeCell;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use wire::{Sink, WireError};

use crate::send::double_mapping::DoubleMapping;

/// One frame: a range of the ring, optionally followed by lent bytes.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Position in the ring, counted over its lifetime (not wrapped).
    start: u64,
    inline: u64,
    lent: *const u8,
    lent_bytes: u64,
}

impl Slot {
    const EMPTY: Slot = Slot { start: 0, inline: 0, lent: std::ptr::null(), lent_bytes: 0 };
}

/// Limits of one system call.
const MOST_BYTES: u64 = 1 << 20;
const MOST_FRAMES: usize = 4096;

/// The I/O vector of one system call, gathered without allocating.
#[derive(Debug)]
pub struct Slices<'a> {
    items: [IoSlice<'a>; Slices::CAPACITY],
    length: usize,
}

impl<'a> Slices<'a> {
    const CAPACITY: usize = 24;

    pub fn new() -> Slices<'a> {
        Slices { items: [IoSlice::new(&[]); Slices::CAPACITY], length: 0 }
    }

    /// Whether another frame fits; it takes up to three slices, including the pending run before it.
    fn has_room(&self) -> bool {
        self.length + 3 <= Slices::CAPACITY
    }

    pub fn push(&mut self, bytes: &'a [u8]) {
        if !bytes.is_empty() {
            self.items[self.length] = IoSlice::new(bytes);
            self.length += 1;
        }
    }

    pub fn all(&self) -> &[IoSlice<'a>] {
        &self.items[..self.length]
    }
}

/// Send position: all frames before `number` and the first `offset` bytes of that frame are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cursor {
    pub number: u64,
    pub offset: u64,
}

impl Cursor {
    /// Moves over `sent` bytes. `lengths` has the unsent bytes of each frame from here on. It is the sender's own copy: a
    /// sent frame may be acknowledged, and its slot reused, at any moment.
    pub fn advance(&mut self, lengths: &[u64], mut sent: u64) {
        for &length in lengths {
            if sent < length {
                self.offset += sent;
                return;
            }
            sent -= length;
            *self = Cursor { number: self.number + 1, offset: 0 };
        }
    }
}

#[derive(Debug)]
struct Tail {
    number: u64,
    position: u64,
}

/// The ring is full until frames are acknowledged.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

/// The send buffer of a session: frames that the worker has not acknowledged.
#[derive(Debug)]
pub struct Ring {
    memory: DoubleMapping,
    slots: Box<[UnsafeCell<Slot>]>,
    /// The appenders' state, the counter they publish to the sender, and the counters the reader publishes to them are on
    /// separate cache lines to avoid false sharing.
    tail: CachePadded<Mutex<Tail>>,
    /// The last frame appended.
    appended: CachePadded<AtomicU64>,
    /// The last frame acknowledged, and the position after it.
    freed: CachePadded<AtomicU64>,
    freed_position: AtomicU64,
}

// SAFETY: slots and bytes between `freed` and `appended` are written once, before `appended` is published, and only read
// until they are freed; everything outside is accessed only under the lock of `tail`. The thread that lent memory keeps
// it alive and unchanged, because it waits.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    /// Creates a ring. Both sizes must be powers of two; `bytes` must be a multiple of the page size.
    pub fn new(bytes: usize, frames: usize) -> io::Result<Ring> {
        assert!(bytes.is_power_of_two() && frames.is_power_of_two());
        Ok(Ring {
            memory: DoubleMapping::new(bytes)?,
            slots: (0..frames).map(|_| UnsafeCell::new(Slot::EMPTY)).collect(),
            tail: CachePadded::new(Mutex::new(Tail { number: 0, position: 0 })),
            appended: CachePadded::new(AtomicU64::new(0)),
            freed: CachePadded::new(AtomicU64::new(0)),
            freed_position: AtomicU64::new(0),
        })
    }

    /// Whether a thread is appending.
    pub fn is_locked(&self) -> bool {
        self.tail.is_locked()
    }

    /// The largest frame that is copied into the ring; larger ones lend their bodies.
    #[inline]
    pub fn largest(&self) -> usize {
        self.memory.bytes() / 4
    }

    /// Appends a frame of `inline` bytes. `fill` writes them; it receives the frame's number and runs before any other
    /// thread can see the frame.
    ///
    /// # Safety
    /// `lent` must stay valid and unchanged until the frame is acknowledged or the session is over.
    #[inline]
    pub unsafe fn append(
        &self,
        inline: usize,
        lent: &[u8],
        fill: impl FnOnce(u64, &mut RingSink),
    ) -> Result<u64, Full> {
        let mut tail = self.tail.lock();
        let used = tail.position - self.freed_position.load(Ordering::Acquire);
        let frames = tail.number - self.freed.load(Ordering::Acquire);
        if used + inline as u64 > self.memory.bytes() as u64 || frames == self.slots.len() as u64 {
            return Err(Full);
        }
        let number = tail.number + 1;
        // SAFETY: `inline` bytes from this position on are free, as just checked, and contiguous because the ring is
        // mapped twice.
        let start = unsafe { self.memory.at(tail.position) };
        let mut sink = RingSink { at: start, left: inline };
        fill(number, &mut sink);
        assert_eq!(sink.left, 0, "a frame must be as long as announced");
        let slot = Slot {
            start: tail.position,
            inline: inline as u64,
            lent: lent.as_ptr(),
            lent_bytes: lent.len() as u64,
        };
        // SAFETY: the slot is unused: fewer than `slots.len()` frames are unacknowledged, and this thread holds the lock.
        unsafe { *self.slot(number).get() = slot };
        tail.number = number;
        tail.position += inline as u64;
        self.appended.store(number, Ordering::Release);
        Ok(number)
    }

    #[inline]
    pub fn appended(&self) -> u64 {
        self.appended.load(Ordering::Acquire)
    }

    pub fn freed(&self) -> u64 {
        self.freed.load(Ordering::Acquire)
    }

    /// Frees all frames up to `received`. `sent` is the number of frames sent completely; the worker cannot make the
    /// client free a frame that is still being sent. Only the reader of the connection calls this.
    pub fn acknowledge(&self, received: u64, sent: u64) -> Result<(), WireError> {
        if received > sent {
            return Err(WireError::AcknowledgedUnsent { acknowledged: received, sent });
        }
        if received > self.freed() {
            let slot = self.read(received);
            self.freed_position.store(slot.start + slot.inline, Ordering::Release);
            self.freed.store(received, Ordering::Release);
        }
        Ok(())
    }

    /// Passes the frames after the last freed one, up to `number`, to `see`: their own bytes and the lent ones. Only the reader of
    /// the connection calls this, which alone frees frames.
    pub fn each_until(&self, number: u64, mut see: impl FnMut(u64, &[u8], &[u8])) {
        for number in self.freed() + 1..=number.min(self.appended()) {
            let slot = self.read(number);
            // SAFETY: the frame is appended and not freed, so its bytes are only read, and lent memory is valid and unchanged.
            let (inline, lent) = unsafe {
                (
                    std::slice::from_raw_parts(self.memory.at(slot.start), slot.inline as usize),
                    match slot.lent_bytes {
                        0 => &[],
                        bytes => std::slice::from_raw_parts(slot.lent, bytes as usize),
                    },
                )
            };
            see(number, inline, lent);
        }
    }

    /// Collects the bytes to send from `cursor` on. The slices stay valid until their frames are acknowledged, which
    /// cannot happen before they are sent.
    pub fn collect<'a>(&'a self, cursor: &Cursor, lengths: &mut Vec<u64>, slices: &mut Slices<'a>) {
        let appended = self.appended();
        let mut number = cursor.number;
        let mut offset = cursor.offset;
        let mut bytes = 0;
        // The range of the ring not yet added to `slices`.
        let mut run = (0, 0);
        lengths.clear();
        while number <= appended && bytes < MOST_BYTES && slices.has_room() && lengths.len() < MOST_FRAMES {
            let slot = self.read(number);
            lengths.push(slot.inline + slot.lent_bytes - offset);
            if offset < slot.inline {
                let (start, length) = (slot.start + offset, slot.inline - offset);
                if run.1 != 0 && run.0 + run.1 == start {
                    run.1 += length;
                } else {
                    self.put_run(run, slices);
                    run = (start, length);
                }
                bytes += length;
                offset = slot.inline;
            }
            let skipped = offset - slot.inline;
            if skipped < slot.lent_bytes {
                self.put_run(run, slices);
                run = (0, 0);
                let length = slot.lent_bytes - skipped;
                // SAFETY: lent memory stays valid and unchanged until the frame is acknowledged.
                let lent =
                    unsafe { std::slice::from_raw_parts(slot.lent.add(skipped as usize), length as usize) };
                slices.push(lent);
                bytes += length;
            }
            number += 1;
            offset = 0;
        }
        self.put_run(run, slices);
    }

    fn put_run<'a>(&'a self, (start, length): (u64, u64), slices: &mut Slices<'a>) {
        if length > 0 {
            // SAFETY: the range belongs to appended frames, which are only read until they are freed.
            let bytes = unsafe { std::slice::from_raw_parts(self.memory.at(start), length as usize) };
            slices.push(bytes);
        }
    }

    #[inline]
    fn slot(&self, number: u64) -> &UnsafeCell<Slot> {
        &self.slots[number as usize & (self.slots.len() - 1)]
    }

    fn read(&self, number: u64) -> Slot {
        // SAFETY: callers pass only frames that are appended and not freed, whose slots no thread writes.
        unsafe { *self.slot(number).get() }
    }
}

/// Writes a frame's bytes into the ring.
#[derive(Debug)]
pub struct RingSink {
    at: *mut u8,
    left: usize,
}

impl Sink for RingSink {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.left, "a frame must not be longer than announced");
        // SAFETY: `left` bytes from `at` on belong to this sink, and the source is a different object.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at, bytes.len());
            self.at = self.at.add(bytes.len());
        }
        self.left -= bytes.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(ring: &Ring, bytes: &[u8], lent: &[u8]) -> Result<u64, Full> {
        // SAFETY: the tests keep lent memory alive.
        unsafe { ring.append(bytes.len(), lent, |_, sink| sink.put(bytes)) }
    }

    fn send(ring: &Ring, cursor: &mut Cursor, most: usize) -> Vec<u8> {
        let (mut lengths, mut slices) = (Vec::new(), Slices::new());
        ring.collect(cursor, &mut lengths, &mut slices);
        let mut bytes = slices.all().iter().flat_map(|slice| slice.iter().copied()).collect::<Vec<u8>>();
        bytes.truncate(most);
        cursor.advance(&lengths, bytes.len() as u64);
        bytes
    }

    #[test]
    fn frames_come_out_as_they_went_in_across_many_wraps_and_partial_writes() {
        let ring = Ring::new(4096, 16).unwrap();
        let lent: Vec<u8> = (0..700).map(|i| i as u8).collect();
        let mut cursor = Cursor { number: 1, offset: 0 };
        let (mut sent, mut expected) = (Vec::new(), Vec::new());
        let mut seed = 1u32;
        for round in 0..5000u32 {
            seed = seed.wrapping_mul(1664525).wrapping_add(1013904223);
            let bytes = vec![round as u8; 1 + seed as usize % 900];
            let lent = if seed & 0x1000 == 0 { &lent[..seed as usize % 700] } else { &[] };
            match append(&ring, &bytes, lent) {
                Ok(_) => {
                    expected.extend_from_slice(&bytes);
                    expected.extend_from_slice(lent);
                }
                Err(Full) => ring.acknowledge(cursor.number - 1, cursor.number - 1).unwrap(),
            }
            sent.extend(send(&ring, &mut cursor, (seed >> 8) as usize % 1500));
        }
        while cursor.number <= ring.appended() {
            sent.extend(send(&ring, &mut cursor, usize::MAX));
        }
        assert!(sent == expected);
        assert!(ring.appended() > 1000);
    }

    #[test]
    fn unacknowledged_frames_can_be_sent_again_and_acknowledged_ones_make_room() {
        let ring = Ring::new(4096, 4).unwrap();
        let mut cursor = Cursor { number: 1, offset: 0 };
        for frame in [b"a", b"b", b"c", b"d"] {
            append(&ring, frame, &[]).unwrap();
        }
        assert_eq!(append(&ring, b"e", &[]), Err(Full));
        assert!(ring.acknowledge(1, 0).is_err(), "nothing was sent yet");
        assert_eq!(send(&ring, &mut cursor, usize::MAX), b"abcd");
        ring.acknowledge(2, 4).unwrap();
        ring.acknowledge(1, 4).unwrap();
        assert_eq!(append(&ring, b"e", &[]), Ok(5));
        cursor = Cursor { number: ring.freed() + 1, offset: 0 };
        assert_eq!(send(&ring, &mut cursor, usize::MAX), b"cde");
        assert!(ring.acknowledge(6, 5).is_err());
    }
}
