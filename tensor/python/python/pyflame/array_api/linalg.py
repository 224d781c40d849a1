"""The standard's `linalg` extension, under the standard's names."""

from .. import linalg as _ours
from . import matmul, matrix_transpose, tensordot, vecdot  # noqa: F401
from . import _promoted, sum as _sum


def cholesky(x, /, *, upper=False):
    return _ours.cholesky(x, upper=upper)


def cross(x1, x2, /, *, axis=-1):
    return _ours.cross(*_promoted(x1, x2), dim=axis)


def det(x, /):
    return _ours.det(x)


def diagonal(x, /, *, offset=0):
    return x.diagonal(offset, -2, -1)


def eigh(x, /):
    return _ours.eigh(x)


def eigvalsh(x, /):
    return _ours.eigvalsh(x)


def inv(x, /):
    return _ours.inv(x)


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    return _ours.matrix_norm(x, ord, keepdim=keepdims)


def matrix_power(x, n, /):
    return _ours.matrix_power(x, n)


def matrix_rank(x, /, *, rtol=None):
    return _ours.matrix_rank(x, rtol)


def outer(x1, x2, /):
    x1, x2 = _promoted(x1, x2)
    return x1.outer(x2)


def pinv(x, /, *, rtol=None):
    return _ours.pinv(x, rtol)


def qr(x, /, *, mode="reduced"):
    return _ours.qr(x, mode)


def slogdet(x, /):
    return _ours.slogdet(x)


def solve(x1, x2, /):
    x1, x2 = _promoted(x1, x2)
    # Only a 1-dimensional `x2` is a vector here; everything else is a matrix.
    return _ours.solve(x1, x2) if x2.ndim == 1 else _ours._pf.linalg_solve(x1, x2)


def svd(x, /, *, full_matrices=True):
    return _ours.svd(x, full_matrices)


def svdvals(x, /):
    return _ours.svdvals(x)


def trace(x, /, *, offset=0, dtype=None):
    return _sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    return _ours.vector_norm(x, ord, axis, keepdims)
