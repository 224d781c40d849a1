//! What a kernel finds at its start besides its own arguments: hidden arguments, dispatch packet, description of the grid.
//!
//! Shared by all devices that run AMD's kernels without AMD's runtime.

use code_object::ArgKind;

use crate::compile::{PRIVATE_APERTURE, SHARED_APERTURE};

/// Shape of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Work-items in each dimension.
    pub grid: [u32; 3],
    /// Size of a full workgroup in work-items.
    pub workgroup: [u32; 3],
    /// LDS bytes in addition to what the kernel declares.
    pub dynamic_lds: u32,
    /// All workgroups are in flight at the same time.
    pub cooperative: bool,
}

/// Addresses that hidden arguments may hold; zero for what a launch does not have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Places {
    /// The queue descriptor.
    pub queue: u64,
    /// What [`Shape::multigrid`] returns.
    pub multigrid: u64,
    /// Metadata of the device heap.
    pub heap: u64,
    /// The hostcall buffer.
    pub hostcall: u64,
    /// The `printf` buffer.
    pub printf: u64,
}

impl Shape {
    /// Builds the AQL kernel dispatch packet that a hardware queue would hold.
    pub fn packet(&self, descriptor: u64, kernarg: u64, lds: u32, private: u32) -> [u8; 64] {
        const KERNEL_DISPATCH: u16 = 2;
        let mut packet = [0; 64];
        let mut put = |at: usize, bytes: &[u8]| packet[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &KERNEL_DISPATCH.to_le_bytes());
        put(2, &3u16.to_le_bytes());
        for k in 0..3 {
            put(4 + 2 * k, &(self.workgroup[k] as u16).to_le_bytes());
            put(12 + 4 * k, &self.grid[k].to_le_bytes());
        }
        put(24, &private.to_le_bytes());
        put(28, &lds.to_le_bytes());
        put(32, &descriptor.to_le_bytes());
        put(40, &kernarg.to_le_bytes());
        packet
    }

    /// Builds the structure that grid-wide synchronisation reads: number of work-items and number of workgroups.
    pub fn multigrid(&self) -> [u8; 64] {
        let product = |sizes: [u32; 3]| sizes.iter().map(|size| u64::from(*size)).product::<u64>();
        let workgroups = std::array::from_fn(|k| self.grid[k].div_ceil(self.workgroup[k].max(1)));
        let mut info = [0; 64];
        // The pointer to shared counters and the index among several grids stay zero: there is only one grid.
        info[24..32].copy_from_slice(&product(self.grid).to_le_bytes());
        info[40..44].copy_from_slice(&(product(workgroups) as u32).to_le_bytes());
        info
    }

    /// Value of a hidden argument.
    pub fn hidden(&self, kind: &ArgKind, places: &Places) -> u64 {
        // Block counts are of full workgroups; the partial workgroup is the remainder.
        let whole = |k: usize| u64::from(self.grid[k] / self.workgroup[k].max(1));
        let size = |k: usize| u64::from(self.workgroup[k]);
        let remainder = |k: usize| u64::from(self.grid[k] % self.workgroup[k].max(1));
        match kind {
            ArgKind::HiddenBlockCountX => whole(0),
            ArgKind::HiddenBlockCountY => whole(1),
            ArgKind::HiddenBlockCountZ => whole(2),
            ArgKind::HiddenGroupSizeX => size(0),
            ArgKind::HiddenGroupSizeY => size(1),
            ArgKind::HiddenGroupSizeZ => size(2),
            ArgKind::HiddenRemainderX => remainder(0),
            ArgKind::HiddenRemainderY => remainder(1),
            ArgKind::HiddenRemainderZ => remainder(2),
            ArgKind::HiddenGridDims if self.grid[2] > 1 => 3,
            ArgKind::HiddenGridDims if self.grid[1] > 1 => 2,
            ArgKind::HiddenGridDims => 1,
            ArgKind::HiddenHostcallBuffer => places.hostcall,
            ArgKind::HiddenPrintfBuffer => places.printf,
            ArgKind::HiddenMultigridSyncArg if self.cooperative => places.multigrid,
            ArgKind::HiddenHeapV1 => places.heap,
            ArgKind::HiddenDynamicLdsSize => u64::from(self.dynamic_lds),
            ArgKind::HiddenPrivateBase => u64::from(PRIVATE_APERTURE),
            ArgKind::HiddenSharedBase => u64::from(SHARED_APERTURE),
            ArgKind::HiddenQueuePtr => places.queue,
            _ => 0,
        }
    }
}
