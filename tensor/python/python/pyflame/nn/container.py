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
        for module in self._modules.values():
            x = module(x)
        return x

    def append(self, module):
        self.add_module(str(len(self)), module)
        return self

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
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules):
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

    def __contains__(self, name):
        return name in self._modules

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def keys(self):
        return self._modules.keys()

    def values(self):
        return self._modules.values()

    def items(self):
        return self._modules.items()


class ParameterList(Module):
    """A list of parameters."""

    def __init__(self, parameters=()):
        super().__init__()
        for parameter in parameters:
            self.append(parameter)

    def append(self, parameter):
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


class Identity(Module):
    """Returns its input; constructor arguments are ignored."""

    def __init__(self, *_, **__):
        super().__init__()

    def forward(self, x):
        return x


class Flatten(Module):
    """Merges the axes from `start_dim` to `end_dim` into one."""

    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x):
        return x.flatten(self.start_dim, self.end_dim)

    def extra_repr(self):
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits one axis into several."""

    def __init__(self, dim, unflattened_size):
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, x):
        dim = self.dim % x.ndim
        return x.reshape(tuple(x.shape[:dim]) + self.unflattened_size + tuple(x.shape[dim + 1 :]))
