//! Nodes that record events and wait for them.

use std::sync::Arc;

use hip_api::types::*;

use super::super::{Status, event, set};
use super::arguments::{add, find, with};
use crate::graph::node::Work;
use crate::state::objects::Event;
use crate::state::runtime::{Runtime, runtime};

/// The event behind a handle, for use in a node.
pub(super) fn named(runtime: &Runtime, event: hipEvent_t) -> Result<Arc<Event>, hipError_t> {
    if event.is_null() { Err(hipErrorInvalidValue) } else { event::find(runtime, event) }
}

/// Replaces the event of a node by that of a node of the same kind.
pub(super) fn replace(work: &mut Work, new: Work) -> Status {
    if work.kind() != new.kind() {
        return Err(hipErrorInvalidValue);
    }
    *work = new;
    Ok(())
}

/// Declares the functions of one kind of node.
macro_rules! event_nodes {
    ($($add:ident $get:ident $set:ident $change:ident = $kind:ident;)*) => { $(
        pub unsafe fn $add(
            node: *mut hipGraphNode_t,
            graph: hipGraph_t,
            after: *const hipGraphNode_t,
            count: usize,
            event: hipEvent_t,
        ) -> Status {
            // SAFETY: the caller's pointers.
            unsafe { add(node, graph, after, count, |runtime| Ok(Work::$kind(named(runtime, event)?))) }
        }

        pub unsafe fn $get(node: hipGraphNode_t, event: *mut hipEvent_t) -> Status {
            let found = with(node, |work| match work {
                Work::$kind(event) => Ok(event.id),
                _ => Err(hipErrorInvalidValue),
            })?;
            // SAFETY: the caller's out-pointer.
            unsafe { set(event, found as hipEvent_t) }
        }

        pub unsafe fn $set(node: hipGraphNode_t, event: hipEvent_t) -> Status {
            let new = named(runtime()?, event)?;
            with(node, |work| replace(work, Work::$kind(new)))
        }

        pub unsafe fn $change(
            executable: hipGraphExec_t,
            node: hipGraphNode_t,
            event: hipEvent_t,
        ) -> Status {
            let (runtime, executable) = find(executable)?;
            let new = named(runtime, event)?;
            if !executable.with(runtime, node as u64, |work| matches!(work, Work::$kind(_)))? {
                return Err(hipErrorInvalidValue);
            }
            executable.set(runtime, node as u64, Work::$kind(new))
        }
    )* };
}

event_nodes! {
    hipGraphAddEventRecordNode hipGraphEventRecordNodeGetEvent hipGraphEventRecordNodeSetEvent
        hipGraphExecEventRecordNodeSetEvent = RecordEvent;
    hipGraphAddEventWaitNode hipGraphEventWaitNodeGetEvent hipGraphEventWaitNodeSetEvent
        hipGraphExecEventWaitNodeSetEvent = WaitEvent;
}
