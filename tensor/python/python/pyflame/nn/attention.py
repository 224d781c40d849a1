"""Attention over sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from .. import _pyflame as _pf
from . import functional as F
from . import init
from .linear import Linear
from .module import Module
from .parameter import Parameter

if TYPE_CHECKING:
    from .._pyflame import DTypeLike, Tensor


class MultiheadAttention(Module):
    """Multi-head attention; parameters have PyTorch's names and shapes.

    `forward(query, key, value)` returns the output and, unless `need_weights` is false, the weights. Sequences are
    [length, batch, features], or [batch, length, features] with `batch_first`, or without a batch axis.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, kdim: Optional[int] = None,
        vdim: Optional[int] = None, batch_first: bool = False, device: Optional[str] = None, dtype: Optional[DTypeLike] = None
    ) -> None:
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(f"MultiheadAttention: {embed_dim} features cannot be divided among {num_heads} heads")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.dropout, self.batch_first = dropout, batch_first
        place: Dict[str, Any] = {"device": device, "dtype": dtype}
        self.together = self.kdim == embed_dim and self.vdim == embed_dim
        if self.together:
            self.in_proj_weight = Parameter(_pf.empty(3 * embed_dim, embed_dim, **place))
            weights = [self.in_proj_weight]
        else:
            self.q_proj_weight = Parameter(_pf.empty(embed_dim, embed_dim, **place))
            self.k_proj_weight = Parameter(_pf.empty(embed_dim, self.kdim, **place))
            self.v_proj_weight = Parameter(_pf.empty(embed_dim, self.vdim, **place))
            weights = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        for weight in weights:
            init.xavier_uniform_(weight)
        self.register_parameter("in_proj_bias", Parameter(_pf.zeros(3 * embed_dim, **place)) if bias else None)
        self.out_proj = Linear(embed_dim, embed_dim, bias, **place)
        if self.out_proj.bias is not None:
            init.zeros_(self.out_proj.bias)

    def _project(self, query: Tensor, key: Tensor, value: Any) -> Any:
        size = self.embed_dim
        biases = [None] * 3
        if self.in_proj_bias is not None:
            biases = [self.in_proj_bias[i * size : (i + 1) * size] for i in range(3)]
        if self.together:
            weights = [self.in_proj_weight[i * size : (i + 1) * size] for i in range(3)]
        else:
            weights = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        return [F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases)]

    def _heads(self, x: Tensor) -> Any:
        batch, length, _ = x.shape
        return x.reshape(batch, length, self.num_heads, self.head_dim).transpose(1, 2)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Any,
        key_padding_mask: Optional[Tensor] = None,
        need_weights: bool = True,
        attn_mask: Optional[Tensor] = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """Computes the result for the given inputs."""
        single = query.ndim == 2
        if single:
            query, key, value = query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0)
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        q, k, v = (self._heads(x) for x in self._project(query, key, value))
        dropout = self.dropout if self.training else 0.0
        batch, _, length, _ = q.shape
        mask = None
        if attn_mask is not None:
            mask = _additive(attn_mask, q.dtype)
            if mask.ndim == 3:
                mask = mask.reshape(batch, self.num_heads, length, k.shape[2])
        elif is_causal:
            mask = F.causal_mask(length, k.shape[2], q.dtype, q.device)
        if key_padding_mask is not None:
            padding = _additive(key_padding_mask, q.dtype).unsqueeze(1).unsqueeze(1)
            mask = padding if mask is None else mask + padding
        if need_weights:
            out, weights = F.attention_with_weights(q, k, v, mask, dropout)
        else:
            causal = is_causal and attn_mask is None and key_padding_mask is None
            out = F.scaled_dot_product_attention(q, k, v, None if causal else mask, dropout, causal)
        out = self.out_proj(out.transpose(1, 2).reshape(batch, length, self.embed_dim))
        if single:
            out = out.squeeze(0)
        elif not self.batch_first:
            out = out.transpose(0, 1)
        if not need_weights:
            return out, None
        if average_attn_weights:
            weights = weights.mean(1)
        return out, weights.squeeze(0) if single else weights

    def extra_repr(self) -> str:
        """The part of the representation between the parentheses."""
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, batch_first={self.batch_first}"


class SelfAttention(Module):
    """Attention of a sequence [batch, length, features] to itself; returns only the output."""

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, device: Optional[str] = None,
        dtype: Optional[DTypeLike] = None
    ) -> None:  # fmt: skip
        super().__init__()
        self.attention = MultiheadAttention(
            embed_dim, num_heads, dropout, bias, batch_first=True, device=device, dtype=dtype
        )

    def forward(self, x: Tensor, attn_mask: Optional[Tensor] = None, is_causal: bool = False) -> Tensor:
        """Computes the result for the given inputs."""
        return self.attention(x, x, x, attn_mask=attn_mask, is_causal=is_causal, need_weights=False)[0]


class CrossAttention(Module):
    """Attention of one sequence [batch, length, features] to another; returns only the output."""

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, kdim: Optional[int] = None,
        vdim: Optional[int] = None, device: Optional[str] = None, dtype: Optional[DTypeLike] = None
    ) -> None:  # fmt: skip
        super().__init__()
        self.attention = MultiheadAttention(
            embed_dim, num_heads, dropout, bias, kdim, vdim, batch_first=True, device=device, dtype=dtype
        )

    def forward(self, query: Tensor, context: Tensor, value: Any = None, attn_mask: Optional[Tensor] = None) -> Tensor:
        """Computes the result for the given inputs."""
        value = context if value is None else value
        return self.attention(query, context, value, attn_mask=attn_mask, need_weights=False)[0]


def _additive(mask: Tensor, dtype: Optional[DTypeLike]) -> Any:
    """Converts a bool mask (true: hidden) to numbers that are added to the scores."""
    if mask.dtype == _pf.bool:
        return _pf.where(mask, float("-inf"), 0.0).to(dtype)
    return mask.to(dtype)
