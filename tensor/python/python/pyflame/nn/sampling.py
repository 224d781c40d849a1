"""Functions that sample images at other positions: interpolation, grids, pixel shuffles, windows."""

from __future__ import annotations

import math
import struct
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

from .. import _pyflame as _pf
from .._pyflame import Tensor

Each = Union[int, Sequence[int]]


def _f32(number: float) -> float:
    """The number rounded to float32."""
    return float(struct.unpack("f", struct.pack("f", number))[0])


def _f64(number: float) -> float:
    return number


def _cubic(distance: float, a: float) -> float:
    d = abs(distance)
    if d < 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if d < 2 else 0.0


def _position(at: int, scale: float, align: bool, rounded: Callable[[float], float]) -> float:
    return scale * at if align else rounded(scale * (at + 0.5)) - 0.5


def _taps(x: Tensor, axis: int, places: List[List[int]], weights: List[List[float]]) -> Tensor:
    """The sum over taps of the elements at some places along an axis, times weights."""
    shape = [-1 if at == axis else 1 for at in range(x.ndim)]
    total: Optional[Tensor] = None
    for tap, factors in zip(places, weights):
        part = x.index_select(axis, _pf.tensor(tap, dtype=_pf.int64, device=x.device))
        part = part * _pf.tensor(factors, dtype=x.dtype, device=x.device).reshape(*shape)
        total = part if total is None else total + part
    assert total is not None
    return total


def _resized(x: Tensor, axis: int, size: int, scale: Optional[float], mode: str, align: bool, antialias: bool) -> Tensor:
    length = x.shape[axis]
    # Positions are computed in the type of the elements, but at least in float32.
    rounded = _f64 if x.dtype == _pf.float64 else _f32
    if align:
        step = rounded((length - 1) / (size - 1)) if size > 1 else 0.0
    else:
        step = rounded(1.0 / scale) if scale else rounded(length / size)
    if mode in ("nearest", "nearest-exact"):
        shift = 0.5 if mode == "nearest-exact" else 0.0
        picks = [min(int(_f32((at + shift) * step)), length - 1) for at in range(size)]
        return x.index_select(axis, _pf.tensor(picks, dtype=_pf.int64, device=x.device))
    reach = 1 if mode == "linear" else 2
    if antialias:
        return _filtered(x, axis, size, step, reach)
    if size == length and step == 1.0:
        return x
    places: List[List[int]] = [[] for _ in range(2 * reach)]
    weights: List[List[float]] = [[] for _ in range(2 * reach)]
    for at in range(size):
        exact = _position(at, step, align, rounded)
        if mode == "linear":
            exact = max(exact, 0.0)
        first = math.floor(exact)
        part = exact - first
        for tap in range(2 * reach):
            offset = tap - reach + 1
            places[tap].append(min(max(first + offset, 0), length - 1))
            weights[tap].append(1 - abs(part - offset) if mode == "linear" else _cubic(part - offset, -0.75))
    return _taps(x, axis, places, weights)


def _filtered(x: Tensor, axis: int, size: int, step: float, reach: int) -> Tensor:
    """Resampling with a filter as wide as the step, so that no element is left out."""
    length, stretch = x.shape[axis], max(step, 1.0)
    rows = []
    for at in range(size):
        centre = step * (at + 0.5)
        first = max(int(centre - reach * stretch + 0.5), 0)
        last = min(int(centre + reach * stretch + 0.5), length)
        near = [(first + n - centre + 0.5) / stretch for n in range(last - first)]
        raw = [max(0.0, 1 - abs(d)) if reach == 1 else _cubic(d, -0.5) for d in near]
        total = sum(raw)
        rows.append([0.0] * first + [w / total for w in raw] + [0.0] * (length - last))
    matrix = _pf.tensor(rows, dtype=x.dtype, device=x.device)
    return x.movedim(axis, -1).matmul(matrix.mT).movedim(-1, axis)


_SPATIAL = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}


def interpolate(
    input: Tensor,
    size: Optional[Each] = None,
    scale_factor: Union[float, Sequence[float], None] = None,
    mode: str = "nearest",
    align_corners: Optional[bool] = None,
    recompute_scale_factor: Optional[bool] = None,
    antialias: bool = False,
) -> Tensor:
    """Resizes the axes after the second to a size, or by a factor: 'nearest', 'nearest-exact', 'linear', 'bilinear', 'bicubic',
    'trilinear' or 'area'."""
    dims = input.ndim - 2
    if mode not in ("nearest", "nearest-exact", "area", *_SPATIAL):
        raise ValueError(f"interpolate: mode {mode!r} is not known")
    if dims < 1 or _SPATIAL.get(mode, dims) != dims:
        raise ValueError(f"interpolate: mode {mode!r} does not fit the shape {tuple(input.shape)}")
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate: pass either size or scale_factor")
    if align_corners is not None and mode not in _SPATIAL:
        raise ValueError(f"interpolate: align_corners has no meaning for mode {mode!r}")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ValueError("interpolate: antialias needs mode 'bilinear' or 'bicubic'")
    factors: List[Optional[float]] = [None] * dims
    if scale_factor is not None:
        given = [float(scale_factor)] * dims if isinstance(scale_factor, (int, float)) else [float(f) for f in scale_factor]
        sizes = [math.floor(length * factor) for length, factor in zip(input.shape[2:], given)]
        if not recompute_scale_factor:
            factors = list(given)
    else:
        assert size is not None
        sizes = [int(size)] * dims if isinstance(size, int) else [int(length) for length in size]
    if len(sizes) != dims or min(sizes) < 1:
        raise ValueError(f"interpolate: the output size {sizes} does not fit the shape {tuple(input.shape)}")
    if mode == "area":
        pools: List[Callable[..., Tensor]] = [Tensor.adaptive_avg_pool1d, Tensor.adaptive_avg_pool2d, Tensor.adaptive_avg_pool3d]
        return pools[dims - 1](input, sizes)
    x = input.to(_pf.float32) if input.dtype.is_floating_point and input.dtype.itemsize < 4 else input
    axis_mode = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    for number in range(dims):
        x = _resized(x, 2 + number, sizes[number], factors[number], axis_mode, bool(align_corners), antialias)
    return x.to(input.dtype)


def upsample(
    input: Tensor, size: Optional[Each] = None, scale_factor: Any = None, mode: str = "nearest", align_corners: Optional[bool] = None
) -> Tensor:
    """`interpolate`."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool = False) -> Tensor:
    """The positions that `grid_sample` reads for affine transformations of images."""
    if len(size) != 4 or tuple(theta.shape[1:]) != (2, 3):
        raise ValueError(f"affine_grid: expected matrices of 2 x 3 for images [n, c, h, w], got {tuple(theta.shape)} and {tuple(size)}")
    axes = []
    for length in size[2:]:
        edge = 1.0 if align_corners else 1.0 - 1.0 / length
        axis = _pf.linspace(-edge, edge, length, dtype=theta.dtype, device=theta.device)
        axes.append(axis if length > 1 else theta.new_zeros(1))
    height, width = size[2:]
    ones = theta.new_ones(height, width)
    base = _pf.stack([axes[1].unsqueeze(0) * ones, axes[0].unsqueeze(1) * ones, ones], -1)
    return base.reshape(1, -1, 3).matmul(theta.mT).reshape(size[0], height, width, 2)


def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: Optional[bool] = None
) -> Tensor:
    """The elements of images [n, c, h, w] at positions [n, h', w', 2] from -1 to 1: x before y."""
    if input.ndim != 4 or grid.ndim != 4 or grid.shape[3] != 2:
        raise ValueError(f"grid_sample: expected images and a grid of pairs, got {tuple(input.shape)} and {tuple(grid.shape)}")
    if mode not in ("bilinear", "nearest") or padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(f"grid_sample: mode {mode!r} with padding {padding_mode!r} is not supported")
    batch, channels, height, width = input.shape
    align = bool(align_corners)
    flat = input.reshape(batch, channels, height * width)

    def scaled(position: Tensor, length: int) -> Tensor:
        at = (position + 1) / 2 * (length - 1) if align else ((position + 1) * length - 1) / 2
        if padding_mode == "border":
            return at.clamp(0, length - 1)
        if padding_mode == "reflection":
            low, span = (0.0, float(length - 1)) if align else (-0.5, float(length))
            if span == 0:
                return at * 0
            turn = (at - low).abs()
            rest = turn.remainder(2 * span)
            return (_pf.where(rest > span, 2 * span - rest, rest) + low).clamp(0, length - 1)
        return at

    def read(row: Tensor, column: Tensor) -> Tensor:
        inside = (row >= 0) & (row <= height - 1) & (column >= 0) & (column <= width - 1)
        place = row.clamp(0, height - 1).to(_pf.int64) * width + column.clamp(0, width - 1).to(_pf.int64)
        place = place.reshape(batch, 1, -1).expand(batch, channels, -1)
        found = flat.gather(2, place).reshape(batch, channels, *grid.shape[1:3])
        return found * inside.unsqueeze(1).to(found.dtype)

    x, y = scaled(grid.select(3, 0), width), scaled(grid.select(3, 1), height)
    if mode == "nearest":
        return read(y.detach().round(), x.detach().round())
    left, top = x.detach().floor(), y.detach().floor()
    right_part, bottom_part = (x - left).unsqueeze(1), (y - top).unsqueeze(1)
    return (
        read(top, left) * (1 - right_part) * (1 - bottom_part)
        + read(top, left + 1) * right_part * (1 - bottom_part)
        + read(top + 1, left) * (1 - right_part) * bottom_part
        + read(top + 1, left + 1) * right_part * bottom_part
    )


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Moves groups of channels into blocks of pixels."""
    r = upscale_factor
    *lead, channels, height, width = input.shape
    if channels % (r * r):
        raise ValueError(f"pixel_shuffle: {channels} channels are not a multiple of {r * r}")
    count = len(lead)
    x = input.reshape(*lead, channels // (r * r), r, r, height, width)
    order = [*range(count), count, count + 3, count + 1, count + 4, count + 2]
    return x.permute(*order).reshape(*lead, channels // (r * r), height * r, width * r)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Moves blocks of pixels into groups of channels."""
    r = downscale_factor
    *lead, channels, height, width = input.shape
    if height % r or width % r:
        raise ValueError(f"pixel_unshuffle: {height} x {width} pixels cannot be divided into blocks of {r}")
    count = len(lead)
    x = input.reshape(*lead, channels, height // r, r, width // r, r)
    order = [*range(count), count, count + 2, count + 4, count + 1, count + 3]
    return x.permute(*order).reshape(*lead, channels * r * r, height // r, width // r)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Interleaves groups of channels."""
    batch, channels = input.shape[:2]
    if channels % groups:
        raise ValueError(f"channel_shuffle: {channels} channels cannot be divided into {groups} groups")
    return input.reshape(batch, groups, channels // groups, *input.shape[2:]).transpose(1, 2).reshape(*input.shape)


def _two(value: Each) -> Tuple[int, int]:
    if isinstance(value, int):
        return value, value
    pair = tuple(value)
    return (pair[0], pair[0]) if len(pair) == 1 else (pair[0], pair[1])


def unfold(input: Tensor, kernel_size: Each, dilation: Each = 1, padding: Each = 0, stride: Each = 1) -> Tensor:
    """The windows of images as columns: [n, channels * kernel, windows]."""
    single = input.ndim == 3
    x = input.unsqueeze(0) if single else input
    (kh, kw), (dh, dw), (ph, pw), (sh, sw) = _two(kernel_size), _two(dilation), _two(padding), _two(stride)
    x = x.pad([pw, pw, ph, ph])
    rows, columns = (x.shape[2] - dh * (kh - 1) - 1) // sh + 1, (x.shape[3] - dw * (kw - 1) - 1) // sw + 1
    if rows < 1 or columns < 1:
        raise ValueError(f"unfold: a window of {kh} x {kw} does not fit into {tuple(input.shape)}")
    windows = x.unfold(2, dh * (kh - 1) + 1, sh).unfold(3, dw * (kw - 1) + 1, sw)
    if dh > 1 or dw > 1:
        windows = windows.slice(4, 0, None, dh).slice(5, 0, None, dw)
    batch, channels = x.shape[:2]
    made = windows.permute(0, 1, 4, 5, 2, 3).reshape(batch, channels * kh * kw, rows * columns)
    return made.squeeze(0) if single else made


def fold(
    input: Tensor, output_size: Each, kernel_size: Each, dilation: Each = 1, padding: Each = 0, stride: Each = 1
) -> Tensor:
    """The sum of windows in columns at their positions in images; the adjoint of `unfold`."""
    single = input.ndim == 2
    x = input.unsqueeze(0) if single else input
    (height, width), (kh, kw) = _two(output_size), _two(kernel_size)
    (dh, dw), (ph, pw), (sh, sw) = _two(dilation), _two(padding), _two(stride)
    rows, columns = (height + 2 * ph - dh * (kh - 1) - 1) // sh + 1, (width + 2 * pw - dw * (kw - 1) - 1) // sw + 1
    if x.shape[1] % (kh * kw) or x.shape[2] != rows * columns:
        raise ValueError(f"fold: {tuple(input.shape)} are not {rows * columns} windows of {kh} x {kw}")
    batch, channels = x.shape[0], x.shape[1] // (kh * kw)
    # Each tap of the kernel is one channel of a transposed convolution with a kernel that is one at this tap.
    taps = x.reshape(batch * channels, kh * kw, rows, columns)
    kernel = _pf.eye(kh * kw, dtype=x.dtype, device=x.device).reshape(kh * kw, 1, kh, kw)
    extra = (height + 2 * ph - ((rows - 1) * sh + dh * (kh - 1) + 1), width + 2 * pw - ((columns - 1) * sw + dw * (kw - 1) + 1))
    full = taps.conv_transpose2d(kernel, stride=(sh, sw), dilation=(dh, dw)).pad([0, extra[1], 0, extra[0]])
    made = full.narrow(2, ph, height).narrow(3, pw, width).reshape(batch, channels, height, width)
    return made.squeeze(0) if single else made


def _cells(length: int, count: int) -> List[Tuple[int, int]]:
    return [(at * length // count, -(-(at + 1) * length // count)) for at in range(count)]


def _adaptive_max_pool(input: Tensor, output_size: Any, dims: int, return_indices: bool) -> Any:
    wanted = [output_size] * dims if output_size is None or isinstance(output_size, int) else list(output_size)
    lengths = list(input.shape[input.ndim - dims :])
    sizes: List[int] = [length if size is None else int(size) for size, length in zip(wanted, lengths)]
    if all(length % size == 0 for length, size in zip(lengths, sizes)):
        windows = [length // size for length, size in zip(lengths, sizes)]
        pool: Callable[..., Any] = [Tensor.max_pool1d, Tensor.max_pool2d, Tensor.max_pool3d][dims - 1]
        return pool(input, windows, return_indices=return_indices)
    if return_indices:
        return _adaptive_with_indices(input, lengths, sizes)
    x = input
    for number in range(dims):
        axis = input.ndim - dims + number
        cells = _cells(lengths[number], sizes[number])
        x = _pf.cat([x.narrow(axis, start, end - start).amax(axis, True) for start, end in cells], axis)
    return x


def _adaptive_with_indices(input: Tensor, lengths: List[int], sizes: List[int]) -> Tuple[Tensor, Tensor]:
    import itertools

    dims, lead = len(sizes), list(input.shape[: input.ndim - len(sizes)])
    numbers = _pf.arange(math.prod(lengths), device=input.device).reshape(*lengths)
    values, indices = [], []
    for cell in itertools.product(*(_cells(length, size) for length, size in zip(lengths, sizes))):
        part, own = input, numbers
        for number, (start, end) in enumerate(cell):
            part = part.narrow(input.ndim - dims + number, start, end - start)
            own = own.narrow(number, start, end - start)
        flat = part.reshape(*lead, -1)
        place = flat.detach().argmax(-1, True)
        values.append(flat.gather(-1, place))
        indices.append(own.reshape(-1)[place])
    shape = (*lead, *sizes)
    return _pf.cat(values, -1).reshape(*shape), _pf.cat(indices, -1).reshape(*shape)


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The maxima of parts of the last axis, as many as the output is long."""
    return _adaptive_max_pool(input, output_size, 1, return_indices)


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The maxima of parts of the last two axes, as many as the output is large."""
    return _adaptive_max_pool(input, output_size, 2, return_indices)


def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The maxima of parts of the last three axes, as many as the output is large."""
    return _adaptive_max_pool(input, output_size, 3, return_indices)


def _lp_pool(input: Tensor, norm_type: float, kernel: List[int], stride: Any, ceil_mode: bool) -> Tensor:
    pool: Callable[..., Tensor] = Tensor.avg_pool1d if len(kernel) == 1 else Tensor.avg_pool2d
    mean = pool(input.abs() ** norm_type, kernel, stride, ceil_mode=ceil_mode)
    return (mean * math.prod(kernel)) ** (1.0 / norm_type)


def lp_pool1d(input: Tensor, norm_type: float, kernel_size: int, stride: Optional[int] = None, ceil_mode: bool = False) -> Tensor:
    """The norm of each window of the last axis."""
    return _lp_pool(input, norm_type, [kernel_size], stride, ceil_mode)


def lp_pool2d(input: Tensor, norm_type: float, kernel_size: Each, stride: Optional[Each] = None, ceil_mode: bool = False) -> Tensor:
    """The norm of each window of the last two axes."""
    return _lp_pool(input, norm_type, list(_two(kernel_size)), stride, ceil_mode)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divides every channel by a power of the squares of its neighbours."""
    if input.ndim < 3:
        raise ValueError(f"local_response_norm: the input must have at least three axes, not the shape {tuple(input.shape)}")
    square = (input * input).reshape(input.shape[0], 1, input.shape[1], -1)
    mean = square.pad([0, 0, size // 2, (size - 1) // 2]).avg_pool2d((size, 1), stride=1)
    return input / (mean.reshape(*input.shape) * alpha + k) ** beta
