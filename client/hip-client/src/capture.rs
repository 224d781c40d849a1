//! Stream capture: what is asked of a capturing stream becomes nodes of a graph instead of being done.
//!
//! A capture begins on one stream and spreads to others that wait for its events; it ends where it began, when all have come
//! back together. What cannot be captured invalidates the captures it would break, with the errors HIP has for that.

#![allow(non_upper_case_globals, reason = "constants carry the vendor's names")]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ThreadId;

use hip_api::types::*;
use parking_lot::Mutex;

use crate::calls::Status;
use crate::calls::stream::StreamRef;
use crate::graph::Graph;
use crate::graph::node::Work as NodeWork;
use crate::runtime::Runtime;
use crate::thread;

/// One piece of work, as often as it is wanted.
pub type Work = Arc<dyn Fn(&Runtime, StreamRef) -> Status + Send + Sync>;

/// Streams up to this are the null streams of the devices.
const LAST_NULL_STREAM: u64 = 0xff;

/// The captures that are under way.
#[derive(Debug, Default)]
pub struct Captures {
    /// How many streams there are in them, so that without any nobody looks further.
    active: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    captures: HashMap<u64, Capture>,
    streams: HashMap<u64, Member>,
    /// What an event that was recorded in a capture stands for.
    events: HashMap<u64, Recorded>,
}

#[derive(Debug)]
struct Capture {
    graph: Arc<Graph>,
    mode: hipStreamCaptureMode,
    thread: ThreadId,
    origin: u64,
    invalid: bool,
    /// Nodes that need not be joined: those that were there before, and those the program let go of.
    apart: Vec<u64>,
    /// The graph was made for the capture.
    owned: bool,
}

/// A stream of a capture.
#[derive(Debug)]
struct Member {
    capture: u64,
    /// What its next node comes after. Programs are given a pointer to this list.
    after: Vec<u64>,
}

#[derive(Debug)]
struct Recorded {
    capture: u64,
    after: Vec<u64>,
}

/// A capture, seen from one of its streams.
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

    /// Whether a call that no capture allows is made: by this thread's mode, for its own and other threads' captures.
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
    pub fn begin(
        &self,
        runtime: &Runtime,
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
            None => (runtime.new_graph(at.device, 0)?, Vec::new()),
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

    pub fn end(&self, runtime: &Runtime, at: StreamRef) -> Result<Arc<Graph>, hipError_t> {
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
            runtime.destroy_graph(capture.graph.id)?;
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

    #[inline]
    fn is_idle(&self) -> bool {
        self.active.load(Ordering::Acquire) == 0
    }

    /// Makes work of a capturing stream a node; `None` if the stream is not captured and the work is to be done.
    #[inline]
    pub fn record(
        &self,
        runtime: &Runtime,
        at: StreamRef,
        work: impl FnOnce() -> Result<NodeWork, hipError_t>,
    ) -> Option<Status> {
        if self.is_idle() { None } else { self.put(runtime, at, work) }
    }

    #[cold]
    fn put(
        &self,
        runtime: &Runtime,
        at: StreamRef,
        work: impl FnOnce() -> Result<NodeWork, hipError_t>,
    ) -> Option<Status> {
        let mut state = self.state.lock();
        if at.id <= LAST_NULL_STREAM {
            return self.implicit(runtime, &mut state).map(Err);
        }
        let capture = state.of(at.id)?;
        if capture.invalid {
            return Some(Err(hipErrorStreamCaptureInvalidated));
        }
        let graph = Arc::clone(&capture.graph);
        let member = state.streams.get_mut(&at.id)?;
        let added = work().and_then(|work| runtime.add_node(&graph, &member.after, work));
        Some(added.map(|node| member.after = vec![node]))
    }

    /// Work on the null stream would wait for blocking streams, which do nothing while they are captured.
    fn implicit(&self, runtime: &Runtime, state: &mut State) -> Option<hipError_t> {
        let blocking =
            |id: u64| runtime.streams.get(id).is_some_and(|it| it.flags & hipStreamNonBlocking == 0);
        let broken: Vec<u64> =
            state.streams.iter().filter(|(id, _)| blocking(**id)).map(|(_, it)| it.capture).collect();
        state.invalidate(|id, _| broken.contains(&id)).then_some(hipErrorStreamCaptureImplicit)
    }

    /// Whether asking about the null stream is asking about captured streams too.
    pub fn involves_null_stream(&self, runtime: &Runtime) -> bool {
        if self.is_idle() {
            return false;
        }
        let state = self.state.lock();
        state.streams.iter().any(|(id, member)| {
            let active = state.captures.get(&member.capture).is_some_and(|it| !it.invalid);
            active && runtime.streams.get(*id).is_some_and(|it| it.flags & hipStreamNonBlocking == 0)
        })
    }

    /// Called for what cannot be captured: an error if the stream is, and then its capture has failed.
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

    /// Called for what waits for a stream: an error if that is captured, or if this thread may wait for none.
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

    /// Called for what might wait or free (allocations and the like): an error if this thread's mode forbids that.
    #[inline]
    pub fn refuse_unsafe(&self) -> Status {
        if !self.is_idle() && self.state.lock().forbid() {
            return Err(hipErrorStreamCaptureUnsupported);
        }
        Ok(())
    }

    /// Called for what involves every stream, in the way that `error` says.
    #[inline]
    pub fn refuse_any(&self, error: hipError_t) -> Status {
        if !self.is_idle() && self.state.lock().invalidate(|_, _| true) {
            return Err(error);
        }
        Ok(())
    }

    /// A record of an event; `None` if the stream is not captured.
    #[inline]
    pub fn record_event(&self, at: StreamRef, event: u64) -> Option<Status> {
        if self.is_idle() {
            return None;
        }
        let mut state = self.state.lock();
        let Some(capture) = state.of(at.id) else {
            // Recorded for real: it stands for no capture any more.
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

    /// A wait for an event; `None` if no capture is concerned. `was_recorded`: outside of any capture.
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

    /// Called for what asks how far an event is: an error if it was recorded in a capture, which then has failed.
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

    /// Changes what a stream's next node comes after.
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

    /// A node that the program itself put into a graph need not be joined.
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
    pub fn abandon(&self, runtime: &Runtime, stream: u64) {
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
            // The program cannot have destroyed a graph that it was never given.
            let _ = runtime.destroy_graph(capture.graph.id);
        }
    }
}
