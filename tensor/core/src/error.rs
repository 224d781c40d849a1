//! Error types of tensor operations and devices.

/// An error of a tensor operation.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum TensorError {
    /// Python's ValueError: shapes, axes, sizes.
    #[error("{operation}: {why}")]
    Shape { operation: &'static str, why: String },
    /// Python's TypeError: element types.
    #[error("{operation}: {why}")]
    Type { operation: &'static str, why: String },
    /// Python's IndexError.
    #[error("{operation}: {why}")]
    Index { operation: &'static str, why: String },
    /// Python's RuntimeError: devices, autograd.
    #[error("{operation}: {why}")]
    State { operation: &'static str, why: String },
    #[error("{operation} on {device}")]
    Device { operation: &'static str, device: String, source: DeviceError },
}

impl TensorError {
    pub(crate) fn shape(operation: &'static str, why: impl Into<String>) -> TensorError {
        TensorError::Shape { operation, why: why.into() }
    }

    pub(crate) fn type_of(operation: &'static str, why: impl Into<String>) -> TensorError {
        TensorError::Type { operation, why: why.into() }
    }

    pub(crate) fn index(operation: &'static str, why: impl Into<String>) -> TensorError {
        TensorError::Index { operation, why: why.into() }
    }

    pub(crate) fn state(operation: &'static str, why: impl Into<String>) -> TensorError {
        TensorError::State { operation, why: why.into() }
    }
}

/// An error of a device.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the variants")]
pub enum DeviceError {
    #[error("out of memory: {asked} bytes requested; {held}")]
    OutOfMemory { asked: usize, held: String },
    /// Python's IndexError, reported at the next call that waits.
    #[error("{operation}: index {index} is out of bounds for {length}")]
    OutOfBounds { operation: &'static str, index: i64, length: i64 },
    #[error("{call} failed: {error}")]
    Call { call: &'static str, error: String },
    #[error("{0}")]
    Unavailable(String),
    #[error("the step is not supported: {0}")]
    Unsupported(String),
    #[error("a kernel could not be compiled: {log}")]
    Compile { log: String },
    #[error("there is no kernel compiler: {0}")]
    NoCompiler(String),
}
