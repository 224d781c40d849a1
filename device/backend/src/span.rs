//! Timing spans of commands on streams, for tracing and profiling.

use std::time::Instant;

use crate::{Command, FunctionId, Region, StreamId, Tag};

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
