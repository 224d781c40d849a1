"""AMD GPUs: whether there are any, and a new start after the loss of one. `pyflame.backend.rocm` has their caches and pools."""

from __future__ import annotations

from typing import Any

from . import _pyflame as _pf
from .devices import rocm_is_available as is_available

__all__ = ["device_count", "is_available", "reset", "synchronize"]


def device_count() -> int:
    """The number of GPUs; zero if there are none."""
    return _pf.rocm_device_count()


def reset() -> None:
    """Abandons all GPUs of this process and what is on them, and opens them again when they are used next.

    After the loss of a worker, this connects to the one that serves its address now. Tensors that were on a GPU are lost: what
    reads them raises a `RuntimeError`.
    """
    _pf.rocm_reset()


def synchronize(device: str = "rocm") -> None:
    """Starts all pending work of a GPU and waits for it."""
    _pf.synchronize(device)
