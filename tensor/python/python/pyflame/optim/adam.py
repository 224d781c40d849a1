"""Adam, and Adam with decoupled weight decay."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Dict, Iterable, Tuple

from .. import _pyflame as _pf
from .optimizer import Optimizer, positive

if TYPE_CHECKING:
    from .._pyflame import Tensor


class Adam(Optimizer):
    """Adam: steps scaled by running means of gradients and of their squares."""

    _decoupled = False

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: Tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0.0, amsgrad: bool = False, *, maximize: bool = False
    ) -> None:
        positive("learning rate", lr)
        positive("epsilon value", eps)
        positive("beta parameter at index 0", betas[0], 1.0)
        positive("beta parameter at index 1", betas[1], 1.0)
        positive("weight_decay value", weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": tuple(betas),
                "eps": eps,
                "weight_decay": weight_decay,
                "amsgrad": amsgrad,
                "maximize": maximize,
            },
        )

    def _update(self, value: Tensor, gradient: Tensor, state: Dict[str, Any], group: Dict[str, Any]) -> Tensor:
        first, second = group["betas"]
        lr, decay = group["lr"], group["weight_decay"]
        if not state:
            state["step"] = 0
            state["exp_avg"] = _pf.zeros_like(value)
            state["exp_avg_sq"] = _pf.zeros_like(value)
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = _pf.zeros_like(value)
        state["step"] = step = state["step"] + 1
        if decay and self._decoupled:
            value = value * self._number("decay", 1.0 - lr * decay, value)
        elif decay:
            gradient = gradient + value * decay
        keep, add = (self._cycled(name, x, value, group) for name, x in (("beta1", first), ("1 - beta1", 1.0 - first)))
        state["exp_avg"] = mean = state["exp_avg"] * keep + gradient * add
        state["exp_avg_sq"] = square = state["exp_avg_sq"] * second + gradient * gradient * (1.0 - second)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = square = _pf.maximum(state["max_exp_avg_sq"], square)
        scale = self._number("scale", lr / (1.0 - first**step), value)
        correction = self._number("correction", 1.0 / math.sqrt(1.0 - second**step), value)
        updated: Tensor = value - mean * scale / (square.sqrt() * correction + group["eps"])
        return updated


class AdamW(Adam):
    """Adam with weight decay apart from the gradient."""

    _decoupled = True

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: Tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)
