//! Commands that a stream executes: kernel launches, copies, fills, waits, events and host functions.

use std::fmt;

use crate::{DeviceError, Extent, Pitched};

/// Identifies a stream. Numbers up to 0xff are reserved: the null stream of device `d` is `d`.
pub type StreamId = u64;
pub type EventId = u64;
pub type ModuleId = u64;
pub type FunctionId = u64;

/// Identifies the origin of a command, so that a later failure can be attributed to it. Opaque to the device.
pub type Tag = u64;

/// Callback that receives the bytes of a read, in stream order, or the error that prevented the read.
///
/// The slice may be device memory itself. It is valid only during the call, and the stream continues when the call returns.
pub type ReadSink = Box<dyn FnOnce(Result<&[u8], DeviceError>) + Send>;

/// A kernel launch.
#[derive(Clone, Debug)]
pub struct Launch {
    pub function: FunctionId,
    /// Work-items in each dimension.
    pub grid: [u32; 3],
    /// Work-items per workgroup in each dimension.
    pub block: [u32; 3],
    /// Bytes of dynamic local memory (LDS).
    pub shared_bytes: u32,
    /// Cooperative launch: all workgroups must be resident at the same time.
    pub cooperative: bool,
    /// Event recorded when the kernel starts; 0 for none.
    pub start_event: EventId,
    /// Event recorded when the kernel ends; 0 for none.
    pub stop_event: EventId,
    /// Explicit kernel arguments in their kernarg segment layout.
    pub arguments: Vec<u8>,
}

/// Condition on a value in memory that a stream waits for (`hipStreamWaitValue`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueWait {
    pub address: u64,
    /// The value has eight bytes instead of four.
    pub wide: bool,
    pub value: u64,
    pub mask: u64,
    pub comparison: Comparison,
}

/// Comparison between the masked value in memory and the expected value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    AtLeast,
    Equal,
    /// `memory & value` is not zero.
    And,
    /// `!(memory | value)` is not zero.
    Nor,
}

impl ValueWait {
    pub fn bytes(&self) -> u64 {
        if self.wide { 8 } else { 4 }
    }

    /// Whether the value `found` in memory ends the wait.
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

/// One command of a stream, executed in stream order.
pub enum Command {
    Launch(Launch),
    Copy {
        destination: u64,
        source: u64,
        bytes: u64,
    },
    /// Writes the low `width` bytes (1, 2 or 4) of `value`, `count` times.
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
    /// Writes rows of `width` bytes, packed in `data`, to rows that are `pitch` bytes apart.
    WriteRect {
        destination: u64,
        pitch: u64,
        width: u64,
        height: u64,
        data: Vec<u8>,
    },
    /// Reads rows that are `pitch` bytes apart; the sink gets them packed.
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
    /// Writes a box whose bytes are packed in `data`.
    WriteBox {
        to: Pitched,
        extent: Extent,
        data: Vec<u8>,
    },
    /// Reads a box; the sink gets its bytes packed.
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
    /// Fills a box with the low `width` bytes (1, 2 or 4) of `value`. The width of a row is a multiple of `width`.
    FillBox {
        to: Pitched,
        extent: Extent,
        value: u32,
        width: u32,
    },
    /// Blocks the stream until the value in memory meets the condition.
    WaitValue(ValueWait),
    RecordEvent(EventId),
    /// Later commands of the stream wait for the event's latest record.
    WaitEvent(EventId),
    /// Blocks the stream until [`Device::host_function_done`](crate::Device::host_function_done) is called with this token.
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

    /// Bytes of host memory the command holds while it is queued.
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
