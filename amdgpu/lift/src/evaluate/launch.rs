//! Parameters and counts of a launch.

/// What a kernel is launched with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Workgroups in each dimension.
    pub grid: [u32; 3],
    /// Work-items of a workgroup in each dimension.
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
            grid: [1; 3],
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
    /// Work-items of a workgroup.
    pub fn items(&self) -> u32 {
        self.block.iter().product()
    }

    /// Waves of a workgroup.
    pub fn waves(&self) -> u32 {
        self.items().div_ceil(64)
    }
}

/// What an evaluation has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Instructions of the form, of all waves.
    pub steps: u64,
}
