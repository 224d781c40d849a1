"""AMD GPUs: memory pools, compiled kernels, and what is fused with what."""

import os

from .. import _pyflame as _pf


class _OfDevice:
    """Something of one GPU: the current one, or the first if none is current."""

    def __init__(self, device=None):
        self._device = device

    def _name(self):
        if self._device is not None:
            return self._device if isinstance(self._device, str) else f"rocm:{self._device}"
        current = _pf.get_device()
        return current if current.startswith("rocm") else "rocm:0"


class TuningCache:
    """Which way of doing a step is fastest on which GPU, for the whole process. Entries are keyed by version, architecture and shape."""

    def enable_exhaustive_search(self, enabled=True):
        """Whether steps that are not known yet are tried in all ways, which takes a while the first time. All ways give the same bits."""
        _pf.rocm_exhaustive_search(bool(enabled))

    def set_cache_file(self, path):
        """Reads a file, if there is one, and writes it from now on. A damaged one counts as empty."""
        _pf.rocm_set_tuning_file(os.fspath(path))

    def clear(self):
        """Forgets everything, in the file too."""
        _pf.rocm_clear_tuning()

    def get_stats(self):
        """`hits`, `misses`, `entries`, `exhaustive_search`."""
        return _pf.rocm_tuning_stats()


class KernelCache(_OfDevice):
    """Compiled kernels: some come with the library, others are compiled when they are first needed and kept in a folder."""

    def set_folder(self, path):
        """Where they are kept from now on; None keeps none."""
        _pf.rocm_set_kernel_cache(None if path is None else os.fspath(path))

    def get_stats(self):
        """`built_ahead`, `from_disk`, `compiled`, `compilations`; `launches` of all kernels; of those, `replayed_launches` in `graph_launches` of `graphs`,
        `changed_launches` of them with other arguments than the time before."""
        return _pf.rocm_kernel_stats(self._name())


class PinnedPool(_OfDevice):
    """Page-locked memory of this machine, from which copies to a GPU are fastest."""

    def acquire(self, size):
        """A buffer of at least so many bytes; give it back with `release`."""
        return _pf.rocm_pinned_acquire(self._name(), int(size))

    def release(self, buffer):
        buffer.release()

    def warmup(self, sizes):
        """Makes room for buffers of these sizes in bytes now."""
        _pf.rocm_pinned_warmup(self._name(), [int(size) for size in sizes])

    def clear(self):
        _pf.rocm_pinned_clear(self._name())

    def get_stats(self):
        return _pf.rocm_pinned_stats(self._name())


class MemoryManager(_OfDevice):
    """The pool from which tensors on a GPU get their memory."""

    def clear_pool(self):
        """Gives everything that no tensor uses back to the GPU."""
        _pf.rocm_clear_pool(self._name())

    def get_stats(self):
        """`total_allocated`, `peak_allocated`, `total_allocations`, `total_deallocations`, `cache_hits`, `cache_misses`."""
        return _pf.rocm_memory_stats(self._name())

    def reset_stats(self):
        _pf.rocm_reset_memory_stats(self._name())

    def get_memory_info(self):
        """Free and total bytes of the GPU."""
        info = _pf.device_info(self._name())
        return info["free_memory"], info["total_memory"]

    def warmup(self, sizes):
        _pf.rocm_warmup(self._name(), [int(size) for size in sizes])


def get_tuning_cache():
    return TuningCache()


def get_kernel_cache(device=None):
    return KernelCache(device)


def get_pinned_pool(device=None):
    return PinnedPool(device)


def get_memory_manager(device=None):
    return MemoryManager(device)


def set_graph_replay(enabled=True):
    """Whether launches that come again, as those of a training step do, are begun all at once, as a HIP graph. They are unless `PYFLAME_GRAPHS=0`.

    The results are the same bit by bit; every argument is compared with what the graph has before it runs.
    """
    _pf.rocm_set_graphs(bool(enabled))


def is_graph_replay_enabled():
    return _pf.rocm_graphs()


# Elements per example that layers of such models usually have.
_LAYERS = {
    "small": [256, 512, 1024, 784],
    "medium": [1024, 4096, 16384, 65536, 150528],
    "large": [4096, 16384, 65536, 262144, 802816],
}


def warmup_memory_pool(batch_size=32, model_size="small", device=None):
    """Makes room for the tensors of a model now, so that its first run need not wait for memory."""
    if model_size not in _LAYERS:
        raise ValueError(f"model_size is one of {', '.join(map(repr, _LAYERS))}, not {model_size!r}")
    if batch_size <= 0:
        raise ValueError(f"batch_size must be positive, not {batch_size}")
    MemoryManager(device).warmup([4 * batch_size * elements for elements in _LAYERS[model_size]])


_HEADS = {"matmul", "linear", "bmm", "conv", "conv1d", "conv2d", "conv3d", "sum", "mean", "max", "min"}
_WHOLE = {"softmax", "log_softmax", "layer_norm", "sort", "gather", "scatter_add", "cumsum", "pad", "cat", "stack"}


def can_fuse(*operations):
    """Whether these operations, one after another, become one launch: `can_fuse('matmul', 'add', 'relu')`.

    A chain of elementwise operations does; so does one that follows a product, a convolution or a reduction. `pf.explain` tells what was
    made of real tensors.
    """
    if len(operations) == 1 and not isinstance(operations[0], str):
        operations = tuple(operations[0])
    names = [name.lower().replace("batchnorm", "batch_norm").replace("bias", "add") for name in operations]
    if not names or any(name in _WHOLE for name in names):
        return False
    return not any(name in _HEADS for name in names[1:])
