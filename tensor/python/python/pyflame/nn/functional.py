"""Layers without state. What is one operation of the library is that operation itself, without a wrapper."""

import math

from .. import _pyflame as _pf
from .._pyflame import (  # noqa: F401
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    batch_norm,
    bce_loss as binary_cross_entropy,
    bce_with_logits as binary_cross_entropy_with_logits,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    cross_entropy,
    dropout,
    elu,
    embedding,
    gelu,
    group_norm,
    hardtanh,
    huber_loss,
    kl_div,
    l1_loss,
    layer_norm,
    leaky_relu,
    linear,
    log_softmax,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    mish,
    mse_loss,
    nll_loss,
    one_hot,
    relu,
    selu,
    sigmoid,
    silu,
    smooth_l1_loss,
    softmax,
    softplus,
    tanh,
)

bce_loss = binary_cross_entropy
bce = binary_cross_entropy
bce_with_logits = binary_cross_entropy_with_logits
mse = mse_loss
l1 = l1_loss


def relu6(x):
    return x.clamp(0, 6)


def hardsigmoid(x):
    return (x + 3).clamp(0, 6) / 6


def hardswish(x):
    return x * hardsigmoid(x)


def softsign(x):
    return x / (x.abs() + 1)


def logsigmoid(x):
    return -softplus(-x)


def prelu(x, weight):
    if weight.numel > 1:
        weight = weight.reshape((1, -1) + (1,) * (x.ndim - 2))
    return _pf.where(x > 0, x, weight * x)


def dropout2d(x, p=0.5, training=True):
    """Whole channels are zeroed: of [N, C, ...], and of [C, H, W]."""
    if not training or p == 0:
        return x
    lead = 1 if x.ndim == 3 else 2
    ones = _pf.ones(tuple(x.shape[:lead]) + (1,) * (x.ndim - lead), dtype=x.dtype, device=x.device)
    return x * dropout(ones, p, True)


def instance_norm(
    x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
):
    if running_mean is not None or running_var is not None or not use_input_stats:
        raise ValueError("instance_norm: running statistics are not kept; each instance is normalised by its own")
    return _pf.instance_norm(x, weight, bias, eps)


def pad(x, pad, mode="constant", value=0.0):
    """Frames the last axes: (left, right, top, bottom, ...), the last axis first."""
    if mode != "constant":
        raise ValueError(f"pad: mode {mode!r} is not known; 'constant' is")
    return _pf.pad(x, list(pad), value)


def normalize(x, p=2.0, dim=1, eps=1e-12):
    length = (x.abs() ** p).sum(dim, keepdim=True) ** (1.0 / p)
    return x / length.clamp(min=eps)


def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    def length(x):
        return (x * x).sum(dim).sqrt().clamp(min=eps)

    return (x1 * x2).sum(dim) / (length(x1) * length(x2))


def causal_mask(length, keys, dtype, device):
    """What to add to scores, so that nothing sees what comes after it."""
    rows = _pf.arange(length, device=device).unsqueeze(1)
    columns = _pf.arange(keys, device=device).unsqueeze(0)
    return _pf.where(columns > rows, float("-inf"), 0.0).to(dtype)


def attention_with_weights(query, key, value, mask=None, dropout_p=0.0, scale=None):
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = _pf.matmul(query, key.transpose(-2, -1)) * scale
    if mask is not None:
        scores = scores + mask
    weights = softmax(scores, -1)
    if dropout_p > 0.0:
        weights = dropout(weights, dropout_p, True)
    return _pf.matmul(weights, value), weights


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):
    mask = attn_mask
    if mask is not None and mask.dtype == _pf.bool:
        # Here, as in PyTorch, a bool says what may be seen.
        mask = _pf.where(mask, 0.0, float("-inf")).to(query.dtype)
    if is_causal:
        if mask is not None:
            raise ValueError("scaled_dot_product_attention: attn_mask and is_causal exclude each other")
        mask = causal_mask(query.shape[-2], key.shape[-2], query.dtype, query.device)
    return attention_with_weights(query, key, value, mask, dropout_p, scale)[0]
