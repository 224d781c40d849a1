"""What pyflame's operations take, in turns with NumPy's and, where it is installed, PyTorch's.

One line a measurement: `KIND<tab>KEY<tab>NAME<tab>OURS<tab>REFERENCE`, where ours and reference are seconds of single runs, separated by commas, or one
number for a count. Everything is compared with the reference before it is timed.
"""

import argparse
import time

import numpy as np

import pyflame as pf
import pyflame.nn as nn

try:
    import torch
    torch.set_num_threads(2)
except ImportError:
    torch = None


def seconds(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def turns(kind, key, name, ours, reference, rounds, check=None):
    """Runs both in turns. `check` compares what they return."""
    for _ in range(2):
        a, b = ours(), reference()
    if check is not None:
        np.testing.assert_allclose(a.numpy(), np.asarray(b), **check)
    pairs = [(seconds(ours), seconds(reference)) for _ in range(rounds)]
    show(kind, key, name, [pair[0] for pair in pairs], [pair[1] for pair in pairs])


def show(kind, key, name, ours, reference=()):
    print(kind, key, name, ",".join(map(repr, ours)), ",".join(map(repr, reference)), sep="\t", flush=True)


def done(tensor):
    pf.eval(tensor)
    return tensor


def products(rounds):
    for size in (512, 1024, 2048):
        a, b = (np.random.default_rng(n).standard_normal((size, size), dtype=np.float32) for n in (0, 1))
        x, y = pf.tensor(a), pf.tensor(b)
        turns("matmul", f"matmul_{size}", f"float32 {size}^2, against NumPy's BLAS", lambda: done(x @ y), lambda: a @ b,
              rounds, dict(rtol=1e-3, atol=1e-3))


def layer_norm(a):
    mean = a.mean(-1, keepdims=True)
    centred = a - mean
    return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


def softmax(a):
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def elementwise(rounds):
    a = np.random.default_rng(2).standard_normal((2048, 1024), dtype=np.float32)
    x = pf.tensor(a)
    close = dict(rtol=1e-4, atol=1e-5)
    t = torch.from_numpy(a) if torch else None
    rows = [
        ("chain", "tanh(2 x + 1) * x - 0.5", lambda: pf.tanh(x * 2 + 1) * x - 0.5, lambda: np.tanh(a * 2 + 1) * a - np.float32(0.5),
         lambda: torch.tanh(t * 2 + 1) * t - 0.5),
        ("softmax", "softmax of rows", lambda: pf.softmax(x, dim=-1), lambda: softmax(a), lambda: torch.softmax(t, -1)),
        ("layer_norm", "layer norm of rows", lambda: pf.layer_norm(x, [1024], None, None), lambda: layer_norm(a),
         lambda: torch.nn.functional.layer_norm(t, [1024])),
        ("sum", "sum of all", lambda: x.sum(), lambda: a.sum(), lambda: t.sum()),
        ("sum_rows", "sum of rows", lambda: x.sum(dim=-1), lambda: a.sum(-1), lambda: t.sum(-1)),
        ("max_columns", "largest of columns", lambda: pf.amax(x, dim=0), lambda: a.max(0), lambda: t.amax(0)),
    ]
    for key, name, ours, numpys, torchs in rows:
        turns("elementwise", key, f"{name}, against NumPy", lambda: done(ours()), numpys, rounds, close)
        if torch:
            turns("elementwise", f"{key}_torch", f"{name}, against PyTorch", lambda: done(ours()), torchs, rounds, close)


def overhead(rounds):
    """Of small operations: what remembering one takes, and what doing one takes."""
    count = 2000
    x, y = pf.ones(4), pf.ones(4)
    pf.eval(x, y)

    def remembered():
        for _ in range(count):
            x + y

    def evaluated():
        for _ in range(count):
            pf.eval(x + y)

    show("overhead", "remember", "x + y, remembered", [seconds(remembered) / count for _ in range(rounds)])
    show("overhead", "evaluate", "x + y, computed at once", [seconds(evaluated) / count for _ in range(rounds)])
    if torch:
        s, t = torch.ones(4), torch.ones(4)

        def eager():
            for _ in range(count):
                s + t

        turns("overhead", "remember_torch", "x + y, against PyTorch", remembered, eager, rounds)


def training(rounds):
    """Launches of a step with and without fusion: without, every operation of the graph would be one."""
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    x, classes = pf.randn(64, 64), pf.randint(0, 10, (64,))
    optimizer = pf.optim.SGD(model.parameters(), lr=0.1)
    pf.eval(x, classes, *model.parameters())

    def step():
        loss = pf.cross_entropy(model(x), classes)
        optimizer.zero_grad()
        loss.backward()
        return loss

    loss = step()
    graph = pf.explain(loss, *(parameter.grad for parameter in model.parameters()))
    operations = sum(1 for node in graph.nodes if node["inputs"] and not node["stored"])
    show("training", "operations", "operations of a step's graph", [float(operations)])
    show("training", "launches", "launches of them", [float(len(graph.launches))])

    def whole():
        step()
        optimizer.step()
        return None

    whole()
    show("training", "step", f"a step of an MLP on {pf.get_device()}", [seconds(whole) for _ in range(rounds)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    pf.set_device(arguments.device)
    if arguments.device == "cpu":
        products(arguments.rounds)
        elementwise(arguments.rounds)
        overhead(arguments.rounds)
    training(arguments.rounds)


if __name__ == "__main__":
    main()
