"""CuPy's wheel for ROCm: its kernels are compiled by hiprtc at run time, its matrix products use hipBLAS."""

import cupy as cp
import numpy as np
from cases import case, end, near

RANDOM = np.random.default_rng(1)


def array(*shape):
    return RANDOM.standard_normal(shape, dtype=np.float32)


@case
def _():
    "the runtime is HIP 7 on one device"
    assert cp.cuda.runtime.is_hip
    assert cp.cuda.runtime.runtimeGetVersion() // 10_000_000 == 7
    assert cp.cuda.runtime.getDeviceCount() == 1


@case
def _():
    "elementwise"
    a, b = array(33, 65), array(33, 65)
    got = cp.asarray(a) * 2 + cp.exp(cp.asarray(b))
    near(cp.asnumpy(got), 2.0 * a + np.exp(b.astype(np.float64)), 1e-5)


@case
def _():
    "sums, maxima and means along either axis"
    a = array(70, 130)
    there = cp.asarray(a)
    near(cp.asnumpy(there.sum(axis=0)), a.astype(np.float64).sum(axis=0), 1e-4)
    near(cp.asnumpy(there.max(axis=1)), a.max(axis=1), 0)
    near(cp.asnumpy(there.mean()), a.astype(np.float64).mean(), 1e-5)


@case
def _():
    "matmul of floats"
    a, b = array(96, 80), array(80, 112)
    near(cp.asnumpy(cp.asarray(a) @ cp.asarray(b)), a.astype(np.float64) @ b, 1e-4)


@case
def _():
    "matmul of doubles"
    a, b = array(65, 40).astype(np.float64), array(40, 33).astype(np.float64)
    near(cp.asnumpy(cp.asarray(a) @ cp.asarray(b)), a @ b, 1e-13)


@case
def _():
    "a user's kernel, from source"
    source = r"""
    extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) y[i] = a * x[i] + y[i];
    }"""
    n = 10_007
    x, y = array(n), array(n)
    there = cp.asarray(y)
    kernel = cp.RawKernel(source, "saxpy")
    kernel(((n + 255) // 256,), (256,), (np.float32(2.5), cp.asarray(x), there, np.int32(n)))
    near(cp.asnumpy(there), 2.5 * x.astype(np.float64) + y, 1e-6)


@case
def _():
    "complex numbers, for which its own headers are compiled"
    a = array(50) + 1j * array(50)
    near(cp.asnumpy(cp.abs(cp.asarray(a) * (2 - 1j))), np.abs(a * (2 - 1j)), 1e-5)


@case
def _():
    "softmax"
    a = array(40, 100)
    there = cp.asarray(a)
    e = cp.exp(there - there.max(axis=1, keepdims=True))
    wanted = np.exp(a.astype(np.float64))
    near(cp.asnumpy(e / e.sum(axis=1, keepdims=True)), wanted / wanted.sum(axis=1, keepdims=True), 1e-5)


@case
def _():
    "streams and events"
    stream = cp.cuda.Stream(non_blocking=True)
    start, stop = cp.cuda.Event(), cp.cuda.Event()
    with stream:
        start.record(stream)
        there = cp.arange(1000, dtype=cp.float32) ** 2
        stop.record(stream)
    stream.synchronize()
    assert cp.cuda.get_elapsed_time(start, stop) >= 0
    near(cp.asnumpy(there), np.arange(1000.0) ** 2, 1e-6)


@case
def _():
    "sorting"
    a = array(5000)
    near(cp.asnumpy(cp.sort(cp.asarray(a))), np.sort(a), 0)


end()
