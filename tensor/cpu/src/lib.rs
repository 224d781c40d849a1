//! The CPU as a device: programs interpreted block by block in vector loops, matrix products and convolutions by one packed kernel, and
//! everything else that a step can ask for. It refuses nothing that makes sense for an element type.

mod complex;
mod contract;
mod crew;
mod device;
mod element;
mod fault;
mod fold;
mod kernels;
mod known;
mod level;
mod map;
mod math;
mod memory;
mod movement;
mod plan;
mod quick_map;
mod random;
mod reduce;
mod rows;
mod sequence;
mod threads;
mod view;
mod walk;

pub use device::{CpuDevice, CpuOptions};
pub use level::Level;
