"""Tensors and neural networks on the CPU and on AMD GPUs: local, remote, or a software GPU.

    import pyflame as pf
    pf.set_device('rocm')
    x = pf.randn(32, 784)
    print((x @ x.T).relu().sum())

Operations are recorded lazily and computed together when a result is read; `pf.explain(x)` shows how.
"""

from . import _pyflame
from ._pyflame import *  # noqa: F401,F403
from ._pyflame import OutOfMemoryError, Tensor, __version__, dtype  # noqa: F401
from ._show import set_printoptions  # noqa: F401
from .creation import as_tensor, asarray, finfo, from_numpy, iinfo, meshgrid  # noqa: F401
from .devices import (  # noqa: F401
    device_count,
    rocm_get_device,
    rocm_get_device_info,
    rocm_is_available,
    rocm_set_device,
    rocm_synchronize,
)
from .graph import get_graph, print_graph  # noqa: F401
from .serialization import load, save  # noqa: F401
from . import autograd, backend, fft, linalg, nn, optim, profiler  # noqa: F401,E402
from .autograd import set_grad_enabled  # noqa: F401

bool_ = _pyflame.bool
float = _pyflame.float32  # noqa: A001
double = _pyflame.float64
half = _pyflame.float16
int = _pyflame.int32  # noqa: A001
long = _pyflame.int64
short = _pyflame.int16

div = divide = true_divide = Tensor.div
sub = subtract = Tensor.sub
t = Tensor.t
view = Tensor.view



def concatenate(tensors, dim=0, axis=None):
    return _pyflame.cat(tensors, dim if axis is None else axis)


def numel(tensor):
    return tensor.nelement()


def is_tensor(value):
    return isinstance(value, Tensor)


def is_floating_point(tensor):
    return tensor.dtype.is_floating_point


def allclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether all elements are equal within a tolerance."""
    return isclose(a, b, rtol, atol, equal_nan).all().item()


def isclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        raise TypeError(f"isclose: expected two tensors, not {type(a).__name__} and {type(b).__name__}")
    if a.dtype != b.dtype:
        raise TypeError(f"isclose: the tensors have different types, {a.dtype.name} and {b.dtype.name}")
    if rtol < 0 or atol < 0:
        raise ValueError(f"isclose: rtol and atol must not be negative, got {rtol} and {atol}")
    same = a == b
    if not (a.dtype.is_floating_point or a.dtype.is_complex):
        if a.dtype == bool_ or (rtol == 0 and atol == 0):
            return same
        a, b = a.to(_pyflame.float64), b.to(_pyflame.float64)
    near = same | (((a - b).abs() <= b.abs() * rtol + atol) & b.isfinite())
    return near | (a.isnan() & b.isnan()) if equal_nan else near


def equal(a, b):
    """Whether shape and elements are equal."""
    return tuple(a.shape) == tuple(b.shape) and (a == b).all().item()


def __getattr__(name):
    # The array API namespace is imported on first use.
    if name == "array_api":
        import importlib

        return importlib.import_module(".array_api", __name__)
    raise AttributeError(f"module 'pyflame' has no attribute {name!r}")
