"""Tensors and neural networks on the CPU and on AMD GPUs: local, remote, or a software GPU.

    import pyflame as pf
    pf.set_device('rocm')
    x = pf.randn(32, 784)
    print((x @ x.T).relu().sum())

Operations are recorded lazily and computed together when a result is read; `pf.explain(x)` shows how.
"""

import builtins as _builtins
import typing as _typing
from math import e as e, inf as inf, nan as nan, pi as pi  # noqa: F401

from . import _pyflame
from ._pyflame import *  # noqa: F401,F403
from ._pyflame import (  # noqa: F401
    OutOfMemoryError as OutOfMemoryError,
    Tensor as Tensor,
    __version__,
    dtype as dtype,
)
from . import operations as operations  # noqa: F401  (before all that use the methods that it adds)
from .operations.elementwise import (  # noqa: F401,A004
    addcdiv as addcdiv,
    addcmul as addcmul,
    angle as angle,
    clamp_max as clamp_max,
    clamp_min as clamp_min,
    complex as complex,
    deg2rad as deg2rad,
    erfc as erfc,
    erfinv as erfinv,
    float_power as float_power,
    fmax as fmax,
    fmin as fmin,
    fmod as fmod,
    frac as frac,
    frexp as frexp,
    gcd as gcd,
    heaviside as heaviside,
    isneginf as isneginf,
    isposinf as isposinf,
    isreal as isreal,
    lcm as lcm,
    ldexp as ldexp,
    lerp as lerp,
    logaddexp2 as logaddexp2,
    logit as logit,
    nan_to_num as nan_to_num,
    polar as polar,
    positive as positive,
    rad2deg as rad2deg,
    rsub as rsub,
    sgn as sgn,
    signbit as signbit,
    sinc as sinc,
    view_as_complex as view_as_complex,
    view_as_real as view_as_real,
    xlogy as xlogy,
)
from .operations.matrices import (  # noqa: F401,A004
    addbmm as addbmm,
    addmm as addmm,
    addmv as addmv,
    addr as addr,
    adjoint as adjoint,
    baddbmm as baddbmm,
    cdist as cdist,
    chain_matmul as chain_matmul,
    cross as cross,
    det as det,
    dist as dist,
    ger as ger,
    inner as inner,
    inverse as inverse,
    kron as kron,
    logdet as logdet,
    mv as mv,
    pinverse as pinverse,
    slogdet as slogdet,
    tensordot as tensordot,
    trapezoid as trapezoid,
    vdot as vdot,
)
from .operations.random import (  # noqa: F401,A004
    bernoulli as bernoulli,
    fork_rng as fork_rng,
    initial_seed as initial_seed,
    multinomial as multinomial,
    normal as normal,
    randint_like as randint_like,
    randperm as randperm,
    seed as seed,
)
from .operations.shapes import (  # noqa: F401,A004
    atleast_1d as atleast_1d,
    atleast_2d as atleast_2d,
    atleast_3d as atleast_3d,
    block_diag as block_diag,
    broadcast_shapes as broadcast_shapes,
    broadcast_tensors as broadcast_tensors,
    cartesian_prod as cartesian_prod,
    column_stack as column_stack,
    combinations as combinations,
    diag as diag,
    diag_embed as diag_embed,
    diagflat as diagflat,
    diagonal_scatter as diagonal_scatter,
    dsplit as dsplit,
    dstack as dstack,
    fliplr as fliplr,
    flipud as flipud,
    hsplit as hsplit,
    hstack as hstack,
    index_add as index_add,
    index_copy as index_copy,
    index_fill as index_fill,
    index_put as index_put,
    masked_scatter as masked_scatter,
    moveaxis as moveaxis,
    narrow_copy as narrow_copy,
    put as put,
    renorm as renorm,
    rot90 as rot90,
    scatter_reduce as scatter_reduce,
    select_scatter as select_scatter,
    slice_scatter as slice_scatter,
    split_with_sizes as split_with_sizes,
    sum_to_size as sum_to_size,
    swapdims as swapdims,
    take_along_dim as take_along_dim,
    tensor_split as tensor_split,
    tril_indices as tril_indices,
    triu_indices as triu_indices,
    unflatten as unflatten,
    vander as vander,
    vsplit as vsplit,
    vstack as vstack,
)
from .operations.statistics import (  # noqa: F401,A004
    aminmax as aminmax,
    argwhere as argwhere,
    bincount as bincount,
    bucketize as bucketize,
    corrcoef as corrcoef,
    count_nonzero as count_nonzero,
    cov as cov,
    cummax as cummax,
    cummin as cummin,
    diff as diff,
    histc as histc,
    isin as isin,
    kthvalue as kthvalue,
    logcumsumexp as logcumsumexp,
    median as median,
    mode as mode,
    msort as msort,
    nanmean as nanmean,
    nansum as nansum,
    quantile as quantile,
    searchsorted as searchsorted,
    std_mean as std_mean,
    unique_consecutive as unique_consecutive,
    var_mean as var_mean,
)
from .operations.tensors import (  # noqa: F401,A004
    empty_strided as empty_strided,
    is_nonzero as is_nonzero,
    is_same_size as is_same_size,
    is_signed as is_signed,
    logspace as logspace,
    prelu as prelu,
    resolve_conj as resolve_conj,
    scalar_tensor as scalar_tensor,
)
from ._show import set_printoptions as set_printoptions  # noqa: F401
from ._size import device as device  # noqa: F401
from .creation import (  # noqa: F401
    as_tensor as as_tensor,
    asarray as asarray,
    finfo as finfo,
    from_numpy as from_numpy,
    iinfo as iinfo,
    meshgrid as meshgrid,
)
from .devices import (  # noqa: F401
    device_count as device_count,
    rocm_get_device as rocm_get_device,
    rocm_get_device_info as rocm_get_device_info,
    rocm_is_available as rocm_is_available,
    rocm_set_device as rocm_set_device,
    rocm_synchronize as rocm_synchronize,
)
from .graph import get_graph as get_graph, print_graph as print_graph  # noqa: F401
from .serialization import load as load, save as save  # noqa: F401
from . import (  # noqa: F401,E402
    amp as amp,
    autograd as autograd,
    backend as backend,
    cuda as cuda,
    distributed as distributed,
    fft as fft,
    linalg as linalg,
    nn as nn,
    optim as optim,
    profiler as profiler,
    rocm as rocm,
    utils as utils,
)
from .amp import (  # noqa: F401,E402
    autocast as autocast,
    get_autocast_gpu_dtype as get_autocast_gpu_dtype,
    is_autocast_enabled as is_autocast_enabled,
)
from .autograd import (  # noqa: F401,E402
    inference_mode as inference_mode,
    set_grad_enabled as set_grad_enabled,
)
from .creation import (  # noqa: F401,E402
    BoolTensor as BoolTensor,
    ByteTensor as ByteTensor,
    DoubleTensor as DoubleTensor,
    FloatTensor as FloatTensor,
    HalfTensor as HalfTensor,
    IntTensor as IntTensor,
    LongTensor as LongTensor,
    ShortTensor as ShortTensor,
    channels_last as channels_last,
    contiguous_format as contiguous_format,
    preserve_format as preserve_format,
    strided as strided,
)

bool_ = _pyflame.bool
float = _pyflame.float32  # noqa: A001
double = _pyflame.float64
half = _pyflame.float16
int = _pyflame.int32  # noqa: A001
long = _pyflame.int64
short = _pyflame.int16

Size = _typing.Tuple[_builtins.int, ...] if _typing.TYPE_CHECKING else tuple
globals().update(operations.FUNCTIONS)

t = Tensor.t
view = Tensor.view



def concatenate(
    tensors: _typing.Sequence[Tensor], dim: _builtins.int = 0, axis: _typing.Optional[_builtins.int] = None
) -> Tensor:
    """Joins tensors along an axis."""
    return _pyflame.cat(tensors, dim if axis is None else axis)


def numel(tensor: Tensor) -> _builtins.int:
    """The number of elements."""
    return tensor.nelement()


def _assert(condition: object, message: object) -> None:
    """An assertion, by the name under which models written for PyTorch call it."""
    assert condition, message


def is_tensor(value: object) -> _builtins.bool:
    """Whether an object is a tensor."""
    return isinstance(value, Tensor)


def allclose(
    a: Tensor, b: Tensor, rtol: _builtins.float = 1e-5, atol: _builtins.float = 1e-8, equal_nan: _builtins.bool = False
) -> _builtins.bool:
    """Whether all elements are equal within a tolerance."""
    return _builtins.bool(isclose(a, b, rtol, atol, equal_nan).all().item())


def isclose(
    a: Tensor, b: Tensor, rtol: _builtins.float = 1e-5, atol: _builtins.float = 1e-8, equal_nan: _builtins.bool = False
) -> Tensor:
    """Whether each two elements are equal within a tolerance."""
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        raise TypeError(f"isclose: expected two tensors, not {type(a).__name__} and {type(b).__name__}")
    if a.dtype != b.dtype:
        raise TypeError(f"isclose: the tensors have different types, {a.dtype.name} and {b.dtype.name}")
    if rtol < 0 or atol < 0:
        raise ValueError(f"isclose: rtol and atol must not be negative, got {rtol} and {atol}")
    same: Tensor = a == b
    if not (a.dtype.is_floating_point or a.dtype.is_complex):
        if a.dtype == bool_ or (rtol == 0 and atol == 0):
            return same
        a, b = a.to(_pyflame.float64), b.to(_pyflame.float64)
    near = same | (((a - b).abs() <= b.abs() * rtol + atol) & b.isfinite())
    return near | (a.isnan() & b.isnan()) if equal_nan else near


def equal(a: Tensor, b: Tensor) -> _builtins.bool:
    """Whether shape and elements are equal."""
    return tuple(a.shape) == tuple(b.shape) and _builtins.bool((a == b).all().item())


def __getattr__(name: str) -> _typing.Any:
    # These are imported on first use.
    if name in ("array_api", "onnx"):
        import importlib

        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'pyflame' has no attribute {name!r}")
