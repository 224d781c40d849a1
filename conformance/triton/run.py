"""Compile kernels with Triton, run them through a HIP client library, compare with NumPy.

Triton needs no GPU to compile; the results are kept in TRITON_CACHE_DIR. Prints one line a case and exits 1 if any
case is wrong.
"""

import argparse
import ctypes
import sys
import time

import numpy as np
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import kernels
from hip import Buffer, Hip, HipError

WAVE = 64


class Case:
    """A kernel with its constants, and the means to launch and judge it."""

    def __init__(self, name, kernel, types, constants, num_warps=4):
        self.name, self.kernel, self.types, self.constants = name, kernel, types, constants
        self.num_warps = num_warps

    def compile(self, architecture):
        signature = dict(self.types) | {name: "constexpr" for name in self.constants}
        source = ASTSource(fn=self.kernel, signature=signature, constexprs=self.constants)
        return triton.compile(
            source, target=GPUTarget("hip", architecture, WAVE), options={"num_warps": self.num_warps}
        )


def launch(hip, compiled, grid, arguments):
    """Load the code object, launch once, unload."""
    module = hip.load(compiled.asm["hsaco"])
    function = hip.function(module, compiled.metadata.name)
    values = [a.pointer if isinstance(a, Buffer) else ctypes.c_int32(a) for a in arguments]
    # Triton's kernels end with two pointers to scratch memory, which these kernels do not use.
    values += [ctypes.c_void_p(), ctypes.c_void_p()]
    hip.launch(function, grid, compiled.metadata.num_warps * WAVE, compiled.metadata.shared, values)
    hip.synchronize()
    hip.unload(module)


def run_add(hip, compiled):
    generator = np.random.default_rng(1)
    count = 5003
    x, y = (generator.standard_normal(count, dtype=np.float32) for _ in range(2))
    buffers = [Buffer(hip, x), Buffer(hip, y), Buffer(hip, np.zeros_like(x))]
    launch(hip, compiled, (triton.cdiv(count, 1024),), [*buffers, count])
    return finish(buffers), x + y, 0.0


def run_softmax(hip, compiled):
    generator = np.random.default_rng(2)
    rows, columns = 37, 781
    x = 10 * generator.standard_normal((rows, columns), dtype=np.float32)
    buffers = [Buffer(hip, x), Buffer(hip, np.zeros_like(x))]
    launch(hip, compiled, (rows,), [*buffers, columns])
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return finish(buffers), powers / powers.sum(axis=1, keepdims=True), 1e-6


def run_matmul(dtype, tolerance):
    def run(hip, compiled):
        generator = np.random.default_rng(3)
        rows, columns, inner = 100, 72, 150
        a = generator.standard_normal((rows, inner), dtype=np.float32).astype(dtype)
        b = generator.standard_normal((inner, columns), dtype=np.float32).astype(dtype)
        buffers = [Buffer(hip, a), Buffer(hip, b), Buffer(hip, np.zeros((rows, columns), np.float32))]
        grid = (triton.cdiv(rows, 32), triton.cdiv(columns, 32))
        launch(hip, compiled, grid, [*buffers, rows, columns, inner])
        return finish(buffers), a.astype(np.float64) @ b.astype(np.float64), tolerance

    return run


def finish(buffers):
    """The last buffer is the result."""
    result = buffers[-1].read()
    for buffer in buffers:
        buffer.free()
    return result


def matmul_case(name, kind, precision):
    types = {"a": kind, "b": kind, "c": "*fp32", "rows": "i32", "columns": "i32", "inner": "i32"}
    constants = {"ROWS": 32, "COLUMNS": 32, "INNER": 32, "PRECISION": precision}
    return Case(name, kernels.matmul, types, constants)


CASES = [
    (
        Case("vector add", kernels.add, {"x": "*fp32", "y": "*fp32", "out": "*fp32", "count": "i32"}, {"BLOCK": 1024}),
        run_add,
    ),
    (
        Case("softmax", kernels.softmax, {"x": "*fp32", "out": "*fp32", "columns": "i32"}, {"BLOCK": 1024}, 8),
        run_softmax,
    ),
    (matmul_case("matmul fp16", "*fp16", "ieee"), run_matmul(np.float16, 1e-3)),
    (matmul_case("matmul fp32", "*fp32", "ieee"), run_matmul(np.float32, 1e-4)),
    # What Triton does when not asked: ten bits of mantissa where the matrix cores offer that.
    (matmul_case("matmul default", "*fp32", None), run_matmul(np.float32, 3e-2)),
]


def judge(got, wanted, tolerance):
    """None, or what is wrong."""
    difference = np.abs(got - wanted)
    worst = np.unravel_index(np.argmax(np.where(np.isnan(difference), np.inf, difference)), difference.shape)
    if difference[worst] <= tolerance * max(1.0, abs(wanted[worst])):
        return None
    return f"at {tuple(map(int, worst))} it is {got[worst]}, not {wanted[worst]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--architecture", required=True, help="gfx90a or gfx942")
    parser.add_argument("--library", required=True, help="the libamdhip64 to load")
    options = parser.parse_args()
    hip = Hip(options.library)
    wrong = 0
    for case, run in CASES:
        started = time.monotonic()
        compiled = case.compile(options.architecture)
        compile_time = time.monotonic() - started
        started = time.monotonic()
        try:
            complaint = judge(*run(hip, compiled))
        except HipError as error:
            complaint = str(error)
        verdict = "right" if complaint is None else f"WRONG: {complaint}"
        times = f"compiled in {compile_time:.1f} s, ran in {time.monotonic() - started:.1f} s"
        print(f"    triton {case.name} on {options.architecture}: {verdict} ({times})", flush=True)
        wrong += complaint is not None
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
