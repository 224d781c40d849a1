"""Layers, losses and optimizers, against formulas written in NumPy."""

import math
import pickle

import numpy as np
import pytest

import pyflame as pf
import pyflame.nn as nn
import pyflame.nn.functional as F

RANDOM = np.random.RandomState(7)


def _numbers(*shape):
    return RANDOM.randn(*shape).astype(np.float32)


def _conv2d(x, w, b, stride, padding, dilation, groups):
    """Convolution by its definition."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    n, c, h, width = x.shape
    o, per_group, kh, kw = w.shape
    oh = (h - dilation * (kh - 1) - 1) // stride + 1
    ow = (width - dilation * (kw - 1) - 1) // stride + 1
    out = np.zeros((n, o, oh, ow), np.float64)
    for channel in range(o):
        first = channel // (o // groups) * per_group
        for i in range(oh):
            for j in range(ow):
                window = x[:, first : first + per_group, i * stride :, j * stride :]
                window = window[:, :, : dilation * (kh - 1) + 1 : dilation, : dilation * (kw - 1) + 1 : dilation]
                out[:, channel, i, j] = (window * w[channel]).sum((1, 2, 3)) + b[channel]
    return out


@pytest.mark.parametrize("stride, padding, dilation, groups", [(1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 2), (3, 1, 1, 4)])
def test_conv2d_is_its_definition(device, stride, padding, dilation, groups):
    x, w, b = _numbers(2, 4, 7, 8), _numbers(8, 4 // groups, 3, 2), _numbers(8)
    ours = pf.conv2d(pf.tensor(x), pf.tensor(w), pf.tensor(b), stride, padding, dilation, groups)
    np.testing.assert_allclose(ours.numpy(), _conv2d(x, w, b, stride, padding, dilation, groups), rtol=1e-4, atol=1e-4)


def test_a_transposed_convolution_is_the_gradient_of_a_convolution(device):
    w, g = pf.tensor(_numbers(4, 3, 3, 3)), pf.tensor(_numbers(2, 4, 4, 4))
    x = pf.zeros(2, 3, 7, 7, requires_grad=True)
    F.conv2d(x, w, stride=2, padding=1).backward(g)
    transposed = F.conv_transpose2d(g, w, stride=2, padding=1)
    np.testing.assert_allclose(transposed.numpy(), x.grad.numpy(), rtol=1e-4, atol=1e-5)
    assert F.conv_transpose2d(g, w, stride=2, padding=1, output_padding=1).shape == (2, 3, 8, 8)
    assert nn.ConvTranspose2d(4, 6, 3, stride=2)(g).shape == (2, 6, 9, 9)


def test_pools_take_the_largest_or_the_mean(device):
    x = _numbers(2, 3, 6, 8)
    windows = x.reshape(2, 3, 3, 2, 4, 2)
    t = pf.tensor(x)
    np.testing.assert_array_equal(pf.max_pool2d(t, 2).numpy(), windows.max((3, 5)))
    np.testing.assert_allclose(pf.avg_pool2d(t, kernel_size=(2, 2), stride=(2, 2)).numpy(), windows.mean((3, 5)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(pf.adaptive_avg_pool2d(t, (1, 1)).numpy()[..., 0, 0], x.mean((2, 3)), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(nn.GlobalAvgPool2d()(t).numpy()[..., 0, 0], x.mean((2, 3)), rtol=1e-4, atol=1e-6)
    assert pf.max_pool1d(t[0], 3).shape == (3, 6, 2) and pf.avg_pool3d(pf.zeros(1, 2, 4, 4, 4), 2).shape == (1, 2, 2, 2, 2)
    assert nn.MaxPool2d(3, stride=2, padding=1)(t).shape == (2, 3, 3, 4)
    assert nn.AvgPool2d(2)(t).shape == (2, 3, 3, 4)


def test_normalisations_have_mean_zero_and_variance_one(device):
    x = _numbers(4, 6, 5, 5) * 3 + 2
    t = pf.tensor(x)
    batch = nn.BatchNorm2d(6)
    trained = batch(t).detach()
    batch.eval()
    used = batch(t).detach()
    layer, group, instance = (x.detach() for x in (nn.LayerNorm([5, 5])(t), nn.GroupNorm(2, 6)(t), nn.InstanceNorm2d(6)(t)))
    pf.eval(trained, used, layer, group, instance, batch.running_mean, batch.running_var, batch.num_batches_tracked)
    np.testing.assert_allclose(trained.numpy().mean((0, 2, 3)), 0, atol=1e-4)
    np.testing.assert_allclose(trained.numpy().var((0, 2, 3)), 1, atol=1e-3)
    mean, variance = batch.running_mean.numpy(), batch.running_var.numpy()
    np.testing.assert_allclose(mean, 0.1 * x.mean((0, 2, 3)), rtol=1e-3)
    count = x.size // 6
    np.testing.assert_allclose(variance, 0.9 + 0.1 * x.var((0, 2, 3)) * count / (count - 1), rtol=1e-3)
    assert batch.num_batches_tracked.item() == 1
    expected = (x - mean[:, None, None]) / np.sqrt(variance + 1e-5)[:, None, None]
    np.testing.assert_allclose(used.numpy(), expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(layer.numpy().mean((2, 3)), 0, atol=1e-4)
    np.testing.assert_allclose(group.numpy().reshape(4, 2, -1).mean(-1), 0, atol=1e-4)
    np.testing.assert_allclose(instance.numpy().var((2, 3)), 1, atol=1e-3)


def test_activations_are_their_formulas(device):
    x = np.linspace(-4, 4, 41).astype(np.float32)
    t = pf.tensor(x)
    erf = np.array([math.erf(v / math.sqrt(2)) for v in x])
    sigmoid = 1 / (1 + np.exp(-x))
    pairs = [
        (pf.relu(t), np.maximum(x, 0)), (pf.gelu(t), x * (1 + erf) / 2), (pf.silu(t), x * sigmoid),
        (pf.sigmoid(t), sigmoid), (pf.tanh(t), np.tanh(x)), (F.leaky_relu(t, 0.1), np.where(x > 0, x, 0.1 * x)),
        (F.elu(t), np.where(x > 0, x, np.expm1(x))), (F.softplus(t), np.log1p(np.exp(x))),
        (F.gelu(t, "tanh"), 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
        (pf.softmax(t, dim=-1), np.exp(x) / np.exp(x).sum()), (F.relu6(t * 2), np.clip(2 * x, 0, 6)),
        (F.hardswish(t), x * np.clip(x + 3, 0, 6) / 6), (F.logsigmoid(t), np.log(sigmoid)),
        (F.log_softmax(t, -1), x - np.log(np.exp(x).sum())), (F.softsign(t), x / (1 + abs(x))),
    ]  # fmt: skip
    # Evaluated together, so that all kernels are compiled at once.
    pf.eval(ours for ours, _ in pairs)
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-4, atol=1e-6)
    assert nn.GELU()(t).shape == nn.PReLU()(t).shape == (41,)


def test_losses_are_their_formulas(device):
    logits, labels = _numbers(6, 5), np.array([0, 4, 2, 2, 1, 3])
    log = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    each = -log[np.arange(6), labels]
    t, y = pf.tensor(logits), pf.tensor(labels)
    a, b = _numbers(4, 3), _numbers(4, 3)
    p, q = 1 / (1 + np.exp(-a)), (b > 0).astype(np.float32)
    bce = -(q * np.log(p) + (1 - q) * np.log(1 - p))
    pairs = [
        (pf.cross_entropy(t, y), each.mean()),
        (F.cross_entropy(t, y, reduction="none"), each),
        (F.cross_entropy(t, y, ignore_index=2), each[labels != 2].mean()),
        (F.cross_entropy(t, y, label_smoothing=0.1), 0.9 * each.mean() - 0.1 * log.mean()),
        (F.nll_loss(pf.tensor(log), y, reduction="sum"), each.sum()),
        (pf.mse_loss(pf.tensor(a), pf.tensor(b)), ((a - b) ** 2).mean()),
        (nn.L1Loss(reduction="sum")(pf.tensor(a), pf.tensor(b)), abs(a - b).sum()),
        (pf.bce_loss(pf.tensor(p), pf.tensor(q)), bce.mean()),
        (nn.BCEWithLogitsLoss()(pf.tensor(a), pf.tensor(q)), bce.mean()),
    ]
    pf.eval(ours for ours, _ in pairs)
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="reduction"):
        pf.mse_loss(t, t, reduction="median")


def test_attention_weighs_values(device):
    pf.manual_seed(3)
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    x = pf.randn(2, 5, 8)
    out, weights = attention(x, x, x)
    assert out.shape == (2, 5, 8) and weights.shape == (2, 5, 5)
    np.testing.assert_allclose(weights.detach().numpy().sum(-1), 1, rtol=1e-5)
    _, causal = attention(x, x, x, is_causal=True)
    assert (np.triu(causal.detach().numpy()[0], 1) == 0).all()
    assert nn.SelfAttention(8, 2)(x).shape == nn.CrossAttention(8, 2)(x, pf.randn(2, 3, 8)).shape == (2, 5, 8)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
        self.scale = nn.Parameter(pf.ones(1))
        self.layers = nn.ModuleList([nn.Dropout(0.5)])

    def forward(self, x):
        return self.layers[0](self.body(x)) * self.scale


def test_modules_know_their_parts(device):
    net = Net()
    names = ["scale", "body.0.weight", "body.0.bias", "body.1.weight", "body.1.bias"]
    assert [name for name, _ in net.named_parameters()] == names
    assert set(net.state_dict()) == set(names) | {"body.1.running_mean", "body.1.running_var", "body.1.num_batches_tracked"}
    net.eval()
    assert not net.body[1].training
    x = pf.randn(5, 4)
    before = net(x)
    other = Net().eval()
    other.load_state_dict(net.state_dict())
    np.testing.assert_array_equal(other(x).detach().numpy(), before.detach().numpy())
    again = pickle.loads(pickle.dumps(net))
    np.testing.assert_array_equal(again(x).detach().numpy(), before.detach().numpy())
    with pytest.raises(RuntimeError, match="missing: scale"):
        other.load_state_dict({name: value for name, value in net.state_dict().items() if name != "scale"})
    with pytest.raises(RuntimeError, match="size mismatch for scale"):
        other.load_state_dict(dict(net.state_dict(), scale=pf.ones(2)))
    before.sum().backward()
    assert net.scale.grad is not None
    net.zero_grad()
    assert net.scale.grad is None
    assert net.to(pf.float64).scale.dtype is pf.float64 and net.body[1].num_batches_tracked.dtype is pf.int64
    assert "Linear(in_features=4, out_features=3" in repr(net)
    net.train()
    dropped = nn.Dropout(0.5)(pf.ones(1000)).numpy()
    assert set(np.unique(dropped)) == {0.0, 2.0} and 350 < (dropped == 0).sum() < 650


def _minimum(make, steps=3):
    """Some steps on a quadratic function, and the same in NumPy by the formula that `make` returns."""
    start = np.array([1.0, -2.0, 3.0], np.float64)
    parameter = nn.Parameter(pf.tensor(start, dtype=pf.float64))
    optimizer, formula = make([parameter])
    values, state = start.copy(), {}
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        (parameter * parameter * pf.tensor([1.0, 0.5, 2.0], dtype=pf.float64)).sum().backward()
        optimizer.step()
        values = formula(values, 2 * values * np.array([1.0, 0.5, 2.0]), state, step)
    np.testing.assert_allclose(parameter.detach().numpy(), values, rtol=1e-9)


def test_sgd_is_its_formula(device):
    def formula(p, g, state, step):
        g = g + 0.1 * p
        state["v"] = g if step == 1 else 0.9 * state["v"] + g
        return p - 0.05 * (g + 0.9 * state["v"])

    _minimum(lambda p: (pf.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.1, nesterov=True), formula))


@pytest.mark.parametrize("decoupled", [False, True])
def test_adam_is_its_formula(device, decoupled):
    def formula(p, g, state, step):
        if decoupled:
            p = p * (1 - 0.1 * 0.01)
        else:
            g = g + 0.01 * p
        state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
        state["v"] = 0.999 * state.get("v", 0) + 0.001 * g * g
        m, v = state["m"] / (1 - 0.9**step), state["v"] / (1 - 0.999**step)
        return p - 0.1 * m / (np.sqrt(v) + 1e-8)

    kind = pf.optim.AdamW if decoupled else pf.optim.Adam
    _minimum(lambda p: (kind(p, lr=0.1, weight_decay=0.01), formula))


def test_rmsprop_is_its_formula(device):
    def formula(p, g, state, step):
        state["s"] = 0.99 * state.get("s", 0) + 0.01 * g * g
        return p - 0.01 * g / (np.sqrt(state["s"]) + 1e-8)

    _minimum(lambda p: (pf.optim.RMSprop(p, lr=0.01), formula))


def test_an_optimizer_goes_on_where_it_was_saved():
    parameter = nn.Parameter(pf.ones(2))
    first = pf.optim.Adam([parameter], lr=0.1)
    (parameter * parameter).sum().backward()
    first.step()
    second = pf.optim.Adam([parameter], lr=0.5)
    second.load_state_dict(first.state_dict())
    assert second.param_groups[0]["lr"] == 0.1 and second.state[parameter]["step"] == 1
    with pytest.raises(ValueError):
        pf.optim.SGD([], lr=0.1)
    with pytest.raises(ValueError, match="learning rate"):
        pf.optim.SGD([parameter], lr=-1)


def test_schedules_follow_their_curves():
    def rates(make, steps):
        optimizer = pf.optim.SGD([nn.Parameter(pf.ones(1))], lr=1.0)
        schedule, seen = make(optimizer), []
        for _ in range(steps):
            seen.append(optimizer.param_groups[0]["lr"])
            schedule.step()
        return seen

    O = pf.optim
    np.testing.assert_allclose(rates(lambda o: O.StepLR(o, 2, 0.5), 5), [1, 1, 0.5, 0.5, 0.25])
    np.testing.assert_allclose(rates(lambda o: O.MultiStepLR(o, [1, 3], 0.1), 4), [1, 0.1, 0.1, 0.01])
    np.testing.assert_allclose(rates(lambda o: O.ExponentialLR(o, 0.5), 3), [1, 0.5, 0.25])
    np.testing.assert_allclose(rates(lambda o: O.CosineAnnealingLR(o, 4), 5), [1, 0.853553, 0.5, 0.146447, 0], atol=1e-6)
    np.testing.assert_allclose(rates(lambda o: O.LinearLR(o, 0.5, 1.0, 2), 4), [0.5, 0.75, 1, 1])
    np.testing.assert_allclose(rates(lambda o: O.PolynomialLR(o, 4), 5), [1, 0.75, 0.5, 0.25, 0])
    cycle = rates(lambda o: O.OneCycleLR(o, 2.0, total_steps=10), 10)
    assert max(cycle) == pytest.approx(2.0) and cycle[0] == pytest.approx(0.08) and cycle[-1] == pytest.approx(8e-6)
    optimizer = O.SGD([nn.Parameter(pf.ones(1))], lr=1.0)
    plateau = O.ReduceLROnPlateau(optimizer, patience=1, factor=0.1)
    for loss in (1.0, 1.0, 1.0, 1.0):
        plateau.step(loss)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1)


def test_one_cycle_moves_momentum_against_the_rate():
    def cycled(kind, name, steps=10, **options):
        optimizer = kind([nn.Parameter(pf.ones(1))], lr=1.0)
        schedule, seen = pf.optim.OneCycleLR(optimizer, 1.0, total_steps=steps, anneal_strategy="linear", **options), []
        for _ in range(steps):
            value = optimizer.param_groups[0][name]
            seen.append((optimizer.param_groups[0]["lr"], value[0] if name == "betas" else value))
            schedule.step()
        return [list(column) for column in zip(*seen)]

    # Up until step 2, then down until step 9.
    expected = [0.95, 0.9, 0.85] + [0.85 + 0.1 * n / 7 for n in range(1, 8)]
    for kind, name in ((pf.optim.SGD, "momentum"), (pf.optim.Adam, "betas"), (pf.optim.RMSprop, "momentum")):
        rates, momenta = cycled(kind, name)
        np.testing.assert_allclose(momenta, expected)
        np.testing.assert_allclose(rates[:3], [0.04, 0.52, 1.0])
    rates, momenta = cycled(pf.optim.SGD, "momentum", base_momentum=0.5, max_momentum=0.9, three_phase=True)
    np.testing.assert_allclose(momenta, [0.9, 0.7, 0.5, 0.7, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9])
    np.testing.assert_allclose(rates[2:5], [1.0, 0.52, 0.04])
    assert set(cycled(pf.optim.SGD, "momentum", cycle_momentum=False)[1]) == {0.0}
    # A cycled momentum is used, and compiles nothing new.
    w = nn.Parameter(pf.tensor([1.0, 2.0]))
    optimizer = pf.optim.SGD([w], lr=1.0)
    schedule = pf.optim.OneCycleLR(optimizer, 0.1, total_steps=4)
    position, speed = np.array([1.0, 2.0]), 0.0
    for _ in range(3):
        group = optimizer.param_groups[0]
        speed = speed * group["momentum"] + 2 * position
        position = position - group["lr"] * speed
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()
        schedule.step()
        np.testing.assert_allclose(w.tolist(), position, rtol=1e-5)


def test_fused_patterns_are_one_launch(device):
    x, w, b = pf.tensor(_numbers(8, 16)), pf.tensor(_numbers(4, 16)), pf.tensor(_numbers(4))
    image, kernel, scale = pf.tensor(_numbers(1, 3, 6, 6)), pf.tensor(_numbers(4, 3, 3, 3)), pf.tensor(abs(_numbers(4)))
    pf.eval(x, w, b, image, kernel, scale)
    for chain in (
        F.relu(F.linear(x, w, b)),
        F.gelu(F.linear(x, w, b)),
        F.relu(F.batch_norm(F.conv2d(image, kernel), b, scale, scale, b)),
        F.relu(x + x * 2),
    ):
        assert len(pf.explain(chain)) == 1, pf.explain(chain)
    assert pf.backend.rocm.can_fuse("matmul", "add", "relu") and pf.backend.rocm.can_fuse("add", "relu")
    assert not pf.backend.rocm.can_fuse("relu", "matmul")


def test_truncated_normal_numbers_stay_between_their_bounds(device):
    weights = nn.init.trunc_normal_(pf.empty(2000), mean=0.5, std=2.0, a=-1.0, b=3.0).numpy()
    assert weights.min() >= -1.0 and weights.max() <= 3.0
    # Mean and deviation of the truncated distribution.
    assert abs(weights.mean() - 0.86) < 0.1 and abs(weights.std() - 1.07) < 0.1
