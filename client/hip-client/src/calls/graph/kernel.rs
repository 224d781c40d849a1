//! Kernel nodes.

use hip_api::types::*;

use super::super::launch_request::kernel_node;
use super::super::{Status, set};
use super::arguments::{add, find, get, with};
use crate::graph::node::{Kernel, Work};
use crate::state::runtime::{Runtime, runtime};

fn kernel(work: &mut Work) -> Result<&mut Kernel, hipError_t> {
    if let Work::Kernel(kernel) = work { Ok(kernel) } else { Err(hipErrorInvalidValue) }
}

/// The kernel described by parameters, on the current device.
///
/// # Safety
/// `parameters` is null or a struct whose argument lists are as HIP describes them.
pub(super) unsafe fn described(
    runtime: &Runtime,
    parameters: *const hipKernelNodeParams,
) -> Result<Kernel, hipError_t> {
    let (device, _) = runtime.current()?;
    // SAFETY: guaranteed by the caller.
    unsafe { kernel_node(runtime, device, &get(parameters)?) }
}

pub unsafe fn hipGraphAddKernelNode(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    after: *const hipGraphNode_t,
    count: usize,
    parameters: *const hipKernelNodeParams,
) -> Status {
    // SAFETY: the caller's pointers.
    unsafe { add(node, graph, after, count, |runtime| Ok(Work::Kernel(described(runtime, parameters)?))) }
}

pub unsafe fn hipGraphKernelNodeGetParams(
    node: hipGraphNode_t,
    parameters: *mut hipKernelNodeParams,
) -> Status {
    let found = with(node, |work| {
        let kernel = kernel(work)?;
        let (params, extra) = kernel.arguments.lists();
        let [x, y, z] = kernel.launch.block;
        Ok(hipKernelNodeParams {
            blockDim: dim3::new(x, y, z),
            extra,
            func: kernel.symbol as *mut _,
            gridDim: kernel.blocks,
            kernelParams: params,
            sharedMemBytes: kernel.launch.shared_bytes,
        })
    })?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(parameters, found) }
}

/// Replaces the kernel of a node, which keeps its attributes.
pub(super) fn replace(work: &mut Work, mut new: Kernel) -> Status {
    let old = kernel(work)?;
    new.attributes = std::mem::take(&mut old.attributes);
    *old = new;
    Ok(())
}

pub unsafe fn hipGraphKernelNodeSetParams(
    node: hipGraphNode_t,
    parameters: *const hipKernelNodeParams,
) -> Status {
    with(node, |work| kernel(work).map(drop))?;
    // SAFETY: the caller's struct. The argument lists may be the node's own, which does not change meanwhile.
    let new = unsafe { described(runtime()?, parameters)? };
    with(node, |work| replace(work, new))
}

pub unsafe fn hipGraphExecKernelNodeSetParams(
    executable: hipGraphExec_t,
    node: hipGraphNode_t,
    parameters: *const hipKernelNodeParams,
) -> Status {
    let (runtime, executable) = find(executable)?;
    let old = executable.with(runtime, node as u64, |work| match work {
        Work::Kernel(kernel) => Ok((kernel.attributes.clone(), kernel.function.device)),
        _ => Err(hipErrorInvalidValue),
    })??;
    // SAFETY: the caller's struct.
    let mut new = unsafe { described(runtime, parameters)? };
    if new.function.device != old.1 {
        return Err(hipErrorInvalidValue);
    }
    new.attributes = old.0;
    executable.set(runtime, node as u64, Work::Kernel(new))
}

fn known(attribute: hipLaunchAttributeID) -> Status {
    match attribute {
        hipLaunchAttributeAccessPolicyWindow | hipLaunchAttributeCooperative | hipLaunchAttributePriority => {
            Ok(())
        }
        _ => Err(hipErrorInvalidValue),
    }
}

pub unsafe fn hipGraphKernelNodeSetAttribute(
    node: hipGraphNode_t,
    attribute: hipLaunchAttributeID,
    value: *const hipLaunchAttributeValue,
) -> Status {
    known(attribute)?;
    let runtime = runtime()?;
    let (_, device) = runtime.current()?;
    // SAFETY: the caller's union; the attribute determines which member is valid, and all are plain numbers.
    let value = unsafe {
        let value = get(value)?;
        match attribute {
            hipLaunchAttributeAccessPolicyWindow => {
                let window = value.accessPolicyWindow;
                let most = device.properties.accessPolicyMaxWindowSize.max(0) as usize;
                let hits = (0.0..=1.0).contains(&window.hitRatio);
                let none = window.num_bytes > 0 && window.hitRatio == 0.0;
                let persists = window.missProp == hipAccessPropertyPersisting;
                if !hits || none || persists || window.num_bytes > most {
                    return Err(hipErrorInvalidValue);
                }
            }
            hipLaunchAttributePriority => {
                let (a, b) = (device.snapshot.least_priority, device.snapshot.greatest_priority);
                if !(a.min(b)..=a.max(b)).contains(&value.priority) {
                    return Err(hipErrorInvalidValue);
                }
            }
            _ => {}
        }
        value
    };
    with(node, |work| {
        kernel(work)?.attributes.insert(attribute.0, value);
        Ok(())
    })
}

pub unsafe fn hipGraphKernelNodeGetAttribute(
    node: hipGraphNode_t,
    attribute: hipLaunchAttributeID,
    value: *mut hipLaunchAttributeValue,
) -> Status {
    known(attribute)?;
    let found = with(node, |work| Ok(kernel(work)?.attributes.get(&attribute.0).copied()))?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(value, found.unwrap_or(hipLaunchAttributeValue { pad: [0; 64] })) }
}

pub unsafe fn hipGraphKernelNodeCopyAttributes(source: hipGraphNode_t, to: hipGraphNode_t) -> Status {
    let attributes = with(source, |work| Ok(kernel(work)?.attributes.clone()))?;
    with(to, |work| {
        kernel(work)?.attributes = attributes;
        Ok(())
    })
}
