//! Timing spans of commands on streams, for tracing and profiling.

use std::time::Instant;

use crate::{Command, FunctionId, StreamId, Tag};

/// Kind and size of the work that a span covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    Kernel {
        function: FunctionId,
        work_items: u64,
    },
    Copy {
        bytes: u64,
    },
    Fill {
        bytes: u64,
    },
    /// From the host.
    Write {
        bytes: u64,
    },
    /// To the host.
    Read {
        bytes: u64,
    },
}

/// Start and end time of one command on its stream. Spans of a stream do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub stream: StreamId,
    pub device: u32,
    /// Tag of the command.
    pub tag: Tag,
    pub task: Task,
    pub begin: Instant,
    pub end: Instant,
}

impl Command {
    /// The work this command does; `None` for commands that only order others.
    pub fn task(&self) -> Option<Task> {
        let flat = |width: u64, height: u64| width.saturating_mul(height);
        Some(match self {
            Command::Launch(launch) => Task::Kernel {
                function: launch.function,
                work_items: launch.grid.iter().map(|n| u64::from(*n)).fold(1, u64::saturating_mul),
            },
            Command::Copy { bytes, .. } => Task::Copy { bytes: *bytes },
            Command::CopyRect { width, height, .. } => Task::Copy { bytes: flat(*width, *height) },
            Command::CopyBox { extent, .. } => Task::Copy { bytes: extent.volume().unwrap_or(u64::MAX) },
            Command::Fill { width, count, .. } => Task::Fill { bytes: flat((*width).into(), *count) },
            Command::FillRect { width, height, .. } => Task::Fill { bytes: flat(*width, *height) },
            Command::FillBox { extent, .. } => Task::Fill { bytes: extent.volume().unwrap_or(u64::MAX) },
            Command::Write { data, .. }
            | Command::WriteRect { data, .. }
            | Command::WriteBox { data, .. } => Task::Write { bytes: data.len() as u64 },
            Command::Read { bytes, .. } => Task::Read { bytes: *bytes },
            Command::ReadRect { width, height, .. } => Task::Read { bytes: flat(*width, *height) },
            Command::ReadBox { extent, .. } => Task::Read { bytes: extent.volume().unwrap_or(u64::MAX) },
            Command::WaitValue(_)
            | Command::RecordEvent(_)
            | Command::WaitEvent(_)
            | Command::HostFunction { .. } => return None,
        })
    }
}
