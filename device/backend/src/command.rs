//! Commands that a stream executes: kernel launches, copies, fills, waits, events and host functions.

use std::fmt;

use crate::{DeviceError, Region};

/// Identifies a stream. Numbers up to 0xff are reserved: the null stream of device `d` is `d`.
pub type StreamId = u64;
/// Identifies an event; the caller assigns the number. 0 is reserved for "none".
pub type EventId = u64;
/// Identifies a loaded module; the caller assigns the number.
pub type ModuleId = u64;
/// Identifies a kernel of a module; the caller assigns the number.
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
    /// The kernel.
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
    /// Address of the value, a multiple of its size.
    pub address: u64,
    /// The value has eight bytes instead of four.
    pub wide: bool,
    /// The expected value.
    pub value: u64,
    /// Bits of the value in memory that are compared.
    pub mask: u64,
    /// How the masked value is compared with the expected one.
    pub comparison: Comparison,
}

/// Comparison between the masked value in memory and the expected value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `memory >= value`, unsigned.
    AtLeast,
    /// `memory == value`.
    Equal,
    /// `memory & value` is not zero.
    And,
    /// `!(memory | value)` is not zero.
    Nor,
}

impl ValueWait {
    /// Size of the value.
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
    /// Runs a kernel.
    Launch(Launch),
    /// Copies between regions of the same extent.
    Copy {
        /// The region that is written.
        to: Region,
        /// The region that is read.
        from: Region,
    },
    /// Fills a region with the low `element` bytes (1, 2 or 4) of `value`. The width of a row is a multiple of `element`.
    Fill {
        /// The region that is written.
        to: Region,
        /// The value of every element.
        value: u32,
        /// Bytes per element.
        element: u32,
    },
    /// Writes bytes from the host.
    Write {
        /// The region that is written.
        to: Region,
        /// The bytes of the region, packed: as many as the region has.
        data: Vec<u8>,
    },
    /// Reads bytes to the host.
    Read {
        /// The region that is read.
        from: Region,
        /// Receives the bytes, packed.
        sink: ReadSink,
    },
    /// Blocks the stream until the value in memory meets the condition.
    WaitValue(ValueWait),
    /// Records an event: it is reached when all earlier commands of the stream have ended.
    RecordEvent(EventId),
    /// Later commands of the stream wait for the event's latest record.
    WaitEvent(EventId),
    /// Blocks the stream until [`Device::host_function_done`](crate::Device::host_function_done) is called with this token.
    HostFunction {
        /// Identifies the host function; the caller assigns the number.
        token: u64,
    },
}

impl Command {
    /// Command that writes `data` to contiguous bytes at `address`.
    pub fn write_flat(address: u64, data: Vec<u8>) -> Command {
        Command::Write { to: Region::flat(address, data.len() as u64), data }
    }

    /// Name of the command for logs.
    pub fn name(&self) -> &'static str {
        match self {
            Command::Launch(_) => "launch",
            Command::Copy { .. } => "copy",
            Command::Fill { .. } => "fill",
            Command::Write { .. } => "write",
            Command::Read { .. } => "read",
            Command::WaitValue(_) => "wait for value",
            Command::RecordEvent(_) => "record event",
            Command::WaitEvent(_) => "wait for event",
            Command::HostFunction { .. } => "host function",
        }
    }

    /// The region that the command reads or writes, the destination if it does both; `None` for commands without a region.
    pub fn region(&self) -> Option<&Region> {
        match self {
            Command::Copy { to, .. } | Command::Fill { to, .. } | Command::Write { to, .. } => Some(to),
            Command::Read { from, .. } => Some(from),
            Command::Launch(_)
            | Command::WaitValue(_)
            | Command::RecordEvent(_)
            | Command::WaitEvent(_)
            | Command::HostFunction { .. } => None,
        }
    }

    /// Validates the regions of the command: their form, and through `check`, which gets an address and a number of bytes, that
    /// they are memory. `check` is not called for empty regions.
    pub fn check_regions(
        &self,
        check: impl Fn(u64, u64) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let check = |region: &Region| match region.span()? {
            0 => Ok(()),
            span => check(region.address, span),
        };
        match self {
            Command::Copy { to, from } if to.extent != from.extent => {
                return Err(DeviceError::invalid_value("the two regions of a copy differ in size"));
            }
            Command::Write { to, data } if Some(data.len() as u64) != to.bytes() => {
                return Err(DeviceError::invalid_value(
                    "the size of the data differs from the size of the region",
                ));
            }
            Command::Fill { element, .. } if ![1, 2, 4].contains(element) => {
                return Err(DeviceError::invalid_value(format!(
                    "invalid fill width {element}: it must be 1, 2 or 4 bytes"
                )));
            }
            Command::Fill { to, element, .. } if !to.extent.width.is_multiple_of(u64::from(*element)) => {
                return Err(DeviceError::invalid_value(
                    "the row width is not a multiple of the element width",
                ));
            }
            _ => {}
        }
        self.region().map_or(Ok(()), check)?;
        if let Command::Copy { from, .. } = self { check(from) } else { Ok(()) }
    }

    /// Rejects the command. The sink of a read gets the error; for other commands the error is returned.
    pub fn refuse(self, error: DeviceError) -> Result<(), DeviceError> {
        match self {
            Command::Read { sink, .. } => {
                sink(Err(error));
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Bytes of host memory the command holds while it is queued.
    pub fn held_bytes(&self) -> u64 {
        match self {
            Command::Launch(launch) => launch.arguments.len() as u64,
            Command::Write { data, .. } => data.len() as u64,
            _ => 0,
        }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
