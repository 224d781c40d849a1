"""Activations as layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Optional

from . import functional as F
from .module import Module
from .parameter import Parameter

if TYPE_CHECKING:
    from .._pyflame import DTypeLike, Tensor


class _Plain(Module):
    """A layer of one function without options."""

    _function: Callable[..., Tensor]

    # `inplace` is accepted for compatibility and ignored: values are never changed in place here.
    def __init__(self, inplace: bool = False) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        """Computes the result for the given inputs."""
        return self._function(x)


class ReLU(_Plain):
    """max(x, 0)."""

    _function = staticmethod(F.relu)


class ReLU6(_Plain):
    """x between 0 and 6."""

    _function = staticmethod(F.relu6)


class Sigmoid(_Plain):
    """1 / (1 + exp(-x))."""

    _function = staticmethod(F.sigmoid)


class Tanh(_Plain):
    """The hyperbolic tangent."""

    _function = staticmethod(F.tanh)


class SiLU(_Plain):
    """x * sigmoid(x)."""

    _function = staticmethod(F.silu)


class Mish(_Plain):
    """x * tanh(softplus(x))."""

    _function = staticmethod(F.mish)


class Hardtanh(_Plain):
    """x between -1 and 1."""

    _function = staticmethod(F.hardtanh)


class Hardsigmoid(_Plain):
    """relu6(x + 3) / 6."""

    _function = staticmethod(F.hardsigmoid)


class Hardswish(_Plain):
    """x * hardsigmoid(x)."""

    _function = staticmethod(F.hardswish)


class Softsign(_Plain):
    """x / (1 + |x|)."""

    _function = staticmethod(F.softsign)


class LogSigmoid(_Plain):
    """log(sigmoid(x))."""

    _function = staticmethod(F.logsigmoid)


class SELU(_Plain):
    """The scaled exponential linear unit."""

    _function = staticmethod(F.selu)


class GELU(Module):
    """x times the normal cumulative distribution at x; with approximate='tanh', its tanh approximation."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        """Computes the result for the given inputs."""
        return F.gelu(x, self.approximate)

    def extra_repr(self) -> str:
        """The part of the representation between the parentheses."""
        return f"approximate={self.approximate!r}"


class LeakyReLU(Module):
    """The identity; negative elements are multiplied by `negative_slope`."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        """Computes the result for the given inputs."""
        return F.leaky_relu(x, self.negative_slope)

    def extra_repr(self) -> str:
        """The part of the representation between the parentheses."""
        return f"negative_slope={self.negative_slope}"


class ELU(Module):
    """The exponential linear unit."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        """Computes the result for the given inputs."""
        return F.elu(x, self.alpha)

    def extra_repr(self) -> str:
        """The part of the representation between the parentheses."""
        return f"alpha={self.alpha}"


class PReLU(Module):
    """A leaky ReLU with a learned slope."""

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Optional[str] = None, dtype: Optional[DTypeLike] = None
    ) -> None:
        from .. import _pyflame as _pf

        super().__init__()
        self.weight = Parameter(_pf.full((num_parameters,), init, device=device, dtype=dtype or _pf.float32))

    def forward(self, x: Tensor) -> Tensor:
        """Computes the result for the given inputs."""
        return F.prelu(x, self.weight)


class Softplus(Module):
    """The logarithm of one plus the exponential: a smooth ReLU."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, x: Tensor) -> Tensor:
        """Computes the result for the given inputs."""
        return F.softplus(x, self.beta, self.threshold)


class Softmax(Module):
    """The softmax along an axis."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """Computes the result for the given inputs."""
        return F.softmax(x, self.dim)

    def extra_repr(self) -> str:
        """The part of the representation between the parentheses."""
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """The logarithm of the softmax along an axis."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """Computes the result for the given inputs."""
        return F.log_softmax(x, self.dim)

    def extra_repr(self) -> str:
        """The part of the representation between the parentheses."""
        return f"dim={self.dim}"


class _Dropout(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"{type(self).__name__}: p must be between 0 and 1, not {p}")
        self.p = p

    def extra_repr(self) -> str:
        """The part of the representation between the parentheses."""
        return f"p={self.p}"


class Dropout(_Dropout):
    """Zeroes elements with probability p while training, and scales the others to keep the mean."""

    def forward(self, x: Tensor) -> Tensor:
        """Computes the result for the given inputs."""
        return F.dropout(x, self.p, self.training)


class Dropout2d(_Dropout):
    """Zeroes whole channels with probability p while training."""

    def forward(self, x: Tensor) -> Tensor:
        """Computes the result for the given inputs."""
        return F.dropout2d(x, self.p, self.training)
