"""RMSprop: gradients divided by a running average of their magnitude."""

from .. import _pyflame as _pf
from .optimizer import Optimizer, positive


class RMSprop(Optimizer):
    """Steps divided by the root of a running mean of squared gradients."""

    def __init__(
        self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False, *, maximize=False
    ):
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

    def _update(self, value, gradient, state, group):
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
        return value - change * self._number("lr", group["lr"], value)
