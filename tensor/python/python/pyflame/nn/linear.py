"""Linear, bilinear and embedding layers."""

import math

from .. import _pyflame as _pf
from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter


class Linear(Module):
    """`x @ weight.T + bias`."""

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(_pf.empty(out_features, in_features, device=device, dtype=dtype))
        self.bias = Parameter(_pf.empty(out_features, device=device, dtype=dtype)) if bias else None
        if not bias:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        """Initialises the parameters again."""
        bound = 1.0 / math.sqrt(self.in_features) if self.in_features else 0.0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, x):
        """Computes the result for the given inputs."""
        return _pf.linear(x, self.weight, self.bias)

    def extra_repr(self):
        """The part of the representation between the parentheses."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """`x1 @ weight @ x2 + bias`, for every output feature."""

    def __init__(self, in1_features, in2_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(_pf.empty(out_features, in1_features, in2_features, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(_pf.empty(out_features, device=device, dtype=dtype)) if bias else None)
        bound = 1.0 / math.sqrt(in1_features)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def forward(self, x1, x2):
        """Computes the result for the given inputs."""
        left = _pf.matmul(x1.unsqueeze(-2).unsqueeze(-2), self.weight).squeeze(-2)
        out = (left * x2.unsqueeze(-2)).sum(-1)
        return out if self.bias is None else out + self.bias


class Embedding(Module):
    """A table of vectors, looked up by index."""

    def __init__(
        self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False,
        _weight=None, device=None, dtype=None
    ):  # fmt: skip
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
    def from_pretrained(cls, embeddings, freeze=True, padding_idx=None, max_norm=None):
        """A table with these rows, which is not trained unless `freeze` is false."""
        layer = cls(*embeddings.shape, padding_idx=padding_idx, max_norm=max_norm, _weight=embeddings)
        layer.weight.requires_grad = not freeze
        return layer

    def reset_parameters(self):
        """Initialises the parameters again."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with _pf.no_grad():
                rows = _pf.arange(self.num_embeddings, device=self.weight.device).unsqueeze(1)
                self.weight.copy_(_pf.where(rows == self.padding_idx, _pf.zeros_like(self.weight), self.weight))

    def forward(self, indices):
        """The rows with these indices."""
        return F.embedding(
            indices, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def extra_repr(self):
        """The part of the representation between the parentheses."""
        return f"{self.num_embeddings}, {self.embedding_dim}"
