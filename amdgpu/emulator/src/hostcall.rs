//! Hostcalls (requests from a kernel to the host): the packet buffer that the device library fills, and the services behind it.
//!
//! Supported: `printf` output, and memory for the device library's heap. Calls of host functions, sanitizer reports, and `malloc`
//! in a dispatch without a heap end in a fault that names the request. The emulator serves a request on the wave's own thread,
//! when the wave rings the doorbell or sleeps while it waits for the answer. For a GPU, a thread serves the requests that it finds.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::buffer::Buffer;
use crate::fault::FaultKind;
use crate::heap::Pages;
use crate::memory::{Access, Range};
use crate::printf::render_message;

/// Callback that receives formatted output.
pub type Output = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// Packets per buffer: an upper bound of the waves in flight in a kernel that makes hostcalls.
pub(crate) const PACKETS: u64 = 1024;

/// Maximum number of words in a message, and of unfinished messages.
const MESSAGE_WORDS: usize = 1 << 17;
const OPEN_MESSAGES: usize = 1 << 16;

/// Layout of the buffer, defined by the device library.
mod layout {
    pub const HEADERS: usize = 0;
    pub const PAYLOADS: usize = 8;
    pub const DOORBELL: usize = 16;
    pub const FREE_STACK: usize = 24;
    pub const READY_STACK: usize = 32;
    pub const INDEX_MASK: usize = 40;
    /// An `amd_signal_t`, then its mailbox.
    pub const SIGNAL: usize = 64;
    pub const SIGNAL_KIND: usize = SIGNAL;
    pub const SIGNAL_VALUE: usize = SIGNAL + 8;
    pub const SIGNAL_MAILBOX: usize = SIGNAL + 16;
    pub const SIGNAL_EVENT: usize = SIGNAL + 24;
    pub const MAILBOX: usize = 192;
    pub const FIRST_HEADER: usize = 256;
    pub const HEADER_BYTES: usize = 24;
    pub const HEADER_NEXT: usize = 0;
    pub const HEADER_ACTIVE: usize = 8;
    pub const HEADER_SERVICE: usize = 16;
    pub const HEADER_CONTROL: usize = 20;
    pub const PAYLOAD_BYTES: usize = 64 * 64;

    /// Offset of the first payload in a buffer for `packets` packets.
    pub const fn first_payload(packets: u64) -> usize {
        (FIRST_HEADER + packets as usize * HEADER_BYTES).next_multiple_of(4096)
    }

    /// Size of a buffer for `packets` packets.
    pub const fn size(packets: u64) -> usize {
        first_payload(packets) + packets as usize * PAYLOAD_BYTES
    }
}

/// Service numbers of the device library.
mod service {
    pub const FUNCTION_CALL: u32 = 1;
    pub const PRINTF: u32 = 2;
    pub const DEVICE_MEMORY: u32 = 3;
    pub const SANITIZER: u32 = 4;
}

/// Bits of a message descriptor.
mod descriptor {
    pub const BEGIN: u64 = 1;
    pub const END: u64 = 2;
    pub const LENGTH_SHIFT: u32 = 5;
    pub const ID_SHIFT: u32 = 8;
}

/// Bits of a message's first word.
mod control {
    pub const ERROR_STREAM: u64 = 1;
}

/// A hostcall buffer and its unfinished messages.
pub struct Hostcall {
    start: *mut u8,
    packets: u64,
    /// The memory at `start`, if this owns it.
    _buffer: Option<Buffer>,
    messages: Mutex<Messages>,
    output: Option<Output>,
    error_output: Option<Output>,
    pages: Option<Arc<dyn Pages>>,
}

impl fmt::Debug for Hostcall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hostcall").field("start", &self.start).finish_non_exhaustive()
    }
}

// SAFETY: the memory at `start` is accessed atomically after construction, and lives as long as this.
unsafe impl Send for Hostcall {}
// SAFETY: as for `Send`; the messages are behind a lock.
unsafe impl Sync for Hostcall {}

#[derive(Debug, Default)]
struct Messages {
    open: HashMap<u64, Vec<u64>>,
    last: u64,
}

impl Hostcall {
    /// A buffer for one dispatch.
    pub(crate) fn new(
        output: Option<Output>,
        error_output: Option<Output>,
        pages: Option<Arc<dyn Pages>>,
    ) -> Hostcall {
        let buffer = Buffer::zeroed(layout::size(PACKETS));
        // SAFETY: the buffer has this size and moves into the result.
        let made = unsafe { Hostcall::over(buffer.as_mut_ptr(), PACKETS, output, error_output, pages) };
        Hostcall { _buffer: Some(buffer), ..made }
    }

    /// Size of a buffer for `packets` packets: a power of two, and at least the number of waves that may be in flight, since the
    /// device library does not wait for a free packet.
    pub const fn bytes(packets: u64) -> usize {
        layout::size(packets)
    }

    /// A buffer in given memory.
    ///
    /// # Safety
    /// [`Hostcall::bytes`] zeroed bytes at `start`, aligned to 8, must be used by nothing else as long as this lives, except
    /// by kernels through the device library.
    pub unsafe fn over(
        start: *mut u8,
        packets: u64,
        output: Option<Output>,
        error_output: Option<Output>,
        pages: Option<Arc<dyn Pages>>,
    ) -> Hostcall {
        let made = Hostcall {
            start,
            packets,
            _buffer: None,
            messages: Mutex::default(),
            error_output: error_output.or_else(|| output.clone()),
            output,
            pages,
        };
        let base = start as u64;
        let put = |at: usize, value: u64| made.word(at).store(value, Ordering::Relaxed);
        put(layout::HEADERS, base + layout::FIRST_HEADER as u64);
        put(layout::PAYLOADS, base + layout::first_payload(packets) as u64);
        put(layout::DOORBELL, base + layout::SIGNAL as u64);
        put(layout::INDEX_MASK, packets - 1);
        put(layout::SIGNAL_KIND, 1);
        put(layout::SIGNAL_MAILBOX, base + layout::MAILBOX as u64);
        put(layout::SIGNAL_EVENT, 1);
        // A packet pointer carries a tag above the index; zero ends the list.
        for index in 0..packets {
            let next = if index + 1 == packets { 0 } else { packets | (index + 1) };
            put(layout::FIRST_HEADER + index as usize * layout::HEADER_BYTES + layout::HEADER_NEXT, next);
        }
        put(layout::FREE_STACK, packets);
        made
    }

    /// Address of the buffer, which kernels get.
    pub fn address(&self) -> u64 {
        self.start as u64
    }

    pub(crate) fn range(&self) -> Range {
        let end = self.address() + layout::size(self.packets) as u64;
        Range { start: self.address(), end, access: Access::ReadWrite }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at + 8 <= layout::size(self.packets) && at.is_multiple_of(8));
        // SAFETY: the word is inside the buffer and aligned. Waves change it with atomic instructions, or before they hand over
        // the packet.
        unsafe { AtomicU64::from_ptr(self.start.add(at).cast()) }
    }

    fn half(&self, at: usize) -> &AtomicU32 {
        debug_assert!(at + 4 <= layout::size(self.packets) && at.is_multiple_of(4));
        // SAFETY: as for `word`.
        unsafe { AtomicU32::from_ptr(self.start.add(at).cast()) }
    }

    /// Serves all requests whose packet is marked ready, and returns how many there were.
    ///
    /// For GPUs whose atomic operations on host memory are not atomic for the host: it takes nothing from the ready stack, which
    /// waves then only push to.
    pub fn serve_marked(&self) -> Result<usize, String> {
        let mut messages = self.messages.lock();
        let mut served = 0;
        for index in 0..self.packets as usize {
            let control = layout::FIRST_HEADER + index * layout::HEADER_BYTES + layout::HEADER_CONTROL;
            if self.half(control).load(Ordering::Acquire) & 1 != 0 {
                self.answer(&mut messages, index).map_err(|fault| fault.to_string())?;
                served += 1;
            }
        }
        Ok(served)
    }

    /// Changes whenever a wave makes a request.
    pub fn doorbell(&self) -> u64 {
        self.word(layout::SIGNAL_VALUE).load(Ordering::Acquire)
    }

    /// Serves all requests on the ready stack.
    pub(crate) fn serve(&self) -> Result<(), FaultKind> {
        if self.word(layout::READY_STACK).load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        // Held for the whole call, so that output of different waves does not interleave.
        let mut messages = self.messages.lock();
        let mut ready = self.word(layout::READY_STACK).swap(0, Ordering::AcqRel);
        let mut packets = Vec::new();
        while ready != 0 && packets.len() < self.packets as usize {
            let index = (ready & (self.packets - 1)) as usize;
            packets.push(index);
            let header = layout::FIRST_HEADER + index * layout::HEADER_BYTES;
            ready = self.word(header + layout::HEADER_NEXT).load(Ordering::Acquire);
        }
        // The newest request is on top of the stack.
        packets.into_iter().rev().try_for_each(|index| self.answer(&mut messages, index))
    }

    /// Serves the request of a packet and hands it back.
    fn answer(&self, messages: &mut Messages, index: usize) -> Result<(), FaultKind> {
        let header = layout::FIRST_HEADER + index * layout::HEADER_BYTES;
        let active = self.word(header + layout::HEADER_ACTIVE).load(Ordering::Acquire);
        match self.half(header + layout::HEADER_SERVICE).load(Ordering::Acquire) {
            service::PRINTF => self.print(messages, index, active)?,
            service::FUNCTION_CALL => return Err(refused("calls of host functions are not supported")),
            service::DEVICE_MEMORY => self.memory(index, active)?,
            service::SANITIZER => return Err(refused("sanitizer reports are not supported")),
            other => return Err(refused(&format!("unknown service number {other}"))),
        }
        self.half(header + layout::HEADER_CONTROL).fetch_and(!1, Ordering::AcqRel);
        Ok(())
    }

    /// Offset of a lane's eight words in the packet buffer.
    fn payload(&self, index: usize, lane: usize) -> usize {
        layout::first_payload(self.packets) + index * layout::PAYLOAD_BYTES + lane * 64
    }

    /// Allocates the memory that each active lane requests, or frees the address that it passes. Zero means out of memory.
    fn memory(&self, index: usize, active: u64) -> Result<(), FaultKind> {
        let Some(pages) = &self.pages else { return Err(refused("malloc in a dispatch without a heap")) };
        for lane in lanes(active) {
            let slot = self.payload(index, lane);
            let address = self.word(slot).load(Ordering::Relaxed);
            let answer = if address == 0 {
                pages.allocate(self.word(slot + 8).load(Ordering::Relaxed)).unwrap_or(0)
            } else {
                // An address that is not an allocation is ignored, like in AMD's runtime.
                pages.free(address);
                0
            };
            self.word(slot).store(answer, Ordering::Relaxed);
            self.word(slot + 8).store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Appends each active lane's words to its message. Prints completed messages.
    fn print(&self, messages: &mut Messages, index: usize, active: u64) -> Result<(), FaultKind> {
        for lane in lanes(active) {
            let slot = self.payload(index, lane);
            let read = |k: usize| self.word(slot + 8 * k).load(Ordering::Relaxed);
            let mut message = read(0);
            if message & descriptor::BEGIN != 0 {
                if messages.open.len() >= OPEN_MESSAGES {
                    return Err(refused("too many unfinished printf messages"));
                }
                messages.last += 1;
                messages.open.insert(messages.last, Vec::new());
                message = message & 0xff & !descriptor::BEGIN | messages.last << descriptor::ID_SHIFT;
            }
            let id = message >> descriptor::ID_SHIFT;
            let Some(words) = messages.open.get_mut(&id) else { return Err(refused("unknown message ID")) };
            let count = (message >> descriptor::LENGTH_SHIFT & 7) as usize;
            if words.len() + count > MESSAGE_WORDS {
                return Err(refused("printf message is too long"));
            }
            words.extend((1..=count).map(read));
            let mut answer = message;
            if message & descriptor::END != 0 {
                let words = messages.open.remove(&id).unwrap_or_default();
                let is_error = words.first().is_some_and(|control| control & control::ERROR_STREAM != 0);
                let text = render_message(words.get(1..).unwrap_or_default());
                answer = text.len() as u64;
                let output = if is_error { &self.error_output } else { &self.output };
                if let Some(output) = output {
                    output(&text);
                }
            }
            self.word(slot).store(answer, Ordering::Relaxed);
            self.word(slot + 8).store(0, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// The lanes whose bit is set.
fn lanes(active: u64) -> impl Iterator<Item = usize> {
    (0..64).filter(move |lane| active >> lane & 1 != 0)
}

fn refused(text: &str) -> FaultKind {
    FaultKind::Hostcall { text: text.to_owned() }
}
