//! Sums, copies and collections between the GPUs of this process by RCCL. `pyflame.distributed.local` is the public interface, and
//! has the same operations as copies and additions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use tensor_core::Tensor;
use tensor_core::ops::shape::contiguous;
use tensor_rocm::{Collective, Combination, Group, RocmDevice};

use crate::device::{self, AnyDevice};
use crate::env::{Collectives, collectives};
use crate::error::{raise, raise_device};
use crate::tensor::PyTensor;

/// Groups by the names of their devices, or why there is none.
type Groups = HashMap<Vec<String>, Result<Arc<Group>, String>>;

static GROUPS: Mutex<Option<Groups>> = Mutex::new(None);

/// Forgets all groups: their devices were abandoned.
pub fn forget() {
    *GROUPS.lock().expect("no code panics while holding this lock") = None;
}

/// The group of these devices; `None` if copies and additions are used instead.
fn group(devices: &[AnyDevice]) -> PyResult<Option<Arc<Group>>> {
    // The import of the module has checked the variable.
    let choice = collectives().unwrap_or(Collectives::Auto);
    let sees = |device: &AnyDevice| {
        device.as_any().downcast_ref::<RocmDevice>().is_some_and(RocmDevice::sees_host_writes)
    };
    match choice {
        Collectives::Own => return Ok(None),
        Collectives::Auto if devices.len() < 2 || !devices.iter().all(sees) => return Ok(None),
        Collectives::Auto | Collectives::Rccl => {}
    }
    devices.iter().try_for_each(device::usable)?;
    let key: Vec<String> = devices.iter().map(|device| device.name().to_owned()).collect();
    let mut groups = GROUPS.lock().expect("no code panics while holding this lock");
    let opened = groups.get_or_insert_default().entry(key);
    match opened.or_insert_with(|| Group::open(devices).map(Arc::new)) {
        Ok(group) => Ok(Some(group.clone())),
        Err(_) if choice == Collectives::Auto => Ok(None),
        Err(why) => Err(PyRuntimeError::new_err(format!(
            "PYFLAME_COLLECTIVES asks for RCCL, which cannot be used: {why}; install it, or set PYFLAME_COLLECTIVES=auto"
        ))),
    }
}

fn devices_of(tensors: &[Tensor]) -> Vec<AnyDevice> {
    tensors.iter().map(|tensor| tensor.device().clone()).collect()
}

/// Does it with tensors of one shape and type. The results have this shape after `more` axes.
fn run(
    py: Python<'_>,
    group: &Group,
    collective: Collective,
    tensors: &[Tensor],
    more: &[usize],
) -> PyResult<Vec<PyTensor>> {
    let [first, rest @ ..] = tensors else { return Ok(Vec::new()) };
    if rest.iter().any(|tensor| tensor.shape() != first.shape() || tensor.dtype() != first.dtype()) {
        return Err(PyValueError::new_err("the tensors must have one shape and type"));
    }
    let (dtype, size) = (first.dtype(), first.dtype().bytes());
    let inputs = py.detach(|| {
        tensors
            .iter()
            .map(|tensor| {
                let (buffer, layout) = contiguous(&tensor.detach())?.in_memory()?;
                Ok((buffer, layout.offset * size))
            })
            .collect::<Result<Vec<_>, _>>()
    });
    let inputs = inputs.map_err(raise)?;
    let outputs = py.detach(|| group.run(collective, &inputs, first.elements(), dtype));
    let shape = [more, first.shape()].concat();
    let made = outputs.map_err(raise_device)?.into_iter().zip(group.devices()).map(|(buffer, device)| {
        Tensor::from_buffer(device, dtype, &shape, buffer)
            .map(|tensor| PyTensor::new(tensor, true))
            .map_err(raise)
    });
    made.collect()
}

fn tensors_of(tensors: &[Bound<'_, PyTensor>]) -> Vec<Tensor> {
    tensors.iter().map(|tensor| tensor.get().tensor()).collect()
}

/// Combines the tensors of different GPUs by RCCL; `None` if it is not used.
#[pyfunction]
fn rocm_all_reduce(
    py: Python<'_>,
    tensors: Vec<Bound<'_, PyTensor>>,
    operation: &str,
) -> PyResult<Option<Vec<PyTensor>>> {
    let combination = match operation {
        "sum" => Combination::Sum,
        "product" => Combination::Product,
        "max" => Combination::Max,
        "min" => Combination::Min,
        other => return Err(PyValueError::new_err(format!("{other:?} is no operation of RCCL"))),
    };
    let tensors = tensors_of(&tensors);
    if tensors.first().is_some_and(|tensor| !Group::reduces(tensor.dtype())) {
        return Ok(None);
    }
    let Some(group) = group(&devices_of(&tensors))? else { return Ok(None) };
    run(py, &group, Collective::AllReduce(combination), &tensors, &[]).map(Some)
}

/// Copies a tensor to GPUs, one of which it is on, by RCCL; `None` if it is not used.
#[pyfunction]
fn rocm_broadcast(
    py: Python<'_>,
    tensor: &Bound<'_, PyTensor>,
    devices: Vec<String>,
) -> PyResult<Option<Vec<PyTensor>>> {
    let tensor = tensor.get().tensor();
    let devices = devices.iter().map(|name| device::named(py, name)).collect::<PyResult<Vec<_>>>()?;
    let Some(root) = devices.iter().position(|device| Arc::ptr_eq(device, tensor.device())) else {
        return Ok(None);
    };
    let Some(group) = group(&devices)? else { return Ok(None) };
    run(py, &group, Collective::Broadcast(root), &[tensor], &[]).map(Some)
}

/// Gives each of different GPUs the tensors of all, stacked, by RCCL; `None` if it is not used.
#[pyfunction]
fn rocm_all_gather(py: Python<'_>, tensors: Vec<Bound<'_, PyTensor>>) -> PyResult<Option<Vec<PyTensor>>> {
    let tensors = tensors_of(&tensors);
    let Some(group) = group(&devices_of(&tensors))? else { return Ok(None) };
    run(py, &group, Collective::AllGather, &tensors, &[tensors.len()]).map(Some)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(rocm_all_reduce, module)?)?;
    module.add_function(wrap_pyfunction!(rocm_broadcast, module)?)?;
    module.add_function(wrap_pyfunction!(rocm_all_gather, module)?)
}
