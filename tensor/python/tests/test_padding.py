"""Zeros around convolutions on a GPU: they are not in memory, and the results have the bits of convolutions of padded copies."""

import numpy as np
import pytest
from conftest import needs_compiler

import pyflame as pf
import pyflame.nn.functional as F

CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
# Lengths, kernel, padding before and after each axis, stride, dilation, groups.
SHAPES = [
    ([17], [5], [(2, 2)], 1, 1, 1),
    ([40], [3], [(4, 4)], 3, 2, 2),
    ([9, 7], [3, 3], [(1, 1), (1, 1)], 1, 1, 1),
    ([8, 8], [3, 3], [(1, 1), (1, 1)], 2, 1, 1),
    ([7, 9], [4, 2], [(3, 3), (1, 1)], 3, 1, 2),
    ([8, 6], [3, 3], [(2, 2), (2, 2)], 1, 2, 4),
    ([8, 6], [3, 2], [(2, 2), (1, 1)], 2, 2, 1),
    ([6, 7], [3, 3], [(0, 2), (3, 1)], 1, 1, 1),
    ([6, 6], [1, 1], [(1, 1), (1, 1)], 1, 1, 1),
    ([4, 5, 3], [3, 2, 3], [(1, 1), (1, 1), (1, 1)], 1, 1, 2),
    ([5, 4, 6], [2, 3, 3], [(1, 1), (2, 2), (0, 0)], 2, 1, 1),
]


def convolved(device, shape, dtype, copied):
    """A convolution with its gradients; `copied`: of a padded tensor in memory."""
    lengths, kernel, padding, stride, dilation, groups = shape
    numbers = np.random.default_rng(3)
    x = pf.tensor(numbers.standard_normal([2, 4, *lengths]), device=device).to(dtype).requires_grad_()
    w = pf.tensor(numbers.standard_normal([8, 4 // groups, *kernel]), device=device).to(dtype).requires_grad_()
    options = {"stride": stride, "dilation": dilation, "groups": groups}
    symmetric = all(before == after for before, after in padding)
    if copied or not symmetric:
        padded = F.pad(x, [side for sides in reversed(padding) for side in sides])
        if copied:
            pf.eval(padded)
    else:
        padded, options["padding"] = x, [before for before, _ in padding]
    y = CONVOLUTIONS[len(lengths)](padded, w, **options)
    g = pf.tensor(numbers.standard_normal(y.shape), device=device).to(dtype)
    y.backward(g)
    return [it.detach().float().numpy() for it in (y, x.grad, w.grad)]


@pytest.mark.parametrize("dtype", [pf.float32, pf.float16, pf.bfloat16], ids=["f32", "f16", "bf16"])
def test_results_have_the_bits_of_padded_copies_and_of_the_cpu(gpu, dtype):
    pf.set_matmul_precision("ordered")
    try:
        for shape in SHAPES:
            here = convolved("rocm:0", shape, dtype, False)
            for other in (convolved("rocm:0", shape, dtype, True), convolved("cpu", shape, dtype, False)):
                for a, b in zip(here, other):
                    assert (a == b).all(), shape
    finally:
        pf.set_matmul_precision("default")


def test_gradients_of_half_convolutions_in_any_order_are_near_those_in_single_precision(device):
    for stride, padding, groups in [(1, 1, 1), (2, 1, 2), (1, 0, 1)]:
        gradients = []
        for dtype in (pf.float16, pf.float32):
            pf.manual_seed(1)
            x, w = [pf.randn(*it).half().to(dtype).requires_grad_() for it in [(2, 4, 7, 7), (8, 4 // groups, 3, 3)]]
            y = F.conv2d(x, w, stride=stride, padding=padding, groups=groups)
            y.backward(pf.ones(*y.shape, dtype=dtype))
            gradients.append([x.grad.float().numpy(), w.grad.float().numpy()])
        for half, single in zip(*gradients):
            np.testing.assert_allclose(half, single, rtol=2**-9, atol=2e-2)


@needs_compiler
def test_padding_batch_norm_and_relu_are_in_the_launch_of_the_convolution(gpu):
    for lengths in [(32,), (12, 12), (6, 6, 6)]:
        x, w, b = pf.randn(2, 3, *lengths), pf.randn(4, 3, *[3] * len(lengths)), pf.randn(4)
        variance = b * b
        pf.eval(x, w, b, variance)
        y = F.relu(F.batch_norm(CONVOLUTIONS[len(lengths)](x, w, b, padding=1), b, variance, b, b))
        plan = pf.explain(y)
        assert len(plan) == 1 and "pad + contract" in str(plan), plan
        launches = pf.backend.rocm.get_kernel_cache().get_stats()["launches"]
        pf.eval(y)
        assert pf.backend.rocm.get_kernel_cache().get_stats()["launches"] == launches + 1


@needs_compiler
def test_training_a_padded_convolution_makes_no_padded_copy(gpu):
    for stride in (1, 2):
        x, w = pf.randn(4, 8, 32, 32).requires_grad_(), pf.randn(8, 8, 3, 3).requires_grad_()
        pf.eval(x, w)
        y = F.conv2d(x, w, stride=stride, padding=1)
        y.backward(pf.randn(*y.shape))
        plan = str(pf.explain(y, x.grad, w.grad))
        assert "pad + contract" in plan and "[pad]" not in plan, plan


@needs_compiler
def test_a_padded_convolution_takes_no_more_memory_than_its_result(gpu):
    memory = pf.backend.rocm.get_memory_manager()
    x, w = pf.randn(4, 8, 64, 64), pf.randn(8, 8, 3, 3)
    pf.eval(x, w)
    pf.synchronize()
    memory.reset_stats()
    before = memory.get_stats()["total_allocated"]
    pf.eval(y := F.conv2d(x, w, padding=1))
    pf.synchronize()
    assert memory.get_stats()["peak_allocated"] - before <= y.numel() * 4 + 4096
