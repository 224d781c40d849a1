"""Container modules."""

from collections import OrderedDict

from .module import Module
from .parameter import Parameter


class Sequential(Module):
    """Runs modules in sequence: `Sequential(a, b)`, `Sequential([a, b])` or `Sequential(OrderedDict(...))`."""

    def __init__(self, *modules):
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], dict):
            for name, module in modules[0].items():
                self.add_module(name, module)
            return
        if len(modules) == 1 and isinstance(modules[0], (list, tuple)):
            modules = modules[0]
        for index, module in enumerate(modules):
            self.add_module(str(index), module)

    def forward(self, x):
        """Computes the result for the given inputs."""
        for module in self._modules.values():
            x = module(x)
        return x

    def append(self, module):
        """Adds one at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules):
        """Appends all modules."""
        for module in modules:
            self.append(module)
        return self

    def insert(self, index, module):
        """Inserts a module before another one."""
        _renumber(self, [*self][:index] + [module] + [*self][index:])
        return self

    def __delitem__(self, index):
        kept = list(self)
        del kept[index]
        _renumber(self, kept)

    def __setitem__(self, index, module):
        self.add_module(list(self._modules)[index], module)

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __getitem__(self, index):
        if isinstance(index, slice):
            return Sequential(OrderedDict(list(self._modules.items())[index]))
        return list(self._modules.values())[index]


class ModuleList(Module):
    """A list of submodules."""

    def __init__(self, modules=()):
        super().__init__()
        self.extend(modules)

    def append(self, module):
        """Adds one at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules):
        """Adds several at the end."""
        for module in modules:
            self.append(module)
        return self

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __getitem__(self, index):
        if isinstance(index, slice):
            return ModuleList(list(self._modules.values())[index])
        return list(self._modules.values())[index]

    def __setitem__(self, index, module):
        self.add_module(list(self._modules)[index], module)

    def insert(self, index, module):
        """Inserts a module before another one."""
        _renumber(self, [*self][:index] + [module] + [*self][index:])

    def pop(self, index):
        """Removes and returns a module."""
        modules = list(self)
        removed = modules.pop(index)
        _renumber(self, modules)
        return removed

    def __delitem__(self, index):
        self.pop(index)

    def __add__(self, other):
        return ModuleList([*self, *other])


class ModuleDict(Module):
    """A dictionary of submodules."""

    def __init__(self, modules=()):
        super().__init__()
        for name, module in dict(modules).items():
            self.add_module(name, module)

    def __getitem__(self, name):
        return self._modules[name]

    def __setitem__(self, name, module):
        self.add_module(name, module)

    def __delitem__(self, name):
        del self._modules[name]

    def update(self, modules):
        """Adds all modules of a dictionary."""
        for name, module in dict(modules).items():
            self.add_module(name, module)

    def pop(self, name):
        """Removes and returns a module."""
        return self._modules.pop(name)

    def __contains__(self, name):
        return name in self._modules

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def keys(self):
        """The names."""
        return self._modules.keys()

    def values(self):
        """The modules."""
        return self._modules.values()

    def items(self):
        """Names and modules."""
        return self._modules.items()


class ParameterList(Module):
    """A list of parameters."""

    def __init__(self, parameters=()):
        super().__init__()
        for parameter in parameters:
            self.append(parameter)

    def append(self, parameter):
        """Adds one at the end."""
        if not isinstance(parameter, Parameter):
            parameter = Parameter(parameter)
        self.register_parameter(str(len(self)), parameter)
        return self

    def __len__(self):
        return len(self._parameters)

    def __iter__(self):
        return iter(self._parameters.values())

    def __getitem__(self, index):
        return list(self._parameters.values())[index]


class ParameterDict(Module):
    """A dictionary of parameters."""

    def __init__(self, parameters=None):
        super().__init__()
        self.update(parameters or {})

    def update(self, parameters):
        """Adds all parameters of a dictionary."""
        for name, parameter in dict(parameters).items():
            self[name] = parameter

    def __getitem__(self, name):
        return self._parameters[name]

    def __setitem__(self, name, parameter):
        self.register_parameter(name, parameter if isinstance(parameter, Parameter) else Parameter(parameter))

    def __contains__(self, name):
        return name in self._parameters

    def __len__(self):
        return len(self._parameters)

    def __iter__(self):
        return iter(self._parameters)

    def keys(self):
        """The names."""
        return self._parameters.keys()

    def values(self):
        """The parameters."""
        return self._parameters.values()

    def items(self):
        """The pairs of names and parameters."""
        return self._parameters.items()


class Identity(Module):
    """Returns its input; constructor arguments are ignored."""

    def __init__(self, *_, **__):
        super().__init__()

    def forward(self, x):
        """Computes the result for the given inputs."""
        return x


class Flatten(Module):
    """Merges the axes from `start_dim` to `end_dim` into one."""

    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x):
        """Computes the result for the given inputs."""
        return x.flatten(self.start_dim, self.end_dim)

    def extra_repr(self):
        """The part of the representation between the parentheses."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits one axis into several."""

    def __init__(self, dim, unflattened_size):
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, x):
        """Computes the result for the given inputs."""
        dim = self.dim % x.ndim
        return x.reshape(tuple(x.shape[:dim]) + self.unflattened_size + tuple(x.shape[dim + 1 :]))


def _renumber(container, modules):
    container._modules.clear()
    for number, module in enumerate(modules):
        container.add_module(str(number), module)
