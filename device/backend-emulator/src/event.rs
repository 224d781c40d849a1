//! HIP events: positions in streams, with the time at which the stream reached them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use backend::{DeviceError, EventId};
use hip_api::types::hipEventDisableTiming;

use crate::queue::Progress;

/// One record of an event: a position in a stream, and when the stream reached it.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) progress: Arc<Progress>,
    pub(crate) ticket: u64,
    nanos: AtomicU64,
}

impl Record {
    pub(crate) fn new(progress: Arc<Progress>, ticket: u64) -> Arc<Record> {
        Arc::new(Record { progress, ticket, nanos: AtomicU64::new(0) })
    }

    pub(crate) fn is_done(&self) -> bool {
        self.progress.reached(self.ticket)
    }

    /// A record that was reached at this time before the session was restored here.
    pub(crate) fn past(nanos: u64) -> Arc<Record> {
        Arc::new(Record { progress: Arc::default(), ticket: 0, nanos: AtomicU64::new(nanos) })
    }

    /// Stores the time at which the stream reached the record.
    pub(crate) fn stamp(&self, now: u64) {
        self.nanos.store(now, Ordering::Release);
    }

    pub(crate) fn nanos(&self) -> u64 {
        self.nanos.load(Ordering::Acquire)
    }
}

#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) device: u32,
    pub(crate) flags: u32,
    pub(crate) record: Option<Arc<Record>>,
}

impl Event {
    pub(crate) fn new(device: u32, flags: u32) -> Event {
        Event { device, flags, record: None }
    }

    /// The latest record, if it has a time: timing is enabled, and the record was reached.
    fn timed(&self, id: EventId) -> Result<&Record, DeviceError> {
        if self.flags & hipEventDisableTiming != 0 {
            return Err(DeviceError::invalid_handle(format!(
                "event {id:#x} was created with timing disabled"
            )));
        }
        let Some(record) = &self.record else {
            return Err(DeviceError::invalid_handle(format!("event {id:#x} was never recorded")));
        };
        if !record.is_done() {
            return Err(DeviceError::not_ready(format!("event {id:#x} has not completed")));
        }
        Ok(record)
    }
}

/// Milliseconds from `start` to `stop`.
pub(crate) fn elapsed(start: (EventId, &Event), stop: (EventId, &Event)) -> Result<f32, DeviceError> {
    let from = start.1.timed(start.0)?.nanos();
    let to = stop.1.timed(stop.0)?.nanos();
    Ok((to as f64 / 1e6 - from as f64 / 1e6) as f32)
}
