"""Products of matrices and vectors, combined with other operations."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple, Union

from .. import _pyflame as _pf
from .._pyflame import Tensor

Number = Union[int, float]


def _scaled(x: Tensor, factor: Number) -> Tensor:
    return x if factor == 1 else x * factor


def _plus(input: Tensor, product: Tensor, beta: Number, alpha: Number) -> Tensor:
    # With beta zero, infinite and NaN elements of the input do not count.
    product = _scaled(product, alpha)
    if beta == 0:
        return product.to(product.dtype) + _pf.zeros_like(input)
    return _scaled(input, beta) + product


def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """`beta * input + alpha * (mat1 @ mat2)`."""
    return _plus(input, mat1.mm(mat2), beta, alpha)


def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """`beta * input + alpha * (mat @ vec)`."""
    return _plus(input, mat.matmul(vec), beta, alpha)


def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """`beta * input + alpha * outer(vec1, vec2)`."""
    return _plus(input, vec1.outer(vec2), beta, alpha)


def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """`beta * input + alpha * (batch1 @ batch2)` for batches of matrices."""
    return _plus(input, batch1.bmm(batch2), beta, alpha)


def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """`beta * input + alpha * sum(batch1 @ batch2)`, the products of a batch added together."""
    return _plus(input, batch1.bmm(batch2).sum(0), beta, alpha)


def mv(input: Tensor, vec: Tensor) -> Tensor:
    """The product of a matrix and a vector."""
    if input.ndim != 2 or vec.ndim != 1:
        raise ValueError(f"mv: expected a matrix and a vector, got shapes {tuple(input.shape)} and {tuple(vec.shape)}")
    return input.matmul(vec)


def vdot(input: Tensor, other: Tensor) -> Tensor:
    """The dot product of two vectors, the first conjugated."""
    return (input.conj() if input.dtype.is_complex else input).dot(other)


def ger(input: Tensor, vec2: Tensor) -> Tensor:
    """The outer product of two vectors."""
    return input.outer(vec2)


def inner(input: Tensor, other: Tensor) -> Tensor:
    """Products summed over the last axes of both tensors."""
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    return tensordot(input, other, ([-1], [-1]))


def tensordot(a: Tensor, b: Tensor, dims: Union[int, Sequence[Sequence[int]]] = 2) -> Tensor:
    """Products summed over pairs of axes: the last `dims` of `a` and the first of `b`, or two lists of axes."""
    if isinstance(dims, int):
        left, right = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        left, right = [d % a.ndim for d in dims[0]], [d % b.ndim for d in dims[1]]
    kept_a = [d for d in range(a.ndim) if d not in left]
    kept_b = [d for d in range(b.ndim) if d not in right]
    depth = 1
    for d in left:
        depth *= a.shape[d]
    shape = [a.shape[d] for d in kept_a] + [b.shape[d] for d in kept_b]
    rows = a.permute(*(kept_a + left)).reshape(-1, depth) if depth else a.reshape(0, 0)
    columns = b.permute(*(right + kept_b)).reshape(depth, -1)
    return rows.matmul(columns).reshape(*shape) if shape else rows.matmul(columns).reshape(())


def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product."""
    rank = max(input.ndim, other.ndim)
    a = input.reshape(*([1] * (rank - input.ndim) + list(input.shape)))
    b = other.reshape(*([1] * (rank - other.ndim) + list(other.shape)))
    pairs_a = [length for size in a.shape for length in (size, 1)]
    pairs_b = [length for size in b.shape for length in (1, size)]
    product = a.reshape(*pairs_a) * b.reshape(*pairs_b) if rank else a * b
    return product.reshape(*[m * n for m, n in zip(a.shape, b.shape)]) if rank else product


def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of several matrices, from left to right."""
    if not matrices:
        raise ValueError("chain_matmul: at least one matrix is needed")
    product = matrices[0]
    for matrix in matrices[1:]:
        product = product.matmul(matrix)
    return product


def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The norm of the difference."""
    return (input - other).reshape(-1).norm(p)


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0) -> Tensor:
    """The distances between all rows of two batches of matrices."""
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    return difference.norm(p, -1)


def cross(input: Tensor, other: Tensor, dim: Optional[int] = None) -> Tensor:
    """The cross product along an axis of length three, by default the first such axis."""
    from ..linalg import cross as of_axis

    if dim is None:
        fitting: List[int] = [axis for axis, length in enumerate(input.shape) if length == 3]
        if not fitting:
            raise ValueError(f"cross: no axis of {tuple(input.shape)} has length 3")
        dim = fitting[0]
    made: Tensor = of_axis(input, other, dim=dim)
    return made


def adjoint(input: Tensor) -> Tensor:
    """The conjugate transpose of matrices."""
    return input.mT.conj() if input.dtype.is_complex else input.mT


def trapezoid(y: Tensor, x: Optional[Tensor] = None, *, dx: Number = 1, dim: int = -1) -> Tensor:
    """The integral by the trapezoidal rule, at positions `x` or with a constant step."""
    length = y.shape[dim]
    pairs = (y.narrow(dim, 1, length - 1) + y.narrow(dim, 0, length - 1)) / 2
    if x is None:
        return pairs.sum(dim) * dx
    if x.ndim == 1:
        axis = dim % y.ndim
        steps = (x[1:] - x[:-1]).reshape(*([-1] + [1] * (y.ndim - axis - 1)))
    else:
        steps = x.narrow(dim, 1, length - 1) - x.narrow(dim, 0, length - 1)
    return (pairs * steps).sum(dim)


def inverse(input: Tensor) -> Tensor:
    """The inverses of square matrices."""
    return _pf.linalg_inv(input)


def det(input: Tensor) -> Tensor:
    """The determinants of square matrices."""
    return _pf.linalg_det(input)


def logdet(input: Tensor) -> Tensor:
    """The logarithms of determinants; NaN for negative ones."""
    sign, logarithm = _pf.linalg_slogdet(input)
    return _pf.where(sign < 0, _pf.full_like(logarithm, float("nan")), logarithm)


def slogdet(input: Tensor) -> Tuple[Tensor, Tensor]:
    """The signs of determinants, and the logarithms of their absolute values."""
    return _pf.linalg_slogdet(input)


def pinverse(input: Tensor, rcond: Optional[float] = None) -> Tensor:
    """The pseudo-inverses of matrices."""
    from ..linalg import pinv

    return pinv(input, rcond)


METHODS = (
    addmm, addmv, addr, baddbmm, addbmm, mv, vdot, ger, inner, kron, dist, cross, adjoint, inverse, det, logdet, slogdet, pinverse,
)  # fmt: skip
FUNCTIONS = METHODS + (tensordot, chain_matmul, cdist, trapezoid)
