"""Batches from lists of examples."""

from __future__ import annotations

from typing import Any, Callable, List, Mapping

from ... import _pyflame as _pf
from ..._pyflame import Tensor


def default_convert(data: Any) -> Any:
    """NumPy arrays in containers as tensors; everything else as it is."""
    if isinstance(data, Tensor) or isinstance(data, (str, bytes)):
        return data
    if hasattr(data, "__array_interface__"):
        return _pf.tensor(data) if data.dtype.kind in "biufc" else data
    return _mapped(data, default_convert)


def default_collate(batch: List[Any]) -> Any:
    """Stacks tensors, arrays and numbers of examples; keeps tuples, lists and dictionaries of them."""
    first = batch[0]
    if isinstance(first, Tensor):
        return _pf.stack(batch)
    if hasattr(first, "__array_interface__"):
        if first.dtype.kind not in "biufc":
            raise TypeError(f"default_collate: arrays of {first.dtype} have no counterpart; pass a collate_fn")
        return _pf.stack([_pf.tensor(array) for array in batch])
    if isinstance(first, float):
        return _pf.tensor(batch, dtype=_pf.float64)
    if isinstance(first, (bool, int)):
        return _pf.tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return {key: default_collate([example[key] for example in batch]) for key in first}
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(list(parts)) for parts in zip(*batch)))
    if isinstance(first, (tuple, list)):
        if any(len(example) != len(first) for example in batch):
            raise ValueError("default_collate: the examples have different numbers of parts; pass a collate_fn")
        parts = [default_collate(list(each)) for each in zip(*batch)]
        return parts if isinstance(first, list) else tuple(parts)
    raise TypeError(f"default_collate: examples must be tensors, arrays, numbers, texts or containers of them, not {type(first).__name__}")


def _mapped(data: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(data, Mapping):
        return {key: function(value) for key, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(function(value) for value in data))
    if isinstance(data, (tuple, list)):
        return type(data)(function(value) for value in data)
    return data


def on_device(data: Any, device: str) -> Any:
    """All tensors of a batch on a device."""
    if isinstance(data, Tensor):
        return data.to(device)
    return _mapped(data, lambda part: on_device(part, device))
