//! The launch block, the second parameter of translated kernels: the dispatch packet, then the values at these offsets.

pub(crate) const LAUNCH_BYTES: u32 = 128;
pub(crate) const QUEUE_POINTER_AT: u32 = 64;
pub(crate) const DISPATCH_ID_AT: u32 = 72;
pub(crate) const GROUPS_AT: u32 = 80;
pub(crate) const GRID_BARRIER_AT: u32 = 96;
pub(crate) const SHARED_APERTURE: u32 = 0x0001_0000;
pub(crate) const PRIVATE_APERTURE: u32 = 0x0002_0000;
