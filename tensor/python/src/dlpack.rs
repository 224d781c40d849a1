//! DLPack: array exchange between libraries. Tensors are exported as copies in host memory, whatever their device: a remote GPU
//! has no address in this process. Imported arrays are copied too.

use std::ffi::{CStr, c_void};

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use tensor_core::Tensor;
use tensor_core::dtype::{DType, Kind};

use crate::error::raise;
use crate::tensor::{PyTensor, chosen, download};

#[repr(C)]
#[derive(Clone, Copy)]
struct DlDevice {
    kind: i32,
    number: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DlType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: DlDevice,
    dims: i32,
    dtype: DlType,
    shape: *mut i64,
    /// Null means row-major.
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct DlManaged {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlManaged)>,
}

/// The memory owned by an exported tensor.
struct Exported {
    /// 8-byte words, so that elements of every type are aligned.
    bytes: Vec<u64>,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

const CPU: i32 = 1;
const NAME: &CStr = c"dltensor";
const USED: &CStr = c"used_dltensor";

fn spelt(dtype: DType) -> DlType {
    let code = match dtype.kind() {
        Kind::Signed => 0,
        Kind::Unsigned => 1,
        Kind::Float if dtype == DType::BF16 => 4,
        Kind::Float => 2,
        Kind::Complex => 5,
        Kind::Bool => 6,
    };
    DlType { code, bits: (dtype.bytes() * 8) as u8, lanes: 1 }
}

fn meant(dtype: DlType) -> Option<DType> {
    if dtype.lanes != 1 {
        return None;
    }
    DType::ALL.into_iter().find(|&known| {
        let spelt = spelt(known);
        (spelt.code, spelt.bits) == (dtype.code, dtype.bits)
    })
}

/// Frees what `export` allocated.
///
/// # Safety
/// `managed` came from `export` and is not used any more.
unsafe extern "C" fn delete(managed: *mut DlManaged) {
    if !managed.is_null() {
        // SAFETY: `export` created both boxes, and DLPack guarantees that the deleter is called once.
        unsafe {
            let managed = Box::from_raw(managed);
            drop(Box::from_raw(managed.context.cast::<Exported>()));
        }
    }
}

/// Capsule destructor: frees a tensor that no consumer took.
unsafe extern "C" fn forget(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with the capsule that `export` created; a consumed capsule has another name.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) == 1 {
            delete(ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast());
        }
    }
}

fn export<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    let raw = download(py, tensor)?;
    let mut bytes = vec![0_u64; raw.len().div_ceil(8)];
    for (word, chunk) in bytes.iter_mut().zip(raw.chunks(8)) {
        let mut padded = [0; 8];
        padded[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_ne_bytes(padded);
    }
    let shape: Vec<i64> = tensor.shape().iter().map(|&length| length as i64).collect();
    let strides = tensor_core::layout::Layout::contiguous(tensor.shape());
    let strides = strides.strides.iter().map(|&stride| stride as i64).collect();
    let mut context = Box::new(Exported { bytes, shape, strides });
    let managed = Box::new(DlManaged {
        tensor: DlTensor {
            data: context.bytes.as_mut_ptr().cast(),
            device: DlDevice { kind: CPU, number: 0 },
            dims: context.shape.len() as i32,
            dtype: spelt(tensor.dtype()),
            shape: context.shape.as_mut_ptr(),
            strides: context.strides.as_mut_ptr(),
            byte_offset: 0,
        },
        context: Box::into_raw(context).cast(),
        deleter: Some(delete),
    });
    let managed = Box::into_raw(managed);
    // SAFETY: the pointer is not null, the name is static, and `forget` frees an unconsumed tensor.
    let capsule = unsafe { ffi::PyCapsule_New(managed.cast(), NAME.as_ptr(), Some(forget)) };
    if capsule.is_null() {
        // SAFETY: no other code has the pointer yet.
        unsafe { delete(managed) };
        return Err(PyErr::fetch(py));
    }
    // SAFETY: PyCapsule_New returned a new reference.
    Ok(unsafe { Bound::from_owned_ptr(py, capsule) })
}

/// The largest imported array, in bytes.
const LARGEST: usize = 1 << 46;

/// Copies a host array to row-major order.
///
/// # Safety
/// `tensor` describes readable memory.
unsafe fn gathered(tensor: &DlTensor, dtype: DType) -> PyResult<(Vec<usize>, Vec<u8>)> {
    let refuse = |why: &str| PyBufferError::new_err(format!("from_dlpack: {why}"));
    let dims = usize::try_from(tensor.dims).ok().filter(|&dims| dims <= 64);
    let dims = dims.ok_or_else(|| refuse("it has more than 64 dimensions"))?;
    // SAFETY: DLPack guarantees `dims` lengths, and as many strides or a null pointer.
    let (shape, strides) = unsafe {
        let shape = if dims == 0 { &[][..] } else { std::slice::from_raw_parts(tensor.shape, dims) };
        let strides = if dims == 0 || tensor.strides.is_null() {
            None
        } else {
            Some(std::slice::from_raw_parts(tensor.strides, dims))
        };
        (shape, strides)
    };
    let shape = shape.iter().map(|&length| usize::try_from(length)).collect::<Result<Vec<_>, _>>();
    let shape = shape.map_err(|_| refuse("a length is negative"))?;
    let size = dtype.bytes();
    let total = shape.iter().try_fold(size, |total, &length| total.checked_mul(length));
    let total = total.filter(|&total| total <= LARGEST).ok_or_else(|| refuse("it is too large"))?;
    let whole = tensor_core::layout::Layout::contiguous(&shape);
    let strides: Vec<isize> = match strides {
        Some(strides) => strides.iter().map(|&stride| stride as isize).collect(),
        None => whole.strides.to_vec(),
    };
    let mut bytes = Vec::with_capacity(total);
    if total == 0 {
        return Ok((shape, bytes));
    }
    // SAFETY: DLPack guarantees that the data begins at this offset.
    let start = unsafe { tensor.data.cast::<u8>().add(tensor.byte_offset as usize) };
    let mut index = vec![0; dims];
    loop {
        let offset: isize = index.iter().zip(&strides).map(|(&at, &stride)| at as isize * stride).sum();
        // SAFETY: the index is within the shape, so the element is within the memory that the array describes.
        bytes.extend_from_slice(unsafe {
            std::slice::from_raw_parts(start.offset(offset * size as isize).cast_const(), size)
        });
        let mut axis = dims;
        loop {
            if axis == 0 {
                return Ok((shape, bytes));
            }
            axis -= 1;
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}

/// A tensor with a copy of the elements of any array that supports DLPack.
#[pyfunction]
#[pyo3(signature = (array, device=None))]
fn from_dlpack(py: Python<'_>, array: &Bound<'_, PyAny>, device: Option<&str>) -> PyResult<PyTensor> {
    if let Ok(tensor) = array.cast::<PyTensor>() {
        return crate::tensor::made_of(py, tensor, None, device);
    }
    if !array.hasattr("__dlpack__")? {
        return Err(PyTypeError::new_err(format!(
            "from_dlpack: {} has no __dlpack__",
            array.get_type().name()?
        )));
    }
    let (kind, _): (i32, i32) = array.call_method0("__dlpack_device__")?.extract()?;
    if kind != CPU {
        return Err(PyBufferError::new_err(format!(
            "from_dlpack: the array is on a device of kind {kind}; move it to the CPU first"
        )));
    }
    let capsule = array.call_method0("__dlpack__")?;
    let pointer = capsule.as_ptr();
    // SAFETY: the capsule is valid under this name, so it holds a managed tensor, which lives until its deleter is called below.
    // The capsule is renamed so that nothing else frees the tensor.
    unsafe {
        if ffi::PyCapsule_IsValid(pointer, NAME.as_ptr()) != 1 {
            return Err(PyBufferError::new_err(
                "from_dlpack: not a DLPack capsule, or one that was already consumed",
            ));
        }
        let managed = ffi::PyCapsule_GetPointer(pointer, NAME.as_ptr()).cast::<DlManaged>();
        let tensor = &(*managed).tensor;
        let found = match meant(tensor.dtype) {
            Some(dtype) => gathered(tensor, dtype).map(|(shape, bytes)| (dtype, shape, bytes)),
            None => {
                let DlType { code, bits, lanes } = tensor.dtype;
                Err(PyBufferError::new_err(format!(
                    "from_dlpack: elements of type code {code} with {bits} bits and {lanes} lanes are not supported"
                )))
            }
        };
        ffi::PyCapsule_SetName(pointer, USED.as_ptr());
        if let Some(deleter) = (*managed).deleter {
            deleter(managed);
        }
        let (dtype, shape, bytes) = found?;
        let (device, placed) = chosen(py, device)?;
        Ok(PyTensor::new(Tensor::from_bytes(&device, dtype, &shape, &bytes).map_err(raise)?, placed))
    }
}

#[pymethods]
impl PyTensor {
    /// Exports a copy in host memory.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<Bound<'py, PyAny>>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = (stream, max_version);
        if copy == Some(false) {
            return Err(PyBufferError::new_err("a tensor's elements cannot be shared, only copied"));
        }
        if dl_device.is_some_and(|(kind, _)| kind != CPU) {
            return Err(PyBufferError::new_err("tensors can only be exported in CPU memory"));
        }
        export(py, &self.tensor().detach())
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        (CPU, 0)
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(from_dlpack, module)?)
}
