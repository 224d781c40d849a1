//! A dispatch in flight: the grid, with the memory that its kernel finds at its start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use code_object::ArgKind;
use parking_lot::Mutex;

use crate::buffer::Buffer;
use crate::compile::{PRIVATE_APERTURE, SHARED_APERTURE};
use crate::fault::{Fault, FaultKind};
use crate::hostcall::{Hostcall, PACKETS};
use crate::initial_registers::{InitialRegisters, Pointers, WorkItems};
use crate::kernarg::{Places, Shape};
use crate::launch::{Dispatch, GpuConfig};
use crate::launch_stats::LaunchStats;
use crate::memory::{Access, Memory, Range};
use crate::module::LoadedKernel;
use crate::observe::{Launched, ObservedLaunch};
use crate::printf_buffer::PrintfBuffer;
use crate::program::Program;
use crate::schedule::Schedule;
use crate::{Compilation, Lanes, Level, Mode, Uop, exec};

/// State of a barrier across the workgroups of a grid.
#[derive(Debug, Default)]
struct GridBarrier {
    arrived: u32,
    phase: u64,
}

/// A dispatch in flight.
#[derive(Debug)]
pub(crate) struct Grid {
    /// Number of the dispatch on its device.
    pub id: u64,
    pub kernel: Arc<LoadedKernel>,
    pub memory: Arc<Memory>,
    pub level: Level,
    /// Size of the grid and of a full workgroup in work-items, and the number of workgroups.
    pub grid_size: [u32; 3],
    pub workgroup_size: [u32; 3],
    pub workgroups: [u32; 3],
    pub lds_size: u32,
    pub private_size: u32,
    pub vgpr_count: usize,
    pub mode: Mode,
    /// Native compilation threshold, see [`crate::Wave::native`].
    pub native: u32,
    pub id_dims: u8,
    pub initial: InitialRegisters,
    /// Micro-op that runs before a wave's first one.
    pub wave_init: Uop,
    /// v0 of each wave of a full workgroup.
    pub work_items: Arc<[Lanes]>,
    entry: *const Program,
    pub entry_index: usize,
    /// Buffers private to this dispatch: arguments, hostcall packets, printf.
    pub own: Vec<Range>,
    pub hostcall: Option<Hostcall>,
    pub printf: Option<PrintfBuffer>,
    pub deadline: Option<Instant>,
    cancel: Option<Arc<AtomicBool>>,
    aborted: AtomicBool,
    pub fault: Mutex<Option<Fault>>,
    /// Address of the first access to an unmapped page; zero if there was none.
    pub missing: AtomicU64,
    barrier: Mutex<GridBarrier>,
    pub schedule: Schedule,
    pub counts: Mutex<LaunchStats>,
    /// Set when the dispatch is observed.
    pub observed: Option<ObservedLaunch>,
    pub helpers_time: Option<Arc<AtomicU64>>,
    _arguments: Buffer,
}

// SAFETY: the only raw pointer refers to a program of the kernel. The grid keeps the kernel alive, and programs are immutable.
unsafe impl Send for Grid {}
// SAFETY: as for `Send`; all mutable state is atomic or behind a lock.
unsafe impl Sync for Grid {}

/// Offsets in the buffer that holds the AQL packet, the queue descriptor and the kernel arguments.
mod place {
    pub const PACKET: usize = 0;
    pub const QUEUE: usize = 64;
    pub const QUEUE_APERTURES: usize = QUEUE + 64;
    pub const MULTIGRID: usize = 384;
    pub const KERNARG: usize = 512;
}

impl Grid {
    /// Checks the launch and prepares its arguments and buffers.
    pub fn new(
        config: &GpuConfig,
        cpu: Level,
        ids: &WorkItems,
        dispatch: &Dispatch,
        id: u64,
    ) -> Result<Arc<Grid>, Fault> {
        let loaded = &dispatch.kernel;
        let kernel = &loaded.kernel;
        let descriptor = &kernel.descriptor;
        let refuse = |kind: FaultKind| Fault {
            kind,
            kernel: loaded.name().into(),
            pc: 0,
            offset: 0,
            instruction: Box::default(),
            workgroup: [0; 3],
            work_item: None,
        };
        let resources = |text: String| refuse(FaultKind::Resources { text });
        if loaded.arch() != config.arch {
            return Err(resources(format!(
                "kernel is for {:?}, the device is {:?}",
                loaded.arch(),
                config.arch
            )));
        }
        if descriptor.wave32 {
            return Err(resources(
                "kernel is compiled for wave32, the device supports only wave64".to_owned(),
            ));
        }
        let items =
            dispatch.workgroup.iter().try_fold(1u32, |product, size| product.checked_mul(*size)).unwrap_or(0);
        if items == 0 || items > 1024 || dispatch.grid.contains(&0) {
            return Err(resources(format!(
                "invalid launch dimensions: grid {:?} in workgroups of {:?}; a workgroup has 1 to 1024 work-items",
                dispatch.grid, dispatch.workgroup
            )));
        }
        let lds_size = kernel.group_size.saturating_add(dispatch.dynamic_lds);
        if lds_size > config.lds_bytes {
            return Err(resources(format!(
                "kernel needs {lds_size} bytes of LDS (local memory), the device has {}",
                config.lds_bytes
            )));
        }
        let lds_bytes = lds_size;
        let lds_size = lds_size.next_multiple_of(512);
        let mut private_size = kernel.private_size.max(descriptor.private_segment_size);
        if kernel.uses_dynamic_stack {
            private_size = private_size.max(dispatch.stack_bytes.unwrap_or(config.stack_bytes));
        }
        if private_size > 1 << 20 {
            return Err(resources(format!(
                "kernel needs {private_size} bytes of private memory per work-item, the limit is 1 MiB"
            )));
        }
        let private_size = private_size.next_multiple_of(4);
        let workgroups = std::array::from_fn(|k| dispatch.grid[k].div_ceil(dispatch.workgroup[k]));
        let total = workgroups.iter().try_fold(1u64, |total, count| total.checked_mul(u64::from(*count)));
        let total = total.ok_or_else(|| resources("grid has too many workgroups".to_owned()))?;
        // With kernarg preloading, the first 256 bytes of a kernel are a fallback for devices that do not support it; skip them.
        let preload = descriptor.kernarg_preload_length;
        let entry_address = loaded.entry() + if preload > 0 { 256 } else { 0 };
        let entry = loaded.program_at(cpu, entry_address);
        let entry_index = entry.and_then(|program| program.index_of(entry_address));
        let (Some(entry), Some(entry_index)) = (entry, entry_index) else {
            return Err(refuse(FaultKind::IllegalTarget { address: entry_address }));
        };

        let needs = |kind: ArgKind| kernel.has_arg(&kind);
        let hostcall = needs(ArgKind::HiddenHostcallBuffer).then(|| {
            let pages = dispatch.heap.as_ref().map(|heap| heap.pages.clone());
            Hostcall::new(dispatch.output.clone(), dispatch.error_output.clone(), pages)
        });
        let printf = needs(ArgKind::HiddenPrintfBuffer).then(PrintfBuffer::new);
        if dispatch.kernarg.len() > kernel.kernarg_size as usize {
            return Err(resources(format!(
                "launch passes {} bytes of arguments, the kernel takes {}",
                dispatch.kernarg.len(),
                kernel.kernarg_size
            )));
        }
        let mut arguments =
            Buffer::zeroed(place::KERNARG + kernel.kernarg_size.next_multiple_of(64) as usize + 64);
        let base = arguments.address();
        let pointers = Pointers {
            dispatch: base + place::PACKET as u64,
            queue: base + place::QUEUE as u64,
            kernarg: base + place::KERNARG as u64,
            dispatch_id: id,
        };
        let shape = Shape {
            grid: dispatch.grid,
            workgroup: dispatch.workgroup,
            dynamic_lds: dispatch.dynamic_lds,
            cooperative: dispatch.cooperative,
        };
        let packet = shape.packet(loaded.descriptor_address(), pointers.kernarg, lds_size, private_size);
        arguments.write(place::PACKET, &packet);
        arguments.write(place::QUEUE_APERTURES, &SHARED_APERTURE.to_le_bytes());
        arguments.write(place::QUEUE_APERTURES + 4, &PRIVATE_APERTURE.to_le_bytes());
        arguments.write(place::MULTIGRID, &shape.multigrid());
        arguments.write(place::KERNARG, &dispatch.kernarg);
        let places = Places {
            queue: pointers.queue,
            multigrid: base + place::MULTIGRID as u64,
            heap: dispatch.heap.as_ref().map_or(0, |heap| heap.block),
            hostcall: hostcall.as_ref().map_or(0, Hostcall::address),
            printf: printf.as_ref().map_or(0, PrintfBuffer::address),
        };
        for arg in kernel.hidden() {
            let value = shape.hidden(&arg.kind, &places);
            let size = (arg.size as usize).min(8);
            arguments.write(place::KERNARG + arg.offset as usize, &value.to_le_bytes()[..size]);
        }

        let first = place::KERNARG + 4 * descriptor.kernarg_preload_offset as usize;
        let preloaded: Vec<u32> = (0..preload as usize).map(|k| arguments.read(first + 4 * k)).collect();
        let id_dims = descriptor.workitem_id_dims;
        let waves = items.div_ceil(64);
        let work_items = ids.get(dispatch.workgroup, id_dims, waves);
        let vgpr_count = descriptor.vgpr_count as usize;
        let mut own = vec![arguments.range(Access::ReadWrite)];
        own.extend(hostcall.as_ref().map(Hostcall::range));
        own.extend(printf.as_ref().map(PrintfBuffer::range));

        let bytes_per_group = u64::from(waves)
            * (256 * vgpr_count as u64 + 64 * u64::from(private_size) + 8192)
            + u64::from(lds_size);
        let mut resident = (config.resident_bytes / bytes_per_group).max(1);
        if hostcall.is_some() {
            // Each wave holds one packet at a time, and the device library does not wait for a free one.
            resident = resident.min(PACKETS / u64::from(waves));
        }
        if dispatch.cooperative && total > resident {
            return Err(resources(format!(
                "cooperative launch of {total} workgroups, the device holds only {resident} of this kernel at once"
            )));
        }
        let observed = dispatch.observer.as_ref().and_then(|observer| {
            observer.launch(Launched {
                kernel: loaded,
                level: cpu,
                workgroups,
                workgroup_size: dispatch.workgroup,
                lds_bytes,
                own: &own,
                timing: config.timing,
                peers: &dispatch.peers,
            })
        });
        // Observers see every instruction, and native code does not report them.
        let compilation = if observed.is_some() { Compilation::Never } else { config.compilation };
        Ok(Arc::new(Grid {
            id,
            kernel: loaded.clone(),
            memory: dispatch.memory.clone(),
            level: cpu,
            grid_size: dispatch.grid,
            workgroup_size: dispatch.workgroup,
            workgroups,
            lds_size,
            private_size,
            vgpr_count,
            mode: Mode::from_rsrc1(descriptor.rsrc1),
            native: compilation.threshold(),
            id_dims,
            initial: InitialRegisters::new(config.arch, descriptor, &pointers, private_size, &preloaded),
            wave_init: exec::lane::wave_init::uop(cpu),
            work_items,
            entry,
            entry_index,
            own,
            hostcall,
            printf,
            deadline: dispatch.deadline,
            cancel: dispatch.cancel.clone(),
            aborted: AtomicBool::new(false),
            fault: Mutex::new(None),
            missing: AtomicU64::new(0),
            barrier: Mutex::default(),
            schedule: Schedule::new(total, u64::from(waves), resident, dispatch.cooperative, config.threads),
            counts: Mutex::default(),
            helpers_time: dispatch.helpers_time.clone(),
            observed,
            _arguments: arguments,
        }))
    }

    pub fn entry(&self) -> &Program {
        // SAFETY: the program belongs to the kernel, which the grid keeps alive.
        unsafe { &*self.entry }
    }

    /// Coordinates of a workgroup, given its number in launch order.
    pub fn workgroup_of(&self, linear: u64) -> [u32; 3] {
        let [x, y, _] = self.workgroups.map(u64::from);
        [(linear % x) as u32, (linear / x % y) as u32, (linear / x / y) as u32]
    }

    pub fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Relaxed)
    }

    /// Aborts the dispatch; only the first fault is kept.
    pub fn abort(&self, fault: Fault) {
        self.fault.lock().get_or_insert(fault);
        self.aborted.store(true, Ordering::Relaxed);
    }

    /// Returns why the dispatch has to end now: cancelled, unmapped page, or deadline passed.
    pub fn expired(&self) -> Option<FaultKind> {
        if self.cancel.as_ref().is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
            return Some(FaultKind::Cancelled);
        }
        if let Some(missing) = self.missing_page() {
            return Some(missing);
        }
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline).then_some(FaultKind::Timeout)
    }

    pub fn missing_page(&self) -> Option<FaultKind> {
        let address = self.missing.load(Ordering::Relaxed);
        (address != 0).then_some(FaultKind::MissingPage { address })
    }

    /// Adds one thread's finished work to the counts.
    pub fn count(&self, done: &LaunchStats) {
        let mut counts = self.counts.lock();
        counts.workgroups += done.workgroups;
        counts.waves += done.waves;
        counts.instructions += done.instructions;
    }

    /// Arrives at the grid-wide barrier as one of `members`, or polls it again. Returns true when the caller may continue.
    pub fn arrive(&self, waiting: &mut Option<u64>, members: u32) -> bool {
        let mut barrier = self.barrier.lock();
        match *waiting {
            Some(phase) if phase != barrier.phase => {
                *waiting = None;
                true
            }
            Some(_) => false,
            None => {
                barrier.arrived += 1;
                if barrier.arrived >= members {
                    barrier.arrived = 0;
                    barrier.phase += 1;
                    return true;
                }
                *waiting = Some(barrier.phase);
                false
            }
        }
    }
}
