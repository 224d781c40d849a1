"""A module that computes on several GPUs of one process."""

import copy

from ... import _pyflame as _pf
from ..module import Module


def replicate(module, device):
    """A copy of a module on a device. Its parameters are copies of the module's, so gradients flow back to these."""

    def moved(tensor):
        return None if tensor is None else tensor.to(device)

    replica = copy.copy(module)
    own = dict(module.__dict__)
    own["_parameters"] = {name: moved(value) for name, value in module._parameters.items()}
    own["_buffers"] = {name: moved(value) for name, value in module._buffers.items()}
    own["_modules"] = {
        name: None if value is None else replicate(value, device) for name, value in module._modules.items()
    }
    replica.__dict__.clear()
    replica.__dict__.update(own)
    return replica


class DataParallel(Module):
    """Splits a batch among GPUs, each of which has a replica of the module, and joins the results on the first.

    Gradients arrive at the module's own parameters, on the first device. Changes that a replica makes to buffers, such as running
    statistics, are kept on the first device only. `device_ids` are numbers of GPUs or names of devices; by default all GPUs.
    """

    def __init__(self, module, device_ids=None, dim=0):
        super().__init__()
        if device_ids is None:
            device_ids = range(_pf.rocm_device_count())
        self.devices = [f"rocm:{device}" if isinstance(device, int) else str(device) for device in device_ids]
        if not self.devices:
            raise ValueError("DataParallel: there are no GPUs; pass the names of devices")
        if len(set(self.devices)) != len(self.devices):
            raise ValueError(f"DataParallel: each device may be named once, not {self.devices}")
        self.dim = dim
        self.module = module.to(self.devices[0])

    def _parts(self, value):
        """The value for each device: parts of tensors, and anything else as it is."""
        if isinstance(value, _pf.Tensor) and value.ndim > 0:
            length = value.shape[self.dim]
            count = min(len(self.devices), max(length, 1))
            bounds = [length * number // count for number in range(count + 1)]
            parts = [value.narrow(self.dim, start, end - start) for start, end in zip(bounds, bounds[1:])]
            return [part.to(device) for part, device in zip(parts, self.devices)]
        if isinstance(value, (list, tuple)):
            return [type(value)(part) for part in zip(*(self._parts(part) for part in value))]
        if isinstance(value, dict):
            parts = {key: self._parts(part) for key, part in value.items()}
            return [dict(zip(parts, part)) for part in zip(*parts.values())]
        return [value] * len(self.devices)

    def _join(self, parts):
        first = parts[0]
        if isinstance(first, _pf.Tensor):
            parts = [part.to(self.devices[0]) for part in parts]
            return _pf.cat([part.reshape(1) if part.ndim == 0 else part for part in parts], self.dim if first.ndim else 0)
        if isinstance(first, (list, tuple)):
            return type(first)(self._join(part) for part in zip(*parts))
        if isinstance(first, dict):
            return {key: self._join([part[key] for part in parts]) for key in first}
        raise TypeError(f"DataParallel: results must be tensors, not {type(first).__name__}")

    def forward(self, *inputs, **named):
        """Computes each part of the batch on a GPU of its own and joins the results."""
        given = list(zip(self._parts(inputs) if inputs else [()] * len(self.devices), self._parts(named) if named else [{}] * len(self.devices)))
        if not inputs and not named:
            return self.module()
        results = []
        # Every replica's work is submitted before the result of any is read, so the GPUs compute at the same time.
        for number, ((inputs, named), device) in enumerate(zip(given, self.devices)):
            replica = self.module if number == 0 else replicate(self.module, device)
            results.append(replica(*inputs, **named))
        return results[0] if len(results) == 1 else self._join(results)
