"""The standard's `fft` extension, under the standard's names."""

from .. import fft as _ours


def _one(ours):
    def function(x, /, *, n=None, axis=-1, norm="backward"):
        return ours(x, n, axis, norm)

    function.__name__ = ours.__name__
    return function


def _many(ours):
    def function(x, /, *, s=None, axes=None, norm="backward"):
        return ours(x, s, axes, norm)

    function.__name__ = ours.__name__
    return function


fft, ifft, rfft, irfft = _one(_ours.fft), _one(_ours.ifft), _one(_ours.rfft), _one(_ours.irfft)
hfft, ihfft = _one(_ours.hfft), _one(_ours.ihfft)
fftn, ifftn, rfftn, irfftn = _many(_ours.fftn), _many(_ours.ifftn), _many(_ours.rfftn), _many(_ours.irfftn)


def fftfreq(n, /, *, d=1.0, dtype=None, device=None):
    return _ours.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(n, /, *, d=1.0, dtype=None, device=None):
    return _ours.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x, /, *, axes=None):
    return _ours.fftshift(x, axes)


def ifftshift(x, /, *, axes=None):
    return _ours.ifftshift(x, axes)
