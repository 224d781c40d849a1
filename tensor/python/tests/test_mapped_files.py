"""Loading a file costs no memory and no time for its elements until a tensor is used."""

import os
import time

import numpy as np
import pytest

import pyflame as pf

MIB = 1 << 20


def _resident():
    """Bytes of this process's memory that are not pages of files."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("RssAnon"))


def _large(path, size):
    """A file with four tensors of `size` bytes each, and what they are."""
    rows = np.random.default_rng(0).standard_normal((4, size // 4)).astype(np.float32)
    value = {f"t{number}": pf.from_numpy(row) for number, row in enumerate(rows)}
    pf.save(value, path)
    return rows


@pytest.mark.parametrize("name", ["x.safetensors", "x.pt"])
def test_loading_reads_no_elements_and_using_a_tensor_only_its_own(tmp_path, name):
    path = tmp_path / name
    rows = _large(path, 16 * MIB)
    before = _resident()
    found = pf.load(path, device="cpu")
    assert _resident() - before < 2 * MIB
    assert found["t1"].shape == (4 * MIB,) and found["t1"].dtype is pf.float32
    assert found["t1"].sum().item() == pytest.approx(rows[1].sum(), abs=1)
    assert _resident() - before < 24 * MIB
    for number, row in enumerate(rows):
        np.testing.assert_array_equal(found[f"t{number}"].numpy(), row)


@pytest.mark.parametrize("name", ["x.safetensors", "x.pt"])
def test_the_time_of_loading_does_not_depend_on_the_size(tmp_path, name):
    times = []
    for size in (1 << 10, 64 * MIB):
        path = tmp_path / f"{size}{name}"
        pf.save({"a": pf.zeros(size // 4)}, path)
        best = float("inf")
        for _ in range(5):
            started = time.perf_counter()
            pf.load(path, device="cpu")
            best = min(best, time.perf_counter() - started)
        times.append(best)
    # Reading 64 MiB takes 10 ms and more.
    assert times[1] < times[0] + 0.005, times


@pytest.mark.parametrize("name", ["x.safetensors", "x.pt"])
def test_tensors_of_a_file_are_as_any_other(device, tmp_path, name):
    path = tmp_path / name
    value = {"a": pf.arange(12, dtype=pf.float32).reshape(3, 4), "b": pf.tensor([1, 2, 3], dtype=pf.int16), "none": pf.zeros(0, 2)}
    pf.save(value, path)
    content = path.read_bytes()
    found = pf.load(path)
    os.remove(path)
    view = found["a"].T
    other = found["a"].detach()
    # A write is seen by all views, and not by the file.
    found["a"][0] = -1
    assert view[:, 0].tolist() == [-1.0] * 4 and other[0].tolist() == [-1.0] * 4
    found["b"].fill_(7)
    assert found["b"].tolist() == [7, 7, 7] and found["none"].shape == (0, 2)
    path.write_bytes(content)
    again = pf.load(path)
    assert again["a"].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]] and again["b"].tolist() == [1, 2, 3]
    # Each use of a tensor that was never used before.
    assert (pf.load(path)["a"] + 1).sum().item() == 78.0
    assert pf.load(path)["a"].numpy()[2].tolist() == [8, 9, 10, 11]
    shared = pf.load(path, device="cpu")["a"]
    shared.numpy()[0] = 5
    assert shared[0].tolist() == [5] * 4
    linear = pf.nn.Linear(4, 3, bias=False)
    linear.load_state_dict({"weight": pf.load(path)["a"]})
    linear(pf.ones(1, 4)).sum().backward()
    assert linear.weight.tolist() == again["a"].tolist() and linear.weight.grad.tolist() == [[1.0] * 4] * 3
    # A file that is saved under the name of one that is in use replaces it.
    lazy = pf.load(path)
    pf.save({"a": pf.ones(3, 4), "b": pf.zeros(3)}, path)
    assert lazy["a"][1].tolist() == [4, 5, 6, 7] and pf.load(path)["a"].sum().item() == 12


def test_many_threads_may_use_a_tensor_of_a_file_first(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    pf.save({"a": pf.arange(MIB)}, tmp_path / "x.safetensors")
    with ThreadPoolExecutor(8) as threads:
        for _ in range(10):
            tensor = pf.load(tmp_path / "x.safetensors", device="cpu")["a"]
            sums = list(threads.map(lambda number: tensor[number:].sum().item(), range(8)))
            whole = MIB * (MIB - 1) // 2
            assert sums == [whole - number * (number - 1) // 2 for number in range(8)]


def test_a_mapped_file_checks_ranges(tmp_path):
    (tmp_path / "x").write_bytes(bytes(range(16)))
    with open(tmp_path / "x", "rb") as file:
        mapped = pf._pyflame.MappedFile(file.fileno(), 16)
    assert mapped.read(14, 2) == b"\x0e\x0f"
    for at, length in ((15, 2), (17, 0), (1 << 63, 1), (0, 1 << 63)):
        with pytest.raises(ValueError, match="outside"):
            mapped.read(at, length)
    for shape, at in (([5], 0), ([4], 1), ([1 << 62, 4], 0)):
        with pytest.raises(ValueError):
            mapped.tensor("float32", shape, at)
    with pytest.raises(OSError):
        pf._pyflame.MappedFile(-1, 16)
