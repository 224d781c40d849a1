"""Gradients of factorisations, against differences of function values in float64."""

import numpy as np
import pytest

import pyflame as pf


def matrix(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def hermitian(x):
    return x + x.mT


def positive(x):
    return x @ x.mT + pf.eye(x.shape[-1], dtype=x.dtype)


def weights(x):
    return pf.tensor(np.cos(np.arange(x.numel(), dtype=np.float64)).reshape(tuple(x.shape)), dtype=x.dtype)


def projector(vectors):
    """A function of vectors that does not depend on their signs."""
    return (vectors * pf.arange(1, 1 + vectors.shape[-1], dtype=vectors.dtype)) @ vectors.mT


def of_svd(x, full=False):
    u, s, vh = pf.linalg.svd(x, full_matrices=full)
    few = s.shape[-1]
    u, vh = u[..., :few], vh[..., :few, :]
    return pf.cat([(f * weights(f)).flatten() for f in (projector(u), s, projector(vh.mT), u @ vh)])


def of_qr(x, mode="reduced"):
    q, r = pf.linalg.qr(x, mode)
    return pf.cat([(q * weights(q)).flatten(), (r * weights(r)).flatten()])


def of_eigh(x):
    values, vectors = pf.linalg.eigh(hermitian(x))
    return pf.cat([values.flatten(), projector(vectors).flatten()])


CASES = {
    "cholesky": (lambda x: pf.linalg.cholesky(positive(x)), (3, 3)),
    "cholesky, upper, batch": (lambda x: pf.linalg.cholesky(positive(x), upper=True), (2, 3, 3)),
    "qr, tall": (of_qr, (5, 3)),
    "qr, square": (of_qr, (3, 3)),
    "qr, wide": (of_qr, (3, 5)),
    "qr, wide, complete": (lambda x: of_qr(x, "complete"), (3, 5)),
    "qr, batch": (of_qr, (2, 4, 3)),
    "eigh": (of_eigh, (4, 4)),
    "eigh, batch": (of_eigh, (2, 3, 3)),
    "eigvalsh": (lambda x: pf.linalg.eigvalsh(hermitian(x), "U"), (3, 3)),
    "svd, tall": (of_svd, (5, 3)),
    "svd, wide": (of_svd, (3, 5)),
    "svd, square": (of_svd, (4, 4)),
    "svd, full": (lambda x: of_svd(x, True), (5, 3)),
    "svd, batch": (of_svd, (2, 3, 4)),
    "svdvals": (pf.linalg.svdvals, (4, 3)),
    "pinv": (pf.linalg.pinv, (4, 3)),
    "nuclear norm": (lambda x: pf.linalg.matrix_norm(x, "nuc"), (3, 4)),
    "solve": (lambda x: pf.linalg.solve(positive(x), x[..., :2]), (3, 3)),
    "solve, batch": (lambda x: pf.linalg.solve(positive(x[0]), x), (2, 3, 3)),
    "inv": (lambda x: pf.linalg.inv(positive(x)), (3, 3)),
}


def total(function, values):
    result = function(values)
    return (result * weights(result)).sum()


def differences(function, values, step=1e-5):
    slopes = np.zeros_like(values)
    for place in np.ndindex(*values.shape):
        ends = []
        for sign in (1, -1):
            moved = values.copy()
            moved[place] += sign * step
            ends.append(function(pf.tensor(moved)).item())
        slopes[place] = (ends[0] - ends[1]) / (2 * step)
    return slopes


@pytest.mark.parametrize("name", CASES)
def test_a_gradient_is_the_slope_of_its_function(name):
    function, shape = CASES[name]
    values = matrix(*shape)
    x = pf.tensor(values, requires_grad=True)
    total(function, x).backward()
    np.testing.assert_allclose(x.grad.numpy(), differences(lambda x: total(function, x), values), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["cholesky", "qr, tall", "eigh", "svd, tall", "svd, square"])
def test_a_second_gradient_is_the_slope_of_the_first(name):
    function, shape = CASES[name]
    values = matrix(*shape)

    def slope(x):
        x = x.detach().requires_grad_()
        gradient, = pf.autograd.grad(total(function, x), x, create_graph=True)
        return x, (gradient * weights(gradient)).sum()

    x, value = slope(pf.tensor(values))
    value.backward()
    expected = differences(lambda x: slope(x)[1].detach(), values)
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_gradients_of_factorisations_are_the_same_on_every_device(device):
    values = matrix(4, 3).astype(np.float32)
    x = pf.tensor(values, requires_grad=True)
    total(of_svd, x).backward()
    wide = pf.tensor(values.astype(np.float64), device="cpu", requires_grad=True)
    pf.set_device("cpu")
    total(of_svd, wide).backward()
    np.testing.assert_allclose(x.grad.numpy(), wide.grad.numpy(), rtol=1e-3, atol=1e-3)


def test_a_complete_factorisation_of_a_tall_matrix_has_no_gradient():
    x = pf.tensor(matrix(4, 2), requires_grad=True)
    q, _ = pf.linalg.qr(x, "complete")
    with pytest.raises(RuntimeError, match="reduced"):
        q.sum().backward()
