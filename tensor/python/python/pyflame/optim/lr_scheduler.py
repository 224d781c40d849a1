"""Learning rate schedulers. Call `step()` after each epoch (OneCycleLR: after each batch)."""

from __future__ import annotations

from bisect import bisect_right
import math
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Union

if TYPE_CHECKING:
    from .optimizer import Optimizer


class LRScheduler:
    """Sets `group['lr']` from the initial rate of the group and the number of steps since."""

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self.step()

    def _rate(self, base: float) -> float:
        raise NotImplementedError

    def get_lr(self) -> List[float]:
        """The learning rate of each group for the present epoch."""
        return [self._rate(base) for base in self.base_lrs]

    def get_last_lr(self) -> List[float]:
        """The learning rates that were set last."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def step(self) -> None:
        """Takes one step."""
        self.last_epoch += 1
        for group, rate in zip(self.optimizer.param_groups, self.get_lr()):
            group["lr"] = rate

    def state_dict(self) -> Dict[str, Any]:
        """The state, to save and restore."""
        return {name: value for name, value in self.__dict__.items() if name not in ("optimizer", "lr_lambda")}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Restores a state that `state_dict` returned."""
        self.__dict__.update(state_dict)


class LambdaLR(LRScheduler):
    """The initial learning rate times a function of the epoch."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Callable[[int], float], last_epoch: int = -1) -> None:
        self.lr_lambda = lr_lambda
        super().__init__(optimizer, last_epoch)

    def _rate(self, base: float) -> float:
        return base * self.lr_lambda(self.last_epoch)


class StepLR(LRScheduler):
    """A learning rate multiplied by `gamma` every `step_size` epochs."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def _rate(self, base: float) -> float:
        return base * self.gamma ** (self.last_epoch // self.step_size)


class MultiStepLR(LRScheduler):
    """A learning rate multiplied by `gamma` at given epochs."""

    def __init__(self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def _rate(self, base: float) -> float:
        return base * self.gamma ** bisect_right(self.milestones, self.last_epoch)


class ExponentialLR(LRScheduler):
    """A learning rate multiplied by `gamma` in each epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _rate(self, base: float) -> float:
        return base * self.gamma**self.last_epoch


class LinearLR(LRScheduler):
    """A learning rate whose factor changes linearly."""

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0, total_iters: int = 5,
        last_epoch: int = -1
    ) -> None:  # fmt: skip
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _rate(self, base: float) -> float:
        part = min(self.last_epoch, self.total_iters) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * part)


class PolynomialLR(LRScheduler):
    """A learning rate that falls by a power of the remaining share of epochs."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def _rate(self, base: float) -> float:
        return float(base * (1.0 - min(self.last_epoch, self.total_iters) / self.total_iters) ** self.power)


class CosineAnnealingLR(LRScheduler):
    """A learning rate that falls along half a cosine."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def _rate(self, base: float) -> float:
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2


class OneCycleLR(LRScheduler):
    """Raises the rate to `max_lr` and lowers it again, in one cycle over all steps; momentum moves the other way round."""

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: Union[float, Sequence[float]],
        total_steps: Optional[int] = None,
        epochs: Optional[int] = None,
        steps_per_epoch: Optional[int] = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: Union[float, Sequence[float]] = 0.85,
        max_momentum: Union[float, Sequence[float]] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("OneCycleLR: pass total_steps, or epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        if total_steps <= 0 or not isinstance(total_steps, int):
            raise ValueError(f"OneCycleLR: the number of steps must be a positive integer, not {total_steps!r}")
        if not 0 <= pct_start <= 1:
            raise ValueError(f"OneCycleLR: pct_start must be from 0 to 1, not {pct_start!r}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be 'cos' or 'linear', not {anneal_strategy!r}")
        groups = optimizer.param_groups
        self.total_steps, self.anneal_strategy, self.cycle_momentum = total_steps, anneal_strategy, cycle_momentum
        # The last step of each phase, and what the rate and the momentum move between.
        self.phases = [
            (float(pct_start * total_steps) - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
            (total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum"),
        ]
        if three_phase:
            self.phases[1:] = [
                (float(2 * pct_start * total_steps) - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                (total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        self.use_beta1 = "betas" in optimizer.defaults
        if cycle_momentum and not self.use_beta1 and "momentum" not in optimizer.defaults:
            raise ValueError("OneCycleLR: the optimizer has neither momentum nor betas; pass cycle_momentum=False")
        if last_epoch == -1:
            rates, lows, highs = (_each(x, groups) for x in (max_lr, base_momentum, max_momentum))
            for group, rate, low, high in zip(groups, rates, lows, highs):
                group["initial_lr"] = group["lr"] = rate / div_factor
                group["max_lr"], group["min_lr"] = rate, rate / div_factor / final_div_factor
                if cycle_momentum:
                    group["base_momentum"], group["max_momentum"] = low, high
        super().__init__(optimizer, last_epoch)

    def _between(self, start: Any, end: Any, part: float) -> Any:
        if self.anneal_strategy == "linear":
            return start + (end - start) * part
        return end + (start - end) / 2.0 * (1 + math.cos(math.pi * part))

    def _phase(self) -> Any:
        """The names of what the rate and the momentum move between now, and how far they are."""
        step, start = self.last_epoch, 0.0
        if step > self.total_steps:
            raise ValueError(f"OneCycleLR: step {step} exceeds total_steps {self.total_steps}")
        for number, (end, *names) in enumerate(self.phases):
            if step <= end or number == len(self.phases) - 1:
                return names, (step - start) / (end - start)
            start = end

    def get_lr(self) -> List[float]:
        """The learning rate of each group for the present epoch."""
        (first, last, *_), part = self._phase()
        return [self._between(group[first], group[last], part) for group in self.optimizer.param_groups]

    def step(self) -> None:
        """Takes one step."""
        super().step()
        if not self.cycle_momentum:
            return
        (_, _, first, last), part = self._phase()
        for group in self.optimizer.param_groups:
            momentum = self._between(group[first], group[last], part)
            if self.use_beta1:
                group["betas"] = (momentum, *group["betas"][1:])
            else:
                group["momentum"] = momentum


def _each(value: Any, groups: List[Dict[str, Any]]) -> List[Any]:
    """One value for each parameter group."""
    if not isinstance(value, (list, tuple)):
        return [value] * len(groups)
    if len(value) != len(groups):
        raise ValueError(f"OneCycleLR: {len(value)} values were given for {len(groups)} parameter groups")
    return list(value)


class ReduceLROnPlateau:
    """Reduces the rate when a metric has not improved for `patience` steps: `step(metric)`."""

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float = 0.0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError("mode must be 'min' or 'max', threshold_mode 'rel' or 'abs'")
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown = threshold, threshold_mode, cooldown
        self.min_lr, self.eps = min_lr, eps
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = 0
        self.last_epoch = 0

    def _better(self, measure: float) -> bool:
        sign = 1 if self.mode == "min" else -1
        if self.threshold_mode == "abs":
            return sign * measure < sign * self.best - self.threshold
        if math.isinf(self.best):
            return sign * measure < sign * self.best
        return sign * measure < sign * self.best - self.threshold * abs(self.best)

    def step(self, metrics: Any) -> None:
        """Takes one step."""
        measure = float(metrics)
        self.last_epoch += 1
        if self._better(measure):
            self.best, self.num_bad_epochs = measure, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group in self.optimizer.param_groups:
                rate = max(group["lr"] * self.factor, self.min_lr)
                if group["lr"] - rate > self.eps:
                    group["lr"] = rate
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def get_last_lr(self) -> List[float]:
        """The learning rates that were set last."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> Dict[str, Any]:
        """The state, to save and restore."""
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Restores a state that `state_dict` returned."""
        self.__dict__.update(state_dict)
