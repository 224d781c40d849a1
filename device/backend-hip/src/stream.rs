//! Maps stream IDs to the runtime's stream handles.

use std::collections::HashMap;

use backend::{DeviceError, StreamId};
use hip_api::types::hipStream_t;

/// IDs up to this are reserved for the null streams of the devices.
const LAST_NULL_STREAM: StreamId = 0xff;

/// A stream and the device it is on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    pub(crate) device: u32,
    handle: usize,
}

impl Stream {
    pub(crate) fn handle(self) -> hipStream_t {
        self.handle as hipStream_t
    }
}

#[derive(Debug, Default)]
pub(crate) struct Streams {
    streams: HashMap<StreamId, Stream>,
}

impl Streams {
    pub(crate) fn insert(&mut self, id: StreamId, device: u32, handle: hipStream_t) {
        self.streams.insert(id, Stream { device, handle: handle as usize });
    }

    pub(crate) fn is_free(&self, id: StreamId) -> bool {
        id > LAST_NULL_STREAM && !self.streams.contains_key(&id)
    }

    pub(crate) fn get(&self, id: StreamId, devices: u32) -> Result<Stream, DeviceError> {
        if id < u64::from(devices) {
            return Ok(Stream { device: id as u32, handle: 0 });
        }
        self.streams.get(&id).copied().ok_or_else(|| unknown(id))
    }

    pub(crate) fn remove(&mut self, id: StreamId) -> Result<Stream, DeviceError> {
        self.streams.remove(&id).ok_or_else(|| unknown(id))
    }

    pub(crate) fn forget_device(&mut self, device: u32) {
        self.streams.retain(|_, stream| stream.device != device);
    }
}

fn unknown(id: StreamId) -> DeviceError {
    DeviceError::invalid_handle(format!("there is no stream {id:#x}"))
}
