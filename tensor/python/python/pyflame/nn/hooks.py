"""Hooks of modules in backward passes."""

from __future__ import annotations

from typing import Any, Callable, List, Tuple

from .. import _pyflame as _pf
from .._pyflame import Tensor

Hook = Callable[[Any, Tuple[Any, ...], Tuple[Any, ...]], Any]


def _through(values: Tuple[Any, ...], seen: Callable[[List[Any]], Any]) -> Tuple[Any, ...]:
    """The values unchanged; in backward passes, `seen` gets the gradients of all tensors at once and may return others."""
    places = [at for at, value in enumerate(values) if isinstance(value, Tensor) and value.requires_grad]
    if not places or not _pf.is_grad_enabled():
        return values
    inputs = [values[at] for at in places]

    def backward(gradients: List[Any], saved: List[Tensor]) -> List[Any]:
        whole: List[Any] = [None] * len(values)
        for at, gradient, tensor in zip(places, gradients, inputs):
            whole[at] = _pf.zeros_like(tensor) if gradient is None else gradient
        changed = seen(whole)
        return [whole[at] if changed is None else changed[at] for at in places]

    made = list(values)
    for at, tensor in zip(places, _pf.custom_function(inputs, [tensor.detach() for tensor in inputs], [], backward)):
        made[at] = tensor
    return tuple(made)


class _Watch:
    """The two ends of a module: what flows into its outputs and out of its inputs."""

    def __init__(self, hook: Hook) -> None:
        self.hook = hook
        self.outputs: Tuple[Any, ...] = ()

    def before(self, module: Any, inputs: Tuple[Any, ...]) -> Tuple[Any, ...]:
        def seen(gradients: List[Any]) -> Any:
            changed = self.hook(module, tuple(gradients), self.outputs)
            return changed if changed is None or isinstance(changed, tuple) else (changed,)

        return _through(inputs, seen)

    def after(self, module: Any, inputs: Tuple[Any, ...], output: Any) -> Any:
        def seen(gradients: List[Any]) -> None:
            self.outputs = tuple(gradients)

        single = isinstance(output, Tensor)
        made = _through((output,) if single else tuple(output), seen)
        return made[0] if single else made


class Both:
    """Removes two hooks."""

    def __init__(self, *handles: Any) -> None:
        self.handles = handles

    def remove(self) -> None:
        """Removes them."""
        for handle in self.handles:
            handle.remove()


def watch(module: Any, hook: Hook) -> Both:
    """Registers a hook for the gradients of a module's inputs and outputs."""
    ends = _Watch(hook)
    return Both(module.register_forward_pre_hook(ends.before), module.register_forward_hook(ends.after))

