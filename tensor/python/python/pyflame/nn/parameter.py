"""A tensor that a module owns and an optimizer updates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Tuple

from .._pyflame import Tensor, from_parts

if TYPE_CHECKING:
    from typing_extensions import Self


class Parameter(Tensor):
    """A leaf tensor; modules register it when it is set as an attribute."""

    def __new__(cls, data: Any, requires_grad: bool = True) -> Self:
        return Tensor.__new__(cls, data, requires_grad=requires_grad)

    def __repr__(self) -> str:
        return "Parameter containing:\n" + Tensor.__repr__(self)

    def __reduce__(self) -> Any:
        return _rebuild, (self.to_parts(), self.requires_grad)

    def __deepcopy__(self, memo: Dict[int, Any]) -> Parameter:
        copy = Parameter(self.detach().clone(), self.requires_grad)
        memo[id(self)] = copy
        return copy


def _rebuild(parts: Tuple[Any, ...], requires_grad: bool) -> Parameter:
    return Parameter(from_parts(*parts), requires_grad)
