"""Cross entropy of class indices on a GPU: one launch for the losses, one for the gradient, no matrix of log-probabilities."""

import numpy as np
import pytest

import pyflame as pf
import pyflame.nn.functional as F


def results(device, dtype, shape, reduction, ignore):
    numbers = np.random.default_rng(0)
    logits = pf.tensor(4 * numbers.standard_normal(shape), device=device).to(dtype).requires_grad_()
    samples = shape[:1] + shape[2:] if len(shape) > 1 else ()
    target = numbers.integers(0, shape[min(1, len(shape) - 1)], samples)
    if ignore and target.size > 2:
        target.reshape(-1)[:2] = -100
    loss = F.cross_entropy(logits, pf.tensor(target, device=device), reduction=reduction)
    (loss * 1.5).sum().backward()
    assert loss.dtype is dtype and logits.grad.dtype is dtype
    return loss.detach().double().numpy(), logits.grad.double().numpy()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    "dtype, tolerance", [(pf.float32, 1e-5), (pf.float64, 1e-12), (pf.bfloat16, 2e-2)], ids=["f32", "f64", "bf16"]
)
def test_losses_and_gradients_are_those_of_the_cpu(gpu, dtype, tolerance, reduction):
    for shape in [(7, 5), (3, 300), (2, 11, 4)]:
        here = results("rocm:0", dtype, shape, reduction, True)
        there = results("cpu", dtype, shape, reduction, True)
        for a, b in zip(here, there):
            assert np.allclose(a, b, rtol=tolerance, atol=tolerance), shape


def test_no_log_probabilities_are_stored(gpu):
    logits, target = pf.randn(32, 500).requires_grad_(), pf.randint(0, 500, (32,))
    pf.eval(logits, target)
    loss = F.cross_entropy(logits, target)
    loss.backward()
    text = str(pf.explain(loss, logits.grad))
    assert "cross entropy" in text and "log softmax" not in text
    launches = [line for line in text.splitlines() if "[" in line and "writes" in line]
    # The gradient is the only launch that writes as much as the logits.
    assert sum(int(line.rsplit(" ", 1)[1]) >= 32 * 500 * 4 for line in launches) == 1, text


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_weights_of_classes_need_no_log_probabilities(gpu, reduction):
    numbers = np.random.default_rng(1)
    values, weights = numbers.standard_normal((9, 7)), numbers.random(7)
    target = numbers.integers(0, 7, 9)
    target[3] = -100

    def made(device):
        logits = pf.tensor(values, dtype=pf.float32, device=device).requires_grad_()
        loss = F.cross_entropy(
            logits,
            pf.tensor(target, device=device),
            weight=pf.tensor(weights, dtype=pf.float32, device=device),
            reduction=reduction,
        )
        text = str(pf.explain(loss))
        loss.sum().backward()
        return text, loss.detach().numpy(), logits.grad.numpy()

    text, *here = made("rocm:0")
    assert "cross entropy" in text and "log softmax" not in text
    for a, b in zip(here, made("cpu")[1:]):
        assert np.allclose(a, b, rtol=1e-5, atol=1e-6)


def test_classes_out_of_bounds_are_errors_and_ignored_batches_are_nan(gpu):
    with pytest.raises(IndexError, match="cross_entropy"):
        F.cross_entropy(pf.randn(3, 4), pf.tensor([0, 4, 1])).item()
    assert np.isnan(F.cross_entropy(pf.randn(2, 4), pf.tensor([-100, -100])).item())
    assert F.cross_entropy(pf.randn(2, 4), pf.tensor([-100, -100]), reduction="sum").item() == 0


def test_gradients_of_gradients_are_those_of_the_cpu(gpu):
    def second(device):
        x = pf.tensor(np.linspace(-1, 1, 12).reshape(3, 4).astype("f4"), device=device).requires_grad_()
        loss = F.cross_entropy(x, pf.tensor([1, 0, 3], device=device))
        (slope,) = pf.autograd.grad(loss, x, create_graph=True)
        (slope * slope).sum().backward()
        return x.grad.numpy()

    assert np.allclose(second("rocm:0"), second("cpu"), atol=1e-6)
