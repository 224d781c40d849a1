//! Initial register state of a wave: user SGPRs, workgroup IDs, scratch setup, work-item IDs.

use std::sync::Arc;

use code_object::Descriptor;
use isa::Arch;
use parking_lot::Mutex;

use crate::buffer::Buffer;
use crate::wave::{Scalars, sreg};
use crate::{Lanes, Wave};

/// Addresses that user SGPRs may hold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pointers {
    pub dispatch: u64,
    pub queue: u64,
    pub kernarg: u64,
    pub dispatch_id: u64,
}

/// Scalar registers at the start of a wave, and the positions of the values that differ between waves.
#[derive(Debug)]
pub(crate) struct InitialRegisters {
    /// [`Scalars`], in a reusable buffer. Stored inline, they would make a grid large and over-aligned, and the system allocator
    /// is slow at such allocations.
    sgprs: Buffer,
    /// First register of the scratch buffer resource.
    private_buffer: Option<usize>,
    /// First register of the initial flat scratch address.
    flat_scratch: Option<usize>,
    /// Registers of the workgroup IDs.
    workgroup: [Option<usize>; 3],
    /// Architected flat scratch: the hardware presets FLAT_SCRATCH.
    architected: bool,
}

impl InitialRegisters {
    /// Creates the state. `preloaded` are the argument dwords that the descriptor requests in registers.
    pub fn new(
        arch: Arch,
        descriptor: &Descriptor,
        pointers: &Pointers,
        private_size: u32,
        preloaded: &[u32],
    ) -> InitialRegisters {
        let mut sgprs = Scalars::ZERO;
        let mut next = 0;
        let mut take = |count: usize| {
            let at = next;
            next += count;
            at
        };
        let mut put = |at: usize, value: u64| {
            sgprs[at] = value as u32;
            sgprs[at + 1] = (value >> 32) as u32;
        };
        let private_buffer = descriptor.private_segment_buffer.then(|| take(4));
        if descriptor.dispatch_ptr {
            put(take(2), pointers.dispatch);
        }
        if descriptor.queue_ptr {
            put(take(2), pointers.queue);
        }
        if descriptor.kernarg_ptr {
            put(take(2), pointers.kernarg);
        }
        if descriptor.dispatch_id {
            put(take(2), pointers.dispatch_id);
        }
        let flat_scratch = descriptor.flat_scratch_init.then(|| take(2));
        if descriptor.private_segment_size_sgpr {
            let at = take(1);
            sgprs[at] = private_size;
        }
        let at = take(preloaded.len());
        if let Some(registers) = sgprs.get_mut(at..at + preloaded.len()) {
            registers.copy_from_slice(preloaded);
        }
        let mut next = descriptor.user_sgpr_count as usize;
        let mut id = |enabled: bool| {
            enabled.then(|| {
                next += 1;
                next - 1
            })
        };
        let workgroup =
            [id(descriptor.workgroup_id_x), id(descriptor.workgroup_id_y), id(descriptor.workgroup_id_z)];
        // Workgroup info and the wave's scratch offset follow. Both stay zero, because every wave's scratch has a separate base.
        sgprs[sreg::EXEC..sreg::EXEC + 2].fill(u32::MAX);
        let block = Buffer::zeroed(size_of::<Scalars>());
        // SAFETY: the buffer is large enough for the registers, aligned more strictly, and not shared yet.
        unsafe { block.as_mut_ptr().cast::<Scalars>().write(sgprs) };
        InitialRegisters {
            sgprs: block,
            private_buffer,
            flat_scratch,
            workgroup,
            architected: arch == Arch::Gfx942,
        }
    }

    /// Registers that are equal for all waves, with the EXEC mask of a full wave.
    pub fn sgprs(&self) -> &Scalars {
        // SAFETY: initialised by `new` and not written afterwards.
        unsafe { &*self.sgprs.as_mut_ptr().cast::<Scalars>() }
    }

    /// Sets the values that differ between waves.
    #[inline]
    pub fn apply(&self, wave: &mut Wave, workgroup: [u32; 3]) {
        let private = wave.private as u64;
        if let Some(at) = self.private_buffer {
            wave.sgprs[at] = private as u32;
            wave.sgprs[at + 1] = (private >> 32) as u32 & 0xffff | SWIZZLE_ENABLE;
            wave.sgprs[at + 2] = u32::MAX;
            wave.sgprs[at + 3] = INDEX_STRIDE_64 | ADD_TID_ENABLE;
        }
        if let Some(at) = self.flat_scratch {
            wave.set_sgpr64(at, private);
        }
        if self.architected {
            wave.set_sgpr64(sreg::FLAT_SCRATCH, private);
        }
        for (at, id) in self.workgroup.iter().zip(workgroup) {
            if let Some(at) = at {
                wave.sgprs[*at] = id;
            }
        }
    }
}

/// Bits of the scratch buffer resource: dwords are interleaved over 64 lanes by lane number.
const SWIZZLE_ENABLE: u32 = 1 << 31;
const INDEX_STRIDE_64: u32 = 3 << 21;
const ADD_TID_ENABLE: u32 = 1 << 23;

/// Packed work-item IDs of the wave that starts at work-item `first` of a workgroup.
pub(crate) fn work_item_ids(size: [u32; 3], dims: u8, first: u32) -> Lanes {
    let mut lanes = Lanes::ZERO;
    let (mut x, mut y, mut z) = (first % size[0], first / size[0] % size[1], first / size[0] / size[1]);
    for id in &mut lanes.0 {
        *id = x | if dims > 1 { y << 10 } else { 0 } | if dims > 2 { z << 20 } else { 0 };
        // Incrementing is several times faster than three divisions per lane, which would be noticeable in short kernels.
        x += 1;
        if x == size[0] {
            (x, y) = (0, y + 1);
            if y == size[1] {
                (y, z) = (0, z + 1);
            }
        }
    }
    lanes
}

/// Cache of the work-item IDs of the last dispatch: the next dispatch usually has workgroups of the same shape.
#[derive(Debug, Default)]
pub(crate) struct WorkItems(Mutex<Option<CachedIds>>);

/// v0 of each wave of a full workgroup, with the parameters that determine it.
#[derive(Debug)]
struct CachedIds {
    workgroup: [u32; 3],
    id_dims: u8,
    lanes: Arc<[Lanes]>,
}

impl WorkItems {
    /// v0 of each of `waves` waves of a full workgroup.
    pub fn get(&self, workgroup: [u32; 3], id_dims: u8, waves: u32) -> Arc<[Lanes]> {
        let mut last = self.0.lock();
        if let Some(last) = &*last
            && (last.workgroup, last.id_dims) == (workgroup, id_dims)
        {
            return Arc::clone(&last.lanes);
        }
        let lanes: Arc<[Lanes]> =
            (0..waves).map(|wave| work_item_ids(workgroup, id_dims, 64 * wave)).collect();
        *last = Some(CachedIds { workgroup, id_dims, lanes: Arc::clone(&lanes) });
        lanes
    }
}
