//! The interface of a device: memory and execution of steps.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use crate::dtype::DType;
use crate::error::DeviceError;
use crate::layout::Layout;
use crate::program::Program;
use crate::step::{Padding, Step, Work};

/// A reference-counted device allocation. It is freed when the last reference is dropped, after all work queued before that.
pub type Buffer = Arc<dyn Memory>;

/// Memory of a device.
pub trait Memory: Debug + Send + Sync {
    /// Its size.
    fn bytes(&self) -> usize;
    /// The device's own type of memory.
    fn as_any(&self) -> &dyn Any;
}

/// A whole buffer as a contiguous row of elements of one type.
#[derive(Clone, Debug)]
pub struct Row {
    /// The elements.
    pub buffer: Buffer,
    /// Their type.
    pub dtype: DType,
}

/// Device properties for display.
#[derive(Clone, Debug, Default)]
pub struct DeviceInfo {
    /// "cpu" or "rocm".
    pub kind: String,
    /// The name of the model.
    pub name: String,
    /// "gfx942", or empty.
    pub architecture: String,
    /// In bytes.
    pub total_memory: u64,
    /// In bytes.
    pub free_memory: u64,
    /// CPU cores on the CPU device.
    pub compute_units: u32,
    /// The number of the device among those of its kind.
    pub ordinal: u32,
}

/// A device that executes steps in the order of submission. Only `download` and `synchronize` wait.
pub trait Device: Debug + Send + Sync {
    /// "cpu", "rocm:0".
    fn name(&self) -> &str;
    /// Its properties.
    fn info(&self) -> Result<DeviceInfo, DeviceError>;
    /// Allocates memory with undefined content.
    fn allocate(&self, bytes: usize) -> Result<Buffer, DeviceError>;
    /// Copies the bytes before it returns; the caller may change them afterwards.
    fn upload(&self, to: &Buffer, offset: usize, bytes: &[u8]) -> Result<(), DeviceError>;
    /// Reads bytes, after all work submitted before.
    fn download(&self, from: &Buffer, offset: usize, into: &mut [u8]) -> Result<(), DeviceError>;
    /// Submits the steps, in order. Errors that occur during execution are returned by the next call that waits.
    fn run(&self, steps: &[Step]) -> Result<(), DeviceError>;
    /// Waits for all work submitted before.
    fn synchronize(&self) -> Result<(), DeviceError>;
    /// Whether the device can execute such a step with operands of these types, inputs before outputs. An unsupported step runs
    /// on the host device, with its operands copied there and back.
    fn supports(&self, step: &Work, dtypes: &[DType]) -> bool;
    /// Whether steps have finished when `run` returns, so that planning dominates the cost of small steps.
    fn is_immediate(&self) -> bool {
        false
    }
    /// Fast path for most small steps: computes a program without indices and with one result over contiguous rows of `elements`
    /// elements each. Returns `None` if the device needs a regular step instead.
    fn run_rows(
        &self,
        _program: &Program,
        _inputs: &[Row],
        _elements: usize,
    ) -> Option<Result<Buffer, DeviceError>> {
        None
    }
    /// Copies the first `bytes` bytes at `offset` of another device's buffer to the start of one of this device, after the work
    /// submitted to both before, without waiting. Returns `None` if the devices cannot copy directly.
    fn copy_from(
        &self,
        _to: &Buffer,
        _other: &dyn Device,
        _from: &Buffer,
        _offset: usize,
        _bytes: usize,
    ) -> Option<Result<(), DeviceError>> {
        None
    }
    /// The address of a buffer, if this process can access it. Its bytes are initialised, and steps that were submitted have
    /// finished.
    fn host_address(&self, _buffer: &Buffer) -> Option<*mut u8> {
        None
    }
    /// The number of results that an epilogue may have. Outputs after the first are intermediate results that are still
    /// referenced; they have the shape of the first.
    fn epilogue_results(&self) -> usize {
        1
    }
    /// Whether a contraction reads zeros around its input 1, of this type, without having them in memory; the layout is that of the
    /// input. Otherwise a step writes them first.
    fn folds_padding(&self, _padding: &Padding, _layout: &Layout, _dtype: DType) -> bool {
        false
    }
    /// Whether steps with these signatures, submitted together, would be replayed as one graph because they ran before.
    fn replays(&self, _signatures: &[Vec<u64>]) -> bool {
        false
    }
    /// The device's own type.
    fn as_any(&self) -> &dyn Any;
}
