"""A module that is trained by the processes of a group."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from ... import _pyflame as _pf
from ... import distributed as dist
from ..._pyflame import Tensor
from ..module import Module

# Gradients are sent in runs of about this many elements.
BUCKET = 1 << 22


class DistributedDataParallel(Module):
    """Keeps the replicas of a module equal: all begin with the parameters of process 0, and average their gradients.

    Call `average_gradients()` between `loss.backward()` and the optimizer's step. Every process gets the same bits.
    """

    def __init__(self, module: Module, bucket: int = BUCKET) -> None:
        super().__init__()
        if not dist.is_initialized():
            raise RuntimeError("DistributedDataParallel: call pyflame.distributed.init_process_group first")
        self.module, self.bucket = module, bucket
        for tensor in [*module.parameters(), *module.buffers()]:
            dist.broadcast(tensor.data)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        return self.module(*inputs, **named)

    def average_gradients(self) -> None:
        """Replaces every gradient by its mean over the processes. One that a process does not have counts as zero there."""
        parameters = [parameter for parameter in self.module.parameters() if parameter.requires_grad]
        for run in _runs(parameters, self.bucket):
            grads = [_pf.zeros_like(parameter.data) if parameter.grad is None else parameter.grad for parameter in run]
            flat = dist.all_reduce(_pf.cat([grad.detach().reshape(-1) for grad in grads]), "avg")
            start = 0
            for parameter, grad in zip(run, grads):
                end = start + grad.nelement()
                parameter.grad = flat[start:end].reshape(grad.shape)
                start = end


def _runs(parameters: Sequence[Tensor], most: int) -> List[List[Tensor]]:
    """Parameters of one type and device, in runs of about so many elements."""
    runs: Dict[Tuple[str, str], Tuple[List[List[Tensor]], List[int]]] = {}
    for parameter in parameters:
        run, count = runs.setdefault((parameter.dtype.name, str(parameter.device)), ([[]], [0]))
        if count[0] > 0 and count[0] + parameter.nelement() > most:
            run.append([])
            count[0] = 0
        run[-1].append(parameter)
        count[0] += parameter.nelement()
    return [run for runs_of_type, _ in runs.values() for run in runs_of_type]
