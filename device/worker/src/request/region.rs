//! Converts copies, fills, reads, writes and value waits of the wire protocol to the back end's types.
//!
//! The protocol has one operation for each form of region: flat, rectangle and box. The back end has one command for all three.
//! Only converts; the back end validates regions.

use backend::{Command, Comparison, DeviceError, Extent, Region, StreamId, ValueWait};
use wire::Operation;

/// A copy or a fill.
pub(crate) trait Transfer: Operation {
    /// Returns the stream and its command.
    fn command(&self) -> (StreamId, Command);
}

/// A read whose packed rows are the reply, or a write of packed rows that follow in the request's body.
pub(crate) trait PackedTransfer: Operation {
    /// Returns the stream, and the region on the device.
    fn region(&self) -> (StreamId, Region);
}

impl Transfer for wire::Copy {
    fn command(&self) -> (StreamId, Command) {
        let to = Region::flat(self.destination, self.bytes);
        (self.stream, Command::Copy { to, from: Region::flat(self.source, self.bytes) })
    }
}

impl Transfer for wire::CopyRect {
    fn command(&self) -> (StreamId, Command) {
        let to = Region::rect(self.destination, self.destination_pitch, self.width, self.height);
        let from = Region::rect(self.source, self.source_pitch, self.width, self.height);
        (self.stream, Command::Copy { to, from })
    }
}

impl Transfer for wire::CopyBox {
    fn command(&self) -> (StreamId, Command) {
        let extent = Extent { width: self.width, height: self.height, depth: self.depth };
        let (pitch, rows) = (self.destination_pitch, self.destination_rows);
        let to = Region { address: self.destination, pitch, rows, extent };
        let (pitch, rows) = (self.source_pitch, self.source_rows);
        let from = Region { address: self.source, pitch, rows, extent };
        (self.stream, Command::Copy { to, from })
    }
}

impl Transfer for wire::Fill {
    fn command(&self) -> (StreamId, Command) {
        (self.stream, fill(self.destination, self.value, self.width, self.count))
    }
}

impl Transfer for wire::FillRect {
    fn command(&self) -> (StreamId, Command) {
        let to = Region::rect(self.destination, self.pitch, self.width, self.height);
        (self.stream, Command::Fill { to, value: self.value, element: 1 })
    }
}

impl Transfer for wire::FillBox {
    fn command(&self) -> (StreamId, Command) {
        let extent = Extent { width: self.width, height: self.height, depth: self.depth };
        let to = Region { address: self.destination, pitch: self.pitch, rows: self.rows, extent };
        (self.stream, Command::Fill { to, value: self.value, element: self.element })
    }
}

impl PackedTransfer for wire::ReadRect {
    fn region(&self) -> (StreamId, Region) {
        (self.stream, Region::rect(self.source, self.pitch, self.width, self.height))
    }
}

impl PackedTransfer for wire::ReadBox {
    fn region(&self) -> (StreamId, Region) {
        let extent = Extent { width: self.width, height: self.height, depth: self.depth };
        (self.stream, Region { address: self.source, pitch: self.pitch, rows: self.rows, extent })
    }
}

impl PackedTransfer for wire::WriteRect {
    fn region(&self) -> (StreamId, Region) {
        (self.stream, Region::rect(self.destination, self.pitch, self.width, self.height))
    }
}

impl PackedTransfer for wire::WriteBox {
    fn region(&self) -> (StreamId, Region) {
        let extent = Extent { width: self.width, height: self.height, depth: self.depth };
        (self.stream, Region { address: self.destination, pitch: self.pitch, rows: self.rows, extent })
    }
}

/// Command that fills `count` elements of `width` bytes. A size beyond `u64` stays too large for any memory.
pub(crate) fn fill(destination: u64, value: u32, width: u32, count: u64) -> Command {
    let to = Region::flat(destination, count.saturating_mul(u64::from(width)));
    Command::Fill { to, value, element: width }
}

/// Converts a wait for a value in memory.
pub(crate) fn wait(it: &wire::WaitValue) -> Result<ValueWait, DeviceError> {
    let comparison = match it.comparison {
        0 => Comparison::AtLeast,
        1 => Comparison::Equal,
        2 => Comparison::And,
        3 => Comparison::Nor,
        other => return Err(DeviceError::invalid_value(format!("unknown comparison {other}"))),
    };
    let wide = match it.width {
        4 => false,
        8 => true,
        width => return Err(DeviceError::invalid_value(format!("cannot wait for a value of {width} bytes"))),
    };
    Ok(ValueWait { address: it.address, wide, value: it.value, mask: it.mask, comparison })
}
