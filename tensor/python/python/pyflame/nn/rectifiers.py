"""Activation functions that are compositions of other functions."""

from __future__ import annotations

import math
from typing import Any, Optional

from .. import _pyflame as _pf
from .._pyflame import Tensor


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """The elements above zero, and `alpha * (exp(x / alpha) - 1)` below."""
    return _pf.where(input > 0, input, alpha * (input.clamp(max=0) / alpha).expm1())


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half of an axis times the sigmoid of the second."""
    if input.shape[dim] % 2:
        raise ValueError(f"glu: the axis {dim} of {tuple(input.shape)} cannot be halved")
    first, second = input.chunk(2, dim)
    return first * second.sigmoid()


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """The elements outside of `[-lambd, lambd]`, and zero inside."""
    return _pf.where((input >= -lambd) & (input <= lambd), _pf.zeros_like(input), input)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """The elements moved towards zero by `lambd`, zero if they are closer."""
    if lambd < 0:
        raise ValueError(f"softshrink: lambd must not be negative, not {lambd}")
    near = (input >= -lambd) & (input <= lambd)
    return _pf.where(near, input * 0, _pf.where(input > 0, input - lambd, input + lambd))


def tanhshrink(input: Tensor) -> Tensor:
    """`x - tanh(x)`."""
    return input - input.tanh()


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """The elements above the threshold; the value for all others."""
    return _pf.where(input > threshold, input, _pf.full_like(input, value))


def softmin(input: Tensor, dim: int = -1, dtype: Any = None) -> Tensor:
    """The softmax of the negated elements."""
    return (-input).softmax(dim, dtype)


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """A leaky ReLU with a random slope while training, else with the mean slope."""
    slope: Any = (lower + upper) / 2
    if training:
        slope = _pf.rand_like(input) * (upper - lower) + lower
    return _pf.where(input >= 0, input, input * slope)


def gumbel_softmax(logits: Tensor, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """A sample of the Gumbel-softmax distribution; with `hard` a one-hot one, with the gradient of the soft one."""
    uniform = _pf.rand(*logits.shape, dtype=logits.dtype, device=logits.device)
    noise = -(-(1 - uniform).log()).log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    chosen = _pf.zeros_like(soft).scatter(dim, soft.detach().argmax(dim, True), 1.0)
    return chosen - soft.detach() + soft


def _dropped_channels(x: Tensor, p: float, training: bool, lead: int) -> Tensor:
    if not training or p == 0:
        return x
    ones = _pf.ones(*x.shape[:lead], *[1] * (x.ndim - lead), dtype=x.dtype, device=x.device)
    return x * ones.dropout(p, True)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes whole channels of [n, c, length] or [c, length]."""
    return _dropped_channels(input, p, training, input.ndim - 1)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes whole channels of [n, c, depth, height, width]."""
    return _dropped_channels(input, p, training, input.ndim - 3)


_SATURATED = -1.7580993408473766


def _alpha(x: Tensor, keep: Tensor, p: float) -> Tensor:
    scale = 1.0 / math.sqrt((1 - p) * (1 + p * _SATURATED * _SATURATED)) if p < 1 else 0.0
    shift = -scale * p * _SATURATED
    return _pf.where(keep, x, _pf.full_like(x, _SATURATED)) * scale + shift


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps mean and variance of the output of SELU."""
    if not training or p == 0:
        return input
    return _alpha(input, _pf.rand(*input.shape, device=input.device) >= p, p)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """`alpha_dropout` of whole channels."""
    if not training or p == 0:
        return input
    kept = _pf.rand(*input.shape[:2], *[1] * (input.ndim - 2), device=input.device) >= p
    return _alpha(input, kept, p)


def rms_norm(input: Tensor, normalized_shape: Any, weight: Optional[Tensor] = None, eps: Optional[float] = None) -> Tensor:
    """Divides by the root of the mean square over the last axes, and multiplies with a weight."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if tuple(input.shape[input.ndim - len(shape) :]) != shape:
        raise ValueError(f"rms_norm: the last axes of {tuple(input.shape)} are not {shape}")
    axes = list(range(input.ndim - len(shape), input.ndim))
    x = input.to(_pf.float32) if input.dtype.itemsize < 4 else input
    small = _pf.limits(x.dtype)[3] if eps is None else eps
    made = (x * ((x * x).mean(axes, True) + small).rsqrt()).to(input.dtype)
    return made if weight is None else made * weight


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """`input1 @ weight @ input2 + bias`, for every output feature."""
    left = input1.unsqueeze(-2).unsqueeze(-2).matmul(weight).squeeze(-2)
    out = (left * input2.unsqueeze(-2)).sum(-1)
    return out if bias is None else out + bias


def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Optional[Tensor] = None, max_norm: Optional[float] = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Optional[Tensor] = None,
    include_last_offset: bool = False, padding_idx: Optional[int] = None,
) -> Tensor:  # fmt: skip
    """Sums, means or maxima of the rows of a table, for each bag of indices."""
    if max_norm is not None or scale_grad_by_freq or padding_idx is not None:
        raise NotImplementedError("embedding_bag: max_norm, scale_grad_by_freq and padding_idx are not supported")
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag: mode must be 'sum', 'mean' or 'max', not {mode!r}")
    if input.ndim == 2:
        rows = _pf.embedding(input, weight)
        if per_sample_weights is not None:
            rows = rows * per_sample_weights.unsqueeze(-1)
        return {"sum": Tensor.sum, "mean": Tensor.mean, "max": Tensor.amax}[mode](rows, 1)
    if offsets is None:
        raise ValueError("embedding_bag: a vector of indices needs offsets")
    starts = [int(start) for start in offsets.tolist()]
    ends = starts[1:] if include_last_offset else [*starts[1:], input.shape[0]]
    rows = _pf.embedding(input, weight)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    bags = []
    for start, end in zip(starts, ends):
        part = rows[start:end]
        if start == end:
            bags.append(weight.new_zeros(weight.shape[1]))
        else:
            bags.append({"sum": Tensor.sum, "mean": Tensor.mean, "max": Tensor.amax}[mode](part, 0))
    return _pf.stack(bags) if bags else weight.new_zeros(0, weight.shape[1])


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    return input.relu_() if inplace else input.relu()


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x)."""
    return input.silu_() if inplace else input.silu()


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x))."""
    return input._in_place(Tensor.mish) if inplace else input.mish()


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """The scaled exponential linear unit."""
    return input.selu_() if inplace else input.selu()


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """The elements above zero, and `alpha * (exp(x) - 1)` below."""
    return input.elu_(alpha) if inplace else input.elu(alpha)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """The elements above zero, and those below times a slope."""
    return input.leaky_relu_(negative_slope) if inplace else input.leaky_relu(negative_slope)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """The elements limited to a range."""
    return input.clamp_(min_val, max_val) if inplace else input.hardtanh(min_val, max_val)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes elements with probability p while training, and scales the others to keep the mean."""
    return input._in_place(Tensor.dropout, p, training) if inplace else input.dropout(p, training)


def embedding(
    input: Tensor, weight: Tensor, padding_idx: Optional[int] = None, max_norm: Optional[float] = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """Looks up rows of a table; the row `padding_idx` gets no gradient. `sparse` has no effect: gradients are dense."""
    if scale_grad_by_freq:
        raise NotImplementedError("embedding: scale_grad_by_freq is not supported")
    if max_norm is not None:
        with _pf.no_grad():
            used = input.unique()
            weight.index_copy_(0, used, weight[used].renorm(norm_type, 0, max_norm))
    return _pf.embedding(input, weight, padding_idx)
