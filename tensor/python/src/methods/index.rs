//! Indexing with `x[...]`: views for numbers, slices, None and Ellipsis; copies for masks and integer tensors.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PyList, PySlice, PyTuple};
use tensor_core::Tensor;
use tensor_core::autograd::in_place;
use tensor_core::dtype::{DType, Scalar};
use tensor_core::ops::{create, elementwise, index, shape};
use tensor_core::program::Binary;

use crate::device;
use crate::error::raise;
use crate::operand::{Operand, place};
use crate::tensor::{PyTensor, made_of};

/// One component of an index.
enum Part {
    At(isize),
    Range {
        start: isize,
        end: isize,
        step: isize,
    },
    New,
    Rest,
    /// Indices of elements along one axis.
    Numbers(Tensor),
    /// A boolean mask, over as many axes as it has.
    Mask(Tensor),
}

fn part(item: &Bound<'_, PyAny>, home: &device::AnyDevice) -> PyResult<Part> {
    if item.is_none() {
        return Ok(Part::New);
    }
    if item.is_instance_of::<PyEllipsis>() {
        return Ok(Part::Rest);
    }
    if let Ok(slice) = item.cast::<PySlice>() {
        let bound = |name: &str| -> PyResult<Option<isize>> {
            let value = slice.getattr(name)?;
            if value.is_none() { Ok(None) } else { Ok(Some(value.extract()?)) }
        };
        let step = bound("step")?.unwrap_or(1);
        let (first, last) = if step < 0 { (isize::MAX, isize::MIN) } else { (0, isize::MAX) };
        return Ok(Part::Range {
            start: bound("start")?.unwrap_or(first),
            end: bound("stop")?.unwrap_or(last),
            step,
        });
    }
    if item.is_instance_of::<PyInt>() && !item.is_instance_of::<PyBool>() {
        return Ok(Part::At(item.extract()?));
    }
    let given = if item.is_instance_of::<PyBool>()
        || item.cast::<PyList>().is_ok()
        || item.cast::<PyTensor>().is_ok()
        || item.hasattr("__array_interface__")?
        || item.cast::<PyTuple>().is_ok()
    {
        made_of(item.py(), item, None, None)?
    } else if let Ok(number) = item.extract::<isize>() {
        return Ok(Part::At(number));
    } else {
        return Err(PyIndexError::new_err(format!(
            "an index must be an integer, slice, Ellipsis, None, mask or integer tensor, not {}",
            item.get_type().name()?
        )));
    };
    let tensor = given.tensor().to_device(home).map_err(raise)?;
    match tensor.dtype() {
        DType::Bool => Ok(Part::Mask(tensor)),
        dtype if dtype.is_integer() => {
            if tensor.rank() == 0 {
                return Ok(Part::At(item.call_method0("__index__")?.extract()?));
            }
            Ok(Part::Numbers(tensor.cast(DType::I64).map_err(raise)?))
        }
        // An empty list has no particular type.
        _ if tensor.elements() == 0 => Ok(Part::Numbers(tensor.cast(DType::I64).map_err(raise)?)),
        dtype => {
            Err(PyIndexError::new_err(format!("tensors used as indices must be int or bool, not {dtype}")))
        }
    }
}

fn parts(key: &Bound<'_, PyAny>, home: &device::AnyDevice) -> PyResult<Vec<Part>> {
    match key.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().map(|item| part(&item, home)).collect(),
        Err(_) => Ok(vec![part(key, home)?]),
    }
}

/// Axes that are looked up by index tensors.
type Lookups = Vec<(usize, Tensor)>;

/// Returns the view that the other parts of a key select, and what is to be looked up in it.
fn viewed(x: &Tensor, parts: Vec<Part>) -> PyResult<(Tensor, Lookups)> {
    let used: usize = parts
        .iter()
        .map(|part| match part {
            Part::At(_) | Part::Range { .. } | Part::Numbers(_) => 1,
            Part::Mask(mask) => mask.rank(),
            Part::New | Part::Rest => 0,
        })
        .sum();
    if used > x.rank() {
        return Err(PyIndexError::new_err(format!(
            "too many indices for tensor of dimension {}: {used} were given for the shape {:?}",
            x.rank(),
            x.shape()
        )));
    }
    let mut result = x.clone();
    let mut axis = 0_isize;
    let rest = parts.iter().filter(|part| matches!(part, Part::Rest)).count();
    if rest > 1 {
        return Err(PyIndexError::new_err("an index can only have a single ellipsis ('...')"));
    }
    let mut lookups = Lookups::new();
    for part in parts {
        match part {
            Part::At(at) => result = shape::select(&result, axis, at).map_err(raise)?,
            Part::Range { start, end, step } => {
                result = sliced(&result, axis, start, end, step)?;
                axis += 1;
            }
            Part::New => {
                result = shape::unsqueeze(&result, axis).map_err(raise)?;
                axis += 1;
            }
            Part::Rest => axis += (x.rank() - used) as isize,
            Part::Numbers(numbers) => {
                lookups.push((axis as usize, numbers));
                axis += 1;
            }
            Part::Mask(mask) if mask.rank() == 0 => {
                result = shape::unsqueeze(&result, axis).map_err(raise)?;
                let numbers = index::nonzero(&shape::unsqueeze(&mask, 0).map_err(raise)?).map_err(raise)?;
                lookups.push((axis as usize, shape::select(&numbers, 1, 0).map_err(raise)?));
                axis += 1;
            }
            Part::Mask(mask) => {
                let covered = &result.shape()[axis as usize..axis as usize + mask.rank()];
                // An empty mask selects nothing, however long the tensor is.
                if covered.iter().zip(mask.shape()).any(|(own, length)| own != length && *length != 0) {
                    return Err(PyIndexError::new_err(format!(
                        "the shape of the mask {:?} does not match the shape {covered:?} of what it indexes",
                        mask.shape()
                    )));
                }
                let numbers = index::nonzero(&mask).map_err(raise)?;
                for number in 0..mask.rank() {
                    lookups
                        .push((axis as usize, shape::select(&numbers, 1, number as isize).map_err(raise)?));
                    axis += 1;
                }
            }
        }
    }
    Ok((result, lookups))
}

fn sliced(x: &Tensor, axis: isize, start: isize, end: isize, step: isize) -> PyResult<Tensor> {
    if x.shape()[axis as usize] == 0 {
        return Ok(x.clone());
    }
    // For a negative step, Python has no number for "through the first element"; the library takes one before the first.
    let end = if end == isize::MIN { -(x.shape()[axis as usize] as isize) - 1 } else { end };
    shape::slice(x, axis, start, end, step).map_err(raise)
}

/// Looks up elements by integer tensors along some axes. The index tensors broadcast; their axes replace the looked-up axes at
/// the first of them, or come first if other axes are in between.
fn looked_up(x: &Tensor, lookups: Lookups) -> PyResult<Tensor> {
    let axes: Vec<usize> = lookups.iter().map(|(axis, _)| *axis).collect();
    let adjacent = axes.windows(2).all(|pair| pair[1] == pair[0] + 1);
    let mut common: Option<Tensor> = None;
    let mut numbers: Vec<Tensor> = Vec::new();
    for (axis, lookup) in &lookups {
        let length = x.shape()[*axis];
        bounds("index", lookup, length, *axis)?;
        let below = elementwise::binary_scalar(Binary::Lt, lookup, Scalar::Int(0), false).map_err(raise)?;
        let above = elementwise::binary_scalar(Binary::Add, lookup, Scalar::Int(length as i64), false)
            .map_err(raise)?;
        let number = elementwise::where_(&below, &above, lookup)
            .and_then(|number| tensor_core::bounds::within("index", &number, length));
        numbers.push(number.map_err(raise)?);
    }
    // Combine the indices of all looked-up axes to one row-major index.
    for (number, &axis) in numbers.iter().zip(&axes) {
        let length = Scalar::Int(x.shape()[axis] as i64);
        common = Some(match common {
            None => number.clone(),
            Some(before) => elementwise::binary_scalar(Binary::Mul, &before, length, false)
                .and_then(|before| elementwise::add(&before, number))
                .map_err(raise)?,
        });
    }
    let Some(common) = common else { return Ok(x.clone()) };
    let others: Vec<usize> = (0..x.rank()).filter(|axis| !axes.contains(axis)).collect();
    let order: Vec<isize> = axes.iter().chain(&others).map(|&axis| axis as isize).collect();
    let rows: usize = axes.iter().map(|&axis| x.shape()[axis]).product();
    let mut flat: Vec<isize> = vec![rows as isize];
    flat.extend(others.iter().map(|&axis| x.shape()[axis] as isize));
    let picked = shape::permute(x, &order)
        .and_then(|x| shape::reshape(&x, &flat))
        .and_then(|x| index::index_select(&x, 0, &shape::flatten(&common, 0, -1)?))
        .map_err(raise)?;
    let mut full: Vec<isize> = common.shape().iter().map(|&length| length as isize).collect();
    full.extend(&flat[1..]);
    let picked = shape::reshape(&picked, &full).map_err(raise)?;
    if !adjacent || axes[0] == 0 {
        return Ok(picked);
    }
    // Move the looked-up axes back to their position.
    let (count, before) = (common.rank(), axes[0]);
    let order: Vec<isize> = (count..count + before)
        .chain(0..count)
        .chain(count + before..picked.rank())
        .map(|axis| axis as isize)
        .collect();
    shape::permute(&picked, &order).map_err(raise)
}

/// Checks indices against an axis at once where reading them is cheap: on the CPU. A GPU reports bad indices at the next call
/// that waits.
fn bounds(operation: &str, numbers: &Tensor, length: usize, axis: usize) -> PyResult<()> {
    if numbers.device().name() != "cpu" {
        return Ok(());
    }
    let bytes = numbers.to_bytes().map_err(raise)?;
    for raw in bytes.chunks_exact(8) {
        if let Scalar::Int(number) = crate::element::decode(raw, DType::I64)
            && (number < -(length as i64) || number >= length as i64)
        {
            return Err(PyIndexError::new_err(format!(
                "{operation}: index {number} is out of bounds for dimension {axis} with size {length}"
            )));
        }
    }
    Ok(())
}

#[pymethods]
impl PyTensor {
    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
        let own = self.tensor();
        let parts = parts(key, own.device())?;
        if let [Part::Mask(mask)] = &parts[..]
            && mask.rank() > 0
            && mask.shape() == own.shape()
        {
            let x = self.here()?;
            let mask = mask.to_device(x.device()).map_err(raise)?;
            let chosen = index::masked_select(&x, &mask).map_err(raise)?;
            return Ok(PyTensor::new(chosen, self.is_placed()));
        }
        let (view, lookups) = viewed(&own, parts)?;
        let view = PyTensor::new(view, self.is_placed());
        if lookups.is_empty() {
            return Ok(view);
        }
        let x = view.here()?;
        let moved = |(axis, index): (usize, Tensor)| Ok((axis, index.to_device(x.device())?));
        let lookups = lookups.into_iter().map(moved).collect::<tensor_core::Result<_>>().map_err(raise)?;
        Ok(PyTensor::new(looked_up(&x, lookups)?, self.is_placed()))
    }

    /// Sets the elements to the value, which is broadcast to them.
    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: Operand) -> PyResult<()> {
        let own = self.tensor();
        let value = value.tensor(own.device(), Some(own.dtype()))?.cast(own.dtype()).map_err(raise)?;
        let parts = parts(key, own.device())?;
        // A mask of the whole tensor and one value: without looking at the mask.
        if let [Part::Mask(mask)] = &parts[..]
            && mask.shape() == own.shape()
            && value.elements() == 1
        {
            let _writing = in_place(&own);
            let value = shape::reshape(&value, &[]).map_err(raise)?;
            return self.replace(&elementwise::where_(mask, &value, &own).map_err(raise)?);
        }
        let (view, lookups) = viewed(&own, parts)?;
        if lookups.is_empty() {
            // Leading axes of length one do not count, as in NumPy.
            let excess = value.rank().saturating_sub(view.rank());
            let dropped = value.shape().iter().take(excess).take_while(|&&length| length == 1).count();
            let kept: Vec<isize> = value.shape()[dropped..].iter().map(|&length| length as isize).collect();
            let value = shape::reshape(&value, &kept)
                .and_then(|value| shape::broadcast_to(&value, view.shape()))
                .map_err(raise)?;
            // `x[0] += 1` ends with `x[0] = x[0]`.
            if !value.is_same_view(&view) {
                view.assign(&value).map_err(raise)?;
                tensor_core::note(&own);
            }
            return Ok(());
        }
        let _writing = in_place(&view);
        let lengths: Vec<isize> = view.shape().iter().map(|&length| length as isize).collect();
        let everywhere = create::arange(
            own.device(),
            DType::I64,
            Scalar::Int(0),
            Scalar::Int(view.elements() as i64),
            Scalar::Int(1),
        )
        .and_then(|numbers| shape::reshape(&numbers, &lengths))
        .map_err(raise)?;
        let places = looked_up(&everywhere, lookups)?;
        let changed = shape::broadcast_to(&value, places.shape())
            .and_then(|value| {
                let flat = shape::reshape(&view, &[-1])?;
                let places = shape::reshape(&places, &[-1])?;
                index::scatter(&flat, 0, &places, &shape::reshape(&value, &[-1])?)
            })
            .and_then(|flat| shape::reshape(&flat, &lengths))
            .map_err(raise)?;
        view.assign(&changed).map_err(raise)?;
        tensor_core::note(&own);
        Ok(())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let tensor = self.tensor();
        let Some(&length) = tensor.shape().first() else {
            return Err(PyTypeError::new_err("iteration over a 0-d tensor"));
        };
        let rows = (0..length)
            .map(|at| self.map_view(|x| shape::select(x, 0, at as isize)))
            .collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, rows)?.into_any().try_iter().map(Bound::into_any)
    }

    fn __contains__(&self, py: Python<'_>, value: Operand) -> PyResult<bool> {
        let equal = super::binary::compute(Binary::Eq, self, value, false)?;
        equal
            .map(|x| tensor_core::ops::reduce::any(x, None, false))?
            .element(py)
            .map(|any| any == Scalar::Bool(true))
    }

    /// Returns a copy with one value where the mask is true.
    fn masked_fill(&self, mask: Operand, value: Operand) -> PyResult<PyTensor> {
        super::unary::filled(self, mask, value)
    }

    /// The elements where a mask is true, as a vector.
    fn masked_select(&self, mask: &Bound<'_, PyTensor>) -> PyResult<PyTensor> {
        let mask = mask.get();
        if mask.tensor().dtype() != DType::Bool {
            return Err(PyTypeError::new_err(format!(
                "masked_select: a mask must be of type bool, not {}",
                mask.tensor().dtype()
            )));
        }
        crate::operand::apply(&[Operand::from(self), Operand::from(mask)], |x| {
            index::masked_select(&x[0], &x[1])
        })
    }

    /// The coordinates of nonzero elements, one row each; or one tensor for each dimension.
    #[pyo3(signature = (*, as_tuple=false))]
    fn nonzero(&self, py: Python<'_>, as_tuple: bool) -> PyResult<Py<PyAny>> {
        let places = self.map(index::nonzero)?;
        if !as_tuple {
            return places.into_py_any(py);
        }
        let rank = self.tensor().rank();
        if rank == 0 {
            let vector = self.map(|x| index::nonzero(&shape::reshape(x, &[1])?))?;
            return (vector.map(|x| shape::select(x, 1, 0))?,).into_py_any(py);
        }
        let columns = (0..rank)
            .map(|axis| places.map(|x| shape::select(x, 1, axis as isize)))
            .collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, columns)?.into_py_any(py)
    }

    /// Elements along an axis at the given indices.
    fn gather(&self, dim: isize, index: Operand) -> PyResult<PyTensor> {
        crate::operand::apply(&[Operand::from(self), index], |x| index::gather(&x[0], dim, &x[1]))
    }

    /// Writes elements, or one number, to the positions given by the index; `reduce='add'` adds them instead.
    #[pyo3(signature = (dim, index, src, *, reduce=None))]
    fn scatter(&self, dim: isize, index: Operand, src: Operand, reduce: Option<&str>) -> PyResult<PyTensor> {
        let adds = match reduce {
            None => false,
            Some("add") => true,
            Some(other) => {
                return Err(PyValueError::new_err(format!(
                    "scatter: reduce must be None or 'add', not {other:?}"
                )));
            }
        };
        let src = match (src, &index) {
            (Operand::Number(value), Operand::Tensor(index, placed)) => {
                let own = self.tensor();
                let value = create::full(index.device(), own.dtype(), index.shape(), value);
                Operand::Tensor(value.map_err(raise)?, *placed)
            }
            (src, _) => src,
        };
        crate::operand::apply(&[Operand::from(self), index, src], |x| {
            if adds {
                index::scatter_add(&x[0], dim, &x[1], &x[2])
            } else {
                index::scatter(&x[0], dim, &x[1], &x[2])
            }
        })
    }

    /// A copy to which values are added along an axis, at the given indices.
    fn scatter_add(&self, dim: isize, index: Operand, src: Operand) -> PyResult<PyTensor> {
        crate::operand::apply(&[Operand::from(self), index, src], |x| {
            index::scatter_add(&x[0], dim, &x[1], &x[2])
        })
    }

    /// The slices along an axis with the given indices.
    fn index_select(&self, dim: isize, index: Operand) -> PyResult<PyTensor> {
        crate::operand::apply(&[Operand::from(self), index], |x| index::index_select(&x[0], dim, &x[1]))
    }
}

/// Looks up rows of a table by index. The row `padding_idx` gets no gradient.
#[pyfunction]
#[pyo3(signature = (indices, weight, padding_idx=None))]
pub fn embedding(indices: Operand, weight: Operand, padding_idx: Option<i64>) -> PyResult<PyTensor> {
    let (device, placed) = place([&indices, &weight].into_iter())?;
    let (indices, mut weight) = (indices.tensor(&device, None)?, weight.tensor(&device, None)?);
    if indices.dtype().is_integer() && weight.rank() == 2 {
        bounds("embedding", &indices.cast(DType::I64).map_err(raise)?, weight.shape()[0], 0)?;
    }
    if let Some(padding) = padding_idx
        && weight.requires_grad()
        && weight.rank() == 2
    {
        let padding = if padding < 0 { padding + weight.shape()[0] as i64 } else { padding };
        weight = tensor_core::ops::iota::iota(&device, weight.shape(), 0)
            .and_then(|rows| elementwise::binary_scalar(Binary::Eq, &rows, Scalar::Int(padding), false))
            .and_then(|chosen| elementwise::where_(&chosen, &weight.detach(), &weight))
            .map_err(raise)?;
    }
    Ok(PyTensor::new(index::embedding(&weight, &indices).map_err(raise)?, placed))
}
