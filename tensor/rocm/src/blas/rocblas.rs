//! rocBLAS.

use std::ffi::c_void;
use std::sync::Arc;

use parking_lot::Mutex;
use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;

use super::gemm::{Gemm, Side};
use crate::companion::{functions, open_with_kernels};
use crate::stream::Stream;
use crate::work::address;

const NAMES: &[&str] =
    &["librocblas.so.5", "librocblas.so.4", "librocblas.so.3", "librocblas.so.0", "librocblas.so"];

type Handle = *mut c_void;

functions! {
    /// The functions used here. All return a status, zero for success.
    struct Functions {
        rocblas_create_handle: unsafe extern "C" fn(*mut Handle) -> i32,
        rocblas_destroy_handle: unsafe extern "C" fn(Handle) -> i32,
        rocblas_set_stream: unsafe extern "C" fn(Handle, *mut c_void) -> i32,
        rocblas_set_atomics_mode: unsafe extern "C" fn(Handle, i32) -> i32,
        rocblas_gemm_strided_batched_ex: unsafe extern "C" fn(
            Handle, i32, i32, i32, i32, i32, *const c_void,
            *const c_void, i32, i32, i64,
            *const c_void, i32, i32, i64, *const c_void,
            *const c_void, i32, i32, i64,
            *mut c_void, i32, i32, i64,
            i32, i32, i32, i32, u32,
        ) -> i32,
    }
}

/// The library with a handle of one device.
pub(super) struct RocBlas {
    functions: Functions,
    /// As an integer, so that it can be used from any thread, one at a time.
    handle: Mutex<usize>,
    stream: Arc<Stream>,
}

impl std::fmt::Debug for RocBlas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("rocBLAS")
    }
}

impl RocBlas {
    pub(super) fn open(stream: &Arc<Stream>, architecture: &str) -> Result<RocBlas, String> {
        let library = open_with_kernels(NAMES, "rocblas", stream, architecture)?;
        // SAFETY: these are rocBLAS's functions; the library is never closed.
        let functions = unsafe { Functions::of(&library) }?;
        stream.select().map_err(|error| error.to_string())?;
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the call; the device is current.
        succeeded("rocblas_create_handle", unsafe { (functions.rocblas_create_handle)(&mut handle) })?;
        let it = RocBlas { functions, handle: Mutex::new(handle as usize), stream: stream.clone() };
        // SAFETY: the handle is the library's, and the stream one of its HIP runtime.
        let set = unsafe { (it.functions.rocblas_set_stream)(handle, stream.handle().cast()) };
        succeeded("rocblas_set_stream", set)?;
        // Sums by atomic additions would differ from run to run.
        // SAFETY: as above.
        let set = unsafe { (it.functions.rocblas_set_atomics_mode)(handle, 0) };
        succeeded("rocblas_set_atomics_mode", set)?;
        Ok(it)
    }

    pub(super) fn multiply(&self, gemm: &Gemm<'_>, output: u64) -> Result<(), DeviceError> {
        let [a, b] = gemm.operands();
        let [from_a, from_b] = [address(a)?.0 as *const c_void, address(b)?.0 as *const c_void];
        let to = output as *mut c_void;
        let (float, double) = ([1.0_f32, 0.0], [1.0_f64, 0.0]);
        let (factors, computed) = match gemm.dtype {
            DType::F64 => {
                ([&raw const double[0], &raw const double[1]].map(|it| it.cast::<c_void>()), DType::F64)
            }
            _ => ([&raw const float[0], &raw const float[1]].map(|it| it.cast::<c_void>()), DType::F32),
        };
        let (operand, sum) = (type_of(gemm.dtype), type_of(gemm.sum_type()));
        let (m, n, k) = (gemm.rows as i32, gemm.columns as i32, gemm.depth as i32);
        let apart = (gemm.rows * gemm.columns) as i64;
        let handle = self.handle.lock();
        self.stream.select()?;
        // SAFETY: the addresses are those of operands with these sizes and strides (see `Gemm::of`) and of an output that holds the
        // results; the factors are read before the call returns.
        let status = unsafe {
            (self.functions.rocblas_gemm_strided_batched_ex)(
                *handle as Handle,
                operation(gemm.a),
                operation(gemm.b),
                m,
                n,
                k,
                factors[0],
                from_a,
                operand,
                gemm.a.leading as i32,
                gemm.a.batch as i64,
                from_b,
                operand,
                gemm.b.leading as i32,
                gemm.b.batch as i64,
                factors[1],
                to,
                sum,
                m,
                apart,
                to,
                sum,
                m,
                apart,
                gemm.batch as i32,
                type_of(computed),
                0,
                0,
                0,
            )
        };
        let call = "rocblas_gemm_strided_batched_ex";
        succeeded(call, status).map_err(|error| DeviceError::Call { call, error })
    }
}

impl Drop for RocBlas {
    fn drop(&mut self) {
        if self.stream.select().is_ok() {
            // A failure cannot be reported from drop.
            // SAFETY: the handle is the library's, and not used afterwards.
            unsafe { (self.functions.rocblas_destroy_handle)(*self.handle.get_mut() as Handle) };
        }
    }
}

fn succeeded(call: &str, status: i32) -> Result<(), String> {
    if status == 0 { Ok(()) } else { Err(format!("{call} returned status {status}")) }
}

fn operation(side: Side) -> i32 {
    if side.transposed { 112 } else { 111 }
}

/// The number of a type, `rocblas_datatype`.
fn type_of(dtype: DType) -> i32 {
    match dtype {
        DType::F16 => 150,
        DType::BF16 => 168,
        DType::F64 => 152,
        _ => 151,
    }
}
