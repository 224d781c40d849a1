"""The quasi-Newton method L-BFGS."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Tuple

from .. import _pyflame as _pf
from .._pyflame import Tensor
from .optimizer import Optimizer


class LBFGS(Optimizer):
    """Minimises a deterministic function: `step(closure)`, where the closure computes the loss and its gradients.

    `line_search_fn='strong_wolfe'` looks for a step that satisfies the strong Wolfe conditions; else every step has the length `lr`.
    """

    def __init__(
        self, params: Any, lr: float = 1.0, max_iter: int = 20, max_eval: Optional[int] = None, tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9, history_size: int = 100, line_search_fn: Optional[str] = None,
    ) -> None:  # fmt: skip
        if line_search_fn not in (None, "strong_wolfe"):
            raise ValueError(f"LBFGS: line_search_fn must be None or 'strong_wolfe', not {line_search_fn!r}")
        super().__init__(
            params,
            {
                "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
                "line_search_fn": line_search_fn,
            },
        )  # fmt: skip
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS has one parameter group only")
        self._params: List[Tensor] = self.param_groups[0]["params"]

    def _gradient(self) -> Tensor:
        return _pf.cat([(_pf.zeros_like(p) if p.grad is None else p.grad).detach().reshape(-1) for p in self._params])

    def _point(self) -> Tensor:
        return _pf.cat([p.detach().reshape(-1) for p in self._params])

    def _move(self, point: Tensor) -> None:
        start = 0
        for parameter in self._params:
            count = parameter.nelement()
            parameter.copy_(point[start : start + count].reshape(tuple(parameter.shape)))
            start += count

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Up to `max_iter` iterations; returns the loss at the start."""
        if closure is None:
            raise TypeError("LBFGS: step needs a closure that computes the loss and its gradients")
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        evaluations = 0

        def evaluated(point: Optional[Tensor] = None) -> Tuple[float, Tensor]:
            nonlocal evaluations
            if point is not None:
                self._move(point)
            with _pf.enable_grad():
                value = float(closure())
            evaluations += 1
            state["func_evals"] += 1
            return value, self._gradient()

        with _pf.no_grad():
            loss, gradient = evaluated()
            first = loss
            iterations = 0
            while iterations < group["max_iter"] and float(gradient.abs().amax()) > group["tolerance_grad"]:
                iterations += 1
                state["n_iter"] += 1
                direction = self._direction(state, gradient, group["history_size"])
                slope = float(gradient.dot(direction))
                if slope > -group["tolerance_change"]:
                    break
                length = group["lr"]
                if state["n_iter"] == 1:
                    length = min(1.0, 1.0 / float(gradient.abs().sum())) * group["lr"]
                start, before = self._point(), loss
                if group["line_search_fn"]:
                    length, loss, gradient = _wolfe(evaluated, start, direction, length, loss, gradient, slope)
                    self._move(start + direction * length)
                else:
                    self._move(start + direction * length)
                    if iterations < group["max_iter"]:
                        loss, gradient = evaluated()
                if evaluations >= group["max_eval"]:
                    break
                if float((direction * length).abs().amax()) <= group["tolerance_change"]:
                    break
                if abs(loss - before) < group["tolerance_change"] and iterations < group["max_iter"]:
                    break
        return first

    def _direction(self, state: Any, gradient: Tensor, size: int) -> Tensor:
        """Minus the product of the approximate inverse Hessian and the gradient, by the two-loop recursion."""
        point = self._point()
        if state.get("prev_flat_grad") is None:
            state["old_dirs"], state["old_stps"], state["H_diag"] = [], [], 1.0
        else:
            change, step = gradient - state["prev_flat_grad"], point - state["prev_point"]
            product = float(change.dot(step))
            if product > 1e-10:
                if len(state["old_dirs"]) == size:
                    state["old_dirs"].pop(0)
                    state["old_stps"].pop(0)
                state["old_dirs"].append(change)
                state["old_stps"].append(step)
                state["H_diag"] = product / float(change.dot(change))
        state["prev_flat_grad"], state["prev_point"] = gradient, point
        q, factors = -gradient, []
        for change, step in zip(reversed(state["old_dirs"]), reversed(state["old_stps"])):
            ratio = 1.0 / change.dot(step)
            factor = step.dot(q) * ratio
            factors.append((factor, ratio))
            q = q - change * factor
        q = q * state["H_diag"]
        for change, step, (factor, ratio) in zip(state["old_dirs"], state["old_stps"], reversed(factors)):
            q = q + step * (factor - change.dot(q) * ratio)
        found: Tensor = q
        return found


Evaluate = Callable[[Optional[Tensor]], Tuple[float, Tensor]]


def _wolfe(
    evaluate: Evaluate, start: Tensor, direction: Tensor, length: float, loss: float, gradient: Tensor, slope: float
) -> Tuple[float, float, Tensor]:
    """A step length that satisfies the strong Wolfe conditions, with loss and gradient there."""
    least, flat, most = 1e-4, 0.9, 25

    def at(t: float) -> Tuple[float, float, Tensor, float]:
        value, found = evaluate(start + direction * t)
        return t, value, found, float(found.dot(direction))

    previous = (0.0, loss, gradient, slope)
    for count in range(most):
        now = at(length)
        if now[1] > loss + least * length * slope or (count and now[1] >= previous[1]):
            low, high = previous, now
            break
        if abs(now[3]) <= -flat * slope:
            return now[:3]
        if now[3] >= 0:
            low, high = now, previous
            break
        previous, length = now, _extended(previous, now)
    else:
        return now[:3]
    for _ in range(most):
        width = abs(high[0] - low[0])
        if width * float(direction.abs().amax()) < 1e-9:
            break
        middle = _between(low, high)
        now = at(middle)
        if now[1] > loss + least * middle * slope or now[1] >= low[1]:
            high = now
        else:
            if abs(now[3]) <= -flat * slope:
                return now[:3]
            if now[3] * (high[0] - low[0]) >= 0:
                high = low
            low = now
    return low[:3]


def _cubic(a: Any, b: Any) -> Optional[float]:
    """The minimum of the cubic with these values and slopes."""
    x1, f1, g1, x2, f2, g2 = a[0], a[1], a[3], b[0], b[1], b[3]
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 * d1 - g1 * g2
    if not square >= 0:
        return None
    d2 = square**0.5 if x1 <= x2 else -(square**0.5)
    below = g2 - g1 + 2 * d2
    return x2 - (x2 - x1) * ((g2 + d2 - d1) / below) if below else None


def _extended(previous: Any, now: Any) -> float:
    low, high = now[0] + 0.01 * (now[0] - previous[0]), now[0] * 10
    found = _cubic(previous, now)
    return float(min(max((low + high) / 2 if found is None else found, low), high))


def _between(low: Any, high: Any) -> float:
    left, right = sorted((low[0], high[0]))
    found = _cubic(low, high)
    margin = 0.1 * (right - left)
    return float((left + right) / 2 if found is None else min(max(found, left + margin), right - margin))
