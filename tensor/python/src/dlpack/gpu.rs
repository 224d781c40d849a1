//! DLPack for tensors on a GPU: addresses of the HIP runtime that pyflame uses.

use std::ffi::c_void;

use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tensor_core::Tensor;
use tensor_core::layout::Layout;
use tensor_core::ops::shape::{clone, contiguous};
use tensor_core::ops::strided::as_strided;
use tensor_rocm::{RocmDevice, User};

use super::{DlDevice, Export, IS_COPIED, LARGEST, Memory, READ_ONLY, ROCM, axes, described, taken};
use crate::device;
use crate::error::{raise, raise_device};
use crate::tensor::PyTensor;

/// The number of the GPU that a tensor is on.
pub fn number(tensor: &Tensor) -> Option<i32> {
    gpu(tensor.device()).map(|gpu| gpu.ordinal() as i32)
}

fn gpu(device: &device::AnyDevice) -> Option<&RocmDevice> {
    device.as_any().downcast_ref()
}

/// The stream of an argument, by DLPack's rules for ROCm.
pub fn user(stream: Option<Bound<'_, PyAny>>) -> PyResult<User> {
    let Some(stream) = stream else { return Ok(User::Default) };
    match stream.extract::<i128>()? {
        0 => Ok(User::Default),
        -1 => Ok(User::Unordered),
        handle @ 3.. if u64::try_from(handle).is_ok() => Ok(User::Stream(handle as u64)),
        other => Err(PyValueError::new_err(format!(
            "__dlpack__: {other} is no stream of ROCm; pass None or 0 for the default stream, -1 for no order, or the handle of a stream"
        ))),
    }
}

pub fn export<'py>(
    py: Python<'py>,
    tensor: &Tensor,
    user: User,
    copy: Option<bool>,
    versioned: bool,
) -> PyResult<Bound<'py, PyAny>> {
    device::usable(tensor.device())?;
    let gpu = gpu(tensor.device()).ok_or_else(|| PyBufferError::new_err("the tensor is not on a GPU"))?;
    let copied = copy == Some(true);
    let placed = py.detach(|| if copied { clone(tensor)?.in_memory() } else { tensor.in_memory() });
    let (buffer, layout) = placed.map_err(raise)?;
    let lent = py.detach(|| gpu.lend(buffer, user)).map_err(raise_device)?;
    let start = lent.address().ok_or_else(|| PyBufferError::new_err("the tensor has no address"))?;
    let data = (start + (layout.offset * tensor.dtype().bytes()) as u64) as *mut c_void;
    let device = DlDevice { kind: ROCM, number: gpu.ordinal() as i32 };
    let flags = if copied { IS_COPIED } else { READ_ONLY };
    let memory = Memory::Gpu { _lent: lent };
    described(py, Export { memory, data, device, layout, dtype: tensor.dtype(), flags }, versioned)
}

/// A tensor with a copy of the elements, which are on GPU `number`.
pub fn import(
    py: Python<'_>,
    array: &Bound<'_, PyAny>,
    number: i32,
    target: Option<&str>,
    copy: Option<bool>,
) -> PyResult<PyTensor> {
    if copy == Some(false) {
        return Err(PyBufferError::new_err(
            "from_dlpack: the elements of an array on a GPU must be copied, but copy=False was given",
        ));
    }
    let device = device::named(py, &format!("rocm:{number}"))?;
    let gpu = gpu(&device).ok_or_else(|| PyBufferError::new_err("from_dlpack: the device is no GPU"))?;
    let arguments = PyDict::new(py);
    arguments.set_item("stream", gpu.stream_handle())?;
    let (imported, dtype) = taken(&array.call_method("__dlpack__", (), Some(&arguments))?)?;
    // SAFETY: `imported` keeps the tensor alive until the end of this function, and the copy has finished then.
    let described = unsafe { &(*imported.0).tensor };
    if (described.device.kind, described.device.number) != (ROCM, number) {
        return Err(PyBufferError::new_err(format!(
            "from_dlpack: the array says it is on device {number} of kind {ROCM}, and its capsule that it is on device {} of kind {}",
            described.device.number, described.device.kind
        )));
    }
    // SAFETY: given by another library.
    let (shape, strides) = unsafe { axes(described) }?;
    let layout = Layout { shape: shape.into(), strides: strides.into(), offset: 0 };
    let size = dtype.bytes();
    // What is before and after the first element.
    let (mut before, mut after) = (0_i128, 0_i128);
    if layout.elements() > 0 {
        for (&length, &stride) in layout.shape.iter().zip(&layout.strides) {
            let reach = (length - 1) as i128 * stride as i128;
            if reach < 0 { before -= reach } else { after += reach }
        }
        after += 1;
    }
    let span = usize::try_from((before + after) * size as i128).ok().filter(|&span| span <= LARGEST);
    let span = span.ok_or_else(|| PyBufferError::new_err("from_dlpack: it is too large"))?;
    let first = described.data as u64 + described.byte_offset;
    let from = first.wrapping_sub((before * size as i128) as u64);
    if span > 0 {
        gpu.check_address(from).map_err(|why| PyBufferError::new_err(format!("from_dlpack: {why}")))?;
    }
    let buffer = py.detach(|| gpu.copy_of(from, span)).map_err(raise_device)?;
    let all = Tensor::from_buffer(&device, dtype, &[span / size], buffer).map_err(raise)?;
    let view = as_strided(&all, &layout.shape, &layout.strides, before as usize).map_err(raise)?;
    let made = contiguous(&view).map_err(raise)?;
    match target {
        None => Ok(PyTensor::new(made, !device::is_current(&device))),
        Some(name) => {
            let target = device::named(py, name)?;
            Ok(PyTensor::new(py.detach(|| made.to_device(&target)).map_err(raise)?, true))
        }
    }
}
