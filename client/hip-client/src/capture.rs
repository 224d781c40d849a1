//! Stream capture: what is asked of a capturing stream is kept as a graph instead of being done.
//!
//! A graph is a list: launching it asks for the same work again, in the same order, on one stream. Work that would need
//! more than that (events that fork into other streams, stream-ordered allocation) and everything that waits for the stream
//! is refused and invalidates the capture, as HIP has it for what cannot be captured.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hip_api::types::*;
use parking_lot::Mutex;

use crate::calls::Status;
use crate::calls::stream::StreamRef;
use crate::runtime::Runtime;

/// One piece of work, as often as it is wanted.
pub type Work = Arc<dyn Fn(&Runtime, StreamRef) -> Status + Send + Sync>;

/// What was captured.
pub struct Graph {
    device: usize,
    nodes: Vec<Work>,
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Graph")
            .field("device", &self.device)
            .field("nodes", &self.nodes.len())
            .finish_non_exhaustive()
    }
}

impl Graph {
    /// Asks for all of it, in order.
    pub fn launch(&self, runtime: &Runtime, at: StreamRef) -> Status {
        if at.device != self.device {
            return Err(hipErrorInvalidValue);
        }
        self.nodes.iter().try_for_each(|work| work(runtime, at))
    }
}

/// A graph that can be launched. It outlives the graph it was made from.
#[derive(Debug)]
pub struct Executable {
    pub graph: Arc<Graph>,
}

/// The streams that are being captured.
#[derive(Debug, Default)]
pub struct Captures {
    /// How many there are, so that without any nobody looks further.
    active: AtomicUsize,
    next: AtomicU64,
    streams: Mutex<HashMap<u64, Recording>>,
}

#[derive(Debug)]
struct Recording {
    id: u64,
    graph: Graph,
    invalid: bool,
}

impl Captures {
    pub fn begin(&self, at: StreamRef) -> Status {
        let mut streams = self.streams.lock();
        if streams.contains_key(&at.id) {
            return Err(hipErrorIllegalState);
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let graph = Graph { device: at.device, nodes: Vec::new() };
        streams.insert(at.id, Recording { id, graph, invalid: false });
        self.active.store(streams.len(), Ordering::Release);
        Ok(())
    }

    pub fn end(&self, at: StreamRef) -> Result<Graph, hipError_t> {
        let recording = self.forget(at.id).ok_or(hipErrorIllegalState)?;
        if recording.invalid { Err(hipErrorStreamCaptureInvalidated) } else { Ok(recording.graph) }
    }

    /// Whether the stream is captured: the number of the capture, and whether it can still succeed.
    pub fn status(&self, at: StreamRef) -> (hipStreamCaptureStatus, u64) {
        match self.streams.lock().get(&at.id) {
            None => (hipStreamCaptureStatusNone, 0),
            Some(recording) if recording.invalid => (hipStreamCaptureStatusInvalidated, recording.id),
            Some(recording) => (hipStreamCaptureStatusActive, recording.id),
        }
    }

    /// Keeps work of a capturing stream; `None` if the stream is not captured and the work is to be done.
    #[inline]
    pub fn keep(&self, at: StreamRef, work: impl FnOnce() -> Work) -> Option<Status> {
        if self.active.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut streams = self.streams.lock();
        let recording = streams.get_mut(&at.id)?;
        if recording.invalid {
            return Some(Err(hipErrorStreamCaptureInvalidated));
        }
        recording.graph.nodes.push(work());
        Some(Ok(()))
    }

    /// Called for what cannot be captured: an error if the stream is, and then its capture has failed.
    #[inline]
    pub fn refuse(&self, at: StreamRef) -> Status {
        if self.active.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        match self.streams.lock().get_mut(&at.id) {
            None => Ok(()),
            Some(recording) => {
                recording.invalid = true;
                Err(hipErrorStreamCaptureUnsupported)
            }
        }
    }

    /// Drops the capture of a stream that is destroyed.
    pub fn abandon(&self, stream: u64) {
        self.forget(stream);
    }

    fn forget(&self, stream: u64) -> Option<Recording> {
        let mut streams = self.streams.lock();
        let recording = streams.remove(&stream);
        self.active.store(streams.len(), Ordering::Release);
        recording
    }
}
