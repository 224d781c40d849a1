"""Functions of parameters and gradients."""

from __future__ import annotations

import math
from typing import Any, Iterable, List, Union

from ... import _pyflame as _pf
from ..._pyflame import Tensor
from . import rnn

__all__ = [
    "clip_grad_norm_", "clip_grad_value_", "get_total_norm", "parameters_to_vector", "rnn", "vector_to_parameters",
]  # fmt: skip

Parameters = Union[Tensor, Iterable[Tensor]]


def _gradients(parameters: Parameters) -> List[Tensor]:
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [parameter.grad for parameter in given if parameter.grad is not None]


def get_total_norm(tensors: Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False) -> Tensor:
    """The norm of all elements of all tensors, in float32 or a wider type."""
    kind = float(norm_type)
    parts = [x.detach().to(_pf.float32) if x.dtype.itemsize < 4 else x.detach() for x in tensors]
    if not parts:
        return _pf.tensor(0.0)
    # Each norm may be on another device.
    norms = [part.norm(kind).to(parts[0].device) for part in parts]
    total = _pf.stack(norms).norm(kind)
    if error_if_nonfinite and not math.isfinite(float(total)):
        raise RuntimeError(f"the norm of order {norm_type} of the gradients is {float(total)}; set error_if_nonfinite=False to clip anyway")
    return total


def clip_grad_norm_(
    parameters: Parameters, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: Any = None
) -> Tensor:
    """Scales the gradients down together, so that their norm is at most `max_norm`; returns the norm before."""
    gradients = _gradients(parameters)
    with _pf.no_grad():
        total = get_total_norm(gradients, norm_type, error_if_nonfinite)
        factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(factor.to(gradient.device).to(gradient.dtype))
    return total


def clip_grad_value_(parameters: Parameters, clip_value: float, foreach: Any = None) -> None:
    """Limits the elements of the gradients to `[-clip_value, clip_value]`."""
    with _pf.no_grad():
        for gradient in _gradients(parameters):
            gradient.clamp_(-float(clip_value), float(clip_value))


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements as one vector."""
    return _pf.cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copies the elements of a vector back to parameters."""
    start = 0
    with _pf.no_grad():
        for parameter in parameters:
            count = parameter.nelement()
            parameter.copy_(vec[start : start + count].reshape(tuple(parameter.shape)))
            start += count
    if start != vec.nelement():
        raise ValueError(f"vector_to_parameters: the vector has {vec.nelement()} elements, the parameters {start}")
