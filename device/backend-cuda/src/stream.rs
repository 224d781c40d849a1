//! Streams, and the timeline of each: a number in pinned memory that the GPU advances after every command.
//!
//! The timeline answers three questions without a call of the driver: whether work has ended, which command was the first that
//! did not end before a fault, and whether a stream is idle.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use backend::{DeviceError, StreamId, Tag};
use parking_lot::Mutex;

use crate::error::call;
use crate::functions::Functions;
use crate::pinned::Piece;
use crate::types::*;

/// IDs up to this are reserved for the null streams of the devices.
const LAST_NULL_STREAM: StreamId = 0xff;
/// Offsets in a stream's pinned memory.
const PROGRESS: usize = 0;
const RELEASED: usize = 128;

/// A stream of a device.
pub(crate) struct Stream {
    pub(crate) id: StreamId,
    pub(crate) device: u32,
    pub(crate) non_blocking: bool,
    handle: usize,
    words: Piece,
    timeline: Mutex<Timeline>,
}

#[derive(Default)]
struct Timeline {
    /// Number that the timeline has when all queued commands have ended.
    queued: u32,
    /// Number of host functions that were queued.
    host_functions: u32,
    /// Commands that may not have ended.
    pending: VecDeque<Pending>,
}

/// A command that has not ended.
#[derive(Clone)]
pub(crate) struct Pending {
    number: u32,
    pub(crate) tag: Tag,
    /// The kernel's name, or what else the command is.
    pub(crate) what: Arc<str>,
    pub(crate) is_kernel: bool,
}

impl Stream {
    /// A stream with `handle`; `words` must be zeroed.
    pub(crate) fn new(id: StreamId, device: u32, non_blocking: bool, handle: usize, words: Piece) -> Stream {
        words.word(PROGRESS).store(0, Ordering::Relaxed);
        words.word(RELEASED).store(0, Ordering::Relaxed);
        Stream { id, device, non_blocking, handle, words, timeline: Mutex::default() }
    }

    pub(crate) fn handle(&self) -> CuStream {
        self.handle as CuStream
    }

    pub(crate) fn is_null(&self) -> bool {
        self.id <= LAST_NULL_STREAM
    }

    /// Queues a command with `queue` and advances the timeline after it. The context of the stream's device must be current.
    pub(crate) fn run<T>(
        self: &Arc<Stream>,
        functions: &Functions,
        tag: Tag,
        what: &Arc<str>,
        is_kernel: bool,
        queue: impl FnOnce(CuStream) -> Result<T, DeviceError>,
    ) -> Result<(T, Mark), DeviceError> {
        let mut timeline = self.timeline.lock();
        let result = queue(self.handle())?;
        let number = timeline.queued.wrapping_add(1);
        let at = self.words.address() + PROGRESS as u64;
        call!(functions, cuStreamWriteValue32_v2(self.handle(), at, number, 0))?;
        timeline.queued = number;
        let reached = self.progress();
        while timeline.pending.front().is_some_and(|first| is_reached(first.number, reached)) {
            timeline.pending.pop_front();
        }
        timeline.pending.push_back(Pending { number, tag, what: Arc::clone(what), is_kernel });
        Ok((result, Mark { stream: Arc::clone(self), number }))
    }

    /// Queues a stop of the stream until [`Stream::release`] is called with the number that this returns. `announce` gets the stream
    /// first, to queue what tells of the stop.
    pub(crate) fn hold(
        self: &Arc<Stream>,
        functions: &Functions,
        tag: Tag,
        what: &Arc<str>,
        announce: impl FnOnce(CuStream) -> Result<(), DeviceError>,
    ) -> Result<u32, DeviceError> {
        let number = {
            let mut timeline = self.timeline.lock();
            timeline.host_functions = timeline.host_functions.wrapping_add(1);
            timeline.host_functions
        };
        let at = self.words.address() + RELEASED as u64;
        self.run(functions, tag, what, false, |stream| {
            announce(stream)?;
            call!(functions, cuStreamWaitValue32_v2(stream, at, number, WAIT_VALUE_CYCLIC))
        })?;
        Ok(number)
    }

    /// Ends the stop with this number.
    pub(crate) fn release(&self, number: u32) {
        self.words.word(RELEASED).store(number, Ordering::Release);
    }

    /// The end of all work that has been queued so far.
    pub(crate) fn end(self: &Arc<Stream>) -> Mark {
        Mark { stream: Arc::clone(self), number: self.timeline.lock().queued }
    }

    /// The first command that has not ended.
    pub(crate) fn first_pending(&self) -> Option<Pending> {
        let reached = self.progress();
        let timeline = self.timeline.lock();
        timeline.pending.iter().find(|it| !is_reached(it.number, reached)).cloned()
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
    /// Whether all work before the point has ended.
    pub(crate) fn is_reached(&self) -> bool {
        is_reached(self.number, self.stream.progress())
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
