"""Stochastic gradient descent."""

from .. import _pyflame as _pf
from .optimizer import Optimizer, positive


class SGD(Optimizer):
    """Stochastic gradient descent, optionally with momentum."""

    def __init__(
        self, params, lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, *, maximize=False
    ):
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

    def _update(self, value, gradient, state, group):
        if group["weight_decay"]:
            gradient = gradient + value * group["weight_decay"]
        if group["momentum"]:
            momentum = self._cycled("momentum", group["momentum"], value, group)
            kept = state.get("momentum_buffer")
            kept = _pf.tensor(gradient) if kept is None else kept * momentum + gradient * (1.0 - group["dampening"])
            state["momentum_buffer"] = kept
            gradient = gradient + kept * momentum if group["nesterov"] else kept
        return value - gradient * self._number("lr", group["lr"], value)
