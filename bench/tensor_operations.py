"""What pyflame's operations and whole training steps take on the CPU, in turns with PyTorch's.

Prints the lines that `bench/tensor.py` prints. Everything runs on one thread, in processor time, so that other work on the machine does not
count. `--only PART` measures what has PART in its key; `--peak` prints the most memory that a training step takes.
"""

import argparse
import math
import os
import subprocess
import sys
import time

os.environ.update(PYFLAME_THREADS="1", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
if os.path.exists("/proc/cpuinfo") and "avx512dq" in open("/proc/cpuinfo").read():
    # OpenBLAS takes processors that are newer than itself for the oldest one, which would be no reference.
    os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX")

import numpy as np

# Sizes are divided by this.
SMALLER = 1
# The keys of factorisations, which have an aim of their own.
FACTORISATIONS = ("eigh", "solve")
# Seconds of processor time that one side runs before the other's turn, if one run is shorter.
TURN = 0.02
random = np.random.default_rng(1)


def scaled(number, least=1):
    return max(least, number // SMALLER)


def normal(*shape):
    return random.standard_normal(shape, dtype=np.float32)


class Ours:
    """The names in which the libraries differ."""

    name = "pyflame"

    def __init__(self):
        import pyflame
        import pyflame.nn.functional as F

        self.lib, self.F = pyflame, F
        pyflame.set_device("cpu")

    def of(self, array, grad=False):
        return self.lib.tensor(array, requires_grad=grad)

    def done(self, *tensors):
        self.lib.eval(*tensors)

    def attention(self, q, k, v):
        return self.F.scaled_dot_product_attention(q, k, v, is_causal=True)


class Theirs:
    name = "torch"

    def __init__(self):
        import torch

        torch.set_num_threads(1)
        self.lib, self.F = torch, torch.nn.functional

    def of(self, array, grad=False):
        return self.lib.from_numpy(array.copy()).requires_grad_(grad)

    def done(self, *tensors):
        pass

    def attention(self, q, k, v):
        if hasattr(self.F, "scaled_dot_product_attention"):
            return self.F.scaled_dot_product_attention(q, k, v, is_causal=True)
        # PyTorch before 2.0.
        return self.F._scaled_dot_product_attention(q, k, v, is_causal=True)[0]


def forward(side, work):
    def run():
        result = work()
        side.done(*(result if isinstance(result, tuple) else (result,)))
        return result

    return run


def backward(side, leaves, work):
    """The loss, or the sum of a result's products with fixed weights, and the gradients of the leaves."""
    state = {}

    def run():
        y = work()
        if y.ndim:
            if "weights" not in state:
                state["weights"] = side.of(np.random.default_rng(5).standard_normal(tuple(y.shape), dtype=np.float32))
            y.backward(state["weights"])
        else:
            y.backward()
        gradients = tuple(leaf.grad for leaf in leaves)
        side.done(y, *gradients)
        for leaf in leaves:
            leaf.grad = None
        return (y, *gradients)

    return run


def operations():
    """Key, name, and a function from a side to what is measured."""
    listed = []

    def add(key, name):
        return lambda make: listed.append((key, name, make))

    n, columns = scaled(2048, 64), scaled(1024, 32)
    flat, square = normal(scaled(1 << 20)), normal(n, columns)
    many = normal(scaled(1000, 4), scaled(10_000))
    whole = random.permutation(scaled(1 << 20)).astype(np.int64) * 12_345_678
    places = random.integers(0, columns, (n, columns), dtype=np.int64)
    tokens = random.integers(0, scaled(8192, 8), scaled(4096, 4), dtype=np.int64)
    table = normal(scaled(8192, 8), 256)

    def simple(key, name, array, work):
        listed.append((key, name, lambda side: forward(side, (lambda x: lambda: work(x))(side.of(array)))))

    simple("topk", "10 largest of 2^20", flat, lambda x: tuple(x.topk(10)))
    simple("topk_rows", "5 largest of 10,000, 1000 rows", many, lambda x: tuple(x.topk(5)))
    simple("sort", "sort of 2^20 float32", flat, lambda x: tuple(x.sort()))
    simple("sort_rows", "sort of rows, 2048 x 1024", square, lambda x: tuple(x.sort()))
    simple("argsort_int64", "argsort of 2^20 int64", whole, lambda x: x.argsort())
    simple("cumsum_rows", "cumulative sums of rows", square, lambda x: x.cumsum(1))
    simple("cumsum_columns", "cumulative sums of columns", square, lambda x: x.cumsum(0))
    simple("transpose", "transposed copy, 2048 x 1024", square, lambda x: x.t().contiguous())
    simple("permute", "[8, 64, 32, 128] with axes 1 and 2 exchanged", normal(8, 64, 32, scaled(128)), lambda x: x.permute(0, 2, 1, 3).contiguous())
    simple("mask", "x[x > 0], 2^20", flat, lambda x: x[x > 0])

    @add("unique", "distinct values of 2^20 int64")
    def _(side):
        x = side.of(whole % 1000)
        return forward(side, lambda: side.lib.unique(x))

    @add("gather", "gather along rows, 2048 x 1024")
    def _(side):
        x, index = side.of(square), side.of(places)
        return forward(side, lambda: x.gather(1, index))

    @add("scatter_add", "scatter_add along rows, 2048 x 1024")
    def _(side):
        x, index, source = side.of(np.zeros_like(square)), side.of(places), side.of(square)
        return forward(side, lambda: x.scatter_add(1, index, source))

    @add("index_select", "4096 rows of a table of 8192 x 256")
    def _(side):
        x, index = side.of(table), side.of(tokens)
        return forward(side, lambda: x.index_select(0, index))

    @add("embedding", "embedding, forward and backward, 4096 of 8192 x 256")
    def _(side):
        x, index = side.of(table, True), side.of(tokens)
        return backward(side, [x], lambda: side.F.embedding(index, x))

    @add("cross_entropy", "cross-entropy, forward and backward, 4096 x 1000")
    def _(side):
        x, classes = side.of(normal_of(3, scaled(4096, 4), 1000), True), side.of(tokens % 1000)
        return backward(side, [x], lambda: side.F.cross_entropy(x, classes))

    for key, kernel, stride, padding in (("max_pool", 3, 2, 1), ("max_pool_2", 2, 2, 0)):
        def make(side, kernel=kernel, stride=stride, padding=padding):
            x = side.of(normal_of(4, scaled(16), scaled(64), 56, 56), True)
            return backward(side, [x], lambda: side.F.max_pool2d(x, kernel, stride, padding))
        listed.append((key, f"max pool {kernel} x {kernel}, stride {stride}, forward and backward", make))

    image, kernels = normal(scaled(8), scaled(64, 4), 56, 56), normal(scaled(64, 4), scaled(64, 4), 3, 3)
    depthwise, thin = normal(scaled(64, 4), 1, 3, 3), normal(scaled(256, 4), scaled(64, 4), 1, 1)
    first, photo = normal(scaled(64, 4), 3, 7, 7), normal(scaled(4), 3, scaled(224, 32), scaled(224, 32))
    for key, name, x, w, options in (
        ("conv", "3 x 3, 64 to 64 channels, 8 x 56 x 56", image, kernels, dict(padding=1)),
        ("conv_1x1", "1 x 1, 64 to 256 channels, 8 x 56 x 56", image, thin, {}),
        ("conv_stride", "3 x 3, stride 2", image, kernels, dict(padding=1, stride=2)),
        ("conv_first", "7 x 7, stride 2, 3 to 64 channels, 4 x 224 x 224", photo, first, dict(padding=3, stride=2)),
        ("depthwise", "3 x 3, 64 groups, 8 x 56 x 56", image, depthwise, dict(padding=1, groups=scaled(64, 4))),
    ):
        def make(side, x=x, w=w, options=options):
            x, w = side.of(x), side.of(w)
            return forward(side, lambda: side.F.conv2d(x, w, **options))
        listed.append((key, f"convolution {name}", make))

        def make(side, x=x, w=w, options=options):
            x, w = side.of(x, True), side.of(w, True)
            return backward(side, [x, w], lambda: side.F.conv2d(x, w, **options))
        listed.append((f"{key}_training", f"convolution {name}, forward and backward", make))

    batch = normal(scaled(16), scaled(256), scaled(256)), normal(scaled(16), scaled(256), scaled(256))
    small = normal(scaled(64), 64, 64), normal(scaled(64), 64, 64)

    for key, pair in (("bmm", batch), ("bmm_small", small)):
        def make(side, pair=pair):
            a, b = (side.of(one) for one in pair)
            return forward(side, lambda: side.lib.bmm(a, b))
        listed.append((key, f"batched product, {' x '.join(map(str, pair[0].shape))}", make))

    lines = (normal(scaled(1000), scaled(1024)) + 1j * normal(scaled(1000), scaled(1024))).astype(np.complex64)
    for key, name, array, axis in (
        ("fft", "1000 lines of 1024, complex64", lines, 1),
        ("fft_columns", "1024 columns of 1000, complex64", lines, 0),
        ("fft_prime", "1000 lines of 1021, complex64", lines[:, :1021].copy(), 1),
        ("fft_real", "1000 lines of 1024, float32, half of the spectrum", lines.real.copy(), 1),
        ("fft_double", "1000 lines of 1024, complex128", lines.astype(np.complex128), 1),
    ):
        def make(side, array=array, axis=axis):
            x = side.of(array)
            transform = side.lib.fft.fft if np.iscomplexobj(array) else side.lib.fft.rfft
            return forward(side, lambda: transform(x, dim=axis))
        listed.append((key, f"Fourier transform of {name}", make))

    for size, dtype in ((256, np.float32), (512, np.float64)):
        size = scaled(size)
        whole_matrix = random.standard_normal((size, size)).astype(dtype)
        symmetric, right = whole_matrix + whole_matrix.T, random.standard_normal((size, 8)).astype(dtype)

        def make(side, symmetric=symmetric):
            x = side.of(symmetric)
            return forward(side, lambda: tuple(side.lib.linalg.eigh(x)))
        listed.append((f"eigh_{size}", f"eigh of {size}^2, {dtype.__name__}", make))

        def make(side, matrix=symmetric, right=right):
            x, y = side.of(matrix), side.of(right)
            return forward(side, lambda: side.lib.linalg.solve(x, y))
        listed.append((f"solve_{size}", f"solve of {size}^2, 8 right-hand sides, {dtype.__name__}", make))

    for size in (256, 512, 1024):
        def make(side, size=size):
            a, b = (side.of(normal_of(n, scaled(size), scaled(size))).to(side.lib.bfloat16) for n in (6, 7))
            side.done(a, b)
            return forward(side, lambda: a @ b)
        listed.append((f"bfloat16_{size}", f"bfloat16 product {size}^2", make))

    heads = [normal(scaled(4), scaled(8), scaled(512), 64) for _ in range(3)]

    @add("attention", "causal attention, 4 x 8 x 512 x 64")
    def _(side):
        q, k, v = (side.of(head) for head in heads)
        return forward(side, lambda: side.attention(q, k, v))

    @add("attention_training", "causal attention, forward and backward")
    def _(side):
        leaves = [side.of(head, True) for head in heads]
        return backward(side, leaves, lambda: side.attention(*leaves))

    listed.append(("gpt_step", "GPT step: 4 layers of 256, 8 heads, 4 x 256 tokens of 1024, AdamW", gpt))
    listed.append(("resnet_step", "ResNet step: 4 stages of 64 to 512, 8 x 3 x 64 x 64, SGD", resnet))
    return listed


def normal_of(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def stepping(side, model, optimizer, loss_of):
    fill(side, model)

    def run():
        loss = loss_of()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return run


def fill(side, model):
    """Gives the parameters values that do not depend on the library."""
    generator = np.random.default_rng(9)
    with side.lib.no_grad():
        for parameter_name, parameter in model.named_parameters():
            shape = tuple(parameter.shape)
            if parameter_name.endswith("bias"):
                parameter.zero_()
            elif len(shape) > 1:
                spread = 1 / math.sqrt(np.prod(shape[1:]))
                parameter.copy_(side.of((generator.standard_normal(shape) * spread).astype(np.float32)))


def gpt(side):
    lib, F = side.lib, side.F
    nn = __import__(lib.__name__ + ".nn", fromlist=["nn"])
    width, count, length, vocabulary, layers, batch = scaled(256, 16), scaled(8, 2), scaled(256, 8), scaled(1024, 16), 4, 4
    mask = side.of(np.tril(np.ones((length, length), dtype=bool)))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (part.view(b, t, count, c // count).transpose(1, 2) for part in self.qkv(self.before(x)).split(width, dim=2))
            scores = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(c // count))
            weights = F.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)
            x = x + self.out((weights @ v).transpose(1, 2).contiguous().view(b, t, c))
            return x + self.down(F.gelu(self.up(self.after(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

        def forward(self, tokens, places):
            return self.head(self.norm(self.blocks(self.tokens(tokens) + self.places(places))))

    model = Model()
    drawn = np.random.default_rng(3).integers(0, vocabulary, (batch, length + 1), dtype=np.int64)
    tokens, wanted = side.of(drawn[:, :-1].copy()), side.of(drawn[:, 1:].copy())
    places = side.of(np.arange(length))
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-4)
    return stepping(side, model, optimizer,
                    lambda: F.cross_entropy(model(tokens, places).view(-1, vocabulary), wanted.view(-1)))


def resnet(side):
    lib, F = side.lib, side.F
    nn = __import__(lib.__name__ + ".nn", fromlist=["nn"])

    def conv(before, after, kernel, stride):
        return nn.Conv2d(before, after, kernel, stride=stride, padding=kernel // 2, bias=False)

    class Block(nn.Module):
        def __init__(self, before, after, stride):
            super().__init__()
            self.first, self.second = conv(before, after, 3, stride), conv(after, after, 3, 1)
            self.norm, self.other = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
            same = stride == 1 and before == after
            self.short = nn.Identity() if same else nn.Sequential(conv(before, after, 1, stride), nn.BatchNorm2d(after))

        def forward(self, x):
            y = self.other(self.second(F.relu(self.norm(self.first(x)))))
            return F.relu(y + self.short(x))

    widths = [scaled(width, 4) for width in (64, 128, 256, 512)]
    stages = [Block(before, after, 1 if number == 0 else 2)
              for number, (before, after) in enumerate(zip([widths[0]] + widths, widths))]
    model = nn.Sequential(conv(3, widths[0], 7, 2), nn.BatchNorm2d(widths[0]), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *stages,
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 10))
    edge = scaled(64, 32)
    x, classes = side.of(normal_of(8, 8, 3, edge, edge)), side.of(np.arange(8) % 10)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return stepping(side, model, optimizer, lambda: F.cross_entropy(model(x), classes))


def seconds(work):
    began = time.process_time()
    work()
    return time.process_time() - began


def alone(work):
    first = seconds(work)
    if first > TURN:
        return first
    runs = max(1, min(200, int(TURN / max(first, 1e-6))))
    return seconds(lambda: [work() for _ in range(runs)]) / runs


def array_of(value):
    if not hasattr(value, "detach"):
        return np.asarray(value)
    value = value.detach()
    return (value.float() if "bfloat16" in str(value.dtype) else value).numpy()


def compare(key, ours, theirs):
    for number, (a, b) in enumerate(zip(*(x if isinstance(x, tuple) else (x,) for x in (ours, theirs)))):
        a, b = array_of(a), array_of(b)
        if number == 1 and key.startswith(("sort", "topk", "eigh")):
            # Equal elements may be in another order, and eigenvectors have any sign.
            continue
        close = dict(rtol=2e-2, atol=0.5) if "bfloat16" in key else dict(rtol=2e-3, atol=2e-3 * max(1e-3, float(np.abs(b).max())))
        np.testing.assert_allclose(a, b, err_msg=f"{key}, result {number}", **close)


def measure(rounds, only, alone_too):
    ours = Ours()
    theirs = None if alone_too else Theirs()
    for key, name, make in operations():
        if only and only not in key:
            continue
        kind = "factorisations" if key.startswith(FACTORISATIONS) else "operations"
        mine = make(ours)
        result = mine()
        if theirs is None:
            show(kind, key, name, [alone(mine) for _ in range(rounds)], ())
            continue
        other = make(theirs)
        compare(key, result, other())
        mine(), other()
        pairs = [(alone(mine), alone(other)) for _ in range(rounds)]
        show(kind, key, f"{name} vs. PyTorch", [a for a, _ in pairs], [b for _, b in pairs])


# What a child measures the memory of.
PEAKS = {
    "conv": ("conv_training", "memory of a convolution's training step"),
    "attention": ("attention_training", "memory of a causal attention's training step"),
}


def memory(alone_too):
    for key, (_, name) in PEAKS.items():
        def peak(side):
            command = [sys.executable, __file__, "--peak", key, "--side", side, "--smaller", str(SMALLER)]
            return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

        show("memory", f"memory_{key}", f"{name} vs. PyTorch", [peak("ours")], [] if alone_too else [peak("theirs")])


def peak(key, side):
    side = {"ours": Ours, "theirs": Theirs}[side]()
    wanted = PEAKS[key][0]
    run = next(make for known, _, make in operations() if known == wanted)(side)
    before = resident("VmRSS")
    with open("/proc/self/clear_refs", "w") as file:
        # Resets the peak.
        file.write("5")
    for _ in range(3):
        run()
    print((resident("VmHWM") - before) / 1024)


def resident(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name))


def show(kind, key, name, ours, reference):
    print(kind, key, name, ",".join(map(repr, ours)), ",".join(map(repr, reference)), sep="\t", flush=True)


def main():
    global SMALLER, TURN
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", help="measures what has this in its key")
    parser.add_argument("--smoke", action="store_true", help="small sizes, without PyTorch: only shows that the measurements work")
    parser.add_argument("--smaller", type=int, default=1, help="divides sizes")
    parser.add_argument("--peak", choices=PEAKS)
    parser.add_argument("--side", choices=["ours", "theirs"], default="ours")
    arguments = parser.parse_args()
    SMALLER = 16 if arguments.smoke else arguments.smaller
    if arguments.smoke:
        TURN = 0
    if arguments.peak:
        peak(arguments.peak, arguments.side)
        return
    measure(arguments.rounds, arguments.only, arguments.smoke)
    if not arguments.only:
        memory(arguments.smoke)


if __name__ == "__main__":
    main()
