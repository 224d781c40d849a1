//! Timing spans of commands on streams, for tracing and profiling.

use std::time::Instant;

use crate::{Command, FunctionId, Region, StreamId, Tag};

/// Kind and size of the work that a span covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// A kernel.
    Kernel {
        /// The kernel's function.
        function: FunctionId,
        /// Work-items of its grid.
        work_items: u64,
    },
    /// A copy on or between devices.
    Copy {
        /// Bytes without gaps.
        bytes: u64,
    },
    /// A fill.
    Fill {
        /// Bytes without gaps.
        bytes: u64,
    },
    /// A copy from the host.
    Write {
        /// Bytes without gaps.
        bytes: u64,
    },
    /// A copy to the host.
    Read {
        /// Bytes without gaps.
        bytes: u64,
    },
}

/// Start and end time of one command on its stream. Spans of a stream do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Stream that executed the command.
    pub stream: StreamId,
    /// Device of the stream.
    pub device: u32,
    /// Tag of the command.
    pub tag: Tag,
    /// What the command did.
    pub task: Task,
    /// When the command started.
    pub begin: Instant,
    /// When the command ended.
    pub end: Instant,
}

impl Command {
    /// The work this command does; `None` for commands that only order others.
    pub fn task(&self) -> Option<Task> {
        let bytes = |region: &Region| region.bytes().unwrap_or(u64::MAX);
        Some(match self {
            Command::Launch(launch) => Task::Kernel {
                function: launch.function,
                work_items: launch.grid.iter().map(|n| u64::from(*n)).fold(1, u64::saturating_mul),
            },
            Command::Copy { to, .. } => Task::Copy { bytes: bytes(to) },
            Command::Fill { to, .. } => Task::Fill { bytes: bytes(to) },
            Command::Write { to, .. } => Task::Write { bytes: bytes(to) },
            Command::Read { from, .. } => Task::Read { bytes: bytes(from) },
            Command::WaitValue(_)
            | Command::RecordEvent(_)
            | Command::WaitEvent(_)
            | Command::HostFunction { .. } => return None,
        })
    }
}
