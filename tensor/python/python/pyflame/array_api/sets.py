"""The standard's set functions: unique elements."""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

from .. import _pyflame as _pf

if TYPE_CHECKING:
    from .._pyflame import Tensor

UniqueAll = namedtuple("UniqueAll", ["values", "indices", "inverse_indices", "counts"])
UniqueCounts = namedtuple("UniqueCounts", ["values", "counts"])
UniqueInverse = namedtuple("UniqueInverse", ["values", "inverse_indices"])


def unique_all(x: Tensor, /) -> Any:
    first, inverse, counts = _pf.groups(x)
    return UniqueAll(x.flatten().index_select(0, first), first, inverse, counts)


def unique_counts(x: Tensor, /) -> Any:
    every = unique_all(x)
    return UniqueCounts(every.values, every.counts)


def unique_inverse(x: Tensor, /) -> Any:
    every = unique_all(x)
    return UniqueInverse(every.values, every.inverse_indices)


def unique_values(x: Tensor, /) -> Any:
    return unique_all(x).values
