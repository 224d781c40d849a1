"""Devices: selection, properties, and where operations run."""

import os
import subprocess
import sys

import numpy as np
import pytest

import pyflame as pf
from conftest import needs_compiler


def test_a_device_is_known_by_its_name(device):
    assert pf.get_device() == ("cpu" if device == "cpu" else "rocm:0")
    assert pf.zeros(2).device == pf.get_device()
    info = pf.device_info()
    assert info["type"] == device and info["name"]
    pf.synchronize()


def test_cpu_info_tells_the_cores():
    pf.set_device("cpu")
    assert pf.device_info()["cores"] >= 1
    assert pf.rocm_get_device() == -1
    assert pf.device_count() >= 1


@pytest.mark.parametrize("name", ["tpu", "rocm:", "rocm:x", "rocm:-1", "cpu:1", ""])
def test_unknown_devices_are_refused_with_the_options(name):
    with pytest.raises(ValueError, match="Unknown device: .* Valid options: 'cpu', 'rocm', 'rocm:N'"):
        pf.set_device(name)


def test_a_gpu_that_is_not_there_is_counted(gpu):
    assert pf.rocm_get_device() == 0
    with pytest.raises(RuntimeError, match="ROCm device 7 requested but only 2 devices available"):
        pf.set_device("rocm:7")
    with pytest.raises(RuntimeError, match="ROCm device 9 requested but only 2 devices available"):
        pf.rocm_get_device_info(9)
    assert pf.get_device() == "rocm:0"


def test_gpu_info_has_the_documented_keys(gpu):
    info = pf.rocm_get_device_info(1)
    assert {"type", "device_id", "name", "architecture", "total_memory", "free_memory", "compute_units"} <= set(info)
    assert info["device_id"] == 1 and info["architecture"] == "gfx942"


def test_operations_follow_the_current_device_and_placed_tensors_stay(gpu):
    a = pf.tensor([1.0, 2.0])
    assert a.device == "rocm:0"
    pf.set_device("cpu")
    assert (a + a).device == "cpu"
    placed = pf.tensor([1.0, 2.0]).to("rocm")
    assert (placed + a).device == "rocm:0"
    assert (placed * 2).tolist() == [2.0, 4.0]
    assert pf.ones(2, device="rocm:1").device == "rocm:1"
    with pytest.raises(RuntimeError, match="different devices, rocm:0 and rocm:1"):
        placed + pf.ones(2, device="rocm:1")
    pf.set_device("rocm")


def test_both_devices_agree_within_the_documented_tolerance(gpu):
    a, b = pf.randn(128, 300), pf.randn(300, 64)
    on_gpu = pf.matmul(a, b).numpy()
    pf.set_device("cpu")
    on_cpu = pf.matmul(a, b).numpy()
    pf.set_device("rocm")
    np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-5, atol=1e-6)
    assert (on_gpu == on_cpu).all()


def test_random_numbers_are_the_same_everywhere(gpu):
    def numbers():
        pf.manual_seed(42)
        return pf.rand(100).numpy(), pf.randn(100).numpy(), pf.randint(-5, 5, (100,)).numpy()

    on_gpu = numbers()
    pf.set_device("cpu")
    on_cpu = numbers()
    pf.set_device("rocm")
    for first, second in zip(on_gpu, on_cpu):
        assert (first == second).all()


def test_pools_tell_what_they_hold(gpu):
    from pyflame.backend.rocm import get_kernel_cache, get_memory_manager, get_pinned_pool, warmup_memory_pool

    manager = get_memory_manager()
    manager.reset_stats()
    warmup_memory_pool(batch_size=2, model_size="small")
    x = pf.ones(1000) + pf.randn(1000)
    pf.eval(x)
    stats = manager.get_stats()
    keys = {"total_allocated", "peak_allocated", "total_allocations", "total_deallocations", "cache_hits", "cache_misses"}
    assert keys <= set(stats) and stats["total_allocated"] >= 4000
    free, total = manager.get_memory_info()
    assert 0 < free <= total
    manager.clear_pool()
    assert manager.get_stats()["kept"] == 0
    assert x.sum().item() == pytest.approx(float(x.numpy().sum()), rel=1e-4)
    with pytest.raises(ValueError, match="model_size"):
        warmup_memory_pool(model_size="huge")
    pool = get_pinned_pool()
    pool.warmup([4096])
    buffer = pool.acquire(100)
    buffer.write(b"abc")
    assert buffer.tobytes()[:3] == b"abc" and pool.get_stats()["in_use"] > 0
    pool.release(buffer)
    with pytest.raises(RuntimeError, match="released"):
        buffer.tobytes()
    kernels = get_kernel_cache().get_stats()
    assert kernels["launches"] > 0 and kernels["built_ahead"] + kernels["from_disk"] + kernels["compiled"] > 0


@needs_compiler
def test_tuned_steps_are_remembered_in_a_file(gpu, tmp_path):
    from pyflame.backend.rocm import get_tuning_cache

    cache = get_tuning_cache()
    with pytest.raises(ValueError, match=r"\.\."):
        cache.set_cache_file("../tuned")
    cache.set_cache_file(tmp_path / "tuned")
    cache.clear()
    a, b = pf.randn(40, 50), pf.randn(50, 60)
    cache.enable_exhaustive_search(True)
    try:
        tuned = (a @ b).numpy()
    finally:
        cache.enable_exhaustive_search(False)
    assert cache.get_stats()["entries"] == 1 and (tmp_path / "tuned").exists()
    assert ((a @ b).numpy() == tuned).all()
    cache.clear()
    assert cache.get_stats()["entries"] == 0


def test_a_forked_child_is_told_why_it_has_no_gpu(gpu):
    x = pf.ones(3)
    pf.eval(x)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        report = ""
        for work in (lambda: x.numpy(), lambda: pf.set_device("rocm")):
            try:
                work()
                report += "nothing;"
            except RuntimeError as error:
                report += f"{error};"
        report += str(pf.ones(2, device="cpu").tolist())
        os.write(write, report.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        report = pipe.read()
    os.waitpid(child, 0)
    assert report.count("forked") == 2 and report.endswith("[1.0, 1.0]")
    assert x.sum().item() == 3.0


def test_a_machine_without_rocm_says_so():
    code = (
        "import pyflame as pf\n"
        "assert not pf.rocm_is_available() and pf.rocm_device_count() == 0 and pf.rocm_trouble()\n"
        "try:\n    pf.set_device('rocm')\n"
        "except RuntimeError as error:\n    assert 'ROCm not available' in str(error), error\n"
        "else:\n    raise SystemExit('no error')\n"
        "assert pf.ones(2).sum().item() == 2\n"
    )
    env = dict(os.environ, PYFLAME_HIP_LIBRARY="/nowhere/libamdhip64.so")
    subprocess.run([sys.executable, "-c", code], env=env, check=True)


def test_a_worker_that_dies_gives_an_error_and_leaves_the_process_usable(tmp_path):
    binary = os.environ.get("REMORA_BIN")
    if not binary:
        pytest.skip("REMORA_BIN is not set")
    socket = tmp_path / "worker"
    command = [binary, "worker", "--listen", f"unix:{socket}", "--device", "mi300x", "--ready", "--exit-with-parent"]
    worker = subprocess.Popen(command + ["--no-upload-cache"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert worker.stdout.readline().startswith(b"listening on")
    code = (
        "import os, sys, signal\n"
        "import pyflame as pf\n"
        "x = pf.tensor([1.0, 2.0], device='rocm')\n"
        "assert x.tolist() == [1.0, 2.0]\n"
        "os.kill(int(sys.argv[1]), signal.SIGKILL)\n"
        "try:\n    (x + 1).tolist()\n"
        "except RuntimeError as error:\n    print('error:', error)\n"
        "else:\n    raise SystemExit('no error')\n"
        "assert (pf.ones(2) + 1).tolist() == [2.0, 2.0]\n"
    )
    env = dict(os.environ, REMORA_WORKER=f"unix:{socket}", REMORA_CONNECT_TIMEOUT="500ms")
    answer = subprocess.run(
        [sys.executable, "-c", code, str(worker.pid)], env=env, capture_output=True, text=True, timeout=120
    )
    worker.wait()
    assert answer.returncode == 0, answer.stderr
    assert "rocm:0" in answer.stdout


def _answer(code, **variables):
    env = {name: value for name, value in os.environ.items() if name != "PYFLAME_THREADS"}
    return subprocess.run([sys.executable, "-c", code], env={**env, **variables}, capture_output=True, text=True)


@pytest.mark.parametrize("count", ["abc", "0", "-1", "1.5", "99999"])
def test_a_wrong_number_of_threads_is_an_error_that_says_what_is_allowed(count):
    answer = _answer("import pyflame", PYFLAME_THREADS=count)
    assert answer.returncode != 0
    assert f"PYFLAME_THREADS must be a whole number from 1 to 1024, not \"{count}\"" in answer.stderr
    assert _answer("import pyflame", PYFLAME_THREADS="2").returncode == 0


def test_the_name_cuda_says_once_what_it_means(gpu):
    code = "import pyflame as pf; [pf.ones(1, device='cuda:0') for _ in range(3)]; pf.set_device('cuda')"
    answer = _answer(code)
    assert answer.returncode == 0 and answer.stderr.count("the device 'cuda' means 'rocm'") == 1, answer.stderr
    assert "means" not in _answer("import pyflame as pf; pf.ones(1, device='rocm')").stderr


def test_synchronize_starts_what_is_pending(device):
    a = pf.tensor(np.ones((4, 4), np.float32))
    product, gone = a @ a, a + 1
    view = (a * 3)[1]
    del gone
    assert not product.is_realised() and not view.is_realised()
    pf.synchronize()
    assert product.is_realised() and view.is_realised()
    a[0] = 5.0
    assert not a.is_realised()
    pf.synchronize()
    assert a.is_realised()
