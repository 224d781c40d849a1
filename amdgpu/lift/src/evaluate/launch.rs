//! Parameters and counts of a launch.

/// What a kernel is launched with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Work-items in each dimension. The last workgroups are partial where this is not a multiple of the workgroup's size.
    pub grid: [u32; 3],
    /// Work-items of a full workgroup in each dimension.
    pub block: [u32; 3],
    /// Address of the kernel argument block.
    pub kernarg: u64,
    /// Address of the dispatch packet.
    pub dispatch: u64,
    /// Address of the queue descriptor.
    pub queue: u64,
    /// Number of the dispatch.
    pub dispatch_id: u64,
    /// Bytes of LDS of a workgroup, static and dynamic.
    pub lds_bytes: u32,
    /// Bytes of scratch of a lane.
    pub private_bytes: u32,
    /// Address of LDS in the flat address space; the low half is zero.
    pub shared_base: u64,
    /// Address of scratch in the flat address space; the low half is zero.
    pub private_base: u64,
    /// Instructions that all waves together may run.
    pub steps: u64,
}

impl Default for Launch {
    fn default() -> Launch {
        Launch {
            grid: [64, 1, 1],
            block: [64, 1, 1],
            kernarg: 0,
            dispatch: 0,
            queue: 0,
            dispatch_id: 1,
            lds_bytes: 0,
            private_bytes: 0,
            shared_base: 0x0001_0000 << 32,
            private_base: 0x0002_0000 << 32,
            steps: 1 << 40,
        }
    }
}

impl Launch {
    /// Workgroups in each dimension.
    pub fn workgroups(&self) -> [u32; 3] {
        std::array::from_fn(|k| self.grid[k].div_ceil(self.block[k].max(1)))
    }

    /// Work-items of a workgroup in each dimension.
    pub fn size(&self, workgroup: [u32; 3]) -> [u32; 3] {
        std::array::from_fn(|k| {
            let first = workgroup[k].saturating_mul(self.block[k]);
            self.grid[k].saturating_sub(first).min(self.block[k])
        })
    }
}

/// What an evaluation has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Instructions of the form, of all waves.
    pub steps: u64,
}
