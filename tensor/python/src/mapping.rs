//! Files as memory: tensors whose elements stay in a file until they are used.

use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::Arc;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tensor_core::{ConstantMemory, Tensor};

use crate::dtype::AnyDType;
use crate::error::raise;
use crate::tensor::{PyTensor, chosen};

/// A read-only mapping of the first bytes of a file. It stays valid when the file is closed, renamed or removed.
#[derive(Debug)]
struct Pages {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: an address range that is only read.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    fn map(file: RawFd, length: usize) -> std::io::Result<Pages> {
        // SAFETY: a new mapping at an address that the system chooses touches no other memory.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_PRIVATE, file, 0) };
        match NonNull::new(start.cast::<u8>()) {
            Some(first) if start != libc::MAP_FAILED => Ok(Pages { start: first, length }),
            _ => Err(std::io::Error::last_os_error()),
        }
    }

    /// A range, if it is inside.
    fn range(&self, at: usize, length: usize) -> PyResult<NonNull<u8>> {
        if at > self.length || length > self.length - at {
            return Err(PyValueError::new_err(format!(
                "bytes {at} to {} are outside of the {} bytes of the file",
                at.saturating_add(length),
                self.length
            )));
        }
        // SAFETY: the offset is at most the length of the mapping.
        Ok(unsafe { self.start.add(at) })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and nobody has an address in it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// A file whose elements become tensors without being read.
#[pyclass(frozen, module = "pyflame._pyflame")]
#[derive(Debug)]
pub struct MappedFile {
    pages: Arc<Pages>,
}

#[pymethods]
impl MappedFile {
    /// Maps the first bytes of an open file.
    #[new]
    fn new(file: RawFd, length: usize) -> PyResult<MappedFile> {
        let pages = Pages::map(file, length).map_err(|error| PyOSError::new_err(error.to_string()))?;
        Ok(MappedFile { pages: Arc::new(pages) })
    }

    /// Some bytes.
    fn read<'py>(&self, py: Python<'py>, at: usize, length: usize) -> PyResult<Bound<'py, PyBytes>> {
        let start = self.pages.range(at, length)?;
        // SAFETY: the range is inside the mapping, which lives as long as `self`.
        Ok(PyBytes::new(py, unsafe { std::slice::from_raw_parts(start.as_ptr(), length) }))
    }

    /// A tensor with the elements at an offset. On the CPU they are read when it is first used, on a GPU at once.
    #[pyo3(signature = (dtype, shape, at, device=None))]
    fn tensor(
        &self,
        py: Python<'_>,
        dtype: AnyDType,
        shape: Vec<usize>,
        at: usize,
        device: Option<&str>,
    ) -> PyResult<PyTensor> {
        let (place, placed) = chosen(py, device)?;
        let size = shape.iter().try_fold(dtype.0.bytes(), |size, &length| size.checked_mul(length));
        let size = size.ok_or_else(|| PyValueError::new_err(format!("{shape:?} has too many elements")))?;
        let start = self.pages.range(at, size)?.as_ptr();
        let made = if place.is_immediate() {
            // SAFETY: the range is inside the mapping, which the owner keeps. This process does not write it. As with every mapped
            // file, nobody may write the file itself meanwhile; `pyflame.load` says so, and `pyflame.save` replaces files.
            let memory = unsafe { ConstantMemory::new(start, size, Box::new(self.pages.clone())) };
            Tensor::from_constant(&place, dtype.0, &shape, memory)
        } else {
            // SAFETY: the range is inside the mapping, which lives as long as `self`.
            let bytes = unsafe { std::slice::from_raw_parts(start, size) };
            py.detach(|| Tensor::from_bytes(&place, dtype.0, &shape, bytes))
        };
        Ok(PyTensor::new(made.map_err(raise)?, placed))
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<MappedFile>()
}
