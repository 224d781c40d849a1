//! Queues of a session's streams, and the dependencies between them.
//!
//! Every stream counts its commands. A dependency is a count that another stream must reach. This file computes the dependencies
//! (null-stream rules, events, scopes of a wait); it runs nothing.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use backend::{Command, DeviceError, EventId, Region, Scope, StreamId, Tag};

use crate::event::{Event, Record};
use crate::waiting::Waiting;

/// IDs up to this are reserved for the null streams of the devices.
pub(crate) const LAST_NULL_STREAM: StreamId = 0xff;
/// Copies and fills up to this size run on the caller's thread.
const INLINE_BYTES: u64 = 256 << 10;

/// Number of completed commands of a stream.
#[derive(Debug, Default)]
pub(crate) struct Progress(AtomicU64);

impl Progress {
    /// Counts one more completed command.
    pub(crate) fn advance(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn reached(&self, ticket: u64) -> bool {
        self.0.load(Ordering::Acquire) >= ticket
    }
}

/// Dependency on a position in a stream.
#[derive(Clone, Debug)]
pub(crate) struct Need {
    pub(crate) progress: Arc<Progress>,
    pub(crate) ticket: u64,
}

impl Need {
    pub(crate) fn is_met(&self) -> bool {
        self.progress.reached(self.ticket)
    }
}

/// Action of a task when it reaches the head of its stream.
pub(crate) enum Job {
    /// Executes a command; all commands except events and host functions.
    Run(Command),
    Stamp(Arc<Record>),
    Host(u64),
    /// Does nothing; the task exists only for its dependencies.
    Wait,
}

pub(crate) struct Task {
    pub(crate) tag: Tag,
    pub(crate) device: u32,
    pub(crate) job: Job,
    pub(crate) needs: Vec<Need>,
    pub(crate) start: Option<Arc<Record>>,
    pub(crate) stop: Option<Arc<Record>>,
}

pub(crate) struct Stream {
    pub(crate) device: u32,
    /// The stream synchronizes with the null stream.
    pub(crate) blocking: bool,
    pub(crate) priority: i32,
    pub(crate) queue: VecDeque<Task>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) submitted: u64,
    /// A thread runs the stream, it is in `ready`, or it waits for a host function.
    pub(crate) busy: bool,
    pub(crate) destroyed: bool,
}

impl Stream {
    pub(crate) fn is_idle(&self) -> bool {
        !self.busy && self.queue.is_empty()
    }

    pub(crate) fn tail(&self) -> Need {
        Need { progress: Arc::clone(&self.progress), ticket: self.submitted }
    }
}

#[derive(Default)]
pub(crate) struct Load {
    pub(crate) active: u32,
    pub(crate) since: Option<Instant>,
    pub(crate) nanos: u64,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) streams: HashMap<StreamId, Stream>,
    pub(crate) events: HashMap<EventId, Event>,
    /// Streams with submitted work that has not completed.
    pub(crate) pending: HashSet<StreamId>,
    /// Total number of submitted commands.
    pub(crate) submissions: u64,
    pub(crate) ready: VecDeque<StreamId>,
    /// Streams whose head has unmet dependencies, and callbacks that wait for streams.
    pub(crate) waiting: Waiting,
    pub(crate) paused: HashMap<u64, StreamId>,
    pub(crate) sleeping: usize,
    pub(crate) queued: usize,
    pub(crate) held_bytes: u64,
    pub(crate) fault: Option<DeviceError>,
    pub(crate) loads: Vec<Load>,
    pub(crate) stopping: bool,
}

impl State {
    pub(crate) fn stream_mut(&mut self, id: StreamId) -> Result<&mut Stream, DeviceError> {
        match self.streams.get_mut(&id) {
            Some(stream) if !stream.destroyed => Ok(stream),
            _ => Err(unknown_stream(id)),
        }
    }

    pub(crate) fn admit(&mut self, id: StreamId) -> Result<(), DeviceError> {
        match &self.fault {
            Some(fault) => Err(fault.clone()),
            None => self.stream_mut(id).map(|_| ()),
        }
    }

    /// Dependencies of a new command of a stream according to the null-stream rules.
    pub(crate) fn needs_of(&self, id: StreamId) -> Vec<Need> {
        let Some(stream) = self.streams.get(&id) else { return Vec::new() };
        if id <= LAST_NULL_STREAM {
            let others = self.pending.iter().filter(|other| **other != id);
            let others = others.filter_map(|other| self.streams.get(other));
            others.filter(|it| it.blocking && it.device == stream.device).map(Stream::tail).collect()
        } else if stream.blocking {
            let null = u64::from(stream.device);
            let pending = self.pending.contains(&null).then(|| self.streams.get(&null)).flatten();
            pending.map(Stream::tail).into_iter().collect()
        } else {
            Vec::new()
        }
    }

    /// The positions that must be reached before `scope` is idle; empty if it is idle.
    pub(crate) fn needs_for(&self, scope: Scope) -> Result<Vec<Need>, DeviceError> {
        let mut needs = match scope {
            Scope::Stream(id) => {
                let stream = self.streams.get(&id).filter(|it| !it.destroyed);
                let stream = stream.ok_or_else(|| unknown_stream(id))?;
                let mut needs = if id <= LAST_NULL_STREAM { self.needs_of(id) } else { Vec::new() };
                needs.push(stream.tail());
                needs
            }
            Scope::Event(id) => {
                let event = self.events.get(&id).ok_or_else(|| unknown_event(id))?;
                let record = event.record.iter();
                record.map(|it| Need { progress: Arc::clone(&it.progress), ticket: it.ticket }).collect()
            }
            Scope::Device(device) => {
                if device as usize >= self.loads.len() {
                    return Err(DeviceError::invalid_device(device));
                }
                self.pending_streams().filter(|it| it.device == device).map(Stream::tail).collect()
            }
            Scope::Everything => self.pending_streams().map(Stream::tail).collect(),
        };
        needs.retain(|need| !need.is_met());
        Ok(needs)
    }

    fn pending_streams(&self) -> impl Iterator<Item = &Stream> {
        self.pending.iter().filter_map(|id| self.streams.get(id))
    }

    /// Counts a command as submitted. Fails if the stream does not exist.
    pub(crate) fn submit(&mut self, id: StreamId) -> Result<&mut Stream, DeviceError> {
        self.stream_mut(id)?;
        self.submissions += 1;
        self.pending.insert(id);
        let stream = self.stream_mut(id)?;
        stream.submitted += 1;
        Ok(stream)
    }

    pub(crate) fn make_ready(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.busy = true;
        let priority = stream.priority;
        // Smaller numbers have higher priority; streams of equal priority keep their order.
        let place = self
            .ready
            .iter()
            .rposition(|other| self.streams.get(other).is_none_or(|other| other.priority <= priority));
        self.ready.insert(place.map_or(0, |at| at + 1), id);
    }

    pub(crate) fn begin(&mut self, device: u32) {
        let load = &mut self.loads[device as usize];
        load.active += 1;
        load.since.get_or_insert_with(Instant::now);
    }

    pub(crate) fn end(&mut self, device: u32) {
        let load = &mut self.loads[device as usize];
        load.active -= 1;
        if load.active == 0
            && let Some(since) = load.since.take()
        {
            load.nanos += since.elapsed().as_nanos() as u64;
        }
    }
}

pub(crate) fn stream(device: u32, blocking: bool, priority: i32) -> Stream {
    Stream {
        device,
        blocking,
        priority,
        queue: VecDeque::new(),
        progress: Arc::default(),
        submitted: 0,
        busy: false,
        destroyed: false,
    }
}

pub(crate) fn is_cheap(job: &Job) -> bool {
    match job {
        Job::Stamp(_) | Job::Host(_) | Job::Wait => true,
        Job::Run(Command::Launch(_)) => false,
        Job::Run(command) => {
            let is_small = |region: &Region| region.bytes().is_some_and(|bytes| bytes <= INLINE_BYTES);
            command.region().is_none_or(is_small)
        }
    }
}

pub(crate) fn unknown_stream(id: StreamId) -> DeviceError {
    DeviceError::invalid_handle(format!("there is no stream {id:#x}"))
}

pub(crate) fn unknown_event(id: EventId) -> DeviceError {
    DeviceError::invalid_handle(format!("there is no event {id:#x}"))
}
