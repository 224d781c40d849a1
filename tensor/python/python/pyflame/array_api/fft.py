"""The standard's `fft` extension, under the standard's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from .. import fft as _ours

if TYPE_CHECKING:
    from .._pyflame import Tensor


def _one(ours: Any) -> Any:
    def function(x: Tensor, /, *, n: Any = None, axis: int = -1, norm: str = "backward") -> Any:
        return ours(x, n, axis, norm)

    function.__name__ = ours.__name__
    return function


def _many(ours: Any) -> Any:
    def function(x: Tensor, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Any:
        return ours(x, s, axes, norm)

    function.__name__ = ours.__name__
    return function


fft, ifft, rfft, irfft = _one(_ours.fft), _one(_ours.ifft), _one(_ours.rfft), _one(_ours.irfft)
hfft, ihfft = _one(_ours.hfft), _one(_ours.ihfft)
fftn, ifftn, rfftn, irfftn = _many(_ours.fftn), _many(_ours.ifftn), _many(_ours.rfftn), _many(_ours.irfftn)


def fftfreq(n: Any, /, *, d: float = 1.0, dtype: Any = None, device: Optional[str] = None) -> Any:
    return _ours.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(n: Any, /, *, d: float = 1.0, dtype: Any = None, device: Optional[str] = None) -> Any:
    return _ours.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x: Tensor, /, *, axes: Any = None) -> Any:
    return _ours.fftshift(x, axes)


def ifftshift(x: Tensor, /, *, axes: Any = None) -> Any:
    return _ours.ifftshift(x, axes)
