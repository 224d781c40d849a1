//! Events: the driver's handle, for times, and the point of a timeline at which the last record is reached.

use std::collections::HashMap;

use backend::{DeviceError, EventId};

use crate::stream::Mark;
use crate::types::CuEvent;

struct Event {
    device: u32,
    handle: usize,
    /// End of the last record; `None` if the event was never recorded.
    recorded: Option<Mark>,
}

#[derive(Default)]
pub(crate) struct Events {
    events: HashMap<EventId, Event>,
}

impl Events {
    pub(crate) fn insert(&mut self, id: EventId, device: u32, handle: CuEvent) {
        self.events.insert(id, Event { device, handle: handle as usize, recorded: None });
    }

    pub(crate) fn is_free(&self, id: EventId) -> bool {
        id != 0 && !self.events.contains_key(&id)
    }

    pub(crate) fn get(&self, id: EventId) -> Result<CuEvent, DeviceError> {
        self.events.get(&id).map(|event| event.handle as CuEvent).ok_or_else(|| unknown(id))
    }

    pub(crate) fn record(&mut self, id: EventId, mark: Mark) {
        if let Some(event) = self.events.get_mut(&id) {
            event.recorded = Some(mark);
        }
    }

    /// Point at which the last record is reached; `None` if the event was never recorded.
    pub(crate) fn recorded(&self, id: EventId) -> Result<Option<Mark>, DeviceError> {
        self.events.get(&id).map(|event| event.recorded.clone()).ok_or_else(|| unknown(id))
    }

    pub(crate) fn remove(&mut self, id: EventId) -> Result<CuEvent, DeviceError> {
        self.events.remove(&id).map(|event| event.handle as CuEvent).ok_or_else(|| unknown(id))
    }

    /// Removes the events of a device and returns their handles.
    pub(crate) fn take_device(&mut self, device: u32) -> Vec<usize> {
        let gone = self.events.extract_if(|_, event| event.device == device);
        gone.map(|(_, event)| event.handle).collect()
    }
}

fn unknown(id: EventId) -> DeviceError {
    DeviceError::invalid_handle(format!("there is no event {id:#x}"))
}
