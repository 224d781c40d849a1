"""AMD's hip-python: properties, memory, streams, events, a kernel compiled by hiprtc, a graph."""

import ctypes

import numpy as np
from cases import case, end, near
from hip import hip, hiprtc

SOURCE = rb"""
extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
template <typename T> __global__ void scale(T* x, T by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= by;
}
"""


def ok(result):
    error, *values = result
    if isinstance(error, hip.hipError_t) and error != hip.hipError_t.hipSuccess:
        raise RuntimeError(str(error))
    if isinstance(error, hiprtc.hiprtcResult) and error != hiprtc.hiprtcResult.HIPRTC_SUCCESS:
        raise RuntimeError(str(error))
    return values[0] if len(values) == 1 else tuple(values)


def properties():
    return ok(hip.hipGetDeviceProperties(0))


@case
def _():
    "device properties"
    assert ok(hip.hipRuntimeGetVersion()) // 10_000_000 == 7
    assert ok(hip.hipGetDeviceCount()) == 1
    it = properties()
    name = it.gcnArchName.split(":")[0]
    assert name in ("gfx90a", "gfx942"), name
    assert it.warpSize == 64 and it.maxThreadsPerBlock == 1024, (it.warpSize, it.maxThreadsPerBlock)
    assert it.totalGlobalMem > 1 << 30, it.totalGlobalMem
    warp = ok(hip.hipDeviceGetAttribute(hip.hipDeviceAttribute_t.hipDeviceAttributeWarpSize, 0))
    assert warp == 64, warp
    free, total = ok(hip.hipMemGetInfo())
    assert 0 < free <= total == it.totalGlobalMem, (free, total, it.totalGlobalMem)


@case
def _():
    "malloc, memset and copies of NumPy arrays"
    there = np.random.default_rng(1).random(100_000, dtype=np.float32)
    back = np.zeros_like(there)
    device = ok(hip.hipMalloc(there.nbytes))
    ok(hip.hipMemcpy(device, there, there.nbytes, hip.hipMemcpyKind.hipMemcpyHostToDevice))
    ok(hip.hipMemcpy(back, device, there.nbytes, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    assert (there == back).all()
    ok(hip.hipMemset(device, 0, there.nbytes))
    ok(hip.hipMemcpy(back, device, there.nbytes, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    assert not back.any()
    ok(hip.hipFree(device))


def compiled(expressions=()):
    program = ok(hiprtc.hiprtcCreateProgram(SOURCE, b"source", 0, None, None))
    for expression in expressions:
        ok(hiprtc.hiprtcAddNameExpression(program, expression))
    options = [f"--offload-arch={properties().gcnArchName}".encode()]
    try:
        ok(hiprtc.hiprtcCompileProgram(program, len(options), options))
    except RuntimeError as problem:
        log = bytearray(ok(hiprtc.hiprtcGetProgramLogSize(program)))
        ok(hiprtc.hiprtcGetProgramLog(program, log))
        raise RuntimeError(f"{problem}: {log.decode()}") from problem
    names = [ok(hiprtc.hiprtcGetLoweredName(program, expression)) for expression in expressions]
    code = bytearray(ok(hiprtc.hiprtcGetCodeSize(program)))
    ok(hiprtc.hiprtcGetCode(program, code))
    module = ok(hip.hipModuleLoadData(code))
    return module, names


@case
def _():
    "saxpy compiled by hiprtc, on a stream, timed by events"
    n = 10_007
    module, _ = compiled()
    kernel = ok(hip.hipModuleGetFunction(module, b"saxpy"))
    random = np.random.default_rng(2)
    x, y = (random.random(n, dtype=np.float32) for _ in range(2))
    wanted = 2.5 * x.astype(np.float64) + y
    stream = ok(hip.hipStreamCreate())
    start, stop = ok(hip.hipEventCreate()), ok(hip.hipEventCreate())
    dx, dy = ok(hip.hipMalloc(x.nbytes)), ok(hip.hipMalloc(y.nbytes))
    to_device, to_host = hip.hipMemcpyKind.hipMemcpyHostToDevice, hip.hipMemcpyKind.hipMemcpyDeviceToHost
    ok(hip.hipMemcpyAsync(dx, x, x.nbytes, to_device, stream))
    ok(hip.hipMemcpyAsync(dy, y, y.nbytes, to_device, stream))
    ok(hip.hipEventRecord(start, stream))
    block = hip.dim3(x=256)
    grid = hip.dim3(x=(n + 255) // 256)
    arguments = (ctypes.c_float(2.5), dx, dy, ctypes.c_int(n))
    ok(
        hip.hipModuleLaunchKernel(
            kernel, *grid, *block, sharedMemBytes=0, stream=stream, kernelParams=None, extra=arguments
        )
    )
    ok(hip.hipEventRecord(stop, stream))
    got = np.empty_like(y)
    ok(hip.hipMemcpyAsync(got, dy, y.nbytes, to_host, stream))
    ok(hip.hipStreamSynchronize(stream))
    near(got, wanted, 1e-6)
    assert ok(hip.hipEventElapsedTime(start, stop)) >= 0
    for event in (start, stop):
        ok(hip.hipEventDestroy(event))
    ok(hip.hipStreamDestroy(stream))
    for pointer in (dx, dy):
        ok(hip.hipFree(pointer))
    ok(hip.hipModuleUnload(module))


@case
def _():
    "a template kernel by its name expression"
    n = 1000
    module, (name,) = compiled([b"scale<double>"])
    kernel = ok(hip.hipModuleGetFunction(module, name))
    x = np.arange(n, dtype=np.float64)
    dx = ok(hip.hipMalloc(x.nbytes))
    ok(hip.hipMemcpy(dx, x, x.nbytes, hip.hipMemcpyKind.hipMemcpyHostToDevice))
    arguments = (dx, ctypes.c_double(0.5), ctypes.c_int(n))
    ok(
        hip.hipModuleLaunchKernel(
            kernel, *hip.dim3(x=4), *hip.dim3(x=256), sharedMemBytes=0, stream=None, kernelParams=None, extra=arguments
        )
    )
    ok(hip.hipMemcpy(x, dx, x.nbytes, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    near(x, np.arange(n) / 2, 0)
    ok(hip.hipFree(dx))


@case
def _():
    "errors are those that HIP names"
    error, *_ = hip.hipSetDevice(99)
    assert error == hip.hipError_t.hipErrorInvalidDevice, error
    for wanted in (hip.hipError_t.hipErrorInvalidDevice, hip.hipError_t.hipSuccess):
        error, *_ = hip.hipGetLastError()
        assert error == wanted, error
    program = ok(hiprtc.hiprtcCreateProgram(b"no such thing", b"bad", 0, None, None))
    error, *_ = hiprtc.hiprtcCompileProgram(program, 0, [])
    assert error == hiprtc.hiprtcResult.HIPRTC_ERROR_COMPILATION, error


@case
def _():
    "a captured stream replayed as a graph"
    n = 4096
    x = np.ones(n, dtype=np.float64)
    module, (name,) = compiled([b"scale<double>"])
    kernel = ok(hip.hipModuleGetFunction(module, name))
    dx = ok(hip.hipMalloc(x.nbytes))
    ok(hip.hipMemcpy(dx, x, x.nbytes, hip.hipMemcpyKind.hipMemcpyHostToDevice))
    stream = ok(hip.hipStreamCreate())
    ok(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal))
    arguments = (dx, ctypes.c_double(2), ctypes.c_int(n))
    ok(
        hip.hipModuleLaunchKernel(
            kernel, *hip.dim3(x=16), *hip.dim3(x=256), sharedMemBytes=0, stream=stream, kernelParams=None, extra=arguments
        )
    )
    graph = ok(hip.hipStreamEndCapture(stream))
    executable = ok(hip.hipGraphInstantiateWithFlags(graph, 0))
    for _ in range(10):
        ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipStreamSynchronize(stream))
    ok(hip.hipMemcpy(x, dx, x.nbytes, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    near(x, np.full(n, 1024.0), 0)


end()
