"""Samplers: the order in which examples are taken."""

from __future__ import annotations

from typing import Any, Iterable, Iterator, List, Optional, Sequence, Sized

from ... import _pyflame as _pf
from ..._pyflame import Generator
from ...operations.random import multinomial, randperm


class Sampler:
    """Numbers of examples, in some order."""

    def __init__(self, data_source: Any = None) -> None:
        """The data set is not kept; PyTorch passes it."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError("a sampler needs __iter__")


class SequentialSampler(Sampler):
    """All examples in their order."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """Examples in random order, each once; with `replacement`, drawn independently."""

    def __init__(
        self, data_source: Sized, replacement: bool = False, num_samples: Optional[int] = None,
        generator: Optional[Generator] = None
    ) -> None:
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._count = num_samples
        if num_samples is not None and num_samples <= 0:
            raise ValueError(f"RandomSampler: num_samples must be positive, not {num_samples}")

    def __len__(self) -> int:
        return len(self.data_source) if self._count is None else self._count

    def __iter__(self) -> Iterator[int]:
        size, left = len(self.data_source), len(self)
        while left > 0:
            if self.replacement:
                drawn = _pf.randint(0, size, (left,), device="cpu", generator=self.generator)
            else:
                drawn = randperm(size, generator=self.generator, device="cpu")
            numbers: List[int] = drawn.tolist()[:left]
            yield from numbers
            left -= len(numbers)


class SubsetRandomSampler(Sampler):
    """Some examples in random order."""

    def __init__(self, indices: Sequence[int], generator: Optional[Generator] = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        for at in randperm(len(self.indices), generator=self.generator, device="cpu").tolist():
            yield self.indices[at]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """Examples drawn with given weights."""

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Optional[Generator] = None
    ) -> None:
        self.weights = _pf.tensor(weights, dtype=_pf.float64, device="cpu")
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self) -> Iterator[int]:
        return iter(multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator).tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """The numbers of another sampler in lists of `batch_size`."""

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"BatchSampler: batch_size must be a positive integer, not {batch_size!r}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[List[int]]:
        batch: List[int] = []
        for number in self.sampler:
            batch.append(number)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


class DistributedSampler(Sampler):
    """One process's share of the examples, the same number for each; shuffled by a seed and the epoch."""

    def __init__(
        self, dataset: Sized, num_replicas: int = 1, rank: int = 0, shuffle: bool = True, seed: int = 0, drop_last: bool = False
    ) -> None:
        if not 0 <= rank < num_replicas:
            raise ValueError(f"DistributedSampler: rank {rank} of {num_replicas} processes")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.shuffle, self.seed, self.drop_last, self.epoch = shuffle, seed, drop_last, 0
        size = len(dataset)
        self.num_samples = size // num_replicas if drop_last else -(-size // num_replicas)

    def set_epoch(self, epoch: int) -> None:
        """Gives every epoch another order."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        order: List[int] = list(range(len(self.dataset)))
        if self.shuffle:
            order = randperm(len(order), generator=Generator().manual_seed(self.seed + self.epoch), device="cpu").tolist()
        total = self.num_samples * self.num_replicas
        if order:
            order = (order * -(-total // len(order)))[:total]
        return iter(order[self.rank : total : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples
