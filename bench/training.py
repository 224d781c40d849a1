"""Trains a small GPT, or an MLP on handwritten digits, with pyflame or with PyTorch: the same sources, first weights and data.

    python training.py --side pyflame --model gpt

The last line is JSON: seconds of each step after the first ones, and the losses of all steps.
"""

import argparse
import json
import sys
import time

import numpy as np

# The first steps compile kernels.
WARM_UP = 6
VOCABULARY = 256


def digits(path):
    """Pixels in [0, 1] and classes, in a fixed order."""
    with np.load(path) as file:
        return file["pixels"], file["classes"]


def save_digits(path):
    from sklearn.datasets import load_digits

    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    pixels = (found.data[order] / 16.0).astype(np.float32)
    np.savez_compressed(path, pixels=pixels, classes=found.target[order].astype(np.int64))


class Side:
    """A library with PyTorch's API, and how its tensors get to the GPU."""

    def __init__(self, name, device):
        self.name = name
        if name == "torch":
            import torch

            self.lib, self.device = torch, device or "cuda"
            torch.manual_seed(0)
        else:
            import pyflame

            self.lib = pyflame
            pyflame.set_device(device or "rocm")
            pyflame.manual_seed(0)

    def tensor(self, array):
        if self.name == "torch":
            return self.lib.from_numpy(np.ascontiguousarray(array)).to(self.device)
        return self.lib.tensor(array)

    def place(self, model):
        """Moves a model to the GPU and gives it first weights that do not depend on the library."""
        if self.name == "torch":
            model = model.to(self.device)
        generator = np.random.default_rng(11)
        weights = {}
        for name, value in sorted(model.state_dict().items()):
            shape = tuple(value.shape)
            if len(shape) >= 2:
                scale = 0.02 if "embedding" in name else shape[-1] ** -0.5
                array = scale * generator.standard_normal(shape)
            else:
                array = np.ones(shape) if name.endswith("norm.weight") else np.zeros(shape)
            weights[name] = self.tensor(array.astype(np.float32))
        model.load_state_dict(weights)
        return model


def gpt(side, size):
    nn, functional = side.lib.nn, side.lib.nn.functional
    width, heads, layers, length = size["width"], size["heads"], size["layers"], size["length"]

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

        def forward(self, x):
            batch = x.shape[0]
            split = lambda y: y.reshape(batch, length, heads, width // heads).transpose(1, 2)  # noqa: E731
            mixed = functional.scaled_dot_product_attention(
                split(self.query(x)), split(self.key(x)), split(self.value(x)), is_causal=True
            )
            return self.out(mixed.transpose(1, 2).reshape(batch, length, width))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first_norm, self.attention = nn.LayerNorm(width), Attention()
            self.second_norm = nn.LayerNorm(width)
            self.grow, self.shrink = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            x = x + self.attention(self.first_norm(x))
            return x + self.shrink(functional.gelu(self.grow(self.second_norm(x))))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.token_embedding = nn.Embedding(VOCABULARY, width)
            self.place_embedding = nn.Embedding(length, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.last_norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, VOCABULARY)

        def forward(self, tokens, places):
            x = self.token_embedding(tokens) + self.place_embedding(places)
            return self.head(self.last_norm(self.blocks(x)))

    return Gpt()


def train_gpt(side, size):
    model = side.place(gpt(side, size))
    optimizer = side.lib.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01)
    generator = np.random.default_rng(5)
    # Sequences with a rule that can be learned: every token follows from the one before, with some noise.
    shape = (size["batch"], size["length"] + 1)
    batches = []
    for _ in range(4):
        tokens = np.empty(shape, np.int64)
        tokens[:, 0] = generator.integers(0, VOCABULARY, shape[0])
        for at in range(1, shape[1]):
            noise = generator.integers(0, 3, shape[0])
            tokens[:, at] = (tokens[:, at - 1] * 5 + 7 + noise) % VOCABULARY
        batches.append((side.tensor(tokens[:, :-1].copy()), side.tensor(tokens[:, 1:].reshape(-1).copy())))
    places = side.tensor(np.arange(size["length"], dtype=np.int64))

    def step(number):
        inputs, targets = batches[number % len(batches)]
        scores = model(inputs, places).reshape(-1, VOCABULARY)
        return side.lib.nn.functional.cross_entropy(scores, targets)

    return *train(optimizer, step, size["steps"]), None


def train_digits(side, size, path):
    nn = side.lib.nn
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    model = side.place(model)
    optimizer = side.lib.optim.Adam(model.parameters(), lr=2e-3)
    pixels, classes = digits(path)
    trained_on, batch = 1437, 64
    shuffle = np.random.default_rng(1)
    order = np.concatenate([shuffle.permutation(trained_on)[: trained_on // batch * batch] for _ in range(30)])

    def step(number):
        picked = order[number * batch : (number + 1) * batch]
        return nn.functional.cross_entropy(model(side.tensor(pixels[picked])), side.tensor(classes[picked]))

    seconds, losses = train(optimizer, step, min(size["digit_steps"], len(order) // batch))
    with side.lib.no_grad():
        answers = model(side.tensor(pixels[trained_on:])).argmax(1)
        answers = answers.cpu().numpy() if side.name == "torch" else answers.numpy()
    return seconds, losses, float((answers == classes[trained_on:]).mean())


def train(optimizer, step, steps):
    seconds, losses = [], []
    for number in range(steps):
        began = time.perf_counter()
        loss = step(number)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.item()))
        seconds.append(time.perf_counter() - began)
    return seconds[WARM_UP:], losses


FULL = {"width": 384, "heads": 6, "layers": 6, "length": 256, "batch": 8, "steps": 40, "digit_steps": 660}
TINY = {"width": 32, "heads": 2, "layers": 1, "length": 16, "batch": 2, "steps": 8, "digit_steps": 8}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", choices=["pyflame", "torch"], default="pyflame")
    parser.add_argument("--model", choices=["gpt", "digits"], default="gpt")
    parser.add_argument("--device", help="another device than the GPU")
    parser.add_argument("--digits", metavar="FILE", help="a file of --save-digits")
    parser.add_argument("--save-digits", metavar="FILE", help="only write scikit-learn's digits to a file")
    parser.add_argument("--tiny", action="store_true", help="the smallest sizes: only shows that it works")
    options = parser.parse_args()
    if options.save_digits:
        save_digits(options.save_digits)
        return 0
    side, size = Side(options.side, options.device), TINY if options.tiny else FULL
    if options.model == "gpt":
        seconds, losses, accuracy = train_gpt(side, size)
    else:
        seconds, losses, accuracy = train_digits(side, size, options.digits)
    print(json.dumps({"seconds": seconds, "losses": losses, "accuracy": accuracy}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
