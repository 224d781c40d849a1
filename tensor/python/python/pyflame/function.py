"""Functions whose backward pass the program defines."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Tuple

from . import _pyflame as _pf
from ._pyflame import Tensor


class FunctionCtx:
    """What `forward` leaves for `backward`: saved tensors, and any attribute."""

    def __init__(self) -> None:
        self._to_save: Tuple[Optional[Tensor], ...] = ()
        self._constant: List[Tensor] = []
        self._changed: List[Tensor] = []
        self.saved_tensors: Tuple[Optional[Tensor], ...] = ()
        self.needs_input_grad: Tuple[bool, ...] = ()
        self.materialize_grads = True

    def save_for_backward(self, *tensors: Optional[Tensor]) -> None:
        """Keeps inputs, outputs or other tensors; `backward` finds them in `saved_tensors`."""
        self._to_save = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Says that outputs have no gradient."""
        self._constant.extend(tensors)

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Says that `forward` has changed inputs in place; they must be among its outputs."""
        self._changed.extend(tensors)

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` gets zeros instead of None for outputs that have no gradient."""
        self.materialize_grads = value


class Function:
    """A base class for functions with their own backward pass: static methods `forward(ctx, ...)` and `backward(ctx, ...)`.

    `MyFunction.apply(...)` calls `forward`. Instead, `forward(...)` may have no context if there is `setup_context(ctx, inputs,
    output)`. `backward` gets one gradient for each output and returns one, or None, for each argument of `forward`.
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Computes the outputs; no operation in it is recorded."""
        raise NotImplementedError("a Function needs a static method forward")

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Computes the gradients of the arguments."""
        raise NotImplementedError("a Function needs a static method backward")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Calls `forward` and records `backward`."""
        context = FunctionCtx()
        inputs = [(at, value) for at, value in enumerate(args) if isinstance(value, Tensor)]
        context.needs_input_grad = tuple(isinstance(value, Tensor) and value.requires_grad for value in args)
        separate: Optional[Callable[..., None]] = getattr(cls, "setup_context", None)
        with _pf.no_grad():
            made = cls.forward(*args) if separate else cls.forward(context, *args)
            if separate:
                separate(context, args, made)
        single = isinstance(made, Tensor)
        answers = [made] if single else list(made)
        if not _pf.is_grad_enabled() or not any(context.needs_input_grad):
            return made
        places = [
            at for at, value in enumerate(answers)
            if isinstance(value, Tensor) and not any(value is constant for constant in context._constant)
        ]  # fmt: skip
        outputs = [answers[at] for at in places]
        # An input that is returned gets a history of its own.
        given = [value for _, value in inputs]
        outputs = [out.detach() if any(out is value for value in given) else out for out in outputs]
        swapped = {id(answers[at]): out for at, out in zip(places, outputs)}
        saved = [swapped.get(id(value), value) for value in context._to_save if value is not None]
        like = [(tuple(out.shape), out.dtype, out.device) for out in outputs]
        # The backward pass must not hold the outputs, which hold it, nor inputs that were not saved.
        count, arity, wanted = len(answers), len(args), [at for at, _ in inputs]
        present = [value is not None for value in context._to_save]
        changed, context._to_save, context._changed, context._constant = context._changed, (), [], []

        def backward(gradients: List[Optional[Tensor]], kept: List[Tensor]) -> List[Optional[Tensor]]:
            rest = iter(kept)
            context.saved_tensors = tuple(next(rest) if there else None for there in present)
            full: List[Optional[Tensor]] = [None] * count
            for at, gradient, (shape, dtype, device) in zip(places, gradients, like):
                if gradient is None and context.materialize_grads:
                    gradient = _pf.zeros(shape, dtype=dtype, device=device)
                full[at] = gradient
            try:
                found = cls.backward(context, *full)
            finally:
                context.saved_tensors = ()
            found = found if isinstance(found, tuple) else (found,)
            if len(found) < arity or any(extra is not None for extra in found[arity:]):
                raise RuntimeError(f"{cls.__name__}.backward returned {len(found)} gradients for {arity} arguments of forward")
            return [found[at] for at in wanted]

        for at, tensor in zip(places, _pf.custom_function(given, outputs, saved, backward)):
            original = answers[at]
            if any(original is dirty for dirty in changed):
                tensor = original._become(tensor)
            answers[at] = tensor
        return answers[0] if single else tuple(answers)


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """A backward function whose gradients have no gradients themselves."""
    import functools

    @functools.wraps(function)
    def inside(*args: Any) -> Any:
        with _pf.no_grad():
            return function(*args)

    return inside
