"""Device features beyond computation."""

from . import rocm

__all__ = ["rocm"]
