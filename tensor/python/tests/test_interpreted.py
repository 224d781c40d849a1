"""A worker without a kernel compiler: pyflame interprets every step, with the bits of compiled kernels."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import needs_compiler

EXAMPLE = Path(__file__).parents[3] / "examples" / "pyflame" / "digits.py"

# Prints one line per result: its name and a hash of its bytes. One result of every kind of step, in several types.
RESULTS = """
import hashlib
import warnings
warnings.simplefilter('always')
import numpy as np
import pyflame as pf
pf.set_device('rocm')
pf.manual_seed(3)
x, y = pf.randn(37, 70), pf.rand(37, 70) + 0.5
n = pf.randint(-9, 9, (37, 70))
half, twice = x.half(), x.double()
image, kernel = pf.randn(2, 3, 9, 9), pf.randn(4, 3, 3, 3)
results = {
    'map': x.sin() * y.exp() - (x / y).tanh() ** 2,
    'strided map': x.t().contiguous() + y.t(),
    'halves': half * half + 1,
    'doubles': (twice * 3).cos(),
    'integers': (n * 7 // 3) % 5 + (n > 2).long(),
    'broadcast': x[:, :1] * y[:1] + pf.arange(70).float(),
    'sum': x.sum(), 'row sums': (x * y).sum(dim=1), 'column means': x.mean(dim=0), 'half sum': half.sum(dim=0),
    'maximum': x.max(), 'any': (n > 8).any(dim=1), 'product': y[:, :9].prod(dim=1), 'integer sum': n.sum(dim=1),
    'product of matrices': pf.relu(x @ y.t() + 1), 'doubles product': twice @ twice.t(), 'half product': half @ half.t(),
    'convolution': pf.conv2d(image, kernel, padding=1), 'pool': pf.max_pool2d(image, 2),
    'softmax': x.softmax(dim=1), 'log softmax': x.log_softmax(dim=0), 'argmax': x.argmax(dim=1),
    'running sum': x.cumsum(dim=1), 'sorted': x.sort(dim=1)[0], 'order': n.sort(dim=0, descending=True)[1],
    'joined': pf.cat([x, y], dim=1), 'gathered': x.gather(1, n.abs()), 'picked': x[pf.tensor([3, 1, 3])],
    'uniform': pf.rand(1001), 'normal': pf.randn(1001), 'integers at random': pf.randint(-5, 50, (1001,)),
    'layer norm': pf.layer_norm(x, (70,)),
}
pf.eval(*results.values())
model = pf.nn.Sequential(pf.nn.Linear(70, 16), pf.nn.ReLU(), pf.nn.Linear(16, 4))
optimizer = pf.optim.Adam(model.parameters(), lr=1e-2)
for step in range(3):
    loss = pf.cross_entropy(model(x), n[:, 0].abs() % 4)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    results[f'loss {step}'] = loss.detach()
for name, result in results.items():
    print(f'{name}:', hashlib.sha256(result.numpy().tobytes()).hexdigest()[:16], flush=True)
stats = pf.backend.rocm.get_kernel_cache().get_stats()
print('compiled', stats['compiled'], 'interpreted', stats['interpreted_launches'])
"""


@pytest.fixture
def bare(tmp_path):
    """The environment of programs that use a worker without a compiler."""
    binary = os.environ.get("REMORA_BIN")
    if not binary:
        pytest.skip("REMORA_BIN is not set")
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    command = [binary, "worker", "--listen", f"unix:{tmp_path / 'worker'}", "--device", "mi300x", "--toolchain", str(nothing)]
    command += ["--ready", "--exit-with-parent", "--no-upload-cache", "--watchdog", "0"]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert worker.stdout.readline().startswith(b"listening on")
    yield dict(os.environ, REMORA_WORKER=f"unix:{tmp_path / 'worker'}", PYFLAME_CACHE="0")
    worker.terminate()
    worker.wait()


def _run(arguments, env):
    answer = subprocess.run([sys.executable, *arguments], env=env, capture_output=True, text=True, timeout=300)
    assert answer.returncode == 0, answer.stderr
    return answer


@needs_compiler
def test_interpreted_steps_have_the_bits_of_compiled_ones(gpu, bare):
    interpreted, compiled = _run(["-c", RESULTS], bare), _run(["-c", RESULTS], dict(os.environ))
    *found, stats = interpreted.stdout.splitlines()
    *expected, others = compiled.stdout.splitlines()
    assert found == expected and len(found) > 30
    assert stats.startswith("compiled 0 interpreted ") and not stats.endswith(" 0")
    assert others.endswith("interpreted 0")
    assert interpreted.stderr.count("no kernel compiler") == 1 and "remora doctor" in interpreted.stderr
    assert "RuntimeWarning" in interpreted.stderr and "RuntimeWarning" not in compiled.stderr


def test_the_digits_example_trains_without_a_compiler(bare):
    pytest.importorskip("sklearn")
    answer = _run([str(EXAMPLE), "--model", "mlp", "--devices", "cpu", "rocm", "--epochs", "1", "--quiet"], bare)
    apart = float(re.search(r"differ by at most ([\d.e+-]+) of the loss", answer.stdout).group(1))
    assert apart < 1e-4
