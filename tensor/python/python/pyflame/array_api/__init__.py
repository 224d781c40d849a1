"""The Python array API standard (2024.12) as a namespace: `import pyflame.array_api as xp`.

Arrays are tensors. Names and signatures are the standard's, with `axis` and `keepdims` instead of `dim` and `keepdim`.
"""

from __future__ import annotations

import builtins as _builtins
import math as _math
import typing as _typing

from .. import _pyflame as _pf
from .._pyflame import (  # noqa: F401
    Tensor as Array,
    bfloat16,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .. import creation as _creation
from .sets import unique_all, unique_counts, unique_inverse, unique_values  # noqa: F401

if _typing.TYPE_CHECKING:
    from .._pyflame import Tensor

__array_api_version__ = "2024.12"

bool = _pf.bool  # noqa: A001
# Defined by a loop below, as many other names are.
sum: _typing.Callable[..., _typing.Any]  # noqa: A001
if _typing.TYPE_CHECKING:

    def __getattr__(name: str) -> _typing.Any: ...

e, pi, inf, nan, newaxis = _math.e, _math.pi, float("inf"), float("nan"), None

_DEFAULTS = {"real floating": float32, "complex floating": complex64, "integral": int64, "indexing": int64}
_KINDS = {
    "bool": [bool],
    "signed integer": [int8, int16, int32, int64],
    "unsigned integer": [uint8, uint16, uint32, uint64],
    "real floating": [float32, float64],
    "complex floating": [complex64, complex128],
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


class _Info:
    """The capabilities of this namespace."""

    def capabilities(self) -> _typing.Dict[str, _typing.Any]:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> _typing.Any:
        return _pf.get_device()

    def devices(self) -> _typing.Any:
        return ["cpu"] + [f"rocm:{number}" for number in range(_pf.rocm_device_count())]

    def default_dtypes(self, *, device: _typing.Optional[str] = None) -> _typing.Any:
        return dict(_DEFAULTS)

    def dtypes(self, *, device: _typing.Optional[str] = None, kind: _typing.Any = None) -> _typing.Any:
        kinds = _KINDS if kind is None else ([kind] if isinstance(kind, str) else kind)
        return {dtype.name: dtype for name in kinds for dtype in _KINDS[name]}


def __array_namespace_info__() -> _typing.Any:
    return _Info()


# Creation


def arange(
    start: _typing.Any, /, stop: _typing.Any = None, step: int = 1, *, dtype: _typing.Any = None,
    device: _typing.Optional[str] = None
) -> _typing.Any:
    if stop is None:
        start, stop = 0, start
    return _pf.arange(start, stop, step, dtype=dtype, device=device)


def zeros(shape: _typing.Any, *, dtype: _typing.Any = None, device: _typing.Optional[str] = None) -> _typing.Any:
    return _pf.zeros(_shape(shape), dtype=dtype, device=device)


def ones(shape: _typing.Any, *, dtype: _typing.Any = None, device: _typing.Optional[str] = None) -> _typing.Any:
    return _pf.ones(_shape(shape), dtype=dtype, device=device)


def empty(shape: _typing.Any, *, dtype: _typing.Any = None, device: _typing.Optional[str] = None) -> _typing.Any:
    return _pf.empty(_shape(shape), dtype=dtype, device=device)


def full(
    shape: _typing.Any, fill_value: _typing.Any, *, dtype: _typing.Any = None, device: _typing.Optional[str] = None
) -> _typing.Any:
    return _pf.full(_shape(shape), fill_value, dtype=dtype, device=device)


def asarray(
    obj: _typing.Any, /, *, dtype: _typing.Any = None, device: _typing.Optional[str] = None, copy: _typing.Any = None
) -> _typing.Any:
    return _creation.asarray(obj, dtype, device, copy)


def from_dlpack(x: Tensor, /, *, device: _typing.Optional[str] = None, copy: _typing.Any = None) -> _typing.Any:
    if isinstance(x, Array) and not copy:
        return x if device is None or x.device == device else x.to(device)
    if copy is False:
        raise BufferError("from_dlpack: arrays of other libraries are always copied")
    return _pf.from_dlpack(x, device=device)


def meshgrid(*arrays: _typing.Any, indexing: str = "xy") -> _typing.Any:
    return _creation.meshgrid(*arrays, indexing=indexing)


def eye(
    n_rows: _typing.Any, n_cols: _typing.Any = None, /, *, k: int = 0, dtype: _typing.Any = None,
    device: _typing.Optional[str] = None
) -> _typing.Any:
    columns = n_rows if n_cols is None else n_cols
    if k == 0:
        return _pf.eye(n_rows, columns, dtype=dtype, device=device)
    rows = _pf.arange(n_rows, device=device).unsqueeze(1)
    return (_pf.arange(columns, device=device).unsqueeze(0) - rows == k).to(dtype or float32)


def linspace(
    start: _typing.Any, stop: _typing.Any, /, num: _typing.Any, *, dtype: _typing.Any = None,
    device: _typing.Optional[str] = None, endpoint: _builtins.bool = True
) -> _typing.Any:
    if endpoint:
        return _pf.linspace(start, stop, num, dtype=dtype, device=device)
    return _pf.linspace(start, stop, num + 1, dtype=dtype, device=device)[:-1]


def _shape(shape: _typing.Any) -> _typing.Any:
    return (shape,) if isinstance(shape, int) else tuple(shape)


zeros_like, ones_like, empty_like, full_like = _pf.zeros_like, _pf.ones_like, _pf.empty_like, _pf.full_like


def tril(x: Tensor, /, *, k: int = 0) -> _typing.Any:
    return x.tril(k)


def triu(x: Tensor, /, *, k: int = 0) -> _typing.Any:
    return x.triu(k)


# Types


def astype(x: Tensor, dtype: _typing.Any, /, *, copy: _builtins.bool = True, device: _typing.Optional[str] = None) -> _typing.Any:
    made = x.to(dtype) if device is None else x.to(device).to(dtype)
    return made.clone() if copy and made.dtype == x.dtype else made


def finfo(type: _typing.Any, /) -> _typing.Any:
    return _creation.finfo(type)


def iinfo(type: _typing.Any, /) -> _typing.Any:
    return _creation.iinfo(type)


def can_cast(from_: _typing.Any, to: _typing.Any, /) -> _typing.Any:
    given = from_.dtype if isinstance(from_, Array) else _pf.dtype_of(from_)
    return result_type(given, to) == _pf.dtype_of(to)


def isdtype(dtype: _typing.Any, kind: _typing.Any) -> _typing.Any:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    for wanted in kinds:
        if isinstance(wanted, str):
            if wanted not in _KINDS:
                raise ValueError(f"isdtype: {wanted!r} is not a kind; valid kinds are {', '.join(_KINDS)}")
            if dtype in _KINDS[wanted]:
                return True
        elif dtype == wanted:
            return True
    return False


def result_type(*arrays_and_dtypes: _typing.Any) -> _typing.Any:
    given = [value.dtype if isinstance(value, Array) else value for value in arrays_and_dtypes]
    numbers = [value for value in given if isinstance(value, (int, float, complex))]
    dtypes = [_pf.dtype_of(value) for value in given if not isinstance(value, (int, float, complex))]
    if not dtypes:
        raise ValueError("result_type: at least one array or dtype is needed")
    # One element each: a 0-dimensional array would count less than the others in type promotion.
    summed = _pf.zeros(1, dtype=dtypes[0], device="cpu")
    for dtype in dtypes[1:]:
        summed = _pf.where(True, summed, _pf.zeros(1, dtype=dtype, device="cpu"))
    for value in numbers:
        summed = summed if isinstance(value, type(True)) else summed * value
    return summed.dtype


def _promoted(*arrays: _typing.Any) -> _typing.Any:
    """Converts arrays to their promoted type; numbers stay. The standard has no lower priority for 0-dimensional arrays, unlike PyTorch."""
    dtypes = [x.dtype for x in arrays if isinstance(x, Array)]
    if _builtins.all(dtype == dtypes[0] for dtype in dtypes):
        return arrays
    dtype = result_type(*dtypes)
    return tuple(x.to(dtype) if isinstance(x, Array) else x for x in arrays)


def broadcast_shapes(*shapes: _typing.Any) -> _typing.Any:
    result: _typing.List[int] = []
    for shape in shapes:
        shape = list(shape)
        length = _builtins.max(len(result), len(shape))
        result = [1] * (length - len(result)) + result
        shape = [1] * (length - len(shape)) + shape
        for axis, (a, b) in enumerate(zip(result, shape)):
            if a != b and a != 1 and b != 1:
                raise ValueError(f"shapes do not broadcast: {shapes}")
            result[axis] = b if a == 1 else a
    return tuple(result)


def broadcast_arrays(*arrays: _typing.Any) -> _typing.Any:
    shape = broadcast_shapes(*(x.shape for x in arrays))
    return [x.broadcast_to(shape) for x in arrays]


def broadcast_to(x: Tensor, /, shape: _typing.Any) -> _typing.Any:
    return x.broadcast_to(tuple(shape))


# Elementwise functions: the standard's name, and ours.

_UNARY = {
    "abs": "abs", "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atan": "atan", "atanh": "atanh",
    "bitwise_invert": "bitwise_not", "ceil": "ceil", "conj": "conj", "cos": "cos", "cosh": "cosh", "exp": "exp",
    "expm1": "expm1", "floor": "floor", "isfinite": "isfinite", "isinf": "isinf", "isnan": "isnan", "log": "log",
    "log1p": "log1p", "log2": "log2", "log10": "log10", "logical_not": "logical_not", "negative": "neg",
    "reciprocal": "reciprocal", "round": "round", "sin": "sin", "sinh": "sinh", "square": "square",
    "sqrt": "sqrt", "tan": "tan", "tanh": "tanh", "trunc": "trunc",
}  # fmt: skip
_BINARY = {
    "add": "add", "atan2": "atan2", "bitwise_and": "bitwise_and", "bitwise_left_shift": "bitwise_left_shift",
    "bitwise_or": "bitwise_or", "bitwise_right_shift": "bitwise_right_shift", "bitwise_xor": "bitwise_xor",
    "copysign": "copysign", "divide": "div", "equal": "eq", "greater": "gt",
    "greater_equal": "ge", "hypot": "hypot", "less": "lt", "less_equal": "le", "logaddexp": "logaddexp",
    "logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor", "maximum": "maximum",
    "minimum": "minimum", "multiply": "mul", "nextafter": "nextafter", "not_equal": "ne", "pow": "pow",
    "remainder": "remainder", "subtract": "sub",
}  # fmt: skip
_SWAPPED = {"greater": "lt", "greater_equal": "le", "less": "gt", "less_equal": "ge"}


def _unary(name: _typing.Any, method: _typing.Any) -> _typing.Any:
    def function(x: Tensor, /) -> _typing.Any:
        return method(x)

    function.__name__ = name
    return function


def _binary(name: _typing.Any, method: _typing.Any) -> _typing.Any:
    def function(x1: _typing.Any, x2: _typing.Any, /) -> _typing.Any:
        if isinstance(x1, Array):
            return method(*_promoted(x1, x2))
        if name in _SWAPPED:
            return getattr(Array, _SWAPPED[name])(x2, x1)
        return method(_pf.full((), x1, dtype=x2.dtype, device=x2.device), x2)

    function.__name__ = name
    return function


for _name, _ours in _UNARY.items():
    globals()[_name] = _unary(_name, getattr(Array, _ours))
for _name, _ours in _BINARY.items():
    globals()[_name] = _binary(_name, getattr(Array, _ours))


def positive(x: Tensor, /) -> _typing.Any:
    return +x


def real(x: Tensor, /) -> _typing.Any:
    return x.real


def imag(x: Tensor, /) -> _typing.Any:
    return x.imag


def sign(x: Tensor, /) -> _typing.Any:
    # The sign of either zero is positive zero.
    return x.sign() + 0


def signbit(x: Tensor, /) -> _typing.Any:
    return _pf.full((), 1, dtype=x.dtype, device=x.device).copysign(x) < 0


def floor_divide(x1: _typing.Any, x2: _typing.Any, /) -> _typing.Any:
    """Like Python's, except that infinities give the floor of the quotient."""
    x1, x2 = (x if isinstance(x, Array) else asarray(x, dtype=other.dtype) for x, other in ((x1, x2), (x2, x1)))
    x1, x2 = _promoted(x1, x2)
    whole = x1.floor_divide(x2)
    if not isdtype(whole.dtype, "real floating"):
        return whole
    quotient = x1 / x2
    small = _pf.where(quotient == 0, quotient, quotient.floor())
    return _pf.where(x1.isinf() | x2.isinf(), small, whole)


def clip(x: Tensor, /, min: _typing.Any = None, max: _typing.Any = None) -> _typing.Any:
    if min is None and max is None:
        return x.clone()
    return x.clamp(min, max).to(x.dtype)


def where(condition: _typing.Any, x1: _typing.Any, x2: _typing.Any, /) -> _typing.Any:
    return _pf.where(condition, *_promoted(x1, x2))


# Reductions


def _reduction(name: _typing.Any, method: _typing.Any, typed: _typing.Any) -> _typing.Any:
    def plain(x: Tensor, /, *, axis: _typing.Any = None, keepdims: _builtins.bool = False) -> _typing.Any:
        return method(*_over(x, axis, keepdims))

    def with_type(
        x: Tensor, /, *, axis: _typing.Any = None, dtype: _typing.Any = None, keepdims: _builtins.bool = False
    ) -> _typing.Any:
        dtype = _summed(x, dtype)
        return method(*_over(x, axis, keepdims), dtype=dtype).to(dtype)

    function = with_type if typed else plain
    function.__name__ = name
    return function


def _over(x: Tensor, axis: _typing.Any, keepdims: _typing.Any) -> _typing.Any:
    """Without axes, reduces nothing, where PyTorch reduces over all axes: adds one axis of length one."""
    return (x.unsqueeze(-1), -1, False) if axis == () else (x, axis, keepdims)


def _summed(x: Tensor, dtype: _typing.Any) -> _typing.Any:
    """The type of sums and products of these elements."""
    if dtype is not None:
        return _pf.dtype_of(dtype)
    if x.dtype in _KINDS["unsigned integer"]:
        return uint64
    return int64 if x.dtype in _KINDS["signed integer"] else x.dtype


for _name, _ours, _typed in (
    ("sum", "sum", True), ("prod", "prod", True), ("mean", "mean", False), ("max", "amax", False), ("min", "amin", False),
    ("any", "any", False), ("all", "all", False),
):  # fmt: skip
    globals()[_name] = _reduction(_name, getattr(Array, _ours), _typed)


def var(x: Tensor, /, *, axis: _typing.Any = None, correction: float = 0.0, keepdims: _builtins.bool = False) -> _typing.Any:
    x, axis, keepdims = _over(x, axis, keepdims)
    return x.var(axis, keepdim=keepdims, correction=float(correction))


def std(x: Tensor, /, *, axis: _typing.Any = None, correction: float = 0.0, keepdims: _builtins.bool = False) -> _typing.Any:
    x, axis, keepdims = _over(x, axis, keepdims)
    return x.std(axis, keepdim=keepdims, correction=float(correction))


def argmax(x: Tensor, /, *, axis: _typing.Any = None, keepdims: _builtins.bool = False) -> _typing.Any:
    return x.argmax(axis, keepdims)


def argmin(x: Tensor, /, *, axis: _typing.Any = None, keepdims: _builtins.bool = False) -> _typing.Any:
    return x.argmin(axis, keepdims)


def count_nonzero(x: Tensor, /, *, axis: _typing.Any = None, keepdims: _builtins.bool = False) -> _typing.Any:
    return Array.sum(*_over(x != 0, axis, keepdims))


def _cumulative(
    method: _typing.Any, first: _typing.Any, x: Tensor, axis: _typing.Any, dtype: _typing.Any, include_initial: _typing.Any
) -> _typing.Any:
    if axis is None:
        if x.ndim != 1:
            raise ValueError("arrays of several dimensions need an axis")
        axis = 0
    dtype = _summed(x, dtype)
    result = method(x, axis, dtype=dtype).to(dtype)
    if include_initial:
        shape = list(result.shape)
        shape[axis] = 1
        result = _pf.cat([_pf.full(shape, first, dtype=result.dtype, device=result.device), result], axis)
    return result


def cumulative_sum(
    x: Tensor, /, *, axis: _typing.Any = None, dtype: _typing.Any = None, include_initial: _builtins.bool = False
) -> _typing.Any:
    return _cumulative(Array.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Tensor, /, *, axis: _typing.Any = None, dtype: _typing.Any = None, include_initial: _builtins.bool = False
) -> _typing.Any:
    return _cumulative(Array.cumprod, 1, x, axis, dtype, include_initial)


def diff(x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: _typing.Any = None, append: _typing.Any = None) -> _typing.Any:
    if n == 0:
        return x
    parts = [part for part in (prepend, x, append) if part is not None]
    x = _pf.cat(parts, axis) if len(parts) > 1 else x
    for _ in range(n):
        length = x.shape[axis]
        after, before = x.narrow(axis, 1, length - 1), x.narrow(axis, 0, length - 1)
        x = after ^ before if x.dtype == _pf.bool else after - before
    return x


# Shapes


def reshape(x: Tensor, /, shape: _typing.Any, *, copy: _typing.Any = None) -> _typing.Any:
    made = x.reshape(tuple(shape))
    return made.clone() if copy else made


def permute_dims(x: Tensor, /, axes: _typing.Any) -> _typing.Any:
    return x.permute(tuple(axes))


def matrix_transpose(x: Tensor, /) -> _typing.Any:
    if x.ndim < 2:
        raise ValueError("matrix_transpose: the array needs at least two axes")
    return x.transpose(-2, -1)


def moveaxis(x: Tensor, source: _typing.Any, destination: _typing.Any, /) -> _typing.Any:
    return x.movedim(source, destination)


def expand_dims(x: Tensor, /, axis: _typing.Any) -> _typing.Any:
    return x.unsqueeze(axis)


def squeeze(x: Tensor, /, axis: _typing.Any) -> _typing.Any:
    for one in (axis,) if isinstance(axis, int) else axis:
        if x.shape[one] != 1:
            raise ValueError(f"squeeze: axis {one} of {tuple(x.shape)} does not have length 1")
    return x.squeeze(axis)


def flip(x: Tensor, /, *, axis: _typing.Any = None) -> _typing.Any:
    axes = range(x.ndim) if axis is None else ((axis,) if isinstance(axis, int) else axis)
    return x.flip(tuple(axes))


def roll(x: Tensor, /, shift: _typing.Any, *, axis: _typing.Any = None) -> _typing.Any:
    return x.roll(shift, axis)


def concat(arrays: _typing.Any, /, *, axis: int = 0) -> _typing.Any:
    if axis is None:
        return _pf.cat([x.flatten() for x in arrays], 0)
    return _pf.cat(list(arrays), axis)


def stack(arrays: _typing.Any, /, *, axis: int = 0) -> _typing.Any:
    return _pf.stack(list(arrays), axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> _typing.Any:
    return tuple(x.unbind(axis))


def tile(x: Tensor, repetitions: _typing.Any, /) -> _typing.Any:
    return x.tile(tuple(repetitions))


def repeat(x: Tensor, repeats: _typing.Any, /, *, axis: _typing.Any = None) -> _typing.Any:
    if isinstance(repeats, int):
        return x.repeat_interleave(repeats, axis)
    if axis is None:
        x, axis = x.flatten(), 0
    counts = asarray(repeats).broadcast_to((x.shape[axis],)).to(int64)
    # Repeats each index by its count: an output position belongs to the index that equals the number of ends at or before it.
    ends = counts.cumsum(0)
    total = int(ends[-1]) if ends.shape[0] else 0
    return x.index_select(axis, searchsorted(ends, _pf.arange(total, device=x.device), side="right"))


# Order, search, indices


def sort(x: Tensor, /, *, axis: int = -1, descending: _builtins.bool = False, stable: _builtins.bool = True) -> _typing.Any:
    return x.sort(axis, descending).values


def argsort(x: Tensor, /, *, axis: int = -1, descending: _builtins.bool = False, stable: _builtins.bool = True) -> _typing.Any:
    return x.argsort(axis, descending)


def take(x: Tensor, indices: _typing.Any, /, *, axis: _typing.Any = None) -> _typing.Any:
    if axis is None:
        axis = 0
    return x.index_select(axis, indices)


def take_along_axis(x: Tensor, indices: _typing.Any, /, *, axis: int = -1) -> _typing.Any:
    return x.gather(axis, _pf.where(indices < 0, indices + x.shape[axis], indices))


def nonzero(x: Tensor, /) -> _typing.Any:
    if x.ndim == 0:
        raise ValueError("nonzero: an array without axes has no indices")
    return tuple(x.nonzero().unbind(1))


def searchsorted(x1: _typing.Any, x2: _typing.Any, /, *, side: str = "left", sorter: _typing.Any = None) -> _typing.Any:
    x1 = x1 if sorter is None else x1.index_select(0, sorter)
    x1, x2 = _promoted(x1, x2 if isinstance(x2, Array) else asarray(x2, dtype=x1.dtype))
    values = x2.unsqueeze(-1)
    below = x1 < values if side == "left" else x1 <= values
    return below.sum(-1)


# Products


def matmul(x1: _typing.Any, x2: _typing.Any, /) -> _typing.Any:
    x1, x2 = _promoted(x1, x2)
    return x1 @ x2


def vecdot(x1: _typing.Any, x2: _typing.Any, /, *, axis: int = -1) -> _typing.Any:
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot: {tuple(x1.shape)} and {tuple(x2.shape)} have different lengths along {axis}")
    x1, x2 = _promoted(x1, x2)
    return sum(x1.conj() * x2, axis=axis, dtype=x1.dtype)


def tensordot(x1: _typing.Any, x2: _typing.Any, /, *, axes: _typing.Any = 2) -> _typing.Any:
    x1, x2 = _promoted(x1, x2)
    pairs = (range(x1.ndim - axes, x1.ndim), range(axes)) if isinstance(axes, int) else axes
    first, second = [a % x1.ndim for a in pairs[0]], [a % x2.ndim for a in pairs[1]]
    left = [a for a in range(x1.ndim) if a not in first]
    right = [a for a in range(x2.ndim) if a not in second]
    depth = _math.prod(x1.shape[a] for a in first)
    shape = [x1.shape[a] for a in left] + [x2.shape[a] for a in right]
    rows, columns = _math.prod(x1.shape[a] for a in left), _math.prod(x2.shape[a] for a in right)
    a = x1.permute(tuple(left + first)).reshape(rows, depth)
    b = x2.permute(tuple(second + right)).reshape(depth, columns)
    return (a @ b).reshape(shape)


from . import fft, linalg  # noqa: E402,F401  They use the functions above.
