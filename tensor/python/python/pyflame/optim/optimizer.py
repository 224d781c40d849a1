"""The base class of all optimizers."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Callable, DefaultDict, Dict, Iterable, List, Optional, Tuple

from .. import _pyflame as _pf

if TYPE_CHECKING:
    from .._pyflame import Tensor


class Optimizer:
    """Updates parameters by their gradients.

    A step only records the new values and submits their computation; it does not wait. Numbers that change from step to step (learning
    rate, bias corrections) are passed as tiny tensors, so that every step compiles to the same program.
    """

    def __init__(self, params: Iterable[Any], defaults: Dict[str, Any]) -> None:
        self.defaults = defaults
        self.state: DefaultDict[Any, Dict[str, Any]] = defaultdict(dict)
        self.param_groups: List[Dict[str, Any]] = []
        self._numbers: Dict[Any, Tuple[Any, Tensor]] = {}
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, group: Dict[str, Any]) -> None:
        """Adds parameters with options of their own."""
        group = dict(group)
        params = group["params"]
        group["params"] = [params] if isinstance(params, _pf.Tensor) else list(params)
        known = {id(p) for other in self.param_groups for p in other["params"]}
        for parameter in group["params"]:
            if not isinstance(parameter, _pf.Tensor):
                raise TypeError(f"an optimizer updates tensors, not {type(parameter).__name__}")
            if not parameter.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor")
            if id(parameter) in known:
                raise ValueError("some parameters appear in more than one parameter group")
        for name, value in self.defaults.items():
            group.setdefault(name, value)
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Removes the gradients of all parameters."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if set_to_none or parameter.grad is None:
                    parameter.grad = None
                else:
                    parameter.grad.detach().zero_()

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Takes one step."""
        loss = None
        if closure is not None:
            with _pf.enable_grad():
                loss = closure()
        with _pf.no_grad():
            changed = []
            for group in self.param_groups:
                for parameter in group["params"]:
                    gradient = parameter.grad
                    if gradient is None:
                        continue
                    if group.get("maximize"):
                        gradient = -gradient
                    state = self.state[parameter]
                    parameter.copy_(self._update(parameter.detach(), gradient, state, group))
                    changed.append(parameter)
                    changed.extend(value for value in state.values() if isinstance(value, _pf.Tensor))
            if changed:
                _pf.eval(*changed)
        return loss

    def _update(self, value: Tensor, gradient: Tensor, state: Dict[str, Any], group: Dict[str, Any]) -> Tensor:
        """Returns the parameter's new value, and updates `state`."""
        raise NotImplementedError

    def _number(self, name: str, value: Any, like: Tensor) -> Tensor:
        """A number as a tensor with the type and device of `like`; cached as long as the number stays the same."""
        key = (name, like.device, like.dtype)
        known = self._numbers.get(key)
        if known is None or known[0] != value:
            known = (value, _pf.tensor(value, dtype=like.dtype, device=like.device))
            self._numbers[key] = known
        return known[1]

    def _cycled(self, name: str, value: Any, like: Tensor, group: Dict[str, Any]) -> Any:
        """A number that only changes if a scheduler cycles it (OneCycleLR)."""
        return self._number(name, value, like) if "max_momentum" in group else value

    def state_dict(self) -> Dict[str, Any]:
        """The state, to save and restore."""
        numbers: Dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            packed = {name: value for name, value in group.items() if name != "params"}
            packed["params"] = []
            for parameter in group["params"]:
                numbers.setdefault(id(parameter), len(numbers))
                packed["params"].append(numbers[id(parameter)])
            groups.append(packed)
        state = {numbers[id(parameter)]: dict(values) for parameter, values in self.state.items() if values}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Restores a state that `state_dict` returned."""
        groups = state_dict["param_groups"]
        if [len(g["params"]) for g in groups] != [len(g["params"]) for g in self.param_groups]:
            raise ValueError("load_state_dict: the parameter groups do not match those of this optimizer")
        by_number: Dict[int, Any] = {}
        for own, given in zip(self.param_groups, groups):
            by_number.update(zip(given["params"], own["params"]))
            own.update({name: value for name, value in given.items() if name != "params"})
        self.state = defaultdict(dict)
        for number, values in state_dict["state"].items():
            parameter = by_number[number]
            self.state[parameter] = {
                name: value.to(parameter.device) if isinstance(value, _pf.Tensor) else value
                for name, value in values.items()
            }

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for index, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {index}")
            lines.extend(f"    {name}: {value}" for name, value in sorted(group.items()) if name != "params")
        return "\n".join(lines + [")"])


def positive(name: str, value: float, below: Optional[float] = None) -> float:
    """Returns the value if it is valid."""
    if not value >= 0.0 or (below is not None and not value < below):
        raise ValueError(f"Invalid {name}: {value}")
    return value
