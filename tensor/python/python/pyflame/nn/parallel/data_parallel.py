"""A module that computes on several GPUs of one process."""

from __future__ import annotations

import copy
from typing import Any, Dict, List, Optional, Sequence, Tuple, TypeVar, Union

from ... import _pyflame as _pf
from ..._pyflame import Tensor
from ...distributed import local
from ...function import Function
from ..module import Module

_Kind = TypeVar("_Kind", bound=Module)


class _Copies(Function):
    """Copies of tensors, which are on the first device, on the others. Gradients are added on the first."""

    @staticmethod
    def forward(ctx: Any, devices: Sequence[str], *tensors: Tensor) -> Tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.home, ctx.count = devices[0], len(tensors)
        rows = zip(*(local.broadcast(tensor, devices) for tensor in tensors))
        return tuple(copy for row in list(rows)[1:] for copy in row)

    @staticmethod
    def backward(ctx: Any, *gradients: Optional[Tensor]) -> Tuple[Optional[Tensor], ...]:
        sums = []
        for number in range(ctx.count):
            there = [gradient.to(ctx.home) for gradient in gradients[number :: ctx.count] if gradient is not None]
            sums.append(sum(there[1:], there[0]) if there else None)
        return (None, *sums)


def _replicas(module: Module, devices: Sequence[str]) -> List[Module]:
    """The module, which is on the first device, and its replicas on the others."""
    learned: List[Tensor] = []
    fixed: List[Tensor] = []
    for tensor in [*module.parameters(), *module.buffers()]:
        (learned if tensor.requires_grad else fixed).append(tensor)
    found: List[Dict[int, Tensor]] = [{} for _ in devices]
    copies = _Copies.apply(devices, *learned) if learned and len(devices) > 1 else ()
    for number, copied in enumerate(copies):
        found[1 + number // len(learned)][id(learned[number % len(learned)])] = copied
    for tensor in fixed:
        for there, copied in zip(found[1:], local.broadcast(tensor, devices)[1:]):
            there[id(tensor)] = copied
    return [module, *(replicate(module, device, there) for device, there in zip(devices[1:], found[1:]))]


def replicate(module: _Kind, device: str, copies: Optional[Dict[int, Tensor]] = None) -> _Kind:
    """A copy of a module on a device. Its parameters are copies of the module's, so gradients flow back to these.

    `copies` has copies that exist already, by the `id` of what they are copies of.
    """
    known = copies or {}

    def moved(tensor: Optional[Tensor]) -> Optional[Tensor]:
        if tensor is None:
            return None
        return known[id(tensor)] if id(tensor) in known else tensor.to(device)

    replica = copy.copy(module)
    own = dict(module.__dict__)
    own["_parameters"] = {name: moved(value) for name, value in module._parameters.items()}
    own["_buffers"] = {name: moved(value) for name, value in module._buffers.items()}
    own["_modules"] = {
        name: None if value is None else replicate(value, device, known) for name, value in module._modules.items()
    }
    replica.__dict__.clear()
    replica.__dict__.update(own)
    return replica


class DataParallel(Module):
    """Splits a batch among GPUs, each of which has a replica of the module, and joins the results on the first.

    Gradients arrive at the module's own parameters, on the first device. Changes that a replica makes to buffers, such as running
    statistics, are kept on the first device only. `device_ids` are numbers of GPUs or names of devices; by default all GPUs.
    """

    def __init__(self, module: Module, device_ids: Optional[Sequence[Union[int, str]]] = None, dim: int = 0) -> None:
        super().__init__()
        if device_ids is None:
            device_ids = range(_pf.rocm_device_count())
        self.devices = [f"rocm:{device}" if isinstance(device, int) else str(device) for device in device_ids]
        if not self.devices:
            raise ValueError("DataParallel: there are no GPUs; pass the names of devices")
        if len(set(self.devices)) != len(self.devices):
            raise ValueError(f"DataParallel: each device may be named once, not {self.devices}")
        self.dim = dim
        self.module = module.to(self.devices[0])

    def _parts(self, value: Any) -> List[Any]:
        """The value for each device: parts of tensors, and anything else as it is."""
        if isinstance(value, _pf.Tensor) and value.ndim > 0:
            length = value.shape[self.dim]
            count = min(len(self.devices), max(length, 1))
            bounds = [length * number // count for number in range(count + 1)]
            parts = [value.narrow(self.dim, start, end - start) for start, end in zip(bounds, bounds[1:])]
            return [part.to(device) for part, device in zip(parts, self.devices)]
        if isinstance(value, (list, tuple)):
            return [type(value)(part) for part in zip(*(self._parts(part) for part in value))]
        if isinstance(value, dict):
            split = {key: self._parts(part) for key, part in value.items()}
            return [dict(zip(split, part)) for part in zip(*split.values())]
        return [value] * len(self.devices)

    def _join(self, parts: Sequence[Any]) -> Any:
        first = parts[0]
        if isinstance(first, _pf.Tensor):
            parts = [part.to(self.devices[0]) for part in parts]
            return _pf.cat([part.reshape(1) if part.ndim == 0 else part for part in parts], self.dim if first.ndim else 0)
        if isinstance(first, (list, tuple)):
            return type(first)(self._join(part) for part in zip(*parts))
        if isinstance(first, dict):
            return {key: self._join([part[key] for part in parts]) for key in first}
        raise TypeError(f"DataParallel: results must be tensors, not {type(first).__name__}")

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Computes each part of the batch on a GPU of its own and joins the results."""
        given = list(zip(self._parts(inputs) if inputs else [()] * len(self.devices), self._parts(named) if named else [{}] * len(self.devices)))
        if not inputs and not named:
            return self.module()
        results = []
        # Every replica's work is submitted before the result of any is read, so the GPUs compute at the same time.
        for (inputs, named), replica in zip(given, _replicas(self.module, self.devices[: len(given)])):
            results.append(replica(*inputs, **named))
        return results[0] if len(results) == 1 else self._join(results)
