//! Many short writes to device memory, not ordered with any stream: what the host has written to memory that it shares with kernels,
//! byte by byte.
//!
//! A kernel does it at once if the GPU has nothing else to do: it would have to wait for running kernels, and so would its loading.
//! Else each run is a copy, which costs some microseconds.

use std::ffi::c_void;
use std::sync::OnceLock;

use backend::DeviceError;

use crate::device::Shared;
use crate::error::call;
use crate::types::*;

/// Fewest runs that are worth a kernel.
const LEAST_RUNS: usize = 32;
/// Longer runs are copied.
const LONG_RUN: usize = 1 << 10;
/// Most runs, and most of their bytes, in one launch.
const MOST_RUNS: usize = 1 << 16;
const MOST_BYTES: usize = 4 << 20;
/// Size of a run's address, the offset of its bytes, and their number.
const RECORD_BYTES: usize = 16;
const THREADS: u32 = 128;

/// Each thread writes one run. Parameters: the records, the bytes, and the number of runs.
const PTX: &str = "\
.version 7.0
.target sm_80
.address_size 64
.visible .entry scatter(.param .u64 records, .param .u64 bytes, .param .u32 count)
{
    .reg .pred %p<3>;
    .reg .b32 %r<9>;
    .reg .b64 %d<7>;
    ld.param.u32 %r0, [count];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    setp.ge.u32 %p0, %r4, %r0;
    @%p0 bra END;
    ld.param.u64 %d0, [records];
    ld.param.u64 %d1, [bytes];
    mul.wide.u32 %d2, %r4, 16;
    add.u64 %d3, %d0, %d2;
    ld.global.u64 %d4, [%d3];
    ld.global.v2.u32 {%r5, %r6}, [%d3+8];
    cvt.u64.u32 %d5, %r5;
    add.u64 %d5, %d1, %d5;
NEXT:
    ld.global.u8 %r7, [%d5];
    st.global.u8 [%d4], %r7;
    add.u64 %d4, %d4, 1;
    add.u64 %d5, %d5, 1;
    sub.u32 %r6, %r6, 1;
    setp.ne.u32 %p1, %r6, 0;
    @%p1 bra NEXT;
END:
    ret;
}
\0";

/// The kernel of each device; `None` if the driver refused it.
#[derive(Default)]
pub(crate) struct Scatter {
    kernels: Vec<OnceLock<Option<usize>>>,
}

impl Scatter {
    pub(crate) fn new(devices: usize) -> Scatter {
        Scatter { kernels: (0..devices).map(|_| OnceLock::new()).collect() }
    }
}

impl Shared {
    /// Writes runs of bytes at once. Their ranges must have been checked.
    pub(crate) fn write_runs_aside(&self, runs: &[(u64, &[u8])]) -> Result<(), DeviceError> {
        let is_short = |run: &&(u64, &[u8])| (1..=LONG_RUN).contains(&run.1.len());
        for (address, bytes) in runs.iter().filter(|run| run.1.len() > LONG_RUN) {
            self.write_aside(*address, bytes)?;
        }
        let short: Vec<&(u64, &[u8])> = runs.iter().filter(is_short).collect();
        let mut rest = &short[..];
        while let Some(first) = rest.first() {
            let device = self.memory.owner(first.0);
            let mut bytes = 0;
            let fits = |run: &&&(u64, &[u8])| {
                bytes += run.1.len();
                bytes <= MOST_BYTES && self.memory.owner(run.0) == device
            };
            let count = rest.iter().take(MOST_RUNS).take_while(fits).count().max(1);
            let (part, more) = rest.split_at(count);
            self.write_part(device, part)?;
            rest = more;
        }
        Ok(())
    }

    /// Writes runs of one device.
    fn write_part(&self, device: u32, runs: &[&(u64, &[u8])]) -> Result<(), DeviceError> {
        let gpu = self.on(device)?;
        let total = runs.iter().map(|run| run.1.len()).sum();
        let mut bytes = self.pinned.take(total)?;
        let mut at = 0;
        for (_, run) in runs {
            bytes.bytes_mut(total)[at..at + run.len()].copy_from_slice(run);
            at += run.len();
        }
        let kernel = (runs.len() >= LEAST_RUNS && self.is_idle()).then(|| self.scatter_kernel(device));
        if let Some(kernel) = kernel.flatten() {
            let mut records = self.pinned.take(runs.len() * RECORD_BYTES)?;
            let mut offset = 0u32;
            let place = records.bytes_mut(runs.len() * RECORD_BYTES);
            for (record, (address, run)) in place.chunks_exact_mut(RECORD_BYTES).zip(runs) {
                record[..8].copy_from_slice(&address.to_le_bytes());
                record[8..12].copy_from_slice(&offset.to_le_bytes());
                record[12..].copy_from_slice(&(run.len() as u32).to_le_bytes());
                offset += run.len() as u32;
            }
            let (mut from, mut data, mut count) = (records.address(), bytes.address(), runs.len() as u32);
            let mut parameters: [*mut c_void; 3] =
                [(&raw mut from).cast(), (&raw mut data).cast(), (&raw mut count).cast()];
            let (blocks, none) = (count.div_ceil(THREADS), std::ptr::null_mut());
            let (function, stream, parameters) = (kernel as CuFunction, gpu.aside(), parameters.as_mut_ptr());
            call!(
                self.functions,
                cuLaunchKernel(function, blocks, 1, 1, THREADS, 1, 1, 0, stream, parameters, none)
            )?;
            // Before the pieces go back to their pool.
            return gpu.finish_aside();
        }
        let mut from = bytes.address();
        let queued = runs.iter().try_for_each(|(address, run)| {
            gpu.write_aside(*address, from as *const c_void, run.len())?;
            from += run.len() as u64;
            Ok(())
        });
        gpu.finish_aside().and(queued)
    }

    fn scatter_kernel(&self, device: u32) -> Option<usize> {
        let load = || {
            let (mut module, mut function) = (std::ptr::null_mut(), std::ptr::null_mut());
            let loaded = call!(self.functions, cuModuleLoadData(&raw mut module, PTX.as_ptr().cast()))
                .and_then(|()| {
                    let name = c"scatter".as_ptr();
                    call!(self.functions, cuModuleGetFunction(&raw mut function, module, name))
                });
            match loaded {
                Ok(()) => Some(function as usize),
                Err(error) => {
                    tracing::warn!("memory that host and kernels share is slow: {error}");
                    None
                }
            }
        };
        *self.scatter.kernels.get(device as usize)?.get_or_init(load)
    }
}
