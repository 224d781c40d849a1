//! Launches executable graphs.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use hip_api::types::*;
use wire::graph_launch;

use super::block::Block;
use super::executable::{AUTO_FREE, Executable, ExecutableState};
use super::lower;
use super::lowered::HostSide;
use super::node::Work;
use crate::state::Status;
use crate::state::runtime::Runtime;
use crate::state::stream::StreamRef;

impl Executable {
    /// Launches the graph with one frame.
    pub fn launch(&self, runtime: &Runtime, at: StreamRef) -> Status {
        let state = self.state.lock();
        self.allocate(runtime, &state)?;
        let later = self.must_wait(runtime, &state);
        let tokens = runtime.connection.tokens(u64::from(state.slots));
        let mut body = Vec::new();
        for (slot, side) in state.sides() {
            let token = tokens + u64::from(slot);
            match side {
                HostSide::Source { from, to } if later => due(runtime, token, *from, *to, at)?,
                // SAFETY: the program guarantees the source of a copy at every launch of the graph.
                HostSide::Source { from, .. } => unsafe { from.gather(&mut body) },
                HostSide::SourceLater { from, to } => due(runtime, token, *from, *to, at)?,
                HostSide::Target(block) => expect(runtime, token, *block),
                HostSide::Call(host) => {
                    let host = *host;
                    runtime.expect_turn(token, move |status| {
                        if status == hipSuccess {
                            // SAFETY: the program passed the function and its data for every launch of the graph.
                            unsafe { lower::call(&host) }
                        }
                    })?;
                }
                HostSide::Action(action) => {
                    let action = action.clone();
                    runtime.do_when_due(token, at.device, move |_, _| {
                        (action.0)();
                        Ok(())
                    })?;
                }
            }
        }
        for work in state.noted() {
            if let Work::RecordEvent(event) = work {
                event.mark.advance();
                event.recorded.store(true, Ordering::Release);
            }
        }
        let flags = if later { graph_launch::WRITES_LATER } else { 0 };
        let device = runtime.devices[at.device].ordinal;
        runtime.post(&wire::LaunchGraph { graph: self.id, stream: at.id, device, flags, tokens }, &body)?;
        for work in state.noted() {
            if let Work::Free(memory) = work {
                runtime.end_graph_allocation(memory);
            }
        }
        Ok(())
    }

    /// Starts the allocations of the nodes. Fails if one is still live from the last launch, unless AUTO_FREE is set.
    fn allocate(&self, runtime: &Runtime, state: &ExecutableState) -> Status {
        let allocations = || {
            state.noted().filter_map(|it| if let Work::Allocate(it) = it { Some(&it.memory) } else { None })
        };
        if self.flags & AUTO_FREE == 0 && allocations().any(|it| it.is_live()) {
            return Err(hipErrorInvalidValue);
        }
        allocations().try_for_each(|it| runtime.begin_graph_allocation(it))
    }

    /// Whether pending work may write memory that this launch would read now.
    fn must_wait(&self, runtime: &Runtime, state: &ExecutableState) -> bool {
        let mut sources = state.sides().filter_map(|(_, side)| match side {
            HostSide::Source { from, .. } => Some(from),
            _ => None,
        });
        let host = runtime.connection.awaits_host_function();
        sources.any(|it| host || runtime.connection.awaits_bytes(it.address, it.span().unwrap_or(u64::MAX)))
    }
}

/// Sends the bytes of a copy when its turn comes, not at the launch.
fn due(runtime: &Runtime, token: u64, from: Block, to: Block, at: StreamRef) -> Status {
    runtime.do_when_due(token, at.device, move |runtime, at| {
        let mut body = Vec::with_capacity(from.bytes() as usize);
        // SAFETY: the program guarantees the source of a copy until the graph has run.
        unsafe { from.gather(&mut body) };
        if to.height == 1 {
            return runtime.write(at.id, to.address, &body);
        }
        let (destination, pitch, width, height) = (to.address, to.pitch, to.width, to.height);
        runtime.send(&wire::WriteRect { stream: at.id, destination, pitch, width, height }, &body)
    })
}

/// Registers the destination of a read's bytes.
fn expect(runtime: &Runtime, token: u64, block: Block) {
    let bytes = block.bytes() as usize;
    if block.is_flat() {
        if let Some(start) = NonNull::new(block.address as *mut u8) {
            // SAFETY: the program guarantees the destination of a copy until the graph has run.
            unsafe { runtime.connection.expect_bytes(token, start, bytes) };
        }
        return;
    }
    runtime.connection.expect_packed(token, bytes, block.address, block.span().unwrap_or(0), move |packed| {
        // SAFETY: as above.
        unsafe { block.scatter(packed) }
    });
}
