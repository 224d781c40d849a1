"""A tensor that a module owns and an optimizer updates."""

from .._pyflame import Tensor, from_parts


class Parameter(Tensor):
    """A leaf tensor; modules register it when it is set as an attribute."""

    def __new__(cls, data, requires_grad=True):
        return Tensor.__new__(cls, data, requires_grad=requires_grad)

    def __repr__(self):
        return "Parameter containing:\n" + Tensor.__repr__(self)

    def __reduce__(self):
        return _rebuild, (self.to_parts(), self.requires_grad)

    def __deepcopy__(self, memo):
        copy = Parameter(self.detach().clone(), self.requires_grad)
        memo[id(self)] = copy
        return copy


def _rebuild(parts, requires_grad):
    return Parameter(from_parts(*parts), requires_grad)
