//! Extension functions that AMD's library does not have. Programs look them up by name (`dlsym`) and work without them.

#![allow(non_snake_case, reason = "named after the HIP functions that they extend")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use hip_api::types::*;

use crate::state::runtime::runtime;

/// Starts counting what kernels execute on the current device, which makes them slower. Only software devices support
/// this; others return hipErrorNotSupported.
#[unsafe(no_mangle)]
pub extern "C" fn remoraCountersBegin() -> hipError_t {
    guarded(|| {
        let runtime = runtime()?;
        let (_, device) = runtime.current()?;
        runtime.call(&wire::BeginCounting { device: device.ordinal })?;
        Ok(())
    })
}

/// Ends counting and writes `room` numbers (0 beyond the last): launches, waves, instructions, and of those vector,
/// scalar, matrix, vector memory, scalar memory, local memory, branches, others; then bytes read and written in global
/// memory, and cycles lost to bank conflicts. Work that was not synchronized is not included.
///
/// # Safety
/// `numbers` is valid for writes of `room` numbers.
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
            // SAFETY: guaranteed by the caller.
            unsafe { numbers.add(index).write(value) };
        }
        Ok(())
    })
}

/// Writes the id of this process's session on the worker. Observers need it.
///
/// # Safety
/// `session` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn remoraSession(session: *mut u64) -> hipError_t {
    guarded(|| {
        if session.is_null() {
            return Err(hipErrorInvalidValue);
        }
        // SAFETY: guaranteed by the caller.
        unsafe { session.write(runtime()?.session) };
        Ok(())
    })
}

/// Runs `body` and converts a panic to hipErrorUnknown: nothing may unwind into the program.
fn guarded(body: impl FnOnce() -> Result<(), hipError_t>) -> hipError_t {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(hipErrorUnknown)).err().unwrap_or(hipSuccess)
}
