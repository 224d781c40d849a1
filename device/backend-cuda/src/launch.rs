//! Kernel launches: the argument block with its hidden arguments, the launch block, and the driver's call.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use backend::{DeviceError, Launch};
use code_object::ArgKind;
use emulator::kernarg::{Places, Shape};
use hip_api::types::{
    hipErrorCooperativeLaunchTooLarge, hipErrorInvalidConfiguration, hipErrorInvalidValue,
    hipErrorLaunchOutOfResources,
};
use ptx::launch::{
    DISPATCH_ID_AT, GRID_BARRIER_AT, GROUPS_AT, LAUNCH_BYTES, PRIVATE_APERTURE, QUEUE_POINTER_AT,
    SHARED_APERTURE,
};

use crate::device::Shared;
use crate::error::call;
use crate::module::Function;
use crate::pinned::Piece;
use crate::program::Compiled;
use crate::stream::{Origin, Stream};
use crate::types::*;

/// LDS that a workgroup may have, as the imitated GPU has.
const LDS_BYTES: u32 = 64 << 10;
/// Stack of a lane in kernels whose stack size the compiler could not determine, unless the program sets a limit. The driver
/// reserves it for every lane that the GPU can hold at once, so it is less than the software GPU's.
const STACK_BYTES: u32 = 4 << 10;
/// Most blocks of a grid.
const MOST_BLOCKS: u64 = (1 << 31) - 1;
/// Size of a grid's barrier.
pub(crate) const BARRIER_BYTES: u64 = 16;
/// Offset of the apertures in the queue descriptor, and its size.
const APERTURES_AT: usize = 64;
const QUEUE_BYTES: usize = 256;

/// Queue descriptor of a device, which kernels read the apertures from.
pub(crate) fn queue_descriptor(mut piece: Piece) -> Piece {
    let bytes = piece.bytes_mut(QUEUE_BYTES);
    bytes.fill(0);
    bytes[APERTURES_AT..APERTURES_AT + 4].copy_from_slice(&SHARED_APERTURE.to_le_bytes());
    bytes[APERTURES_AT + 4..APERTURES_AT + 8].copy_from_slice(&PRIVATE_APERTURE.to_le_bytes());
    piece
}

/// Number of workgroups in each dimension. Fails unless the launch makes sense.
fn workgroups(launch: &Launch) -> Result<[u32; 3], DeviceError> {
    let refused = |why: &str| {
        let text = format!(
            "invalid launch dimensions: grid {:?} in workgroups of {:?}: {why}",
            launch.grid, launch.block
        );
        DeviceError::new(hipErrorInvalidConfiguration, text)
    };
    let items = launch.block.iter().try_fold(1u32, |product, size| product.checked_mul(*size));
    if !items.is_some_and(|items| (1..=1024).contains(&items)) || launch.grid.contains(&0) {
        return Err(refused("a workgroup has 1 to 1024 work-items"));
    }
    if (0..3).any(|k| !launch.grid[k].is_multiple_of(launch.block[k])) {
        return Err(refused("partial workgroups are not supported on NVIDIA GPUs"));
    }
    let counts: [u32; 3] = std::array::from_fn(|k| launch.grid[k] / launch.block[k]);
    let total = counts.iter().try_fold(1u64, |total, count| total.checked_mul(u64::from(*count)));
    if total.is_none_or(|total| total > MOST_BLOCKS) {
        return Err(refused("the grid has too many workgroups"));
    }
    Ok(counts)
}

/// The two parameters of a launch.
struct Parameters {
    kernarg: Vec<u8>,
    block: Vec<u8>,
    /// Pinned memory that they point to.
    held: Vec<Piece>,
    /// Device memory of the grid's barrier, to be zeroed before the launch; 0 for none.
    barrier: u64,
}

/// A launch that has been checked, with everything it needs.
pub(crate) struct ReadyLaunch {
    compiled: Arc<Compiled>,
    parameters: Parameters,
    blocks: u32,
    lds: u32,
    cooperative: bool,
    /// The kernel may make requests to the host.
    requests: bool,
    /// Events to record before and after; 0 for none.
    start: usize,
    stop: usize,
}

impl Shared {
    /// Checks a launch, translates its kernel if that is needed, and builds its parameters. The context of the stream's device
    /// must be current.
    pub(crate) fn prepare_launch(
        self: &Arc<Shared>,
        device: u32,
        launch: &Launch,
    ) -> Result<(ReadyLaunch, Arc<str>), DeviceError> {
        let function = self.modules.lock().function(launch.function)?;
        let (start, stop) = if launch.start_event == 0 && launch.stop_event == 0 {
            (0, 0)
        } else {
            let events = self.events.lock();
            let handle = |id| if id == 0 { Ok(0) } else { events.get(id).map(|it| it as usize) };
            (handle(launch.start_event)?, handle(launch.stop_event)?)
        };
        let counts = workgroups(launch)?;
        if function.module.device != device {
            return Err(DeviceError::invalid_handle(format!(
                "kernel {} was loaded on device {}, the stream is on device {device}",
                function.name, function.module.device
            )));
        }
        if launch.arguments.len() > function.kernel.kernarg_size as usize {
            let (given, taken) = (launch.arguments.len(), function.kernel.kernarg_size);
            let text =
                format!("launch passes {given} bytes of arguments, kernel {} takes {taken}", function.name);
            return Err(DeviceError::new(hipErrorInvalidValue, text));
        }
        let lds = function.kernel.group_size.saturating_add(launch.shared_bytes);
        if lds > LDS_BYTES {
            let text =
                format!("kernel {} needs {lds} bytes of LDS, the device has {LDS_BYTES}", function.name);
            return Err(DeviceError::new(hipErrorLaunchOutOfResources, text));
        }
        let stack = match self.services[device as usize].stack_bytes.load(Ordering::Relaxed) {
            0 => STACK_BYTES,
            asked => asked,
        };
        // What others wait for must not wait for a translation.
        let gpu = &self.gpus[device as usize];
        let report = |kernel: Option<&str>| {
            if let Some(notifier) = self.notifier.get() {
                notifier.translating(kernel);
            }
        };
        let compiled = self.programs.get(gpu, &function, launch, stack, || self.waiter.wake(), &report)?;
        self.permit(&compiled, lds)?;
        let blocks = counts.iter().product::<u32>();
        let cooperative = launch.cooperative || compiled.facts.cooperative;
        if cooperative {
            self.check_residence(device, &compiled, &function, lds, blocks)?;
        }
        let parameters = self.arguments(device, &function, &compiled, launch, counts, lds)?;
        let requests = function.kernel.has_arg(&ArgKind::HiddenHostcallBuffer);
        let ready = ReadyLaunch { compiled, parameters, blocks, lds, cooperative, requests, start, stop };
        Ok((ready, Arc::clone(&function.name)))
    }

    /// Gives a launch to the driver.
    pub(crate) fn submit_launch(
        self: &Arc<Shared>,
        stream: &Arc<Stream>,
        number: u32,
        origin: &Origin,
        launch: ReadyLaunch,
    ) -> Result<(), DeviceError> {
        let ReadyLaunch { compiled, parameters, blocks, lds, cooperative, requests, start, stop } = launch;
        let Parameters { mut kernarg, mut block, held, barrier } = parameters;
        let functions = &self.functions;
        stream.submit(functions, number, origin, |handle| {
            if let Some(pacer) = &self.pacer {
                pacer.hold(self, stream)?;
            }
            if start != 0 {
                call!(functions, cuEventRecord(start as CuEvent, handle))?;
            }
            if barrier != 0 {
                call!(functions, cuMemsetD8Async(barrier, 0, BARRIER_BYTES as usize, handle))?;
            }
            let mut parameters: [*mut c_void; 2] = [kernarg.as_mut_ptr().cast(), block.as_mut_ptr().cast()];
            let (kernel, threads) = (compiled.function(), compiled.facts.threads);
            let parameters = parameters.as_mut_ptr();
            if cooperative {
                call!(
                    functions,
                    cuLaunchCooperativeKernel(kernel, blocks, 1, 1, threads, 1, 1, lds, handle, parameters)
                )?;
            } else {
                let none = std::ptr::null_mut();
                call!(
                    functions,
                    cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, lds, handle, parameters, none)
                )?;
            }
            if stop != 0 {
                call!(functions, cuEventRecord(stop as CuEvent, handle))?;
            }
            Ok(())
        })?;
        if start != 0 || stop != 0 || requests {
            // Published at once: what waits for an event must not wait for later work.
            stream.publish(functions)?;
        }
        if requests {
            self.expect_requests(stream.device, stream.mark(number));
        }
        held.into_iter().for_each(|piece| self.pinned.retire(stream.mark(number), piece));
        Ok(())
    }

    /// Permits a kernel as much shared memory as a launch needs. Beyond 48 KiB the driver wants to be asked.
    fn permit(&self, compiled: &Compiled, lds: u32) -> Result<(), DeviceError> {
        if lds > compiled.permitted.load(Ordering::Relaxed) {
            call!(
                self.functions,
                cuFuncSetAttribute(compiled.function(), function::DYNAMIC_SHARED, LDS_BYTES as i32)
            )?;
            compiled.permitted.store(LDS_BYTES, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Fails unless all workgroups of a cooperative launch fit on the device at the same time.
    fn check_residence(
        &self,
        device: u32,
        compiled: &Compiled,
        function: &Function,
        lds: u32,
        blocks: u32,
    ) -> Result<(), DeviceError> {
        let mut each = 0;
        call!(
            self.functions,
            cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &raw mut each,
                compiled.function(),
                compiled.facts.threads as i32,
                lds as usize
            )
        )?;
        let most = each.max(0) as u32 * self.gpus[device as usize].multiprocessors;
        if blocks > most {
            let text = format!(
                "cooperative launch of {blocks} workgroups of kernel {}, the device holds only {most} at once",
                function.name
            );
            return Err(DeviceError::new(hipErrorCooperativeLaunchTooLarge, text));
        }
        Ok(())
    }

    /// Builds the two parameters of a launch.
    fn arguments(
        self: &Arc<Shared>,
        device: u32,
        function: &Function,
        compiled: &Compiled,
        launch: &Launch,
        counts: [u32; 3],
        lds: u32,
    ) -> Result<Parameters, DeviceError> {
        let kernel = &function.kernel;
        let shape = Shape {
            grid: launch.grid,
            workgroup: launch.block,
            dynamic_lds: launch.shared_bytes,
            cooperative: launch.cooperative,
        };
        let mut held = Vec::new();
        let mut places = Places { queue: self.queues[device as usize].address(), ..Places::default() };
        if launch.cooperative && kernel.has_arg(&ArgKind::HiddenMultigridSyncArg) {
            let mut piece = self.pinned.take(64)?;
            piece.bytes_mut(64).copy_from_slice(&shape.multigrid());
            places.multigrid = piece.address();
            held.push(piece);
        }
        if kernel.has_arg(&ArgKind::HiddenPrintfBuffer) {
            return Err(DeviceError::not_supported(format!(
                "kernel {} uses buffered printf, which is not supported on NVIDIA GPUs",
                function.name
            )));
        }
        if kernel.has_arg(&ArgKind::HiddenHostcallBuffer) {
            places.hostcall = self.hostcall(device)?;
        }
        if kernel.has_arg(&ArgKind::HiddenHeapV1) {
            places.heap = self.heap_block(device)?;
        }
        let bytes = compiled.facts.kernarg_bytes.max(kernel.kernarg_size) as usize;
        let mut kernarg = vec![0; bytes];
        kernarg[..launch.arguments.len()].copy_from_slice(&launch.arguments);
        for arg in kernel.hidden() {
            let value = shape.hidden(&arg.kind, &places);
            let (start, size) = (arg.offset as usize, (arg.size as usize).min(8));
            if let Some(to) = kernarg.get_mut(start..start + size) {
                to.copy_from_slice(&value.to_le_bytes()[..size]);
            }
        }
        let private = kernel.private_size.max(kernel.descriptor.private_segment_size);
        let descriptor = function.module.base + kernel.descriptor_address;
        let mut block = vec![0u8; LAUNCH_BYTES as usize];
        let mut put = |at: u32, bytes: &[u8]| {
            block[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        };
        put(0, &shape.packet(descriptor, 0, lds, private));
        put(QUEUE_POINTER_AT, &places.queue.to_le_bytes());
        let id = self.dispatches.fetch_add(1, Ordering::Relaxed);
        put(DISPATCH_ID_AT, &id.to_le_bytes());
        put(GROUPS_AT, &counts[0].to_le_bytes());
        put(GROUPS_AT + 4, &counts[1].to_le_bytes());
        let barrier = if compiled.facts.cooperative { self.barrier(device)? } else { 0 };
        put(GRID_BARRIER_AT, &barrier.to_le_bytes());
        Ok(Parameters { kernarg, block, held, barrier })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(grid: [u32; 3], block: [u32; 3]) -> Launch {
        Launch {
            function: 1,
            grid,
            block,
            shared_bytes: 0,
            cooperative: false,
            start_event: 0,
            stop_event: 0,
            arguments: Vec::new(),
        }
    }

    #[test]
    fn grids_that_cannot_be_launched_are_refused() {
        assert_eq!(workgroups(&launch([128, 6, 2], [64, 2, 1])).unwrap(), [2, 3, 2]);
        for (grid, block) in [
            ([0, 1, 1], [64, 1, 1]),
            ([64, 1, 1], [0, 1, 1]),
            ([2048, 1, 1], [2048, 1, 1]),
            ([64, 1, 1], [u32::MAX, u32::MAX, u32::MAX]),
            ([65, 1, 1], [64, 1, 1]),
            ([u32::MAX, u32::MAX, 1], [1, 1, 1]),
        ] {
            assert_eq!(workgroups(&launch(grid, block)).unwrap_err().code, hipErrorInvalidConfiguration);
        }
    }
}
