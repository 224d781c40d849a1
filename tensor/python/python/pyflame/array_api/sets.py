"""The standard's set functions: unique elements."""

from collections import namedtuple

from .. import _pyflame as _pf

UniqueAll = namedtuple("UniqueAll", ["values", "indices", "inverse_indices", "counts"])
UniqueCounts = namedtuple("UniqueCounts", ["values", "counts"])
UniqueInverse = namedtuple("UniqueInverse", ["values", "inverse_indices"])


def unique_all(x, /):
    first, inverse, counts = _pf.groups(x)
    return UniqueAll(x.flatten().index_select(0, first), first, inverse, counts)


def unique_counts(x, /):
    every = unique_all(x)
    return UniqueCounts(every.values, every.counts)


def unique_inverse(x, /):
    every = unique_all(x)
    return UniqueInverse(every.values, every.inverse_indices)


def unique_values(x, /):
    return unique_all(x).values
