"""Parameter initialisation. Each function changes the given tensor in place and returns it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from .. import _pyflame as _pf

if TYPE_CHECKING:
    from .._pyflame import Generator, Tensor


# The number of bisection steps: one for each significant bit of a float32.
_HALVINGS = 24


def _fill(tensor: Tensor, values: Any) -> Tensor:
    with _pf.no_grad():
        tensor.copy_(values)
    return tensor


def _like(tensor: Tensor) -> Dict[str, Any]:
    return {"dtype": tensor.dtype, "device": tensor.device}


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Optional[Generator] = None) -> Tensor:
    """Fills a tensor with uniform random numbers."""
    return _fill(tensor, _pf.rand(tuple(tensor.shape), generator=generator, **_like(tensor)) * (b - a) + a)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Optional[Generator] = None) -> Tensor:
    """Fills a tensor with normal random numbers."""
    return _fill(tensor, _pf.randn(tuple(tensor.shape), generator=generator, **_like(tensor)) * std + mean)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
    generator: Optional[Generator] = None
) -> Tensor:  # fmt: skip
    """Normal numbers truncated to [a, b]: inverts the distribution function at uniform numbers by bisection."""
    shape, like = tuple(tensor.shape), _like(tensor)
    scale = std * math.sqrt(2.0)
    edges = [math.erf((edge - mean) / scale) for edge in (a, b)]
    wanted = _pf.rand(shape, generator=generator, **like) * (edges[1] - edges[0]) + edges[0]
    low, high = _pf.full(shape, a, **like), _pf.full(shape, b, **like)
    for _ in range(_HALVINGS):
        middle = (low + high) * 0.5
        beyond = _pf.erf((middle - mean) * (1.0 / scale)) > wanted
        low, high = _pf.where(beyond, low, middle), _pf.where(beyond, middle, high)
    return _fill(tensor, (low + high) * 0.5)


def constant_(tensor: Tensor, val: Any) -> Tensor:
    """Fills a tensor with a number."""
    return _fill(tensor, _pf.full(tuple(tensor.shape), val, **_like(tensor)))


def zeros_(tensor: Tensor) -> Tensor:
    """Fills a tensor with zeros."""
    return constant_(tensor, 0)


def ones_(tensor: Tensor) -> Tensor:
    """Fills a tensor with ones."""
    return constant_(tensor, 1)


def eye_(tensor: Tensor) -> Tensor:
    """Fills a matrix with ones on the diagonal and zeros elsewhere."""
    if tensor.ndim != 2:
        raise ValueError(f"eye_: expected a matrix, got a tensor with {tensor.ndim} axes")
    return _fill(tensor, _pf.eye(tensor.shape[0], tensor.shape[1], **_like(tensor)))


def calculate_gain(nonlinearity: str, param: Optional[float] = None) -> float:
    """The factor by which a nonlinearity changes the spread of its input, as PyTorch recommends it."""
    gains = {"tanh": 5.0 / 3.0, "relu": math.sqrt(2.0), "selu": 0.75}
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity in gains:
        return gains[nonlinearity]
    if nonlinearity in ("linear", "sigmoid") or nonlinearity.startswith("conv"):
        return 1.0
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> Tuple[int, int]:
    """The numbers of inputs and outputs of each unit; by PyTorch's name, which models use."""
    if tensor.ndim < 2:
        raise ValueError(f"fan in and fan out need at least two axes, but the shape is {list(tensor.shape)}")
    field = 1
    for length in tensor.shape[2:]:
        field *= length
    return tensor.shape[1] * field, tensor.shape[0] * field


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Fills weights with uniform numbers whose spread keeps that of the signal."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    bound = gain * math.sqrt(6.0 / (fan_in + fan_out))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Fills weights with normal numbers whose spread keeps that of the signal."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / (fan_in + fan_out)))


def _fan(tensor: Tensor, mode: str) -> int:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode {mode!r} is neither 'fan_in' nor 'fan_out'")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def kaiming_uniform_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Fills weights with uniform numbers whose spread suits ReLUs."""
    bound = calculate_gain(nonlinearity, a) * math.sqrt(3.0 / _fan(tensor, mode))
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Fills weights with normal numbers whose spread suits ReLUs."""
    return normal_(tensor, 0.0, calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode)))


def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Optional[Generator] = None) -> Tensor:
    """A matrix with orthonormal rows or columns; the axes after the first count as one."""
    if tensor.ndim < 2:
        raise ValueError(f"orthogonal_: at least two axes are needed, but the shape is {list(tensor.shape)}")
    rows = tensor.shape[0]
    columns = tensor.nelement() // max(rows, 1)
    flat = _pf.randn(max(rows, columns), min(rows, columns), device=tensor.device, generator=generator)
    q, r = _pf.linalg_qr(flat, False)
    q = q * r.diagonal().sign()
    return _fill(tensor, ((q if rows >= columns else q.mT) * gain).reshape(tuple(tensor.shape)).to(tensor.dtype))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """The kernel of a convolution that keeps its input, as far as there are channels."""
    if tensor.ndim not in (3, 4, 5) or tensor.shape[0] % groups:
        raise ValueError(f"dirac_: {list(tensor.shape)} is not the weight of a convolution with {groups} groups")
    made = _pf.zeros(tuple(tensor.shape), **_like(tensor))
    out = tensor.shape[0] // groups
    middle = tuple(length // 2 for length in tensor.shape[2:])
    for group in range(groups):
        for channel in range(min(out, tensor.shape[1])):
            made[(group * out + channel, channel) + middle] = 1
    return _fill(tensor, made)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Optional[Generator] = None) -> Tensor:
    """Normal numbers, with a share of every column set to zero."""
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    keys = _pf.rand(rows, columns, device=tensor.device, generator=generator).argsort(0).argsort(0)
    noise = _pf.randn(rows, columns, generator=generator, **_like(tensor)) * std
    return _fill(tensor, _pf.where(keys < zeros, _pf.zeros_like(noise), noise))
