"""Linear algebra: products and norms on the device, factorisations and inverses on the host. The last two axes are the matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

from . import _pyflame as _pf

if TYPE_CHECKING:
    from ._pyflame import Tensor

class QR(NamedTuple):
    """Orthonormal columns, and an upper triangle."""

    Q: Tensor
    R: Tensor


class SVD(NamedTuple):
    """Left singular vectors, singular values, and right singular vectors as rows."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class Eigh(NamedTuple):
    """Eigenvalues in ascending order, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class Slogdet(NamedTuple):
    """The sign of a determinant, and the logarithm of its absolute value."""

    sign: Tensor
    logabsdet: Tensor


inv, det = _pf.linalg_inv, _pf.linalg_det
matmul = _pf.Tensor.matmul


def slogdet(A: Tensor) -> Slogdet:
    """The sign of the determinant, and the logarithm of its absolute value."""
    return Slogdet(*_pf.linalg_slogdet(A))


def solve(A: Tensor, B: Tensor) -> Tensor:
    """Solves `A @ X = B`. A `B` with one axis less than `A` is a batch of vectors."""
    vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and tuple(B.shape) == tuple(A.shape[:-1]))
    if vector:
        return _pf.linalg_solve(A, B.unsqueeze(-1)).squeeze(-1)
    return _pf.linalg_solve(A, B)


def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """The Cholesky factor of `A`, which must be positive definite."""
    lower = _pf.linalg_cholesky(A)
    return lower.mT.conj() if upper else lower


def qr(A: Tensor, mode: str = "reduced") -> QR:
    """Orthonormal columns and an upper triangle; the first is square with mode='complete'."""
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr: the mode must be 'reduced' or 'complete', not {mode!r}")
    return QR(*_pf.linalg_qr(A, mode == "complete"))


def svd(A: Tensor, full_matrices: bool = True) -> SVD:
    """`A = U @ diag(S) @ Vh`, singular values in descending order."""
    return SVD(*_pf.linalg_svd(A, full_matrices))


def svdvals(A: Tensor) -> Tensor:
    """The singular values alone, in descending order."""
    return _pf.linalg_svdvals(A)


def eigh(A: Tensor, UPLO: str = "L") -> Eigh:
    """Eigenvalues in ascending order and eigenvectors of a symmetric or Hermitian matrix, of which one triangle is read."""
    if UPLO not in ("L", "U"):
        raise ValueError(f"eigh: UPLO must be 'L' or 'U', not {UPLO!r}")
    return Eigh(*_pf.linalg_eigh(A if UPLO == "L" else A.mT.conj()))


def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues alone, in ascending order."""
    if UPLO not in ("L", "U"):
        raise ValueError(f"eigvalsh: UPLO must be 'L' or 'U', not {UPLO!r}")
    return _pf.linalg_eigvalsh(A if UPLO == "L" else A.mT.conj())


def _smallest(A: Tensor, values: Any, rtol: Union[float, Tensor, None]) -> Tensor:
    """The threshold below which singular values count as zero."""
    if rtol is None:
        rtol = max(A.shape[-2:]) * _pf.limits(values.dtype)[3]
    if isinstance(rtol, _pf.Tensor):
        rtol = rtol.unsqueeze(-1)
    largest = values.amax(-1, True) if values.shape[-1] else _pf.zeros(*values.shape[:-1], 1, dtype=values.dtype)
    return largest * rtol


def pinv(A: Tensor, rtol: Union[float, Tensor, None] = None) -> Tensor:
    """The pseudo-inverse, which gives least-squares solutions."""
    u, values, vh = _pf.linalg_svd(A, False)
    kept = values > _smallest(A, values, rtol)
    inverse = _pf.where(kept, values.reciprocal(), 0.0).to(A.dtype)
    return vh.mT.conj() @ (inverse.unsqueeze(-1) * u.mT.conj())


def matrix_rank(A: Tensor, rtol: Union[float, Tensor, None] = None) -> Tensor:
    """The number of singular values that are not negligible."""
    values = svdvals(A)
    return (values > _smallest(A, values, rtol)).sum(-1)


def matrix_power(A: Tensor, n: int) -> Tensor:
    """The `n`-th power of matrices, of their inverses if `n` is negative."""
    if n < 0:
        A, n = inv(A), -n
    result: Optional[Tensor] = None
    while n:
        if n & 1:
            result = A if result is None else result @ A
        n >>= 1
        A = A @ A if n else A
    if result is None:
        unit = _pf.eye(A.shape[-1], dtype=A.dtype, device=A.device)
        return unit.broadcast_to(tuple(A.shape)).clone()
    return result


def vector_norm(x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The norm of vectors along axes, or of all elements."""
    return x.norm(ord, dim, keepdim)


def matrix_norm(A: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False) -> Tensor:
    """The norm of matrices: 'fro', 'nuc', or 1, 2, inf and their negatives."""
    rows, columns = (axis % A.ndim for axis in dim)
    if ord == "fro":
        return vector_norm(A, 2, (rows, columns), keepdim)
    if ord in (1, -1, float("inf"), -float("inf")):
        summed, chosen = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = A.abs().sum(summed, True)
        result = sums.amax(chosen, True) if ord > 0 else sums.amin(chosen, True)
    elif ord in (2, -2, "nuc"):
        values = svdvals(A.movedim((rows, columns), (-2, -1)))
        result = values.sum(-1) if ord == "nuc" else (values.amax(-1) if ord > 0 else values.amin(-1))
        for axis in sorted((rows, columns)):
            result = result.unsqueeze(axis)
    else:
        raise ValueError(f"matrix_norm: {ord!r} is not one of 'fro', 'nuc', 1, -1, 2, -2, inf and -inf")
    return result if keepdim else result.squeeze((rows, columns))


def norm(A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The norm of vectors, or of matrices if two axes are given or `ord` is a matrix norm."""
    axes = (dim,) if isinstance(dim, int) else dim
    if ord is None:
        return vector_norm(A, 2, dim, keepdim)
    if isinstance(ord, str) or (axes is not None and len(axes) == 2) or (axes is None and A.ndim == 2):
        return matrix_norm(A, ord, axes or (-2, -1), keepdim)
    return vector_norm(A, ord, dim, keepdim)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The sum of products along an axis, the first conjugated."""
    return (x.conj() * y).sum(dim)


def cross(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The cross product of two vectors, along an axis of length three."""
    if x.shape[dim] != 3 or y.shape[dim] != 3:
        raise ValueError(f"cross: {tuple(x.shape)} and {tuple(y.shape)} do not have length 3 along {dim}")
    a, b = (z.unbind(dim) for z in (x, y))
    parts = [a[i] * b[j] - a[j] * b[i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return _pf.stack(parts, dim if dim < 0 else dim - max(x.ndim, y.ndim))


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonal of two axes, as a last axis."""
    return A.diagonal(offset, dim1, dim2)
