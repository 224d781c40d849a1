"""Adam, and Adam with decoupled weight decay."""

import math

from .. import _pyflame as _pf
from .optimizer import Optimizer, positive


class Adam(Optimizer):
    """Adam: steps scaled by running means of gradients and of their squares."""

    _decoupled = False

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False, *, maximize=False
    ):
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

    def _update(self, value, gradient, state, group):
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
        return value - mean * scale / (square.sqrt() * correction + group["eps"])


class AdamW(Adam):
    """Adam with weight decay apart from the gradient."""

    _decoupled = True

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *, maximize=False
    ):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)
