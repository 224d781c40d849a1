"""Means and losses of half floats: sums that exceed the largest half float do not overflow the result."""

import numpy as np
import pytest

import pyflame as pf
import pyflame.nn.functional as F

HALVES = [pf.float16, pf.bfloat16]


def near(found, wanted):
    assert abs(float(found) - wanted) <= 0.01 * abs(wanted), (found, wanted)


@pytest.mark.parametrize("dtype", HALVES, ids=["float16", "bfloat16"])
def test_means_and_deviations_do_not_overflow(device, dtype):
    x = pf.full((512, 512), 100.0, dtype=dtype) + pf.tensor(np.tile([-50.0, 50.0], 256), dtype=dtype)
    assert x.mean().dtype is dtype
    near(x.mean(), 100)
    near(x.mean(dim=(0, 1)), 100)
    near(x.var(), 2500)
    near(x.std(), 50)
    near((x * 10).std(), 500)
    near(pf.logsumexp(pf.zeros(1 << 18, dtype=dtype), 0), np.log(1 << 18))
    w = pf.ones(1 << 17, dtype=dtype, requires_grad=True)
    (w * 4.0).mean().backward()
    near(w.grad.float().sum(), 4)


@pytest.mark.parametrize("dtype", HALVES, ids=["float16", "bfloat16"])
def test_pools_do_not_overflow(device, dtype):
    x = pf.full((1, 1, 64, 64), 1000.0, dtype=dtype) + pf.zeros(1, dtype=dtype)
    near(F.avg_pool2d(x, 32).max(), 1000)
    near(F.avg_pool2d(x, 32, padding=16, count_include_pad=False).max(), 1000)
    near(F.adaptive_avg_pool2d(x, 1).max(), 1000)
    near(F.adaptive_avg_pool2d(x, 3).max(), 1000)
    assert F.avg_pool2d(x, 32).dtype is dtype


@pytest.mark.parametrize("dtype", HALVES, ids=["float16", "bfloat16"])
def test_losses_do_not_overflow(device, dtype):
    a, b = pf.full((4, 65536), 200.0, dtype=dtype), pf.zeros(4, 65536, dtype=dtype)
    near(F.l1_loss(a, b), 200)
    near(F.mse_loss(a, b), 40000)
    near(F.smooth_l1_loss(a, b), 199.5)
    near(F.huber_loss(a, b), 199.5)
    classes = pf.zeros(65536, 4, dtype=dtype)
    target = pf.zeros(65536, dtype=pf.int64)
    near(F.cross_entropy(classes, target), np.log(4))
    near(F.cross_entropy(classes, target, label_smoothing=0.1), np.log(4))
    near(F.nll_loss(classes - 3.0, target), 3)
    near(F.binary_cross_entropy_with_logits(b, b + 1.0), np.log(2))
    near(F.binary_cross_entropy(b + 0.5, b), np.log(2))
    near(F.kl_div(b - 2.0, b + 1.0), 2)
    assert F.mse_loss(a, b).dtype is dtype and F.cross_entropy(classes, target).dtype is dtype
    with_gradient = (pf.full((70000,), 3.0, dtype=dtype)).requires_grad_()
    F.mse_loss(with_gradient, pf.zeros(70000, dtype=dtype), reduction="sum").backward()
    near(with_gradient.grad[0], 6)
