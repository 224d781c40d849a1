"""Linear, bilinear and embedding layers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Optional

from .. import _pyflame as _pf
from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter

if TYPE_CHECKING:
    from .._pyflame import DTypeLike, Tensor


class Linear(Module):
    """`x @ weight.T + bias`."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Optional[str] = None,
        dtype: Optional[DTypeLike] = None
    ) -> None:  # fmt: skip
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(_pf.empty(out_features, in_features, device=device, dtype=dtype))
        self.bias = Parameter(_pf.empty(out_features, device=device, dtype=dtype)) if bias else None
        if not bias:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialises the parameters again."""
        bound = 1.0 / math.sqrt(self.in_features) if self.in_features else 0.0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        """Computes the result for the given inputs."""
        return _pf.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The part of the representation between the parentheses."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """`x1 @ weight @ x2 + bias`, for every output feature."""

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, device: Optional[str] = None,
        dtype: Optional[DTypeLike] = None
    ) -> None:  # fmt: skip
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(_pf.empty(out_features, in1_features, in2_features, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(_pf.empty(out_features, device=device, dtype=dtype)) if bias else None)
        bound = 1.0 / math.sqrt(in1_features)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Computes the result for the given inputs."""
        left = _pf.matmul(x1.unsqueeze(-2).unsqueeze(-2), self.weight).squeeze(-2)
        out = (left * x2.unsqueeze(-2)).sum(-1)
        return out if self.bias is None else out + self.bias


class Embedding(Module):
    """A table of vectors, looked up by index."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: Optional[int] = None, max_norm: Optional[float] = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
        _weight: Any = None, device: Optional[str] = None, dtype: Optional[DTypeLike] = None
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ValueError(f"Embedding: padding_idx {padding_idx} is out of range for {num_embeddings} rows")
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse = max_norm, norm_type, scale_grad_by_freq, sparse
        self.weight = Parameter(_pf.empty(num_embeddings, embedding_dim, device=device, dtype=dtype) if _weight is None else _weight)
        if _weight is None:
            self.reset_parameters()

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: Optional[int] = None, max_norm: Optional[float] = None
    ) -> Embedding:
        """A table with these rows, which is not trained unless `freeze` is false."""
        rows, columns = embeddings.shape
        layer = cls(rows, columns, padding_idx=padding_idx, max_norm=max_norm, _weight=embeddings)
        layer.weight.requires_grad = not freeze
        return layer

    def reset_parameters(self) -> None:
        """Initialises the parameters again."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with _pf.no_grad():
                rows = _pf.arange(self.num_embeddings, device=self.weight.device).unsqueeze(1)
                self.weight.copy_(_pf.where(rows == self.padding_idx, _pf.zeros_like(self.weight), self.weight))

    def forward(self, indices: Tensor) -> Tensor:
        """The rows with these indices."""
        return F.embedding(
            indices, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def extra_repr(self) -> str:
        """The part of the representation between the parentheses."""
        return f"{self.num_embeddings}, {self.embedding_dim}"
