"""Gradients: the recording mode, and explicit computation."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, List

from . import _pyflame as _pf
from ._pyflame import enable_grad, is_grad_enabled, no_grad  # noqa: F401

if TYPE_CHECKING:
    from typing_extensions import Self


def _decorated(mode: Callable[[], Any], function: Any) -> Any:
    @functools.wraps(function)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with mode():
            return function(*args, **kwargs)

    return inside


class GradMode:
    """Whether operations of this thread record a graph for gradients."""

    @staticmethod
    def is_enabled() -> bool:
        """Whether it is switched on."""
        return is_grad_enabled()

    @staticmethod
    def set_enabled(enabled: bool) -> None:
        """Switches it on or off."""
        _pf.set_grad_mode(bool(enabled))


class set_grad_enabled:
    """Switches recording on or off at once; as a context manager, restores the previous mode at the end."""

    def __init__(self, mode: str) -> None:
        self.before = is_grad_enabled()
        _pf.set_grad_mode(bool(mode))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        _pf.set_grad_mode(self.before)


def backward(tensors: Any, grad_tensors: Any = None, retain_graph: bool = False, create_graph: bool = False) -> None:
    """Accumulates `grad` of all leaves the tensors depend on: `backward(loss)`, `backward([a, b], [grad_a, grad_b])`."""
    if isinstance(tensors, _pf.Tensor):
        tensors, grad_tensors = [tensors], [grad_tensors]
    grads = list(grad_tensors) if grad_tensors is not None else [None] * len(tensors)
    if len(grads) != len(tensors):
        raise ValueError(f"backward: got {len(tensors)} tensors but {len(grads)} gradients")
    for index, (tensor, gradient) in enumerate(zip(tensors, grads)):
        tensor.backward(gradient, retain_graph or index + 1 < len(tensors), create_graph)


def grad(
    outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: Any = None, create_graph: bool = False,
    allow_unused: bool = False
) -> Any:  # fmt: skip
    """Returns the gradients of outputs with respect to inputs as a tuple; no `grad` changes. With `create_graph` they have gradients."""
    outputs = [outputs] if isinstance(outputs, _pf.Tensor) else list(outputs)
    inputs = [inputs] if isinstance(inputs, _pf.Tensor) else list(inputs)
    if grad_outputs is None or isinstance(grad_outputs, _pf.Tensor):
        grad_outputs = [grad_outputs] * len(outputs)
    found = _pf.gradients_of(outputs, inputs, list(grad_outputs), bool(retain_graph), create_graph)
    if not allow_unused and any(gradient is None for gradient in found):
        raise RuntimeError(
            "one of the differentiated tensors was not used in the graph; set allow_unused=True if that is intended"
        )
    return tuple(found)


from .function import Function, FunctionCtx, once_differentiable  # noqa: E402,F401


class inference_mode:
    """Operations inside record no graph for gradients. Also a decorator."""

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode
        self.before: List[bool] = []

    def __enter__(self) -> None:
        self.before.append(is_grad_enabled())
        if self.mode:
            _pf.set_grad_mode(False)

    def __exit__(self, *_: Any) -> None:
        _pf.set_grad_mode(self.before.pop())

    def __call__(self, function: Any) -> Any:
        return _decorated(lambda: inference_mode(self.mode), function)
