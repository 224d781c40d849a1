//! One launch of a graph: the commands of its steps.

use std::sync::Arc;

use backend::{Command, Device, DeviceError, Launch, Region, StreamId, Tag};
use wire::{GraphStep, graph_launch};

use crate::outgoing::{Outgoing, deliver};
use crate::request::region;

/// What a launch needs of the session.
pub(crate) struct Site<'a> {
    pub(crate) device: &'a dyn Device,
    pub(crate) outgoing: &'a Arc<Outgoing>,
    pub(crate) tag: Tag,
}

/// State of one launch.
pub(super) struct Run<'a> {
    pub(super) site: &'a Site<'a>,
    pub(super) it: &'a wire::LaunchGraph,
    pub(super) body: &'a [u8],
    pub(super) failed: Option<DeviceError>,
    pub(super) called_off: Vec<u64>,
}

impl Run<'_> {
    /// Queues a command, unless an earlier one failed.
    pub(super) fn enqueue(&mut self, stream: StreamId, command: Command) {
        if self.failed.is_none() {
            self.failed = self.site.device.enqueue(stream, self.site.tag, command).err();
        }
    }

    /// Queues a step. Cancels host functions after a failure.
    pub(super) fn step(&mut self, stream: StreamId, step: &GraphStep, body: &mut &[u8]) {
        let later = self.it.flags & graph_launch::WRITES_LATER != 0;
        let token = self.it.tokens.wrapping_add(u64::from(step.slot().unwrap_or(0)));
        let command = match step {
            GraphStep::Host { .. } => Command::HostFunction { token },
            GraphStep::Write { .. } if later => Command::HostFunction { token },
            _ if self.failed.is_some() => return,
            GraphStep::Write { destination, pitch, width, height, .. } => {
                // `prepare` has checked the total.
                let (data, rest) = body.split_at((width * height) as usize);
                *body = rest;
                let to = Region::rect(*destination, *pitch, *width, *height);
                Command::Write { to, data: data.to_vec() }
            }
            GraphStep::Read { source, pitch, width, height, .. } => {
                let (outgoing, tag) = (Arc::clone(self.site.outgoing), self.site.tag);
                let sink = Box::new(move |result: Result<&[u8], DeviceError>| match result {
                    Ok(bytes) => deliver(&outgoing.outbox, token, bytes),
                    Err(error) => outgoing.outbox.late_error(tag as u32, (tag >> 32) as u16, &error),
                });
                Command::Read { from: Region::rect(*source, *pitch, *width, *height), sink }
            }
            other => match plain(other) {
                Some(command) => command,
                None => return,
            },
        };
        let turn = matches!(command, Command::HostFunction { .. });
        self.enqueue(stream, command);
        if turn && let Some(error) = &self.failed {
            let status = error.code.0 as i32;
            self.called_off.push(token);
            self.site.outgoing.outbox.push(&wire::Callback { token, status }, &[]);
        }
    }
}

/// Converts steps without a slot to commands.
fn plain(step: &GraphStep) -> Option<Command> {
    Some(match step {
        GraphStep::Launch {
            function,
            grid,
            block,
            shared_bytes,
            flags,
            start_event,
            stop_event,
            arguments,
        } => Command::Launch(Launch {
            function: *function,
            grid: *grid,
            block: *block,
            shared_bytes: *shared_bytes,
            cooperative: flags & 1 != 0,
            start_event: *start_event,
            stop_event: *stop_event,
            arguments: arguments.0.clone(),
        }),
        GraphStep::Copy { destination, source, bytes } => {
            Command::Copy { to: Region::flat(*destination, *bytes), from: Region::flat(*source, *bytes) }
        }
        GraphStep::Fill { destination, value, width, count } => {
            region::fill(*destination, *value, *width, *count)
        }
        GraphStep::CopyRect { destination, destination_pitch, source, source_pitch, width, height } => {
            Command::Copy {
                to: Region::rect(*destination, *destination_pitch, *width, *height),
                from: Region::rect(*source, *source_pitch, *width, *height),
            }
        }
        GraphStep::FillRect { destination, pitch, value, width, height } => {
            let to = Region::rect(*destination, *pitch, *width, *height);
            Command::Fill { to, value: *value, element: 1 }
        }
        GraphStep::RecordEvent { event } => Command::RecordEvent(*event),
        GraphStep::WaitEvent { event } => Command::WaitEvent(*event),
        GraphStep::Write { .. } | GraphStep::Read { .. } | GraphStep::Host { .. } => return None,
    })
}
