//! Where tensors live and are computed.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use crate::error::DeviceError;
use crate::step::Step;

/// Memory of a device. It is given back when nobody holds it any more, after all work that was asked for before.
pub type Buffer = Arc<dyn Memory>;

pub trait Memory: Debug + Send + Sync {
    fn bytes(&self) -> usize;
    fn as_any(&self) -> &dyn Any;
}

/// What a person wants to know of a device.
#[derive(Clone, Debug, Default)]
pub struct DeviceInfo {
    /// "cpu" or "rocm".
    pub kind: String,
    pub name: String,
    /// "gfx942", or nothing.
    pub architecture: String,
    pub total_memory: u64,
    pub free_memory: u64,
    /// Or cores.
    pub compute_units: u32,
    pub ordinal: u32,
}

/// Does steps in the order in which it is asked. Only `download` and `synchronize` wait.
pub trait Device: Debug + Send + Sync {
    /// "cpu", "rocm:0".
    fn name(&self) -> &str;
    fn info(&self) -> Result<DeviceInfo, DeviceError>;
    fn allocate(&self, bytes: usize) -> Result<Buffer, DeviceError>;
    /// Copies before it returns; the bytes may be changed afterwards.
    fn upload(&self, to: &Buffer, offset: usize, bytes: &[u8]) -> Result<(), DeviceError>;
    fn download(&self, from: &Buffer, offset: usize, into: &mut [u8]) -> Result<(), DeviceError>;
    /// Begins the steps, in order. What goes wrong while they run is told by the next call that waits.
    fn run(&self, steps: &[Step]) -> Result<(), DeviceError>;
    fn synchronize(&self) -> Result<(), DeviceError>;
    /// Whether it can do such a step with operands of these types, inputs before outputs; what it cannot is done on the CPU, with the operands moved there and back.
    fn supports(&self, step: &crate::step::Work, dtypes: &[crate::dtype::DType]) -> bool;
    /// Whether steps are done when `run` returns, so that what is small costs what it takes to plan it.
    fn is_immediate(&self) -> bool {
        false
    }
    /// How many results an epilogue may have: outputs after the first are results that somebody holds on the way, of the first one's shape.
    fn epilogue_results(&self) -> usize {
        1
    }
    /// Whether steps with these signatures, asked for together, would be begun all at once because they came before.
    fn replays(&self, _signatures: &[Vec<u64>]) -> bool {
        false
    }
    fn as_any(&self) -> &dyn Any;
}
