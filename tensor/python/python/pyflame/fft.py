"""Fourier transforms, computed on the host: complex128 for float64 and complex128, else complex64. `norm` selects the scaling: the
inverse divides by the length ('backward'), the forward transform does ('forward'), or both divide by its square root ('ortho')."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, List, Optional, Tuple

from . import _pyflame as _pf

if TYPE_CHECKING:
    from ._pyflame import DTypeLike, Tensor


def _check(n: int) -> None:
    if n < 1:
        raise ValueError(f"fft: a transform needs at least one element, not {n}")


def _scale(n: int, norm: Optional[str], inverse: bool) -> float:
    _check(n)
    if norm not in (None, "backward", "forward", "ortho"):
        raise ValueError(f"fft: the norm must be 'backward', 'forward' or 'ortho', not {norm!r}")
    if norm == "ortho":
        return 1 / math.sqrt(n)
    return 1 / n if (norm == "forward") != inverse else 1.0


def _sized(x: Tensor, n: Optional[int], dim: Any) -> Tensor:
    """Crops or zero-pads to a length."""
    if n is None or n == x.shape[dim]:
        return x
    _check(n)
    if n < x.shape[dim]:
        return x.narrow(dim, 0, n)
    missing = list(x.shape)
    missing[dim] = n - x.shape[dim]
    return _pf.cat([x, _pf.zeros(missing, dtype=x.dtype, device=x.device)], dim)


def _line(x: Tensor, n: Optional[int], dim: Any, norm: Optional[str], inverse: bool) -> Tensor:
    x = _sized(x, n, dim)
    factor = _scale(x.shape[dim], norm, inverse)
    made = _pf.fft_line(x, dim, inverse)
    return made if factor == 1.0 else made * factor


def fft(input: Tensor, n: Optional[int] = None, dim: int = -1, norm: Optional[str] = None) -> Tensor:
    """The Fourier transform along an axis."""
    return _line(input, n, dim, norm, False)


def ifft(input: Tensor, n: Optional[int] = None, dim: int = -1, norm: Optional[str] = None) -> Tensor:
    """The inverse Fourier transform along an axis."""
    return _line(input, n, dim, norm, True)


def rfft(input: Tensor, n: Optional[int] = None, dim: int = -1, norm: Optional[str] = None) -> Tensor:
    """The first half of the transform of real numbers; the other half is its conjugate mirror image."""
    return _half(input, n, dim, norm, False)


def _half(x: Tensor, n: Optional[int], dim: Any, norm: Optional[str], inverse: bool) -> Tensor:
    if x.is_complex():
        made = _line(x, n, dim, norm, inverse)
        return made.narrow(dim, 0, made.shape[dim] // 2 + 1)
    x = _sized(x, n, dim)
    factor = _scale(x.shape[dim], norm, inverse)
    made = _pf.rfft_line(x, dim)
    made = made.conj() if inverse else made
    return made if factor == 1.0 else made * factor


def _real(x: Tensor, n: Optional[int], dim: Any, norm: Optional[str], inverse: bool) -> Tensor:
    """The real transform of a signal that is conjugate-symmetric, given by its first half."""
    n = 2 * (x.shape[dim] - 1) if n is None else n
    _check(n)
    if n % 2 == 1:
        return _line(_whole(x, n, dim), None, dim, norm, inverse).real
    x = _sized(x, n // 2 + 1, dim)
    factor = _scale(n, norm, inverse)
    made = _pf.irfft_line(x if inverse else x.conj(), dim)
    return made if factor == 1.0 else made * factor


def _whole(x: Tensor, n: int, dim: Any) -> Tensor:
    """Completes the first half of a transform by its mirror image to `n` elements, an odd number."""
    x = _sized(x, n // 2 + 1, dim)
    mirrored = n // 2
    return _pf.cat([x, x.narrow(dim, 1, mirrored).flip(dim).conj()], dim) if mirrored else x.narrow(dim, 0, n)


def irfft(input: Tensor, n: Optional[int] = None, dim: int = -1, norm: Optional[str] = None) -> Tensor:
    """The real numbers whose transform has this first half."""
    return _real(input, n, dim, norm, True)


def hfft(input: Tensor, n: Optional[int] = None, dim: int = -1, norm: Optional[str] = None) -> Tensor:
    """The real transform of a conjugate-symmetric signal, given by its first half."""
    return _real(input, n, dim, norm, False)


def ihfft(input: Tensor, n: Optional[int] = None, dim: int = -1, norm: Optional[str] = None) -> Tensor:
    """The inverse of `hfft`."""
    return _half(input, n, dim, norm, True)


def _axes(x: Tensor, s: Any, dim: Any) -> List[Tuple[int, Optional[int]]]:
    if dim is None:
        if s is not None and len(s) > x.ndim:
            raise ValueError(f"fft: got {len(s)} lengths for a tensor of {x.ndim} axes")
        dim = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    dim = (dim,) if isinstance(dim, int) else tuple(dim)
    sizes = (None,) * len(dim) if s is None else tuple(s)
    if len(sizes) != len(dim):
        raise ValueError(f"fft: got {len(sizes)} lengths for {len(dim)} axes")
    return list(zip(dim, sizes))


def _many(x: Tensor, axes: Any, norm: Optional[str], inverse: bool) -> Tensor:
    for dim, n in axes:
        x = _line(x, n, dim, norm, inverse)
    return x


def fftn(input: Tensor, s: Any = None, dim: Any = None, norm: Optional[str] = None) -> Tensor:
    """The Fourier transform along several axes."""
    return _many(input, _axes(input, s, dim), norm, False)


def ifftn(input: Tensor, s: Any = None, dim: Any = None, norm: Optional[str] = None) -> Tensor:
    """The inverse Fourier transform along several axes."""
    return _many(input, _axes(input, s, dim), norm, True)


def _last_apart(axes: List[Tuple[int, Optional[int]]]) -> Tuple[List[Tuple[int, Optional[int]]], int, Optional[int]]:
    if not axes:
        raise ValueError("fft: a transform of real numbers needs at least one axis, `dim` or `s` has none")
    *others, (last, n) = axes
    return others, last, n


def rfftn(input: Tensor, s: Any = None, dim: Any = None, norm: Optional[str] = None) -> Tensor:
    """The Fourier transform of real numbers along several axes; of the last one the first half."""
    others, last, n = _last_apart(_axes(input, s, dim))
    return _many(rfft(input, n, last, norm), others, norm, False)


def irfftn(input: Tensor, s: Any = None, dim: Any = None, norm: Optional[str] = None) -> Tensor:
    """The inverse of `rfftn`."""
    others, last, n = _last_apart(_axes(input, s, dim))
    return irfft(_many(input, others, norm, True), n, last, norm)


def fftfreq(n: int, d: float = 1.0, *, dtype: Optional[DTypeLike] = None, device: Optional[str] = None) -> Tensor:
    """The frequencies of a transform's elements: from zero up, then the negative ones."""
    numbers = _pf.arange(n, device=device)
    numbers = _pf.where(numbers < (n + 1) // 2, numbers, numbers - n)
    return (numbers.to(dtype or _pf.float32)) / (n * d)


def rfftfreq(n: int, d: float = 1.0, *, dtype: Optional[DTypeLike] = None, device: Optional[str] = None) -> Tensor:
    """The frequencies of the elements of `rfft`."""
    return _pf.arange(n // 2 + 1, device=device).to(dtype or _pf.float32) / (n * d)


def _shifted(x: Tensor, dim: Any, back: bool) -> Tensor:
    dims = range(x.ndim) if dim is None else ((dim,) if isinstance(dim, int) else dim)
    dims = tuple(dims)
    return x.roll(tuple(-(x.shape[d] // 2) if back else x.shape[d] // 2 for d in dims), dims) if dims else x


def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Moves frequency zero to the middle."""
    return _shifted(input, dim, False)


def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Moves frequency zero back to the start."""
    return _shifted(input, dim, True)
