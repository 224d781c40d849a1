//! GPU features beyond computation: memory pools, kernel cache, tuning. `pyflame.backend.rocm` is the public interface.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tensor_rocm::{PinnedBuffer, RocmDevice, tuning_cache};

use crate::device::{self, AnyDevice};
use crate::error::raise_device;

/// Returns the device of that name, which must be a GPU.
fn opened(py: Python<'_>, name: &str) -> PyResult<AnyDevice> {
    let device = device::named(py, name)?;
    gpu(&device)?;
    Ok(device)
}

fn gpu(device: &AnyDevice) -> PyResult<&RocmDevice> {
    device
        .as_any()
        .downcast_ref::<RocmDevice>()
        .ok_or_else(|| PyValueError::new_err(format!("{} is not a ROCm device", device.name())))
}

/// Returns memory that no tensor uses to the GPU.
#[pyfunction]
fn rocm_clear_pool(py: Python<'_>, name: &str) -> PyResult<()> {
    let device = opened(py, name)?;
    let pool = gpu(&device)?.memory();
    py.detach(|| pool.clear()).map_err(raise_device)
}

/// Counters of the pool of device memory.
#[pyfunction]
fn rocm_memory_stats<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
    let device = opened(py, name)?;
    let statistics = gpu(&device)?.memory().statistics();
    let stats = PyDict::new(py);
    stats.set_item("total_allocated", statistics.total_allocated)?;
    stats.set_item("peak_allocated", statistics.peak_allocated)?;
    stats.set_item("kept", statistics.kept)?;
    stats.set_item("total_allocations", statistics.allocations)?;
    stats.set_item("total_deallocations", statistics.deallocations)?;
    stats.set_item("cache_hits", statistics.cache_hits)?;
    stats.set_item("cache_misses", statistics.cache_misses)?;
    Ok(stats)
}

/// Resets the counters of device memory.
#[pyfunction]
fn rocm_reset_memory_stats(py: Python<'_>, name: &str) -> PyResult<()> {
    let device = opened(py, name)?;
    gpu(&device)?.memory().reset_statistics();
    Ok(())
}

/// Allocates device memory in advance.
#[pyfunction]
fn rocm_warmup(py: Python<'_>, name: &str, sizes: Vec<usize>) -> PyResult<()> {
    let device = opened(py, name)?;
    let pool = gpu(&device)?.memory();
    py.detach(|| pool.warm_up(&sizes)).map_err(raise_device)
}

/// Allocates pinned memory in advance.
#[pyfunction]
fn rocm_pinned_warmup(py: Python<'_>, name: &str, sizes: Vec<usize>) -> PyResult<()> {
    let device = opened(py, name)?;
    let pool = gpu(&device)?.pinned();
    py.detach(|| pool.warm_up(&sizes)).map_err(raise_device)
}

/// Frees all unused pinned memory.
#[pyfunction]
fn rocm_pinned_clear(py: Python<'_>, name: &str) -> PyResult<()> {
    let device = opened(py, name)?;
    let pool = gpu(&device)?.pinned();
    py.detach(|| pool.clear()).map_err(raise_device)
}

/// Counters of the pool of pinned memory.
#[pyfunction]
fn rocm_pinned_stats<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
    let device = opened(py, name)?;
    let statistics = gpu(&device)?.pinned().statistics();
    let stats = PyDict::new(py);
    stats.set_item("in_use", statistics.in_use)?;
    stats.set_item("kept", statistics.kept)?;
    stats.set_item("acquired", statistics.acquired)?;
    stats.set_item("released", statistics.released)?;
    stats.set_item("hits", statistics.hits)?;
    stats.set_item("misses", statistics.misses)?;
    Ok(stats)
}

/// Page-locked memory. It returns to its pool with `release`, or when the object is freed.
#[pyclass(frozen, module = "pyflame.backend.rocm")]
struct Pinned {
    buffer: Mutex<Option<PinnedBuffer>>,
}

impl Pinned {
    fn with<T>(&self, work: impl FnOnce(&mut PinnedBuffer) -> PyResult<T>) -> PyResult<T> {
        match self.buffer.lock().expect("no code panics while holding this lock").as_mut() {
            Some(buffer) => work(buffer),
            None => Err(PyRuntimeError::new_err("the buffer was released")),
        }
    }
}

#[pymethods]
impl Pinned {
    /// The size of all elements in bytes.
    #[getter]
    fn nbytes(&self) -> PyResult<usize> {
        self.with(|buffer| Ok(buffer.bytes().len()))
    }

    fn __len__(&self) -> PyResult<usize> {
        self.nbytes()
    }

    /// Copies bytes into the buffer.
    #[pyo3(signature = (data, offset=0))]
    fn write(&self, data: &[u8], offset: usize) -> PyResult<()> {
        self.with(|buffer| {
            let end = offset.checked_add(data.len()).filter(|&end| end <= buffer.bytes().len());
            match end {
                Some(end) => buffer.bytes_mut()[offset..end].copy_from_slice(data),
                None => return Err(PyValueError::new_err("the data exceeds the buffer")),
            }
            Ok(())
        })
    }

    /// A copy of the buffer's content.
    fn tobytes(&self) -> PyResult<Vec<u8>> {
        self.with(|buffer| Ok(buffer.bytes().to_vec()))
    }

    fn release(&self) {
        self.buffer.lock().expect("no code panics while holding this lock").take();
    }
}

/// Takes a buffer of pinned memory.
#[pyfunction]
fn rocm_pinned_acquire(py: Python<'_>, name: &str, bytes: usize) -> PyResult<Pinned> {
    let device = opened(py, name)?;
    let pool = gpu(&device)?.pinned();
    let buffer = py.detach(|| pool.acquire(bytes)).map_err(raise_device)?;
    Ok(Pinned { buffer: Mutex::new(Some(buffer)) })
}

/// Kernel counts by origin.
#[pyfunction]
fn rocm_kernel_stats<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
    let device = opened(py, name)?;
    let statistics = gpu(&device)?.kernel_statistics();
    let stats = PyDict::new(py);
    stats.set_item("built_ahead", statistics.ahead)?;
    stats.set_item("from_disk", statistics.from_disk)?;
    stats.set_item("compiled", statistics.compiled)?;
    stats.set_item("compilations", statistics.compilations)?;
    stats.set_item("launches", statistics.launches)?;
    stats.set_item("interpreted_launches", statistics.interpreted)?;
    stats.set_item("library_calls", statistics.by_library)?;
    stats.set_item("graphs", statistics.replays.captured)?;
    stats.set_item("graph_launches", statistics.replays.replays)?;
    stats.set_item("replayed_launches", statistics.replays.replayed)?;
    stats.set_item("changed_launches", statistics.replays.updated)?;
    Ok(stats)
}

/// Sets the folder of the kernel cache, for GPUs that are open and for those opened later.
#[pyfunction]
#[pyo3(signature = (folder))]
fn rocm_set_kernel_cache(folder: Option<PathBuf>) -> PyResult<()> {
    device::keep_kernels(folder.as_deref())
}

/// Enables or disables replaying repeated launches as graphs.
#[pyfunction]
fn rocm_set_graphs(enabled: bool) -> PyResult<()> {
    device::use_graphs(enabled)
}

/// Whether launch sequences that repeat are replayed as graphs.
#[pyfunction]
fn rocm_graphs() -> bool {
    device::graphs()
}

/// Enables or disables trying all alternatives for unknown steps.
#[pyfunction]
fn rocm_exhaustive_search(enabled: bool) {
    tuning_cache().enable_exhaustive_search(enabled);
}

/// Sets the file that keeps measured tile sizes.
#[pyfunction]
fn rocm_set_tuning_file(path: PathBuf) -> PyResult<()> {
    tuning_cache().set_cache_file(&path).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Forgets all measured tile sizes.
#[pyfunction]
fn rocm_clear_tuning() {
    tuning_cache().clear();
}

/// Counters of the tile tuner.
#[pyfunction]
fn rocm_tuning_stats(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let statistics = tuning_cache().statistics();
    let stats = PyDict::new(py);
    stats.set_item("hits", statistics.hits)?;
    stats.set_item("misses", statistics.misses)?;
    stats.set_item("entries", statistics.entries)?;
    stats.set_item("exhaustive_search", tuning_cache().is_exhaustive())?;
    Ok(stats)
}

pub fn keep(device: &AnyDevice, folder: Option<&Path>) -> PyResult<()> {
    gpu(device)?.keep_kernels(folder);
    Ok(())
}

pub fn use_graphs(device: &AnyDevice, enabled: bool) -> PyResult<()> {
    gpu(device)?.set_replaying(enabled);
    Ok(())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(rocm_clear_pool, module)?)?;
    module.add_function(wrap_pyfunction!(rocm_memory_stats, module)?)?;
    module.add_function(wrap_pyfunction!(rocm_reset_memory_stats, module)?)?;
    module.add_function(wrap_pyfunction!(rocm_warmup, module)?)?;
    module.add_function(wrap_pyfunction!(rocm_pinned_warmup, module)?)?;
    module.add_function(wrap_pyfunction!(rocm_pinned_clear, module)?)?;
    module.add_function(wrap_pyfunction!(rocm_pinned_stats, module)?)?;
    module.add_function(wrap_pyfunction!(rocm_pinned_acquire, module)?)?;
    module.add_function(wrap_pyfunction!(rocm_kernel_stats, module)?)?;
    module.add_function(wrap_pyfunction!(rocm_set_kernel_cache, module)?)?;
    module.add_function(wrap_pyfunction!(rocm_set_graphs, module)?)?;
    module.add_function(wrap_pyfunction!(rocm_graphs, module)?)?;
    module.add_function(wrap_pyfunction!(rocm_exhaustive_search, module)?)?;
    module.add_function(wrap_pyfunction!(rocm_set_tuning_file, module)?)?;
    module.add_function(wrap_pyfunction!(rocm_clear_tuning, module)?)?;
    module.add_function(wrap_pyfunction!(rocm_tuning_stats, module)?)
}
