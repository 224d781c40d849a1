"""Tensors from existing data, grids, and type limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Optional

from . import _pyflame as _pf

if TYPE_CHECKING:
    from ._pyflame import DTypeLike, Tensor


def from_numpy(array: Any, dtype: Optional[DTypeLike] = None, device: Optional[str] = None) -> Tensor:
    """Returns a tensor with the elements of a NumPy array.

    On the CPU it shares the memory of the array: writes to one are seen by the other. It has a copy instead if the array may not
    be written, has other bytes or overlapping elements, if another element type is requested, or on a GPU.
    """
    if not hasattr(array, "__array_interface__"):
        raise TypeError(f"from_numpy: expected a NumPy array, not {type(array).__name__}")
    if device in (None, "cpu") and hasattr(array, "flags"):
        made = _pf.sharing(array)
        if made is not None and dtype in (None, made.dtype):
            return made
    return _pf.tensor(array, dtype=dtype, device=device)


def as_tensor(data: Any, dtype: Optional[DTypeLike] = None, device: Optional[str] = None) -> Tensor:
    """Returns the tensor itself if it has the requested type and device, else a new one."""
    if isinstance(data, _pf.Tensor):
        given: Tensor = data
        if dtype is not None and given.dtype != _pf.dtype_of(dtype):
            given = given.to(dtype)
        return given if device is None or given.device == device else given.to(device)
    return _pf.tensor(data, dtype=dtype, device=device)


def asarray(obj: Any, dtype: Optional[DTypeLike] = None, device: Optional[str] = None, copy: Optional[bool] = None) -> Tensor:
    """The tensor itself if nothing has to change, else a new one; `copy` forces or forbids a copy."""
    made = as_tensor(obj, dtype, device)
    if copy is False and made is not obj:
        raise ValueError("asarray: the elements must be copied, but copy=False was given")
    return made.clone() if copy and made is obj else made


def meshgrid(*tensors: Any, indexing: str = "ij") -> List[Tensor]:
    """Expands each tensor along its own axis of a common shape."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    if indexing not in ("ij", "xy"):
        raise ValueError(f"meshgrid: indexing must be 'ij' or 'xy', not {indexing!r}")
    # With 'xy' the first tensor varies along the columns and the second along the rows.
    swap = indexing == "xy" and len(tensors) > 1
    if swap:
        tensors = (tensors[1], tensors[0]) + tensors[2:]
    shape = tuple(tensor.nelement() for tensor in tensors)
    grids = []
    for axis, tensor in enumerate(tensors):
        lengths = [1] * len(tensors)
        lengths[axis] = -1
        grids.append(tensor.reshape(lengths).expand(shape))
    if swap:
        grids[:2] = reversed(grids[:2])
    return grids


def _type_of(given: Any) -> Any:
    return given.dtype if isinstance(given, _pf.Tensor) else _pf.dtype_of(given)


class finfo:
    """The limits of a floating point type."""

    def __init__(self, dtype: Optional[DTypeLike] = _pf.float32) -> None:
        given = _type_of(dtype)
        # The component type of a complex number.
        self.dtype = {_pf.complex64: _pf.float32, _pf.complex128: _pf.float64}.get(given, given)
        self.bits, self.min, self.max, self.eps, self.smallest_normal = _pf.limits(self.dtype)
        self.tiny = self.smallest_normal

    def __repr__(self) -> str:
        return f"finfo(min={self.min}, max={self.max}, eps={self.eps}, dtype={self.dtype.name})"


class iinfo:
    """The limits of an integer type."""

    def __init__(self, dtype: Optional[DTypeLike]) -> None:
        self.dtype = _type_of(dtype)
        self.bits, self.min, self.max = _pf.integer_limits(self.dtype)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype.name})"


def _typed(name: str, dtype: _pf.dtype) -> Any:
    """A class of PyTorch that makes tensors of one type, and of which these tensors count as instances."""

    class Kind(type):
        def __call__(cls, *data: Any) -> Any:
            if len(data) == 1 and not isinstance(data[0], int):
                return _pf.tensor(data[0], dtype=dtype)
            return _pf.zeros(*data, dtype=dtype)

        def __instancecheck__(cls, value: Any) -> Any:
            return isinstance(value, _pf.Tensor) and value.dtype == dtype

    return Kind(name, (), {"__doc__": f"Tensors of {dtype.name} on the current device.", "name": dtype.name})


FloatTensor = _typed("FloatTensor", _pf.float32)
DoubleTensor = _typed("DoubleTensor", _pf.float64)
HalfTensor = _typed("HalfTensor", _pf.float16)
LongTensor = _typed("LongTensor", _pf.int64)
IntTensor = _typed("IntTensor", _pf.int32)
ShortTensor = _typed("ShortTensor", _pf.int16)
ByteTensor = _typed("ByteTensor", _pf.uint8)
BoolTensor = _typed("BoolTensor", _pf.bool)


class memory_format(str):
    """How elements are ordered in memory. Accepted where PyTorch has it; the library chooses the order."""


contiguous_format, preserve_format = memory_format("contiguous_format"), memory_format("preserve_format")
channels_last, strided = memory_format("channels_last"), memory_format("strided")
