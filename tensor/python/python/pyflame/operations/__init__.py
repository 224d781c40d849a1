"""Operations that are compositions of those of the core: functions of the package, and methods of tensors."""

from __future__ import annotations

from .._pyflame import Tensor
from . import elementwise, in_place, matrices, random, shapes, statistics, tensors

_FILES = (elementwise, matrices, random, shapes, statistics, tensors)

for _file in _FILES:
    tensors.install({function.__name__: function for function in _file.METHODS})
tensors.install({name: getattr(Tensor, of) for name, of in tensors.SYNONYMS.items()})
for _name, _property in tensors.PROPERTIES.items():
    setattr(Tensor, _name, _property)
tensors.install(in_place._methods())

# The functions of the package, by name.
FUNCTIONS = {function.__name__: function for file in _FILES for function in file.FUNCTIONS}
FUNCTIONS.update((name, getattr(Tensor, name)) for name in tensors.SYNONYMS if name != "resize")
# Some in-place functions are also functions in PyTorch.
FUNCTIONS.update((f"{name}_", getattr(Tensor, f"{name}_")) for name in in_place._ALONE)
FUNCTIONS.update((name, getattr(Tensor, name)) for name in ("clamp_", "zero_", "fill_", "detach_"))
