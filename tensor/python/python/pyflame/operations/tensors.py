"""New tensors like others, facts about tensors, and names that PyTorch has twice."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple, Union

from .. import _pyflame as _pf
from .._pyflame import Tensor
from . import elementwise


def _like(x: Tensor, dtype: Any, device: Optional[str]) -> Dict[str, Any]:
    return {"dtype": x.dtype if dtype is None else dtype, "device": x.device if device is None else device}


def new_tensor(self: Tensor, data: Any, dtype: Any = None, device: Optional[str] = None, requires_grad: bool = False) -> Tensor:
    """A tensor with a copy of the data, of this tensor's type and device."""
    return _pf.tensor(data, requires_grad=requires_grad, **_like(self, dtype, device))


def new_zeros(self: Tensor, *size: Any, dtype: Any = None, device: Optional[str] = None, requires_grad: bool = False) -> Tensor:
    """Zeros of this tensor's type and device."""
    return _pf.zeros(*size, requires_grad=requires_grad, **_like(self, dtype, device))


def new_ones(self: Tensor, *size: Any, dtype: Any = None, device: Optional[str] = None, requires_grad: bool = False) -> Tensor:
    """Ones of this tensor's type and device."""
    return _pf.ones(*size, requires_grad=requires_grad, **_like(self, dtype, device))


def new_empty(self: Tensor, *size: Any, dtype: Any = None, device: Optional[str] = None, requires_grad: bool = False) -> Tensor:
    """A tensor of this tensor's type and device for elements that are set later; they are zero."""
    return _pf.empty(*size, requires_grad=requires_grad, **_like(self, dtype, device))


def new_full(
    self: Tensor, size: Any, fill_value: Any, dtype: Any = None, device: Optional[str] = None, requires_grad: bool = False
) -> Tensor:
    """A tensor with one value for all elements, of this tensor's type and device."""
    return _pf.full(size, fill_value, requires_grad=requires_grad, **_like(self, dtype, device))


def byte(self: Tensor) -> Tensor:
    """The elements as uint8."""
    return self.to(_pf.uint8)


def char(self: Tensor) -> Tensor:
    """The elements as int8."""
    return self.to(_pf.int8)


def cfloat(self: Tensor) -> Tensor:
    """The elements as complex64."""
    return self.to(_pf.complex64)


def cuda(self: Tensor, device: Union[int, str, None] = None, non_blocking: bool = False) -> Tensor:
    """The tensor on a GPU."""
    number = str(device).rpartition(":")[2] if device is not None else "0"
    return self.to(f"rocm:{number if number.isdigit() else 0}")


def pin_memory(self: Tensor, device: Optional[str] = None) -> Tensor:
    """The tensor itself: every upload goes through pinned memory."""
    return self


def is_pinned(self: Tensor, device: Optional[str] = None) -> bool:
    """False: tensors of the CPU are in pageable memory, and uploads go through pinned memory."""
    return False


def share_memory_(self: Tensor) -> Tensor:
    """The tensor itself: it is copied when it is sent to another process."""
    return self


def ndimension(self: Tensor) -> int:
    """The number of dimensions."""
    return self.ndim


def get_device(self: Tensor) -> int:
    """The number of the GPU that the tensor is on; -1 for the CPU."""
    return -1 if self.device == "cpu" else int(self.device.partition(":")[2] or 0)


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is not zero."""
    return bool(input)


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both shapes are equal."""
    return tuple(input.shape) == tuple(other.shape)


def is_signed(input: Tensor) -> bool:
    """Whether elements can be negative."""
    return bool(input.dtype.is_signed)


def resize_(self: Tensor, *sizes: Any) -> Tensor:
    """Changes the shape; elements that are added are zero."""
    shape = tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else tuple(sizes)
    count = 1
    for length in shape:
        count *= length
    flat = self.detach().reshape(-1)
    have = flat.shape[0]
    flat = flat[:count] if have >= count else _pf.cat([flat, _pf.zeros(count - have, dtype=self.dtype, device=self.device)])
    return self._become(flat.reshape(*shape).clone())


def where(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """The tensor's elements where the condition is true, else the other's."""
    return _pf.where(condition, self, other)


def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself: conjugation is never deferred."""
    return input


def scalar_tensor(s: Any, *, dtype: Any = _pf.float32, device: Optional[str] = None) -> Tensor:
    """A tensor without dimensions."""
    return _pf.tensor(s, dtype=dtype, device=device)


def logspace(
    start: float, end: float, steps: int, base: float = 10.0, *, dtype: Any = _pf.float32, device: Optional[str] = None
) -> Tensor:
    """Powers of a base with evenly spaced exponents."""
    return (base ** _pf.linspace(start, end, steps, dtype=_pf.float64, device=device)).to(dtype)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """A leaky ReLU with a learned slope for each channel."""
    from ..nn.functional import prelu as function

    return function(input, weight)


def empty_strided(size: Tuple[int, ...], stride: Tuple[int, ...], *, dtype: Any = None, device: Optional[str] = None) -> Tensor:
    """Zeros with the given strides."""
    span = 1 + sum((length - 1) * step for length, step in zip(size, stride))
    return _pf.zeros(span if 0 not in size else 0, dtype=dtype or _pf.float32, device=device).as_strided(list(size), list(stride))


def _constant(value: Any, doc: str) -> property:
    return property(lambda self: value, doc=doc)


PROPERTIES = {
    "H": property(lambda self: self.mT.conj() if self.dtype.is_complex else self.mT, doc="The conjugate transpose of a matrix."),
    "mH": property(lambda self: self.mT.conj() if self.dtype.is_complex else self.mT, doc="The conjugate transposes of matrices."),
    "is_cuda": property(lambda self: self.device != "cpu", doc="Whether it is on a GPU."),
    "is_cpu": property(lambda self: self.device == "cpu", doc="Whether it is on the CPU."),
    "is_sparse": _constant(False, "False: all tensors are dense."),
    "is_quantized": _constant(False, "False: there are no quantised tensors."),
    "is_meta": _constant(False, "False: every tensor has elements."),
    "is_mps": _constant(False, "False: there is no such device."),
    "is_nested": _constant(False, "False: all rows have one length."),
}

# Other names of methods: the new name, and the one that it stands for.
SYNONYMS = {
    "divide": "div", "true_divide": "div", "subtract": "sub", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le",
    "not_equal": "ne", "arctan2": "atan2", "arccosh": "acosh", "arcsinh": "asinh", "arctanh": "atanh", "fix": "trunc",
    "conj_physical": "conj", "resize": "reshape", "unsafe_chunk": "chunk", "unsafe_split": "split",
}  # fmt: skip

METHODS = (
    new_tensor, new_zeros, new_ones, new_empty, new_full, byte, char, cfloat, cuda, pin_memory, is_pinned, share_memory_, ndimension,
    get_device, is_nonzero, is_same_size, is_signed, resize_, where, resolve_conj, prelu,
)  # fmt: skip
FUNCTIONS = (is_nonzero, is_same_size, is_signed, resolve_conj, scalar_tensor, logspace, prelu, empty_strided)


def install(methods: Dict[str, Callable[..., Any]]) -> None:
    """Adds methods to tensors."""
    for name, method in methods.items():
        setattr(Tensor, name, method)
