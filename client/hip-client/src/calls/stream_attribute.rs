//! Stream attributes. They are hints to the GPU's caches and to a waiting host; they are only stored and returned.

use hip_api::types::*;

use super::{Status, set};
use crate::state::runtime::runtime;

/// Whether an attribute can be set; the priority of a stream is fixed when it is created.
fn is_kept(attribute: hipLaunchAttributeID) -> bool {
    let kept = [
        hipLaunchAttributeAccessPolicyWindow,
        hipLaunchAttributeSynchronizationPolicy,
        hipLaunchAttributeMemSyncDomainMap,
        hipLaunchAttributeMemSyncDomain,
    ];
    kept.contains(&attribute)
}

pub unsafe fn hipStreamGetAttribute(
    stream: hipStream_t,
    attribute: hipLaunchAttributeID,
    value: *mut hipLaunchAttributeValue,
) -> Status {
    let found = runtime()?.tables.streams.get(stream as u64).ok_or(hipErrorInvalidHandle)?;
    let mut answer = hipLaunchAttributeValue { pad: [0; 64] };
    if attribute == hipLaunchAttributePriority {
        answer.priority = found.priority;
    } else if is_kept(attribute) {
        if let Some(kept) = found.attributes.lock().get(&attribute.0) {
            answer.pad = *kept;
        }
    } else {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's out-pointer.
    unsafe { set(value, answer) }
}

pub unsafe fn hipStreamSetAttribute(
    stream: hipStream_t,
    attribute: hipLaunchAttributeID,
    value: *const hipLaunchAttributeValue,
) -> Status {
    let found = runtime()?.tables.streams.get(stream as u64).ok_or(hipErrorInvalidHandle)?;
    if value.is_null() || !is_kept(attribute) {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's union, not null; every member lies inside its padding.
    let bytes = unsafe { (*value).pad };
    found.attributes.lock().insert(attribute.0, bytes);
    Ok(())
}

pub unsafe fn hipStreamCopyAttributes(to: hipStream_t, from: hipStream_t) -> Status {
    let runtime = runtime()?;
    let to = runtime.tables.streams.get(to as u64).ok_or(hipErrorInvalidHandle)?;
    let from = runtime.tables.streams.get(from as u64).ok_or(hipErrorInvalidHandle)?;
    let attributes = from.attributes.lock().clone();
    *to.attributes.lock() = attributes;
    Ok(())
}
