//! Creation functions: constants, ranges, random numbers.

use std::sync::Mutex;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tensor_core::dtype::{DType, Scalar};
use tensor_core::ops::create;
use tensor_core::step::Distribution;

use crate::device::AnyDevice;
use crate::dtype::AnyDType;
use crate::element;
use crate::error::raise;
use crate::operand::{length_of, shape_of};
use crate::tensor::{PyTensor, chosen, made_of};

/// The random generator: the seed, and the position of the next block.
static GENERATOR: Mutex<(u64, u64)> = Mutex::new((0, 0));

/// Returns the seed and the position for the next numbers, and advances the position.
pub fn draw(blocks: u64) -> (u64, u64) {
    let mut generator = GENERATOR.lock().expect("no code panics while holding this lock");
    let position = generator.1;
    generator.1 = position.wrapping_add(blocks);
    (generator.0, position)
}

/// A source of random numbers with a state of its own: a seed, and the position of the next block.
#[pyclass(name = "Generator", module = "pyflame", frozen)]
#[derive(Debug)]
pub struct Generator {
    state: Mutex<(u64, u64)>,
}

#[pymethods]
impl Generator {
    #[new]
    #[pyo3(signature = (device="cpu"))]
    fn new(device: &str) -> Generator {
        // Numbers do not depend on the device.
        let _ = device;
        Generator { state: Mutex::new((0, 0)) }
    }

    /// Starts again with this seed.
    fn manual_seed<'py>(slf: Bound<'py, Self>, seed: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        slf.get().set_state((seed_of(seed)?, 0));
        Ok(slf)
    }

    /// Starts again with a seed that the system draws; returns it.
    fn seed(&self) -> u64 {
        let seed = fresh_seed();
        self.set_state((seed, 0));
        seed
    }

    /// The seed.
    fn initial_seed(&self) -> u64 {
        self.get_state().0
    }

    /// The seed and the position.
    fn get_state(&self) -> (u64, u64) {
        *self.state.lock().expect("no code panics while holding this lock")
    }

    /// Continues from a state of `get_state`.
    fn set_state(&self, state: (u64, u64)) {
        *self.state.lock().expect("no code panics while holding this lock") = state;
    }

    /// The device that numbers are drawn on.
    #[getter]
    fn device(&self) -> &'static str {
        "cpu"
    }

    fn __reduce__<'py>(slf: Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (), (u64, u64))> {
        Ok((slf.getattr("__class__")?, (), slf.get().get_state()))
    }

    fn __setstate__(&self, state: (u64, u64)) {
        self.set_state(state);
    }
}

/// Like [`draw`], from a generator if one is given.
pub fn draw_from(generator: Option<&Bound<'_, Generator>>, blocks: u64) -> (u64, u64) {
    let Some(generator) = generator else { return draw(blocks) };
    let mut state = generator.get().state.lock().expect("no code panics while holding this lock");
    let position = state.1;
    state.1 = position.wrapping_add(blocks);
    (state.0, position)
}

/// A seed that differs in every process and at every call.
fn fresh_seed() -> u64 {
    std::hash::BuildHasher::hash_one(&std::collections::hash_map::RandomState::new(), 0)
}

fn seed_of(seed: &Bound<'_, PyAny>) -> PyResult<u64> {
    match seed.extract::<u64>() {
        Ok(seed) => Ok(seed),
        Err(_) => Ok(seed.extract::<i64>().map_err(|_| PyValueError::new_err("a seed has 64 bits"))? as u64),
    }
}

fn finished(
    tensor: tensor_core::Result<tensor_core::Tensor>,
    placed: bool,
    requires: bool,
) -> PyResult<PyTensor> {
    let tensor = tensor.map_err(raise)?;
    if requires {
        tensor.set_requires_grad(true).map_err(raise)?;
    }
    Ok(PyTensor::new(tensor, placed))
}

/// A tensor from numbers, lists of numbers, or an array; the elements are copied.
#[pyfunction]
#[pyo3(signature = (data, dtype=None, device=None, requires_grad=false))]
fn tensor(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    dtype: Option<AnyDType>,
    device: Option<&str>,
    requires_grad: bool,
) -> PyResult<PyTensor> {
    let made = made_of(py, data, dtype.map(|dtype| dtype.0), device)?;
    if requires_grad {
        made.tensor().set_requires_grad(true).map_err(raise)?;
    }
    Ok(made)
}

/// Defines functions that create a tensor of a shape, and their variants that take the shape of another tensor.
macro_rules! creators {
    ($($name:ident $like:ident $([$option:ident: $kind:ty])? = $create:expr, $doc:literal;)*) => {
        $(
            #[doc = $doc]
            #[pyfunction]
            #[pyo3(signature = (*size, dtype=None, device=None, requires_grad=false, pin_memory=false $(, $option=None)?))]
            fn $name(
                py: Python<'_>,
                size: &Bound<'_, PyTuple>,
                dtype: Option<AnyDType>,
                device: Option<&str>,
                requires_grad: bool,
                pin_memory: bool,
                $($option: Option<&Bound<'_, $kind>>,)?
            ) -> PyResult<PyTensor> {
                // Uploads go through pinned memory in any case.
                let _ = pin_memory;
                let (device, placed) = chosen(py, device)?;
                let dtype = dtype.map_or(DType::F32, |dtype| dtype.0);
                let source = first_of([$($option)?]);
                let made = created(&device, dtype, &shape_of(size)?, $create, source);
                finished(made, placed, requires_grad)
            }

            #[doc = $doc]
            #[pyfunction]
            #[pyo3(signature = (other, dtype=None, device=None, requires_grad=false))]
            fn $like(
                py: Python<'_>,
                other: &Bound<'_, PyTensor>,
                dtype: Option<AnyDType>,
                device: Option<&str>,
                requires_grad: bool,
            ) -> PyResult<PyTensor> {
                let (device, placed) = beside(py, other, device)?;
                let other = other.get().tensor();
                let dtype = dtype.map_or(other.dtype(), |dtype| dtype.0);
                finished(created(&device, dtype, other.shape(), $create, None), placed, requires_grad)
            }
        )*

        fn register_creators(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $(
                module.add_function(wrap_pyfunction!($name, module)?)?;
                module.add_function(wrap_pyfunction!($like, module)?)?;
            )*
            Ok(())
        }
    };
}

/// The generator, of a function that takes one.
fn first_of<const N: usize, T>(given: [Option<T>; N]) -> Option<T> {
    given.into_iter().next().flatten()
}

creators! {
    zeros zeros_like = Elements::All(0), "Zeros.";
    ones ones_like = Elements::All(1), "Ones.";
    empty empty_like = Elements::All(0), "A tensor for elements that are set later; they are zero.";
    rand rand_like [generator: Generator] =
        Elements::Random(Distribution::Uniform), "Uniform random numbers in [0, 1), the same on every device.";
    randn randn_like [generator: Generator] =
        Elements::Random(Distribution::Normal), "Normal random numbers, the same on every device.";
}

/// The elements of a new tensor.
enum Elements {
    All(i64),
    /// Drawn from the process's generator.
    Random(Distribution),
}

fn created(
    device: &AnyDevice,
    dtype: DType,
    shape: &[usize],
    elements: Elements,
    generator: Option<&Bound<'_, Generator>>,
) -> tensor_core::Result<tensor_core::Tensor> {
    match elements {
        Elements::All(value) => create::full(device, dtype, shape, Scalar::Int(value)),
        Elements::Random(distribution) => {
            let (seed, offset) =
                draw_from(generator, create::random_blocks(count(shape), dtype, distribution));
            create::random(device, dtype, shape, distribution, seed, offset)
        }
    }
}

/// Returns the number of elements; a product that overflows is refused later, when the tensor is created.
fn count(shape: &[usize]) -> usize {
    shape.iter().fold(1, |elements: usize, &length| elements.saturating_mul(length))
}

/// Returns the device for a tensor created like another.
fn beside(py: Python<'_>, other: &Bound<'_, PyTensor>, device: Option<&str>) -> PyResult<(AnyDevice, bool)> {
    match device {
        Some(_) => chosen(py, device),
        None => Ok((other.get().tensor().device().clone(), other.get().is_placed())),
    }
}

fn a_number(value: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    if let Some(value) = element::number(value)? {
        return Ok(value);
    }
    if let Ok(tensor) = value.cast::<PyTensor>() {
        return tensor.get().element(value.py());
    }
    Err(PyTypeError::new_err(format!("a number is needed, not {}", value.get_type().name()?)))
}

/// A tensor with one value for all elements.
#[pyfunction]
#[pyo3(signature = (size, fill_value, dtype=None, device=None, requires_grad=false))]
fn full(
    py: Python<'_>,
    size: &Bound<'_, PyAny>,
    fill_value: &Bound<'_, PyAny>,
    dtype: Option<AnyDType>,
    device: Option<&str>,
    requires_grad: bool,
) -> PyResult<PyTensor> {
    let (device, placed) = chosen(py, device)?;
    let value = a_number(fill_value)?;
    let dtype = dtype.map_or(element::natural(value), |dtype| dtype.0);
    let shape = shape_of(&PyTuple::new(py, [size])?)?;
    finished(create::full(&device, dtype, &shape, value), placed, requires_grad)
}

/// A tensor of the shape of another, filled with a number.
#[pyfunction]
#[pyo3(signature = (other, fill_value, dtype=None, device=None))]
fn full_like(
    py: Python<'_>,
    other: &Bound<'_, PyTensor>,
    fill_value: &Bound<'_, PyAny>,
    dtype: Option<AnyDType>,
    device: Option<&str>,
) -> PyResult<PyTensor> {
    let (device, placed) = beside(py, other, device)?;
    let other = other.get().tensor();
    let dtype = dtype.map_or(other.dtype(), |dtype| dtype.0);
    finished(create::full(&device, dtype, other.shape(), a_number(fill_value)?), placed, false)
}

/// `arange(end)`, `arange(start, end)`, `arange(start, end, step)`.
#[pyfunction]
#[pyo3(signature = (start, end=None, step=None, dtype=None, device=None, requires_grad=false))]
fn arange(
    py: Python<'_>,
    start: &Bound<'_, PyAny>,
    end: Option<&Bound<'_, PyAny>>,
    step: Option<&Bound<'_, PyAny>>,
    dtype: Option<AnyDType>,
    device: Option<&str>,
    requires_grad: bool,
) -> PyResult<PyTensor> {
    let (device, placed) = chosen(py, device)?;
    let (start, end) = match end {
        Some(end) => (a_number(start)?, a_number(end)?),
        None => (Scalar::Int(0), a_number(start)?),
    };
    let step = step.map_or(Ok(Scalar::Int(1)), a_number)?;
    let whole = [start, end, step].iter().all(|value| !matches!(value, Scalar::Float(_)));
    let dtype = dtype.map_or(if whole { DType::I64 } else { DType::F32 }, |dtype| dtype.0);
    finished(create::arange(&device, dtype, start, end, step), placed, requires_grad)
}

/// `steps` evenly spaced numbers from `start` to `end`, both included.
#[pyfunction]
#[pyo3(signature = (start, end, steps, dtype=None, device=None))]
fn linspace(
    py: Python<'_>,
    start: f64,
    end: f64,
    steps: isize,
    dtype: Option<AnyDType>,
    device: Option<&str>,
) -> PyResult<PyTensor> {
    let (device, placed) = chosen(py, device)?;
    let dtype = dtype.map_or(DType::F32, |dtype| dtype.0);
    finished(create::linspace(&device, dtype, start, end, length_of(steps)?), placed, false)
}

/// A matrix with ones on the diagonal and zeros elsewhere.
#[pyfunction]
#[pyo3(signature = (n, m=None, dtype=None, device=None, requires_grad=false))]
fn eye(
    py: Python<'_>,
    n: isize,
    m: Option<isize>,
    dtype: Option<AnyDType>,
    device: Option<&str>,
    requires_grad: bool,
) -> PyResult<PyTensor> {
    let (device, placed) = chosen(py, device)?;
    let dtype = dtype.map_or(DType::F32, |dtype| dtype.0);
    let (rows, columns) = (length_of(n)?, length_of(m.unwrap_or(n))?);
    finished(create::eye(&device, dtype, rows, columns), placed, requires_grad)
}

/// Random integers: `randint(high, size)` or `randint(low, high, size)`, from low to below high.
#[pyfunction]
#[pyo3(signature = (low, high=None, size=None, dtype=None, device=None, *, generator=None))]
fn randint(
    py: Python<'_>,
    low: i64,
    high: Option<&Bound<'_, PyAny>>,
    size: Option<&Bound<'_, PyAny>>,
    dtype: Option<AnyDType>,
    device: Option<&str>,
    generator: Option<&Bound<'_, Generator>>,
) -> PyResult<PyTensor> {
    let (device, placed) = chosen(py, device)?;
    let dtype = dtype.map_or(DType::I64, |dtype| dtype.0);
    let (range, size) = match (high, size) {
        (Some(high), Some(size)) => (low..high.extract()?, size),
        (Some(size), None) => (0..low, size),
        (None, Some(size)) => (0..low, size),
        (None, None) => {
            return Err(PyTypeError::new_err(
                "randint: the size argument is missing: randint(low, high, size)",
            ));
        }
    };
    let shape = shape_of(&PyTuple::new(py, [size])?)?;
    let distribution = Distribution::Integers { low: range.start, high: range.end };
    let (seed, offset) = draw_from(generator, create::random_blocks(count(&shape), DType::I64, distribution));
    finished(create::random(&device, dtype, &shape, distribution, seed, offset), placed, false)
}

/// Seeds the random number generator.
#[pyfunction]
fn manual_seed(seed: &Bound<'_, PyAny>) -> PyResult<()> {
    let seed = seed_of(seed)?;
    *GENERATOR.lock().expect("no code panics while holding this lock") = (seed, 0);
    Ok(())
}

/// The seed and the position of the random number generator.
#[pyfunction]
fn get_rng_state() -> (u64, u64) {
    *GENERATOR.lock().expect("no code panics while holding this lock")
}

/// Sets the state of the random number generator, as `get_rng_state` returned it.
#[pyfunction]
fn set_rng_state(state: (u64, u64)) {
    *GENERATOR.lock().expect("no code panics while holding this lock") = state;
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // The default seed differs in every process.
    *GENERATOR.lock().expect("no code panics while holding this lock") = (fresh_seed(), 0);
    module.add_class::<Generator>()?;
    register_creators(module)?;
    module.add_function(wrap_pyfunction!(tensor, module)?)?;
    module.add_function(wrap_pyfunction!(full, module)?)?;
    module.add_function(wrap_pyfunction!(full_like, module)?)?;
    module.add_function(wrap_pyfunction!(arange, module)?)?;
    module.add_function(wrap_pyfunction!(linspace, module)?)?;
    module.add_function(wrap_pyfunction!(eye, module)?)?;
    module.add_function(wrap_pyfunction!(randint, module)?)?;
    module.add_function(wrap_pyfunction!(manual_seed, module)?)?;
    module.add_function(wrap_pyfunction!(get_rng_state, module)?)?;
    module.add_function(wrap_pyfunction!(set_rng_state, module)?)
}
