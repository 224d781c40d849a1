"""Pooling layers."""

from . import functional as F
from .module import Module


class _Pool(Module):
    def __init__(self, kernel_size, stride, padding, ceil_mode):
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode

    def extra_repr(self):
        """The part of the representation between the parentheses."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _MaxPool(_Pool):
    def __init__(self, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.dilation = dilation

    def forward(self, x):
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
    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.count_include_pad = count_include_pad

    def forward(self, x):
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
    def __init__(self, output_size):
        super().__init__()
        self.output_size = output_size

    def forward(self, x):
        """Computes the result for the given inputs."""
        return self._function(x, self.output_size)

    def extra_repr(self):
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

    def forward(self, x):
        """Computes the result for the given inputs."""
        return x.mean((-2, -1), keepdim=True)
