"""Names of PyTorch that are compositions here, against NumPy."""

import math

import numpy as np
import pytest

import pyflame as pf
import pyflame.nn as nn
import pyflame.nn.functional as F


def _same(found, wanted, tolerance=1e-5):
    np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=tolerance, atol=tolerance)


def test_in_place_methods_change_the_tensor_and_its_views(device):
    x = pf.tensor([[1.0, 4.0], [9.0, 16.0]])
    row = x[1]
    assert x.sqrt_() is x and row.tolist() == [3.0, 4.0]
    row.add_(pf.ones(2), alpha=2).sub_(1, alpha=3)
    assert x.tolist() == [[1.0, 2.0], [2.0, 3.0]]
    x.addcmul_(x, x, value=2).masked_fill_(x > 20, 0).clamp_min_(4)
    assert x.tolist() == [[4.0, 10.0], [10.0, 4.0]]
    assert x.t_().shape == (2, 2) and x.unsqueeze_(0).shape == (1, 2, 2) and x.squeeze_().ndim == 2
    leaf = pf.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError):
        leaf.exp_()
    with pf.no_grad():
        leaf.exp_()
    (leaf.detach().clone().requires_grad_() * 1).sigmoid_().sum().backward()
    assert (pf.ones(3) * 2).detach_().tolist() == [2.0] * 3


def test_new_tensors_take_type_and_device():
    x = pf.ones(2, dtype=pf.float64)
    for made in (x.new_zeros(2, 3), x.new_ones((2, 3)), x.new_full((2, 3), 7), x.new_empty(2, 3), x.new_tensor([[1, 2, 3]] * 2)):
        assert made.dtype is pf.float64 and made.shape == (2, 3)
    assert x.device.type == "cpu" and x.device == "cpu" and pf.device("rocm:1").index == 1 and pf.device("cpu").index is None


def test_axis_and_dim_are_the_same(device):
    x = pf.arange(6, dtype=pf.float32).reshape(2, 3)
    assert x.sum(axis=1).tolist() == x.sum(dim=1).tolist() and x.mean(axis=0, keepdims=True).shape == (1, 3)
    assert x.max(axis=1).values.tolist() == [2.0, 5.0] and x.argmax(axis=0).tolist() == [1, 1, 1]
    assert pf.cat([x, x], axis=1).shape == (2, 6) and x.unsqueeze(axis=0).squeeze(axis=0).shape == (2, 3)
    assert x.softmax(axis=1).shape == (2, 3) and x.cumsum(axis=0).tolist()[1] == [3.0, 5.0, 7.0]
    with pytest.raises(TypeError):
        x.sum(dim=0, axis=0)
    with pytest.raises(TypeError):
        x.cumsum()


def test_elementwise_functions_are_numpys(device):
    a = np.array([-1.7, -0.3, 0.0, 0.4, 2.6], np.float32)
    x = pf.tensor(a)
    _same(x.frac(), a - np.trunc(a))
    _same(x.fmod(0.5), np.fmod(a, 0.5))
    _same(x.sinc(), np.sinc(a))
    _same(pf.lerp(x, x + 2, 0.25), a + 0.5)
    _same(x.heaviside(pf.tensor(0.5)), np.heaviside(a, 0.5))
    _same(pf.tensor([math.nan, math.inf, 1.0]).nan_to_num(2.0, posinf=9.0), [2, 9, 1])
    _same(pf.erfinv(pf.tensor([0.5, -0.999, 1.0, 0.0])), [0.476936, -2.326754, math.inf, 0])
    _same(pf.tensor([12, 18, 0]).gcd(pf.tensor([8, 27, 5])), [4, 9, 5])
    mantissa, exponent = pf.frexp(pf.tensor([8.0, 0.3, -1.0]))
    _same(mantissa, np.frexp(np.array([8.0, 0.3, -1.0]))[0])
    assert exponent.tolist() == [4, -1, 1]
    y = pf.tensor([0.3], dtype=pf.float64, requires_grad=True)
    pf.erfinv(y).backward()
    _same(y.grad, [math.sqrt(math.pi) / 2 * math.exp(0.2724627147267544**2)])


def test_statistics_are_numpys(device):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((5, 7)).astype(np.float32)
    x = pf.tensor(a)
    _same(pf.quantile(x, 0.3, dim=1), np.quantile(a, 0.3, axis=1))
    _same(pf.quantile(x, pf.tensor([0.1, 0.5]), dim=0), np.quantile(a, [0.1, 0.5], axis=0))
    assert x.median().item() == np.sort(a.ravel())[17] and x.median(1).indices[0].item() == np.argsort(a[0])[3]
    _same(pf.cov(x), np.cov(a), 1e-4)
    _same(pf.corrcoef(x), np.corrcoef(a), 1e-4)
    _same(x.cummax(1).values, np.maximum.accumulate(a, 1))
    _same(pf.diff(x, n=2), np.diff(a, 2))
    edges = np.sort(a[0])
    for right in (False, True):
        found = pf.searchsorted(pf.tensor(edges), x, right=right)
        np.testing.assert_array_equal(found.numpy(), np.searchsorted(edges, a, side="right" if right else "left"))
    assert pf.bincount(pf.tensor([1, 2, 2, 5])).tolist() == [0, 1, 2, 0, 0, 1]
    assert pf.mode(pf.tensor([[3, 1, 1, 3, 0]])).values.tolist() == [1]
    values, inverse, counts = pf.unique_consecutive(pf.tensor([1, 1, 2, 1]), return_inverse=True, return_counts=True)
    assert (values.tolist(), inverse.tolist(), counts.tolist()) == ([1, 2, 1], [0, 0, 1, 2], [2, 1, 1])


def test_shapes_and_parts_are_numpys(device):
    a = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    x = pf.tensor(a)
    for k in range(-1, 4):
        _same(pf.rot90(x, k), np.rot90(a, k))
    for ours, theirs in zip(x.tensor_split(3, 1), np.array_split(a, 3, 1)):
        _same(ours, theirs)
    for offset in (-1, 0, 2):
        _same(pf.diag(pf.tensor([1.0, 2.0]), offset), np.diag([1.0, 2.0], offset))
    _same(pf.kron(x, pf.ones(1, 2)), np.kron(a, np.ones((1, 2))))
    _same(pf.tensordot(x, x, ([1], [1])), a @ a.T)
    _same(pf.index_add(x, 0, pf.tensor([0, 0]), pf.ones(2, 4)), a + np.array([[2], [0], [0]]))
    assert x.scatter_reduce(1, pf.tensor([[0, 0], [1, 1], [2, 2]]), pf.full((3, 2), 50.0), "amax")[0, 0].item() == 50.0
    assert pf.block_diag(x, pf.ones(1, 1)).shape == (4, 5) and pf.combinations(pf.arange(4)).shape == (6, 2)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic", "area"])
def test_interpolation_keeps_linear_images(device, mode):
    ramp = pf.arange(8, dtype=pf.float32).reshape(1, 1, 1, 8).expand(1, 1, 6, 8).clone()
    same = F.interpolate(ramp, size=(6, 8), mode=mode)
    _same(same, ramp.numpy())
    if mode == "bilinear":
        _same(F.interpolate(ramp, size=(6, 15), mode=mode, align_corners=True)[0, 0, 0], np.arange(15) / 2)
    if mode == "nearest":
        _same(F.interpolate(ramp, scale_factor=2)[0, 0, 0], np.repeat(np.arange(8), 2))
    if mode == "area":
        _same(F.interpolate(ramp, size=(3, 4), mode=mode)[0, 0, 0], [0.5, 2.5, 4.5, 6.5])
    x = pf.randn(1, 2, 5, 5, requires_grad=True)
    F.interpolate(x, scale_factor=1.6, mode=mode).sum().backward()
    assert x.grad.shape == x.shape and x.grad.sum().item() == pytest.approx(2 * 64, rel=1e-4) or mode == "area"


def test_windows_and_grids_are_inverses(device):
    x = pf.randn(2, 3, 6, 5)
    columns = F.unfold(x, (2, 3), padding=1, stride=2)
    covered = F.fold(F.unfold(pf.ones(2, 3, 6, 5), (2, 3), padding=1, stride=2), (6, 5), (2, 3), padding=1, stride=2)
    _same(F.fold(columns, (6, 5), (2, 3), padding=1, stride=2), (x * covered).numpy(), 1e-4)
    identity = pf.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]] * 2)
    _same(F.grid_sample(x, F.affine_grid(identity, x.shape, align_corners=True), align_corners=True), x.numpy(), 1e-4)
    _same(F.pixel_unshuffle(F.pixel_shuffle(pf.randn(1, 8, 2, 3) * 0 + 2, 2), 2), np.full((1, 8, 2, 3), 2.0))


def test_losses_and_layers_have_their_formulas():
    x = pf.tensor([[1.0, -2.0, 3.0]])
    _same(nn.RMSNorm(3)(x), x.numpy() / np.sqrt(14 / 3))
    _same(F.glu(pf.tensor([2.0, 0.0])), [1.0])
    _same(F.softshrink(x), [[0.5, -1.5, 2.5]])
    _same(nn.ReflectionPad1d(1)(x.unsqueeze(0)), [[[-2, 1, -2, 3, -2]]])
    _same(nn.TripletMarginLoss(margin=0.5)(x, x, x + 1), 0.0, 1e-4)
    # Two alignments of "a" in two steps with a blank: aa, a-, -a.
    logs = pf.tensor([[[0.4, 0.6]], [[0.3, 0.7]]]).log()
    loss = F.ctc_loss(logs, pf.tensor([[1]]), [2], [1])
    assert loss.item() == pytest.approx(-math.log(0.6 * 0.7 + 0.6 * 0.3 + 0.4 * 0.7), rel=1e-5)
    table = nn.Embedding(4, 2, padding_idx=0)
    assert table(pf.tensor([0])).abs().sum().item() == 0
    assert F.relu(x.clone(), inplace=True).tolist() == [[1.0, 0.0, 3.0]]
    net = nn.Sequential(nn.Linear(1, 2), nn.ReLU())
    net.insert(1, nn.Tanh())
    assert [type(layer).__name__ for layer in net] == ["Linear", "Tanh", "ReLU"] and net.get_parameter("0.bias") is net[0].bias
