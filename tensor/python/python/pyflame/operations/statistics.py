"""Order statistics, histograms, moments and searches."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple, Union

from .. import _pyflame as _pf
from .._pyflame import Tensor
from .._size import ValuesAndIndices

Dims = Union[int, Sequence[int]]


def _axis(x: Tensor, dim: int) -> int:
    return dim % x.ndim if x.ndim else 0


def var_mean(
    input: Tensor, dim: Optional[Dims] = None, unbiased: bool = True, keepdim: bool = False, *, correction: Optional[float] = None
) -> Tuple[Tensor, Tensor]:
    """Variance and mean."""
    if isinstance(dim, bool):
        dim, unbiased = None, bool(dim)
    divisor = correction if correction is not None else float(unbiased)
    return input.var(dim, keepdim=keepdim, correction=divisor), input.mean(dim, keepdim)


def std_mean(
    input: Tensor, dim: Optional[Dims] = None, unbiased: bool = True, keepdim: bool = False, *, correction: Optional[float] = None
) -> Tuple[Tensor, Tensor]:
    """Standard deviation and mean."""
    if isinstance(dim, bool):
        dim, unbiased = None, bool(dim)
    divisor = correction if correction is not None else float(unbiased)
    return input.std(dim, keepdim=keepdim, correction=divisor), input.mean(dim, keepdim)


def aminmax(input: Tensor, *, dim: Optional[int] = None, keepdim: bool = False) -> Tuple[Tensor, Tensor]:
    """The smallest and the largest element, of all or along an axis."""
    return input.amin(dim, keepdim), input.amax(dim, keepdim)


def _nth(input: Tensor, position: int, dim: int, keepdim: bool, name: str) -> ValuesAndIndices:
    values, indices = input.sort(dim)
    picked = values.narrow(dim, position, 1), indices.narrow(dim, position, 1)
    if not keepdim:
        picked = picked[0].squeeze(dim), picked[1].squeeze(dim)
    return ValuesAndIndices(picked[0], picked[1], name)


def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> ValuesAndIndices:
    """The `k`-th smallest element along an axis, counted from one, and its index."""
    length = input.shape[dim] if input.ndim else 1
    if not 1 <= k <= length:
        raise ValueError(f"kthvalue: k must be from 1 to {length}, not {k}")
    return _nth(input, k - 1, dim, keepdim, "kthvalue")


def median(input: Tensor, dim: Optional[int] = None, keepdim: bool = False) -> Any:
    """The element in the middle, the lower of two; with `dim` also its index. NaN if an element is NaN."""
    axis = 0 if dim is None else dim
    x = input.reshape(-1) if dim is None else input
    length = x.shape[axis] if x.ndim else 1
    if length == 0:
        raise ValueError("median: there is no element")
    found = _nth(x, (length - 1) // 2, axis, True, "median")
    if x.dtype.is_floating_point:
        # NaN is sorted last.
        last = _nth(x, length - 1, axis, True, "median")
        first_nan = x.isnan().to(_pf.int64).argmax(axis, True) if x.ndim else last[1]
        bad = last[0].isnan()
        found = ValuesAndIndices(_pf.where(bad, last[0], found[0]), _pf.where(bad, first_nan, found[1]), "median")
    if dim is None:
        return found[0].reshape(())
    return found if keepdim else ValuesAndIndices(found[0].squeeze(axis), found[1].squeeze(axis), "median")


def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> ValuesAndIndices:
    """The most frequent element along an axis, the smallest of several, and the index of its last occurrence."""
    x = input.reshape(1) if input.ndim == 0 else input
    rows = x.movedim(dim, -1)
    counts = (rows.unsqueeze(-1) == rows.unsqueeze(-2)).sum(-1)
    best = counts.amax(-1, True)
    frequent = counts == best
    order = rows.argsort(-1)
    # The first frequent element in ascending order.
    place = frequent.gather(-1, order).to(_pf.int64).argmax(-1, True)
    value = rows.gather(-1, order.gather(-1, place))
    numbers = _pf.arange(rows.shape[-1], device=rows.device)
    index = _pf.where(rows == value, numbers, -1).amax(-1, True)
    value, index = value.movedim(-1, dim), index.movedim(-1, dim)
    if input.ndim == 0:
        return ValuesAndIndices(value.reshape(()), index.reshape(()), "mode")
    return ValuesAndIndices(*((value, index) if keepdim else (value.squeeze(dim), index.squeeze(dim))), "mode")


def quantile(
    input: Tensor, q: Union[float, Tensor], dim: Optional[int] = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """Quantiles, interpolated linearly or by 'lower', 'higher', 'midpoint' or 'nearest'. NaN if an element is NaN."""
    if interpolation not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise ValueError(f"quantile: interpolation {interpolation!r} is not known")
    axis = 0 if dim is None else _axis(input, dim)
    x = input.reshape(-1) if dim is None else input
    wanted = q if isinstance(q, Tensor) else _pf.tensor(q, dtype=x.dtype, device=x.device)
    shares = wanted.reshape(-1)
    values = x.movedim(axis, 0).sort(0)[0]
    last = values.shape[0] - 1
    ranks = shares * last
    low, high = ranks.floor(), ranks.ceil()
    shape = [-1] + [1] * (values.ndim - 1)
    below, above = (values.index_select(0, rank.to(_pf.int64)) for rank in (low, high))
    if interpolation == "linear":
        found = below + (above - below) * (ranks - low).reshape(*shape)
    elif interpolation == "midpoint":
        found = (below + above) / 2
    else:
        nearest = values.index_select(0, ranks.round().to(_pf.int64))
        found = {"lower": below, "higher": above, "nearest": nearest}[interpolation]
    bad = values.narrow(0, last, 1)
    found = _pf.where(bad.isnan(), bad, found)
    if keepdim:
        found = found.unsqueeze(axis + 1) if dim is not None else found.reshape(*([-1] + [1] * input.ndim))
    return found.squeeze(0) if wanted.ndim == 0 else found


def nansum(input: Tensor, dim: Optional[Dims] = None, keepdim: bool = False) -> Tensor:
    """The sum of the elements that are not NaN."""
    return _pf.where(input.isnan(), _pf.zeros_like(input), input).sum(dim, keepdim)


def nanmean(input: Tensor, dim: Optional[Dims] = None, keepdim: bool = False) -> Tensor:
    """The mean of the elements that are not NaN."""
    return nansum(input, dim, keepdim) / (~input.isnan()).sum(dim, keepdim).to(input.dtype)


def count_nonzero(input: Tensor, dim: Optional[Dims] = None) -> Tensor:
    """The number of elements that are not zero."""
    made: Tensor = (input != 0).sum(dim)
    return made


def cummax(input: Tensor, dim: int) -> ValuesAndIndices:
    """The largest elements so far along an axis, and the indices of their last occurrences."""
    return _running(input, dim, True)


def cummin(input: Tensor, dim: int) -> ValuesAndIndices:
    """The smallest elements so far along an axis, and the indices of their last occurrences."""
    return _running(input, dim, False)


def _running(input: Tensor, dim: int, largest: bool) -> ValuesAndIndices:
    x = input.reshape(1) if input.ndim == 0 else input
    length, step = x.shape[dim], 1
    values = x.detach()
    indices = _pf.arange(length, device=x.device).reshape(*[-1 if d == _axis(x, dim) else 1 for d in range(x.ndim)])
    indices = indices.expand(*x.shape)
    # Every step doubles the number of elements that a result covers.
    while step < length:
        here, there = values.narrow(dim, step, length - step), values.narrow(dim, 0, length - step)
        better = there > here if largest else there < here
        if x.dtype.is_floating_point:
            better = (better | there.isnan()) & ~here.isnan()
        place = indices.narrow(dim, step, length - step), indices.narrow(dim, 0, length - step)
        values = _pf.cat([values.narrow(dim, 0, step), _pf.where(better, there, here)], dim)
        indices = _pf.cat([indices.narrow(dim, 0, step), _pf.where(better, place[1], place[0])], dim)
        step *= 2
    indices = indices.clone()
    return ValuesAndIndices(x.gather(dim, indices).reshape(*input.shape), indices.reshape(*input.shape), "cummax" if largest else "cummin")


def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """The logarithm of the cumulative sum of exponentials."""
    largest = input.detach().amax(dim, True) if input.shape[dim : dim + 1 or None] != (0,) else input
    return (input - largest).exp().cumsum(dim).log() + largest


def diff(input: Tensor, n: int = 1, dim: int = -1, prepend: Optional[Tensor] = None, append: Optional[Tensor] = None) -> Tensor:
    """Differences of neighbours along an axis, `n` times."""
    parts = [part for part in (prepend, input, append) if part is not None]
    x = _pf.cat(parts, dim) if len(parts) > 1 else input
    for _ in range(n):
        length = x.shape[dim]
        if length < 2:
            return x.narrow(dim, 0, 0)
        later, earlier = x.narrow(dim, 1, length - 1), x.narrow(dim, 0, length - 1)
        x = later ^ earlier if x.dtype == _pf.bool else later - earlier
    return x


def bincount(input: Tensor, weights: Optional[Tensor] = None, minlength: int = 0) -> Tensor:
    """The number of occurrences of each number from zero, or the sums of their weights."""
    if input.ndim != 1 or input.dtype.is_floating_point:
        raise ValueError(f"bincount: expected a vector of integers, got {tuple(input.shape)} of {input.dtype.name}")
    if input.nelement() and int(input.amin()) < 0:
        raise ValueError("bincount: the numbers must not be negative")
    largest = int(input.amax()) + 1 if input.nelement() else 0
    places = input.to(_pf.int64)
    given = _pf.ones_like(places) if weights is None else weights
    if given.dtype == _pf.float32 and weights is not None:
        given = weights
    start = _pf.zeros(max(largest, minlength), dtype=given.dtype, device=input.device)
    return start.scatter_add(0, places, given)


def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """The number of elements in equal bins from `min` to `max`, or over the range of the elements."""
    x = input.reshape(-1)
    low, high = float(min), float(max)
    if low == high and x.nelement():
        low, high = float(x.amin()), float(x.amax())
    if low == high:
        low, high = low - 1, high + 1
    inside = (x >= low) & (x <= high)
    place = ((x - low) * bins / (high - low)).clamp(0, bins - 1).floor().to(_pf.int64)
    return _pf.zeros(bins, dtype=x.dtype, device=x.device).scatter_add(0, place, inside.to(x.dtype))


def searchsorted(
    sorted_sequence: Tensor, input: Union[Tensor, float], *, out_int32: bool = False, right: bool = False, side: Optional[str] = None
) -> Tensor:
    """The positions at which elements have to be inserted to keep the last axis sorted; after equal elements with `right`."""
    if side not in (None, "left", "right"):
        raise ValueError(f"searchsorted: side must be 'left' or 'right', not {side!r}")
    after = right or side == "right"
    number = not isinstance(input, Tensor)
    values = _pf.tensor([input], dtype=sorted_sequence.dtype, device=sorted_sequence.device) if number else input
    assert isinstance(values, Tensor)
    borders = sorted_sequence
    lead = values.shape[:-1] if borders.ndim > 1 else ()
    if tuple(borders.shape[:-1]) != tuple(lead):
        raise ValueError(f"searchsorted: the shapes {tuple(borders.shape)} and {tuple(values.shape)} differ in other axes than the last")
    # Bisection: each step finds one bit of the position.
    length = borders.shape[-1]
    place = _pf.zeros(tuple(values.shape), dtype=_pf.int64, device=values.device)
    step = 1
    while step * 2 <= length:
        step *= 2
    while step:
        probe = place + step
        inside = probe <= length
        at = probe.clamp(1, max(length, 1)) - 1
        border = borders[at] if borders.ndim == 1 else borders.gather(-1, at)
        below = border <= values if after else border < values
        if values.dtype.is_floating_point:
            # NaN is larger than every number.
            below = below | (values.isnan() & (~border.isnan() if not after else border.isnan() | ~border.isnan()))
        place = _pf.where(inside & below, probe, place)
        step //= 2
    place = place.to(_pf.int32) if out_int32 else place
    return place.reshape(()) if number else place


def bucketize(input: Union[Tensor, float], boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The number of the interval between boundaries that contains each element."""
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def isin(elements: Tensor, test_elements: Tensor, *, invert: bool = False) -> Tensor:
    """Whether elements are among the others."""
    found = (elements.unsqueeze(-1) == test_elements.reshape(-1)).any(-1)
    made: Tensor = ~found if invert else found
    return made


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: Optional[int] = None
) -> Any:
    """The elements without immediate repetitions; with their numbers for each element, and their counts."""
    x = input.reshape(-1) if dim is None else input.movedim(dim, 0)
    length = x.shape[0]
    if length == 0:
        starts = _pf.zeros(0, dtype=_pf.bool)
    else:
        same = x[1:] != x[:-1]
        changed = same.reshape(length - 1, -1).any(-1) if length > 1 else _pf.zeros(0, dtype=_pf.bool)
        starts = _pf.cat([_pf.ones(1, dtype=_pf.bool, device=x.device), changed.to(x.device)])
    places = starts.nonzero().reshape(-1)
    values = x.index_select(0, places) if length else x
    answers: List[Tensor] = [values if dim is None else values.movedim(0, dim)]
    if return_inverse:
        inverse = starts.to(_pf.int64).cumsum(0) - 1
        answers.append(inverse.reshape(*input.shape) if dim is None else inverse)
    if return_counts:
        ends = _pf.cat([places[1:], _pf.tensor([length], dtype=_pf.int64, device=places.device)]) if length else places
        answers.append(ends - places)
    return answers[0] if len(answers) == 1 else tuple(answers)


def argwhere(input: Tensor) -> Tensor:
    """The coordinates of elements that are not zero, one row each."""
    return input.nonzero()


def msort(input: Tensor) -> Tensor:
    """The elements sorted along the first axis."""
    return input.sort(0)[0]  # type: ignore[no-any-return]


def cov(input: Tensor, *, correction: int = 1) -> Tensor:
    """The covariance matrix of variables in rows."""
    x = input.reshape(1, -1) if input.ndim < 2 else input
    centred = x - x.mean(1, True)
    product = centred.matmul(centred.mT.conj() if x.dtype.is_complex else centred.mT)
    result = product / max(x.shape[1] - correction, 0)
    return result.reshape(()) if input.ndim < 2 else result


def corrcoef(input: Tensor) -> Tensor:
    """The correlation matrix of variables in rows."""
    covariance = cov(input)
    if covariance.ndim == 0:
        return covariance / covariance
    scale = covariance.diagonal().sqrt()
    return covariance / scale.unsqueeze(1) / scale.unsqueeze(0)


METHODS = (
    aminmax, kthvalue, median, mode, quantile, nansum, nanmean, count_nonzero, cummax, cummin, logcumsumexp, diff, bincount, histc,
    unique_consecutive, argwhere, msort, cov, corrcoef,
)  # fmt: skip
FUNCTIONS = METHODS + (var_mean, std_mean, searchsorted, bucketize, isin)
