//! Nodes of any kind, described by one parameter struct.

use std::ffi::c_void;

use hip_api::types::*;

use super::super::Status;
use super::arguments::{add, find, get, with};
use super::{child, copy, event, fill, host, kernel, memory};
use crate::graph::node::Work;
use crate::state::runtime::{Runtime, runtime};

pub unsafe fn hipGraphAddNode(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    after: *const hipGraphNode_t,
    count: usize,
    parameters: *mut hipGraphNodeParams,
) -> Status {
    // SAFETY: the caller's struct.
    let it = unsafe { get(parameters.cast_const())? };
    let mut address = 0;
    // SAFETY: the caller's pointers; the type determines which member of the parameters is valid.
    unsafe {
        add(node, graph, after, count, |runtime| match it.r#type {
            hipGraphNodeTypeGraph => Ok(Work::Child(child::embedded(runtime, it.params.graph.graph)?)),
            hipGraphNodeTypeMemAlloc => {
                let made = memory::described(runtime, &it.params.alloc)?;
                address = made.memory.address;
                Ok(Work::Allocate(made))
            }
            hipGraphNodeTypeMemFree => memory::freeing(runtime, it.params.free.dptr),
            _ => described(runtime, &it),
        })?;
        if address != 0 {
            (*parameters).params.alloc.dptr = address as *mut c_void;
        }
    }
    Ok(())
}

/// The work described by parameters, of the kinds that can be changed.
///
/// # Safety
/// The member that belongs to the type is as HIP describes it.
unsafe fn described(runtime: &Runtime, it: &hipGraphNodeParams) -> Result<Work, hipError_t> {
    // SAFETY: the type determines which member is valid.
    unsafe {
        Ok(match it.r#type {
            hipGraphNodeTypeKernel => Work::Kernel(kernel::described(runtime, &it.params.kernel)?),
            hipGraphNodeTypeMemcpy => Work::Copy(copy::boxed(runtime, &it.params.memcpy.copyParams)?),
            hipGraphNodeTypeMemset => Work::Fill(fill::described(runtime, &it.params.memset)?),
            hipGraphNodeTypeHost => Work::Host(host::described(&it.params.host)?),
            hipGraphNodeTypeWaitEvent => Work::WaitEvent(event::named(runtime, it.params.eventWait.event)?),
            hipGraphNodeTypeEventRecord => {
                Work::RecordEvent(event::named(runtime, it.params.eventRecord.event)?)
            }
            hipGraphNodeTypeExtSemaphoreSignal
            | hipGraphNodeTypeExtSemaphoreWait
            | hipGraphNodeTypeMemAlloc
            | hipGraphNodeTypeMemFree => return Err(hipErrorNotSupported),
            _ => return Err(hipErrorInvalidValue),
        })
    }
}

pub unsafe fn hipGraphNodeSetParams(node: hipGraphNode_t, parameters: *mut hipGraphNodeParams) -> Status {
    // SAFETY: the caller's struct.
    let it = unsafe { get(parameters.cast_const())? };
    let runtime = runtime()?;
    if it.r#type == hipGraphNodeTypeGraph {
        // SAFETY: the type says that the graph member is valid.
        let new = child::embedded(runtime, unsafe { it.params.graph.graph })?;
        let old = with(node, |work| match work {
            Work::Child(old) => Ok(std::mem::replace(old, new)),
            _ => Err(hipErrorInvalidValue),
        })?;
        return runtime.destroy_graph(old.id);
    }
    // SAFETY: the caller's struct.
    let new = unsafe { described(runtime, &it)? };
    with(node, |work| match new {
        Work::Kernel(new) => kernel::replace(work, new),
        Work::Copy(new) => copy::replace(work, new),
        Work::Fill(new) => fill::replace(work, new),
        Work::Host(new) => host::replace(work, new),
        new => event::replace(work, new),
    })
}

pub unsafe fn hipGraphExecNodeSetParams(
    executable: hipGraphExec_t,
    node: hipGraphNode_t,
    parameters: *mut hipGraphNodeParams,
) -> Status {
    // SAFETY: the caller's struct.
    let it = unsafe { get(parameters.cast_const())? };
    // SAFETY: the caller's struct; the type determines which member is valid.
    unsafe {
        match it.r#type {
            hipGraphNodeTypeKernel => {
                kernel::hipGraphExecKernelNodeSetParams(executable, node, &it.params.kernel)
            }
            hipGraphNodeTypeMemcpy => {
                copy::change(executable, node, |runtime| copy::boxed(runtime, &it.params.memcpy.copyParams))
            }
            hipGraphNodeTypeMemset => {
                fill::change(executable, node, |runtime| fill::described(runtime, &it.params.memset))
            }
            hipGraphNodeTypeHost => host::hipGraphExecHostNodeSetParams(executable, node, &it.params.host),
            hipGraphNodeTypeGraph => {
                child::hipGraphExecChildGraphNodeSetParams(executable, node, it.params.graph.graph)
            }
            hipGraphNodeTypeWaitEvent => {
                event::hipGraphExecEventWaitNodeSetEvent(executable, node, it.params.eventWait.event)
            }
            hipGraphNodeTypeEventRecord => {
                event::hipGraphExecEventRecordNodeSetEvent(executable, node, it.params.eventRecord.event)
            }
            _ => {
                let (runtime, _) = find(executable)?;
                described(runtime, &it).and(Err(hipErrorInvalidValue))
            }
        }
    }
}
