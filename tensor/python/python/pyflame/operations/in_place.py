"""Methods that change a tensor: their names end in an underscore."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Union

from .. import _pyflame as _pf
from .._pyflame import Tensor

Number = Union[int, float]

# Methods with no further arguments, and with one other operand.
_ALONE = (
    "abs absolute acos acosh arccos arcsin arctan asin asinh atan atanh bitwise_not ceil conj cos cosh erf exp exp2 expm1 floor "
    "log log10 log1p log2 logical_not neg negative reciprocal relu rsqrt selu sigmoid sign silu sin sinh sqrt square tan tanh trunc "
    "erfc erfinv frac sgn sinc deg2rad rad2deg"
).split()
_WITH_OTHER = (
    "atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign eq floor_divide ge gt hypot le "
    "logical_and logical_or logical_xor lt multiply ne nextafter remainder divide fmod float_power gcd lcm heaviside ldexp xlogy "
    "clamp_min clamp_max greater greater_equal less less_equal not_equal true_divide subtract arctan2"
).split()
# Methods with arguments that are passed on as they are.
_WITH_ARGUMENTS = (
    "addbmm addcdiv addcmul addmm addmv addr baddbmm clip cumprod cumsum elu hardtanh index_add index_copy index_fill index_put "
    "leaky_relu lerp logit masked_fill masked_scatter nan_to_num put renorm round scatter scatter_add scatter_reduce tril triu"
).split()
_VIEWS = "squeeze unsqueeze transpose t swapaxes swapdims".split()


def _alone(name: str, function: Callable[..., Any]) -> Callable[[Tensor], Tensor]:
    def method(self: Tensor) -> Tensor:
        return self._in_place(function)

    return method


def _with_other(name: str, function: Callable[..., Any]) -> Callable[[Tensor, Any], Tensor]:
    def method(self: Tensor, other: Any) -> Tensor:
        return self._in_place(function, other)

    return method


def _with_arguments(name: str, function: Callable[..., Any]) -> Callable[..., Tensor]:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return self._in_place(function, *args, **kwargs)

    return method


def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Optional[_pf.Generator] = None) -> Tensor:
    """Exponentially distributed random numbers."""
    return self.uniform_(generator=generator)._in_place(lambda x: -(1 - x).log() / lambd)


def bernoulli_(self: Tensor, p: Union[float, Tensor] = 0.5, *, generator: Optional[_pf.Generator] = None) -> Tensor:
    """Ones with probability `p`, else zeros."""
    uniform = _pf.rand(*self.shape, device=self.device, generator=generator)
    return self.copy_(uniform < p)


def random_(
    self: Tensor, low: int = 0, high: Optional[int] = None, *, generator: Optional[_pf.Generator] = None
) -> Tensor:
    """Random integers from `low` to below `high`, or from zero to below the only bound that is given."""
    if high is None and low == 0:
        high = 1 << 24 if self.dtype.is_floating_point else min(_pf.integer_limits(self.dtype)[2], 1 << 62)
    elif high is None:
        low, high = 0, low
    return self.copy_(_pf.randint(low, high, tuple(self.shape), device=self.device, generator=generator))


def log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Optional[_pf.Generator] = None) -> Tensor:
    """Random numbers whose logarithms are normal."""
    return self.normal_(mean, std, generator=generator)._in_place(Tensor.exp)


def cauchy_(self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Optional[_pf.Generator] = None) -> Tensor:
    """Random numbers of the Cauchy distribution."""
    import math

    return self.uniform_(generator=generator)._in_place(lambda x: ((x - 0.5) * math.pi).tan() * sigma + median)


def geometric_(self: Tensor, p: float, *, generator: Optional[_pf.Generator] = None) -> Tensor:
    """Numbers of trials until the first success of probability `p`."""
    import math

    uniform = _pf.rand(*self.shape, device=self.device, generator=generator)
    return self.copy_(((1 - uniform).log() / math.log(1 - p)).ceil().clamp(min=1))


def fill_diagonal_(self: Tensor, fill_value: Number, wrap: bool = False) -> Tensor:
    """Sets the main diagonal to one value; with `wrap` again below the square part of a tall matrix."""
    if self.ndim > 2:
        numbers = [_pf.arange(self.shape[0], device=self.device)] * self.ndim
        self[tuple(numbers)] = fill_value
        return self
    self.diagonal().fill_(fill_value)
    rows, columns = self.shape
    start = columns + 1
    while wrap and start < rows:
        self.narrow(0, start, rows - start).diagonal().fill_(fill_value)
        start += columns + 1
    return self


def _view(name: str, function: Callable[..., Any]) -> Callable[..., Tensor]:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return self._become(function(self, *args, **kwargs))

    return method


def detach_(self: Tensor) -> Tensor:
    """Detaches the tensor itself from its history."""
    return self._become(self.detach())


def _methods() -> Dict[str, Callable[..., Any]]:
    made: Dict[str, Callable[..., Any]] = {}
    for names, kind in ((_ALONE, _alone), (_WITH_OTHER, _with_other), (_WITH_ARGUMENTS, _with_arguments), (_VIEWS, _view)):
        for name in names:
            function = getattr(Tensor, name)
            method = kind(name, function)
            method.__name__ = method.__qualname__ = f"{name}_"
            method.__doc__ = f"Like `{name}`, but changes the tensor itself."
            made[f"{name}_"] = method
    for function in (exponential_, bernoulli_, random_, log_normal_, cauchy_, geometric_, fill_diagonal_, detach_):
        made[function.__name__] = function
    return made
