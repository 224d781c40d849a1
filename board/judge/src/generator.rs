//! Inputs that the device generates by itself, from a seed that no solution sees. It is much faster than to generate and upload them, so
//! every sample can have new ones.

use board_problems::{Dtype, Generator, Numbers};

use crate::message::Generate;

/// Source of the kernel.
pub(crate) const SOURCE: &str = include_str!("generator.hip");
/// Its name.
pub(crate) const KERNEL: &str = "generate";

/// Work-items of a group, and the most groups.
pub(crate) const BLOCK: u32 = 256;
pub(crate) const MOST_GROUPS: u32 = 2048;

/// Returns the request that generates an input at an offset of a buffer.
pub(crate) fn request(generator: &Generator, buffer: u32, offset: u64, seed: u64) -> Generate {
    // As in generator.hip.
    let element = match generator.element {
        Dtype::Float16 => 0,
        Dtype::Bfloat16 => 1,
        Dtype::Float32 => 2,
        Dtype::Float64 => 3,
        Dtype::Int8 | Dtype::Uint8 => 4,
        Dtype::Int32 | Dtype::Uint32 => 5,
        Dtype::Int64 | Dtype::Uint64 => 6,
    };
    let (kind, low, span) = match generator.numbers {
        Numbers::Uniform { low, high } => (0, low.to_bits(), (high - low).to_bits()),
        Numbers::Integers { low, high } => (1, low as u64, high.abs_diff(low) + 1),
        Numbers::Bits => (2, 0, 0),
    };
    let (count, bytes) = (generator.count as u64, (generator.count * generator.element.size()) as u64);
    Generate { buffer, offset, bytes, count, seed, element, kind, low, span }
}

/// Returns the number of workgroups for a number of elements.
pub(crate) fn groups(count: u64) -> u32 {
    u32::try_from(count.div_ceil(BLOCK.into())).unwrap_or(MOST_GROUPS).clamp(1, MOST_GROUPS)
}
