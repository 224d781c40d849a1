"""Elementwise functions that are compositions of others."""

from __future__ import annotations

import math
from typing import Optional, Tuple, Union

from .. import _pyflame as _pf
from .._pyflame import Tensor

Number = Union[int, float]
Value = Union[Tensor, int, float]


def _is_float(x: Tensor) -> bool:
    return bool(x.dtype.is_floating_point)


def _floating(x: Tensor) -> Tensor:
    """The tensor itself, or in float32 if its elements are integers."""
    return x if _is_float(x) or x.dtype.is_complex else x.to(_pf.float32)


def _tensor(value: Value, like: Tensor) -> Tensor:
    return value if isinstance(value, Tensor) else _pf.tensor(value, dtype=like.dtype, device=like.device)


def addcmul(input: Tensor, tensor1: Value, tensor2: Value, *, value: Number = 1) -> Tensor:
    """`input + value * tensor1 * tensor2`."""
    product = tensor1 * tensor2
    return input + (product if value == 1 else product * value)


def addcdiv(input: Tensor, tensor1: Value, tensor2: Value, *, value: Number = 1) -> Tensor:
    """`input + value * tensor1 / tensor2`."""
    quotient = tensor1 / tensor2
    return input + (quotient if value == 1 else quotient * value)


def lerp(input: Tensor, end: Tensor, weight: Value) -> Tensor:
    """`input + weight * (end - input)`."""
    return input + (end - input) * weight


def rsub(input: Tensor, other: Value, *, alpha: Number = 1) -> Tensor:
    """`other - alpha * input`."""
    return other - (input if alpha == 1 else input * alpha)


def fmod(input: Tensor, other: Value) -> Tensor:
    """The remainder of a division that rounds towards zero; it has the sign of the dividend."""
    other = _tensor(other, input)
    return input - input.div(other, rounding_mode="trunc") * other


def fmax(input: Tensor, other: Tensor) -> Tensor:
    """The maximum; where one operand is NaN, the other one."""
    return _pf.where(input.isnan(), other, _pf.where(other.isnan(), input, input.maximum(other)))


def fmin(input: Tensor, other: Tensor) -> Tensor:
    """The minimum; where one operand is NaN, the other one."""
    return _pf.where(input.isnan(), other, _pf.where(other.isnan(), input, input.minimum(other)))


def frac(input: Tensor) -> Tensor:
    """The part behind the decimal point, with the sign of the element."""
    return input - input.trunc()


def positive(input: Tensor) -> Tensor:
    """The tensor itself."""
    return input


def erfc(input: Tensor) -> Tensor:
    """`1 - erf(input)`."""
    return 1 - _floating(input).erf()


# Rational approximation of the inverse error function for the start of Newton's iteration.
_HEART, _SLOPE = 0.147, 2.0 / (math.pi * 0.147)


def erfinv(input: Tensor) -> Tensor:
    """The inverse of `erf`: infinite at -1 and 1, NaN beyond them."""
    y = _floating(input)
    dtype = y.dtype
    if dtype.itemsize < 4:
        y = y.to(_pf.float32)
    with _pf.no_grad():
        fixed = y.detach()
        logarithm = (1 - fixed * fixed).log()
        middle = _SLOPE + logarithm / 2
        x = ((middle * middle - logarithm / _HEART).sqrt() - middle).sqrt().copysign(fixed)
        for _ in range(3 if y.dtype == _pf.float64 else 2):
            error = (x.erf() - fixed) * (math.sqrt(math.pi) / 2) * (x * x).exp()
            # Halley's correction. Near the ends the error has no significant digits and the step is not taken.
            step = error / (1 + x * error)
            x = _pf.where(step.isfinite(), x - step, x)
        x = _pf.where(fixed.abs() == 1, fixed * math.inf, x)
    if not y.requires_grad:
        return x.to(dtype)
    # The derivative is that of the inverse function at the result.
    slope = (x * x).exp() * (math.sqrt(math.pi) / 2)
    return (x + (y - fixed) * slope).to(dtype)


def logit(input: Tensor, eps: Optional[float] = None) -> Tensor:
    """`log(x / (1 - x))`, the inverse of the sigmoid; with `eps`, elements are first limited to `[eps, 1 - eps]`."""
    x = _floating(input)
    if eps is not None:
        x = x.clamp(eps, 1 - eps)
    return (x / (1 - x)).log()


def xlogy(input: Value, other: Value) -> Tensor:
    """`input * log(other)`, zero where `input` is zero and `other` is not NaN."""
    like = input if isinstance(input, Tensor) else other
    if not isinstance(like, Tensor):
        raise TypeError("xlogy: one of the operands must be a tensor")
    x, y = _tensor(input, like), _floating(_tensor(other, like))
    x = x * _pf.ones_like(y)
    return _pf.where((x == 0) & ~y.isnan(), _pf.zeros_like(x), x * y.log())


def logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    """`log2(2**input + 2**other)`."""
    two = math.log(2.0)
    return (input * two).logaddexp(other * two) / two


def sgn(input: Tensor) -> Tensor:
    """The sign; of complex numbers, the number divided by its magnitude."""
    if not input.dtype.is_complex:
        return input.sign()
    size = input.abs()
    return _pf.where(size == 0, _pf.zeros_like(input), input / _pf.where(size == 0, _pf.ones_like(size), size))


def signbit(input: Tensor) -> Tensor:
    """Whether the sign is negative; that of minus zero is."""
    if not _is_float(input):
        return input < 0
    return _pf.ones_like(input).copysign(input) < 0


def sinc(input: Tensor) -> Tensor:
    """`sin(pi x) / (pi x)`, one at zero."""
    x = _floating(input) * math.pi
    zero = x == 0
    return _pf.where(zero, _pf.ones_like(x), x.sin() / _pf.where(zero, _pf.ones_like(x), x))


def deg2rad(input: Tensor) -> Tensor:
    """Degrees as radians."""
    return _floating(input) * (math.pi / 180.0)


def rad2deg(input: Tensor) -> Tensor:
    """Radians as degrees."""
    return _floating(input) * (180.0 / math.pi)


def angle(input: Tensor) -> Tensor:
    """The angle in the complex plane: zero or pi for real numbers."""
    if input.dtype.is_complex:
        return input.imag.atan2(input.real)
    x = _floating(input)
    flat = _pf.where(x < 0, _pf.full_like(x, math.pi), _pf.zeros_like(x))
    return _pf.where(x.isnan(), x, flat)


def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """Zero for negative elements, one for positive ones, and `values` at zero."""
    step = (input > 0).to(input.dtype)
    return _pf.where(input == 0, values, step)


def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """`input * 2**other`."""
    return input * _floating(other).exp2()


def float_power(input: Tensor, exponent: Value) -> Tensor:
    """The power, computed in float64."""
    given = exponent.to(_pf.float64) if isinstance(exponent, Tensor) else exponent
    return input.to(_pf.float64).pow(given)


def isneginf(input: Tensor) -> Tensor:
    """Whether elements are minus infinity."""
    made: Tensor = input == -math.inf
    return made


def isposinf(input: Tensor) -> Tensor:
    """Whether elements are infinity."""
    made: Tensor = input == math.inf
    return made


def isreal(input: Tensor) -> Tensor:
    """Whether elements have no imaginary part."""
    if input.dtype.is_complex:
        made: Tensor = input.imag == 0
        return made
    return _pf.ones_like(input, dtype=_pf.bool)


def nan_to_num(input: Tensor, nan: float = 0.0, posinf: Optional[float] = None, neginf: Optional[float] = None) -> Tensor:
    """Replaces NaN and infinities: by default by zero, and by the largest and smallest finite number."""
    if not _is_float(input):
        return input.clone()
    _, least, most, _, _ = (input.dtype.name, *_pf.limits(input.dtype)[1:3], 0, 0)
    high = most if posinf is None else posinf
    low = least if neginf is None else neginf
    x = _pf.where(input.isnan(), _pf.full_like(input, nan), input)
    x = _pf.where(input == math.inf, _pf.full_like(input, high), x)
    return _pf.where(input == -math.inf, _pf.full_like(input, low), x)


def clamp_min(input: Tensor, min: Value) -> Tensor:
    """Elements below the bound become the bound."""
    return input.clamp(min=min)


def clamp_max(input: Tensor, max: Value) -> Tensor:
    """Elements above the bound become the bound."""
    return input.clamp(max=max)


def gcd(input: Tensor, other: Tensor) -> Tensor:
    """The greatest common divisor of integers."""
    a, b = input.abs(), other.abs()
    a, b = a * _pf.ones_like(b), b * _pf.ones_like(a)
    # Euclid's algorithm takes at most 1.45 steps for each bit.
    for _ in range(int(12 * a.dtype.itemsize) + 1):
        rest = _pf.where(b == 0, _pf.zeros_like(a), a.remainder(_pf.where(b == 0, _pf.ones_like(b), b)))
        a, b = _pf.where(b == 0, a, b), rest
    return a


def lcm(input: Tensor, other: Tensor) -> Tensor:
    """The least common multiple of integers."""
    common = gcd(input, other)
    safe = _pf.where(common == 0, _pf.ones_like(common), common)
    return (input.floor_divide(safe) * other).abs()


def complex(real: Tensor, imag: Tensor) -> Tensor:
    """Complex numbers from their parts."""
    return real + imag * 1j


def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """Complex numbers from magnitudes and angles."""
    return complex(abs * angle.cos(), abs * angle.sin())


def view_as_real(input: Tensor) -> Tensor:
    """The parts of complex numbers along a new last axis; a copy."""
    return _pf.stack([input.real, input.imag], -1)


def view_as_complex(input: Tensor) -> Tensor:
    """Complex numbers from the pairs along the last axis; a copy."""
    if input.ndim == 0 or input.shape[-1] != 2:
        raise ValueError(f"view_as_complex: the last axis must have length 2; got the shape {tuple(input.shape)}")
    return complex(input.select(-1, 0), input.select(-1, 1))


def frexp(input: Tensor) -> Tuple[Tensor, Tensor]:
    """Mantissas from 0.5 to below 1, and exponents: `input == mantissa * 2**exponent`."""
    x = input.detach()
    regular = x.isfinite() & (x != 0)
    safe = _pf.where(regular, x.abs(), _pf.ones_like(x))
    exponent = safe.log2().floor() + 1
    mantissa = safe * (-exponent).exp2()
    # The logarithm may be off by one next to a power of two.
    low, high = mantissa < 0.5, mantissa >= 1
    exponent = exponent - low.to(x.dtype) + high.to(x.dtype)
    mantissa = _pf.where(low, mantissa * 2, _pf.where(high, mantissa / 2, mantissa)).copysign(x)
    zero = _pf.zeros_like(x)
    return _pf.where(regular, mantissa, x), _pf.where(regular, exponent, zero).to(_pf.int32)


METHODS = (
    addcmul, addcdiv, lerp, fmod, fmax, fmin, frac, positive, erfc, erfinv, logit, xlogy, logaddexp2, sgn, signbit, sinc,
    deg2rad, rad2deg, angle, heaviside, ldexp, float_power, isneginf, isposinf, isreal, nan_to_num, clamp_min, clamp_max, gcd, lcm,
    frexp,
)  # fmt: skip
FUNCTIONS = METHODS + (rsub, complex, polar, view_as_real, view_as_complex)
