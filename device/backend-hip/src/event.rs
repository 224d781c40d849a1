//! Maps event IDs to the runtime's event handles.

use std::collections::HashMap;

use backend::{DeviceError, EventId};
use hip_api::types::hipEvent_t;

#[derive(Clone, Copy, Debug)]
struct Event {
    device: u32,
    handle: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Events {
    events: HashMap<EventId, Event>,
}

impl Events {
    pub(crate) fn insert(&mut self, id: EventId, device: u32, handle: hipEvent_t) {
        self.events.insert(id, Event { device, handle: handle as usize });
    }

    pub(crate) fn is_free(&self, id: EventId) -> bool {
        id != 0 && !self.events.contains_key(&id)
    }

    pub(crate) fn get(&self, id: EventId) -> Result<hipEvent_t, DeviceError> {
        self.events.get(&id).map(|event| event.handle as hipEvent_t).ok_or_else(|| unknown(id))
    }

    /// Looks up an event; ID 0 (none) gives a null handle.
    pub(crate) fn optional(&self, id: EventId) -> Result<hipEvent_t, DeviceError> {
        if id == 0 { Ok(std::ptr::null_mut()) } else { self.get(id) }
    }

    pub(crate) fn remove(&mut self, id: EventId) -> Result<hipEvent_t, DeviceError> {
        self.events.remove(&id).map(|event| event.handle as hipEvent_t).ok_or_else(|| unknown(id))
    }

    pub(crate) fn forget_device(&mut self, device: u32) {
        self.events.retain(|_, event| event.device != device);
    }
}

fn unknown(id: EventId) -> DeviceError {
    DeviceError::invalid_handle(format!("there is no event {id:#x}"))
}
