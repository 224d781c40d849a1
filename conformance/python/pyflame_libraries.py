"""pyflame's matrix products by rocBLAS and hipBLASLt, compared with NumPy in float64."""

import os

import numpy as np
import pyflame as pf
from cases import case, end, near

RANDOM = np.random.default_rng(1)
CHOICE = os.environ["PYFLAME_BLAS"]
# The rounding of a result of each type.
ROUNDING = {pf.float16: 2**-10, pf.bfloat16: 2**-7, pf.float32: 2**-22, pf.float64: 2**-50}
# Below a size, `auto` uses its own kernels.
SHAPES = [(128, 256, 128), (160, 200, 72)] if CHOICE == "auto" else [(64, 64, 64), (33, 65, 47), (5, 300, 7)]

pf.set_device("rocm")
pf.set_matmul_precision("fast")


def calls():
    return pf.backend.rocm.get_kernel_cache().get_stats()["library_calls"]


def pair(m, k, n, dtype, turned):
    """Two matrices, and the same as float64; each may be the transpose of what is in memory."""
    shapes = [(k, m) if turned[0] else (m, k), (n, k) if turned[1] else (k, n)]
    sides = [pf.tensor(RANDOM.standard_normal(shape)).to(dtype) for shape in shapes]
    sides = [side.T if turn else side for side, turn in zip(sides, turned)]
    return sides, [side.double().numpy() for side in sides]


@case
def _():
    "products of every type and order of memory"
    for m, k, n in SHAPES:
        for turned in [(False, False), (False, True), (True, False), (True, True)]:
            for dtype, rounding in ROUNDING.items():
                (a, b), (x, y) = pair(m, k, n, dtype, turned)
                before = calls()
                near((a @ b).double().numpy() / k, x @ y / k, rounding + 1e-7)
                assert calls() > before, (m, k, n, turned, dtype)


@case
def _():
    "what follows a product is computed from its sums"
    for dtype, rounding in ROUNDING.items():
        (a, b), (x, y) = pair(128, 256, 128, dtype, (False, True))
        bias = pf.randn(128).to(dtype)
        wanted = np.maximum(x @ y + bias.double().numpy(), 0)
        near(pf.relu(a @ b + bias).double().numpy() / 256, wanted / 256, 2 * rounding + 1e-7)


@case
def _():
    "batches, and one matrix for a whole batch"
    a, b = pf.randn(3, 96, 128), pf.randn(3, 128, 96)
    near((a @ b).numpy(), a.numpy().astype("f8") @ b.numpy(), 1e-4)
    near((a @ b[0]).numpy(), a.numpy().astype("f8") @ b[0].numpy(), 1e-4)


@case
def _():
    "gradients of a product"
    a, b = pf.randn(128, 160).requires_grad_(), pf.randn(160, 136).requires_grad_()
    g = pf.randn(128, 136)
    ((a @ b) * g).sum().backward()
    near(a.grad.numpy(), g.numpy().astype("f8") @ b.detach().numpy().T, 1e-4)
    near(b.grad.numpy(), a.detach().numpy().T.astype("f8") @ g.numpy(), 1e-4)


@case
def _():
    "products in the fixed order are pyflame's own, with the bits of the CPU"
    a, b = pf.randn(128, 256), pf.randn(256, 128)
    before = calls()
    for precision, dtype in [("default", pf.float32), ("ordered", pf.float32), ("ordered", pf.float16)]:
        pf.set_matmul_precision(precision)
        here = (a.to(dtype) @ b.to(dtype)).float().numpy()
        there = (a.cpu().to(dtype) @ b.cpu().to(dtype)).float().numpy()
        assert (here == there).all(), (precision, dtype)
    assert calls() == before
    pf.set_matmul_precision("fast")


@case
def _():
    "the tuner tries the libraries too"
    if CHOICE != "auto":
        return
    cache = pf.backend.rocm.get_tuning_cache()
    cache.enable_exhaustive_search(True)
    before, entries = calls(), cache.get_stats()["entries"]
    (a, b), (x, y) = pair(192, 256, 128, pf.bfloat16, (False, False))
    near((a @ b).double().numpy() / 256, x @ y / 256, 2**-7)
    assert calls() > before and cache.get_stats()["entries"] == entries + 1
    cache.enable_exhaustive_search(False)


end()
