"""Steps of the MLP of `tensor.py` by tinygrad, on whichever device its environment names: `DEV=PYTHON` interprets its programs, `DEV=MOCK+AMD:LLVM` emulates an
AMD GPU (with a copy of its repository on Python's path: the package does not have that part).

One line: seconds of single steps, separated by commas. The first step compiles and is left out. Nothing else is printed but the loss, as `loss<tab>NUMBER`.
"""

import argparse
import time

import numpy as np
from tinygrad import Tensor, nn
from tinygrad.helpers import Context


class Network:
    def __init__(self, widths, seed):
        generator = np.random.default_rng(seed)
        self.layers = []
        for before, after in zip(widths, widths[1:]):
            layer = nn.Linear(before, after)
            bound = before ** -0.5
            layer.weight = Tensor(generator.uniform(-bound, bound, (after, before)).astype(np.float32))
            layer.bias = Tensor(generator.uniform(-bound, bound, after).astype(np.float32))
            self.layers.append(layer)

    def __call__(self, x):
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        return self.layers[-1](x)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--widths", default="64,128,64,10")
    arguments = parser.parse_args()
    widths = [int(width) for width in arguments.widths.split(",")]
    generator = np.random.default_rng(1)
    x = Tensor(generator.standard_normal((arguments.rows, widths[0])).astype(np.float32)).realize()
    classes = Tensor(generator.integers(0, widths[-1], arguments.rows).astype(np.int32)).realize()
    network = Network(widths, 0)
    optimizer = nn.optim.SGD(nn.state.get_parameters(network), lr=0.1)
    times, losses = [], []
    with Context(TRAINING=1):
        for _ in range(arguments.rounds + 1):
            began = time.perf_counter()
            optimizer.zero_grad()
            loss = network(x).sparse_categorical_crossentropy(classes)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            times.append(time.perf_counter() - began)
    print("loss", losses[-1], sep="\t")
    print(",".join(map(repr, times[1:])), flush=True)


if __name__ == "__main__":
    main()
