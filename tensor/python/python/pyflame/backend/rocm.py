"""AMD GPUs: memory pools, kernel and tuning caches, graph replay, and fusion."""

from __future__ import annotations

import os
from typing import Any, Optional

from .. import _pyflame as _pf


class _OfDevice:
    """Base of per-GPU objects: the current GPU, or the first if none is current."""

    def __init__(self, device: Optional[str] = None) -> None:
        self._device = device

    def _name(self) -> Any:
        if self._device is not None:
            return self._device if isinstance(self._device, str) else f"rocm:{self._device}"
        current = _pf.get_device()
        return current if current.startswith("rocm") else "rocm:0"


class TuningCache:
    """The fastest alternative of each step on each GPU, for the whole process. Entries are keyed by version, architecture and shape."""

    def enable_exhaustive_search(self, enabled: bool = True) -> None:
        """Enables trying all alternatives of unknown steps, which takes a while the first time.

        For products and convolutions that may be added in any order (`pf.set_matmul_precision`), these include rocBLAS, hipBLASLt
        and MIOpen."""
        _pf.rocm_exhaustive_search(bool(enabled))

    def set_cache_file(self, path: Any) -> None:
        """Loads a file, if it exists, and saves to it from now on. A damaged file counts as empty."""
        _pf.rocm_set_tuning_file(os.fspath(path))

    def clear(self) -> None:
        """Clears all entries, including those in the file."""
        _pf.rocm_clear_tuning()

    def get_stats(self) -> Any:
        """`hits`, `misses`, `entries`, `exhaustive_search`."""
        return _pf.rocm_tuning_stats()


class KernelCache(_OfDevice):
    """Compiled kernels: some are built into the library, others are compiled on first use and cached in a folder."""

    def set_folder(self, path: Any) -> None:
        """Sets the folder of the cache; None disables it."""
        _pf.rocm_set_kernel_cache(None if path is None else os.fspath(path))

    def get_stats(self) -> Any:
        """`built_ahead`, `from_disk`, `compiled`, `compilations`; `launches`: all kernel launches; `interpreted_launches`: those that
        interpret a step because there is no compiler; `library_calls`: matrix products by rocBLAS or hipBLASLt, and convolutions by
        MIOpen; `replayed_launches`: those replayed by `graph_launches` launches of `graphs` captured graphs; `changed_launches`:
        replayed ones whose arguments were updated."""
        return _pf.rocm_kernel_stats(self._name())


class PinnedPool(_OfDevice):
    """Page-locked host memory, from which copies to a GPU are fastest."""

    def acquire(self, size: Any) -> Any:
        """Returns a buffer of at least this many bytes; return it with `release`."""
        return _pf.rocm_pinned_acquire(self._name(), int(size))

    def release(self, buffer: Any) -> None:
        """Gives a buffer back."""
        buffer.release()

    def warmup(self, sizes: Any) -> None:
        """Allocates buffers of these sizes in bytes in advance."""
        _pf.rocm_pinned_warmup(self._name(), [int(size) for size in sizes])

    def clear(self) -> None:
        """Frees what is unused."""
        _pf.rocm_pinned_clear(self._name())

    def get_stats(self) -> Any:
        """The counters."""
        return _pf.rocm_pinned_stats(self._name())


class MemoryManager(_OfDevice):
    """The memory pool of tensors on a GPU."""

    def clear_pool(self) -> None:
        """Returns all memory that no tensor uses to the GPU."""
        _pf.rocm_clear_pool(self._name())

    def get_stats(self) -> Any:
        """`total_allocated`, `peak_allocated`, `total_allocations`, `total_deallocations`, `cache_hits`, `cache_misses`."""
        return _pf.rocm_memory_stats(self._name())

    def reset_stats(self) -> None:
        """Resets the counters."""
        _pf.rocm_reset_memory_stats(self._name())

    def get_memory_info(self) -> Any:
        """Free and total bytes of the GPU."""
        info = _pf.device_info(self._name())
        return info["free_memory"], info["total_memory"]

    def warmup(self, sizes: Any) -> None:
        """Allocates memory in advance."""
        _pf.rocm_warmup(self._name(), [int(size) for size in sizes])


def get_tuning_cache() -> Any:
    """The measured tile sizes."""
    return TuningCache()


def get_kernel_cache(device: Optional[str] = None) -> Any:
    """The cache of compiled kernels."""
    return KernelCache(device)


def get_pinned_pool(device: Optional[str] = None) -> Any:
    """The pool of pinned memory."""
    return PinnedPool(device)


def get_memory_manager(device: Optional[str] = None) -> Any:
    """The pool of device memory."""
    return MemoryManager(device)


def set_graph_replay(enabled: bool = True) -> None:
    """Replays repeated launches, such as those of a training step, as one HIP graph. On by default, unless `PYFLAME_GRAPHS=0`.

    The results are bit-identical: every argument is compared with the graph's, and updated if different, before it runs.
    """
    _pf.rocm_set_graphs(bool(enabled))


def is_graph_replay_enabled() -> Any:
    """Whether launch sequences that repeat are replayed as graphs."""
    return _pf.rocm_graphs()


# Typical elements per example in layers of such models.
_LAYERS = {
    "small": [256, 512, 1024, 784],
    "medium": [1024, 4096, 16384, 65536, 150528],
    "large": [4096, 16384, 65536, 262144, 802816],
}


def warmup_memory_pool(batch_size: int = 32, model_size: str = "small", device: Optional[str] = None) -> None:
    """Allocates memory for the tensors of a model in advance, so that its first run does not wait for memory."""
    if model_size not in _LAYERS:
        raise ValueError(f"model_size must be one of {', '.join(map(repr, _LAYERS))}, not {model_size!r}")
    if batch_size <= 0:
        raise ValueError(f"batch_size must be positive, not {batch_size}")
    MemoryManager(device).warmup([4 * batch_size * elements for elements in _LAYERS[model_size]])


_HEADS = {"matmul", "linear", "bmm", "conv", "conv1d", "conv2d", "conv3d", "sum", "mean", "max", "min"}
_WHOLE = {"softmax", "log_softmax", "layer_norm", "sort", "gather", "scatter_add", "cumsum", "pad", "cat", "stack"}


def can_fuse(*operations: Any) -> Any:
    """Whether this sequence of operations is fused into one launch: `can_fuse('matmul', 'add', 'relu')`.

    A chain of elementwise operations is; so are elementwise operations after a product, a convolution or a reduction. `pf.explain`
    shows the launches for actual tensors.
    """
    if len(operations) == 1 and not isinstance(operations[0], str):
        operations = tuple(operations[0])
    names = [name.lower().replace("batchnorm", "batch_norm").replace("bias", "add") for name in operations]
    if not names or any(name in _WHOLE for name in names):
        return False
    return not any(name in _HEADS for name in names[1:])
