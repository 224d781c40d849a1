"""Precision of matrix products: matrix cores for half types, the fixed order for all others, and the choice of a library."""

import os
import subprocess
import sys

import numpy as np
import pytest

import pyflame as pf
from conftest import needs_compiler

HALVES = [(pf.float16, 2**-10), (pf.bfloat16, 2**-7)]
SHAPES = [(64, 64, 64), (33, 65, 47), (128, 256, 96), (5, 300, 7), (100, 1030, 20), (40, 2100, 40)]


@pytest.fixture(autouse=True)
def default_precision():
    yield
    pf.set_matmul_precision("default")


def pairs(dtype):
    """Matrices of many shapes, where each may be the transpose of what is in memory, or begin at an odd element."""
    numbers = np.random.default_rng(0)
    for m, k, n in SHAPES:
        for turned in [(False, False), (False, True), (True, False), (True, True)]:
            shapes = [(k, m) if turned[0] else (m, k), (n, k) if turned[1] else (k, n)]
            sides = [pf.tensor(numbers.standard_normal(shape).astype("f4")).to(dtype) for shape in shapes]
            sides = [side.T if turn else side for side, turn in zip(sides, turned)]
            yield sides
        yield [sides[0][1:, 1:], sides[1][1:, 1:]]


@pytest.mark.parametrize("dtype, rounding", HALVES, ids=["float16", "bfloat16"])
def test_half_products_add_in_float32_within_the_documented_bound(gpu, dtype, rounding):
    for a, b in pairs(dtype):
        product = (a @ b).float().numpy()
        x, y = a.float().cpu().numpy().astype("f8"), b.float().cpu().numpy().astype("f8")
        bound = rounding * np.abs(x @ y) + 2 * x.shape[1] * 2.0**-24 * (np.abs(x) @ np.abs(y))
        assert (np.abs(product - x @ y) <= bound).all(), (a.shape, b.shape)


FIXED = [("default", pf.float32), ("ordered", pf.float32)] + [("ordered", half) for half, _ in HALVES]


@pytest.mark.parametrize("precision, dtype", FIXED)
def test_products_in_the_fixed_order_have_the_bits_of_the_cpu(gpu, precision, dtype):
    pf.set_matmul_precision(precision)
    for a, b in pairs(dtype):
        assert ((a @ b).float().numpy() == (a.cpu() @ b.cpu()).float().numpy()).all()


@needs_compiler
def test_half_products_use_matrix_cores_unless_the_order_is_fixed(gpu):
    numbers = np.random.default_rng(0)
    a, b = (pf.tensor(numbers.standard_normal((64, 512)).astype("f4")).half() for _ in range(2))
    quick = (a @ b.T).float().numpy()
    pf.set_matmul_precision("ordered")
    fixed = (a @ b.T).float().numpy()
    assert (quick != fixed).any() and np.allclose(quick, fixed, rtol=2**-9, atol=1e-3)
    assert pf.backend.rocm.get_kernel_cache().get_stats()["library_calls"] == 0


def test_the_precision_has_three_names():
    assert pf.get_matmul_precision() == "default"
    for name, known in [("ordered", "ordered"), ("highest", "ordered"), ("fast", "fast"), ("default", "default")]:
        pf.set_matmul_precision(name)
        assert pf.get_matmul_precision() == known
    with pytest.raises(ValueError, match="'default', 'ordered' or 'fast'"):
        pf.set_matmul_precision("quick")


def run(program, **environment):
    return subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **environment}, capture_output=True, text=True, timeout=60
    )


def test_an_unknown_library_of_products_is_an_error_of_the_import():
    failed = run("import pyflame", PYFLAME_BLAS="mkl")
    assert failed.returncode and "auto, own, rocblas, hipblaslt" in failed.stderr, failed.stderr


@pytest.mark.parametrize("choice, name", [("rocblas", "rocBLAS"), ("hipblaslt", "hipBLASLt")])
def test_a_library_that_was_chosen_and_cannot_be_opened_is_an_error(gpu, choice, name):
    failed = run("import pyflame as pf; pf.ones(2, device='rocm')", PYFLAME_BLAS=choice, LD_LIBRARY_PATH="")
    assert failed.returncode, failed.stdout
    assert f"PYFLAME_BLAS asks for {name}, which cannot be used" in failed.stderr, failed.stderr


def test_an_unknown_library_of_convolutions_is_an_error_of_the_import():
    failed = run("import pyflame", PYFLAME_CONV="cudnn")
    assert failed.returncode and "auto, own, miopen" in failed.stderr, failed.stderr


def test_miopen_that_was_chosen_and_cannot_be_opened_is_an_error_that_says_what_was_tried(gpu):
    failed = run("import pyflame as pf; pf.ones(2, device='rocm')", PYFLAME_CONV="miopen", LD_LIBRARY_PATH="")
    assert failed.returncode, failed.stdout
    assert "PYFLAME_CONV asks for MIOpen, which cannot be used" in failed.stderr, failed.stderr
    assert "libMIOpen.so.1" in failed.stderr and "PYFLAME_CONV=auto" in failed.stderr, failed.stderr


def test_without_miopen_convolutions_are_computed_all_the_same(gpu):
    program = """import pyflame as pf
cache = pf.backend.rocm.get_tuning_cache()
cache.enable_exhaustive_search(True)
x, w = pf.ones(1, 8, 6, 6, device='rocm').half(), pf.ones(16, 8, 3, 3, device='rocm').half()
print(pf.conv2d(x, w, padding=1)[0, 0, 2, 2].item())"""
    for choice in ["auto", "own"]:
        done = run(program, PYFLAME_CONV=choice, LD_LIBRARY_PATH="")
        assert done.stdout.strip() == "72.0", done.stderr


def test_without_a_library_products_are_computed_all_the_same(gpu):
    program = "import pyflame as pf; a = pf.ones(160, 160, device='rocm').half(); print((a @ a)[0, 0].item())"
    for choice in ["auto", "own"]:
        done = run(program, PYFLAME_BLAS=choice, LD_LIBRARY_PATH="")
        assert done.stdout.strip() == "160.0", done.stderr
