//! Inspection and explicit evaluation of the lazy graph.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use tensor_core::{Explanation, Tensor};

use crate::device;
use crate::error::raise;
use crate::profile;
use crate::tensor::PyTensor;

fn collect(arguments: &Bound<'_, PyAny>, into: &mut Vec<Tensor>) -> PyResult<()> {
    if let Ok(tensor) = arguments.cast::<PyTensor>() {
        into.push(tensor.get().tensor());
        return Ok(());
    }
    if arguments.is_none() {
        return Ok(());
    }
    let Ok(items) = arguments.try_iter() else {
        return Err(PyTypeError::new_err(format!("expected a tensor, not {}", arguments.get_type().name()?)));
    };
    for item in items {
        collect(&item?, into)?;
    }
    Ok(())
}

/// Submits the computation of tensors, or lists of them, together. Does not wait.
#[pyfunction]
#[pyo3(signature = (*tensors))]
fn eval(py: Python<'_>, tensors: &Bound<'_, PyTuple>) -> PyResult<()> {
    if let Some(done) = eval_alone(tensors) {
        return done;
    }
    let mut wanted = Vec::with_capacity(tensors.len());
    for tensor in tensors.iter_borrowed() {
        collect(&tensor, &mut wanted)?;
    }
    let Some(first) = wanted.first() else { return Ok(()) };
    device::usable(first.device())?;
    profile::begun("eval", first.device().name(), || py.detach(|| tensor_core::eval(&wanted))).map_err(raise)
}

/// Evaluates one small tensor on the fast path, if it qualifies.
fn eval_alone(tensors: &Bound<'_, PyTuple>) -> Option<PyResult<()>> {
    if tensors.len() != 1 {
        return None;
    }
    let only = tensors.get_borrowed_item(0).ok()?;
    let tensor = only.cast::<PyTensor>().ok()?.get().tensor();
    if let Err(refused) = device::usable(tensor.device()) {
        return Some(Err(refused));
    }
    let done = profile::begun("eval", tensor.device().name(), || tensor_core::eval_small(&tensor))?;
    Some(done.map_err(raise))
}

/// The gradients of outputs with respect to inputs; None for an input that the outputs do not depend on.
#[pyfunction]
fn gradients_of(
    outputs: Vec<Bound<'_, PyTensor>>,
    inputs: Vec<Bound<'_, PyTensor>>,
    gradients: Vec<Option<Bound<'_, PyTensor>>>,
    retain_graph: bool,
    create_graph: bool,
) -> PyResult<Vec<Option<PyTensor>>> {
    let own = |tensors: &[Bound<'_, PyTensor>]| tensors.iter().map(|tensor| tensor.get().tensor()).collect();
    let (outputs, wanted): (Vec<Tensor>, Vec<Tensor>) = (own(&outputs), own(&inputs));
    let gradients: Vec<Option<Tensor>> =
        gradients.iter().map(|gradient| gradient.as_ref().map(|gradient| gradient.get().tensor())).collect();
    if gradients.len() != outputs.len() {
        return Err(PyTypeError::new_err("grad: there must be as many gradients as outputs"));
    }
    let begun: Vec<_> = outputs.iter().zip(gradients.iter().map(Option::as_ref)).collect();
    let way = tensor_core::autograd::Backward { retain_graph, create_graph };
    let found = tensor_core::autograd::gradients(&begun, &wanted.iter().collect::<Vec<_>>(), way);
    let placed = inputs.iter().map(|input| input.get().is_placed());
    let found = found.map_err(raise)?.into_iter().zip(placed);
    Ok(found.map(|(gradient, placed)| gradient.map(|gradient| PyTensor::new(gradient, placed))).collect())
}

/// What computing tensors takes: the nodes of the graph, the launches they become, and the bytes that those read and write.
#[pyclass(name = "Graph", module = "pyflame", frozen)]
struct Explained(Explanation);

#[pymethods]
impl Explained {
    /// The name of the device that has the elements.
    #[getter]
    fn device(&self) -> &str {
        &self.0.device
    }

    /// One dictionary for each node: number, name, inputs, shape, dtype, stored.
    #[getter]
    fn nodes<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        self.0
            .nodes
            .iter()
            .map(|node| {
                let entry = PyDict::new(py);
                entry.set_item("number", node.number)?;
                entry.set_item("name", &node.name)?;
                entry.set_item("inputs", &node.inputs)?;
                entry.set_item("shape", node.shape.to_vec())?;
                entry.set_item("dtype", node.dtype.name())?;
                entry.set_item("stored", node.stored)?;
                Ok(entry)
            })
            .collect()
    }

    /// One dictionary for each launch: name, kind, nodes, shape, dtype, bytes_read, bytes_written.
    #[getter]
    fn launches<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        self.0
            .launches
            .iter()
            .map(|launch| {
                let entry = PyDict::new(py);
                entry.set_item("name", &launch.name)?;
                entry.set_item("kind", launch.kind)?;
                entry.set_item("nodes", &launch.nodes)?;
                entry.set_item("shape", launch.shape.to_vec())?;
                entry.set_item("dtype", launch.dtype.name())?;
                entry.set_item("bytes_read", launch.bytes_read)?;
                entry.set_item("bytes_written", launch.bytes_written)?;
                Ok(entry)
            })
            .collect()
    }

    /// Bytes that all launches read.
    #[getter]
    fn bytes_read(&self) -> usize {
        self.0.bytes_read()
    }

    /// Bytes that all launches write.
    #[getter]
    fn bytes_written(&self) -> usize {
        self.0.bytes_written()
    }

    /// Whether the GPU has run these launches before and would replay them as one graph.
    #[getter]
    fn replayed(&self) -> bool {
        self.0.replayed
    }

    fn __len__(&self) -> usize {
        self.0.launches.len()
    }

    fn __repr__(&self) -> String {
        self.0.to_string()
    }
}

/// Explains what computing these tensors would take; nothing is computed.
#[pyfunction]
#[pyo3(signature = (*tensors))]
fn explain(tensors: &Bound<'_, PyTuple>) -> PyResult<Explained> {
    let mut wanted = Vec::new();
    collect(tensors.as_any(), &mut wanted)?;
    Ok(Explained(tensor_core::explain(&wanted).map_err(raise)?))
}

/// Whether a tensor is not computed yet.
#[pyfunction]
fn is_lazy(tensor: &Bound<'_, PyTensor>) -> bool {
    !tensor.get().tensor().is_realised()
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(eval, module)?)?;
    module.add_function(wrap_pyfunction!(gradients_of, module)?)?;
    module.add_class::<Explained>()?;
    module.add_function(wrap_pyfunction!(explain, module)?)?;
    module.add_function(wrap_pyfunction!(is_lazy, module)?)
}
