"""Gradient checkpoints: parts of a network that are computed again in the backward pass instead of being kept in memory."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Tuple

from .. import _pyflame as _pf
from .._pyflame import Tensor

__all__ = ["checkpoint", "checkpoint_sequential"]


def checkpoint(
    function: Callable[..., Any], *args: Any, use_reentrant: Optional[bool] = None, preserve_rng_state: bool = True, **kwargs: Any
) -> Any:
    """Calls a function without keeping what its backward pass needs, and calls it again in the backward pass.

    Gradients flow to the tensors among the arguments, and to leaves (parameters) that the function uses; pass all other tensors that
    require gradients as arguments. The random numbers are the same both times unless `preserve_rng_state` is false. `use_reentrant`
    makes no difference.
    """
    if not _pf.is_grad_enabled():
        return function(*args, **kwargs)
    state, autocast = _pf.get_rng_state(), _pf.get_autocast()
    with _pf.no_grad():
        made = function(*args, **kwargs)
    single = isinstance(made, Tensor)
    answers: List[Any] = [made] if single else list(made)
    places = [at for at, value in enumerate(answers) if isinstance(value, Tensor) and value.dtype.is_floating_point]
    given = [value for value in args if isinstance(value, Tensor)]
    # Parameters are no arguments; this makes the outputs require a gradient even if no argument does.
    always = _pf.zeros(1, requires_grad=True)

    def backward(gradients: List[Optional[Tensor]], kept: List[Tensor]) -> List[Optional[Tensor]]:
        rest = iter(kept)
        again: List[Any] = []
        leaves: List[Optional[Tensor]] = []
        for value in args:
            if isinstance(value, Tensor):
                needs, value = value.requires_grad, next(rest).detach()
                if needs:
                    value.requires_grad_()
                leaves.append(value if needs else None)
            again.append(value)
        now, mode = _pf.get_rng_state(), _pf.set_autocast(autocast)
        if preserve_rng_state:
            _pf.set_rng_state(state)
        try:
            with _pf.enable_grad():
                redone = function(*again, **kwargs)
        finally:
            _pf.set_autocast(mode)
            if preserve_rng_state:
                _pf.set_rng_state(now)
        outputs = [redone] if isinstance(redone, Tensor) else list(redone)
        pairs = [(outputs[at], gradient) for at, gradient in zip(places, gradients) if gradient is not None]
        pairs = [(output, gradient) for output, gradient in pairs if output.requires_grad]
        wanted = [leaf for leaf in leaves if leaf is not None]
        found = iter(_pf.backward_within([output for output, _ in pairs], [gradient for _, gradient in pairs], wanted))
        return [None if leaf is None else next(found) for leaf in leaves] + [None]

    outputs = _pf.custom_function([*given, always], [answers[at] for at in places], given, backward)
    for at, output in zip(places, outputs):
        answers[at] = output
    return answers[0] if single else tuple(answers)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: Optional[bool] = None, preserve_rng_state: bool = True
) -> Any:
    """Calls functions one after the other, in segments of which only the ends are kept; the last segment is kept whole."""
    steps = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = max(len(steps) // segments, 1)

    def run(part: List[Callable[..., Any]]) -> Callable[..., Any]:
        def of(value: Any) -> Any:
            for step in part:
                value = step(value)
            return value

        return of

    bounds: List[Tuple[int, int]] = [(at * size, (at + 1) * size) for at in range(segments - 1)]
    for start, end in bounds:
        input = checkpoint(run(steps[start:end]), input, preserve_rng_state=preserve_rng_state)
    return run(steps[(segments - 1) * size :])(input)
