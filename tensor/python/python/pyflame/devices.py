"""AMD GPUs by number. `set_device` and `get_device` take all devices by name."""

from __future__ import annotations

from typing import Any, Dict

from . import _pyflame as _pf


def rocm_is_available() -> bool:
    """Whether a GPU is available: AMD's or Remora's runtime is found and offers one."""
    return _pf.rocm_device_count() > 0


def device_count() -> int:
    """The number of GPUs, or one if there is only the CPU."""
    return max(_pf.rocm_device_count(), 1)


def _known(device_id: int) -> str:
    count = _pf.rocm_device_count()
    if count == 0:
        raise RuntimeError(
            f"ROCm not available: {_pf.rocm_trouble()}; an AMD GPU, `remora run --device mi300x -- python ...`, or the "
            "package pyflame[gpu] provides one"
        )
    if not 0 <= device_id < count:
        raise RuntimeError(f"ROCm device {device_id} requested but only {count} devices available")
    return f"rocm:{device_id}"


def rocm_get_device_info(device_id: int = 0) -> Dict[str, Any]:
    """Name, architecture, memory and compute units of a GPU."""
    return _pf.device_info(_known(device_id))


def rocm_set_device(device_id: int) -> None:
    """Selects a GPU by its number."""
    _pf.set_device(_known(device_id))


def rocm_get_device() -> int:
    """The number of the current GPU, or -1 if the CPU is current."""
    current = _pf.get_device()
    return int(current.split(":")[1]) if current.startswith("rocm") else -1


def rocm_synchronize() -> None:
    """Waits for the current GPU; returns at once if the CPU is current."""
    _pf.synchronize()
