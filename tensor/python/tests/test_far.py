"""The digits example over a slow link: the worker is behind 5 ms of latency, and a step waits for it once."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "pyflame" / "digits.py"
# Steps of one epoch.
STEPS = 22


def _listening(command):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    line = process.stdout.readline().decode().strip()
    assert line.startswith("listening on "), line
    return process, line.removeprefix("listening on ").split()[0]


def test_the_digits_example_waits_for_a_far_worker_once_a_step():
    pytest.importorskip("sklearn")
    binary = os.environ.get("REMORA_BIN")
    if not binary:
        pytest.skip("REMORA_BIN is not set")
    worker, address = _listening(
        [binary, "worker", "--listen", "127.0.0.1:0", "--device", "mi300x", "--ready", "--exit-with-parent", "--watchdog", "0"]
    )
    link, far = _listening([binary, "impair", "--to", address, "--delay", "2.5"])

    def trained(epochs):
        env = dict(os.environ, REMORA_WORKER=far, REMORA_STATS="1")
        command = [sys.executable, str(EXAMPLE), "--model", "mlp", "--devices", "rocm", "--epochs", str(epochs), "--quiet"]
        answer = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
        assert answer.returncode == 0, answer.stderr
        trips, posted = re.search(r"(\d+) round trips, (\d+) posted", answer.stderr).groups()
        return int(trips), int(posted), float(re.search(r"([\d.]+) ms per step", answer.stdout).group(1))

    try:
        # The first run compiles and caches kernels.
        trained(1)
        once, twice = trained(1), trained(2)
    finally:
        link.kill()
        worker.kill()
        link.wait()
        worker.wait()
    assert twice[0] - once[0] == STEPS
    # Two tensors of the batch, two scalars of the optimizer, one graph launch, and the bounds check of the classes.
    assert twice[1] - once[1] <= 7 * STEPS
    # The latency is in effect.
    assert twice[2] >= 5.0
