"""Parts, joins and rearrangements of tensors, and writes to parts of them."""

from __future__ import annotations

import itertools
from typing import Any, List, Optional, Sequence, Tuple, Union

from .. import _pyflame as _pf
from .._pyflame import Tensor

Dims = Union[int, Sequence[int]]


def tensor_split(input: Tensor, indices_or_sections: Union[int, Sequence[int], Tensor], dim: int = 0) -> List[Tensor]:
    """Parts along an axis: a number of nearly equal ones, or those between indices."""
    length = input.shape[dim]
    if isinstance(indices_or_sections, Tensor):
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int):
        if indices_or_sections < 1:
            raise ValueError(f"tensor_split: the number of parts must be at least 1, not {indices_or_sections}")
        size, larger = divmod(length, indices_or_sections)
        lengths = [size + 1] * larger + [size] * (indices_or_sections - larger)
        ends = list(itertools.accumulate(lengths))
        bounds = list(zip([0, *ends], ends))
    else:
        cuts = [slice(None, index).indices(length)[1] for index in indices_or_sections]
        bounds = list(zip([0, *cuts], [*cuts, length]))
    return [input.narrow(dim, start, max(end - start, 0)) for start, end in bounds]


def hsplit(input: Tensor, indices_or_sections: Union[int, Sequence[int]]) -> List[Tensor]:
    """Parts along the second axis; of a vector, along the first."""
    return tensor_split(input, indices_or_sections, 0 if input.ndim == 1 else 1)


def vsplit(input: Tensor, indices_or_sections: Union[int, Sequence[int]]) -> List[Tensor]:
    """Parts along the first axis."""
    return tensor_split(input, indices_or_sections, 0)


def dsplit(input: Tensor, indices_or_sections: Union[int, Sequence[int]]) -> List[Tensor]:
    """Parts along the third axis."""
    return tensor_split(input, indices_or_sections, 2)


def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> List[Tensor]:
    """Parts of these lengths along an axis."""
    return input.split(list(split_sizes), dim)


def _each(tensors: Tuple[Any, ...]) -> List[Tensor]:
    return list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)


def _at_least(rank: int, x: Tensor) -> Tensor:
    if x.ndim >= rank:
        return x
    shape = [*x.shape, 1] if x.ndim == 2 else [1, -1, 1] if rank == 3 else [-1]
    return x.reshape(*shape)


def atleast_1d(*tensors: Any) -> Any:
    """Tensors with at least one axis; a number becomes a vector."""
    made = [_at_least(1, x) for x in _each(tensors)]
    return made[0] if len(tensors) == 1 and isinstance(tensors[0], Tensor) else tuple(made)


def atleast_2d(*tensors: Any) -> Any:
    """Tensors with at least two axes; a vector becomes a row."""
    made = [x.reshape(1, -1) if x.ndim < 2 else x for x in _each(tensors)]
    return made[0] if len(tensors) == 1 and isinstance(tensors[0], Tensor) else tuple(made)


def atleast_3d(*tensors: Any) -> Any:
    """Tensors with at least three axes; a vector becomes the middle one, a matrix the first two."""
    made = [_at_least(3, x) for x in _each(tensors)]
    return made[0] if len(tensors) == 1 and isinstance(tensors[0], Tensor) else tuple(made)


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joins along the second axis; vectors along the first."""
    parts = [_at_least(1, x) for x in tensors]
    return _pf.cat(parts, 0 if parts[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joins rows."""
    return _pf.cat([x.reshape(1, -1) if x.ndim < 2 else x for x in tensors], 0)


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joins along the third axis."""
    return _pf.cat([_at_least(3, x) for x in tensors], 2)


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Joins vectors as columns, matrices side by side."""
    return _pf.cat([x.reshape(-1, 1) if x.ndim < 2 else x for x in tensors], 1)


def fliplr(input: Tensor) -> Tensor:
    """Reverses the second axis."""
    return input.flip(1)


def flipud(input: Tensor) -> Tensor:
    """Reverses the first axis."""
    return input.flip(0)


def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Rotates by `k` quarter turns, from the first axis towards the second."""
    first, second = dims
    turns = k % 4
    if turns == 0:
        return input.clone()
    if turns == 2:
        return input.flip(first, second)
    return input.transpose(first, second).flip(first if turns == 1 else second)


def swapdims(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Exchanges two axes."""
    return input.transpose(dim0, dim1)


def moveaxis(input: Tensor, source: Dims, destination: Dims) -> Tensor:
    """Moves axes to other positions."""
    return input.movedim(source, destination)


def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Replaces an axis by several; one length may be -1."""
    axis = dim % input.ndim
    return input.reshape(*input.shape[:axis], *sizes, *input.shape[axis + 1 :])


def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """A copy of `length` elements along an axis."""
    return input.narrow(dim, start, length).clone()


def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """Sums axes that broadcasting to this tensor's shape would have added or repeated."""
    shape = tuple(size[0]) if len(size) == 1 and isinstance(size[0], (list, tuple)) else tuple(size)
    extra = input.ndim - len(shape)
    axes = list(range(extra)) + [extra + at for at, length in enumerate(shape) if length == 1 and input.shape[extra + at] != 1]
    return (input.sum(axes, True) if axes else input).reshape(*shape) if shape else input.sum()


def broadcast_shapes(*shapes: Sequence[int]) -> Tuple[int, ...]:
    """The shape that all of these broadcast to."""
    rank = max((len(shape) for shape in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for at, length in enumerate(shape, rank - len(shape)):
            if length != 1 and result[at] not in (1, length):
                raise ValueError(f"broadcast_shapes: {tuple(shape)} does not broadcast with {tuple(result)}")
            result[at] = length if length != 1 else result[at]
    return tuple(result)


def broadcast_tensors(*tensors: Any) -> List[Tensor]:
    """All tensors in the shape that they broadcast to."""
    given = _each(tensors)
    shape = broadcast_shapes(*(x.shape for x in given))
    return [x.broadcast_to(shape) for x in given]


def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix, or a matrix with this diagonal."""
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim != 2:
        raise ValueError(f"diag: expected a vector or a matrix, got the shape {tuple(input.shape)}")
    return input.diagonal(diagonal).clone()


def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with all elements on a diagonal."""
    return diag_embed(input.reshape(-1), offset)


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices with the last axis on their diagonals."""
    size = input.shape[-1] + abs(offset)
    rank = input.ndim + 1
    columns = _pf.arange(size, device=input.device)
    rows = columns.unsqueeze(1)
    wide = input
    if offset:
        missing = _pf.zeros(*input.shape[:-1], abs(offset), dtype=input.dtype, device=input.device)
        wide = _pf.cat([missing, input] if offset > 0 else [input, missing], -1)
    wide = wide.unsqueeze(-2)
    made = _pf.where(columns == rows + offset, wide, _pf.zeros((), dtype=input.dtype, device=input.device))
    first, second = dim1 % rank, dim2 % rank
    return made if (first, second) == (rank - 2, rank - 1) else made.movedim((-2, -1), (first, second))


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = _pf.int64, device: Optional[str] = None) -> Tensor:
    """Row and column numbers of the lower triangle."""
    places = [(i, j) for i in range(row) for j in range(min(max(i + offset + 1, 0), col))]
    return _pf.tensor([[i for i, _ in places], [j for _, j in places]], dtype=dtype, device=device)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = _pf.int64, device: Optional[str] = None) -> Tensor:
    """Row and column numbers of the upper triangle."""
    places = [(i, j) for i in range(row) for j in range(min(max(i + offset, 0), col), col)]
    return _pf.tensor([[i for i, _ in places], [j for _, j in places]], dtype=dtype, device=device)


def block_diag(*tensors: Tensor) -> Tensor:
    """A matrix with matrices along its diagonal."""
    blocks = [x.reshape(1, -1) if x.ndim < 2 else x for x in tensors]
    width = sum(x.shape[1] for x in blocks)
    rows, before = [], 0
    for x in blocks:
        rows.append(x.pad([before, width - before - x.shape[1]]))
        before += x.shape[1]
    return _pf.cat(rows, 0)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of the elements of vectors, one row each."""
    if len(tensors) == 1:
        return tensors[0].clone()
    grids = []
    for axis, x in enumerate(tensors):
        shape = [-1 if at == axis else 1 for at in range(len(tensors))]
        grids.append(x.reshape(*shape).expand(*[y.nelement() for y in tensors]))
    return _pf.stack(grids, -1).reshape(-1, len(tensors))


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All selections of `r` elements of a vector, one row each."""
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = list(choose(range(input.nelement()), r))
    if not places or r == 0:
        return _pf.zeros(0, r, dtype=input.dtype, device=input.device) if r else input.narrow(0, 0, 0)
    return input[_pf.tensor(places, dtype=_pf.int64, device=input.device)]


def take_along_dim(input: Tensor, indices: Tensor, dim: Optional[int] = None) -> Tensor:
    """Elements by their indices along an axis; the other axes broadcast."""
    if dim is None:
        return input.reshape(-1).gather(0, indices.reshape(-1)).reshape(*indices.shape)
    axis = dim % input.ndim
    lengths = [(a, b) for at, (a, b) in enumerate(zip(input.shape, indices.shape)) if at != axis]
    common = broadcast_shapes(*([a for a, _ in lengths], [b for _, b in lengths]))
    wide = [*common[:axis], input.shape[axis], *common[axis:]]
    picked = [*common[:axis], indices.shape[axis], *common[axis:]]
    return input.broadcast_to(wide).gather(axis, indices.broadcast_to(picked))


def _along(index: Tensor, like: Sequence[int], dim: int) -> Tensor:
    """An index of slices as an index of elements."""
    shape = [-1 if at == dim else 1 for at in range(len(like))]
    lengths = [index.nelement() if at == dim else length for at, length in enumerate(like)]
    return index.to(_pf.int64).reshape(*shape).expand(*lengths)


def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Union[int, float] = 1) -> Tensor:
    """Adds slices to those with the given indices along an axis."""
    axis = dim % max(input.ndim, 1)
    if input.ndim == 0:
        return input + (source * alpha).sum()
    return input.scatter_add(axis, _along(index, input.shape, axis), (source if alpha == 1 else source * alpha).to(input.dtype))


def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Replaces slices with the given indices along an axis."""
    axis = dim % max(input.ndim, 1)
    if input.ndim == 0:
        return source.reshape(())
    return input.scatter(axis, _along(index, input.shape, axis), source)


def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """Sets slices with the given indices along an axis to one value."""
    axis = dim % max(input.ndim, 1)
    chosen = _pf.zeros(input.shape[axis] if input.ndim else 1, dtype=_pf.int64, device=input.device)
    length = chosen.shape[0]
    places = _pf.where(index < 0, index + length, index).to(_pf.int64).reshape(-1)
    chosen = chosen.scatter(0, places, 1) != 0
    shape = [-1 if at == axis else 1 for at in range(input.ndim)]
    return input.masked_fill(chosen.reshape(*shape), value)


def index_put(input: Tensor, indices: Sequence[Optional[Tensor]], values: Tensor, accumulate: bool = False) -> Tensor:
    """Writes values to indices of leading axes; with `accumulate` it adds them."""
    if not accumulate:
        made = input.clone()
        made[tuple(slice(None) if index is None else index for index in indices)] = values
        return made
    numbers = _pf.arange(input.nelement(), device=input.device).reshape(*input.shape)
    places = numbers[tuple(slice(None) if index is None else index for index in indices)]
    added = values.to(input.dtype).broadcast_to(tuple(places.shape))
    return input.reshape(-1).scatter_add(0, places.reshape(-1), added.reshape(-1)).reshape(*input.shape)


def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Replaces the elements where the mask is true by those of the source, in order."""
    wide = mask.broadcast_to(tuple(input.shape))
    order = (wide.reshape(-1).to(_pf.int64).cumsum(0) - 1).clamp(min=0)
    picked = source.reshape(-1).index_select(0, order.clamp(max=max(source.nelement() - 1, 0)))
    return _pf.where(wide, picked.reshape(*input.shape), input)


def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy with one slice replaced."""
    made = input.clone()
    made.select(dim, index).copy_(src)
    return made


def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: Optional[int] = None, end: Optional[int] = None, step: int = 1
) -> Tensor:
    """A copy with a range of slices replaced."""
    made = input.clone()
    made.slice(dim, start, end, step).copy_(src)
    return made


def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy with the diagonal replaced."""
    made = input.clone()
    made.diagonal(offset, dim1, dim2).copy_(src)
    return made


def scatter_reduce(input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    """Combines elements at the positions given by the index: 'sum', 'mean', 'prod', 'amax' or 'amin'."""
    if reduce not in ("sum", "mean", "prod", "amax", "amin"):
        raise ValueError(f"scatter_reduce: reduce must be 'sum', 'mean', 'prod', 'amax' or 'amin', not {reduce!r}")
    own = tuple(slice(0, length) for length in index.shape)
    src = src[own] if tuple(src.shape) != tuple(index.shape) else src
    ones = _pf.ones_like(src, dtype=_pf.int64)
    counts = _pf.zeros(*input.shape, dtype=_pf.int64, device=input.device).scatter_add(dim, index, ones)
    touched = counts != 0
    if reduce in ("sum", "mean"):
        start = input if include_self else _pf.where(touched, _pf.zeros_like(input), input)
        total = start.scatter_add(dim, index, src)
        if reduce == "sum":
            return total
        divisor = counts + (1 if include_self else 0)
        divisor = _pf.where(touched, divisor, _pf.ones_like(divisor))
        return total / divisor.to(total.dtype) if total.dtype.is_floating_point else total.floor_divide(divisor.to(total.dtype))
    # All elements for one place, along a new axis: one comparison of every pair along `dim`.
    axis = dim % input.ndim
    here = index.unsqueeze(axis)
    shape = [1] * (input.ndim + 1)
    shape[axis] = input.shape[axis]
    places = _pf.arange(input.shape[axis], device=input.device).reshape(*shape)
    crop = tuple(slice(None) if at == axis else slice(0, length) for at, length in enumerate(index.shape))
    neutral: Any = 1 if reduce == "prod" else _edge(input, reduce == "amax")
    all_parts = _pf.where(here == places, src.unsqueeze(axis), _pf.full_like(src, neutral).unsqueeze(axis))
    function = {"prod": Tensor.prod, "amax": Tensor.amax, "amin": Tensor.amin}[reduce]
    combined = function(all_parts, axis + 1)
    base = input[crop]
    hit = touched[crop]
    if include_self:
        pair = {"prod": Tensor.mul, "amax": Tensor.maximum, "amin": Tensor.minimum}[reduce]
        combined = pair(base, combined)
    made = input.clone()
    made[crop] = _pf.where(hit, combined, base)
    return made


def _edge(x: Tensor, largest: bool) -> Any:
    """The number that no maximum or minimum can be beyond."""
    if x.dtype.is_floating_point:
        return float("-inf") if largest else float("inf")
    _, low, high = _pf.integer_limits(x.dtype)
    return low if largest else high


def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Writes elements to indices of the flattened tensor; with `accumulate` it adds them."""
    places = index.to(_pf.int64).reshape(-1)
    places = _pf.where(places < 0, places + input.nelement(), places)
    flat, values = input.reshape(-1), source.reshape(-1)
    made = flat.scatter_add(0, places, values) if accumulate else flat.scatter(0, places, values)
    return made.reshape(*input.shape)


def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Scales slices along an axis whose norm is too large down to `maxnorm`."""
    axes = [axis for axis in range(input.ndim) if axis != dim % input.ndim]
    norms = input.norm(p, axes, True)
    return input * _pf.where(norms > maxnorm, maxnorm / (norms + 1e-7), _pf.ones_like(norms))


def vander(x: Tensor, N: Optional[int] = None, increasing: bool = False) -> Tensor:
    """The powers of a vector's elements as columns."""
    count = x.shape[-1] if N is None else N
    powers = _pf.arange(count, device=x.device)
    return x.unsqueeze(-1) ** (powers if increasing else powers.flip(0)).to(x.dtype)


METHODS = (
    tensor_split, hsplit, vsplit, dsplit, split_with_sizes, fliplr, flipud, rot90, swapdims, moveaxis, unflatten, narrow_copy,
    sum_to_size, diag, diagflat, diag_embed, take_along_dim, index_add, index_copy, index_fill, index_put, masked_scatter,
    select_scatter, slice_scatter, diagonal_scatter, scatter_reduce, put, renorm,
)  # fmt: skip
FUNCTIONS = METHODS + (
    atleast_1d, atleast_2d, atleast_3d, hstack, vstack, dstack, column_stack, broadcast_shapes, broadcast_tensors, tril_indices,
    triu_indices, block_diag, cartesian_prod, combinations, vander,
)  # fmt: skip
