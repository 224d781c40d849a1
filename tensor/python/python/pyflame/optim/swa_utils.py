"""Averages of a model's parameters over training."""

from __future__ import annotations

import copy
from typing import Any, Callable, Iterable, List, Optional

from .. import _pyflame as _pf
from .._pyflame import Tensor
from ..nn.module import Module

__all__ = ["AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "update_bn"]

Average = Callable[[Tensor, Tensor, int], Tensor]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """An exponential moving average: `decay * average + (1 - decay) * parameter`."""
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"get_ema_avg_fn: decay must be between 0 and 1, not {decay}")
    return lambda average, parameter, count: average * decay + parameter * (1 - decay)


def get_swa_avg_fn() -> Average:
    """The mean of all parameters so far."""
    return lambda average, parameter, count: average + (parameter - average) / (count + 1)


get_ema_multi_avg_fn = get_ema_avg_fn


class AveragedModel(Module):
    """A copy of a model with averaged parameters: call `update_parameters(model)` after each step, and the copy for predictions."""

    def __init__(
        self, model: Module, device: Optional[str] = None, avg_fn: Optional[Average] = None, multi_avg_fn: Optional[Average] = None,
        use_buffers: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module.to(device)
        self.register_buffer("n_averaged", _pf.tensor(0, dtype=_pf.int64))
        self.avg_fn = avg_fn or multi_avg_fn or get_swa_avg_fn()
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The averaged model's output."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Adds the present parameters to the average; buffers are copied unless `use_buffers`."""
        count = int(self.n_averaged)
        with _pf.no_grad():
            own: List[Tensor] = list(self.module.parameters())
            new: List[Tensor] = list(model.parameters())
            buffers = list(zip(self.module.buffers(), model.buffers()))
            if self.use_buffers:
                own += [mine for mine, _ in buffers if mine.dtype.is_floating_point]
                new += [theirs for mine, theirs in buffers if mine.dtype.is_floating_point]
            for average, parameter in zip(own, new):
                given = parameter.detach().to(average.device)
                average.copy_(given if count == 0 else self.avg_fn(average.detach(), given, count))
            for mine, theirs in buffers:
                if not self.use_buffers or not mine.dtype.is_floating_point:
                    mine.copy_(theirs.detach().to(mine.device))
            self.n_averaged.add_(1)
            _pf.eval(*own)


def update_bn(loader: Iterable[Any], model: Module, device: Optional[str] = None) -> None:
    """Computes the running statistics of batch normalisations anew, from all batches of a loader."""
    layers = [module for module in model.modules() if hasattr(module, "reset_running_stats")]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    was_training = model.training
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None
    model.train()
    try:
        with _pf.no_grad():
            for batch in loader:
                inputs = batch[0] if isinstance(batch, (list, tuple)) else batch
                model(inputs if device is None else inputs.to(device))
    finally:
        for layer, momentum in zip(layers, momenta):
            layer.momentum = momentum
        model.train(was_training)
