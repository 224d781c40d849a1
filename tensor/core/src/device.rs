//! Where tensors live and are computed.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use crate::dtype::DType;
use crate::error::DeviceError;
use crate::program::Program;
use crate::step::{Step, Work};

/// Memory of a device. It is given back when nobody holds it any more, after all work that was asked for before.
pub type Buffer = Arc<dyn Memory>;

pub trait Memory: Debug + Send + Sync {
    fn bytes(&self) -> usize;
    fn as_any(&self) -> &dyn Any;
}

/// A buffer, all of it, as a row of elements of one type.
#[derive(Clone, Debug)]
pub struct Row {
    pub buffer: Buffer,
    pub dtype: DType,
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
    fn supports(&self, step: &Work, dtypes: &[DType]) -> bool;
    /// Whether steps are done when `run` returns, so that what is small costs what it takes to plan it.
    fn is_immediate(&self) -> bool {
        false
    }
    /// Computes a program without indices and with one result, element by element of rows of so many elements each: what most small steps are,
    /// without the ceremony of a step. Nothing if the device wants a step.
    fn run_rows(
        &self,
        _program: &Program,
        _inputs: &[Row],
        _elements: usize,
    ) -> Option<Result<Buffer, DeviceError>> {
        None
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
