//! The class `Tensor`: its properties, creation and conversion. Its operations are in `methods/`.

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use tensor_core::Tensor;
use tensor_core::dtype::{DType, Scalar};

use crate::device::{self, AnyDevice};
use crate::dtype::{AnyDType, PyDType};
use crate::error::raise;
use crate::{array, element};

/// An array of numbers on a device. Operations on it are recorded lazily and computed together when a value is needed.
#[pyclass(name = "Tensor", module = "pyflame", subclass, frozen)]
#[derive(Debug)]
pub struct PyTensor {
    /// Replaced if `data` is set to a tensor of another type or device.
    inner: RwLock<Tensor>,
    /// Whether the program placed it on its device explicitly.
    placed: AtomicBool,
}

impl PyTensor {
    pub fn new(tensor: Tensor, placed: bool) -> PyTensor {
        tensor_core::note(&tensor);
        PyTensor { inner: RwLock::new(tensor), placed: AtomicBool::new(placed) }
    }

    pub fn tensor(&self) -> Tensor {
        self.inner.read().expect("no code panics while holding this lock").clone()
    }

    pub fn is_placed(&self) -> bool {
        self.placed.load(Ordering::Relaxed)
    }

    /// Returns the tensor on the device where operations on it run.
    pub fn here(&self) -> PyResult<Tensor> {
        let tensor = self.tensor();
        if self.is_placed() || device::is_current(tensor.device()) {
            return Ok(tensor);
        }
        tensor.to_device(&device::current()).map_err(raise)
    }

    /// Applies an operation to this tensor. The result has its own elements.
    pub fn map(&self, operation: impl FnOnce(&Tensor) -> tensor_core::Result<Tensor>) -> PyResult<PyTensor> {
        let tensor = self.here()?;
        let result = operation(&tensor).map_err(raise)?;
        Ok(PyTensor::new(own_elements(result, [&tensor]), self.is_placed()))
    }

    /// Applies an operation that returns a view where possible. Views stay on their tensor's device, so that writes reach it.
    pub fn map_view(
        &self,
        operation: impl FnOnce(&Tensor) -> tensor_core::Result<Tensor>,
    ) -> PyResult<PyTensor> {
        Ok(PyTensor::new(operation(&self.tensor()).map_err(raise)?, self.is_placed()))
    }

    /// Gives this tensor, and all that share its elements, new elements.
    pub fn replace(&self, with: &Tensor) -> PyResult<()> {
        let own = self.tensor();
        own.assign(with).map_err(raise)?;
        tensor_core::note(&own);
        Ok(())
    }

    /// Returns its only element.
    pub fn element(&self, py: Python<'_>) -> PyResult<Scalar> {
        let tensor = self.tensor();
        if tensor.elements() != 1 {
            return Err(PyRuntimeError::new_err(format!(
                "a Tensor with {} elements cannot be converted to Scalar; its shape is {:?}",
                tensor.elements(),
                tensor.shape()
            )));
        }
        Ok(element::decode(&download(py, &tensor)?, tensor.dtype()))
    }
}

/// The result of an operation on these inputs, without shared elements: some operations return an input unchanged.
pub fn own_elements<'a>(result: Tensor, inputs: impl IntoIterator<Item = &'a Tensor>) -> Tensor {
    let shared = inputs.into_iter().any(|input| input.shares_elements(&result));
    if shared { result.apart() } else { result }
}

/// A serialised tensor: type, shape, row-major elements, and the device if it was placed.
type Parts<'py> = (&'static str, Vec<usize>, Bound<'py, PyBytes>, Option<String>);

/// Evaluates and downloads, with the GIL released.
pub fn download(py: Python<'_>, tensor: &Tensor) -> PyResult<Vec<u8>> {
    device::usable(tensor.device())?;
    crate::profile::waited(tensor.device().name(), || py.detach(|| tensor.to_bytes())).map_err(raise)
}

/// Lends the memory of a tensor, if this process can access it.
pub fn lend(py: Python<'_>, tensor: &Tensor) -> PyResult<Option<tensor_core::Lease>> {
    device::usable(tensor.device())?;
    crate::profile::waited(tensor.device().name(), || py.detach(|| tensor.lend())).map_err(raise)
}

/// Lends memory of this process with a copy of the elements. It is memory of the CPU device, which keeps freed memory for the next
/// such copy: the pages of fresh memory cost more than the copy.
pub fn lend_copy(py: Python<'_>, tensor: &Tensor) -> PyResult<tensor_core::Lease> {
    device::usable(tensor.device())?;
    let cpu = device::cpu();
    let lent = crate::profile::waited(tensor.device().name(), || {
        py.detach(|| {
            let copy = if std::sync::Arc::ptr_eq(tensor.device(), cpu) {
                Tensor::from_bytes(cpu, tensor.dtype(), tensor.shape(), &tensor.to_bytes()?)?
            } else {
                tensor.detach().to_device(cpu)?
            };
            copy.lend()
        })
    });
    lent.map_err(raise)?.ok_or_else(|| {
        PyRuntimeError::new_err("the memory of the CPU device cannot be accessed by this process")
    })
}

/// Returns the device named by an argument, or the current device.
pub fn chosen(py: Python<'_>, name: Option<&str>) -> PyResult<(AnyDevice, bool)> {
    match name {
        Some(name) => Ok((device::named(py, name)?, true)),
        None => Ok((device::current(), false)),
    }
}

/// Creates a tensor with a copy of the data.
pub fn made_of(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    dtype: Option<DType>,
    name: Option<&str>,
) -> PyResult<PyTensor> {
    if let Ok(given) = data.cast::<PyTensor>() {
        let mut tensor = given.get().tensor().snapshot();
        let mut placed = given.get().is_placed();
        if let Some(name) = name {
            tensor = tensor.to_device(&device::named(py, name)?).map_err(raise)?;
            placed = true;
        }
        if let Some(dtype) = dtype {
            tensor = tensor.cast(dtype).map_err(raise)?;
        }
        return Ok(PyTensor::new(tensor, placed));
    }
    let (device, placed) = chosen(py, name)?;
    device::usable(&device)?;
    let elements = array::read(data, dtype)?;
    let mut tensor = py
        .detach(|| Tensor::from_bytes(&device, elements.dtype, &elements.shape, &elements.bytes))
        .map_err(raise)?;
    if let Some(dtype) = dtype {
        tensor = tensor.cast(dtype).map_err(raise)?;
    }
    Ok(PyTensor::new(tensor, placed))
}

#[pymethods]
impl PyTensor {
    #[new]
    #[pyo3(signature = (data, dtype=None, device=None, requires_grad=false))]
    fn construct(
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        dtype: Option<AnyDType>,
        device: Option<String>,
        requires_grad: bool,
    ) -> PyResult<PyTensor> {
        let made = match data.cast::<PyTensor>() {
            // A parameter made of a tensor shares its elements, as in PyTorch.
            Ok(given) if dtype.is_none() && device.is_none() => given.get().detach(),
            _ => made_of(py, data, dtype.map(|dtype| dtype.0), device.as_deref())?,
        };
        if requires_grad {
            made.tensor().set_requires_grad(true).map_err(raise)?;
        }
        Ok(made)
    }

    /// The lengths of the axes.
    #[getter]
    pub fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        size(py, self.tensor().shape())
    }

    /// The lengths of the axes, or of one.
    #[pyo3(signature = (dim=None))]
    fn size<'py>(&self, py: Python<'py>, dim: Option<isize>) -> PyResult<Bound<'py, PyAny>> {
        let tensor = self.tensor();
        match dim {
            None => size(py, tensor.shape()),
            Some(dim) => {
                let axis = axis(dim, tensor.rank(), "size")?;
                tensor.shape()[axis].into_bound_py_any(py)
            }
        }
    }

    /// The number of axes.
    #[getter]
    fn ndim(&self) -> usize {
        self.tensor().rank()
    }

    /// The number of axes.
    fn dim(&self) -> usize {
        self.tensor().rank()
    }

    /// The number of elements; also callable, as in PyTorch.
    #[getter]
    fn numel<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("pyflame._size")?.getattr("Count")?.call1((self.tensor().elements(),))
    }

    /// The number of elements.
    fn nelement(&self) -> usize {
        self.tensor().elements()
    }

    /// The size of an element in bytes.
    fn element_size(&self) -> usize {
        self.tensor().dtype().bytes()
    }

    /// The size of an element in bytes.
    #[getter]
    fn itemsize(&self) -> usize {
        self.tensor().dtype().bytes()
    }

    /// The size of all elements in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        let tensor = self.tensor();
        tensor.elements() * tensor.dtype().bytes()
    }

    /// The type of the elements.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyDType>> {
        crate::dtype::object(py, self.tensor().dtype())
    }

    /// The name of the device, a string with the attributes `type` and `index`.
    #[getter]
    fn device<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let class = CLASS.get_or_try_init(py, || {
            Ok::<_, PyErr>(py.import("pyflame._size")?.getattr("device")?.unbind())
        })?;
        class.bind(py).call1((self.tensor().device().name(),))
    }

    /// The distance between neighbours along the axes, or along one, in elements.
    fn stride(&self) -> Vec<isize> {
        self.tensor().layout().strides.to_vec()
    }

    /// Whether the elements are in row-major order.
    fn is_contiguous(&self) -> bool {
        self.tensor().layout().is_contiguous()
    }

    /// Whether the elements are real floating-point numbers.
    fn is_floating_point(&self) -> bool {
        self.tensor().dtype().is_float()
    }

    /// Whether the elements are complex numbers.
    fn is_complex(&self) -> bool {
        self.tensor().dtype().is_complex()
    }

    /// Whether gradients flow to this tensor.
    #[getter]
    fn requires_grad(&self) -> bool {
        self.tensor().requires_grad()
    }

    #[setter]
    fn set_requires_grad(&self, requires: bool) -> PyResult<()> {
        self.tensor().set_requires_grad(requires).map_err(raise)
    }

    /// Makes the tensor collect gradients, or stops it.
    #[pyo3(signature = (requires_grad=true))]
    fn requires_grad_(slf: Bound<'_, Self>, requires_grad: bool) -> PyResult<Bound<'_, Self>> {
        slf.get().tensor().set_requires_grad(requires_grad).map_err(raise)?;
        Ok(slf)
    }

    /// The gradient that backward passes have accumulated.
    #[getter]
    fn grad(&self) -> Option<PyTensor> {
        self.tensor().grad().map(|grad| PyTensor::new(grad, self.is_placed()))
    }

    #[setter]
    fn set_grad(&self, grad: Option<&Bound<'_, PyTensor>>) -> PyResult<()> {
        let own = self.tensor();
        let grad = grad.map(|grad| grad.get().tensor());
        if let Some(grad) = &grad
            && (grad.shape() != own.shape() || grad.dtype() != own.dtype())
        {
            return Err(PyRuntimeError::new_err(format!(
                "a gradient must have its tensor's shape and type: {:?} of {} is not {:?} of {}",
                grad.shape(),
                grad.dtype(),
                own.shape(),
                own.dtype()
            )));
        }
        own.set_grad(grad);
        Ok(())
    }

    /// Removes the gradient.
    fn zero_grad(&self) {
        self.tensor().set_grad(None);
    }

    /// Whether it is not the result of an operation with recorded gradients.
    #[getter]
    fn is_leaf(&self) -> bool {
        self.tensor().is_leaf()
    }

    /// The name of the function that recorded this tensor's gradient.
    #[getter]
    fn grad_fn(&self) -> Option<String> {
        self.tensor().grad_fn().map(|name| format!("<{name} backward>"))
    }

    #[getter]
    fn data(&self) -> PyTensor {
        self.detach()
    }

    /// Makes the tensor share the elements of another one. The type and the device may change, the shape must not.
    #[setter]
    fn set_data(&self, data: &Bound<'_, PyTensor>) -> PyResult<()> {
        let own = self.tensor();
        let given = data.get().tensor().detach();
        let same = own.dtype() == given.dtype() && std::sync::Arc::ptr_eq(own.device(), given.device());
        if same {
            return own.share(&given).map_err(raise);
        }
        if own.shape() != given.shape() {
            return Err(PyValueError::new_err(format!(
                "data: a tensor of shape {:?} cannot replace one of shape {:?}",
                given.shape(),
                own.shape()
            )));
        }
        if own.requires_grad() {
            given.set_requires_grad(true).map_err(raise)?;
        }
        self.placed.store(data.get().is_placed(), Ordering::Relaxed);
        *self.inner.write().expect("no code panics while holding this lock") = given;
        Ok(())
    }

    /// A tensor that shares the elements and has no history of gradients.
    pub fn detach(&self) -> PyTensor {
        PyTensor::new(self.tensor().detach(), self.is_placed())
    }

    /// Makes this object the same tensor as another one, such as a view or a detached form of it. Other objects are not affected.
    fn _become<'py>(slf: Bound<'py, Self>, other: &Bound<'py, PyTensor>) -> PyResult<Bound<'py, Self>> {
        let own = slf.get().tensor();
        if own.requires_grad() && own.is_leaf() && other.get().tensor().requires_grad() {
            return Err(PyRuntimeError::new_err(
                "a leaf that requires a gradient cannot be changed in place; use a copy, or pf.no_grad()",
            ));
        }
        let with = other.get().tensor();
        *slf.get().inner.write().expect("no code panics while holding this lock") = with;
        Ok(slf)
    }

    /// The position of the first element in the memory that the tensor shares with those that it is a view of.
    fn storage_offset(&self) -> usize {
        self.tensor().layout().offset
    }

    /// Accumulates gradients into `grad` of every leaf that requires it and that this tensor depends on.
    #[pyo3(signature = (gradient=None, retain_graph=false, create_graph=false))]
    fn backward(
        &self,
        py: Python<'_>,
        gradient: Option<&Bound<'_, PyTensor>>,
        retain_graph: bool,
        create_graph: bool,
    ) -> PyResult<()> {
        let own = self.tensor();
        let gradient = match gradient {
            Some(gradient) => Some(gradient.get().tensor().to_device(own.device()).map_err(raise)?),
            None => None,
        };
        py.detach(|| match create_graph {
            true => own.backward_with_graph(gradient.as_ref()),
            false => own.backward(gradient.as_ref(), retain_graph),
        })
        .map_err(raise)
    }

    /// A NumPy array with the elements. On the CPU it shares the memory of the tensor, else it is a copy.
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let tensor = self.tensor();
        if tensor.requires_grad() && tensor_core::grad_mode::is_enabled() {
            return Err(PyRuntimeError::new_err(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
            ));
        }
        array::to_numpy(py, &tensor)
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let tensor = self.tensor().detach();
        if copy == Some(false) && (dtype.is_some() || lend(py, &tensor)?.is_none()) {
            return Err(PyValueError::new_err(
                "the tensor's elements must be copied to NumPy, but copy=False was given",
            ));
        }
        let array = array::to_numpy(py, &tensor)?;
        match dtype {
            Some(dtype) => array.call_method1("astype", (dtype,)),
            None if copy == Some(true) => array.call_method0("copy"),
            None => Ok(array),
        }
    }

    /// The elements as nested lists of Python numbers.
    fn tolist(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        array::to_list(py, &self.tensor())
    }

    /// The only element as a Python number.
    fn item(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        element::to_python(py, self.element(py)?)
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        if self.tensor().elements() != 1 {
            return Err(PyRuntimeError::new_err(
                "Boolean value of Tensor with more than one value is ambiguous; use .any() or .all()",
            ));
        }
        element::to_python(py, self.element(py)?)?.is_truthy(py)
    }

    fn __float__(&self, py: Python<'_>) -> PyResult<f64> {
        match self.element(py)? {
            Scalar::Complex(_, imaginary) if imaginary != 0.0 => {
                Err(PyTypeError::new_err("a complex number cannot be converted to float"))
            }
            Scalar::Complex(real, _) => Ok(real),
            Scalar::Bool(value) => Ok(f64::from(u8::from(value))),
            Scalar::Int(value) => Ok(value as f64),
            Scalar::UInt(value) => Ok(value as f64),
            Scalar::Float(value) => Ok(value),
        }
    }

    fn __int__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let value = element::to_python(py, self.element(py)?)?;
        py.import("builtins")?.getattr("int")?.call1((value,))
    }

    fn __complex__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let value = element::to_python(py, self.element(py)?)?;
        py.import("builtins")?.getattr("complex")?.call1((value,))
    }

    fn __index__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if !self.tensor().dtype().is_integer() && self.tensor().dtype() != DType::Bool {
            return Err(PyTypeError::new_err(
                "only integer tensors of a single element can be converted to an index",
            ));
        }
        self.__int__(py)
    }

    fn __len__(&self) -> PyResult<usize> {
        self.tensor().shape().first().copied().ok_or_else(|| PyTypeError::new_err("len() of a 0-d tensor"))
    }

    fn __hash__(slf: &Bound<'_, Self>) -> isize {
        slf.as_ptr() as isize >> 4
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        slf.py().import("pyflame._show")?.call_method1("show", (slf,))?.extract()
    }

    /// How notebooks show the tensor: vectors and matrices as a table.
    fn _repr_html_(slf: &Bound<'_, Self>) -> PyResult<String> {
        slf.py().import("pyflame._show")?.call_method1("html", (slf,))?.extract()
    }

    fn __str__(slf: &Bound<'_, Self>) -> PyResult<String> {
        Self::__repr__(slf)
    }

    fn __format__(slf: &Bound<'_, Self>, format: &str) -> PyResult<String> {
        if slf.get().tensor().rank() == 0 && !format.is_empty() {
            let value = slf.get().item(slf.py())?;
            return value.bind(slf.py()).call_method1("__format__", (format,))?.extract();
        }
        Self::__repr__(slf)
    }

    /// The type, shape, bytes and device, as `from_parts` takes them.
    fn to_parts<'py>(&self, py: Python<'py>) -> PyResult<Parts<'py>> {
        let tensor = self.tensor();
        let bytes = download(py, &tensor)?;
        let place = self.is_placed().then(|| tensor.device().name().to_owned());
        Ok((tensor.dtype().name(), tensor.shape().to_vec(), PyBytes::new(py, &bytes), place))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let (dtype, shape, bytes, place) = slf.get().to_parts(py)?;
        let function = py.import("pyflame._pyflame")?.getattr("from_parts")?;
        let requires = slf.get().tensor().requires_grad() && slf.get().tensor().is_leaf();
        let arguments = (dtype, shape, bytes, place, requires).into_bound_py_any(py)?;
        PyTuple::new(py, [function, arguments])
    }

    fn __deepcopy__(&self, memo: &Bound<'_, PyDict>) -> PyResult<PyTensor> {
        let _ = memo;
        let tensor = self.tensor();
        if !tensor.is_leaf() {
            return Err(PyRuntimeError::new_err("only leaf tensors can be deep copied; detach() it first"));
        }
        let copy = tensor_core::ops::shape::clone(&tensor.detach()).map_err(raise)?;
        copy.set_requires_grad(tensor.requires_grad()).map_err(raise)?;
        Ok(PyTensor::new(copy, self.is_placed()))
    }

    /// The namespace of the array API standard.
    #[pyo3(signature = (*, api_version=None))]
    fn __array_namespace__<'py>(
        &self,
        py: Python<'py>,
        api_version: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(version) = api_version
            && !matches!(version, "2022.12" | "2023.12" | "2024.12")
        {
            return Err(PyValueError::new_err(format!(
                "version {version} of the array API is not supported"
            )));
        }
        Ok(py.import("pyflame.array_api")?.into_any())
    }

    /// The array API's method to move a tensor; `to` does more.
    #[pyo3(signature = (device, /, *, stream=None))]
    fn to_device(
        slf: &Bound<'_, Self>,
        device: &str,
        stream: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let _ = stream;
        Ok(slf.call_method1("to", (device,))?.unbind())
    }

    /// Whether the elements are computed already.
    fn is_realised(&self) -> bool {
        self.tensor().is_realised()
    }
}

/// Creates a tensor from the result of `to_parts`.
#[pyfunction]
#[pyo3(signature = (dtype, shape, bytes, device=None, requires_grad=false))]
pub fn from_parts(
    py: Python<'_>,
    dtype: AnyDType,
    shape: Vec<usize>,
    bytes: &[u8],
    device: Option<String>,
    requires_grad: bool,
) -> PyResult<PyTensor> {
    let (place, placed) = chosen(py, device.as_deref())?;
    let tensor = Tensor::from_bytes(&place, dtype.0, &shape, bytes).map_err(raise)?;
    if requires_grad {
        tensor.set_requires_grad(true).map_err(raise)?;
    }
    Ok(PyTensor::new(tensor, placed))
}

/// A shape as a Python tuple.
pub fn size<'py>(py: Python<'py>, shape: &[usize]) -> PyResult<Bound<'py, PyAny>> {
    Ok(PyTuple::new(py, shape)?.into_any())
}

/// Resolves an axis; negative values count from the end.
pub fn axis(dim: isize, rank: usize, operation: &str) -> PyResult<usize> {
    let count = rank.max(1) as isize;
    if dim < -count || dim >= count {
        return Err(pyo3::exceptions::PyIndexError::new_err(format!(
            "{operation}: Dimension out of range (expected to be in range of [{}, {}], but got {dim})",
            -count,
            count - 1
        )));
    }
    Ok(if dim < 0 { dim + count } else { dim } as usize)
}
