"""tinygrad on its HIP device: its own compiler builds the kernels, our library runs them."""

import numpy as np
from cases import case, end, near
from tinygrad import Device, Tensor, TinyJit, dtypes

RANDOM = np.random.default_rng(1)


def array(*shape):
    return RANDOM.standard_normal(shape, dtype=np.float32)


@case
def _():
    "the default device is HIP"
    assert Device.DEFAULT == "HIP", Device.DEFAULT
    assert Tensor([1]).device == "HIP"


@case
def _():
    "elementwise"
    a, b = array(33, 65), array(33, 65)
    near((Tensor(a) * 2 + Tensor(b).exp()).numpy(), 2.0 * a + np.exp(b.astype(np.float64)), 1e-5)


@case
def _():
    "sums and maxima along either axis"
    a = array(70, 130)
    near(Tensor(a).sum(axis=0).numpy(), a.astype(np.float64).sum(axis=0), 1e-4)
    near(Tensor(a).max(axis=1).numpy(), a.max(axis=1), 0)
    near(Tensor(a).sum().numpy(), a.astype(np.float64).sum(), 1e-3)


@case
def _():
    "matmul of floats"
    a, b = array(96, 80), array(80, 112)
    near((Tensor(a) @ Tensor(b)).numpy(), a.astype(np.float64) @ b, 1e-4)


@case
def _():
    "matmul of halves"
    a, b = array(64, 64).astype(np.float16), array(64, 64).astype(np.float16)
    got = Tensor(a).matmul(Tensor(b), dtype=dtypes.float).numpy()
    # It multiplies in half precision and accumulates in single.
    near(got, a.astype(np.float64) @ b.astype(np.float64), 2e-2)


@case
def _():
    "softmax"
    a = array(40, 100)
    e = np.exp(a.astype(np.float64))
    near(Tensor(a).softmax(axis=1).numpy(), e / e.sum(axis=1, keepdims=True), 1e-6)


@case
def _():
    "convolution"
    x, w = array(2, 3, 12, 12), array(4, 3, 3, 3)
    wanted = np.zeros((2, 4, 10, 10))
    for r in range(3):
        for s in range(3):
            wanted += np.einsum("nchw,kc->nkhw", x[:, :, r : r + 10, s : s + 10].astype(np.float64), w[:, :, r, s])
    near(Tensor(x).conv2d(Tensor(w)).numpy(), wanted, 1e-4)


@case
def _():
    "a gradient"
    x, w = array(16, 8), array(8, 4)
    weights = Tensor(w)
    (gradient,) = (Tensor(x) @ weights).relu().sum().gradient(weights)
    mask = (x.astype(np.float64) @ w) > 0
    near(gradient.numpy(), x.T.astype(np.float64) @ mask, 1e-4)


@case
def _():
    "a step compiled once and run many times"

    @TinyJit
    def step(x):
        return (x * 2 + 1).realize()

    for i in range(6):
        a = np.full(1000, i, dtype=np.float32)
        near(step(Tensor(a).realize()).numpy(), 2.0 * a + 1, 0)


end()
