//! A kernel launch, common to all launch functions: validated without changing anything, then posted or captured.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hip_api::types::*;

use super::{Status, event};
use crate::graph::node::{Arguments, Kernel, Work};
use crate::state::kernarg::{Kernarg, KernargError};
use crate::state::module::Function;
use crate::state::objects::Event;
use crate::state::runtime::Runtime;
use crate::state::stream::StreamRef;
use crate::telemetry::report;

/// The largest workgroup on any device of these architectures, in work-items.
const MOST_WORK_ITEMS: u64 = 1024;
/// The flag of a cooperative launch on the wire.
pub(super) const COOPERATIVE: u32 = 1;

/// A launch, common to all launch functions.
pub(super) struct Launch<'a> {
    pub function: &'a Arc<Function>,
    /// Work-items in each dimension.
    pub grid: [u64; 3],
    pub block: [u32; 3],
    pub shared_bytes: u64,
    pub stream: StreamRef,
    pub flags: u32,
    pub start: hipEvent_t,
    pub stop: hipEvent_t,
}

impl Launch<'_> {
    /// Validates the launch and returns its operation, with the events around it. Changes nothing: a launch that is
    /// refused must not look recorded.
    fn check(&self, runtime: &Runtime) -> Result<(wire::Launch, LaunchEvents), hipError_t> {
        let kernel = &self.function.kernel;
        let work_items: u64 = self.block.iter().map(|n| u64::from(*n)).product();
        if work_items == 0 || work_items > MOST_WORK_ITEMS || self.grid.contains(&0) {
            return Err(hipErrorInvalidConfiguration);
        }
        if work_items > u64::from(kernel.max_flat_workgroup_size.max(1)) {
            report::debug(format_args!(
                "{}: {work_items} work-items per workgroup, but compiled for at most {}",
                kernel.name, kernel.max_flat_workgroup_size
            ));
            return Err(hipErrorLaunchFailure);
        }
        let mut grid = [0; 3];
        for (to, from) in grid.iter_mut().zip(self.grid) {
            *to = u32::try_from(from).map_err(|_| hipErrorInvalidConfiguration)?;
        }
        let device = &runtime.devices[self.function.device];
        let limit = device.properties.sharedMemPerBlock as u64;
        let shared_bytes = dynamic_bytes(self.shared_bytes, kernel.group_size, limit)?;
        if self.stream.device != self.function.device {
            return Err(hipErrorInvalidHandle);
        }
        if self.flags & COOPERATIVE != 0 {
            let groups =
                self.grid.iter().zip(self.block).map(|(items, size)| items.div_ceil(u64::from(size)));
            let units = device.properties.multiProcessorCount.max(1) as u64;
            let resident = kernel.occupancy(work_items as u32, self.shared_bytes, limit).groups;
            if groups.fold(1, u64::saturating_mul) > u64::from(resident) * units {
                return Err(hipErrorCooperativeLaunchTooLarge);
            }
        }
        let events = LaunchEvents([find_event(runtime, self.start)?, find_event(runtime, self.stop)?]);
        let [start_event, stop_event] = events.ids();
        let operation = wire::Launch {
            function: self.function.id,
            stream: self.stream.id,
            grid,
            block: self.block,
            shared_bytes,
            flags: self.flags,
            start_event,
            stop_event,
        };
        Ok((operation, events))
    }

    /// Validates the launch and posts it, or adds it to the graph that the stream is captured into.
    pub fn send(&self, runtime: &Runtime, kernarg: &Kernarg) -> Status {
        let (operation, events) = self.check(runtime)?;
        let kept = runtime.record(self.stream, || {
            let symbol = self.function.id as usize;
            Ok(Work::Kernel(self.node(operation.clone(), symbol, kernarg.bytes(), false)))
        });
        if let Some(kept) = kept {
            return kept.inspect(|()| events.note_record());
        }
        // Before sending, as another thread may query the events at once.
        events.note_record();
        runtime.post(&operation, kernarg.bytes())
    }

    /// The launch as a graph node.
    fn node(&self, launch: wire::Launch, symbol: usize, arguments: &[u8], packed: bool) -> Kernel {
        let code = &self.function.kernel;
        let blocks: [u32; 3] = std::array::from_fn(|i| launch.grid[i].div_ceil(launch.block[i].max(1)));
        Kernel {
            function: Arc::clone(self.function),
            symbol,
            blocks: dim3::new(blocks[0], blocks[1], blocks[2]),
            launch,
            arguments: Arguments::new(code, arguments, packed || code.args.is_empty()),
            attributes: HashMap::new(),
        }
    }
}

/// The events that a launch records, if the program gave any: at its start and at its end.
struct LaunchEvents([Option<Arc<Event>>; 2]);

impl LaunchEvents {
    /// Their numbers on the wire; 0 for none.
    fn ids(&self) -> [u64; 2] {
        self.0.each_ref().map(|event| event.as_ref().map_or(0, |event| event.id))
    }

    /// Notes that a launch records them.
    fn note_record(&self) {
        for event in self.0.iter().flatten() {
            event.mark.advance();
            event.recorded.store(true, Ordering::Release);
        }
    }
}

fn find_event(runtime: &Runtime, handle: hipEvent_t) -> Result<Option<Arc<Event>>, hipError_t> {
    if handle.is_null() { Ok(None) } else { event::find(runtime, handle).map(Some) }
}

/// The dynamic shared memory of a launch, if it fits beside the kernel's own.
fn dynamic_bytes(dynamic: u64, own: u32, limit: u64) -> Result<u32, hipError_t> {
    let whole = dynamic.checked_add(own.into()).filter(|whole| *whole <= limit);
    whole.and_then(|_| u32::try_from(dynamic).ok()).ok_or(hipErrorInvalidValue)
}

/// Builds a kernel node from its parameters, for the given device.
///
/// # Safety
/// The argument lists are as HIP describes them.
pub(super) unsafe fn kernel_node(
    runtime: &Runtime,
    device: usize,
    parameters: &hipKernelNodeParams,
) -> Result<Kernel, hipError_t> {
    if parameters.func.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let function = match runtime.tables.functions.get(parameters.func as u64) {
        Some(function) => function,
        None => runtime.stub(device, parameters.func as usize)?,
    };
    let block = xyz(parameters.blockDim);
    let launch = Launch {
        function: &function,
        grid: work_items(xyz(parameters.gridDim), block),
        block,
        shared_bytes: parameters.sharedMemBytes.into(),
        stream: StreamRef { id: 0, device: function.device },
        flags: 0,
        start: std::ptr::null_mut(),
        stop: std::ptr::null_mut(),
    };
    let (operation, _) = launch.check(runtime)?;
    let (params, extra) = (parameters.kernelParams.cast_const(), parameters.extra.cast_const());
    // SAFETY: guaranteed by the caller.
    let kernarg = unsafe { Kernarg::gather(&function.kernel, params, extra) };
    let kernarg = kernarg.map_err(|_| hipErrorInvalidValue)?;
    Ok(launch.node(operation, parameters.func as usize, kernarg.bytes(), params.is_null()))
}

/// Reports wrong argument pointers.
pub(super) fn kernarg_status(function: &Function) -> impl FnOnce(KernargError) -> hipError_t + '_ {
    |error| {
        report::line(format_args!("launch of {}: {error}", function.kernel.name));
        hipErrorInvalidValue
    }
}

/// Work-items of a grid given in workgroups.
pub(super) fn work_items(blocks: [u32; 3], block: [u32; 3]) -> [u64; 3] {
    std::array::from_fn(|i| u64::from(blocks[i]) * u64::from(block[i]))
}

/// Dimensions as an array.
pub(super) fn xyz(d: dim3) -> [u32; 3] {
    [d.x, d.y, d.z]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_that_would_overflow_is_refused() {
        let limit = 64 << 10;
        assert_eq!(dynamic_bytes(1 << 10, 63 << 10, limit), Ok(1 << 10));
        assert_eq!(dynamic_bytes((1 << 10) + 1, 63 << 10, limit), Err(hipErrorInvalidValue));
        assert_eq!(dynamic_bytes(u64::MAX, 1 << 10, limit), Err(hipErrorInvalidValue));
        assert_eq!(dynamic_bytes(1 << 32, 0, u64::MAX), Err(hipErrorInvalidValue));
    }
}
