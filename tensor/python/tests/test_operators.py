"""Arguments and edge cases of operations that PyTorch users rely on, against NumPy or explicit values."""

import numpy as np
import pytest

import pyflame as pf
import pyflame.nn.functional as F


def test_max_pools_say_where_the_largest_were(device):
    x = pf.tensor(np.random.default_rng(0).permutation(2 * 3 * 7 * 6).reshape(2, 3, 7, 6).astype(np.float32), requires_grad=True)
    values, indices = F.max_pool2d(x, (3, 2), stride=2, padding=1, dilation=(1, 2), ceil_mode=True, return_indices=True)
    assert indices.dtype is pf.int64
    flat = x.detach().numpy().reshape(2, 3, -1)
    assert (np.take_along_axis(flat, indices.numpy().reshape(2, 3, -1), 2).reshape(values.shape) == values.detach().numpy()).all()
    values.sum().backward()
    counts = np.zeros_like(flat)
    for sample in range(2):
        for channel in range(3):
            np.add.at(counts[sample, channel], indices.numpy()[sample, channel].reshape(-1), 1)
    assert (x.grad.numpy().reshape(2, 3, -1) == counts).all()


def test_the_frame_of_a_max_pool_is_never_chosen(device):
    lowest = pf.full((1, 1, 3), float("-inf"))
    assert F.max_pool1d(lowest, 3, 1, 1, return_indices=True)[1].tolist() == [[[0, 0, 1]]]
    unknown = pf.tensor([[[1.0, float("nan"), 3.0, 4.0]]])
    assert F.max_pool1d(unknown, 2, return_indices=True)[1].tolist() == [[[1, 3]]]


def test_pools_take_a_divisor_integers_and_the_inputs_own_size(device):
    x = pf.arange(8).reshape(1, 1, 8)
    assert F.avg_pool1d(x - 4, 2).tolist() == [[[-3, -1, 0, 2]]]
    assert F.avg_pool2d(pf.ones(1, 4, 4), 2, divisor_override=8).tolist() == [[[0.5, 0.5], [0.5, 0.5]]]
    assert F.avg_pool2d(pf.ones(1, 4, 4), 2, stride=()).shape == (1, 2, 2)
    assert F.adaptive_avg_pool2d(pf.ones(1, 4, 6), (None, 3)).shape == (1, 4, 3)
    assert F.adaptive_avg_pool3d(pf.ones(1, 4, 6, 5), (None, None, 3)).shape == (1, 4, 6, 3)
    with pytest.raises(ValueError):
        F.max_pool1d(pf.ones(0, 10), 1)
    with pytest.raises(ValueError):
        F.avg_pool2d(pf.ones(1, 4, 4), 2, divisor_override=0)


def test_axes_and_lengths_may_be_named(device):
    x = pf.arange(6).reshape(shape=(2, 3))
    assert x.flip(dims=(0, 1)).tolist() == [[5, 4, 3], [2, 1, 0]] and x.permute(dims=(1, 0)).shape == (3, 2)
    assert x.tile(dims=(2,)).shape == (2, 6) and x[:1].expand(size=(4, 3)).shape == (4, 3)
    with pytest.raises(TypeError):
        x.flip(0, dims=(1,))


@pytest.mark.parametrize("p", [0, 1, 2, 3, 2.5, float("inf"), float("-inf"), "fro"])
def test_norms_are_numpys_and_have_no_slope_at_zero(device, p):
    values = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
    order = 2 if p == "fro" else p
    np.testing.assert_allclose(pf.tensor(values).norm(p, 1).numpy(), np.linalg.norm(values, order, 1), rtol=2e-6)
    zeros = pf.zeros(3, requires_grad=True)
    if p not in (0, float("inf"), float("-inf")):
        zeros.norm(p).backward()
        assert zeros.grad.tolist() == [0, 0, 0]


def test_lengths_of_half_numbers_do_not_overflow(device):
    assert pf.full((4,), 300.0, dtype=pf.float16).norm().item() == 600.0


def test_gelu_of_brain_floats_is_rounded_once(device):
    x = pf.linspace(-4, 4, 100).bfloat16()
    assert (pf.gelu(x) == pf.gelu(x.float()).bfloat16()).all().item()


def test_variances_take_a_bool_in_front_and_complex_numbers(device):
    x = pf.tensor([[1.0, 2.0], [3.0, 5.0]])
    assert x.var(False).item() == pytest.approx(np.var(x.numpy())) and x.std(False).shape == ()
    z = np.array([1 + 2j, 3 - 1j, 0 + 1j], np.complex64)
    assert pf.tensor(z).var(unbiased=False).item() == pytest.approx(np.var(z), rel=1e-6)


def test_results_have_the_type_that_was_asked_for(device):
    x = pf.tensor([1, 2, 3], dtype=pf.int8)
    assert x.sum(dtype=pf.int8).dtype is pf.int8 and x.prod(dtype=pf.uint8).dtype is pf.uint8
    assert x.cumsum(0, dtype=pf.int16).dtype is pf.int16 and pf.tensor([True]).square().dtype is pf.int64
    assert F.hardtanh(pf.tensor([-3, 0, 7]), -0.5, 2.5).tolist() == [0, 0, 2]


def test_numbers_are_vectors_of_one_where_elements_are_looked_up(device):
    x = pf.tensor(4.0)
    assert x.gather(0, pf.tensor([0])).tolist() == [4.0] and x.index_select(0, pf.tensor([0])).shape == ()
    assert x.unfold(0, 1, 1).tolist() == [4.0] and x.mT.item() == 4.0
    for refused in (lambda: x.unbind(0), lambda: x.index_select(0, pf.tensor([0, 0]))):
        with pytest.raises(IndexError):
            refused()


def test_scatter_takes_a_number_and_adds(device):
    x, index = pf.ones(3, dtype=pf.int8), pf.tensor([0, 2])
    assert x.scatter(0, index, 5).tolist() == [5, 1, 5] and x.scatter(0, index, 5).dtype is pf.int8
    assert pf.ones(3).scatter(0, index, pf.tensor([2.0, 3.0]), reduce="add").tolist() == [3, 1, 4]
    with pytest.raises(ValueError):
        pf.ones(3).scatter(0, index, 1.0, reduce="mean")


def test_masks_broadcast_and_values_are_one_number(device):
    x = pf.tensor([[1, 2], [3, 4]])
    assert x.masked_select(pf.tensor([True, False])).tolist() == [1, 3]
    assert pf.tensor([5]).masked_select(pf.tensor([[True], [True]])).tolist() == [5, 5]
    with pytest.raises(ValueError):
        x.masked_fill(pf.tensor(True), pf.tensor([1]))
    with pytest.raises(TypeError):
        x.masked_fill(pf.tensor(True), 1j)


@pytest.mark.parametrize("mode, numpys", [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")])
def test_frames_of_all_modes_are_numpys(device, mode, numpys):
    values = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    expected = np.pad(values, ((0, 0), (0, 0), (1, 2), (3, 0)), mode=numpys)
    x = pf.tensor(values, requires_grad=True)
    framed = F.pad(x, (3, 0, 1, 2), mode=mode)
    assert (framed.detach().numpy() == expected).all()
    framed.sum().backward()
    assert x.grad.sum().item() == expected.size
    assert (F.pad(pf.tensor(values[0]), (-1, 2), mode=mode).numpy()[..., :3] == values[0, ..., 1:]).all()
    with pytest.raises(ValueError):
        F.pad(pf.tensor(values), (1, 1, 1, 1, 1, 1, 1, 1), mode=mode)


def test_instance_norm_keeps_and_uses_running_statistics(device):
    x = pf.tensor(np.random.default_rng(2).standard_normal((2, 3, 8)).astype(np.float32))
    mean, variance = pf.zeros(3), pf.ones(3)
    F.instance_norm(x, mean, variance, momentum=0.5)
    np.testing.assert_allclose(mean.numpy(), x.numpy().mean((0, 2)) / 2, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(variance.numpy(), 0.5 + x.numpy().var(2, ddof=1).mean(0) / 2, rtol=1e-5)
    used = F.instance_norm(x, pf.ones(3), pf.full((3,), 4.0), use_input_stats=False, eps=0.0)
    np.testing.assert_allclose(used.numpy(), (x.numpy() - 1) / 2, rtol=1e-6, atol=1e-6)
    with pytest.raises(ValueError):
        F.instance_norm(x, use_input_stats=False)


def test_rounding_repeating_and_finding_take_pytorchs_arguments(device):
    assert pf.tensor([1.2345, -2.3456], dtype=pf.float64).round(decimals=2).tolist() == [1.23, -2.35]
    assert pf.tensor([1234.0]).round(decimals=-2).tolist() == [1200.0]
    x = pf.tensor([[1, 2], [3, 4]])
    assert x.repeat_interleave(pf.tensor([1, 2]), 0).tolist() == [[1, 2], [3, 4], [3, 4]]
    assert x.repeat_interleave(pf.tensor([2])).tolist() == [1, 1, 2, 2, 3, 3, 4, 4]
    rows, columns = (x > 2).nonzero(as_tuple=True)
    assert rows.tolist() == [1, 1] and columns.tolist() == [0, 1]
    with pytest.raises(ValueError):
        x.repeat_interleave(pf.tensor([1, 2, 3]), 0)
    with pytest.raises(ValueError):
        x.movedim((0, 0), (0, 1))


def test_patterns_of_integers_are_whole_steps(device):
    assert pf.linspace(0, -3, 50, dtype=pf.int32).tolist() == np.trunc(np.linspace(0, -3, 50)).astype(int).tolist()
    assert pf.linspace(0, 1, 1).tolist() == [0.0] and pf.linspace(2, 3, 0).shape == (0,)
    assert pf.arange(-0.9, 2.1, 2.0, dtype=pf.int32).tolist() == [0, 2]
    assert pf.arange(0.0, -8.000001, -4.0, dtype=pf.int64).tolist() == [0, -4]
    for refused in (lambda: pf.linspace(0, 1, -1), lambda: pf.eye(-1), lambda: pf.zeros(3).uniform_(3, -1)):
        with pytest.raises(ValueError):
            refused()


@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_grids_are_numpys(device, indexing):
    x, y, z = np.arange(3), np.arange(2), np.arange(4)
    for ours, numpys in zip(pf.meshgrid(*map(pf.tensor, (x, y, z)), indexing=indexing), np.meshgrid(x, y, z, indexing=indexing)):
        assert (ours.numpy() == numpys).all()


def test_closeness_is_between_tensors_of_one_type(device):
    infinite = pf.tensor([1.0, float("inf"), float("nan")])
    assert pf.isclose(pf.tensor([1.0, 5.0, float("nan")]), infinite, equal_nan=True).tolist() == [True, False, True]
    assert pf.isclose(pf.tensor([True, False]), pf.tensor([True, True])).tolist() == [True, False]
    assert pf.isclose(pf.tensor([100, 7]), pf.tensor([101, 7]), rtol=0.02).tolist() == [True, True]
    for refused in (lambda: pf.isclose(infinite, 2), lambda: pf.isclose(infinite, infinite.double())):
        with pytest.raises(TypeError):
            refused()
    with pytest.raises(ValueError):
        pf.isclose(infinite, infinite, rtol=-1)


def test_no_differences_are_the_input(device):
    x = pf.tensor([1, 4, 9])
    assert pf.array_api.diff(x, n=0, append=x).tolist() == [1, 4, 9]
    assert pf.array_api.diff(x, prepend=pf.tensor([0])).tolist() == [1, 3, 5]
    assert pf.array_api.diff(x > 2).tolist() == [True, False]


def test_layers_refuse_what_does_not_fit(device):
    x = pf.ones(2, 4, 4)
    for refused, error in (
        (lambda: F.conv2d(x, pf.ones(3, 2, 3, 3), pf.ones(3, dtype=pf.float64)), TypeError),
        (lambda: F.prelu(x, pf.ones(2, 2)), ValueError),
        (lambda: F.prelu(pf.tensor(1.0), pf.ones(2)), ValueError),
        (lambda: F.huber_loss(x, x, delta=0), ValueError),
        (lambda: x.norm("nuc"), ValueError),
    ):
        with pytest.raises(error):
            refused()


def test_similarity_is_of_what_both_broadcast_to(device):
    a, b = np.ones((2, 3), np.float32), np.array([[1.0, 2.0, 2.0]], np.float32)
    np.testing.assert_allclose(F.cosine_similarity(pf.tensor(a), pf.tensor(b)).numpy(), [5 / 3 / np.sqrt(3)] * 2, rtol=1e-6)
    np.testing.assert_allclose(F.cosine_similarity(pf.tensor(b), pf.tensor(a), dim=0).numpy(), [1, 1, 1], rtol=1e-6)
