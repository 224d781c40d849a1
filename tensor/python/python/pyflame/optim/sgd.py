"""Stochastic gradient descent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Iterable

from .. import _pyflame as _pf
from .optimizer import Optimizer, positive

if TYPE_CHECKING:
    from .._pyflame import Tensor


class SGD(Optimizer):
    """Stochastic gradient descent, optionally with momentum."""

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0.0, dampening: float = 0.0, weight_decay: float = 0.0,
        nesterov: bool = False, *, maximize: bool = False
    ) -> None:
        positive("learning rate", lr)
        positive("momentum value", momentum)
        positive("weight_decay value", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
            },
        )

    def _update(self, value: Tensor, gradient: Tensor, state: Dict[str, Any], group: Dict[str, Any]) -> Tensor:
        if group["weight_decay"]:
            gradient = gradient + value * group["weight_decay"]
        if group["momentum"]:
            momentum = self._cycled("momentum", group["momentum"], value, group)
            kept = state.get("momentum_buffer")
            kept = _pf.tensor(gradient) if kept is None else kept * momentum + gradient * (1.0 - group["dampening"])
            state["momentum_buffer"] = kept
            gradient = gradient + kept * momentum if group["nesterov"] else kept
        return value - gradient * self._number("lr", group["lr"], value)
