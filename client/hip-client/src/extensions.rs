//! Functions of ours that AMD's library does not have. Programs look for them by name (`dlsym`) and do without where they are not.

#![allow(non_snake_case, reason = "they are named like the functions they stand beside")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use hip_api::types::*;

use crate::runtime::runtime;

/// From now on the current device counts what kernels execute, which makes them slower. Only software devices do; others give
/// hipErrorNotSupported.
#[unsafe(no_mangle)]
pub extern "C" fn remoraCountersBegin() -> hipError_t {
    guarded(|| {
        let runtime = runtime()?;
        let (_, device) = runtime.current()?;
        runtime.call(&wire::BeginCounting { device: device.ordinal })?;
        Ok(())
    })
}

/// Ends counting and writes the numbers, at most as many as there is room for: launches, waves, instructions, and of those vector,
/// scalar, matrix, vector memory, scalar memory, local memory, branches, others; then bytes read and written in global memory, and
/// cycles lost to bank conflicts. Work that is not waited for is not in it.
///
/// # Safety
/// `numbers` has room for as many as `room` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn remoraCountersEnd(numbers: *mut u64, room: usize) -> hipError_t {
    guarded(|| {
        if numbers.is_null() {
            return Err(hipErrorInvalidValue);
        }
        let runtime = runtime()?;
        let (_, device) = runtime.current()?;
        let found = runtime.call(&wire::EndCounting { device: device.ordinal })?.numbers;
        for index in 0..room {
            let value = found.get(index).copied().unwrap_or(0);
            // SAFETY: promised by the caller.
            unsafe { numbers.add(index).write(value) };
        }
        Ok(())
    })
}

/// Nothing unwinds into a program.
fn guarded(body: impl FnOnce() -> Result<(), hipError_t>) -> hipError_t {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(hipErrorUnknown)).err().unwrap_or(hipSuccess)
}
