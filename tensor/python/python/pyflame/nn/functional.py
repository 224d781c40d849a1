"""Stateless layers. A layer that is a single operation of the library is that operation itself, without a wrapper."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Optional, Tuple

from .. import _pyflame as _pf
from .._pyflame import (  # noqa: F401
    adaptive_avg_pool1d as adaptive_avg_pool1d,
    adaptive_avg_pool2d as adaptive_avg_pool2d,
    adaptive_avg_pool3d as adaptive_avg_pool3d,
    avg_pool1d as avg_pool1d,
    avg_pool2d as avg_pool2d,
    avg_pool3d as avg_pool3d,
    batch_norm as batch_norm,
    bce_loss as bce_loss,
    bce_with_logits as bce_with_logits,
    conv1d as conv1d,
    conv2d as conv2d,
    conv3d as conv3d,
    conv_transpose1d as conv_transpose1d,
    conv_transpose2d as conv_transpose2d,
    conv_transpose3d as conv_transpose3d,
    cross_entropy as cross_entropy,
    gelu as gelu,
    group_norm as group_norm,
    huber_loss as huber_loss,
    kl_div as kl_div,
    l1_loss as l1_loss,
    layer_norm as layer_norm,
    linear as linear,
    log_softmax as log_softmax,
    max_pool1d as max_pool1d,
    max_pool2d as max_pool2d,
    max_pool3d as max_pool3d,
    mse_loss as mse_loss,
    nll_loss as nll_loss,
    one_hot as one_hot,
    sigmoid as sigmoid,
    smooth_l1_loss as smooth_l1_loss,
    softmax as softmax,
    softplus as softplus,
    tanh as tanh,
)

from .criteria import (  # noqa: F401
    cosine_embedding_loss as cosine_embedding_loss,
    ctc_loss as ctc_loss,
    gaussian_nll_loss as gaussian_nll_loss,
    hinge_embedding_loss as hinge_embedding_loss,
    margin_ranking_loss as margin_ranking_loss,
    multi_margin_loss as multi_margin_loss,
    multilabel_soft_margin_loss as multilabel_soft_margin_loss,
    pairwise_distance as pairwise_distance,
    pdist as pdist,
    poisson_nll_loss as poisson_nll_loss,
    soft_margin_loss as soft_margin_loss,
    triplet_margin_loss as triplet_margin_loss,
    triplet_margin_with_distance_loss as triplet_margin_with_distance_loss,
)
from .rectifiers import (  # noqa: F401
    dropout as dropout,
    elu as elu,
    embedding as embedding,
    hardtanh as hardtanh,
    leaky_relu as leaky_relu,
    mish as mish,
    relu as relu,
    selu as selu,
    silu as silu,
    alpha_dropout as alpha_dropout,
    bilinear as bilinear,
    celu as celu,
    dropout1d as dropout1d,
    dropout3d as dropout3d,
    embedding_bag as embedding_bag,
    feature_alpha_dropout as feature_alpha_dropout,
    glu as glu,
    gumbel_softmax as gumbel_softmax,
    hardshrink as hardshrink,
    rms_norm as rms_norm,
    rrelu as rrelu,
    softmin as softmin,
    softshrink as softshrink,
    tanhshrink as tanhshrink,
    threshold as threshold,
)
from .sampling import (  # noqa: F401
    adaptive_max_pool1d as adaptive_max_pool1d,
    adaptive_max_pool2d as adaptive_max_pool2d,
    adaptive_max_pool3d as adaptive_max_pool3d,
    affine_grid as affine_grid,
    channel_shuffle as channel_shuffle,
    fold as fold,
    grid_sample as grid_sample,
    interpolate as interpolate,
    local_response_norm as local_response_norm,
    lp_pool1d as lp_pool1d,
    lp_pool2d as lp_pool2d,
    pixel_shuffle as pixel_shuffle,
    pixel_unshuffle as pixel_unshuffle,
    unfold as unfold,
    upsample as upsample,
)

if TYPE_CHECKING:
    from .._pyflame import DTypeLike, Tensor

binary_cross_entropy = bce_loss
bce = binary_cross_entropy
binary_cross_entropy_with_logits = bce_with_logits
mse = mse_loss
l1 = l1_loss


def relu6(x: Tensor, inplace: bool = False) -> Tensor:
    """Each element, limited to the range from 0 to 6."""
    return x.clamp(0, 6)


def hardsigmoid(x: Tensor, inplace: bool = False) -> Tensor:
    """A piecewise linear sigmoid."""
    return (x + 3).clamp(0, 6) / 6


def hardswish(x: Tensor, inplace: bool = False) -> Tensor:
    """Each element times its hard sigmoid."""
    return x * hardsigmoid(x)


def softsign(x: Tensor) -> Tensor:
    """Each element divided by one plus its absolute value."""
    return x / (x.abs() + 1)


def logsigmoid(x: Tensor) -> Tensor:
    """The logarithm of the sigmoid, without loss of precision."""
    return -softplus(-x)


def prelu(x: Tensor, weight: Any) -> Tensor:
    """The identity; negative elements are multiplied by learned weights."""
    if weight.ndim > 1:
        raise ValueError(f"prelu: the weight must be a number or a vector, not of shape {tuple(weight.shape)}")
    if weight.numel > 1:
        channels = x.shape[1] if x.ndim > 1 else 1
        if x.ndim == 0 or weight.numel != channels:
            raise ValueError(f"prelu: got {weight.nelement()} weights for an input of shape {tuple(x.shape)}")
        weight = weight.reshape((1, -1) + (1,) * (x.ndim - 2))
    return _pf.where(x > 0, x, weight * x)


def dropout2d(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes whole channels: of [N, C, ...], and of [C, H, W]."""
    if not training or p == 0:
        return x
    lead = 1 if x.ndim == 3 else 2
    ones = _pf.ones(tuple(x.shape[:lead]) + (1,) * (x.ndim - lead), dtype=x.dtype, device=x.device)
    return x * dropout(ones, p, True)


def instance_norm(
    x: Tensor, running_mean: Optional[Tensor] = None, running_var: Optional[Tensor] = None, weight: Optional[Tensor] = None,
    bias: Optional[Tensor] = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5
) -> Tensor:
    """Normalises every instance by its own statistics, which update the running ones; or by the running statistics."""
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise ValueError("instance_norm: running_mean and running_var are required if the input's statistics are not used")
        return batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    result = _pf.instance_norm(x, weight, bias, eps)
    positions = tuple(range(2, x.ndim))
    with _pf.no_grad():
        for kept, of_each in ((running_mean, _pf.Tensor.mean), (running_var, _pf.Tensor.var)):
            if kept is not None:
                kept.copy_((1 - momentum) * kept + momentum * of_each(x, positions).mean(0).to(kept.dtype))
    return result


def pad(x: Tensor, pad: Any, mode: str = "constant", value: float = 0.0) -> Tensor:
    """Pads the last axes: (left, right, top, bottom, ...), the last axis first. Modes: a constant value, the elements next to the edge
    reversed ('reflect'), the edge element ('replicate'), or the elements of the opposite side ('circular')."""
    if mode == "constant":
        return _pf.pad(x, list(pad), value or 0)
    if mode not in ("reflect", "replicate", "circular"):
        raise ValueError(f"pad: mode must be 'constant', 'reflect', 'replicate' or 'circular', not {mode!r}")
    if len(pad) % 2 or not 0 < len(pad) // 2 <= 3 or x.ndim - len(pad) // 2 not in (1, 2):
        raise ValueError(f"pad: mode {mode!r} pads the last one to three axes of [n, channels, ..]; got {list(pad)} for {tuple(x.shape)}")
    for number in range(len(pad) // 2):
        x = _framed(x, x.ndim - 1 - number, pad[2 * number], pad[2 * number + 1], mode)
    return x


def _framed(x: Tensor, axis: Any, before: Any, after: Any, mode: str) -> Tensor:
    length = x.shape[axis]
    longest = {"reflect": length - 1, "circular": length, "replicate": max(before, after)}[mode]
    if max(before, after) > longest or length == 0 or length + before + after < 0:
        raise ValueError(f"pad: padding {before} and {after} of {length} elements is too large for mode {mode!r}")
    inner = x.narrow(axis, max(-before, 0), length + min(before, 0) + min(after, 0))
    if mode == "circular":
        # Cropped elements must not reappear on the opposite side.
        x, length = inner, inner.shape[axis]
    parts = [inner]
    if before > 0:
        if mode == "replicate":
            parts.insert(0, x.narrow(axis, 0, 1).expand(*(before if at == axis else -1 for at in range(x.ndim))))
        elif mode == "reflect":
            parts.insert(0, x.narrow(axis, 1, before).flip(axis))
        else:
            parts.insert(0, x.narrow(axis, length - before, before))
    if after > 0:
        if mode == "replicate":
            parts.append(x.narrow(axis, length - 1, 1).expand(*(after if at == axis else -1 for at in range(x.ndim))))
        elif mode == "reflect":
            parts.append(x.narrow(axis, length - 1 - after, after).flip(axis))
        else:
            parts.append(x.narrow(axis, 0, after))
    return _pf.cat(parts, axis) if len(parts) > 1 else parts[0]


def normalize(x: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """Divides vectors along an axis by their norm."""
    return x / x.norm(p, dim, keepdim=True).clamp(min=eps)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along an axis."""
    product = x1 * x2
    dtype, shape = product.dtype, product.shape
    if dtype.is_floating_point and dtype.itemsize < 4:
        # Computed in float32, so that intermediate results are not rounded.
        x1, x2 = x1.float(), x2.float()
        product = x1 * x2
    x1, x2 = x1.expand(shape), x2.expand(shape)

    def length(x: Tensor) -> Tensor:
        return x.norm(2, dim).clamp(min=eps)

    return (product.sum(dim) / (length(x1) * length(x2))).to(dtype)


def causal_mask(length: int, keys: int, dtype: Optional[DTypeLike], device: Optional[str]) -> Tensor:
    """A mask to add to scores, so that no position attends to later ones."""
    rows = _pf.arange(length, device=device).unsqueeze(1)
    columns = _pf.arange(keys, device=device).unsqueeze(0)
    return _pf.where(columns > rows, float("-inf"), 0.0).to(dtype)


def attention_with_weights(
    query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor] = None, dropout_p: float = 0.0,
    scale: Optional[float] = None
) -> Tuple[Tensor, Tensor]:  # fmt: skip
    """Scaled dot-product attention, and its weights."""
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = _pf.matmul(query, key.transpose(-2, -1)) * scale
    if mask is not None:
        scores = scores + mask
    weights = softmax(scores, -1)
    if dropout_p > 0.0:
        weights = dropout(weights, dropout_p, True)
    return _pf.matmul(weights, value), weights


def _attention_in_one_launch(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool, scale: Optional[float]
) -> Optional[Tensor]:
    """Attention without a matrix of scores in memory, or None if the operands are not for that."""
    if query.ndim not in (3, 4) or key.ndim != query.ndim or value.ndim != query.ndim:
        return None
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    if query.ndim == 4:
        return _pf.attention(query, key, value, is_causal, scale)
    out = _pf.attention(query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0), is_causal, scale)
    return None if out is None else out.squeeze(0)


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: Optional[float] = None
) -> Tensor:  # fmt: skip
    """`softmax(query @ key.T * scale + attn_mask) @ value`, where `scale` is by default 1 / sqrt(width).

    Without a mask and dropout, `rocm` computes it in one launch, with gradients, and keeps no matrix of scores in memory.
    """
    if attn_mask is None and dropout_p == 0.0:
        out = _attention_in_one_launch(query, key, value, is_causal, scale)
        if out is not None:
            return out
    mask = attn_mask
    if mask is not None and mask.dtype == _pf.bool:
        # As in PyTorch, true means visible here.
        mask = _pf.where(mask, 0.0, float("-inf")).to(query.dtype)
    if is_causal:
        if mask is not None:
            raise ValueError("scaled_dot_product_attention: attn_mask and is_causal cannot be combined")
        mask = causal_mask(query.shape[-2], key.shape[-2], query.dtype, query.device)
    return attention_with_weights(query, key, value, mask, dropout_p, scale)[0]


relu_, selu_, elu_, leaky_relu_ = _pf.Tensor.relu_, _pf.Tensor.selu_, _pf.Tensor.elu_, _pf.Tensor.leaky_relu_
hardtanh_ = _pf.Tensor.hardtanh_
