"""RMSprop: gradients divided by a running average of their magnitude."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Iterable

from .. import _pyflame as _pf
from .optimizer import Optimizer, positive

if TYPE_CHECKING:
    from .._pyflame import Tensor


class RMSprop(Optimizer):
    """Steps divided by the root of a running mean of squared gradients."""

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0.0,
        momentum: float = 0.0, centered: bool = False, *, maximize: bool = False
    ) -> None:
        positive("learning rate", lr)
        positive("epsilon value", eps)
        positive("momentum value", momentum)
        positive("weight_decay value", weight_decay)
        positive("alpha value", alpha)
        super().__init__(
            params,
            {
                "lr": lr,
                "alpha": alpha,
                "eps": eps,
                "weight_decay": weight_decay,
                "momentum": momentum,
                "centered": centered,
                "maximize": maximize,
            },
        )

    def _update(self, value: Tensor, gradient: Tensor, state: Dict[str, Any], group: Dict[str, Any]) -> Tensor:
        alpha, momentum = group["alpha"], group["momentum"]
        if not state:
            state["square_avg"] = _pf.zeros_like(value)
            if momentum:
                state["momentum_buffer"] = _pf.zeros_like(value)
            if group["centered"]:
                state["grad_avg"] = _pf.zeros_like(value)
        if group["weight_decay"]:
            gradient = gradient + value * group["weight_decay"]
        state["square_avg"] = square = state["square_avg"] * alpha + gradient * gradient * (1.0 - alpha)
        if group["centered"]:
            state["grad_avg"] = mean = state["grad_avg"] * alpha + gradient * (1.0 - alpha)
            square = square - mean * mean
        change = gradient / (square.sqrt() + group["eps"])
        if momentum:
            momentum = self._cycled("momentum", momentum, value, group)
            state["momentum_buffer"] = change = state["momentum_buffer"] * momentum + change
        updated: Tensor = value - change * self._number("lr", group["lr"], value)
        return updated
