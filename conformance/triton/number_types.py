"""Number types that NumPy lacks: arrays of their bits, converted from and to float64 by the formats' definitions."""

import numpy as np


class Native:
    """A type that NumPy supports."""

    def __init__(self, dtype):
        self.dtype = dtype

    def encode(self, values):
        return values.astype(self.dtype)

    def decode(self, bits):
        return bits.astype(np.float64)


class Bfloat16:
    """The upper half of a float32, rounded to nearest even."""

    def encode(self, values):
        bits = values.astype(np.float32).view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)

    def decode(self, bits):
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


class Float8:
    """8-bit floats without infinities and negative zero, whose bit pattern is the only NaN: e4m3fnuz and e5m2fnuz."""

    def __init__(self, mantissa, bias):
        codes = np.arange(256)
        exponent = (codes & 0x7F) >> mantissa
        fraction = (codes & (1 << mantissa) - 1) / (1 << mantissa)
        size = np.where(exponent == 0, fraction * 2.0 ** (1 - bias), (1 + fraction) * 2.0 ** (exponent - bias))
        self.values = np.where(codes >= 0x80, -size, size)
        self.values[0x80] = np.nan
        self.order = np.argsort(np.where(np.isnan(self.values), np.inf, self.values), kind="stable")[:255]

    def encode(self, values):
        """The nearest number of the type; ties may go either way."""
        known = self.values[self.order]
        right = np.clip(np.searchsorted(known, values), 1, len(known) - 1)
        left_is_nearer = values - known[right - 1] < known[right] - values
        return self.order[np.where(left_is_nearer, right - 1, right)].astype(np.uint8)

    def decode(self, bits):
        return self.values[bits]


F16 = Native(np.float16)
F32 = Native(np.float32)
BF16 = Bfloat16()
E4M3 = Float8(mantissa=3, bias=8)
E5M2 = Float8(mantissa=2, bias=16)
