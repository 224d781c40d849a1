"""Automatic mixed precision: products in float16 or bfloat16, and gradients scaled so that float16 can hold them."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, Iterable, List, Optional

from . import _pyflame as _pf
from ._pyflame import Tensor

__all__ = ["GradScaler", "autocast", "get_autocast_gpu_dtype", "is_autocast_available", "is_autocast_enabled"]


class autocast:
    """Inside, products (`matmul`, `linear`, convolutions, `einsum`) of float32 tensors are computed in a half type, and softmax,
    normalisations and losses of half tensors in float32. A context manager and a decorator.

    `dtype` is float16 or bfloat16, by default float16 on a GPU and bfloat16 on the CPU.
    """

    def __init__(
        self, device_type: str = "rocm", dtype: Any = None, enabled: bool = True, cache_enabled: Optional[bool] = None
    ) -> None:
        kind = device_type.split(":")[0]
        if kind not in ("cpu", "rocm", "cuda", "hip"):
            raise ValueError(f"autocast: the device type must be 'cpu' or 'rocm', not {device_type!r}")
        self.dtype = _pf.dtype_of(dtype) if dtype is not None else _pf.bfloat16 if kind == "cpu" else _pf.float16
        if enabled and self.dtype not in (_pf.float16, _pf.bfloat16):
            raise TypeError(f"autocast: the type must be float16 or bfloat16, not {self.dtype.name}")
        self.enabled = enabled
        self._before: List[Any] = []

    def __enter__(self) -> "autocast":
        self._before.append(_pf.set_autocast(self.dtype if self.enabled else None))
        return self

    def __exit__(self, *_: Any) -> None:
        _pf.set_autocast(self._before.pop())

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return inside


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast works on devices of this kind."""
    return device_type in ("cpu", "rocm", "cuda", "hip")


def is_autocast_enabled(device_type: Optional[str] = None) -> bool:
    """Whether autocast is enabled on this thread."""
    return _pf.get_autocast() is not None


def get_autocast_gpu_dtype() -> _pf.dtype:
    """The half type of autocast on a GPU."""
    return _pf.get_autocast() or _pf.float16


class GradScaler:
    """Multiplies losses, so that gradients in float16 do not vanish, and divides the gradients again before the optimizer's step.

    `scaler.scale(loss).backward()`, then `scaler.step(optimizer)` and `scaler.update()`. A step whose gradients are infinite or NaN
    is skipped and lowers the factor.
    """

    def __init__(
        self, device: str = "rocm", init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        if growth_factor <= 1.0 or not 0 < backoff_factor < 1.0:
            raise ValueError("GradScaler: growth_factor must be above 1 and backoff_factor between 0 and 1")
        self._scale, self._growth, self._backoff, self._interval = init_scale, growth_factor, backoff_factor, growth_interval
        self._enabled, self._good = enabled, 0
        # What happened to the gradients of each optimizer since the last update.
        self._unscaled: Dict[int, bool] = {}

    def scale(self, outputs: Any) -> Any:
        """A loss, or several, times the factor."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        return type(outputs)(self.scale(output) for output in outputs)

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of an optimizer's parameters; before they are clipped, for example."""
        if not self._enabled:
            return
        if id(optimizer) in self._unscaled:
            raise RuntimeError("unscale_ was already called for this optimizer since the last update()")
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if any(gradient.dtype == _pf.float16 for gradient in gradients):
            raise ValueError("unscale_: parameters must be float32; autocast makes their gradients float32")
        with _pf.no_grad():
            for gradient in gradients:
                gradient.mul_(1.0 / self._scale)
            self._unscaled[id(optimizer)] = _all_finite(gradients)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's step, unless gradients are infinite or NaN."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if id(optimizer) not in self._unscaled:
            self.unscale_(optimizer)
        return optimizer.step(*args, **kwargs) if self._unscaled[id(optimizer)] else None

    def update(self, new_scale: Optional[float] = None) -> None:
        """Lowers the factor after a skipped step; raises it after `growth_interval` good ones."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._unscaled:
            raise RuntimeError("update() must follow step()")
        elif all(self._unscaled.values()):
            self._good += 1
            if self._good == self._interval:
                self._scale, self._good = self._scale * self._growth, 0
        else:
            self._scale, self._good = self._scale * self._backoff, 0
        self._unscaled.clear()

    def get_scale(self) -> float:
        """The factor."""
        return self._scale if self._enabled else 1.0

    def is_enabled(self) -> bool:
        """Whether it does anything."""
        return self._enabled

    def state_dict(self) -> Dict[str, Any]:
        """The factor and its options, to continue later."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale, "growth_factor": self._growth, "backoff_factor": self._backoff,
            "growth_interval": self._interval, "_growth_tracker": self._good,
        }  # fmt: skip

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Continues from a `state_dict`."""
        if not self._enabled:
            return
        self._scale, self._growth = state_dict["scale"], state_dict["growth_factor"]
        self._backoff, self._interval = state_dict["backoff_factor"], state_dict["growth_interval"]
        self._good = state_dict["_growth_tracker"]


def _all_finite(gradients: Iterable[Tensor]) -> bool:
    """One round trip for all gradients."""
    flags = [gradient.isfinite().all() for gradient in gradients]
    return bool(_pf.stack(flags).all()) if flags else True
