"""Attention in one launch on a GPU: results, gradients, memory, and when it is not used."""

import numpy as np
import pytest

import pyflame as pf
import pyflame.nn as nn
import pyflame.nn.functional as F
from conftest import needs_compiler


@pytest.fixture(autouse=True)
def default_precision():
    yield
    pf.set_matmul_precision("default")


def expected(q, k, v, g, causal):
    """Result and gradients in float64."""
    scale, turned = 1 / np.sqrt(q.shape[-1]), (0, 1, 3, 2)
    scores = q @ k.transpose(turned) * scale
    if causal:
        scores = np.where(np.arange(k.shape[2]) > np.arange(q.shape[2])[:, None], -np.inf, scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    change = g @ v.transpose(turned)
    change = weights * (change - (change * weights).sum(-1, keepdims=True)) * scale
    return weights @ v, change @ k, change.transpose(turned) @ q, weights.transpose(turned) @ g


@pytest.mark.parametrize(
    "dtype, tolerance, shape, causal",
    [
        (pf.float32, 1e-5, (2, 2, 65, 65, 32), True),
        (pf.float16, 2e-3, (1, 2, 70, 130, 64), False),
        (pf.bfloat16, 2e-2, (1, 1, 100, 40, 90), True),
        (pf.float32, 1e-5, (1, 1, 1, 5, 128), False),
    ],
    ids=["float32", "float16", "bfloat16", "one query"],
)
def test_results_and_gradients_are_those_of_the_formula(gpu, dtype, tolerance, shape, causal):
    numbers, (batch, heads, queries, keys, width) = np.random.default_rng(0), shape
    lengths = [queries, keys, keys, queries]
    # Heads are views of [batch, length, heads, width], as in a transformer.
    sides = [pf.tensor(numbers.standard_normal((batch, length, heads, width)).astype("f4")).to(dtype) for length in lengths]
    *sides, g = [side.transpose(1, 2) for side in sides]
    q, k, v = (side.detach().requires_grad_() for side in sides)
    out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    assert "attention" in str(pf.explain(out))
    out.backward(g)
    wanted = expected(*(x.detach().float().numpy().astype("f8") for x in (q, k, v, g)), causal)
    for name, got, want in zip("out q k v".split(), (out.detach(), q.grad, k.grad, v.grad), wanted):
        assert np.abs(got.float().numpy() - want).max() <= tolerance * max(1, np.abs(want).max()), name


def test_gradients_are_exact_for_high_scores(gpu):
    # Scores of some thousands that differ by a few, and are exact in float32. The logarithm of their sum of exponentials is not.
    numbers = np.random.default_rng(0)
    q, k = 512 + 64 * numbers.integers(-4, 5, (1, 1, 20, 16)), 8 + numbers.integers(-2, 3, (1, 1, 30, 16)) / 256
    v, g = numbers.standard_normal((1, 1, 30, 16)), numbers.standard_normal((1, 1, 20, 16))
    sides = [pf.tensor(x.astype("f4")) for x in (q, k, v, g)]
    q, k, v = (side.requires_grad_() for side in sides[:3])
    out = F.scaled_dot_product_attention(q, k, v)
    out.backward(sides[3])
    wanted = expected(*(side.detach().numpy().astype("f8") for side in sides), False)
    for name, got, want in zip("out q k v".split(), (out.detach(), q.grad, k.grad, v.grad), wanted):
        assert np.abs(got.numpy() - want).max() <= 1e-5 * max(1, np.abs(want).max()), name


@needs_compiler
def test_no_matrix_of_scores_is_in_memory(gpu):
    length = 1536
    q, k, v = (pf.randn(1, 1, length, 16, dtype=pf.float16).requires_grad_() for _ in range(3))
    pf.eval(q, k, v)
    pool = pf.backend.rocm.get_memory_manager()
    pool.reset_stats()
    before = pool.get_stats()["total_allocated"]
    F.scaled_dot_product_attention(q, k, v, is_causal=True).float().sum().backward()
    pf.eval(q.grad, k.grad, v.grad)
    assert pool.get_stats()["peak_allocated"] - before < length * length


def test_gradients_of_gradients_are_those_of_the_cpu(gpu):
    numbers = np.random.default_rng(0)
    arrays = [numbers.standard_normal((1, 1, 9, 16)).astype("f4") for _ in range(3)]

    def second(device):
        q, k, v = (pf.tensor(x, device=device).requires_grad_() for x in arrays)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        slopes = pf.autograd.grad((out * out).sum(), [q, k, v], create_graph=True)
        sum((slope * slope).sum() for slope in slopes).backward()
        return [x.grad.numpy() for x in (q, k, v)]

    for here, there in zip(second("rocm"), second("cpu")):
        assert np.allclose(here, there, rtol=1e-3, atol=1e-4)


def test_the_fixed_order_and_masks_use_products(gpu):
    q = pf.randn(1, 1, 8, 16)
    assert "attention" in str(pf.explain(F.scaled_dot_product_attention(q, q, q)))
    assert "attention" not in str(pf.explain(F.scaled_dot_product_attention(q, q, q, attn_mask=pf.zeros(8, 8))))
    pf.set_matmul_precision("ordered")
    assert "attention" not in str(pf.explain(F.scaled_dot_product_attention(q, q, q)))


def test_layers_use_it_if_nobody_asks_for_weights(gpu):
    layer = nn.MultiheadAttention(32, 2, batch_first=True)
    x = pf.randn(2, 10, 32)
    one, none = layer(x, x, x, need_weights=False, is_causal=True)
    two, _ = layer(x, x, x, need_weights=True, is_causal=True)
    assert none is None and "attention" in str(pf.explain(one))
    assert np.allclose(one.detach().numpy(), two.detach().numpy(), atol=1e-5)
