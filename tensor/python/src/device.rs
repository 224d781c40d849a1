//! Devices, and the choice of the device on which operations run.
//!
//! `set_device` sets where tensors are created, and where operations run whose operands were not explicitly placed: such operands
//! are moved there. A tensor placed by `to` or `device=` makes operations that use it run on its device.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tensor_core::device::{Device, DeviceInfo};
use tensor_cpu::{CpuDevice, CpuOptions};
use tensor_rocm::{RocmDevice, RocmOptions, device_count_with, reset_with};

use crate::error::{raise, raise_device};
use crate::packaged;

pub type AnyDevice = Arc<dyn Device>;

static CPU: OnceLock<AnyDevice> = OnceLock::new();
static ROCM: Mutex<Option<HashMap<u32, AnyDevice>>> = Mutex::new(None);
static CURRENT: RwLock<Option<AnyDevice>> = RwLock::new(None);
/// The address of the current device: all that most operations need to compare.
static CURRENT_ADDRESS: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
/// The folder of the kernel cache, if the program has set it.
static KERNELS: Mutex<Option<Option<PathBuf>>> = Mutex::new(None);
/// Whether repeated launches may be replayed as graphs, if the program has set it.
static GRAPHS: Mutex<Option<bool>> = Mutex::new(None);
/// The process id that opened the first GPU. A forked child has none of its threads and connections.
static OPENED_BY: AtomicU32 = AtomicU32::new(0);

pub fn cpu() -> &'static AnyDevice {
    CPU.get_or_init(|| {
        // The import of the module has checked the variable.
        let threads = crate::env::threads().unwrap_or_default();
        CpuDevice::with(&CpuOptions { threads, ..CpuOptions::default() })
    })
}

/// Parses a device name: `None` for the CPU, else the number of the GPU.
fn parsed(name: &str) -> PyResult<Option<u32>> {
    let number = match name {
        "cpu" => return Ok(None),
        "rocm" | "cuda" | "hip" => Some(0),
        _ => name.split_once(':').filter(|(kind, _)| matches!(*kind, "rocm" | "cuda" | "hip")).and_then(
            |(_, number)| {
                number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse::<u32>().ok()).flatten()
            },
        ),
    };
    match number {
        Some(number) => Ok(Some(number)),
        None => Err(PyValueError::new_err(format!(
            "Unknown device: {name}. Valid options: 'cpu', 'rocm', 'rocm:N'"
        ))),
    }
}

/// The options that GPUs are opened with; `packaged` is the library of the package `remora`.
fn options(packaged: Option<PathBuf>) -> RocmOptions {
    RocmOptions {
        library: crate::env::hip_library().or(packaged),
        kernel_cache: kernel_folder(),
        without_graphs: !graphs(),
        interpret: crate::env::interpret(),
        // The import of the module has checked the variable.
        blas: crate::env::blas().unwrap_or_default(),
        conv: crate::env::conv().unwrap_or_default(),
        on_interpret: Some(crate::notice::interpreting),
    }
}

/// Whether repeated launches may be replayed as graphs.
pub fn graphs() -> bool {
    GRAPHS.lock().expect("no code panics while holding this lock").unwrap_or_else(crate::env::graphs)
}

/// Sets that for GPUs that are open and for those opened later.
pub fn use_graphs(enabled: bool) -> PyResult<()> {
    *GRAPHS.lock().expect("no code panics while holding this lock") = Some(enabled);
    opened().iter().try_for_each(|device| crate::rocm::use_graphs(device, enabled))
}

fn opened() -> Vec<AnyDevice> {
    let opened = ROCM.lock().expect("no code panics while holding this lock");
    opened.iter().flat_map(HashMap::values).cloned().collect()
}

/// Returns the folder of the kernel cache.
pub fn kernel_folder() -> Option<PathBuf> {
    let chosen = KERNELS.lock().expect("no code panics while holding this lock").clone();
    chosen.unwrap_or_else(crate::env::kernel_cache)
}

/// Sets the folder of the kernel cache, for GPUs that are open and for those opened later.
pub fn keep_kernels(folder: Option<&Path>) -> PyResult<()> {
    *KERNELS.lock().expect("no code panics while holding this lock") = Some(folder.map(Path::to_path_buf));
    opened().iter().try_for_each(|device| crate::rocm::keep(device, folder))
}

fn rocm(ordinal: u32, packaged: Option<PathBuf>) -> PyResult<AnyDevice> {
    let mut opened = ROCM.lock().expect("no code panics while holding this lock");
    if opened.is_some() && OPENED_BY.load(Ordering::Relaxed) != std::process::id() {
        return Err(PyRuntimeError::new_err(
            "this process was forked from one that uses ROCm, and cannot share its GPU; \
             start processes with multiprocessing's 'spawn' method, or fork before the first use of 'rocm'",
        ));
    }
    if let Some(device) = opened.as_ref().and_then(|known| known.get(&ordinal)) {
        return Ok(device.clone());
    }
    let options = options(packaged);
    let count = device_count_with(&options)
        .map_err(|error| PyRuntimeError::new_err(format!(
                "ROCm not available: {error}; an AMD GPU, `remora run --device mi300x -- python ...`, or the package pyflame[gpu] provides one"
            )))?;
    if ordinal as usize >= count {
        return Err(PyRuntimeError::new_err(format!(
            "ROCm device {ordinal} requested but only {count} devices available"
        )));
    }
    OPENED_BY.store(std::process::id(), Ordering::Relaxed);
    let device: AnyDevice = RocmDevice::open_with(ordinal, &options).map_err(raise_device)?;
    opened.get_or_insert_default().insert(ordinal, device.clone());
    Ok(device)
}

/// Returns the device of that name; a GPU is opened on first use.
pub fn named(py: Python<'_>, name: &str) -> PyResult<AnyDevice> {
    let number = parsed(name)?;
    if name.starts_with("cuda") {
        crate::notice::cuda(py)?;
    }
    match number {
        None => Ok(cpu().clone()),
        Some(ordinal) => {
            let packaged = packaged::library(py)?;
            py.detach(|| rocm(ordinal, packaged))
        }
    }
}

/// Returns an error for a device opened by another process: after a fork, its memory and connection belong to the parent.
pub fn usable(device: &AnyDevice) -> PyResult<()> {
    if device.name() != "cpu" && OPENED_BY.load(Ordering::Relaxed) != std::process::id() {
        return Err(PyRuntimeError::new_err(format!(
            "a tensor on {} came from the process that this one was forked from; move it to 'cpu' before forking, or use 'spawn'",
            device.name()
        )));
    }
    Ok(())
}

pub fn current() -> AnyDevice {
    let current = CURRENT.read().expect("no code panics while holding this lock").clone();
    current.unwrap_or_else(|| cpu().clone())
}

pub fn is_current(device: &AnyDevice) -> bool {
    Arc::as_ptr(device).cast::<()>().cast_mut() == CURRENT_ADDRESS.load(Ordering::Acquire)
}

pub fn make_current(device: AnyDevice) {
    CURRENT_ADDRESS.store(Arc::as_ptr(&device).cast::<()>().cast_mut(), Ordering::Release);
    *CURRENT.write().expect("no code panics while holding this lock") = Some(device);
}

fn described(py: Python<'_>, info: DeviceInfo) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("type", &info.kind)?;
    dict.set_item("name", info.name)?;
    if info.kind == "cpu" {
        dict.set_item("cores", info.compute_units)?;
    } else {
        dict.set_item("device_id", info.ordinal)?;
        dict.set_item("architecture", info.architecture)?;
        dict.set_item("compute_units", info.compute_units)?;
    }
    dict.set_item("total_memory", info.total_memory)?;
    dict.set_item("free_memory", info.free_memory)?;
    Ok(dict)
}

/// Sets the current device, on which operations run: 'cpu', 'rocm' or 'rocm:N'.
#[pyfunction]
fn set_device(py: Python<'_>, device: String) -> PyResult<()> {
    make_current(named(py, &device)?);
    Ok(())
}

/// The current device: 'cpu', 'rocm:0'.
#[pyfunction]
fn get_device() -> String {
    current().name().to_owned()
}

/// Properties of the current device, or of another.
#[pyfunction]
#[pyo3(signature = (device=None))]
fn device_info(py: Python<'_>, device: Option<String>) -> PyResult<Bound<'_, PyDict>> {
    let device = match device {
        Some(name) => named(py, &name)?,
        None => current(),
    };
    usable(&device)?;
    described(py, py.detach(|| device.info()).map_err(raise_device)?)
}

/// Starts the computation of all pending tensors of the current device, or another, and waits until it has finished.
#[pyfunction]
#[pyo3(signature = (device=None))]
fn synchronize(py: Python<'_>, device: Option<String>) -> PyResult<()> {
    let device = match device {
        Some(name) => named(py, &name)?,
        None => current(),
    };
    usable(&device)?;
    py.detach(|| tensor_core::eval_pending(&device)).map_err(raise)?;
    py.detach(|| device.synchronize()).map_err(raise_device)
}

/// Abandons all GPUs and what is on them, and opens them again when they are used. After the loss of a worker, this connects to the
/// one that serves its address now.
#[pyfunction]
fn rocm_reset(py: Python<'_>) -> PyResult<()> {
    let packaged = packaged::library(py)?;
    let before = current();
    py.detach(|| {
        let mut opened = ROCM.lock().expect("no code panics while holding this lock");
        let mut ordinals: Vec<u32> = opened.iter().flat_map(HashMap::keys).copied().collect();
        ordinals.sort_unstable();
        for device in opened.take().iter().flat_map(HashMap::values) {
            if let Some(device) = device.as_any().downcast_ref::<RocmDevice>() {
                device.abandon();
            }
        }
        crate::collective::forget();
        if ordinals.is_empty() {
            ordinals.push(0);
        }
        reset_with(&ordinals, &options(packaged)).map_err(raise_device)
    })
    .and_then(|()| if before.name() == "cpu" { Ok(before.clone()) } else { named(py, before.name()) })
    .map(make_current)
    .inspect_err(|_| make_current(cpu().clone()))
}

/// The number of GPUs; zero if no HIP library or no worker is available.
#[pyfunction]
fn rocm_device_count(py: Python<'_>) -> usize {
    let packaged = packaged::library(py).unwrap_or_default();
    py.detach(|| device_count_with(&options(packaged)).unwrap_or(0))
}

/// The reason why ROCm cannot be used, or None.
#[pyfunction]
fn rocm_trouble(py: Python<'_>) -> Option<String> {
    let packaged = match packaged::library(py) {
        Ok(packaged) => packaged,
        Err(error) => return Some(error.to_string()),
    };
    match py.detach(|| device_count_with(&options(packaged))) {
        Ok(0) => Some("no GPUs were found".to_owned()),
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::env::threads().map_err(PyValueError::new_err)?;
    crate::env::blas().map_err(PyValueError::new_err)?;
    crate::env::conv().map_err(PyValueError::new_err)?;
    crate::env::collectives().map_err(PyValueError::new_err)?;
    tensor_core::set_host_device(cpu().clone());
    make_current(cpu().clone());
    module.add_function(wrap_pyfunction!(set_device, module)?)?;
    module.add_function(wrap_pyfunction!(get_device, module)?)?;
    module.add_function(wrap_pyfunction!(device_info, module)?)?;
    module.add_function(wrap_pyfunction!(synchronize, module)?)?;
    module.add_function(wrap_pyfunction!(rocm_reset, module)?)?;
    module.add_function(wrap_pyfunction!(rocm_device_count, module)?)?;
    module.add_function(wrap_pyfunction!(rocm_trouble, module)?)?;
    if let Some(name) = crate::env::first_device() {
        make_current(named(module.py(), &name)?);
    }
    Ok(())
}
