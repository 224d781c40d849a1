"""A software MI300X for the tests: `remora worker` with two GPUs on a Unix socket, and its client library as the HIP runtime."""

import os
import subprocess
import tempfile

import pytest

_folder = tempfile.TemporaryDirectory(prefix="pyflame-test-")
_worker = None


def _start():
    """Starts a worker if REMORA_BIN is set. It must run before the first use of ROCm, so before any test is collected."""
    binary = os.environ.get("REMORA_BIN")
    if not binary:
        return None
    socket = os.path.join(_folder.name, "worker")
    command = [binary, "worker", "--listen", f"unix:{socket}", "--device", "mi300x", "--device", "mi300x"]
    command += ["--ready", "--exit-with-parent", "--no-upload-cache", "--watchdog", "0"]
    # An empty folder gives a worker without a compiler, so that every test uses interpreted steps.
    if toolchain := os.environ.get("PYFLAME_TEST_TOOLCHAIN"):
        command += ["--toolchain", toolchain]
    log = open(os.path.join(_folder.name, "worker.log"), "wb")
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
    line = worker.stdout.readline().decode()
    if not line.startswith("listening on"):
        worker.kill()
        raise RuntimeError(f"the worker did not start: {open(log.name).read()}")
    os.environ["REMORA_WORKER"] = f"unix:{socket}"
    library = os.path.join(os.path.dirname(binary), "..", "lib", "libamdhip64.so.6")
    os.environ["PYFLAME_HIP_LIBRARY"] = os.environ.get("REMORA_LIBRARY", os.path.abspath(library))
    os.environ.setdefault("PYFLAME_CACHE", os.path.join(_folder.name, "kernels"))
    return worker


_worker = _start()

needs_compiler = pytest.mark.skipif("PYFLAME_TEST_TOOLCHAIN" in os.environ, reason="the worker has no compiler")

DEVICES = ["cpu"] + (["rocm"] if _worker else [])


def pytest_sessionfinish():
    if _worker:
        _worker.terminate()
        _worker.wait()


def pytest_terminal_summary(terminalreporter):
    """Lists skipped tests in the form that `cargo xtask test` collects."""
    for report in terminalreporter.stats.get("skipped", []):
        name = report.nodeid.rsplit("/", 1)[-1]
        reason = report.longrepr[2].removeprefix("Skipped: ").splitlines()[0]
        terminalreporter.write_line(f"skipped: {name}: {reason}")


def pytest_report_header():
    return "devices: " + ", ".join(DEVICES) + ("" if _worker else " (REMORA_BIN is not set)")


@pytest.fixture(params=DEVICES)
def device(request):
    """Runs every test on each device."""
    import pyflame as pf

    before = pf.get_device()
    pf.set_device(request.param)
    pf.manual_seed(0)
    yield request.param
    pf.set_device(before)


@pytest.fixture
def gpu():
    """For tests that need a GPU."""
    if not _worker:
        pytest.skip("REMORA_BIN is not set")
    import pyflame as pf

    before = pf.get_device()
    pf.set_device("rocm")
    pf.manual_seed(0)
    yield "rocm:0"
    pf.set_device(before)


