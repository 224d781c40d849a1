"""Sums, copies and collections between the GPUs of one process.

    from pyflame.distributed import local
    sums = local.all_reduce([a, b])                    # a is on rocm:0, b on rocm:1
    copies = local.broadcast(weight, ["rocm:0", "rocm:1"])

`PYFLAME_COLLECTIVES` chooses what does it: RCCL ('rccl'), copies between the GPUs and additions ('own'), or RCCL if it is installed
and can use these GPUs ('auto', the default).
"""

from __future__ import annotations

from typing import List, Optional, Sequence

from .. import _pyflame as _pf
from .._pyflame import Tensor

__all__ = ["all_gather", "all_reduce", "broadcast"]

OPERATIONS = ("sum", "avg", "max", "min", "product")

# From this number of elements on, every GPU adds a part.
_SPLIT = 1 << 16


def combined(op: str, a: Tensor, b: Tensor) -> Tensor:
    """The elements of both tensors, combined by an operation of a collective."""
    if op in ("sum", "avg"):
        return a + b
    if op == "product":
        return a * b
    return _pf.maximum(a, b) if op == "max" else _pf.minimum(a, b)


def checked(op: str, dtype: _pf.dtype) -> _pf.dtype:
    """The type in which elements are combined. Raises an exception if the operation does not exist for them."""
    if op not in OPERATIONS:
        raise ValueError(f"all_reduce: op must be one of {', '.join(OPERATIONS)}, not {op!r}")
    if op == "avg" and not dtype.is_floating_point:
        raise TypeError(f"all_reduce: the mean of {dtype.name} is not of that type; use float")
    return _pf.float32 if dtype.is_floating_point and dtype.itemsize < 4 else dtype


def _devices(operation: str, tensors: Sequence[Tensor]) -> List[str]:
    if not tensors:
        raise ValueError(f"{operation}: there are no tensors")
    first = tensors[0]
    if any(tuple(tensor.shape) != tuple(first.shape) or tensor.dtype is not first.dtype for tensor in tensors):
        raise ValueError(f"{operation}: the tensors must have one shape and type")
    devices = [str(tensor.device) for tensor in tensors]
    if len(set(devices)) != len(devices):
        raise ValueError(f"{operation}: each tensor must be on a device of its own, not {devices}")
    return devices


def all_reduce(tensors: Sequence[Tensor], op: str = "sum") -> List[Tensor]:
    """Replaces the elements of tensors on different GPUs by their sum (or 'avg', 'max', 'min', 'product'), and returns the tensors.

    All get the same bits. Half types are added in float32.
    """
    tensors = list(tensors)
    devices = _devices("all_reduce", tensors)
    dtype = tensors[0].dtype
    wide = checked(op, dtype)
    values = [tensor.detach().to(wide).reshape(-1) for tensor in tensors]
    results = _pf.rocm_all_reduce(values, "sum" if op == "avg" else op)
    if results is None:
        results = _all_reduced(values, devices, op)
    with _pf.no_grad():
        for tensor, result in zip(tensors, results):
            if op == "avg":
                result = result / len(tensors)
            tensor.copy_(result.to(dtype).reshape(tensor.shape))
    return tensors


def _all_reduced(values: List[Tensor], devices: List[str], op: str) -> List[Tensor]:
    """By copies and additions: each GPU combines a part of the elements, and copies it to the others."""
    length = values[0].nelement()
    count = len(values) if length >= _SPLIT else 1
    bounds = [length * part // count for part in range(count + 1)]
    parts = []
    for home, start, end in zip(devices, bounds, bounds[1:]):
        total = values[0][start:end].to(home)
        for value in values[1:]:
            total = combined(op, total, value[start:end].to(home))
        parts.append(total)
    return [_pf.cat([part.to(device) for part in parts]) for device in devices]


def broadcast(tensor: Tensor, devices: Sequence[str]) -> List[Tensor]:
    """Copies of a tensor on each of the devices."""
    devices = [str(device) for device in devices]
    if len(set(devices)) != len(devices):
        raise ValueError(f"broadcast: each device may be named once, not {devices}")
    tensor = tensor.detach()
    copies: Optional[List[Tensor]] = _pf.rocm_broadcast(tensor, devices)
    if copies is None:
        copies = [tensor.to(device) for device in devices]
        # A copy on the tensor's own device must not share its elements.
        copies = [copy.clone() if copy.device == tensor.device else copy for copy in copies]
    return copies


def all_gather(tensors: Sequence[Tensor]) -> List[List[Tensor]]:
    """For each tensor's device, the tensors of all devices there."""
    tensors = [tensor.detach() for tensor in tensors]
    devices = _devices("all_gather", tensors)
    stacks = _pf.rocm_all_gather(tensors)
    if stacks is not None:
        return [list(stack.unbind(0)) for stack in stacks]
    copies = [broadcast(tensor, devices) for tensor in tensors]
    return [list(there) for there in zip(*copies)]
