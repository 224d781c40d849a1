"""PyTorch's names for GPUs: here they mean the devices of `pyflame.rocm`."""

from __future__ import annotations

from typing import Any

from .. import _pyflame as _pf
from . import amp

__all__ = ["amp", "current_device", "device_count", "empty_cache", "is_available", "manual_seed", "manual_seed_all", "synchronize"]


def is_available() -> bool:
    """Whether a GPU is available."""
    return _pf.rocm_device_count() > 0


def device_count() -> int:
    """The number of GPUs; zero if there are none."""
    return _pf.rocm_device_count()


def current_device() -> int:
    """The number of the current GPU, or the first one's if the CPU is current."""
    name = _pf.get_device()
    return int(name.partition(":")[2] or 0) if name != "cpu" else 0


def synchronize(device: Any = None) -> None:
    """Starts all pending work of a GPU and waits for it."""
    _pf.synchronize(None if device is None else f"rocm:{device}" if isinstance(device, int) else device)


def manual_seed(seed: int) -> None:
    """Seeds the random numbers, which are the same on all devices."""
    _pf.manual_seed(seed)


manual_seed_all = manual_seed


def empty_cache() -> None:
    """Releases memory that no tensor uses."""
    for number in range(device_count()):
        _pf.rocm_clear_pool(f"rocm:{number}")
