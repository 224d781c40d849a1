"""Memory shared with NumPy and, by DLPack, with other libraries: no copies, and writes reach the other side."""

import gc
import resource

import numpy as np
import pytest

import pyflame as pf


@pytest.fixture(autouse=True)
def on_cpu():
    pf.set_device("cpu")


def address(array):
    return array.__array_interface__["data"][0]


def ways_out():
    return [lambda x: x.numpy(), np.asarray, np.from_dlpack]


def ways_in():
    return [pf.from_numpy, pf.from_dlpack]


@pytest.mark.parametrize("out", ways_out())
def test_an_exported_array_has_the_memory_of_the_tensor(out):
    x = pf.arange(6).reshape(2, 3).float() * 1
    array, again = out(x), out(x)
    assert address(array) == address(again)
    array[0, 1] = 7
    assert x.tolist() == [[0, 7, 2], [3, 4, 5]]
    x[1].fill_(9)
    x.T[0] = pf.tensor([1.0, 2.0])
    assert array.tolist() == again.tolist() == [[1, 7, 2], [2, 9, 9]]
    x.add_(1)
    assert array.tolist() == x.tolist() == [[2, 8, 3], [3, 10, 10]]


def test_views_are_exported_at_their_place():
    x = pf.zeros(4, 6)
    x.T[1:3, ::2].numpy()[...] = [[1, 2], [3, 4]]
    x[3].flip(0).numpy()[:] = 5
    expected = np.zeros((4, 6))
    expected.T[1:3, ::2] = [[1, 2], [3, 4]]
    assert x.tolist() == expected.tolist()
    row = x[2].numpy()
    x[2, 5] = 8
    assert row[5] == 8 and row.strides == (4,)


@pytest.mark.parametrize("take", ways_in())
def test_an_imported_array_is_the_memory_of_the_tensor(take):
    array = np.arange(12, dtype=np.float64).reshape(3, 4)
    x, part = take(array), take(array[::2, 1:])
    array[0, 1] = 50
    assert x[0, 1].item() == part[0, 0].item() == 50
    x[2] = 1
    part[0, 2].add_(2)
    x.T[3].mul_(10)
    expected = np.arange(12.0).reshape(3, 4)
    expected[0, 1], expected[2] = 50, 1
    expected[0, 3] += 2
    expected[:, 3] *= 10
    assert array.tolist() == x.tolist() == expected.tolist()
    assert address(x.numpy()) == address(array)


def test_results_have_the_elements_of_their_time():
    array = np.ones(4, np.float32)
    x = pf.from_numpy(array)
    before = x * 2
    array[:] = 5
    after = x * 2
    x[0] = 0
    assert before.tolist() == [2] * 4 and after.tolist() == [10] * 4 and x.sum().item() == 15


def test_what_was_computed_before_the_export_keeps_its_elements():
    x = pf.arange(4).float() + 0
    pending, kept = x * 2, x.clone()
    w = pf.ones(4, requires_grad=True)
    loss = (w * x).sum()
    x.numpy()[:] = 100
    assert pending.tolist() == [0, 2, 4, 6] and kept.tolist() == [0, 1, 2, 3]
    loss.backward()
    assert w.grad.tolist() == [0, 1, 2, 3]


def test_memory_lives_as_long_as_either_side():
    array = (pf.arange(1000) + 1).numpy()
    gc.collect()
    filler = [pf.zeros(1000, dtype=pf.int64) + 7 for _ in range(20)]
    pf.eval(*filler)
    assert array.sum() == 500500
    given = np.arange(1000)
    x = pf.from_numpy(given)
    del given
    gc.collect()
    assert x.sum().item() == 499500
    x = pf.arange(5) + 0
    array = x.numpy()
    array[0] = 3
    del array
    gc.collect()
    x[1] = 4
    assert (x + 0).tolist() == [3, 4, 2, 3, 4]


def test_a_capsule_that_nobody_takes_is_freed():
    x = pf.zeros(4)
    for _ in range(100):
        x.__dlpack__()
    array = np.zeros(3)
    for _ in range(100):
        pf.from_dlpack(array)
    gc.collect()
    assert array.flags.writeable and x.sum().item() == 0


def test_arrays_that_cannot_be_shared_are_copied():
    frozen = np.ones(3, np.float32)
    frozen.flags.writeable = False
    wide = np.broadcast_to(np.float32(2), (2, 2))
    for array in (frozen, wide, np.arange(3).astype(">i4"), np.zeros((0, 2), np.float32)):
        x = pf.from_numpy(array)
        assert x.tolist() == array.tolist()
        x.add_(1)
        assert x.shape == array.shape
    assert frozen.tolist() == [1, 1, 1]
    assert pf.from_numpy(np.ones(2), dtype=pf.float32).dtype is pf.float32


def test_copies_are_made_or_refused_on_request():
    x = pf.zeros(3)
    copied = np.from_dlpack(x, copy=True)
    copied[0] = 1
    assert x.tolist() == [0, 0, 0]
    np.array(x)[0] = 1
    array = np.zeros(3)
    pf.from_dlpack(array, copy=True).add_(1)
    assert x.tolist() == [0, 0, 0] and array.tolist() == [0, 0, 0]
    with pytest.raises(BufferError, match="copy"):
        pf.from_dlpack(np.lib.stride_tricks.as_strided(np.zeros(4), (3, 2), (8, 8)), copy=False)
    assert np.asarray(x, copy=False)[0] == 0


@pytest.mark.parametrize("dtype", ["bool", "uint16", "int64", "float16", "float64", "complex64", "complex128"])
def test_every_type_is_shared(dtype):
    array = np.zeros(5, dtype)
    x = pf.from_numpy(array)
    x[1:3] = 1
    assert x.dtype is pf.dtype_of(dtype) and array.tolist() == x.numpy().tolist() == np.array([0, 1, 1, 0, 0], dtype).tolist()


def test_gpus_have_copies(gpu):
    x = pf.arange(4) * 2
    array = x.numpy()
    array[0] = 9
    assert x.tolist() == [0, 2, 4, 6]
    assert pf.from_numpy(np.ones(2)).device == "rocm:0"


def faults(work):
    """The pages that the kernel gave this process meanwhile."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    work()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.parametrize("download", [lambda x: x.numpy(), lambda x: x.cpu(), lambda x: np.asarray(x)])
def test_downloads_take_the_memory_that_earlier_ones_returned(gpu, download):
    x = pf.full((64 << 18,), 3.0) * 2
    pf.eval(x)
    assert float(download(x)[-1]) == 6
    pages = (64 << 20) // 4096
    assert faults(lambda: download(x)) < pages // 8
    assert float(download(x)[0]) == 6
