//! Converts rectangles, boxes and value waits of the wire protocol to the back end's types.
//!
//! Only converts; the back end validates regions.

use backend::{Command, Comparison, DeviceError, Extent, Pitched, StreamId, ValueWait};
use wire::Operation;

/// A write of packed rows to a rectangle or a box.
pub(crate) trait WriteRegion: Operation {
    /// Returns the stream, the destination and the size.
    fn region(&self) -> (StreamId, Pitched, Extent);
}

impl WriteRegion for wire::WriteRect {
    fn region(&self) -> (StreamId, Pitched, Extent) {
        (self.stream, Pitched::flat(self.destination, self.pitch), Extent::flat(self.width, self.height))
    }
}

impl WriteRegion for wire::WriteBox {
    fn region(&self) -> (StreamId, Pitched, Extent) {
        let to = Pitched { address: self.destination, pitch: self.pitch, rows: self.rows };
        (self.stream, to, Extent { width: self.width, height: self.height, depth: self.depth })
    }
}

pub(crate) fn copy(it: &wire::CopyBox) -> Command {
    Command::CopyBox {
        to: Pitched { address: it.destination, pitch: it.destination_pitch, rows: it.destination_rows },
        from: Pitched { address: it.source, pitch: it.source_pitch, rows: it.source_rows },
        extent: Extent { width: it.width, height: it.height, depth: it.depth },
    }
}

pub(crate) fn fill(it: &wire::FillBox) -> Command {
    Command::FillBox {
        to: Pitched { address: it.destination, pitch: it.pitch, rows: it.rows },
        extent: Extent { width: it.width, height: it.height, depth: it.depth },
        value: it.value,
        width: it.element,
    }
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

/// Converts the source of a read.
pub(crate) fn source(it: &wire::ReadBox) -> (Pitched, Extent) {
    let from = Pitched { address: it.source, pitch: it.pitch, rows: it.rows };
    (from, Extent { width: it.width, height: it.height, depth: it.depth })
}
