"""Linear algebra, transforms, sets and the array API namespace, against NumPy."""

import numpy as np
import pytest

import pyflame as pf
import pyflame.array_api as xp


@pytest.fixture(autouse=True)
def on_the_cpu():
    before = pf.get_device()
    pf.set_device("cpu")
    yield
    pf.set_device(before)


def some(*shape, dtype=np.float64, seed=0):
    generator = np.random.default_rng(seed)
    numbers = generator.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        numbers = numbers + 1j * generator.standard_normal(shape)
    return numbers.astype(dtype)


TYPES = [np.float32, np.float64, np.complex64]


def near(found, expected, dtype):
    tolerance = 1e-10 if dtype == np.float64 else 2e-4
    found = found.numpy()
    assert found.shape == np.shape(expected)
    assert found.dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", TYPES)
def test_inverses_and_determinants_are_numpys(dtype):
    a, b = some(2, 4, 4, dtype=dtype), some(2, 4, 3, dtype=dtype, seed=1)
    near(pf.linalg.inv(pf.tensor(a)), np.linalg.inv(a), dtype)
    near(pf.linalg.det(pf.tensor(a)), np.linalg.det(a), dtype)
    near(pf.linalg.solve(pf.tensor(a), pf.tensor(b)), np.linalg.solve(a, b), dtype)
    sign, size = pf.linalg.slogdet(pf.tensor(a))
    expected = np.linalg.slogdet(a)
    near(sign, expected.sign, dtype)
    near(size, expected.logabsdet, dtype)
    near(pf.linalg.matrix_power(pf.tensor(a), 3), np.linalg.matrix_power(a, 3), dtype)
    near(pf.linalg.pinv(pf.tensor(b)), np.linalg.pinv(b), dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_factors_multiply_to_the_matrix(dtype):
    a = some(2, 5, 3, dtype=dtype)
    x = pf.tensor(a)
    q, r = pf.linalg.qr(x)
    near(q @ r, a, dtype)
    u, values, vh = pf.linalg.svd(x, full_matrices=False)
    near((u * values.unsqueeze(-2)) @ vh, a, dtype)
    near(values, np.linalg.svd(a, compute_uv=False), dtype)
    square = a.conj().swapaxes(-1, -2) @ a + np.eye(3, dtype=dtype)
    near(pf.linalg.cholesky(pf.tensor(square)), np.linalg.cholesky(square), dtype)
    eigenvalues, vectors = pf.linalg.eigh(pf.tensor(square))
    near(eigenvalues, np.linalg.eigvalsh(square), dtype)
    near(pf.tensor(square) @ vectors, (vectors * eigenvalues.unsqueeze(-2)).numpy(), dtype)


def test_matrices_that_cannot_be_taken_apart_say_why():
    with pytest.raises(RuntimeError, match="inv: the matrix is singular"):
        pf.linalg.inv(pf.zeros(2, 2))
    with pytest.raises(RuntimeError, match="cholesky: the matrix is not positive definite"):
        pf.linalg.cholesky(-pf.eye(2))
    with pytest.raises(ValueError, match="not square"):
        pf.linalg.det(pf.ones(2, 3))
    with pytest.raises(TypeError, match="cast first"):
        pf.linalg.inv(pf.ones(2, 2, dtype=pf.int64))


@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
def test_matrix_norms_are_numpys(ord):
    a = some(3, 4, 2)
    near(pf.linalg.matrix_norm(pf.tensor(a), ord), np.linalg.norm(a, ord, axis=(-2, -1)), np.float64)
    near(pf.linalg.matrix_norm(pf.tensor(a), ord, (0, 1), True), np.linalg.norm(a, ord, axis=(0, 1), keepdims=True), np.float64)


@pytest.mark.parametrize("n", [None, 3, 8, 11])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_transforms_are_numpys(n, norm):
    x, real = some(3, 7, dtype=np.complex64), some(3, 7, dtype=np.float32)
    pairs = [("fft", x), ("ifft", x), ("rfft", real), ("irfft", x), ("hfft", x), ("ihfft", real)]
    for name, array in pairs:
        expected = getattr(np.fft, name)(array, n, -1, norm)
        found = getattr(pf.fft, name)(pf.tensor(array), n, -1, norm).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    for name in ("fftn", "ifftn"):
        expected = getattr(np.fft, name)(x, norm=norm)
        np.testing.assert_allclose(getattr(pf.fft, name)(pf.tensor(x), norm=norm).numpy(), expected, rtol=1e-4, atol=1e-5)


def test_a_transform_has_a_gradient():
    x = pf.tensor(some(6, dtype=np.float32), requires_grad=True)
    spectrum = pf.fft.rfft(x)
    (spectrum * spectrum.conj()).real.sum().backward()
    values = x.detach().numpy()
    # Parseval's theorem; the first and the last term have no mirror image.
    sign = np.array([1, -1] * 3)
    expected = 6 * values + values.sum() + sign * (sign * values).sum()
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n", [2, 4, 5, 6, 12])
def test_transforms_of_real_numbers_have_the_gradients_of_whole_ones(n):
    real, half = some(2, n, 3, dtype=np.float32), some(2, n // 2 + 1, 3, dtype=np.complex64)
    weights, more = pf.tensor(some(2, n // 2 + 1, 3, dtype=np.complex64)), pf.tensor(some(2, n, 3, dtype=np.float32))

    def whole(x):
        return pf.cat([x, x.narrow(1, 1, (n - 1) // 2).flip(1).conj()], 1) if n > 2 else x

    pairs = [
        (real, lambda x: pf.fft.rfft(x, dim=1) * weights, lambda x: pf.fft.fft(x, dim=1)[:, : n // 2 + 1] * weights),
        (half, lambda x: pf.fft.irfft(x, n, 1) * more, lambda x: pf.fft.ifft(whole(x), dim=1).real * more),
        (half, lambda x: pf.fft.hfft(x, n, 1) * more, lambda x: pf.fft.fft(whole(x), dim=1).real * more),
    ]
    for array, one, other in pairs:
        found = []
        for function in (one, other):
            x = pf.tensor(array, requires_grad=True)
            y = function(x)
            # The square, so that gradients of gradients are not zero.
            loss = (y * y.conj()).real.sum() if y.is_complex() else (y * y).sum()
            (gradient,) = pf.autograd.grad(loss, x, create_graph=True)
            square = (gradient * gradient.conj()).real.sum() if gradient.is_complex() else (gradient * gradient).sum()
            square.backward()
            found.append((y.detach().numpy(), gradient.detach().numpy(), x.grad.numpy()))
        for a, b in zip(*found):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4 * max(1, np.abs(b).max()))


def test_transforms_of_no_lines_are_empty():
    assert pf.fft.rfft(pf.zeros(0, 8)).shape == (0, 5)
    assert pf.fft.irfft(pf.fft.rfft(pf.zeros(0, 8))).shape == (0, 8)
    with pytest.raises(ValueError, match="at least one element"):
        pf.fft.irfft(pf.zeros(3, 1))


def test_transforms_of_nothing_are_errors_that_say_so():
    for function in (pf.fft.fft, pf.fft.ifft, pf.fft.rfft, pf.fft.ihfft, pf.fft.irfft, pf.fft.hfft):
        for norm in (None, "forward", "ortho"):
            with pytest.raises(ValueError, match="at least one element"):
                function(pf.zeros(3, 0), norm=norm)
    for function in (pf.fft.rfftn, pf.fft.irfftn):
        with pytest.raises(ValueError, match="at least one axis"):
            function(pf.ones(2, 2), dim=())
    with pytest.raises(ValueError, match="3 lengths for a tensor of 2 axes"):
        pf.fft.fftn(pf.ones(2, 2), s=(2, 2, 2))


def test_unique_elements_are_numpys():
    numbers = np.array([[3, 1, 2], [1, 3, 3]])
    values, inverse, counts = pf.unique(pf.tensor(numbers), return_inverse=True, return_counts=True)
    assert values.tolist() == [1, 2, 3] and counts.tolist() == [2, 1, 3]
    assert (values.numpy()[inverse.numpy()] == numbers).all()
    rows = np.array([[1, 2], [0, 5], [1, 2]])
    values, inverse = pf.tensor(rows).unique(dim=0, return_inverse=True)
    assert values.tolist() == [[0, 5], [1, 2]] and inverse.tolist() == [1, 0, 1]
    assert pf.unique(pf.tensor([float("nan"), 1.0, float("nan"), -0.0, 0.0])).shape == (4,)
    assert pf.unique(pf.tensor([2**63, 1, 2**63], dtype=pf.uint64)).tolist() == [1, 2**63]


@pytest.mark.parametrize(
    "equation, shapes",
    [
        ("...ij,...jk->...ik", [(2, 1, 2, 3), (4, 3, 2)]),
        ("...ij,...jk", [(2, 2, 3), (3, 2)]),
        ("ii", [(3, 3)]),
        ("...ii->...i", [(2, 3, 3)]),
        ("i...->...", [(3, 2)]),
        ("iji,j->i", [(2, 3, 2), (3,)]),
        ("b...,b...->b...", [(2, 3, 1), (2, 4)]),
    ],
)
def test_einsum_with_dots_and_diagonals_is_numpys(equation, shapes):
    arrays = [some(*shape, seed=n) for n, shape in enumerate(shapes)]
    near(pf.einsum(equation, *map(pf.tensor, arrays)), np.einsum(equation, *arrays), np.float64)


def test_gradients_have_gradients():
    x = pf.tensor([0.5, -1.0, 2.0], dtype=pf.float64, requires_grad=True)
    (first,) = pf.autograd.grad((x**3).sum(), x, create_graph=True)
    assert first.requires_grad
    (second,) = pf.autograd.grad(first.sum(), x, create_graph=True)
    (third,) = pf.autograd.grad(second.sum(), x)
    np.testing.assert_allclose(second.detach().numpy(), 6 * x.detach().numpy())
    np.testing.assert_allclose(third.numpy(), [6.0, 6.0, 6.0])
    assert not third.requires_grad
    x.exp().sum().backward(create_graph=True)
    x.grad.sum().backward()
    np.testing.assert_allclose(x.grad.detach().numpy(), 2 * np.exp(x.detach().numpy()))


def test_a_gradient_penalty_trains():
    pf.manual_seed(0)
    model = pf.nn.Sequential(pf.nn.Linear(4, 8), pf.nn.Tanh(), pf.nn.Linear(8, 1))
    optimizer = pf.optim.SGD(model.parameters(), lr=0.1)
    penalties = []
    for _ in range(20):
        x = pf.randn(16, 4, requires_grad=True)
        (slope,) = pf.autograd.grad(model(x).sum(), x, create_graph=True)
        penalty = ((pf.linalg.vector_norm(slope, dim=1) - 1) ** 2).mean()
        optimizer.zero_grad()
        penalty.backward()
        optimizer.step()
        penalties.append(penalty.item())
    assert penalties[-1] < 0.5 * penalties[0]


def test_gradients_of_what_was_computed_can_be_asked_for():
    x = pf.tensor([1.0, 2.0], requires_grad=True)
    middle = x * 3
    (found,) = pf.autograd.grad((middle**2).sum(), middle)
    assert found.tolist() == [6.0, 12.0]


def test_arrays_without_axes_count_in_the_standards_namespace():
    small, wide = xp.ones((3,), dtype=xp.int8), xp.asarray(1, dtype=xp.int32)
    assert xp.add(small, wide).dtype == xp.int32
    assert xp.sum(xp.ones((2,), dtype=xp.uint8)).dtype == xp.uint64
    assert xp.result_type(xp.uint16, xp.int16) == xp.int32
    assert xp.where(xp.asarray(True), small, wide).dtype == xp.int32


def test_the_standards_special_cases_hold():
    infinity = xp.asarray(xp.inf)
    assert xp.floor_divide(infinity, xp.asarray(2.0)).item() == xp.inf
    assert xp.signbit(xp.asarray(-0.0)).item() and not xp.signbit(xp.asarray(0.0)).item()
    assert not xp.signbit(xp.sign(xp.asarray(-0.0))).item()
    assert xp.round(xp.asarray(1.5 - 2.5j)).item() == 2 - 2j
    assert xp.repeat(xp.asarray([1, 2, 3]), xp.asarray([0, 2, 1])).tolist() == [2, 2, 3]
    assert xp.take_along_axis(xp.asarray([5, 6, 7]), xp.asarray([-1, 0])).tolist() == [7, 5]


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "log1p"])
def test_functions_of_complex_numbers_are_numpys_also_at_the_edges(name):
    parts = [0.0, -0.0, 0.5, -0.5, 1.0, -2.0, np.inf, -np.inf, np.nan]
    z = np.array([complex(re, im) for re in parts for im in parts], dtype=np.complex64)
    theirs = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh"}
    with np.errstate(all="ignore"):
        expected = getattr(np, theirs.get(name, name))(z)
    found = getattr(xp, name)(pf.tensor(z)).numpy()
    for part in ("real", "imag"):
        a, b = getattr(found, part), getattr(expected, part)
        # Signs that the standard leaves unspecified are not compared.
        finite = np.isfinite(a) & np.isfinite(b)
        np.testing.assert_allclose(a[finite], b[finite], rtol=1e-5, atol=1e-6, err_msg=str(z[finite]))
        assert (np.isnan(a) == np.isnan(b)).all(), z[np.isnan(a) != np.isnan(b)]


def test_indices_out_of_bounds_are_refused_with_operation_index_and_size():
    x, far, table = pf.zeros(3, 2), pf.tensor([0, 7]), pf.zeros(4, 2)
    for names, operation, call in [
        ("7 3", "index", lambda: x[far]),
        ("-4 3", "index", lambda: x[[0, -4]]),
        ("5 3", "select", lambda: x[5]),
        ("2 2", "select", lambda: x[0, 2]),
        ("7 4", "embedding", lambda: pf.embedding(far, table)),
        ("7 3", "index", lambda: x.__setitem__(far, 1.0)),
    ]:
        index, size = names.split()
        with pytest.raises(IndexError) as caught:
            call()
        text = str(caught.value)
        assert text.startswith(operation + ":") and f"index {index} " in text and size in text.split("bounds")[1], text
    assert (x == 0).all()


def test_a_mask_without_elements_chooses_nothing():
    assert pf.zeros(0, 3)[pf.zeros(0, 0, dtype=pf.bool_)].shape == (0,)
