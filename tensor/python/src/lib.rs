//! The Python module `pyflame._pyflame`: tensors, devices and operations. Networks and optimizers are written in Python, in the
//! package around it.

mod array;
mod autocast;
mod collective;
mod create;
mod device;
mod dlpack;
mod dtype;
mod element;
mod env;
mod error;
mod grad;
mod graph;
mod mapping;
mod methods;
mod notice;
mod operand;
mod packaged;
mod profile;
mod rocm;
mod tensor;

use pyo3::prelude::*;
use tensor_core::dtype::DType;

#[pymodule]
fn _pyflame(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<tensor::PyTensor>()?;
    module.add_class::<dtype::PyDType>()?;
    module.add("OutOfMemoryError", py.get_type::<error::OutOfMemoryError>())?;
    for dtype in DType::ALL {
        module.add(dtype.name(), dtype::object(py, dtype)?)?;
    }
    module.add_function(wrap_pyfunction!(dtype::dtype_of, module)?)?;
    module.add_function(wrap_pyfunction!(dtype::limits, module)?)?;
    module.add_function(wrap_pyfunction!(dtype::integer_limits, module)?)?;
    module.add_function(wrap_pyfunction!(tensor::from_parts, module)?)?;
    module.add_function(wrap_pyfunction!(methods::unary::where_, module)?)?;
    module.add_function(wrap_pyfunction!(methods::index::embedding, module)?)?;
    module.add_function(wrap_pyfunction!(methods::matmul::einsum, module)?)?;
    module.add_function(wrap_pyfunction!(methods::matmul::attention, module)?)?;
    module.add_function(wrap_pyfunction!(methods::matmul::set_matmul_precision, module)?)?;
    module.add_function(wrap_pyfunction!(methods::matmul::get_matmul_precision, module)?)?;
    methods::join::register(module)?;
    methods::linalg::register(module)?;
    methods::hooks::register(module)?;
    autocast::register(module)?;
    collective::register(module)?;
    device::register(module)?;
    dlpack::register(module)?;
    create::register(module)?;
    grad::register(module)?;
    graph::register(module)?;
    mapping::register(module)?;
    profile::register(module)?;
    rocm::register(module)?;
    // Every suitable method is also a function of the module.
    let class = py.get_type::<tensor::PyTensor>();
    for name in class.dir()?.iter() {
        let name: String = name.extract()?;
        let taken = name.starts_with('_') || name.ends_with('_') || module.hasattr(name.as_str())?;
        if !taken && !ONLY_METHODS.contains(&name.as_str()) && class.getattr(name.as_str())?.is_callable() {
            module.add(name.as_str(), class.getattr(name.as_str())?)?;
        }
    }
    Ok(())
}

/// Methods that are not module functions, because their names mean something else there.
const ONLY_METHODS: &[&str] = &[
    "backward",
    "bool",
    "cpu",
    "dim",
    "double",
    "float",
    "half",
    "int",
    "item",
    "long",
    "numpy",
    "register_hook",
    "retain_grad",
    "rocm",
    "short",
    "size",
    "storage_offset",
    "stride",
    "t",
    "to",
    "to_device",
    "to_parts",
    "tolist",
    "type",
    "view",
    "view_as",
    "zero_grad",
];
