"""Pooling layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from . import functional as F
from .module import Module

if TYPE_CHECKING:
    from .._pyflame import Each, Tensor


class _Pool(Module):
    _function: Callable[..., Tensor]

    def __init__(self, kernel_size: Each, stride: Optional[Each], padding: Union[Each, str], ceil_mode: Any) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode

    def extra_repr(self) -> str:
        """The part of the representation between the parentheses."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _MaxPool(_Pool):
    def __init__(
        self, kernel_size: Each, stride: Optional[Each] = None, padding: Union[Each, str] = 0, dilation: Each = 1,
        ceil_mode: bool = False
    ) -> None:  # fmt: skip
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.dilation = dilation

    def forward(self, x: Tensor) -> Tensor:
        """Computes the result for the given inputs."""
        return self._function(x, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)


class MaxPool1d(_MaxPool):
    """The largest elements of windows over the last axis."""

    _function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPool):
    """The largest elements of windows over the last two axes."""

    _function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPool):
    """The largest elements of windows over the last three axes."""

    _function = staticmethod(F.max_pool3d)


class _AvgPool(_Pool):
    def __init__(
        self, kernel_size: Each, stride: Optional[Each] = None, padding: Union[Each, str] = 0, ceil_mode: bool = False,
        count_include_pad: bool = True
    ) -> None:  # fmt: skip
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.count_include_pad = count_include_pad

    def forward(self, x: Tensor) -> Tensor:
        """Computes the result for the given inputs."""
        return self._function(x, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class AvgPool1d(_AvgPool):
    """Means of windows over the last axis."""

    _function = staticmethod(F.avg_pool1d)


class AvgPool2d(_AvgPool):
    """Means of windows over the last two axes."""

    _function = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPool):
    """Means of windows over the last three axes."""

    _function = staticmethod(F.avg_pool3d)


class _AdaptiveAvgPool(Module):
    _function: Callable[..., Tensor]

    def __init__(self, output_size: Each) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, x: Tensor) -> Tensor:
        """Computes the result for the given inputs."""
        return self._function(x, self.output_size)

    def extra_repr(self) -> str:
        """The part of the representation between the parentheses."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Means of as many windows as `output_size` says, over the last axis."""

    _function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Means of as many windows as `output_size` says, over the last two axes."""

    _function = staticmethod(F.adaptive_avg_pool2d)


class GlobalAvgPool2d(Module):
    """The mean of every channel: [N, C, H, W] becomes [N, C, 1, 1]."""

    def forward(self, x: Tensor) -> Tensor:
        """Computes the result for the given inputs."""
        return x.mean((-2, -1), keepdim=True)
