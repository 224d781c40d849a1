"""Layers that are one function of `functional` with fixed options."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Union

from .. import _pyflame as _pf
from .._pyflame import Tensor
from . import functional as F
from . import init
from .module import Module
from .norm import BatchNorm1d, BatchNorm2d, BatchNorm3d, _BatchNorm
from .parameter import Parameter

Each = Union[int, Sequence[int]]


class _Fixed(Module):
    """A layer that calls a function with the options that it was made with."""

    _function: Callable[..., Tensor]
    _names: Sequence[str] = ()

    def _keep(self, **options: Any) -> None:
        for name, value in options.items():
            setattr(self, name, value)
        self._names = tuple(options)

    def forward(self, input: Tensor) -> Tensor:
        """The function of the input."""
        return type(self)._function(input, **{name: getattr(self, name) for name in self._names})

    def extra_repr(self) -> str:
        """The options."""
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self._names)


class CELU(_Fixed):
    """`celu` as a layer."""

    _function = staticmethod(F.celu)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self._keep(alpha=alpha)


class GLU(_Fixed):
    """`glu` as a layer."""

    _function = staticmethod(F.glu)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self._keep(dim=dim)


class Hardshrink(_Fixed):
    """`hardshrink` as a layer."""

    _function = staticmethod(F.hardshrink)

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self._keep(lambd=lambd)


class Softshrink(_Fixed):
    """`softshrink` as a layer."""

    _function = staticmethod(F.softshrink)

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self._keep(lambd=lambd)


class Tanhshrink(_Fixed):
    """`tanhshrink` as a layer."""

    _function = staticmethod(F.tanhshrink)


class Threshold(_Fixed):
    """`threshold` as a layer."""

    _function = staticmethod(F.threshold)

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self._keep(threshold=threshold, value=value)


class Softmin(_Fixed):
    """`softmin` as a layer."""

    _function = staticmethod(F.softmin)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self._keep(dim=dim)


class Softmax2d(Module):
    """The softmax over the channels of images."""

    def forward(self, input: Tensor) -> Tensor:
        """The probabilities of channels."""
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected images, got the shape {tuple(input.shape)}")
        return input.softmax(-3)


class RReLU(Module):
    """`rrelu` as a layer."""

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper = lower, upper

    def forward(self, input: Tensor) -> Tensor:
        """The elements, negative ones with a slope."""
        return F.rrelu(input, self.lower, self.upper, self.training)


class _Dropping(Module):
    _function: Callable[..., Tensor]

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"{type(self).__name__}: p must be between 0 and 1, not {p}")
        self.p = p

    def forward(self, input: Tensor) -> Tensor:
        """The input with parts dropped while training."""
        return type(self)._function(input, self.p, self.training)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}"


class Dropout1d(_Dropping):
    """Zeroes whole channels of sequences while training."""

    _function = staticmethod(F.dropout1d)


class Dropout3d(_Dropping):
    """Zeroes whole channels of volumes while training."""

    _function = staticmethod(F.dropout3d)


class AlphaDropout(_Dropping):
    """Dropout that keeps mean and variance of the output of SELU."""

    _function = staticmethod(F.alpha_dropout)


class FeatureAlphaDropout(_Dropping):
    """`AlphaDropout` of whole channels."""

    _function = staticmethod(F.feature_alpha_dropout)


class Upsample(_Fixed):
    """`interpolate` as a layer."""

    _function = staticmethod(F.interpolate)

    def __init__(
        self, size: Optional[Each] = None, scale_factor: Any = None, mode: str = "nearest", align_corners: Optional[bool] = None,
        recompute_scale_factor: Optional[bool] = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._keep(
            size=size, scale_factor=scale_factor, mode=mode, align_corners=align_corners,
            recompute_scale_factor=recompute_scale_factor,
        )  # fmt: skip


class UpsamplingNearest2d(Upsample):
    """Resizes images by repeating pixels."""

    def __init__(self, size: Optional[Each] = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """Resizes images linearly, with corners aligned."""

    def __init__(self, size: Optional[Each] = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)


class PixelShuffle(_Fixed):
    """`pixel_shuffle` as a layer."""

    _function = staticmethod(F.pixel_shuffle)

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self._keep(upscale_factor=upscale_factor)


class PixelUnshuffle(_Fixed):
    """`pixel_unshuffle` as a layer."""

    _function = staticmethod(F.pixel_unshuffle)

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self._keep(downscale_factor=downscale_factor)


class ChannelShuffle(_Fixed):
    """`channel_shuffle` as a layer."""

    _function = staticmethod(F.channel_shuffle)

    def __init__(self, groups: int) -> None:
        super().__init__()
        self._keep(groups=groups)


class Unfold(_Fixed):
    """`unfold` as a layer."""

    _function = staticmethod(F.unfold)

    def __init__(self, kernel_size: Each, dilation: Each = 1, padding: Each = 0, stride: Each = 1) -> None:
        super().__init__()
        self._keep(kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride)


class Fold(_Fixed):
    """`fold` as a layer."""

    _function = staticmethod(F.fold)

    def __init__(self, output_size: Each, kernel_size: Each, dilation: Each = 1, padding: Each = 0, stride: Each = 1) -> None:
        super().__init__()
        self._keep(output_size=output_size, kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride)


class _Adaptive(_Fixed):
    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self._keep(output_size=output_size, return_indices=return_indices)


class AdaptiveMaxPool1d(_Adaptive):
    """`adaptive_max_pool1d` as a layer."""

    _function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_Adaptive):
    """`adaptive_max_pool2d` as a layer."""

    _function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_Adaptive):
    """`adaptive_max_pool3d` as a layer."""

    _function = staticmethod(F.adaptive_max_pool3d)


class AdaptiveAvgPool3d(_Fixed):
    """`adaptive_avg_pool3d` as a layer."""

    _function = staticmethod(F.adaptive_avg_pool3d)

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """The means of parts of the last three axes."""
        return input.adaptive_avg_pool3d(self.output_size)


class LPPool1d(_Fixed):
    """`lp_pool1d` as a layer."""

    _function = staticmethod(F.lp_pool1d)

    def __init__(self, norm_type: float, kernel_size: int, stride: Optional[int] = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self._keep(norm_type=norm_type, kernel_size=kernel_size, stride=stride, ceil_mode=ceil_mode)


class LPPool2d(_Fixed):
    """`lp_pool2d` as a layer."""

    _function = staticmethod(F.lp_pool2d)

    def __init__(self, norm_type: float, kernel_size: Each, stride: Optional[Each] = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self._keep(norm_type=norm_type, kernel_size=kernel_size, stride=stride, ceil_mode=ceil_mode)


class LocalResponseNorm(_Fixed):
    """`local_response_norm` as a layer."""

    _function = staticmethod(F.local_response_norm)

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self._keep(size=size, alpha=alpha, beta=beta, k=k)


class RMSNorm(Module):
    """Divides by the root of the mean square over the last axes, and multiplies with a learned weight."""

    def __init__(
        self, normalized_shape: Each, eps: Optional[float] = None, elementwise_affine: bool = True, device: Optional[str] = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        ones = _pf.ones(self.normalized_shape, device=device, dtype=dtype or _pf.float32)
        self.register_parameter("weight", Parameter(ones) if elementwise_affine else None)

    def reset_parameters(self) -> None:
        """Sets the weight to one."""
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """The normalised input."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """The shape and options."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation of inputs with any number of axes, by the statistics of this process."""

    axes = (2, 3, 4, 5)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module itself: `BatchNorm` layers compute the same in one process."""
        return module


class CosineSimilarity(_Fixed):
    """`cosine_similarity` as a layer."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self._keep(dim=dim, eps=eps)

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:  # type: ignore[override]
        """The cosine of the angle between vectors."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(_Fixed):
    """`pairwise_distance` as a layer."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self._keep(p=p, eps=eps, keepdim=keepdim)

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:  # type: ignore[override]
        """The distance between vectors."""
        return F.pairwise_distance(x1, x2, self.p, self.eps, self.keepdim)


# Padding layers.


class _Pad(Module):
    """Pads the last axes."""

    dims, mode = 1, "constant"

    def __init__(self, padding: Each, value: float = 0.0) -> None:
        super().__init__()
        self.padding = (padding,) * (2 * self.dims) if isinstance(padding, int) else tuple(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """The padded input."""
        return F.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        """The padding."""
        return f"{self.padding}"


def _padding(name: str, dims: int, mode: str, doc: str) -> Any:
    return type(name, (_Pad,), {"dims": dims, "mode": mode, "__doc__": doc, "__module__": __name__})


ConstantPad1d = _padding("ConstantPad1d", 1, "constant", "Pads sequences with a value.")
ConstantPad2d = _padding("ConstantPad2d", 2, "constant", "Pads images with a value.")
ConstantPad3d = _padding("ConstantPad3d", 3, "constant", "Pads volumes with a value.")
ZeroPad1d = _padding("ZeroPad1d", 1, "constant", "Pads sequences with zeros.")
ZeroPad2d = _padding("ZeroPad2d", 2, "constant", "Pads images with zeros.")
ZeroPad3d = _padding("ZeroPad3d", 3, "constant", "Pads volumes with zeros.")
ReflectionPad1d = _padding("ReflectionPad1d", 1, "reflect", "Pads sequences with their reflection.")
ReflectionPad2d = _padding("ReflectionPad2d", 2, "reflect", "Pads images with their reflection.")
ReflectionPad3d = _padding("ReflectionPad3d", 3, "reflect", "Pads volumes with their reflection.")
ReplicationPad1d = _padding("ReplicationPad1d", 1, "replicate", "Pads sequences with their first and last element.")
ReplicationPad2d = _padding("ReplicationPad2d", 2, "replicate", "Pads images with their edges.")
ReplicationPad3d = _padding("ReplicationPad3d", 3, "replicate", "Pads volumes with their faces.")
CircularPad1d = _padding("CircularPad1d", 1, "circular", "Pads sequences with their opposite ends.")
CircularPad2d = _padding("CircularPad2d", 2, "circular", "Pads images with their opposite edges.")
CircularPad3d = _padding("CircularPad3d", 3, "circular", "Pads volumes with their opposite faces.")


# Losses.


class _Criterion(Module):
    """A loss of several tensors with fixed options."""

    _function: Callable[..., Tensor]
    _defaults: Any = {}

    def __init__(self, **options: Any) -> None:
        super().__init__()
        unknown = [name for name in options if name not in self._defaults]
        if unknown:
            raise TypeError(f"{type(self).__name__} has no option {', '.join(unknown)}")
        self.options = {**self._defaults, **options}

    def forward(self, *inputs: Tensor) -> Tensor:
        """The loss."""
        return type(self)._function(*inputs, **self.options)


def _criterion(name: str, function: Callable[..., Tensor], **defaults: Any) -> Any:
    body = {"_function": staticmethod(function), "_defaults": {"reduction": "mean", **defaults}, "__module__": __name__}
    return type(name, (_Criterion,), {**body, "__doc__": f"`{function.__name__}` as a layer; options by name: {', '.join(defaults)}."})


MarginRankingLoss = _criterion("MarginRankingLoss", F.margin_ranking_loss, margin=0.0)
HingeEmbeddingLoss = _criterion("HingeEmbeddingLoss", F.hinge_embedding_loss, margin=1.0)
CosineEmbeddingLoss = _criterion("CosineEmbeddingLoss", F.cosine_embedding_loss, margin=0.0)
TripletMarginLoss = _criterion("TripletMarginLoss", F.triplet_margin_loss, margin=1.0, p=2.0, eps=1e-6, swap=False)
TripletMarginWithDistanceLoss = _criterion(
    "TripletMarginWithDistanceLoss", F.triplet_margin_with_distance_loss, distance_function=None, margin=1.0, swap=False
)
SoftMarginLoss = _criterion("SoftMarginLoss", F.soft_margin_loss)
MultiLabelSoftMarginLoss = _criterion("MultiLabelSoftMarginLoss", F.multilabel_soft_margin_loss, weight=None)
MultiMarginLoss = _criterion("MultiMarginLoss", F.multi_margin_loss, p=1, margin=1.0, weight=None)
PoissonNLLLoss = _criterion("PoissonNLLLoss", F.poisson_nll_loss, log_input=True, full=False, eps=1e-8)
GaussianNLLLoss = _criterion("GaussianNLLLoss", F.gaussian_nll_loss, full=False, eps=1e-6)
CTCLoss = _criterion("CTCLoss", F.ctc_loss, blank=0, zero_infinity=False)


class EmbeddingBag(Module):
    """`embedding_bag` as a layer."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, mode: str = "mean", include_last_offset: bool = False,
        device: Optional[str] = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.mode, self.include_last_offset = mode, include_last_offset
        self.weight = Parameter(_pf.empty(num_embeddings, embedding_dim, device=device, dtype=dtype or _pf.float32))
        init.normal_(self.weight)

    def forward(self, input: Tensor, offsets: Optional[Tensor] = None, per_sample_weights: Optional[Tensor] = None) -> Tensor:
        """One row for each bag."""
        return F.embedding_bag(
            input, self.weight, offsets, mode=self.mode, per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
        )  # fmt: skip


__all__: List[str] = [
    name for name, value in list(globals().items())
    if isinstance(value, type) and issubclass(value, Module) and value.__module__ == __name__ and not name.startswith("_")
]  # fmt: skip
