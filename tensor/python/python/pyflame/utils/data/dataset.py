"""Data sets: examples by number, or one after the other."""

from __future__ import annotations

import bisect
import itertools
import math
from typing import Any, Generic, Iterable, Iterator, List, Optional, Sequence, Tuple, TypeVar, Union

from ..._pyflame import Generator, Tensor
from ...operations.random import randperm

Example = TypeVar("Example", covariant=True)


class Dataset(Generic[Example]):
    """Examples by number: subclasses define `__getitem__`, and usually `__len__`."""

    def __getitem__(self, index: int) -> Example:
        raise NotImplementedError("a data set needs __getitem__")

    def __add__(self, other: "Dataset[Example]") -> "ConcatDataset[Example]":
        return ConcatDataset([self, other])


class IterableDataset(Dataset[Example]):
    """Examples one after the other: subclasses define `__iter__`. With several workers, each iterates over a copy; it can find its
    share with `get_worker_info`."""

    def __iter__(self) -> Iterator[Example]:
        raise NotImplementedError("an iterable data set needs __iter__")


class TensorDataset(Dataset[Tuple[Tensor, ...]]):
    """Rows of tensors of one length."""

    def __init__(self, *tensors: Tensor) -> None:
        if not tensors or any(tensor.shape[:1] != tensors[0].shape[:1] for tensor in tensors):
            raise ValueError(f"TensorDataset: the lengths differ: {[tuple(tensor.shape) for tensor in tensors]}")
        self.tensors = tensors

    def __getitem__(self, index: int) -> Tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]


class ConcatDataset(Dataset[Example]):
    """Several data sets, one after the other."""

    def __init__(self, datasets: Iterable[Dataset[Example]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("ConcatDataset: there are no data sets")
        self.cumulative_sizes = list(itertools.accumulate(len(dataset) for dataset in self.datasets))  # type: ignore[arg-type]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Example:
        if not -len(self) <= index < len(self):
            raise IndexError(f"example {index} of {len(self)}")
        index %= len(self)
        number = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[number][index - (self.cumulative_sizes[number - 1] if number else 0)]


class ChainDataset(IterableDataset[Example]):
    """Several iterable data sets, one after the other."""

    def __init__(self, datasets: Iterable[IterableDataset[Example]]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Example]:
        for dataset in self.datasets:
            yield from dataset


class Subset(Dataset[Example]):
    """Some examples of a data set."""

    def __init__(self, dataset: Dataset[Example], indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: int) -> Example:
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Dataset[Example], lengths: Sequence[Union[int, float]], generator: Optional[Generator] = None
) -> List[Subset[Example]]:
    """Random subsets of these lengths, or shares that add up to one."""
    size = len(dataset)  # type: ignore[arg-type]
    counts = [int(length) for length in lengths]
    if math.isclose(sum(lengths), 1) and all(0 <= length <= 1 for length in lengths) and sum(counts) != size:
        counts = [math.floor(size * share) for share in lengths]
        for number in range(size - sum(counts)):
            counts[number % len(counts)] += 1
    if sum(counts) != size:
        raise ValueError(f"random_split: the lengths {list(lengths)} do not add up to the {size} examples")
    order = randperm(size, generator=generator).tolist()
    ends = list(itertools.accumulate(counts))
    return [Subset(dataset, order[end - count : end]) for end, count in zip(ends, counts)]


def as_examples(dataset: Any, indices: Sequence[int]) -> List[Any]:
    """The examples with these numbers; at once, if the data set can."""
    together = getattr(dataset, "__getitems__", None)
    return list(together(indices)) if together is not None else [dataset[index] for index in indices]
