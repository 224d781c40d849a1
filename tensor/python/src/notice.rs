//! Notices to the user as Python warnings.

use std::ffi::{CString, c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::{PyRuntimeWarning, PyUserWarning};
use pyo3::prelude::*;

/// The reason why steps are interpreted, until the warning was issued.
static REASON: Mutex<Option<String>> = Mutex::new(None);

/// Warns that steps are interpreted because there is no kernel compiler. The caller may hold locks of this package, and a warning runs
/// Python code, so the interpreter issues it later: in the main thread, before its next instruction.
pub fn interpreting(why: &str) {
    *REASON.lock().expect("no code panics while holding this lock") = Some(why.to_owned());
    // SAFETY: this function may be called from any thread, with or without the GIL, while Python runs; `warn` matches the type and
    // ignores its argument.
    let queued = unsafe { pyo3::ffi::Py_AddPendingCall(Some(warn), std::ptr::null_mut()) };
    if queued != 0 {
        // The queue is full; the statistics still count interpreted launches.
        REASON.lock().expect("no code panics while holding this lock").take();
    }
}

/// Says once that "cuda" is another name.
pub fn cuda(py: Python<'_>) -> PyResult<()> {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if TOLD.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let text =
        c"the device 'cuda' means 'rocm' in pyflame: an AMD GPU, local or behind a worker, or a software GPU";
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), text, 1)
}

/// Called by Python with the GIL. A warning that the user turned into an error is raised there.
extern "C" fn warn(_: *mut c_void) -> c_int {
    let why = REASON.lock().expect("no code panics while holding this lock").take();
    let Some(why) = why else { return 0 };
    let text = format!(
        "the ROCm device has no kernel compiler ({}). pyflame interprets every step instead: results are the same, but large \
         tensors are slower. For full speed install clang 19, HIP headers and device libraries where the GPU is: \
         `remora doctor` prints the command",
        why.trim_end_matches('.')
    );
    Python::attach(|py| {
        let text = CString::new(text.replace('\0', "")).unwrap_or_default();
        match PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 1) {
            Ok(()) => 0,
            Err(error) => {
                error.restore(py);
                -1
            }
        }
    })
}
