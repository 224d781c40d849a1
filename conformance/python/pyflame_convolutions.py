"""pyflame's convolutions by MIOpen, compared with NumPy in float64."""

import os

import numpy as np
import pyflame as pf
import pyflame.nn.functional as F
from cases import case, end, near

RANDOM = np.random.default_rng(1)
CHOICE = os.environ["PYFLAME_CONV"]
# The rounding of a result of each type.
ROUNDING = {pf.float32: 2**-22, pf.float16: 2**-10, pf.bfloat16: 2**-7}

pf.set_device("rocm")
pf.set_matmul_precision("fast")


def calls():
    return pf.backend.rocm.get_kernel_cache().get_stats()["library_calls"]


def windows(x, kernel, stride, padding):
    """[n, c, out, out, kernel, kernel] of the padded input."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    view = np.lib.stride_tricks.sliding_window_view(x, kernel, axis=(2, 3))
    return view[:, :, ::stride, ::stride]


def numbers(dtype, *shape):
    """A tensor, and the same as float64."""
    tensor = pf.tensor(RANDOM.standard_normal(shape)).to(dtype)
    return tensor, tensor.double().numpy()


def gradients(x, w, g, stride, padding):
    """Of input and weight, by their definition."""
    of_weight = np.einsum("nkyx,ncyxab->kcab", g, windows(x, w.shape[2:], stride, padding))
    spread = np.zeros((x.shape[0], x.shape[1], x.shape[2] + 2 * padding, x.shape[3] + 2 * padding))
    for a in range(w.shape[2]):
        for b in range(w.shape[3]):
            part = np.einsum("nkyx,kc->ncyx", g, w[:, :, a, b])
            rows, columns = g.shape[2] * stride, g.shape[3] * stride
            spread[:, :, a : a + rows : stride, b : b + columns : stride] += part
    inner = slice(padding, spread.shape[2] - padding), slice(padding, spread.shape[3] - padding)
    return spread[:, :, inner[0], inner[1]], of_weight


def forward(x, w, stride, padding):
    return np.einsum("ncyxab,kcab->nkyx", windows(x, w.shape[2:], stride, padding), w)


if CHOICE == "miopen":

    @case
    def _():
        "a convolution and its gradients, in every type"
        for dtype, rounding in ROUNDING.items():
            for size, stride, padding in [((2, 8, 10, 9), 1, 1), ((1, 4, 9, 9), 2, 1)]:
                (x, nx), (w, nw) = numbers(dtype, *size), numbers(dtype, 16, size[1], 3, 3)
                x, w = x.requires_grad_(), w.requires_grad_()
                before = calls()
                y = F.conv2d(x, w, stride=stride, padding=padding)
                depth = size[1] * 9
                near(y.detach().double().numpy() / depth, forward(nx, nw, stride, padding) / depth, rounding + 1e-7)
                assert calls() == before + 1, "forward"
                g, ng = numbers(dtype, *y.shape)
                y.backward(g)
                of_x, of_w = gradients(nx, nw, ng, stride, padding)
                depth = of_w.shape[0] * 9
                near(x.grad.double().numpy() / depth, of_x / depth, rounding + 1e-7)
                assert calls() == before + 2, "of the input"
                depth = y.shape[0] * y.shape[2] * y.shape[3]
                near(w.grad.double().numpy() / depth, of_w / depth, rounding + 1e-7)
                assert calls() == before + 3, "of the weight"

    @case
    def _():
        "what follows a convolution is computed from its sums"
        (x, nx), (w, nw), (b, nb) = numbers(pf.float32, 1, 4, 8, 8), numbers(pf.float32, 6, 4, 3, 3), numbers(pf.float32, 6)
        before = calls()
        y = pf.relu(F.conv2d(x, w, b, padding=1))
        wanted = np.maximum(forward(nx, nw, 1, 1) + nb[:, None, None], 0)
        near(y.double().numpy(), wanted, 1e-4)
        assert calls() == before + 1

    @case
    def _():
        "lines, and groups of channels"
        (x, nx), (w, nw) = numbers(pf.float32, 2, 4, 20), numbers(pf.float32, 6, 2, 5)
        before = calls()
        y = F.conv1d(x, w, padding=2, groups=2).double().numpy()
        assert calls() == before + 1
        for group in range(2):
            part = slice(2 * group, 2 * group + 2)
            one = np.pad(nx[:, part], ((0, 0), (0, 0), (2, 2)))
            view = np.lib.stride_tricks.sliding_window_view(one, 5, axis=2)
            near(y[:, 3 * group : 3 * group + 3], np.einsum("ncxa,kca->nkx", view, nw[3 * group : 3 * group + 3]), 1e-4)

    @case
    def _():
        "convolutions in the fixed order are pyflame's own, with the bits of the CPU"
        before = calls()
        for precision, dtype in [("default", pf.float32), ("ordered", pf.float32), ("ordered", pf.float16)]:
            pf.set_matmul_precision(precision)
            x, w = pf.randn(1, 4, 8, 8).to(dtype), pf.randn(6, 4, 3, 3).to(dtype)
            here = F.conv2d(x, w, padding=1).float().numpy()
            there = F.conv2d(x.cpu(), w.cpu(), padding=1).float().numpy()
            assert (here == there).all(), (precision, dtype)
        assert calls() == before
        pf.set_matmul_precision("fast")


else:

    @case
    def _():
        "without the tuner, convolutions are pyflame's own"
        before = calls()
        F.conv2d(pf.randn(1, 4, 8, 8), pf.randn(6, 4, 3, 3), padding=1).numpy()
        assert calls() == before

    @case
    def _():
        "the tuner tries MIOpen too, and remembers what is fastest"
        cache = pf.backend.rocm.get_tuning_cache()
        cache.enable_exhaustive_search(True)
        before, entries = calls(), cache.get_stats()["entries"]
        (x, nx), (w, nw) = numbers(pf.float16, 1, 8, 9, 9), numbers(pf.float16, 16, 8, 3, 3)
        y = F.conv2d(x, w, padding=1)
        near(y.double().numpy() / 72, forward(nx, nw, 1, 1) / 72, 2**-10)
        assert calls() > before and cache.get_stats()["entries"] == entries + 1
        cache.enable_exhaustive_search(False)


end()
