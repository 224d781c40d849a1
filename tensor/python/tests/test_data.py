"""Data sets, samplers and loaders."""

import gc
import os
import time

import numpy as np
import pytest

import pyflame as pf
from pyflame.utils import data


class Squares(data.Dataset):
    def __init__(self, count, bad=None):
        self.count, self.bad = count, bad

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index == self.bad:
            raise KeyError(f"example {index} is bad")
        return {"x": pf.tensor([float(index)]), "square": index * index, "pid": os.getpid()}


class Stream(data.IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        info = data.get_worker_info()
        start, step = (info.id, info.num_workers) if info else (0, 1)
        return iter(range(start, self.count, step))


def test_batches_are_collated_in_order(device):
    loader = data.DataLoader(Squares(7), batch_size=3)
    batches = list(loader)
    assert len(loader) == 3 and [batch["square"].tolist() for batch in batches] == [[0, 1, 4], [9, 16, 25], [36]]
    assert batches[0]["x"].shape == (3, 1)
    assert [len(batch["square"]) for batch in data.DataLoader(Squares(7), batch_size=3, drop_last=True)] == [3, 3]


@pytest.mark.parametrize("pin", [False, True])
def test_workers_give_the_same_batches_as_none(device, pin):
    pf.manual_seed(5)
    here = [batch["square"].tolist() for batch in data.DataLoader(Squares(20), 3, shuffle=True)]
    pf.manual_seed(5)
    loader = data.DataLoader(Squares(20), 3, shuffle=True, num_workers=2, pin_memory=pin)
    batches = list(loader)
    assert sorted(sum((batch["square"].tolist() for batch in batches), [])) == [n * n for n in range(20)]
    assert sorted(sum(here, [])) == [n * n for n in range(20)] and here != sorted(here)
    pids = set(sum((batch["pid"].tolist() for batch in batches), []))
    assert len(pids) == 2 and os.getpid() not in pids
    if pin and device != "cpu":
        assert batches[0]["x"].device.startswith("rocm")


def test_an_order_of_a_generator_can_be_repeated():
    def order(seed):
        return [batch["square"].tolist() for batch in data.DataLoader(Squares(9), 2, shuffle=True, generator=pf.Generator().manual_seed(seed))]

    assert order(1) == order(1) != order(2)


def test_an_exception_of_a_worker_is_raised_with_its_traceback():
    with pytest.raises(KeyError, match="example 4 is bad") as caught:
        list(data.DataLoader(Squares(8, bad=4), 2, num_workers=2))
    assert "__getitem__" in str(caught.value.__cause__) and "worker process" in str(caught.value.__cause__)


def test_a_worker_that_dies_is_an_error():
    class Dying(Squares):
        def __getitem__(self, index):
            os._exit(3)

    with pytest.raises(RuntimeError, match="exit code 3"):
        list(data.DataLoader(Dying(4), num_workers=1))


def _alive(pids):
    left = []
    for pid in pids:
        try:
            os.kill(pid, 0)
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] != "Z":
                    left.append(pid)
        except (ProcessLookupError, FileNotFoundError):
            pass
    return left


def test_no_process_is_left_when_a_loop_ends_early():
    pids = set()
    for batch in data.DataLoader(Squares(100), 2, num_workers=2):
        pids.update(batch["pid"].tolist())
        if len(pids) == 2:
            break
    gc.collect()
    deadline = time.monotonic() + 20
    while _alive(pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _alive(pids)


def test_persistent_workers_stay_for_the_next_pass():
    loader = data.DataLoader(Squares(6), 2, num_workers=1, persistent_workers=True)
    first, second = ({int(batch["pid"][0]) for batch in loader} for _ in range(2))
    assert first == second
    loader._kept.stop()


@pytest.mark.parametrize("workers", [0, 2])
def test_iterable_data_sets_are_shared_among_workers(workers):
    batches = [batch.tolist() for batch in data.DataLoader(Stream(11), 2, num_workers=workers)]
    assert sorted(sum(batches, [])) == list(range(11))


def test_data_sets_are_joined_split_and_selected():
    rows = data.TensorDataset(pf.arange(10), pf.arange(10) * 2)
    assert [int(part) for part in rows[3]] == [3, 6] and len(rows) == 10
    both = rows + rows
    assert len(both) == 20 and int(both[13][0]) == 3 and int(both[-1][0]) == 9
    parts = data.random_split(rows, [0.7, 0.3], pf.Generator().manual_seed(1))
    assert [len(part) for part in parts] == [7, 3]
    assert sorted(int(example[0]) for part in parts for example in part) == list(range(10))
    with pytest.raises(ValueError):
        data.random_split(rows, [5, 6])
    with pytest.raises(ValueError):
        data.TensorDataset(pf.ones(2), pf.ones(3))


def test_samplers_give_what_their_names_say():
    weighted = list(data.WeightedRandomSampler([0.0, 1.0, 0.0], 5))
    assert weighted == [1] * 5
    assert sorted(data.SubsetRandomSampler([3, 5, 8])) == [3, 5, 8]
    assert len(list(data.RandomSampler(range(3), replacement=True, num_samples=10))) == 10
    shares = [list(data.DistributedSampler(range(7), 2, rank, seed=3)) for rank in range(2)]
    assert len(shares[0]) == len(shares[1]) == 4 and set(sum(shares, [])) == set(range(7))
    assert list(data.BatchSampler(range(5), 2, True)) == [[0, 1], [2, 3]]


def test_wrong_options_are_refused():
    for options in (
        {"num_workers": -1}, {"persistent_workers": True}, {"sampler": [0], "shuffle": True}, {"batch_size": None, "drop_last": True},
        {"batch_size": 0}, {"batch_sampler": [[0]], "batch_size": 2},
    ):  # fmt: skip
        with pytest.raises(ValueError):
            data.DataLoader(Squares(3), **options)
    with pytest.raises(ValueError):
        data.DataLoader(Stream(3), shuffle=True)


def test_arrays_and_nested_examples_are_collated():
    examples = [(np.ones(2, np.float32) * n, {"n": float(n)}, ["a"]) for n in range(2)]
    arrays, numbers, texts = data.default_collate(examples)
    assert arrays.dtype is pf.float32 and arrays.tolist() == [[0, 0], [1, 1]]
    assert numbers["n"].dtype is pf.float64 and texts == [["a", "a"]]
    with pytest.raises(TypeError):
        data.default_collate([object()])
