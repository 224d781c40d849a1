"""PyTorch's older names of `pyflame.amp`."""

from __future__ import annotations

from typing import Any, Optional

from ..amp import GradScaler
from ..amp import autocast as _autocast

__all__ = ["GradScaler", "autocast"]


class autocast(_autocast):
    """`pyflame.amp.autocast` for GPUs."""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: Optional[bool] = None) -> None:
        super().__init__("rocm", dtype, enabled, cache_enabled)
