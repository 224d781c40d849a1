"""Long chains of pending operations: no recursion, and bounded memory."""

import resource
import subprocess
import sys

import numpy as np

import pyflame as pf


def test_a_million_pending_operations_are_computed(device):
    x = pf.zeros(4) + pf.tensor([0.0, 1.0, 2.0, 3.0])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(1_000_000):
        x = x + 1
    assert x.tolist() == [1e6, 1e6 + 1, 1e6 + 2, 1e6 + 3]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_a_long_chain_that_nothing_reads_is_dropped(device):
    x = pf.tensor([1.0])
    for _ in range(3000):
        x = x * 1.0
    del x


def test_losses_are_summed_without_reading_them(device):
    model, total = pf.nn.Linear(4, 2), 0.0
    x, y = pf.tensor(np.ones((8, 4), np.float32)), pf.zeros(8, 2)
    with pf.no_grad():
        for _ in range(20_000 if device == "cpu" else 2_000):
            total = total + pf.nn.functional.mse_loss(model(x), y)
        count = 20_000 if device == "cpu" else 2_000
        assert abs(total.item() / count - pf.nn.functional.mse_loss(model(x), y).item()) < 1e-2


def test_gradients_flow_through_long_chains(device):
    w = pf.tensor([1.0], requires_grad=True)
    x = w
    for _ in range(30_000):
        x = x + w
    x.backward()
    assert w.grad.item() == 30_001
    del x


def test_many_writes_stay_pending_without_harm(device):
    x = pf.zeros(8)
    for n in range(20_000):
        x[n % 8] = float(n)
    assert x.tolist() == list(range(19_992, 20_000))


CHAIN = """
import threading, pyflame as pf
# The smallest stack that Python allows.
threading.stack_size(64 << 10)

def chain():
    x = pf.ones(2)
    for _ in range(30_000):
        x = x * 1.0 + 0.0
    print(x.tolist())

thread = threading.Thread(target=chain)
thread.start()
thread.join()
"""


def test_a_small_stack_is_enough():
    answer = subprocess.run([sys.executable, "-c", CHAIN], capture_output=True, text=True)
    assert answer.returncode == 0 and answer.stdout == "[1.0, 1.0]\n", answer.stderr


def test_uploads_for_pending_operations_do_not_pile_up():
    total = pf.zeros(1 << 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(300):
        total = total + pf.tensor(np.ones(1 << 20, np.float32))
    assert total[0].item() == 300
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 800_000
