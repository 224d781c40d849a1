"""Hooks, custom functions, checkpoints, mixed precision, clipping, averages, L-BFGS."""

import copy

import numpy as np
import pytest

import pyflame as pf
import pyflame.nn as nn
from pyflame.utils.checkpoint import checkpoint, checkpoint_sequential


class Cube(pf.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        y = x * x * x * factor
        ctx.save_for_backward(x, y)
        ctx.factor = factor
        return y, x.sum()

    @staticmethod
    def backward(ctx, first, second):
        x, y = ctx.saved_tensors
        np.testing.assert_allclose(y.detach().numpy(), (x**3 * ctx.factor).detach().numpy())
        return 3 * x * x * ctx.factor * first + second, None


def test_a_custom_function_has_the_gradient_that_it_defines(device):
    x = pf.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y, total = Cube.apply(x, 2.0)
    (y.sum() + 10 * total).backward()
    assert x.grad.tolist() == [16.0, 34.0, 64.0]
    # One of the outputs is not used, and the gradient has a gradient.
    slope, = pf.autograd.grad(Cube.apply(x, 2.0)[0].sum(), x, create_graph=True)
    assert pf.autograd.grad(slope.sum(), x)[0].tolist() == [12.0, 24.0, 36.0]
    with pf.no_grad():
        assert not Cube.apply(x, 1.0)[0].requires_grad


def test_a_custom_function_does_not_keep_its_outputs_alive():
    import gc
    import weakref

    class Node:
        pass

    class Keeper(pf.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.node = node
            y = x * 2
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g * 2

    node = Node()
    watched = weakref.ref(node)
    made = Keeper.apply(pf.ones(2, requires_grad=True))
    del node, made
    gc.collect()
    assert watched() is None


def test_an_exception_in_backward_reaches_the_caller():
    class Bad(pf.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x + 1

        @staticmethod
        def backward(ctx, g):
            raise KeyError("mine")

    x = pf.ones(2, requires_grad=True)
    with pytest.raises(KeyError, match="mine"):
        Bad.apply(x).sum().backward()
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        y = x * 1
        z = Cube.apply(y, 1.0)[0]
        y.add_(1)
        z.sum().backward()


def test_hooks_see_and_replace_gradients(device):
    x = pf.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    seen = []
    handle = y.register_hook(lambda g: seen.append(g.tolist()))
    y.register_hook(lambda g: g * 10)
    y.retain_grad()
    (y.sum() + y[0]).backward()
    assert seen == [[2.0, 1.0]] and y.grad.tolist() == [20.0, 10.0] and x.grad.tolist() == [60.0, 30.0]
    handle.remove()
    x.grad = None
    x.register_hook(lambda g: g + 1)
    (x * 2 + x).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0] and len(seen) == 1
    with pytest.raises(ValueError):
        z = x * 1
        z.register_hook(lambda g: pf.ones(3))
        z.sum().backward()
    with pytest.raises(RuntimeError):
        pf.ones(1).register_hook(print)


def test_module_hooks_see_inputs_and_gradients():
    layer = nn.Linear(2, 1)
    seen = {}
    layer.register_full_backward_hook(lambda module, given, out: seen.update(given=given, out=out))
    layer.register_forward_pre_hook(lambda module, inputs: (inputs[0] * 2,))
    x = pf.ones(3, 2, requires_grad=True)
    layer(x).sum().backward()
    assert seen["out"][0].tolist() == [[1.0]] * 3
    np.testing.assert_allclose(x.grad.numpy(), 2 * layer.weight.detach().numpy().repeat(3, 0), rtol=1e-6)


def _net():
    pf.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.GELU(), nn.Linear(4, 2))


@pytest.mark.parametrize("way", ["whole", "sequential"])
def test_checkpoints_give_the_same_gradients(device, way):
    net, x = _net(), pf.randn(5, 3, requires_grad=True)
    state = pf.get_rng_state()
    net(x).sum().backward()
    wanted = [p.grad.tolist() for p in net.parameters()] + [x.grad.tolist()]
    net.zero_grad()
    x.grad = None
    pf.set_rng_state(state)
    out = checkpoint(net, x) if way == "whole" else checkpoint_sequential(net, 2, x)
    out.sum().backward()
    assert [p.grad.tolist() for p in net.parameters()] + [x.grad.tolist()] == wanted
    # Returned instead of accumulated; no input requires a gradient.
    before = [p.grad.tolist() for p in net.parameters()]
    pf.set_rng_state(state)
    found = pf.autograd.grad(checkpoint(net, x.detach()).sum(), list(net.parameters()))
    assert [g.tolist() for g in found] == wanted[:-1] and [p.grad.tolist() for p in net.parameters()] == before


def test_autocast_lowers_products_and_raises_losses(device):
    net, x = _net(), pf.randn(5, 3)
    with pf.autocast(device, dtype=pf.bfloat16):
        out = net(x)
        assert out.dtype is pf.bfloat16 and out.softmax(-1).dtype is pf.float32
        loss = nn.functional.cross_entropy(out, pf.zeros(5, dtype=pf.int64))
        with pf.autocast(device, enabled=False):
            assert net(x).dtype is pf.float32
    assert loss.dtype is pf.float32 and net(x).dtype is pf.float32
    loss.backward()
    assert all(p.grad.dtype is pf.float32 for p in net.parameters())
    conv = nn.Conv2d(1, 1, 1)
    assert pf.autocast("cpu")(conv)(pf.ones(1, 1, 2, 2)).dtype is pf.bfloat16
    with pytest.raises(TypeError):
        pf.autocast("cpu", dtype=pf.float64)


def test_a_scaler_skips_steps_with_infinite_gradients():
    weight = pf.tensor([1.0], requires_grad=True)
    optimizer = pf.optim.SGD([weight], lr=0.5)
    scaler = pf.amp.GradScaler(init_scale=4.0, growth_interval=1)
    for gradient, value, scale in ((1.0, 0.5, 8.0), (float("inf"), 0.5, 4.0), (1.0, 0.0, 8.0)):
        optimizer.zero_grad()
        scaler.scale((weight * gradient).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert weight.item() == value and scaler.get_scale() == scale
    again = pf.amp.GradScaler()
    again.load_state_dict(scaler.state_dict())
    assert again.get_scale() == 8.0
    with pytest.raises(RuntimeError):
        scaler.update()


def test_gradients_are_clipped(device):
    a, b = pf.ones(2, requires_grad=True), pf.ones(1, requires_grad=True)
    ((a * 3).sum() + (b * 4).sum() * 1).backward()
    norm = nn.utils.clip_grad_norm_([a, b], 1.0)
    np.testing.assert_allclose(norm.item(), np.sqrt(34), rtol=1e-6)
    np.testing.assert_allclose(np.concatenate([a.grad.numpy(), b.grad.numpy()]), np.array([3, 3, 4]) / np.sqrt(34), rtol=1e-5)
    nn.utils.clip_grad_value_([a, b], 0.1)
    assert a.grad.tolist() == pytest.approx([0.1, 0.1])
    a.grad = pf.tensor([float("nan"), 1.0])
    with pytest.raises(RuntimeError):
        nn.utils.clip_grad_norm_([a], 1.0, error_if_nonfinite=True)
    vector = nn.utils.parameters_to_vector([a, b])
    nn.utils.vector_to_parameters(vector * 5, [a, b])
    assert b.item() == 5.0


def test_averages_follow_their_formula():
    net = nn.Linear(1, 1, bias=False)
    net.weight.data.fill_(1.0)
    mean = pf.optim.swa_utils.AveragedModel(net)
    moving = pf.optim.swa_utils.AveragedModel(net, avg_fn=pf.optim.swa_utils.get_ema_avg_fn(0.9))
    for value in (1.0, 3.0, 5.0):
        net.weight.data.fill_(value)
        mean.update_parameters(net)
        moving.update_parameters(net)
    assert mean.module.weight.item() == 3.0
    assert moving.module.weight.item() == pytest.approx((1 * 0.9 + 3 * 0.1) * 0.9 + 5 * 0.1)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_finds_the_minimum(search):
    point = pf.tensor([-1.2, 1.0], requires_grad=True)
    optimizer = pf.optim.LBFGS([point], lr=1.0 if search else 0.1, max_iter=40, line_search_fn=search)

    def closure():
        optimizer.zero_grad()
        loss = (1 - point[0]) ** 2 + 100 * (point[1] - point[0] ** 2) ** 2 if search else ((point - 3) ** 2).sum()
        loss.backward()
        return loss

    for _ in range(6):
        optimizer.step(closure)
    np.testing.assert_allclose(point.detach().numpy(), [1, 1] if search else [3, 3], atol=2e-2)


def test_generators_have_their_own_state(device):
    one, two = (pf.Generator().manual_seed(7) for _ in range(2))
    pf.manual_seed(0)
    shared = pf.get_rng_state()
    assert pf.randn(3, generator=one).tolist() == pf.randn(3, generator=two).tolist()
    assert pf.get_rng_state() == shared
    state = one.get_state()
    first = pf.randint(0, 100, (5,), generator=one).tolist()
    one.set_state(state)
    assert pf.randint(0, 100, (5,), generator=one).tolist() == first
    assert sorted(pf.randperm(50, generator=one).tolist()) == list(range(50))


def test_random_selections_have_their_weights(device):
    drawn = pf.multinomial(pf.tensor([0.0, 1.0, 3.0]), 4000, replacement=True)
    counts = np.bincount(np.array(drawn.tolist()), minlength=3)
    assert counts[0] == 0 and abs(counts[2] / 4000 - 0.75) < 0.05
    rows = pf.multinomial(pf.tensor([[1.0, 0.0, 2.0], [1.0, 1.0, 1.0]]), 2)
    assert rows.shape == (2, 2) and sorted(rows[0].tolist()) == [0, 2] and len(set(rows[1].tolist())) == 2
    assert abs(pf.bernoulli(pf.full((4000,), 0.25)).mean().item() - 0.25) < 0.05
    for weights in ([-1.0, 2.0], [0.0, 0.0], [float("nan"), 1.0], [0.0, 1.0]):
        with pytest.raises(ValueError):
            pf.multinomial(pf.tensor(weights), 2)


def test_recurrent_and_transformer_layers_learn(device):
    pf.manual_seed(0)
    for make in (lambda: nn.LSTM(2, 3, 2, bidirectional=True), lambda: nn.GRU(2, 3), lambda: nn.RNN(2, 3)):
        layer = make()
        x = pf.randn(4, 2, 2, requires_grad=True)
        out, state = layer(x)
        assert out.shape[:2] == (4, 2)
        out.sum().backward()
        assert x.grad.abs().sum().item() > 0 and all(p.grad is not None for p in layer.parameters())
    layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), 2)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    x = pf.randn(1, 5, 4)
    before = layer(x, mask=mask)
    changed = x.clone()
    changed[0, 4] = 9.0
    np.testing.assert_allclose(layer(changed, mask=mask)[0, :4].detach().numpy(), before[0, :4].detach().numpy(), atol=1e-6)


def test_lstm_is_its_formula():
    layer = nn.LSTM(2, 1, bias=False)
    with pf.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(0.5)
    out, (h, c) = layer(pf.ones(1, 1, 2))
    gate, cell = 1 / (1 + np.exp(-1)), np.tanh(1)
    assert c.item() == pytest.approx(gate * cell, rel=1e-6) and out.item() == pytest.approx(gate * np.tanh(gate * cell), rel=1e-6)
    assert copy.deepcopy(layer)(pf.ones(1, 1, 2))[0].item() == out.item() == h.item()
