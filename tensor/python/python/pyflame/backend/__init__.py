"""What devices offer beyond computing."""

from . import rocm

__all__ = ["rocm"]
