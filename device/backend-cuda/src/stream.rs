//! Streams, and the timeline of each: a number in pinned memory that the GPU advances.
//!
//! The timeline answers three questions without a call of the driver: whether work has ended, which commands may have caused a
//! fault, and whether a stream is idle. The GPU does not overlap a write of the number with kernels, so there is none after every
//! command: only where something waits for it, when nothing else is to be queued, and after many commands.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use backend::{DeviceError, StreamId, Tag};
use parking_lot::Mutex;

use crate::error::call;
use crate::functions::Functions;
use crate::pinned::Piece;
use crate::types::*;

/// IDs up to this are reserved for the null streams of the devices.
const LAST_NULL_STREAM: StreamId = 0xff;
/// Offset of the timeline in a stream's pinned memory.
const PROGRESS: usize = 0;
/// Most commands in a row after which the timeline is not advanced.
const MOST_UNPUBLISHED: u32 = 64;
/// Most commands of a stream that the driver has got and the GPU has not ended. The driver's queues hold 1,024, and streams share
/// them. At a full queue the driver blocks the caller, with a lock that every other call needs.
pub(crate) const MOST_SUBMITTED: u32 = 256;

/// A stream of a device.
pub(crate) struct Stream {
    pub(crate) id: StreamId,
    pub(crate) device: u32,
    pub(crate) non_blocking: bool,
    handle: usize,
    words: Piece,
    timeline: Mutex<Timeline>,
    /// Length of the list of reads, so that it is rarely looked at.
    reads: AtomicUsize,
}

#[derive(Default)]
struct Timeline {
    /// Number of the last command of the stream.
    reserved: u32,
    /// Number of the last command that the driver has got.
    submitted: u32,
    /// Last number that the driver was told to advance the timeline to.
    published: u32,
    /// Commands that may not have ended.
    pending: VecDeque<Pending>,
    /// Numbers of reads whose bytes have not been passed on.
    reads: VecDeque<u32>,
}

/// A command that the driver has got.
struct Pending {
    number: u32,
    origin: Origin,
    /// The timeline is advanced after it.
    is_published: bool,
}

/// Numbers of a timeline that belong to one command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    pub(crate) first: u32,
    pub(crate) last: u32,
}

/// Where a command comes from, for messages.
#[derive(Clone)]
pub(crate) struct Origin {
    pub(crate) tag: Tag,
    /// The kernel's name, or what else the command is.
    pub(crate) what: Arc<str>,
    pub(crate) is_kernel: bool,
}

impl Stream {
    /// A stream with `handle`; `words` must be zeroed.
    pub(crate) fn new(id: StreamId, device: u32, non_blocking: bool, handle: usize, words: Piece) -> Stream {
        words.word(PROGRESS).store(0, Ordering::Relaxed);
        let (timeline, reads) = (Mutex::default(), AtomicUsize::new(0));
        Stream { id, device, non_blocking, handle, words, timeline, reads }
    }

    pub(crate) fn handle(&self) -> CuStream {
        self.handle as CuStream
    }

    pub(crate) fn is_null(&self) -> bool {
        self.id <= LAST_NULL_STREAM
    }

    /// Reserves the next `count` numbers of the timeline for a command, and returns them.
    pub(crate) fn reserve(&self, count: u32) -> Numbers {
        let mut timeline = self.timeline.lock();
        let first = timeline.reserved.wrapping_add(1);
        timeline.reserved = timeline.reserved.wrapping_add(count);
        Numbers { first, last: timeline.reserved }
    }

    /// Gives a command to the driver with `queue`. Its number counts as queued even if the driver refuses the command. The context
    /// of the stream's device must be current, and numbers must come in their order. [`Stream::publish`] advances the timeline.
    pub(crate) fn submit<T>(
        &self,
        functions: &Functions,
        number: u32,
        origin: &Origin,
        queue: impl FnOnce(CuStream) -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        let result = queue(self.handle());
        let mut timeline = self.timeline.lock();
        timeline.submitted = number;
        let reached = self.progress();
        while timeline.pending.front().is_some_and(|first| is_reached(first.number, reached)) {
            timeline.pending.pop_front();
        }
        if result.is_ok() {
            timeline.pending.push_back(Pending { number, origin: origin.clone(), is_published: false });
        }
        if number.wrapping_sub(timeline.published) >= MOST_UNPUBLISHED {
            let published = self.advance(functions, &mut timeline);
            return result.and_then(|result| published.map(|()| result));
        }
        result
    }

    /// Makes the GPU advance the timeline after what the driver has got. The context of the stream's device must be current.
    pub(crate) fn publish(&self, functions: &Functions) -> Result<(), DeviceError> {
        let mut timeline = self.timeline.lock();
        match timeline.published == timeline.submitted {
            true => Ok(()),
            false => self.advance(functions, &mut timeline),
        }
    }

    /// Called with the timeline locked, so that the numbers come to the driver in their order.
    fn advance(&self, functions: &Functions, timeline: &mut Timeline) -> Result<(), DeviceError> {
        let at = self.words.address() + PROGRESS as u64;
        call!(functions, cuStreamWriteValue32_v2(self.handle(), at, timeline.submitted, 0))?;
        timeline.published = timeline.submitted;
        if let Some(last) = timeline.pending.back_mut() {
            last.is_published = true;
        }
        Ok(())
    }

    /// Whether the driver has got commands after which the timeline is not advanced yet.
    pub(crate) fn is_unpublished(&self) -> bool {
        let timeline = self.timeline.lock();
        timeline.published != timeline.submitted
    }

    /// Notes that the bytes of the read with this number are still to be passed on. Numbers must come in their order.
    pub(crate) fn begin_read(&self, number: u32) {
        let mut timeline = self.timeline.lock();
        timeline.reads.push_back(number);
        self.reads.store(timeline.reads.len(), Ordering::Release);
    }

    /// Notes that the bytes of a read have been passed on.
    pub(crate) fn end_read(&self, number: u32) {
        let mut timeline = self.timeline.lock();
        timeline.reads.retain(|it| *it != number);
        self.reads.store(timeline.reads.len(), Ordering::Release);
    }

    /// Whether the bytes of all reads up to `number` have been passed on.
    fn has_passed_on(&self, number: u32) -> bool {
        self.reads.load(Ordering::Acquire) == 0
            || self.timeline.lock().reads.front().is_none_or(|first| !is_reached(*first, number))
    }

    /// Whether the driver has got as many commands as it should have at a time.
    pub(crate) fn is_full(&self) -> bool {
        self.timeline.lock().submitted.wrapping_sub(self.progress()) >= MOST_SUBMITTED
    }

    /// A point of a full stream's timeline after which the driver should get more commands.
    pub(crate) fn half_empty(self: &Arc<Stream>) -> Mark {
        let submitted = self.timeline.lock().submitted;
        self.mark(submitted.wrapping_sub(MOST_SUBMITTED / 2))
    }

    /// Whether the driver has got everything up to `number`.
    pub(crate) fn has_submitted(&self, number: u32) -> bool {
        is_reached(number, self.timeline.lock().submitted)
    }

    /// A point of the timeline.
    pub(crate) fn mark(self: &Arc<Stream>, number: u32) -> Mark {
        Mark { stream: Arc::clone(self), number }
    }

    /// The end of all work that has been queued so far.
    pub(crate) fn end(self: &Arc<Stream>) -> Mark {
        Mark { stream: Arc::clone(self), number: self.timeline.lock().reserved }
    }

    /// The commands of which one is the first that has not ended: those up to the next advance of the timeline.
    pub(crate) fn suspects(&self) -> Vec<Origin> {
        let reached = self.progress();
        let timeline = self.timeline.lock();
        let mut found = Vec::new();
        for pending in timeline.pending.iter().filter(|it| !is_reached(it.number, reached)) {
            found.push(pending.origin.clone());
            if pending.is_published {
                break;
            }
        }
        found
    }

    fn progress(&self) -> u32 {
        self.words.word(PROGRESS).load(Ordering::Acquire)
    }
}

/// Whether a timeline at `reached` has come to `number`. The numbers wrap around.
fn is_reached(number: u32, reached: u32) -> bool {
    reached.wrapping_sub(number) as i32 >= 0
}

/// A point of a stream's timeline.
#[derive(Clone)]
pub(crate) struct Mark {
    stream: Arc<Stream>,
    number: u32,
}

impl Mark {
    /// Whether the driver has got all work before the point.
    pub(crate) fn is_submitted(&self) -> bool {
        self.stream.has_submitted(self.number)
    }

    /// Whether the GPU has ended all work before the point.
    pub(crate) fn is_executed(&self) -> bool {
        is_reached(self.number, self.stream.progress())
    }

    /// Whether all work before the point has ended, and what it read has been passed on.
    pub(crate) fn is_reached(&self) -> bool {
        self.is_executed() && self.stream.has_passed_on(self.number)
    }
}

/// The streams of a session, by ID.
#[derive(Default)]
pub(crate) struct Streams {
    streams: HashMap<StreamId, Arc<Stream>>,
    /// Destroyed streams whose work may not have ended.
    destroyed: Vec<Arc<Stream>>,
}

impl Streams {
    pub(crate) fn insert(&mut self, stream: Stream) {
        self.streams.insert(stream.id, Arc::new(stream));
    }

    pub(crate) fn is_free(&self, id: StreamId) -> bool {
        id > LAST_NULL_STREAM && !self.streams.contains_key(&id)
    }

    pub(crate) fn get(&self, id: StreamId) -> Result<Arc<Stream>, DeviceError> {
        self.streams.get(&id).cloned().ok_or_else(|| unknown(id))
    }

    /// Removes a stream; its work still counts as work of its device until [`Streams::forget`].
    pub(crate) fn remove(&mut self, id: StreamId) -> Result<Arc<Stream>, DeviceError> {
        if id <= LAST_NULL_STREAM {
            return Err(unknown(id));
        }
        let stream = self.streams.remove(&id).ok_or_else(|| unknown(id))?;
        self.destroyed.push(Arc::clone(&stream));
        Ok(stream)
    }

    /// Drops a destroyed stream whose work has ended.
    pub(crate) fn forget(&mut self, stream: &Arc<Stream>) {
        self.destroyed.retain(|it| !Arc::ptr_eq(it, stream));
    }

    /// All streams whose work may not have ended.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Stream>> {
        self.streams.values().chain(&self.destroyed)
    }
}

fn unknown(id: StreamId) -> DeviceError {
    DeviceError::invalid_handle(format!("there is no stream {id:#x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_may_wrap_around() {
        assert!(is_reached(5, 5) && is_reached(5, 6) && !is_reached(6, 5));
        assert!(is_reached(u32::MAX, 0) && is_reached(u32::MAX, 3) && !is_reached(3, u32::MAX));
    }
}
