"""The standard's `linalg` extension, under the standard's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _pyflame as _pf
from .. import linalg as _ours
from . import matmul, matrix_transpose, tensordot, vecdot  # noqa: F401
from . import _promoted, sum as _sum

if TYPE_CHECKING:
    from .._pyflame import Tensor


def cholesky(x: Tensor, /, *, upper: bool = False) -> Any:
    return _ours.cholesky(x, upper=upper)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    return _ours.cross(*_promoted(x1, x2), dim=axis)


def det(x: Tensor, /) -> Any:
    return _ours.det(x)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Any:
    return x.diagonal(offset, -2, -1)


def eigh(x: Tensor, /) -> Any:
    return _ours.eigh(x)


def eigvalsh(x: Tensor, /) -> Any:
    return _ours.eigvalsh(x)


def inv(x: Tensor, /) -> Any:
    return _ours.inv(x)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: str = "fro") -> Any:
    return _ours.matrix_norm(x, ord, keepdim=keepdims)


def matrix_power(x: Tensor, n: Any, /) -> Any:
    return _ours.matrix_power(x, n)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Any:
    return _ours.matrix_rank(x, rtol)


def outer(x1: Any, x2: Any, /) -> Any:
    x1, x2 = _promoted(x1, x2)
    return x1.outer(x2)


def pinv(x: Tensor, /, *, rtol: Any = None) -> Any:
    return _ours.pinv(x, rtol)


def qr(x: Tensor, /, *, mode: str = "reduced") -> Any:
    return _ours.qr(x, mode)


def slogdet(x: Tensor, /) -> Any:
    return _ours.slogdet(x)


def solve(x1: Any, x2: Any, /) -> Any:
    x1, x2 = _promoted(x1, x2)
    # Only a 1-dimensional `x2` is a vector here; everything else is a matrix.
    return _ours.solve(x1, x2) if x2.ndim == 1 else _pf.linalg_solve(x1, x2)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> Any:
    return _ours.svd(x, full_matrices)


def svdvals(x: Tensor, /) -> Any:
    return _ours.svdvals(x)


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Any:
    return _sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(x: Tensor, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    return _ours.vector_norm(x, ord, axis, keepdims)
