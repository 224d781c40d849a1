"""Convolutions of one, two and three dimensions, and their transposes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from .. import _pyflame as _pf
from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter

if TYPE_CHECKING:
    from .._pyflame import DTypeLike, Each, Tensor


def _tuple(value: Any, dims: int) -> Any:
    return (value,) * dims if isinstance(value, int) else tuple(value)


class _Conv(Module):
    _function: Callable[..., Tensor]
    dims = 2
    transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Each,
        stride: Each = 1,
        padding: Union[Each, str] = 0,
        dilation: Each = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Optional[str] = None,
        dtype: Optional[DTypeLike] = None,
    ) -> None:
        super().__init__()
        self._begin(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, device, dtype)
        if padding_mode != "zeros":
            raise ValueError(f"{type(self).__name__}: padding_mode {padding_mode!r} is not supported; use 'zeros' or pf.nn.functional.pad")

    def _begin(
        self, in_channels: int, out_channels: int, kernel_size: Each, stride: Each, padding: Union[Each, str], dilation: Each,
        groups: int, bias: bool, device: Optional[str], dtype: Optional[DTypeLike]
    ) -> None:  # fmt: skip
        name = type(self).__name__
        if groups <= 0 or in_channels % groups or out_channels % groups:
            raise ValueError(f"{name}: {in_channels} and {out_channels} channels cannot be divided into {groups} groups")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size = _tuple(kernel_size, self.dims)
        self.stride, self.dilation, self.groups = _tuple(stride, self.dims), _tuple(dilation, self.dims), groups
        self.padding = padding if isinstance(padding, str) else _tuple(padding, self.dims)
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = (first, second // groups) + self.kernel_size
        self.weight = Parameter(_pf.empty(shape, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(_pf.empty(out_channels, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialises the parameters again."""
        fan_in = self.weight.shape[1]
        for length in self.kernel_size:
            fan_in *= length
        bound = 1.0 / math.sqrt(fan_in) if fan_in else 0.0
        for parameter in (self.weight, self.bias):
            if parameter is not None:
                init.uniform_(parameter, -bound, bound)

    def extra_repr(self) -> str:
        """The part of the representation between the parentheses."""
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != _tuple(0, self.dims):
            text += f", padding={self.padding!r}"
        if self.dilation != _tuple(1, self.dims):
            text += f", dilation={self.dilation}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        return text + ("" if self.bias is not None else ", bias=False")

    def forward(self, x: Tensor) -> Tensor:
        """Computes the result for the given inputs."""
        return self._function(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv1d(_Conv):
    """A convolution over the last axis, with learned weights."""

    dims = 1
    _function = staticmethod(F.conv1d)


class Conv2d(_Conv):
    """A convolution over the last two axes, with learned weights."""

    dims = 2
    _function = staticmethod(F.conv2d)


class Conv3d(_Conv):
    """A convolution over the last three axes, with learned weights."""

    dims = 3
    _function = staticmethod(F.conv3d)


class _ConvTranspose(_Conv):
    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Each,
        stride: Each = 1,
        padding: Union[Each, str] = 0,
        output_padding: Each = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Each = 1,
        device: Optional[str] = None,
        dtype: Optional[DTypeLike] = None,
    ) -> None:
        Module.__init__(self)
        self.output_padding = _tuple(output_padding, self.dims)
        self._begin(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Computes the result for the given inputs."""
        return self._function(
            x, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups, self.dilation
        )


class ConvTranspose1d(_ConvTranspose):
    """A transposed convolution over the last axis, with learned weights."""

    dims = 1
    _function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTranspose):
    """A transposed convolution over the last two axes, with learned weights."""

    dims = 2
    _function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTranspose):
    """A transposed convolution over the last three axes, with learned weights."""

    dims = 3
    _function = staticmethod(F.conv_transpose3d)
