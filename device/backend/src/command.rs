//! Work for a stream.

use std::fmt;

use crate::{DeviceError, Extent, Pitched};

/// A stream. Numbers up to 0xff are reserved: the null stream of device `d` is `d`.
pub type StreamId = u64;
pub type EventId = u64;
pub type ModuleId = u64;
pub type FunctionId = u64;

/// Where a command comes from, for telling of its failure later. Opaque to the device.
pub type Tag = u64;

/// Receives the bytes of a read, in stream order, or why there are none.
///
/// The slice may be device memory itself; it is valid during the call, and the stream goes on when the call returns.
pub type ReadSink = Box<dyn FnOnce(Result<&[u8], DeviceError>) + Send>;

/// A kernel launch.
#[derive(Clone, Debug)]
pub struct Launch {
    pub function: FunctionId,
    /// Work-items in each dimension.
    pub grid: [u32; 3],
    /// Work-items of a workgroup in each dimension.
    pub block: [u32; 3],
    /// Dynamic local memory.
    pub shared_bytes: u32,
    /// All workgroups must be resident together.
    pub cooperative: bool,
    /// Recorded when the kernel starts; 0 for none.
    pub start_event: EventId,
    /// Recorded when the kernel ends; 0 for none.
    pub stop_event: EventId,
    /// Explicit kernel arguments, laid out.
    pub arguments: Vec<u8>,
}

/// What a stream waits for in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueWait {
    pub address: u64,
    /// Eight bytes, not four.
    pub wide: bool,
    pub value: u64,
    pub mask: u64,
    pub comparison: Comparison,
}

/// How the value in memory, masked, compares to the one wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    AtLeast,
    Equal,
    /// They have a bit in common.
    And,
    /// A bit is in neither.
    Nor,
}

impl ValueWait {
    pub fn bytes(&self) -> u64 {
        if self.wide { 8 } else { 4 }
    }

    /// Whether this value in memory ends the wait.
    pub fn is_met_by(&self, found: u64) -> bool {
        let found = found & self.mask;
        match self.comparison {
            Comparison::AtLeast => found >= self.value,
            Comparison::Equal => found == self.value,
            Comparison::And => found & self.value != 0,
            Comparison::Nor if self.wide => !(found | self.value) != 0,
            Comparison::Nor => !(found as u32 | self.value as u32) != 0,
        }
    }
}

/// One piece of work, executed in the order of its stream.
pub enum Command {
    Launch(Launch),
    Copy {
        destination: u64,
        source: u64,
        bytes: u64,
    },
    /// `count` times the low `width` bytes (1, 2 or 4) of `value`.
    Fill {
        destination: u64,
        value: u32,
        width: u32,
        count: u64,
    },
    Write {
        destination: u64,
        data: Vec<u8>,
    },
    Read {
        source: u64,
        bytes: u64,
        sink: ReadSink,
    },
    /// Rows of `width` bytes, packed in `data`, to rows `pitch` apart.
    WriteRect {
        destination: u64,
        pitch: u64,
        width: u64,
        height: u64,
        data: Vec<u8>,
    },
    /// The opposite: the sink gets packed rows.
    ReadRect {
        source: u64,
        pitch: u64,
        width: u64,
        height: u64,
        sink: ReadSink,
    },
    CopyRect {
        destination: u64,
        destination_pitch: u64,
        source: u64,
        source_pitch: u64,
        width: u64,
        height: u64,
    },
    /// Fills rows of `width` bytes with the low byte of `value`.
    FillRect {
        destination: u64,
        pitch: u64,
        value: u32,
        width: u64,
        height: u64,
    },
    /// A box, packed in `data`.
    WriteBox {
        to: Pitched,
        extent: Extent,
        data: Vec<u8>,
    },
    /// The opposite: the sink gets the packed box.
    ReadBox {
        from: Pitched,
        extent: Extent,
        sink: ReadSink,
    },
    CopyBox {
        to: Pitched,
        from: Pitched,
        extent: Extent,
    },
    /// Fills a box with the low `width` bytes (1, 2 or 4) of `value`; rows hold whole elements.
    FillBox {
        to: Pitched,
        extent: Extent,
        value: u32,
        width: u32,
    },
    /// The stream goes on when the value in memory is as wanted.
    WaitValue(ValueWait),
    RecordEvent(EventId),
    /// Later work of the stream waits for the event's latest record.
    WaitEvent(EventId),
    /// The stream pauses until [`Device::host_function_done`](crate::Device::host_function_done) with this token.
    HostFunction {
        token: u64,
    },
}

impl Command {
    pub fn name(&self) -> &'static str {
        match self {
            Command::Launch(_) => "launch",
            Command::Copy { .. } => "copy",
            Command::Fill { .. } => "fill",
            Command::Write { .. } => "write",
            Command::Read { .. } => "read",
            Command::WriteRect { .. } => "write rectangle",
            Command::ReadRect { .. } => "read rectangle",
            Command::CopyRect { .. } => "copy rectangle",
            Command::FillRect { .. } => "fill rectangle",
            Command::WriteBox { .. } => "write box",
            Command::ReadBox { .. } => "read box",
            Command::CopyBox { .. } => "copy box",
            Command::FillBox { .. } => "fill box",
            Command::WaitValue(_) => "wait for value",
            Command::RecordEvent(_) => "record event",
            Command::WaitEvent(_) => "wait for event",
            Command::HostFunction { .. } => "host function",
        }
    }

    /// Bytes the command holds while it is queued.
    pub fn held_bytes(&self) -> u64 {
        match self {
            Command::Launch(launch) => launch.arguments.len() as u64,
            Command::Write { data, .. }
            | Command::WriteRect { data, .. }
            | Command::WriteBox { data, .. } => data.len() as u64,
            _ => 0,
        }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
