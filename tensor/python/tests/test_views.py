"""Views share elements: writes through them, against NumPy, and gradients of writes."""

import gc

import numpy as np
import pytest

import pyflame as pf


def ramp(*shape):
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


def row_by_row(x):
    for row in x:
        row[...] = 4


# A write to the array or tensor `x`, in words that both have, or one for each.
WRITES = {
    "x[0][1] = 5": lambda x: x[0].__setitem__(1, 5),
    "x[0] = row": lambda x: x.__setitem__(0, x[2] * 2),
    "x[1:2] += 1": lambda x: x[1:2].__iadd__(1),
    "x.T[0] = 7": lambda x: x.T.__setitem__(0, 7),
    "x[::2, ::-1] *= 3": lambda x: x[::2, ::-1].__imul__(3),
    "for row in x": row_by_row,
    "x.T[1:3][0] -= x": lambda x: x.T[1:3][0].__isub__(x[:, 0]),
    "x[0:2] = x[1:3]": lambda x: x.__setitem__(slice(0, 2), x[1:3]),
    "x[1:3] = x[0:2]": lambda x: x.__setitem__(slice(1, 3), x[0:2]),
    "x[None, 1, ..., None][0] = 1": lambda x: x[None, 1, ..., None][0].__setitem__(Ellipsis, 1),
    "x[:, 1][x[:, 1] > 3] = 0": lambda x: x[:, 1].__setitem__(x[:, 1] > 3, 0),
    "x[1:][[0, 1], [2, 0]] = 9": lambda x: x[1:].__setitem__(([0, 1], [2, 0]), 9),
    "x[2:2] = 1": lambda x: x.__setitem__(slice(2, 2), 1),
    "x[...] = 2": lambda x: x.__setitem__(Ellipsis, 2),
    "x[1, 2] += 1": lambda x: x.__setitem__((1, 2), x[1, 2] + 1),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("evaluated", [True, False], ids=["evaluated", "pending"])
def test_a_write_through_a_view_changes_the_tensor(device, name, evaluated):
    expected = ramp(3, 4)
    WRITES[name](expected)
    x = pf.tensor(ramp(3, 4)) if evaluated else pf.tensor(ramp(3, 4)) + 0
    seen = [x.view(-1), x.T, x.detach(), x.data[1], x[:, ::2]]
    WRITES[name](x)
    np.testing.assert_array_equal(x.numpy(), expected)
    for view, wanted in zip(seen, [expected.ravel(), expected.T, expected, expected[1], expected[:, ::2]]):
        np.testing.assert_array_equal(view.numpy(), wanted)


def test_methods_in_place_change_what_they_are_views_of(device):
    x = pf.zeros(4, 4)
    x.diagonal().fill_(1)
    x.narrow(0, 2, 2).copy_(pf.tensor(ramp(4)))
    x[0].copy_(pf.tensor([5.0, 6.0, 7.0, 8.0]))
    x[1:2].add_(1)
    x.permute(1, 0)[3].mul_(10)
    x.unsqueeze(1).select(2, 0).sub_(1)
    expected = np.eye(4, dtype=np.float32)
    expected[2:4] = ramp(4)
    expected[0] = [5, 6, 7, 8]
    expected[1:2] += 1
    expected[:, 3] *= 10
    expected[:, 0] -= 1
    np.testing.assert_array_equal(x.numpy(), expected)
    y = pf.zeros(6)
    y.unfold(0, 2, 2)[1].fill_(3)
    y.reshape(2, 3).T[2].add_(1)
    first, second = y.chunk(2)
    first.clamp_(max=0.5)
    assert y.tolist() == [0, 0, 0.5, 3, 0, 1] and second.tolist() == [3, 0, 1]


def test_data_of_parameters_and_gradients_is_theirs(device):
    layer = pf.nn.Linear(3, 2)
    layer.weight.data.zero_()
    layer.bias.data.fill_(2)
    layer.weight.data[0] = pf.tensor([1.0, 2.0, 3.0])
    assert layer.weight.tolist() == [[1, 2, 3], [0, 0, 0]] and layer.bias.tolist() == [2, 2]
    layer(pf.ones(1, 3)).sum().backward()
    layer.weight.grad.data.mul_(3)
    layer.bias.grad.detach().zero_()
    assert layer.weight.grad.tolist() == [[3, 3, 3], [3, 3, 3]] and layer.bias.grad.tolist() == [0, 0]
    state = layer.state_dict()
    with pf.no_grad():
        layer.weight[1] = 4
        layer.weight.T.mul_(2)
    assert state["weight"].tolist() == [[2, 4, 6], [8, 8, 8]]
    given = pf.zeros(2)
    parameter = pf.nn.Parameter(given)
    given.add_(1)
    assert parameter.tolist() == [1, 1]
    before = parameter.data
    parameter.data = pf.tensor([7.0, 8.0])
    assert before.tolist() == [1, 1] and parameter.tolist() == [7, 8]


def test_an_optimizer_changes_the_elements_that_others_share(device):
    w = pf.tensor([1.0, 2.0, 3.0], requires_grad=True)
    seen, tail = w.detach(), w.detach()[1:]
    for optimizer in (pf.optim.SGD([w], lr=0.1, momentum=0.9), pf.optim.Adam([w], lr=0.1), pf.optim.RMSprop([w], lr=0.1)):
        before = w.tolist()
        (w * w).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        assert w.grad.tolist() == [0, 0, 0] and w.tolist() != before
        assert seen.tolist() == w.tolist() and tail.tolist() == w.tolist()[1:]


def test_what_is_not_a_view_does_not_share(device):
    x = pf.tensor(ramp(1, 4))
    results = [
        x.clone(), pf.tensor(x), x.sum(0), x.flip(1), x[[0]], x.floor(), x.reshape(4)[x.reshape(4) > 0], x + 0,
        pf.tensor(x).detach(), pf.cat([x]), x.expand(2, 4).reshape(8), x.mean(0), x.abs(), x.tile(1), x.double().float(),
    ]  # fmt: skip
    for result in results:
        result.zero_()
    assert x.tolist() == ramp(1, 4).tolist()
    kept = [x.clone(), x.sum(0), pf.tensor(x)]
    x.zero_()
    assert [value.sum().item() for value in kept] == [10, 10, 10]


def test_values_computed_before_a_write_keep_the_old_elements(device):
    x = pf.tensor(ramp(3, 3))
    total, doubled = x.sum(), x * 2
    x[0] = 0
    half = x.sum()
    x[1] = 0
    assert (total.item(), half.item(), x.sum().item()) == (45, 39, 24)
    assert doubled.tolist() == (ramp(3, 3) * 2).tolist()


def test_constants_are_shared_too(device):
    x = pf.ones(2, 3)
    top, flat = x[0], x.view(6)
    flat[4] = 5
    top.fill_(2)
    assert x.tolist() == [[2, 2, 2], [1, 5, 1]]
    y = pf.zeros(2).expand(3, 2)
    with pytest.raises(RuntimeError, match="more than one element"):
        y.add_(1)
    with pytest.raises(RuntimeError, match="more than one element"):
        pf.arange(4).unfold(0, 2, 1).zero_()


def test_a_view_outlives_its_tensor(device):
    x = pf.tensor(ramp(3, 4))
    row, column = x[1], x[:, 1]
    del x
    gc.collect()
    row.mul_(2)
    assert column.tolist() == [2, 12, 10] and row.tolist() == [10, 12, 14, 16]


def test_writes_reach_a_tensor_that_another_device_computes_with(gpu):
    pf.set_device("cpu")
    x = pf.tensor(ramp(2, 2))
    pf.set_device("rocm")
    x[0].fill_(9)
    x.T[1].add_(1)
    assert x.tolist() == [[9, 10], [3, 5]] and (x * 2).device == "rocm:0"


@pytest.mark.parametrize("dtype", ["bool_", "uint8", "int16", "int64", "float16", "bfloat16", "float64", "complex64"])
def test_slices_of_every_type_are_written(device, dtype):
    dtype = getattr(pf, dtype)
    x = pf.zeros(3, 5, dtype=dtype)
    x[1:, 1::2] = pf.ones(2, 2, dtype=dtype)
    x.T[4] = 1
    expected = np.zeros((3, 5))
    expected[1:, 1::2] = expected[:, 4] = 1
    np.testing.assert_array_equal(np.asarray(x.to(pf.complex64)).real, expected)


def test_assigning_rows_costs_the_rows_and_not_the_tensor(device):
    x = pf.tensor(ramp(64, 64))
    row = pf.tensor(ramp(64))
    pf.eval(x, row)
    x[3] = row
    launches = pf.explain(x).launches
    assert [launch["kind"] for launch in launches] == ["write"]
    assert launches[0]["bytes_read"] == launches[0]["bytes_written"] == 64 * 4


def test_rows_are_written_to_the_memory_of_the_tensor(gpu):
    x = pf.tensor(ramp(256, 256))
    pf.eval(x)
    stats = pf.backend.rocm.get_memory_manager().get_stats
    used = stats()["total_allocated"]
    pf.backend.rocm.get_memory_manager().reset_stats()
    for n in range(20):
        x[n] = float(n)
        pf.eval(x)
    # A second copy of the tensor never existed.
    assert stats()["peak_allocated"] < used + 256 * 256 * 4
    assert (x[:20, 0].numpy() == np.arange(20)).all()


# Gradients: a program with writes, and one without that computes the same.


def gradient_of(program, *shapes):
    inputs = [pf.tensor(np.sin(ramp(*shape) + n), requires_grad=True) for n, shape in enumerate(shapes)]
    result = program(*inputs)
    (result * pf.tensor(np.cos(ramp(*result.shape)))).sum().backward()
    return result.detach().numpy(), [None if x.grad is None else x.grad.numpy() for x in inputs]


def base(x):
    """A tensor that gradients flow through and that may be written."""
    return x * 1.5


def row_written(x, y):
    z = base(x)
    z[1] = y
    return z


def row_multiplied(x, y):
    z = base(x)
    z[1].mul_(y)
    return z


def view_read_after(x, y):
    z = base(x)
    view = z.T
    z[1] = y * y
    return view * 2


def two_views(x, y):
    z = base(x)
    first, second = z[1], z[:, 1]
    first.mul_(y)
    second.add_(1)
    return z * first


def zeros_filled(x, y):
    z = pf.zeros(3, 4)
    z[0] = y
    z[1:] = x[:2]
    return z.exp()


def whole_in_place(x, y):
    z = base(x)
    view = z[0]
    z.mul_(z)
    return z + view * y


def into_detached_view(x, y):
    z = pf.zeros(4, 5).T[1:].detach()
    z[:3].copy_(x[:, :4])
    z[2].mul_(y)
    return z[:3] * 2


def filled(x, y):
    z = base(x)
    z[0].fill_(3)
    return z * y


EQUAL = {
    row_written: lambda x, y: pf.cat([x[:1] * 1.5, y.unsqueeze(0), x[2:] * 1.5]),
    row_multiplied: lambda x, y: pf.cat([x[:1] * 1.5, x[1:2] * 1.5 * y, x[2:] * 1.5]),
    view_read_after: lambda x, y: pf.cat([x[:1] * 1.5, (y * y).unsqueeze(0), x[2:] * 1.5]).T * 2,
    two_views: lambda x, y: (lambda z: z * z[1])(
        pf.cat([x[:1] * 1.5, x[1:2] * 1.5 * y, x[2:] * 1.5]) + pf.tensor([0.0, 1.0, 0.0, 0.0])
    ),
    zeros_filled: lambda x, y: pf.cat([y.unsqueeze(0), x[:2]]).exp(),
    whole_in_place: lambda x, y: (x * 1.5) ** 2 + (x[0] * 1.5) ** 2 * y,
    into_detached_view: lambda x, y: pf.cat([x[:2], (x[2] * y).unsqueeze(0)]) * 2,
    filled: lambda x, y: pf.cat([pf.full((1, 4), 3.0), x[1:] * 1.5]) * y,
}


@pytest.mark.parametrize("program", EQUAL, ids=lambda program: program.__name__)
def test_gradients_flow_through_writes(device, program):
    value, gradients = gradient_of(program, (3, 4), (4,))
    same_value, same_gradients = gradient_of(EQUAL[program], (3, 4), (4,))
    np.testing.assert_allclose(value, same_value, rtol=1e-5)
    for got, wanted in zip(gradients, same_gradients):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_second_gradients_flow_through_writes(device):
    def second(program):
        x = pf.tensor([0.5, 1.5, 2.5], requires_grad=True)
        slope, = pf.autograd.grad((program(x) ** 3).sum(), x, create_graph=True)
        return pf.autograd.grad((slope * slope).sum(), x)[0].tolist()

    def written(x):
        z = pf.zeros(3)
        z[:2] = x[1:]
        z[1].mul_(x[0])
        return z

    plain = second(lambda x: pf.stack([x[1], x[2] * x[0]]))
    np.testing.assert_allclose(second(written), plain, rtol=1e-5)


def test_a_leaf_that_requires_a_gradient_is_not_written(device):
    w = pf.ones(3, requires_grad=True)
    writes = [lambda: w.add_(1), lambda: w[0].fill_(1), lambda: w.__setitem__(0, 1.0), lambda: w.view(3).mul_(2)]
    for write in writes:
        with pytest.raises(RuntimeError, match="leaf"):
            write()
    assert w.tolist() == [1, 1, 1]
    with pf.no_grad():
        w[0].fill_(5)
        w.add_(1)
    assert w.tolist() == [6, 2, 2] and w.is_leaf and w.requires_grad


def test_a_backward_pass_through_changed_elements_is_refused(device):
    def product():
        x, y = pf.tensor([1.0, 2.0], requires_grad=True), pf.tensor([3.0, 4.0])
        return x, y, (x * y).sum()

    changes = [lambda y: y.add_(1), lambda y: y[0].fill_(2), lambda y: y.data.zero_(), lambda y: y.__setitem__(1, 0.0)]
    for change in changes:
        x, y, loss = product()
        change(y)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
    x, y, loss = product()
    y + 1
    loss.backward()
    assert x.grad.tolist() == [3, 4]
    z = x.exp()
    z.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    # The sum has saved nothing.
    x.grad = None
    z = x + 1
    z.add_(1)
    z.sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_gradients_accumulate_into_the_tensor_that_is_seen(device):
    w = pf.tensor([1.0, 2.0], requires_grad=True)
    seed = pf.tensor([1.0, 1.0])
    (w * 2).backward(seed)
    seen = w.grad
    (w * 3).backward(seed)
    assert seen.tolist() == [5, 5] and seed.tolist() == [1, 1]
    w.grad.zero_()
    assert seen.tolist() == [0, 0] and seed.tolist() == [1, 1]


def test_a_failed_evaluation_leaves_the_elements_as_they_were(device):
    x, table = pf.tensor(ramp(4)), pf.tensor(ramp(3))
    pf.eval(x, table)
    x[1:3].add_(1)
    with pytest.raises(IndexError):
        pf.eval(x, table.take(pf.tensor([5]))) or pf.synchronize()
    assert x.tolist() == [1, 3, 4, 4]
