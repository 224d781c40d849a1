"""Repeated launches are replayed as HIP graphs: the same numbers, fewer calls."""

import threading

import numpy as np
import pytest

import pyflame as pf
import pyflame.nn as nn
from pyflame.backend.rocm import get_kernel_cache, get_memory_manager, is_graph_replay_enabled, set_graph_replay


@pytest.fixture
def replay(gpu):
    """The replay switch; on again afterwards."""
    yield set_graph_replay
    set_graph_replay(True)


def _counted(work):
    """Returns the result of `work`, and its change of the kernel statistics."""
    before = get_kernel_cache().get_stats()
    answer = work()
    after = get_kernel_cache().get_stats()
    return answer, {name: after[name] - before[name] for name in after}


def _train(batches=(8,), between=None):
    """Twenty steps in which the batch, Adam's bias corrections, the learning rate and dropout change."""
    pf.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Dropout(0.5), nn.Linear(12, 4))
    learner = pf.optim.Adam(model.parameters(), lr=0.05)
    slower = pf.optim.ExponentialLR(learner, 0.9)
    numbers = np.random.RandomState(0)
    losses = []
    for step in range(20):
        rows = batches[step % len(batches)]
        x = pf.tensor(numbers.rand(rows, 6).astype(np.float32))
        y = pf.tensor(numbers.randint(0, 4, rows))
        loss = pf.cross_entropy(model(x), y)
        learner.zero_grad()
        loss.backward()
        learner.step()
        slower.step()
        losses.append(loss.item())
        if between:
            between(step)
    return losses + [parameter.detach().numpy().tolist() for parameter in model.parameters()]


@pytest.mark.parametrize(
    "how",
    [{}, {"batches": (8, 8, 8, 8, 8, 5)}, {"between": lambda step: step % 7 == 6 and get_memory_manager().clear_pool()}],
    ids=["the same batch size", "another batch size in between", "memory given back in between"],
)
def test_twenty_steps_are_the_same_bit_by_bit_with_and_without_graphs(replay, how):
    replay(False)
    assert not is_graph_replay_enabled()
    expected, without = _counted(lambda: _train(**how))
    replay(True)
    losses, with_graphs = _counted(lambda: _train(**how))
    assert losses == expected
    assert without["graph_launches"] == 0
    assert with_graphs["launches"] == without["launches"]
    # A sequence is only recorded the first time, and no graph is captured when memory is new every time.
    assert with_graphs["graph_launches"] >= 8 and with_graphs["replayed_launches"] > 0


def test_a_steady_step_is_one_graph_with_no_argument_changed(replay):
    model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 4))
    learner = pf.optim.SGD(model.parameters(), lr=0.05)
    x, y = np.ones((8, 6), np.float32), np.arange(8) % 4

    results = []
    for _ in range(40):
        loss = pf.cross_entropy(model(pf.tensor(x)), pf.tensor(y))
        learner.zero_grad()
        loss.backward()
        learner.step()
        loss.item()
        results.append(get_kernel_cache().get_stats())
    # It takes a few steps until every tensor has a stable address.
    counted = {name: results[39][name] - results[29][name] for name in results[39]}
    assert counted["graph_launches"] == 10 and counted["replayed_launches"] == counted["launches"]
    assert counted["graphs"] == 0 and counted["changed_launches"] == 0


def test_numbers_that_change_every_time_are_never_stale(replay):
    x = pf.randn(4, 50)
    weights = pf.randn(50, 3)
    pf.eval(x, weights)
    x_np, weights_np = x.numpy().astype(np.float64), weights.numpy().astype(np.float64)

    def one(number):
        y = (x * number) @ weights
        return (y.sum(dim=0) + pf.softmax(y, dim=1).sum(dim=0) * number).numpy()

    _, counted = _counted(lambda: [one(float(number)) for number in range(3)])
    for number in (0.25, -0.0, 3.5, 1e-3, 2.0, 2.0, -7.0):
        product = (x_np * number) @ weights_np
        rows = np.exp(product - product.max(1, keepdims=True))
        rows /= rows.sum(1, keepdims=True)
        (results, more) = _counted(lambda: one(number))
        np.testing.assert_allclose(results, product.sum(0) + rows.sum(0) * number, rtol=1e-4, atol=1e-5)
        counted = {name: counted[name] + more[name] for name in more}
    assert counted["graph_launches"] > 0 and counted["changed_launches"] > 0


def test_random_numbers_go_on_when_they_are_replayed(replay):
    def numbers():
        pf.manual_seed(11)
        return [(pf.softmax(pf.rand(4, 40), dim=1) @ pf.randn(40, 3)).numpy().tolist() for _ in range(8)]

    replay(False)
    expected = numbers()
    replay(True)
    results, counted = _counted(numbers)
    assert results == expected and counted["graph_launches"] >= 5
    assert len({str(one) for one in results}) == 8


def test_each_gpu_and_each_thread_gets_its_own_numbers(replay):
    def sums(device, start, into):
        ones = pf.ones(30, 20, device=device)
        for number in range(12):
            x = ones * float(start + number)
            into.append((pf.softmax(x, dim=1).sum(dim=0) @ x.sum(dim=0)).item())

    results = [[], [], []]
    places = [("rocm:0", 1), ("rocm:1", 100), ("rocm:0", 10000)]
    threads = [threading.Thread(target=sums, args=(*place, into)) for place, into in zip(places, results)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for (_, start), numbers in zip(places, results):
        expected = [30 * 30 * float(start + number) for number in range(12)]
        np.testing.assert_allclose(numbers, expected, rtol=1e-5)


def test_explain_says_what_is_replayed(replay):
    def network(x):
        return pf.softmax(pf.relu(x @ weights) @ weights, dim=1).sum(dim=0)

    weights = pf.randn(10, 10)
    pf.eval(weights)
    first = pf.explain(network(pf.ones(7, 10)))
    assert not first.replayed and "replayed" not in repr(first)
    for _ in range(3):
        network(pf.ones(7, 10)).numpy()
    again = pf.explain(network(pf.ones(7, 10)))
    assert again.replayed and "replayed as one graph" in repr(again)
    assert not pf.explain(network(pf.ones(6, 10))).replayed
    replay(False)
    assert not pf.explain(network(pf.ones(7, 10))).replayed
