"""Compiles kernels with Triton, runs them through a HIP client library, and compares with NumPy.

Triton needs no GPU to compile; the results are kept in TRITON_CACHE_DIR. `--save` keeps them as files instead, and `--compiled` runs
such files on a machine without Triton. Prints a table and exits 1 if any case is wrong.
"""

import argparse
import ctypes
import json
import sys
import time
from pathlib import Path

import numpy as np

from hip import Buffer, Hip, HipError
from number_types import BF16, E4M3, E5M2, F16, F32

WAVE = 64


class Case:
    """A kernel with its constants, and the function that launches it and returns the expected result."""

    def __init__(self, name, kernel, types, constants, run, num_warps=4, architectures=("gfx90a", "gfx942")):
        self.name, self.kernel, self.types, self.constants, self.run = name, kernel, types, constants, run
        self.num_warps, self.architectures = num_warps, architectures

    def compile(self, architecture):
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        import kernels

        signature = dict(self.types) | {name: "constexpr" for name in self.constants}
        source = ASTSource(fn=getattr(kernels, self.kernel), signature=signature, constexprs=self.constants)
        compiled = triton.compile(
            source, target=GPUTarget("hip", architecture, WAVE), options={"num_warps": self.num_warps}
        )
        metadata = compiled.metadata
        return Compiled(compiled.asm["hsaco"], metadata.name, metadata.num_warps, metadata.shared)

    def path(self, folder, architecture):
        return Path(folder) / f"{self.name.replace(' ', '_')}-{architecture}.hsaco"


class Compiled:
    """A code object, and what a launch of its kernel needs."""

    def __init__(self, code, name, num_warps, shared):
        self.code, self.name, self.num_warps, self.shared = code, name, num_warps, shared

    def save(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.code)
        facts = {"name": self.name, "num_warps": self.num_warps, "shared": self.shared}
        path.with_suffix(".json").write_text(json.dumps(facts))

    @staticmethod
    def load(path):
        return Compiled(path.read_bytes(), **json.loads(path.with_suffix(".json").read_text()))


class Float(float):
    """A float argument, as opposed to an integer one."""


def blocks(count, size):
    return -(-count // size)


def launch(hip, compiled, grid, arguments):
    """Loads the code object, launches it once, unloads it."""
    module = hip.load(compiled.code)
    function = hip.function(module, compiled.name)
    values = [value(argument) for argument in arguments]
    # Triton's kernels have two trailing pointers to scratch memory, which these kernels do not use.
    values += [ctypes.c_void_p(), ctypes.c_void_p()]
    hip.launch(function, grid, compiled.num_warps * WAVE, compiled.shared, values)
    hip.synchronize()
    hip.unload(module)


def value(argument):
    if isinstance(argument, Buffer):
        return argument.pointer
    return ctypes.c_float(argument) if isinstance(argument, Float) else ctypes.c_int32(argument)


def finish(buffers):
    """Frees the buffers; the last one is the result."""
    result = buffers[-1].read()
    for buffer in buffers:
        buffer.free()
    return result


def run_add(hip, compiled, large):
    generator = np.random.default_rng(1)
    count = 1_000_003 if large else 5003
    x, y = (generator.standard_normal(count, dtype=np.float32) for _ in range(2))
    buffers = [Buffer(hip, x), Buffer(hip, y), Buffer(hip, np.zeros_like(x))]
    launch(hip, compiled, (blocks(count, 1024),), [*buffers, count])
    return finish(buffers), x + y, 0.0


def run_softmax(hip, compiled, large):
    generator = np.random.default_rng(2)
    rows, columns = (1823 if large else 37), 781
    x = 10 * generator.standard_normal((rows, columns), dtype=np.float32)
    buffers = [Buffer(hip, x), Buffer(hip, np.zeros_like(x))]
    launch(hip, compiled, (rows,), [*buffers, columns])
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return finish(buffers), powers / powers.sum(axis=1, keepdims=True), 1e-6


def run_layer_norm(kind, tolerance):
    def run(hip, compiled, large):
        generator = np.random.default_rng(4)
        rows, columns, epsilon = (1151 if large else 29), 1000, 1e-5
        x = kind.encode(3 * generator.standard_normal((rows, columns)) + 2)
        weight, bias = (generator.standard_normal(columns, dtype=np.float32) for _ in range(2))
        means = Buffer(hip, np.zeros(rows, np.float32))
        buffers = [Buffer(hip, array) for array in (x, weight, bias, np.zeros((rows, columns), np.float32))]
        launch(hip, compiled, (rows,), [*buffers, means, columns, Float(epsilon)])
        exact = kind.decode(x)
        mean = exact.mean(axis=1, keepdims=True)
        wanted = (exact - mean) / np.sqrt(exact.var(axis=1, keepdims=True) + epsilon) * weight + bias
        return np.c_[finish(buffers), finish([means])], np.c_[wanted, mean], tolerance

    return run


def run_matmul(kind, tolerance):
    def run(hip, compiled, large):
        generator = np.random.default_rng(3)
        rows, columns, inner = (300, 272, 550) if large else (100, 72, 150)
        a = kind.encode(generator.standard_normal((rows, inner)))
        b = kind.encode(generator.standard_normal((inner, columns)))
        buffers = [Buffer(hip, a), Buffer(hip, b), Buffer(hip, np.zeros((rows, columns), np.float32))]
        grid = (blocks(rows, 32), blocks(columns, 32))
        launch(hip, compiled, grid, [*buffers, rows, columns, inner])
        return finish(buffers), kind.decode(a) @ kind.decode(b), tolerance

    return run


def run_attention(kind, causal, tolerance):
    def run(hip, compiled, large):
        generator = np.random.default_rng(5)
        heads, length, depth = (8, 300, 64) if large else (2, 100, 64)
        q, k, v = (kind.encode(generator.standard_normal((heads, length, depth))) for _ in range(3))
        out = np.zeros((heads, length, depth), np.float32)
        buffers = [Buffer(hip, array) for array in (q, k, v, out)]
        scale = depth**-0.5
        launch(hip, compiled, (blocks(length, 64), heads), [*buffers, length, Float(scale)])
        scores = kind.decode(q) @ kind.decode(k).transpose(0, 2, 1) * scale
        if causal:
            scores[:, np.triu(np.ones((length, length), bool), 1)] = -np.inf
        powers = np.exp(scores - scores.max(axis=2, keepdims=True))
        return finish(buffers), powers / powers.sum(axis=2, keepdims=True) @ kind.decode(v), tolerance

    return run


def add_case():
    types = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "count": "i32"}
    return Case("vector add", "add", types, {"BLOCK": 1024}, run_add)


def softmax_case():
    types = {"x": "*fp32", "out": "*fp32", "columns": "i32"}
    return Case("softmax", "softmax", types, {"BLOCK": 1024}, run_softmax, 8)


def layer_norm_case(name, pointer, kind, tolerance):
    types = {"x": pointer, "weight": "*fp32", "bias": "*fp32", "out": "*fp32", "mean_out": "*fp32"}
    types |= {"columns": "i32", "epsilon": "fp32"}
    return Case(name, "layer_norm", types, {"BLOCK": 1024}, run_layer_norm(kind, tolerance), 8)


def matmul_case(name, pointer, kind, tolerance, precision="ieee", **options):
    types = {"a": pointer, "b": pointer, "c": "*fp32", "rows": "i32", "columns": "i32", "inner": "i32"}
    constants = {"ROWS": 32, "COLUMNS": 32, "INNER": 32, "PRECISION": precision}
    return Case(name, "matmul", types, constants, run_matmul(kind, tolerance), **options)


def attention_case(name, pointer, kind, causal, tolerance):
    types = {"q": pointer, "k": pointer, "v": pointer, "out": "*fp32", "length": "i32", "scale": "fp32"}
    constants = {"ROWS": 64, "COLUMNS": 32, "DEPTH": 64, "CAUSAL": causal}
    return Case(name, "attention", types, constants, run_attention(kind, causal, tolerance))


CASES = [
    add_case(),
    softmax_case(),
    layer_norm_case("layer norm fp32", "*fp32", F32, 1e-5),
    layer_norm_case("layer norm fp16", "*fp16", F16, 1e-5),
    matmul_case("matmul fp16", "*fp16", F16, 1e-3),
    matmul_case("matmul bf16", "*bf16", BF16, 1e-3),
    matmul_case("matmul fp32", "*fp32", F32, 1e-4),
    # Ten bits of mantissa, which the matrix cores of gfx942 support.
    matmul_case("matmul xf32", "*fp32", F32, 6e-2, "tf32", architectures=("gfx942",)),
    # Triton's default precision.
    matmul_case("matmul default", "*fp32", F32, 3e-2, None),
    matmul_case("matmul e4m3fnuz", "*fp8e4b8", E4M3, 1e-3, architectures=("gfx942",)),
    matmul_case("matmul e5m2fnuz", "*fp8e5b16", E5M2, 1e-3, architectures=("gfx942",)),
    # Probabilities are rounded to the inputs' type before the multiplication.
    attention_case("attention fp16", "*fp16", F16, False, 2e-3),
    attention_case("causal attention fp16", "*fp16", F16, True, 2e-3),
    attention_case("causal attention bf16", "*bf16", BF16, True, 1.5e-2),
]


def judge(got, wanted, tolerance):
    """The largest error, relative to the larger of one and the expected value, and a description of a failure."""
    error = np.abs(got - wanted) / np.maximum(1.0, np.abs(wanted))
    worst = np.unravel_index(np.argmax(np.where(np.isnan(error), np.inf, error)), error.shape)
    if error[worst] <= tolerance:
        return error[worst], None
    return error[worst], f"at {tuple(map(int, worst))}: got {got[worst]}, expected {wanted[worst]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--architecture", required=True, help="gfx90a or gfx942")
    parser.add_argument("--library", help="the libamdhip64 to load")
    parser.add_argument("--large", action="store_true", help="larger sizes, about ten times the work")
    parser.add_argument("--save", metavar="FOLDER", help="only compile, and keep the code objects there")
    parser.add_argument("--compiled", metavar="FOLDER", help="run the code objects kept there")
    options = parser.parse_args()
    cases = [case for case in CASES if options.architecture in case.architectures]
    if options.save:
        for case in cases:
            case.compile(options.architecture).save(case.path(options.save, options.architecture))
        return 0
    if not options.library:
        parser.error("--library is needed to run kernels")
    hip = Hip(options.library)
    wrong = 0
    print(f"    {'kernel':22} {'on':7} {'verdict':7} {'error':>8} {'allowed':>8} {'compiled':>9} {'ran':>7}")
    for case in cases:
        started = time.monotonic()
        if options.compiled:
            compiled = Compiled.load(case.path(options.compiled, options.architecture))
        else:
            compiled = case.compile(options.architecture)
        compile_time = time.monotonic() - started
        started = time.monotonic()
        try:
            got, wanted, allowed = case.run(hip, compiled, options.large)
            error, complaint = judge(got, wanted, allowed)
            numbers = f"{error:8.1e} {allowed:8.1e}"
        except HipError as failure:
            complaint, numbers = str(failure), f"{'-':>8} {'-':>8}"
        verdict = "right" if complaint is None else "WRONG"
        times = f"{compile_time:7.1f} s {time.monotonic() - started:5.1f} s"
        print(f"    {case.name:22} {options.architecture:7} {verdict:7} {numbers} {times}", flush=True)
        if complaint is not None:
            print(f"        {complaint}", flush=True)
        wrong += complaint is not None
    print(f"    {len(cases) - wrong} of {len(cases)} cases are right on {options.architecture}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
