"""Container modules."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Dict, ItemsView, Iterable, Iterator, KeysView, Union, ValuesView, overload

from .module import Module
from .parameter import Parameter

if TYPE_CHECKING:
    from .._pyflame import Tensor
    from typing_extensions import Self


class Sequential(Module):
    """Runs modules in sequence: `Sequential(a, b)`, `Sequential([a, b])` or `Sequential(OrderedDict(...))`."""

    def __init__(self, *modules: Union[Module, Iterable[Module], Dict[str, Module]]) -> None:
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], dict):
            for name, module in modules[0].items():
                self.add_module(name, module)
            return
        if len(modules) == 1 and isinstance(modules[0], (list, tuple)):
            self.extend(modules[0])
            return
        for module in modules:
            if not isinstance(module, Module):
                raise TypeError(f"Sequential: expected modules, not {type(module).__name__}")
            self.append(module)

    def forward(self, x: Any) -> Tensor:
        """Computes the result for the given inputs."""
        for module in self._modules.values():
            x = module(x)
        result: Tensor = x
        return result

    def append(self, module: Module) -> Self:
        """Adds one at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Appends all modules."""
        for module in modules:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Inserts a module before another one."""
        _renumber(self, [*self][:index] + [module] + [*self][index:])
        return self

    def __delitem__(self, index: Any) -> None:
        kept = list(self)
        del kept[index]
        _renumber(self, kept)

    def __setitem__(self, index: int, module: Module) -> None:
        self.add_module(list(self._modules)[index], module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    @overload
    def __getitem__(self, index: int) -> Module: ...

    @overload
    def __getitem__(self, index: slice) -> Sequential: ...

    def __getitem__(self, index: Union[int, slice]) -> Module:
        if isinstance(index, slice):
            return Sequential(OrderedDict(list(self._modules.items())[index]))
        return list(self._modules.values())[index]


class ModuleList(Module):
    """A list of submodules."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self.extend(modules)

    def append(self, module: Module) -> Self:
        """Adds one at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Adds several at the end."""
        for module in modules:
            self.append(module)
        return self

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    @overload
    def __getitem__(self, index: int) -> Module: ...

    @overload
    def __getitem__(self, index: slice) -> ModuleList: ...

    def __getitem__(self, index: Union[int, slice]) -> Module:
        if isinstance(index, slice):
            return ModuleList(list(self._modules.values())[index])
        return list(self._modules.values())[index]

    def __setitem__(self, index: int, module: Module) -> None:
        self.add_module(list(self._modules)[index], module)

    def insert(self, index: int, module: Module) -> None:
        """Inserts a module before another one."""
        _renumber(self, [*self][:index] + [module] + [*self][index:])

    def pop(self, index: int) -> Module:
        """Removes and returns a module."""
        modules = list(self)
        removed = modules.pop(index)
        _renumber(self, modules)
        return removed

    def __delitem__(self, index: int) -> None:
        self.pop(index)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])


class ModuleDict(Module):
    """A dictionary of submodules."""

    def __init__(self, modules: Any = ()) -> None:
        super().__init__()
        for name, module in dict(modules).items():
            self.add_module(name, module)

    def __getitem__(self, name: str) -> Module:
        return self._modules[name]

    def __setitem__(self, name: str, module: Module) -> None:
        self.add_module(name, module)

    def __delitem__(self, name: str) -> None:
        del self._modules[name]

    def update(self, modules: Any) -> None:
        """Adds all modules of a dictionary."""
        for name, module in dict(modules).items():
            self.add_module(name, module)

    def pop(self, name: str) -> Module:
        """Removes and returns a module."""
        return self._modules.pop(name)

    def __contains__(self, name: str) -> bool:
        return name in self._modules

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._modules.keys()

    def values(self) -> ValuesView[Module]:
        """The modules."""
        return self._modules.values()

    def items(self) -> ItemsView[str, Module]:
        """Names and modules."""
        return self._modules.items()


class ParameterList(Module):
    """A list of parameters."""

    def __init__(self, parameters: Iterable[Tensor] = ()) -> None:
        super().__init__()
        for parameter in parameters:
            self.append(parameter)

    def append(self, parameter: Tensor) -> Self:
        """Adds one at the end."""
        self.register_parameter(str(len(self)), parameter if isinstance(parameter, Parameter) else Parameter(parameter))
        return self

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parameters.values())

    def __getitem__(self, index: Any) -> Any:
        return list(self._parameters.values())[index]


class ParameterDict(Module):
    """A dictionary of parameters."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self.update(parameters or {})

    def update(self, parameters: Any) -> None:
        """Adds all parameters of a dictionary."""
        for name, parameter in dict(parameters).items():
            self[name] = parameter

    def __getitem__(self, name: str) -> Any:
        return self._parameters[name]

    def __setitem__(self, name: str, parameter: Tensor) -> None:
        self.register_parameter(name, parameter if isinstance(parameter, Parameter) else Parameter(parameter))

    def __contains__(self, name: str) -> bool:
        return name in self._parameters

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._parameters.keys()

    def values(self) -> Any:
        """The parameters."""
        return self._parameters.values()

    def items(self) -> Any:
        """The pairs of names and parameters."""
        return self._parameters.items()


class Identity(Module):
    """Returns its input; constructor arguments are ignored."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        """Computes the result for the given inputs."""
        return x


class Flatten(Module):
    """Merges the axes from `start_dim` to `end_dim` into one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Tensor) -> Tensor:
        """Computes the result for the given inputs."""
        return x.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """The part of the representation between the parentheses."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits one axis into several."""

    def __init__(self, dim: int, unflattened_size: Iterable[int]) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, x: Tensor) -> Tensor:
        """Computes the result for the given inputs."""
        dim = self.dim % x.ndim
        return x.reshape(tuple(x.shape[:dim]) + self.unflattened_size + tuple(x.shape[dim + 1 :]))


def _renumber(container: Module, modules: Iterable[Module]) -> None:
    container._modules.clear()
    for number, module in enumerate(modules):
        container.add_module(str(number), module)
