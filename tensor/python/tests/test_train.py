"""Networks that learn to classify digits, with the same result on every device."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

import pyflame as pf
import pyflame.nn as nn


def _digits(count):
    datasets = pytest.importorskip("sklearn.datasets")
    images, labels = datasets.load_digits(return_X_y=True)
    order = np.random.RandomState(0).permutation(len(images))
    images, labels = (images[order] / 16.0).astype(np.float32), labels[order].astype(np.int64)
    return images[:count], labels[:count], images[1400:], labels[1400:]


def _train(model, optimizer, images, labels, epochs, batch):
    losses = []
    for _ in range(epochs):
        for start in range(0, len(images), batch):
            x = pf.tensor(images[start : start + batch])
            y = pf.tensor(labels[start : start + batch])
            loss = pf.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss)
    return [loss.item() for loss in losses]


def _accuracy(model, images, labels):
    model.eval()
    with pf.no_grad():
        return float((model(pf.tensor(images)).argmax(1) == pf.tensor(labels)).float().mean())


def _mlp():
    pf.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def _cnn():
    pf.manual_seed(1)
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 12, 3, padding=1),
        nn.BatchNorm2d(12),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(24 * 16, 10),
    )


def test_an_mlp_reads_digits():
    pf.set_device("cpu")
    images, labels, test_images, test_labels = _digits(1400)
    model = _mlp()
    losses = _train(model, pf.optim.Adam(model.parameters(), lr=3e-3), images, labels, 20, 64)
    assert losses[-1] < losses[0] / 10
    assert _accuracy(model, test_images, test_labels) >= 0.97


def test_a_cnn_reads_digits():
    pf.set_device("cpu")
    images, labels, test_images, test_labels = _digits(1400)
    model = _cnn()
    _train(model, pf.optim.Adam(model.parameters(), lr=3e-3), images, labels, 5, 64)
    assert _accuracy(model, test_images, test_labels) >= 0.97


@pytest.mark.parametrize("make", [_mlp, _cnn])
def test_losses_are_the_same_on_a_gpu(gpu, make):
    images, labels, test_images, test_labels = _digits(96)

    def losses():
        model = make()
        return _train(model, pf.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), images, labels, 1, 32)

    on_gpu = losses()
    pf.set_device("cpu")
    on_cpu = losses()
    pf.set_device("rocm")
    np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-4)


STEPS = """
import sys
import pyflame as pf
pf.set_device('rocm')
pf.manual_seed(0)
model = pf.nn.Sequential(pf.nn.Linear(8, 16), pf.nn.ReLU(), pf.nn.Linear(16, 4))
optimizer = pf.optim.Adam(model.parameters(), lr=1e-2)
schedule = pf.optim.StepLR(optimizer, 2)
for step in range(int(sys.argv[1])):
    x, y = pf.tensor([[0.5] * 8] * 4), pf.tensor([0, 1, 2, 3])
    loss = pf.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    loss.item()
"""


def test_a_step_is_one_round_trip(gpu):
    def trips(steps):
        env = dict(os.environ, REMORA_STATS="1")
        answer = subprocess.run([sys.executable, "-c", STEPS, str(steps)], env=env, capture_output=True, text=True, check=True)
        return int(re.search(r"(\d+) round trips", answer.stderr).group(1))

    # The first run compiles and caches kernels; then both runs start from the same state.
    trips(3)
    assert trips(13) - trips(3) == 10
