"""complex128: everything that complex64 has, in the precision of float64, against NumPy."""

import numpy as np
import pytest

import pyflame as pf

RANDOM = np.random.default_rng(0)


def some(*shape):
    return RANDOM.standard_normal(shape) + 1j * RANDOM.standard_normal(shape)


def same(x, expected, tolerance=1e-12):
    expected = np.asarray(expected)
    assert x.numpy().dtype == expected.dtype, (x.dtype, expected.dtype)
    np.testing.assert_allclose(x.numpy(), expected, rtol=tolerance, atol=tolerance)


FUNCTIONS = ["exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "arcsin", "arccos", "arctan", "abs", "square",
             "expm1", "log2", "log10", "log1p", "reciprocal", "conj", "real", "imag"]  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_the_precision_of_double(device, name):
    z = some(31)
    member = getattr(pf.tensor(z), name)
    same(member if name in ("real", "imag") else member(), getattr(np, name)(z))


def test_arithmetic_and_types(device):
    a, b = some(5, 4), some(5, 4)
    x, y = pf.tensor(a), pf.tensor(b)
    assert x.dtype is pf.complex128 and x.element_size() == 16 and x.is_complex()
    for found, expected in [(x + y, a + b), (x - y, a - b), (x * y, a * b), (x / y, a / b), (x**y, a**b), (-x, -a)]:
        same(found, expected)
    same(x @ y.T, a @ b.T)
    same(x.sum(0), a.sum(0))
    same(x.prod(1), a.prod(1))
    same(x.mean(), a.mean())
    same(x == y, a == b)
    same(pf.where(x.real > 0, x, y), np.where(a.real > 0, a, b))
    same(x.cumsum(0), a.cumsum(0))
    same(pf.cat([x, y]), np.concatenate([a, b]))
    same(x.T[1:, ::2] * 1, a.T[1:, ::2])
    same(x[:, [2, 0]], a[:, [2, 0]])
    same(pf.complex(x.real, y.imag), a.real + 1j * b.imag)
    large = pf.tensor(np.array([1e200 + 1e200j, 3e-200j]))
    same(large / large, np.array([1, 1], np.complex128))
    assert pf.finfo(pf.complex128).bits == 64 and (x[0, 0].item() == a[0, 0])


def test_promotion_follows_torch():
    c64, c128 = pf.ones(2, dtype=pf.complex64), pf.ones(2, dtype=pf.complex128)
    f32, f64, i64 = pf.ones(2), pf.ones(2, dtype=pf.float64), pf.ones(2, dtype=pf.int64)
    for a, b, expected in [
        (c64, f64, pf.complex128), (c64, f32, pf.complex64), (c64, i64, pf.complex64), (c64, c128, pf.complex128),
        (f64, 1j, pf.complex128), (f32, 1j, pf.complex64), (i64, 1j, pf.complex64), (c128, f32, pf.complex128),
        (c64, f64[0], pf.complex64), (f64, c64[0], pf.complex128), (c128, 2.5, pf.complex128),
    ]:  # fmt: skip
        assert (a + b).dtype is (b + a).dtype is expected, (a, b)
    assert c64.double().dtype is pf.float64 and c128.to(pf.complex64).dtype is pf.complex64
    assert f64.to(pf.complex128).real.dtype is c128.abs().dtype is pf.float64


def test_writes_and_constants(device):
    z = pf.zeros(3, 4, dtype=pf.complex128)
    z[1] = 1 + 2j
    z[:, 2].mul_(3)
    z.T[0] = pf.tensor([1.0, 2.0, 3.0], dtype=pf.float64)
    z.diagonal().fill_(1j)
    expected = np.zeros((3, 4), np.complex128)
    expected[1] = 1 + 2j
    expected[:, 2] *= 3
    expected[:, 0] = [1, 2, 3]
    np.fill_diagonal(expected, 1j)
    same(z, expected)
    assert pf.full((2,), 1e-300 + 1e300j, dtype=pf.complex128).tolist() == [1e-300 + 1e300j] * 2


def test_gradients(device):
    a = some(4)
    x = pf.tensor(a, requires_grad=True)
    ((x * x).abs() ** 2).sum().backward()
    # The derivative of |x|^4 by the conjugate, doubled: 4 |x|^2 x.
    same(x.grad, 4 * np.abs(a) ** 2 * a)
    x = pf.tensor(a, requires_grad=True)
    x.real.sum().backward()
    same(x.grad, np.ones(4, np.complex128))


def test_linear_algebra_and_transforms(device):
    a = some(6, 6)
    h = a @ a.conj().T
    x, y = pf.tensor(a), pf.tensor(h)
    same(pf.linalg.inv(x), np.linalg.inv(a), 1e-9)
    same(pf.linalg.det(x), np.linalg.det(a), 1e-9)
    same(pf.linalg.solve(x, y), np.linalg.solve(a, h), 1e-9)
    same(pf.linalg.eigvalsh(y), np.linalg.eigvalsh(h), 1e-9)
    same(pf.linalg.svdvals(x), np.linalg.svd(a)[1], 1e-9)
    same(pf.linalg.cholesky(y), np.linalg.cholesky(h), 1e-9)
    q, r = pf.linalg.qr(x)
    same(q @ r, a, 1e-9)
    same(pf.fft.fft(x), np.fft.fft(a), 1e-11)
    same(pf.fft.rfft(pf.tensor(a.real)), np.fft.rfft(a.real), 1e-11)
    same(pf.fft.irfft(pf.fft.rfft(pf.tensor(a.real))), a.real, 1e-11)
    for length in (1, 7, 30, 97, 1009):
        line = some(2, length)
        same(pf.fft.ifft(pf.tensor(line)), np.fft.ifft(line), 1e-11)


def test_values_that_do_not_exist_are_errors():
    for function in (pf.linalg.eigh, pf.linalg.eigvalsh, pf.linalg.svd, pf.linalg.svdvals):
        with pytest.raises(RuntimeError, match="does not converge"):
            function(pf.full((3, 3), float("nan")))
    with pytest.raises(RuntimeError, match="singular"):
        pf.linalg.inv(pf.ones(40, 40))
    assert pf.linalg.det(pf.ones(40, 40)).item() == 0
    sign, size = pf.linalg.slogdet(pf.zeros(3, 3))
    assert (sign.item(), size.item()) == (0, float("-inf"))
