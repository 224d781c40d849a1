"""Tensors and neural networks on the CPU and on AMD GPUs: local, remote, or a software GPU.

    import pyflame as pf
    pf.set_device('rocm')
    x = pf.randn(32, 784)
    print((x @ x.T).relu().sum())

Operations are recorded lazily and computed together when a result is read; `pf.explain(x)` shows how.
"""

from math import e, inf, nan, pi  # noqa: F401

from . import _pyflame
from ._pyflame import *  # noqa: F401,F403
from ._pyflame import OutOfMemoryError, Tensor, __version__, dtype  # noqa: F401
from . import operations  # noqa: F401  (before all that use the methods that it adds)
from .operations.elementwise import (  # noqa: F401,A004
    addcdiv,
    addcmul,
    angle,
    clamp_max,
    clamp_min,
    complex,
    deg2rad,
    erfc,
    erfinv,
    float_power,
    fmax,
    fmin,
    fmod,
    frac,
    frexp,
    gcd,
    heaviside,
    isneginf,
    isposinf,
    isreal,
    lcm,
    ldexp,
    lerp,
    logaddexp2,
    logit,
    nan_to_num,
    polar,
    positive,
    rad2deg,
    rsub,
    sgn,
    signbit,
    sinc,
    view_as_complex,
    view_as_real,
    xlogy,
)
from .operations.matrices import (  # noqa: F401,A004
    addbmm,
    addmm,
    addmv,
    addr,
    adjoint,
    baddbmm,
    cdist,
    chain_matmul,
    cross,
    det,
    dist,
    ger,
    inner,
    inverse,
    kron,
    logdet,
    mv,
    pinverse,
    slogdet,
    tensordot,
    trapezoid,
    vdot,
)
from .operations.random import (  # noqa: F401,A004
    bernoulli,
    fork_rng,
    initial_seed,
    multinomial,
    normal,
    randint_like,
    randperm,
    seed,
)
from .operations.shapes import (  # noqa: F401,A004
    atleast_1d,
    atleast_2d,
    atleast_3d,
    block_diag,
    broadcast_shapes,
    broadcast_tensors,
    cartesian_prod,
    column_stack,
    combinations,
    diag,
    diag_embed,
    diagflat,
    diagonal_scatter,
    dsplit,
    dstack,
    fliplr,
    flipud,
    hsplit,
    hstack,
    index_add,
    index_copy,
    index_fill,
    index_put,
    masked_scatter,
    moveaxis,
    narrow_copy,
    put,
    renorm,
    rot90,
    scatter_reduce,
    select_scatter,
    slice_scatter,
    split_with_sizes,
    sum_to_size,
    swapdims,
    take_along_dim,
    tensor_split,
    tril_indices,
    triu_indices,
    unflatten,
    vander,
    vsplit,
    vstack,
)
from .operations.statistics import (  # noqa: F401,A004
    aminmax,
    argwhere,
    bincount,
    bucketize,
    corrcoef,
    count_nonzero,
    cov,
    cummax,
    cummin,
    diff,
    histc,
    isin,
    kthvalue,
    logcumsumexp,
    median,
    mode,
    msort,
    nanmean,
    nansum,
    quantile,
    searchsorted,
    std_mean,
    unique_consecutive,
    var_mean,
)
from .operations.tensors import (  # noqa: F401,A004
    empty_strided,
    is_nonzero,
    is_same_size,
    is_signed,
    logspace,
    prelu,
    resolve_conj,
    scalar_tensor,
)
from ._show import set_printoptions  # noqa: F401
from ._size import device  # noqa: F401
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
from . import amp, autograd, backend, cuda, distributed, fft, linalg, nn, optim, profiler, rocm, utils  # noqa: F401,E402
from .amp import autocast, get_autocast_gpu_dtype, is_autocast_enabled  # noqa: F401,E402
from .autograd import inference_mode, set_grad_enabled  # noqa: F401,E402
from .creation import (  # noqa: F401,E402
    BoolTensor,
    ByteTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
    channels_last,
    contiguous_format,
    preserve_format,
    strided,
)

bool_ = _pyflame.bool
float = _pyflame.float32  # noqa: A001
double = _pyflame.float64
half = _pyflame.float16
int = _pyflame.int32  # noqa: A001
long = _pyflame.int64
short = _pyflame.int16

Size = tuple
globals().update(operations.FUNCTIONS)

t = Tensor.t
view = Tensor.view



def concatenate(tensors, dim=0, axis=None):
    """Joins tensors along an axis."""
    return _pyflame.cat(tensors, dim if axis is None else axis)


def numel(tensor):
    """The number of elements."""
    return tensor.nelement()


def _assert(condition, message):
    """An assertion, by the name under which models written for PyTorch call it."""
    assert condition, message


def is_tensor(value):
    """Whether an object is a tensor."""
    return isinstance(value, Tensor)


def is_floating_point(tensor):
    """Whether the elements are real floating-point numbers."""
    return tensor.dtype.is_floating_point


def allclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether all elements are equal within a tolerance."""
    return isclose(a, b, rtol, atol, equal_nan).all().item()


def isclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether each two elements are equal within a tolerance."""
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
    # These are imported on first use.
    if name in ("array_api", "onnx"):
        import importlib

        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'pyflame' has no attribute {name!r}")
