"""Benchmarks operations on the current GPU, or on the CPU with `--device cpu`.

    python benchmarks/rocm_benchmark.py --all
    python benchmarks/rocm_benchmark.py --matmul --conv --iterations 200 --warmup 20

Each line shows the best and the mean time of all iterations, and the rate in FLOP/s or bytes/s. A software GPU runs on the CPU:
`--small` divides the sizes so that the benchmark finishes in reasonable time.
"""

import argparse
import sys
import time

import pyflame as pf

GROUPS = [
    "matmul", "conv", "activations", "reductions", "elementwise", "memory", "pooling", "batchnorm", "mlp", "attention",
]  # fmt: skip


class Bench:
    def __init__(self, options):
        self.options = options
        self.rows = []

    def size(self, number, least=1):
        """The size, or a sixteenth of it (at least `least`) with `--small`."""
        return max(number // 16, least) if self.options.small else number

    def measure(self, group, name, work, flops=0, bytes_moved=0):
        for _ in range(self.options.warmup):
            pf.eval(work())
        pf.synchronize()
        times = []
        for _ in range(self.options.iterations):
            start = time.perf_counter()
            pf.eval(work())
            pf.synchronize()
            times.append(time.perf_counter() - start)
        best, mean = min(times), sum(times) / len(times)
        rate = f"{flops / best / 1e9:12.2f} GFLOP/s" if flops else f"{bytes_moved / best / 1e9:12.2f} GB/s"
        self.rows.append((group, name, best, mean, flops, bytes_moved))
        print(f"{group:12} {name:34} {best * 1e3:10.3f} {mean * 1e3:10.3f} {rate}", flush=True)


def matmul(bench):
    sizes = [(n, n, n) for n in (512, 1024, 2048, 4096, 8192)] + [(1024, 4096, 1024), (4096, 1024, 4096)]
    for m, k, n in sizes:
        m, k, n = (bench.size(x) for x in (m, k, n))
        a, b = pf.randn(m, k), pf.randn(k, n)
        pf.eval(a, b)
        bench.measure("matmul", f"{m} x {k} x {n}", lambda: pf.matmul(a, b), flops=2 * m * k * n)
    for batch, n in ((32, 128), (64, 256)):
        batch, n = bench.size(batch), bench.size(n)
        a, b = pf.randn(batch, n, n), pf.randn(batch, n, n)
        pf.eval(a, b)
        bench.measure("matmul", f"batch {batch} of {n} x {n} x {n}", lambda: pf.bmm(a, b), flops=2 * batch * n**3)


def conv(bench):
    shapes = [
        (32, 3, 224, 64, 7, 2, 3), (32, 64, 56, 64, 3, 1, 1), (32, 128, 28, 128, 3, 1, 1), (32, 256, 14, 256, 3, 1, 1),
        (32, 512, 7, 512, 3, 1, 1), (32, 64, 56, 256, 1, 1, 0), (16, 64, 224, 64, 3, 1, 1), (16, 128, 112, 128, 3, 1, 1),
    ]  # fmt: skip
    for n, channels, side, out, kernel, stride, padding in shapes:
        n, channels, out = bench.size(n), bench.size(channels, 3), bench.size(out)
        side = max(side // 4, kernel) if bench.options.small else side
        x, w = pf.randn(n, channels, side, side), pf.randn(out, channels, kernel, kernel)
        pf.eval(x, w)
        after = (side + 2 * padding - kernel) // stride + 1
        flops = 2 * n * out * after * after * channels * kernel * kernel
        name = f"{n}x{channels}x{side}x{side} {out}@{kernel}x{kernel}/{stride}"
        bench.measure("conv", name, lambda: pf.conv2d(x, w, stride=stride, padding=padding), flops=flops)


def activations(bench):
    for size in (1 << 20, 1 << 22, 1 << 24):
        x = pf.randn(bench.size(size))
        pf.eval(x)
        for name in ("relu", "sigmoid", "tanh", "gelu", "silu"):
            work = getattr(pf, name)
            bench.measure("activations", f"{name} {x.nelement()}", lambda: work(x), bytes_moved=8 * x.nelement())
    x = pf.randn(bench.size(1024), 1024)
    pf.eval(x)
    bench.measure("activations", f"softmax {tuple(x.shape)}", lambda: pf.softmax(x, dim=-1), bytes_moved=8 * x.nelement())


def reductions(bench):
    for size in (1 << 20, 1 << 22, 1 << 24):
        x = pf.randn(bench.size(size) // 1024, 1024)
        pf.eval(x)
        for name in ("sum", "mean", "amax", "amin"):
            work = getattr(pf, name)
            bench.measure("reductions", f"{name} {tuple(x.shape)}", lambda: work(x, dim=1), bytes_moved=4 * x.nelement())


def elementwise(bench):
    for size in (1 << 20, 1 << 22, 1 << 24):
        a, b = pf.randn(bench.size(size)), pf.rand(bench.size(size)) + 1
        pf.eval(a, b)
        for name in ("add", "sub", "mul", "div"):
            work = getattr(pf, name)
            bench.measure("elementwise", f"{name} {a.nelement()}", lambda: work(a, b), bytes_moved=12 * a.nelement())
        chain = lambda: ((a * b + 1).relu() - b) * 0.5  # noqa: E731
        bench.measure("elementwise", f"a chain of 5 {a.nelement()}", chain, bytes_moved=12 * a.nelement())


def memory(bench):
    for megabytes in (1, 4, 16, 64, 256, 1024):
        count = bench.size(megabytes * (1 << 20)) // 4
        data = bytes(4 * count)
        up = lambda: pf._pyflame.from_parts("float32", [count], data)  # noqa: E731
        bench.measure("memory", f"to the device {4 * count} B", up, bytes_moved=4 * count)
        there = up()

        def down():
            there.to_parts()
            return []

        bench.measure("memory", f"from the device {4 * count} B", down, bytes_moved=4 * count)


def pooling(bench):
    for n, channels, side, kernel in ((32, 64, 112, 2), (32, 128, 56, 2), (32, 256, 28, 2)):
        x = pf.randn(bench.size(n), bench.size(channels), side, side)
        pf.eval(x)
        for name in ("max_pool2d", "avg_pool2d"):
            work = getattr(pf, name)
            moved = 4 * x.nelement() * 5 // 4
            bench.measure("pooling", f"{name} {tuple(x.shape)}", lambda: work(x, kernel, kernel), bytes_moved=moved)


def batchnorm(bench):
    for n, channels, side in ((32, 64, 112), (32, 256, 56), (32, 512, 28)):
        x = pf.randn(bench.size(n), bench.size(channels), side, side)
        gamma, beta, mean = (pf.randn(x.shape[1]) for _ in range(3))
        var = pf.randn(x.shape[1]).abs() + 0.1
        pf.eval(x, gamma, beta, mean, var)
        work = lambda: pf.batch_norm(x, mean, var, gamma, beta, training=False)  # noqa: E731
        bench.measure("batchnorm", f"{tuple(x.shape)}", work, bytes_moved=8 * x.nelement())


def mlp(bench):
    for batch, dims in ((64, (784, 256, 10)), (128, (784, 512, 256, 10)), (256, (1024, 1024, 1024, 1024))):
        batch, dims = bench.size(batch), [bench.size(d) for d in dims]
        layers = [(pf.randn(a, b) * 0.01, pf.randn(b)) for a, b in zip(dims, dims[1:])]
        x = pf.randn(batch, dims[0])
        pf.eval(x, layers)

        def work():
            h = x
            for number, (w, b) in enumerate(layers):
                h = pf.matmul(h, w) + b
                h = pf.relu(h) if number + 1 < len(layers) else h
            return h

        flops = sum(2 * batch * a * b for a, b in zip(dims, dims[1:]))
        bench.measure("mlp", f"{batch} x {'-'.join(map(str, dims))}", work, flops=flops)


def attention(bench):
    for batch, heads, length, depth in ((8, 8, 128, 64), (8, 12, 256, 64), (4, 16, 512, 64), (2, 16, 1024, 64)):
        batch, heads, length = bench.size(batch), bench.size(heads), bench.size(length)
        q, k, v = (pf.randn(batch, heads, length, depth) for _ in range(3))
        pf.eval(q, k, v)
        work = lambda: pf.matmul(pf.softmax(pf.matmul(q, k.transpose(-2, -1)), dim=-1), v)  # noqa: E731
        bench.measure("attention", f"{batch}x{heads}x{length}x{depth}", work, flops=4 * batch * heads * length**2 * depth)


def plot(rows, path):
    """Plots one bar for each line, longest times last."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = sorted(rows, key=lambda row: row[2])
    figure, axes = pyplot.subplots(figsize=(10, 0.25 * len(rows) + 1))
    axes.barh([f"{row[0]} {row[1]}" for row in rows], [row[2] * 1e3 for row in rows])
    axes.set_xscale("log")
    axes.set_xlabel("milliseconds, best")
    figure.tight_layout()
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="run every group (the default)")
    for name in GROUPS:
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--device", default="rocm")
    parser.add_argument("--small", action="store_true", help="smaller sizes, for a software GPU")
    parser.add_argument("--plot", metavar="FILE", help="plot the times to FILE (needs matplotlib)")
    options = parser.parse_args()
    if options.iterations < 1 or options.warmup < 0:
        parser.error("at least one iteration is needed")
    try:
        pf.set_device(options.device)
    except RuntimeError as error:
        sys.exit(f"{error}")
    info = pf.device_info()
    print(f"{info['name']} {info.get('architecture', '')}: {options.iterations} iterations after {options.warmup}")
    print(f"{'group':12} {'what':34} {'best ms':>10} {'mean ms':>10} {'rate':>12}")
    chosen = [name for name in GROUPS if getattr(options, name)] if not options.all else GROUPS
    bench = Bench(options)
    for name in chosen or GROUPS:
        globals()[name](bench)
    if options.plot:
        plot(bench.rows, options.plot)


if __name__ == "__main__":
    main()
