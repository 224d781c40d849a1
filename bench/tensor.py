"""What pyflame's operations take, in turns with NumPy's or with PyTorch's.

One line a measurement: `KIND<tab>KEY<tab>NAME<tab>OURS<tab>REFERENCE`, where ours and reference are seconds of single runs, separated by commas, or one
number for a count. Everything is compared with the reference before it is timed.
"""

import argparse
import os
import time

import numpy as np

import pyflame as pf
import pyflame.nn as nn


clock = time.perf_counter

SMOKE = False
# Seconds. Threads of OpenBLAS look for more work for 2^28 cycles before they sleep.
PAUSE = 0.2
# Edges of the products, and rows of the other operands.
SIZES = (512, 1024, 2048)
ROWS = 2048
# Operations of four elements in one measurement.
SMALL = 1000
# Seconds of runs that one has before the other's turn, if they are no more than nine runs.
TURN = 0.02


def seconds(work):
    began = clock()
    work()
    return clock() - began


def alone(work):
    """A run among a few, after a pause in which idle threads of the previous run stop spinning."""
    time.sleep(PAUSE)
    first = seconds(work)
    runs = max(1, min(9, int(TURN / first)))
    return seconds(lambda: [work() for _ in range(runs)]) / runs


def turns(kind, key, name, ours, reference, rounds, check=None, times=1):
    """Runs both in turns, each `times` operations. `check` compares what they return."""
    for _ in range(2):
        a, b = ours(), reference()
    if check is not None:
        np.testing.assert_allclose(a.numpy(), np.asarray(b), **check)
    pairs = [(alone(ours) / times, alone(reference) / times) for _ in range(rounds)]
    show(kind, key, name, [pair[0] for pair in pairs], [pair[1] for pair in pairs])


def show(kind, key, name, ours, reference=()):
    print(kind, key, name, ",".join(map(repr, ours)), ",".join(map(repr, reference)), sep="\t", flush=True)


def done(tensor):
    pf.eval(tensor)
    return tensor


def layer_norm(a):
    mean = a.mean(-1, keepdims=True)
    centred = a - mean
    return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


def softmax(a):
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


CLOSE = dict(rtol=1e-4, atol=1e-5)
# Sums of two million numbers about zero.
SUMS = dict(rtol=1e-4, atol=1e-2)


def elements():
    a = np.random.default_rng(2).standard_normal((ROWS, 1024), dtype=np.float32)
    return a, pf.tensor(a)


def ours_of(x):
    """Key, name, what is allowed to differ, and the operation, in the order of the others' lists."""
    return [
        ("chain", "tanh(2 x + 1) * x - 0.5", CLOSE, lambda: pf.tanh(x * 2 + 1) * x - 0.5),
        ("softmax", "softmax of rows", CLOSE, lambda: pf.softmax(x, dim=-1)),
        ("layer_norm", "layer norm of rows", CLOSE, lambda: pf.layer_norm(x, [1024], None, None)),
        ("sum", "sum of all", SUMS, lambda: x.sum()),
        ("sum_rows", "sums of rows", SUMS, lambda: x.sum(dim=-1)),
        ("sum_columns", "sums of columns", SUMS, lambda: x.sum(dim=0)),
        ("max_columns", "largest of columns", CLOSE, lambda: pf.amax(x, dim=0)),
    ]


def against_numpy(rounds):
    for size in SIZES:
        a, b = (np.random.default_rng(n).standard_normal((size, size), dtype=np.float32) for n in (0, 1))
        x, y = pf.tensor(a), pf.tensor(b)
        turns("matmul", f"matmul_{size}", f"float32 {size}^2 vs. NumPy's BLAS", lambda: done(x @ y), lambda: a @ b,
              rounds, dict(rtol=1e-3, atol=1e-3))
    a, x = elements()
    references = [
        lambda: np.tanh(a * 2 + 1) * a - np.float32(0.5), lambda: softmax(a), lambda: layer_norm(a), lambda: a.sum(),
        lambda: a.sum(-1), lambda: a.sum(0), lambda: a.max(0),
    ]
    for (key, name, close, ours), reference in zip(ours_of(x), references):
        turns("elementwise", f"{key}_numpy", f"{name} vs. NumPy", lambda: done(ours()), reference, rounds, close)
    if SMOKE:
        # PyTorch is the reference of these; in a smoke run only pyflame's part matters.
        overhead(rounds, np.array([1.0, 2.0, 3.0, 4.0], np.float32), np.array([4.0, 3.0, 2.0, 1.0], np.float32), "NumPy")


def ten(x, y):
    """Ten operations, as both libraries write them."""
    z = x + y
    z = z * y
    z = z - x
    z = z / y
    z = z * 2
    z = z + 1
    z = -z
    z = abs(z)
    z = z + x
    return z * y


def against_torch(rounds):
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)) if clock is time.perf_counter else 1)
    a, x = elements()
    t = torch.from_numpy(a)
    references = [
        lambda: torch.tanh(t * 2 + 1) * t - 0.5, lambda: torch.softmax(t, -1),
        lambda: torch.nn.functional.layer_norm(t, [1024]), lambda: t.sum(), lambda: t.sum(-1), lambda: t.sum(0),
        lambda: t.amax(0),
    ]
    for (key, name, close, ours), reference in zip(ours_of(x), references):
        turns("elementwise", f"{key}_torch", f"{name} vs. PyTorch", lambda: done(ours()), reference, rounds, close)
    overhead(rounds, torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([4.0, 3.0, 2.0, 1.0]), "PyTorch")


def overhead(rounds, s, t, other):
    """Operations of four elements; s and t are the other's."""
    x, y = pf.tensor([1.0, 2.0, 3.0, 4.0]), pf.tensor([4.0, 3.0, 2.0, 1.0])
    np.testing.assert_allclose(ten(x, y).numpy(), np.asarray(ten(s, t)), **CLOSE)

    def repeated(work):
        def run():
            for _ in range(SMALL):
                work()
        return run

    turns("overhead", "each", f"x + y, computed each time vs. {other}", repeated(lambda: pf.eval(x + y)),
          repeated(lambda: s + t), rounds, times=SMALL)
    turns("overhead", "chain", f"ten operations, computed at the end, per operation vs. {other}", repeated(lambda: pf.eval(ten(x, y))),
          repeated(lambda: ten(s, t)), rounds, times=10 * SMALL)
    show("overhead", "remember", "x + y, remembered and not computed",
         [seconds(repeated(lambda: x + y)) / SMALL for _ in range(rounds)])


def training(rounds):
    """Launches of a step with and without fusion: without, every operation of the graph would be one."""
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    x, classes = pf.randn(64, 64), pf.randint(0, 10, (64,))
    optimizer = pf.optim.SGD(model.parameters(), lr=0.1)
    pf.eval(x, classes, *model.parameters())

    def forward():
        loss = pf.cross_entropy(model(x), classes)
        optimizer.zero_grad()
        loss.backward()
        return loss

    loss = forward()
    graph = pf.explain(loss, *(parameter.grad for parameter in model.parameters()))
    operations = sum(1 for node in graph.nodes if node["inputs"] and not node["stored"])
    device = pf.get_device()
    show("training", "operations", f"operations of its graph, a launch each without fusion, {device}", [float(operations)])
    show("training", "launches", f"launches of them, {device}", [float(len(graph.launches))])

    def step():
        loss = forward()
        optimizer.step()
        return loss.item()

    for _ in range(3):
        step()
    show("training", "step", f"a step, {device}", [seconds(step) for _ in range(rounds)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["numpy", "torch", "training"])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--processor", action="store_true",
                        help="processor time instead of the clock's, for a machine with other work; set PYFLAME_THREADS and OPENBLAS_NUM_THREADS to 1")
    parser.add_argument("--smoke", action="store_true", help="the smallest sizes and no pauses: only shows that the measurements work")
    arguments = parser.parse_args()
    if arguments.smoke:
        global SMOKE, PAUSE, SIZES, ROWS, SMALL
        SMOKE, PAUSE, SIZES, ROWS, SMALL = True, 0, (128,), 64, 10
    if arguments.processor:
        global clock
        clock = time.process_time
    pf.set_device(arguments.device)
    {"numpy": against_numpy, "torch": against_torch, "training": training}[arguments.what](arguments.rounds)


if __name__ == "__main__":
    main()
