//! DLPack: array exchange between libraries. On the CPU both sides share memory. A tensor on a GPU is exported as memory of its HIP
//! runtime, or as a copy in host memory.

mod gpu;

use std::ffi::{CStr, c_void};

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use tensor_core::dtype::{DType, Kind};
use tensor_core::layout::Layout;
use tensor_core::{HostMemory, Lease, Tensor};
use tensor_rocm::Lent;

use crate::error::raise;
use crate::tensor::{PyTensor, chosen, lend, lend_copy};

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

/// A managed tensor since version 1 of DLPack.
#[repr(C)]
struct DlVersioned {
    version: [u32; 2],
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlVersioned)>,
    flags: u64,
    tensor: DlTensor,
}

const VERSION: [u32; 2] = [1, 0];
const READ_ONLY: u64 = 1;
const IS_COPIED: u64 = 2;

/// What an exported tensor owns.
struct Exported {
    _memory: Memory,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

enum Memory {
    Host { _lease: Lease },
    Gpu { _lent: Lent },
}

/// Elements to be exported.
struct Export {
    memory: Memory,
    data: *mut c_void,
    device: DlDevice,
    layout: Layout,
    dtype: DType,
    flags: u64,
}

/// An imported tensor. Its deleter is called when it is dropped.
struct Imported(*mut DlManaged);

// SAFETY: DLPack's deleters may be called from any thread, and nothing else is done with the pointer.
unsafe impl Send for Imported {}
// SAFETY: as above.
unsafe impl Sync for Imported {}

impl Drop for Imported {
    fn drop(&mut self) {
        // SAFETY: the importer took the tensor over from its capsule, so this is the only call of the deleter.
        unsafe {
            if let Some(deleter) = (*self.0).deleter {
                deleter(self.0);
            }
        }
    }
}

const CPU: i32 = 1;
const ROCM: i32 = 10;
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

/// A managed tensor in one of DLPack's two versions.
trait Managed {
    const NAME: &'static CStr;
    fn context(&self) -> *mut c_void;
}

impl Managed for DlManaged {
    const NAME: &'static CStr = NAME;
    fn context(&self) -> *mut c_void {
        self.context
    }
}

impl Managed for DlVersioned {
    const NAME: &'static CStr = c"dltensor_versioned";
    fn context(&self) -> *mut c_void {
        self.context
    }
}

/// Frees what `export` allocated.
///
/// # Safety
/// `managed` came from `export` and is not used any more.
unsafe extern "C" fn delete<M: Managed>(managed: *mut M) {
    if !managed.is_null() {
        // SAFETY: `export` created both boxes, and DLPack guarantees that the deleter is called once.
        unsafe {
            let managed = Box::from_raw(managed);
            drop(Box::from_raw(managed.context().cast::<Exported>()));
        }
    }
}

/// Capsule destructor: frees a tensor that no consumer took.
unsafe extern "C" fn forget<M: Managed>(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with the capsule that `export` created; a consumed capsule has another name.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, M::NAME.as_ptr()) == 1 {
            delete(ffi::PyCapsule_GetPointer(capsule, M::NAME.as_ptr()).cast::<M>());
        }
    }
}

fn capsule<M: Managed>(py: Python<'_>, managed: M) -> PyResult<Bound<'_, PyAny>> {
    let managed = Box::into_raw(Box::new(managed));
    // SAFETY: the pointer is not null, the name is static, and `forget` frees an unconsumed tensor.
    let capsule = unsafe { ffi::PyCapsule_New(managed.cast(), M::NAME.as_ptr(), Some(forget::<M>)) };
    if capsule.is_null() {
        // SAFETY: no other code has the pointer yet.
        unsafe { delete(managed) };
        return Err(PyErr::fetch(py));
    }
    // SAFETY: PyCapsule_New returned a new reference.
    Ok(unsafe { Bound::from_owned_ptr(py, capsule) })
}

fn export<'py>(
    py: Python<'py>,
    tensor: &Tensor,
    copy: Option<bool>,
    versioned: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let lease = if copy == Some(true) { None } else { lend(py, tensor)? };
    if copy == Some(false) && lease.is_none() {
        return Err(PyBufferError::new_err("the elements of this tensor cannot be shared, only copied"));
    }
    let flags = if lease.is_none() { IS_COPIED } else { 0 };
    let lease = match lease {
        Some(lease) => lease,
        None => lend_copy(py, tensor)?,
    };
    let layout = lease.layout.clone();
    // SAFETY: the offset is that of an element, or of the end if there are none.
    let data = unsafe { lease.start.add(layout.offset * tensor.dtype().bytes()) }.cast();
    let device = DlDevice { kind: CPU, number: 0 };
    let memory = Memory::Host { _lease: lease };
    described(py, Export { memory, data, device, layout, dtype: tensor.dtype(), flags }, versioned)
}

/// A capsule that describes the elements and owns their memory.
fn described(py: Python<'_>, export: Export, versioned: bool) -> PyResult<Bound<'_, PyAny>> {
    let Export { memory, data, device, layout, dtype, flags } = export;
    let shape: Vec<i64> = layout.shape.iter().map(|&length| length as i64).collect();
    let strides = layout.strides.iter().map(|&stride| stride as i64).collect();
    let mut context = Box::new(Exported { _memory: memory, shape, strides });
    let tensor = DlTensor {
        data,
        device,
        dims: context.shape.len() as i32,
        dtype: spelt(dtype),
        shape: context.shape.as_mut_ptr(),
        strides: context.strides.as_mut_ptr(),
        byte_offset: 0,
    };
    let context = Box::into_raw(context).cast();
    if versioned {
        let (version, deleter) = (VERSION, Some(delete::<DlVersioned> as _));
        return capsule(py, DlVersioned { version, context, deleter, flags, tensor });
    }
    capsule(py, DlManaged { tensor, context, deleter: Some(delete) })
}

/// The largest imported array, in bytes.
const LARGEST: usize = 1 << 46;

/// The lengths and strides of an array.
///
/// # Safety
/// `tensor` was given by another library.
unsafe fn axes(tensor: &DlTensor) -> PyResult<(Vec<usize>, Vec<isize>)> {
    let refuse = |why: &str| PyBufferError::new_err(format!("from_dlpack: {why}"));
    let dims = usize::try_from(tensor.dims).ok().filter(|&dims| dims <= 64);
    let dims = dims.ok_or_else(|| refuse("it has more than 64 dimensions"))?;
    if dims == 0 {
        return Ok((Vec::new(), Vec::new()));
    }
    // SAFETY: DLPack guarantees `dims` lengths, and as many strides or a null pointer.
    let (shape, strides) = unsafe {
        let strides = if tensor.strides.is_null() {
            None
        } else {
            Some(std::slice::from_raw_parts(tensor.strides, dims))
        };
        (std::slice::from_raw_parts(tensor.shape, dims), strides)
    };
    let shape = shape.iter().map(|&length| usize::try_from(length)).collect::<Result<Vec<_>, _>>();
    let shape = shape.map_err(|_| refuse("a length is negative"))?;
    let strides = match strides {
        Some(strides) => strides.iter().map(|&stride| stride as isize).collect(),
        None => Layout::contiguous(&shape).strides.to_vec(),
    };
    Ok((shape, strides))
}

/// Copies a host array to row-major order.
///
/// # Safety
/// `tensor` describes readable memory.
unsafe fn gathered(tensor: &DlTensor, dtype: DType) -> PyResult<(Vec<usize>, Vec<u8>)> {
    // SAFETY: guaranteed by the caller.
    let (shape, strides) = unsafe { axes(tensor) }?;
    let (dims, size) = (shape.len(), dtype.bytes());
    let total = shape.iter().try_fold(size, |total, &length| total.checked_mul(length));
    let total = total
        .filter(|&total| total <= LARGEST)
        .ok_or_else(|| PyBufferError::new_err("from_dlpack: it is too large"))?;
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

/// Whether elements of an array share memory, or there are none.
///
/// # Safety
/// `tensor` was given by another library.
unsafe fn overlapping(tensor: &DlTensor) -> PyResult<bool> {
    // SAFETY: guaranteed by the caller.
    let (shape, strides) = unsafe { axes(tensor) }?;
    let layout = Layout { shape: shape.into(), strides: strides.into(), offset: 0 };
    Ok(layout.elements() == 0 || layout.overlaps())
}

/// The memory of an array as the elements of a tensor.
///
/// # Safety
/// `imported` was given by another library.
unsafe fn shared(imported: Imported, dtype: DType) -> PyResult<Tensor> {
    // SAFETY: `imported` keeps the tensor alive.
    let tensor = unsafe { &(*imported.0).tensor };
    // SAFETY: guaranteed by the caller.
    let (shape, strides) = unsafe { axes(tensor) }?;
    let layout = Layout { shape: shape.into(), strides: strides.into(), offset: 0 };
    // SAFETY: DLPack guarantees that the data begins at this offset.
    let start = unsafe { tensor.data.cast::<u8>().add(tensor.byte_offset as usize) };
    // SAFETY: the array describes these elements, and `imported` keeps them alive.
    let memory = unsafe { HostMemory::new(start, layout, Box::new(imported)) };
    Ok(Tensor::from_memory(crate::device::cpu(), dtype, memory))
}

/// Takes the managed tensor of a capsule over.
fn taken(capsule: &Bound<'_, PyAny>) -> PyResult<(Imported, DType)> {
    let pointer = capsule.as_ptr();
    // SAFETY: the capsule is valid under this name, so it holds a managed tensor, which lives until its deleter is called. The
    // capsule is renamed so that nothing else frees the tensor.
    let (imported, dtype) = unsafe {
        if ffi::PyCapsule_IsValid(pointer, NAME.as_ptr()) != 1 {
            return Err(PyBufferError::new_err(
                "from_dlpack: not a DLPack capsule, or one that was already consumed",
            ));
        }
        let managed = ffi::PyCapsule_GetPointer(pointer, NAME.as_ptr()).cast::<DlManaged>();
        ffi::PyCapsule_SetName(pointer, USED.as_ptr());
        (Imported(managed), (*managed).tensor.dtype)
    };
    let DlType { code, bits, lanes } = dtype;
    let dtype = meant(dtype).ok_or_else(|| {
        PyBufferError::new_err(format!(
            "from_dlpack: elements of type code {code} with {bits} bits and {lanes} lanes are not supported"
        ))
    })?;
    Ok((imported, dtype))
}

/// A tensor with the elements of any array that supports DLPack. On the CPU it shares the memory of the array, unless `copy` is
/// true. The elements of an array on a GPU are copied on that GPU.
#[pyfunction]
#[pyo3(signature = (array, device=None, copy=None))]
fn from_dlpack(
    py: Python<'_>,
    array: &Bound<'_, PyAny>,
    device: Option<&str>,
    copy: Option<bool>,
) -> PyResult<PyTensor> {
    if let Ok(tensor) = array.cast::<PyTensor>() {
        return crate::tensor::made_of(py, tensor, None, device);
    }
    if !array.hasattr("__dlpack__")? {
        return Err(PyTypeError::new_err(format!(
            "from_dlpack: {} has no __dlpack__",
            array.get_type().name()?
        )));
    }
    let (kind, number): (i32, i32) = array.call_method0("__dlpack_device__")?.extract()?;
    if kind == ROCM {
        return gpu::import(py, array, number, device, copy);
    }
    if kind != CPU {
        return Err(PyBufferError::new_err(format!(
            "from_dlpack: the array is on a device of kind {kind}; move it to the CPU first"
        )));
    }
    let (imported, dtype) = taken(&array.call_method0("__dlpack__")?)?;
    // SAFETY: `imported` keeps the tensor alive, and DLPack guarantees that it describes readable memory.
    unsafe {
        let tensor = &(*imported.0).tensor;
        let (device, placed) = chosen(py, device)?;
        let possible = device.name() == "cpu" && !overlapping(tensor)?;
        if copy != Some(true) && possible {
            return Ok(PyTensor::new(shared(imported, dtype)?, placed));
        }
        if copy == Some(false) {
            return Err(PyBufferError::new_err(
                "from_dlpack: the elements must be copied, but copy=False was given",
            ));
        }
        let (shape, bytes) = gathered(tensor, dtype)?;
        Ok(PyTensor::new(Tensor::from_bytes(&device, dtype, &shape, &bytes).map_err(raise)?, placed))
    }
}

#[pymethods]
impl PyTensor {
    /// Exports the memory of the tensor. `dl_device=(1, 0)` exports a tensor on a GPU as a copy in host memory.
    ///
    /// The memory of a GPU may be read and not written, unless `copy` is true. `stream` is the stream that reads it, as DLPack
    /// defines it for ROCm: `None` or 0 for the default stream, -1 for no order, or the handle of a stream.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let versioned = max_version.is_some_and(|(major, _)| major >= VERSION[0]);
        let tensor = self.tensor().detach();
        let own = place(&tensor);
        match dl_device.unwrap_or(own) {
            (CPU, _) => export(py, &tensor, copy, versioned),
            wanted if wanted == own => gpu::export(py, &tensor, gpu::user(stream)?, copy, versioned),
            (kind, number) => Err(PyBufferError::new_err(format!(
                "a tensor on {} is exported where it is, or to the CPU (1, 0), not to device {number} of kind {kind}; move it with to() first",
                tensor.device().name()
            ))),
        }
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        place(&self.tensor())
    }
}

/// The kind and the number of a tensor's device.
fn place(tensor: &Tensor) -> (i32, i32) {
    gpu::number(tensor).map_or((CPU, 0), |number| (ROCM, number))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(crate::array::sharing, module)?)?;
    module.add_function(wrap_pyfunction!(from_dlpack, module)?)
}
