//! Stream capture: calls on a capturing stream add nodes to a graph instead of being executed.
//!
//! A capture begins on one stream and extends to others that wait for its events; it ends on the stream where it began,
//! when all have been joined. Calls that cannot be captured invalidate the captures they would break, with HIP's errors
//! for that.

#![allow(non_upper_case_globals, reason = "constants are named as in HIP")]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ThreadId;

use hip_api::types::*;
use parking_lot::Mutex;

use super::Graph;
use super::node::Work;
use super::tables::GraphTables;
use crate::state::handles::Table;
use crate::state::stream::{Stream, StreamRef};
use crate::state::{Status, thread};

/// Streams up to this number are the null streams of the devices.
const LAST_NULL_STREAM: u64 = 0xff;

/// The captures in progress.
#[derive(Debug, Default)]
pub struct Captures {
    /// Number of capturing streams, a fast check for when there are none.
    active: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    captures: HashMap<u64, Capture>,
    streams: HashMap<u64, Member>,
    /// Events recorded in a capture: the nodes they stand for.
    events: HashMap<u64, Recorded>,
}

#[derive(Debug)]
struct Capture {
    graph: Arc<Graph>,
    mode: hipStreamCaptureMode,
    thread: ThreadId,
    origin: u64,
    invalid: bool,
    /// Nodes exempt from joining: those that existed before, and those whose dependency the program removed.
    apart: Vec<u64>,
    /// The graph was created for this capture.
    owned: bool,
}

/// A stream of a capture.
#[derive(Debug)]
struct Member {
    capture: u64,
    /// Dependencies of its next node. Programs receive a pointer to this list.
    after: Vec<u64>,
}

#[derive(Debug)]
struct Recorded {
    capture: u64,
    after: Vec<u64>,
}

/// A capture as seen from one of its streams.
#[derive(Debug)]
pub struct View {
    pub status: hipStreamCaptureStatus,
    pub id: u64,
    pub graph: u64,
    /// Valid until the stream's next node.
    pub after: *const u64,
    pub count: usize,
}

impl State {
    fn of(&self, stream: u64) -> Option<&Capture> {
        self.captures.get(&self.streams.get(&stream)?.capture)
    }

    fn invalidate(&mut self, broken: impl Fn(u64, &Capture) -> bool) -> bool {
        let mut any = false;
        for (id, capture) in &mut self.captures {
            if broken(*id, capture) {
                capture.invalid = true;
                any = true;
            }
        }
        any
    }

    fn invalidate_one(&mut self, id: u64) {
        self.invalidate(|other, _| other == id);
    }

    /// Checks a call that no capture allows against this thread's mode. Invalidates the captures it breaks, of this and
    /// other threads, and returns whether there were any.
    fn forbid(&mut self) -> bool {
        let (mode, here) = (thread::capture_mode(), std::thread::current().id());
        if mode == hipStreamCaptureModeRelaxed {
            return false;
        }
        self.invalidate(|_, it| match it.mode {
            hipStreamCaptureModeRelaxed => false,
            hipStreamCaptureModeGlobal if mode == hipStreamCaptureModeGlobal => true,
            _ => it.thread == here,
        })
    }
}

impl Captures {
    /// Starts a capture on a stream, into a new graph or into a given one after the given nodes.
    pub fn begin(
        &self,
        graphs: &GraphTables,
        at: StreamRef,
        mode: hipStreamCaptureMode,
        into: Option<(Arc<Graph>, Vec<u64>)>,
    ) -> Status {
        let mut state = self.state.lock();
        if state.streams.contains_key(&at.id) {
            return Err(hipErrorIllegalState);
        }
        let owned = into.is_none();
        let (graph, after) = match into {
            Some(into) => into,
            None => (graphs.new_graph(at.device, 0)?, Vec::new()),
        };
        let apart = graph.nodes();
        state.next += 1;
        let id = state.next;
        let (thread, origin) = (std::thread::current().id(), at.id);
        let capture = Capture { graph, mode, thread, origin, invalid: false, apart, owned };
        state.captures.insert(id, capture);
        state.streams.insert(at.id, Member { capture: id, after });
        self.active.store(state.streams.len(), Ordering::Release);
        Ok(())
    }

    /// Ends the capture that began on a stream.
    pub fn end(&self, graphs: &GraphTables, at: StreamRef) -> Result<Arc<Graph>, hipError_t> {
        let mut state = self.state.lock();
        let member = state.streams.get(&at.id).ok_or(hipErrorIllegalState)?;
        let (id, after) = (member.capture, member.after.clone());
        let capture = state.captures.get(&id).ok_or(hipErrorIllegalState)?;
        if capture.origin != at.id {
            return Err(hipErrorStreamCaptureUnmatched);
        }
        let here = std::thread::current().id();
        if capture.mode != hipStreamCaptureModeRelaxed && capture.thread != here {
            return Err(hipErrorStreamCaptureWrongThread);
        }
        let Some(capture) = self.finish(&mut state, id) else { return Err(hipErrorIllegalState) };
        drop(state);
        let failure = if capture.invalid {
            Some(hipErrorStreamCaptureInvalidated)
        } else {
            let joined = |leaf: &u64| after.contains(leaf) || capture.apart.contains(leaf);
            let all = capture.graph.leaves().iter().all(joined);
            (!all).then_some(hipErrorStreamCaptureUnjoined)
        };
        let Some(failure) = failure else { return Ok(capture.graph) };
        if capture.owned {
            graphs.destroy(capture.graph.id)?;
        }
        Err(failure)
    }

    /// Ends a capture on all its streams.
    fn finish(&self, state: &mut State, id: u64) -> Option<Capture> {
        state.streams.retain(|_, member| member.capture != id);
        state.events.retain(|_, recorded| recorded.capture != id);
        self.active.store(state.streams.len(), Ordering::Release);
        state.captures.remove(&id)
    }

    /// The capture that a stream is in, if any.
    pub fn view(&self, stream: u64) -> View {
        let none =
            View { status: hipStreamCaptureStatusNone, id: 0, graph: 0, after: std::ptr::null(), count: 0 };
        if self.is_idle() {
            return none;
        }
        let state = self.state.lock();
        let Some(member) = state.streams.get(&stream) else { return none };
        let Some(capture) = state.captures.get(&member.capture) else { return none };
        let status =
            if capture.invalid { hipStreamCaptureStatusInvalidated } else { hipStreamCaptureStatusActive };
        View {
            status,
            id: member.capture,
            graph: capture.graph.id,
            after: member.after.as_ptr(),
            count: member.after.len(),
        }
    }

    /// Whether no stream is capturing.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.active.load(Ordering::Acquire) == 0
    }

    /// Adds work of a capturing stream as a node; `None` if the stream is not capturing and the work must be executed.
    #[cold]
    pub fn add(
        &self,
        graphs: &GraphTables,
        streams: &Table<Stream>,
        at: StreamRef,
        work: impl FnOnce() -> Result<Work, hipError_t>,
    ) -> Option<Status> {
        let mut state = self.state.lock();
        if at.id <= LAST_NULL_STREAM {
            return self.implicit(streams, &mut state).map(Err);
        }
        let capture = state.of(at.id)?;
        if capture.invalid {
            return Some(Err(hipErrorStreamCaptureInvalidated));
        }
        let graph = Arc::clone(&capture.graph);
        let member = state.streams.get_mut(&at.id)?;
        let added = work().and_then(|work| graphs.add_node(&graph, &member.after, work));
        Some(added.map(|node| member.after = vec![node]))
    }

    /// Work on the null stream would implicitly wait for blocking streams, which execute nothing while capturing.
    fn implicit(&self, streams: &Table<Stream>, state: &mut State) -> Option<hipError_t> {
        let blocking = |id: u64| streams.get(id).is_some_and(|it| it.flags & hipStreamNonBlocking == 0);
        let broken: Vec<u64> =
            state.streams.iter().filter(|(id, _)| blocking(**id)).map(|(_, it)| it.capture).collect();
        state.invalidate(|id, _| broken.contains(&id)).then_some(hipErrorStreamCaptureImplicit)
    }

    /// Whether a query of the null stream also involves capturing streams.
    pub fn involves_null_stream(&self, streams: &Table<Stream>) -> bool {
        if self.is_idle() {
            return false;
        }
        let state = self.state.lock();
        state.streams.iter().any(|(id, member)| {
            let active = state.captures.get(&member.capture).is_some_and(|it| !it.invalid);
            active && streams.get(*id).is_some_and(|it| it.flags & hipStreamNonBlocking == 0)
        })
    }

    /// For calls that cannot be captured: if the stream is capturing, invalidates its capture and returns an error.
    #[inline]
    pub fn refuse(&self, at: StreamRef) -> Status {
        if self.is_idle() {
            return Ok(());
        }
        let mut state = self.state.lock();
        match state.streams.get(&at.id).map(|it| it.capture) {
            None => Ok(()),
            Some(id) => {
                state.invalidate_one(id);
                Err(hipErrorStreamCaptureUnsupported)
            }
        }
    }

    /// For calls that wait for a stream: an error if it is capturing, or if this thread's mode forbids waiting.
    #[inline]
    pub fn refuse_waiting(&self, at: StreamRef) -> Status {
        if self.is_idle() {
            return Ok(());
        }
        self.refuse(at)?;
        if at.id > LAST_NULL_STREAM && self.state.lock().forbid() {
            return Err(hipErrorStreamCaptureUnsupported);
        }
        Ok(())
    }

    /// For calls that might wait or free (allocations and the like): an error if this thread's mode forbids them.
    #[inline]
    pub fn refuse_unsafe(&self) -> Status {
        if !self.is_idle() && self.state.lock().forbid() {
            return Err(hipErrorStreamCaptureUnsupported);
        }
        Ok(())
    }

    /// For calls that involve every stream: invalidates all captures and returns `error` if there were any.
    #[inline]
    pub fn refuse_any(&self, error: hipError_t) -> Status {
        if !self.is_idle() && self.state.lock().invalidate(|_, _| true) {
            return Err(error);
        }
        Ok(())
    }

    /// Captures the recording of an event; `None` if the stream is not capturing.
    #[inline]
    pub fn record_event(&self, at: StreamRef, event: u64) -> Option<Status> {
        if self.is_idle() {
            return None;
        }
        let mut state = self.state.lock();
        let Some(capture) = state.of(at.id) else {
            // A real record replaces the captured one.
            state.events.remove(&event);
            return None;
        };
        if capture.invalid {
            return Some(Err(hipErrorStreamCaptureInvalidated));
        }
        let member = state.streams.get(&at.id)?;
        let recorded = Recorded { capture: member.capture, after: member.after.clone() };
        state.events.insert(event, recorded);
        Some(Ok(()))
    }

    /// Captures a wait for an event; `None` if no capture is involved. `was_recorded`: outside of any capture.
    #[inline]
    pub fn wait_event(&self, at: StreamRef, event: u64, was_recorded: bool) -> Option<Status> {
        if self.is_idle() {
            return None;
        }
        let mut state = self.state.lock();
        let own = state.streams.get(&at.id).map(|it| it.capture);
        if own.is_some_and(|id| state.captures.get(&id).is_some_and(|it| it.invalid)) {
            return Some(Err(hipErrorStreamCaptureInvalidated));
        }
        let Some(recorded) = state.events.get(&event) else {
            let own = own?;
            if !was_recorded {
                return Some(Ok(()));
            }
            state.invalidate_one(own);
            return Some(Err(hipErrorStreamCaptureIsolation));
        };
        let (id, nodes) = (recorded.capture, recorded.after.clone());
        if at.id <= LAST_NULL_STREAM {
            return Some(Err(hipErrorInvalidHandle));
        }
        if state.captures.get(&id).is_some_and(|it| it.invalid) {
            return Some(Err(hipErrorStreamCaptureInvalidated));
        }
        match own {
            Some(own) if own != id => {
                state.invalidate_one(own);
                state.invalidate_one(id);
                return Some(Err(hipErrorStreamCaptureMerge));
            }
            _ => {}
        }
        let member = state.streams.entry(at.id).or_insert(Member { capture: id, after: Vec::new() });
        for node in nodes {
            if !member.after.contains(&node) {
                member.after.push(node);
            }
        }
        self.active.store(state.streams.len(), Ordering::Release);
        Some(Ok(()))
    }

    /// For queries of an event: if it was recorded in a capture, invalidates the capture and returns an error.
    #[inline]
    pub fn refuse_event(&self, event: u64) -> Status {
        if self.is_idle() {
            return Ok(());
        }
        let mut state = self.state.lock();
        match state.events.get(&event).map(|it| it.capture) {
            None => Ok(()),
            Some(id) => {
                state.invalidate_one(id);
                Err(hipErrorCapturedEvent)
            }
        }
    }

    /// Changes the dependencies of a stream's next node.
    pub fn depend(&self, at: StreamRef, nodes: &[u64], replace: bool) -> Status {
        let mut state = self.state.lock();
        let capture = state.of(at.id).ok_or(hipErrorIllegalState)?;
        if capture.invalid {
            return Err(hipErrorStreamCaptureInvalidated);
        }
        if !nodes.iter().all(|it| capture.graph.contains(*it)) {
            return Err(hipErrorInvalidValue);
        }
        let member = state.streams.get_mut(&at.id).ok_or(hipErrorIllegalState)?;
        let let_go = if replace { std::mem::take(&mut member.after) } else { Vec::new() };
        for node in nodes {
            if !member.after.contains(node) {
                member.after.push(*node);
            }
        }
        let id = member.capture;
        if let Some(capture) = state.captures.get_mut(&id) {
            capture.apart.extend(let_go);
        }
        Ok(())
    }

    /// Exempts a node from joining that the program added to a capturing graph itself.
    pub fn set_apart(&self, graph: u64, node: u64) {
        if self.is_idle() {
            return;
        }
        let mut state = self.state.lock();
        for capture in state.captures.values_mut().filter(|it| it.graph.id == graph) {
            capture.apart.push(node);
        }
    }

    /// Ends the capture of a stream that is destroyed.
    pub fn abandon(&self, graphs: &GraphTables, stream: u64) {
        if self.is_idle() {
            return;
        }
        let mut state = self.state.lock();
        let Some(member) = state.streams.remove(&stream) else { return };
        self.active.store(state.streams.len(), Ordering::Release);
        let is_origin = state.captures.get(&member.capture).is_some_and(|it| it.origin == stream);
        let ended = if is_origin { self.finish(&mut state, member.capture) } else { None };
        drop(state);
        if let Some(capture) = ended.filter(|it| it.owned) {
            // The program cannot have destroyed this graph: it never received its handle.
            let _ = graphs.destroy(capture.graph.id);
        }
    }
}
