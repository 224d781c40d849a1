"""Times training steps of the digits example's MLP, one by one: `far_training.py BEFORE STEPS`, for `cargo xtask bench tensor`. One line, as tensor.py's."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "pyflame"))

import digits

import pyflame as pf
from pyflame.backend.rocm import is_graph_replay_enabled


def main():
    before, steps = map(int, sys.argv[1:])
    pf.set_device("rocm")
    pf.manual_seed(7)
    net = digits.network("mlp")
    optimizer = pf.optim.Adam(net.parameters(), lr=2e-3)
    pixels, classes = digits.data("mlp")
    times = []
    for number in range(before + steps):
        picked = slice(number % 20 * digits.BATCH, (number % 20 + 1) * digits.BATCH)
        began = time.perf_counter()
        loss = pf.cross_entropy(net(pf.tensor(pixels[picked])), pf.tensor(classes[picked]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
        times.append(time.perf_counter() - began)
    how = "with graphs" if is_graph_replay_enabled() else "without"
    print("far", f"far_{int(is_graph_replay_enabled())}_step", f"a step of the digits' MLP, 5 ms away, {how}",
          ",".join(map(repr, times[before:])), "", sep="\t")


if __name__ == "__main__":
    main()
