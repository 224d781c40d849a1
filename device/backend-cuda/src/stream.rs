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
/// Offset of the timeline in a stream's pinned memory.
const PROGRESS: usize = 0;

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
    /// Number that the timeline has when all commands of the stream have ended.
    reserved: u32,
    /// Number that it has when those have ended that the driver has got.
    submitted: u32,
    /// Commands that may not have ended.
    pending: VecDeque<Pending>,
}

/// A command that the driver has got.
struct Pending {
    number: u32,
    origin: Origin,
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
        Stream { id, device, non_blocking, handle, words, timeline: Mutex::default() }
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

    /// Gives a command to the driver with `queue`, and advances the timeline to `number` after it, even if the driver refuses the
    /// command. The context of the stream's device must be current, and numbers must come in their order.
    pub(crate) fn submit<T>(
        &self,
        functions: &Functions,
        number: u32,
        origin: &Origin,
        queue: impl FnOnce(CuStream) -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        let result = queue(self.handle());
        let at = self.words.address() + PROGRESS as u64;
        let advanced = call!(functions, cuStreamWriteValue32_v2(self.handle(), at, number, 0));
        let mut timeline = self.timeline.lock();
        timeline.submitted = number;
        let reached = self.progress();
        while timeline.pending.front().is_some_and(|first| is_reached(first.number, reached)) {
            timeline.pending.pop_front();
        }
        if result.is_ok() {
            timeline.pending.push_back(Pending { number, origin: origin.clone() });
        }
        result.and_then(|result| advanced.map(|()| result))
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

    /// The first command that has not ended.
    pub(crate) fn first_pending(&self) -> Option<Origin> {
        let reached = self.progress();
        let timeline = self.timeline.lock();
        timeline.pending.iter().find(|it| !is_reached(it.number, reached)).map(|it| it.origin.clone())
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
