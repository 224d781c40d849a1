"""Normalisations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from .. import _pyflame as _pf
from . import functional as F
from .module import Module
from .parameter import Parameter

if TYPE_CHECKING:
    from .._pyflame import DTypeLike, Tensor


class _BatchNorm(Module):
    axes: Tuple[int, ...] = ()

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: Optional[float] = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Optional[str] = None, dtype: Optional[DTypeLike] = None
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        place: Dict[str, Any] = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(_pf.ones(num_features, **place)) if affine else None)
        self.register_parameter("bias", Parameter(_pf.zeros(num_features, **place)) if affine else None)
        self.register_buffer("running_mean", _pf.zeros(num_features, **place) if track_running_stats else None)
        self.register_buffer("running_var", _pf.ones(num_features, **place) if track_running_stats else None)
        tracked = _pf.zeros((), dtype=_pf.int64, device=device) if track_running_stats else None
        self.register_buffer("num_batches_tracked", tracked)

    def reset_running_stats(self) -> None:
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Initialises the parameters again."""
        self.reset_running_stats()
        if self.affine:
            self.weight.data = _pf.ones_like(self.weight.detach())
            self.bias.data = _pf.zeros_like(self.bias.detach())

    def forward(self, x: Tensor) -> Tensor:
        """Computes the result for the given inputs."""
        if x.ndim not in self.axes:
            wanted = " or ".join(str(n) for n in self.axes)
            raise ValueError(f"{type(self).__name__}: the input must have {wanted} axes, not the shape {list(x.shape)}")
        training = self.training or self.running_mean is None
        momentum = self.momentum
        if self.training and self.track_running_stats:
            self.num_batches_tracked.add_(1)
            if momentum is None:
                momentum = 1.0 / float(self.num_batches_tracked)
        mean, var = (self.running_mean, self.running_var) if not training or self.track_running_stats else (None, None)
        return F.batch_norm(
            x, mean, var, self.weight, self.bias, training, 0.0 if momentum is None else momentum, self.eps
        )

    def extra_repr(self) -> str:
        """The part of the representation between the parentheses."""
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}"


class BatchNorm1d(_BatchNorm):
    """Normalises each channel over the batch; for (N, C) or (N, C, L)."""

    axes = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalises each channel over the batch; for (N, C, H, W)."""

    axes = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalises each channel over the batch; for (N, C, D, H, W)."""

    axes = (5,)


class LayerNorm(Module):
    """Normalises the last axes of each sample."""

    def __init__(
        self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True,
        device: Optional[str] = None, dtype: Optional[DTypeLike] = None
    ) -> None:  # fmt: skip
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape, self.eps, self.elementwise_affine = shape, eps, elementwise_affine
        place: Dict[str, Any] = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(_pf.ones(shape, **place)) if elementwise_affine else None)
        self.register_parameter("bias", Parameter(_pf.zeros(shape, **place)) if elementwise_affine and bias else None)

    def forward(self, x: Tensor) -> Tensor:
        """Computes the result for the given inputs."""
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The part of the representation between the parentheses."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Normalises groups of channels of each sample."""

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device: Optional[str] = None,
        dtype: Optional[DTypeLike] = None
    ) -> None:  # fmt: skip
        super().__init__()
        if num_groups <= 0 or num_channels % num_groups:
            raise ValueError(f"GroupNorm: {num_channels} channels cannot be divided into {num_groups} groups")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        place: Dict[str, Any] = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(_pf.ones(num_channels, **place)) if affine else None)
        self.register_parameter("bias", Parameter(_pf.zeros(num_channels, **place)) if affine else None)

    def forward(self, x: Tensor) -> Tensor:
        """Computes the result for the given inputs."""
        return F.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The part of the representation between the parentheses."""
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"


class _InstanceNorm(Module):
    axes: Tuple[int, ...] = ()

    def __init__(
        self, num_features: int, eps: float = 1e-5, affine: bool = False, device: Optional[str] = None,
        dtype: Optional[DTypeLike] = None
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_features, self.eps, self.affine = num_features, eps, affine
        place: Dict[str, Any] = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(_pf.ones(num_features, **place)) if affine else None)
        self.register_parameter("bias", Parameter(_pf.zeros(num_features, **place)) if affine else None)

    def forward(self, x: Tensor) -> Tensor:
        """Computes the result for the given inputs."""
        if x.ndim not in self.axes:
            raise ValueError(f"{type(self).__name__}: the input must have {self.axes[0]} axes, not the shape {list(x.shape)}")
        return F.instance_norm(x, weight=self.weight, bias=self.bias, eps=self.eps)

    def extra_repr(self) -> str:
        """The part of the representation between the parentheses."""
        return f"{self.num_features}, eps={self.eps}, affine={self.affine}"


class InstanceNorm1d(_InstanceNorm):
    """Normalises each channel of each sample; for (N, C, L)."""

    axes = (3,)


class InstanceNorm2d(_InstanceNorm):
    """Normalises each channel of each sample; for (N, C, H, W)."""

    axes = (4,)


class InstanceNorm3d(_InstanceNorm):
    """Normalises each channel of each sample; for (N, C, D, H, W)."""

    axes = (5,)
