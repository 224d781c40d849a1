"""ONNX operators in terms of pyflame: a table with one entry per operator.

Every function takes the node's attributes and its inputs as pyflame tensors (None for omitted optional inputs) and returns a tensor
or a tuple of them. An unsupported operator or form of one raises NotImplementedError.
"""

from __future__ import annotations

import math
from typing import Any, Dict

import numpy as np

import pyflame as pf  # noqa: I001

NUMPY_TYPES = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool",
               10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 16: "bfloat16"}


def dtype_of(number: Any) -> Any:
    """pyflame's type for a value of onnx.TensorProto.DataType."""
    name = NUMPY_TYPES.get(number)
    if name is None:
        raise NotImplementedError(f"element type {number}")
    return pf.bool_ if name == "bool" else getattr(pf, name)


def numbers(tensor: Any) -> Any:
    """A small tensor as a list of Python numbers: shapes, axes, steps."""
    return [] if tensor is None else tensor.numpy().reshape(-1).tolist()


def text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def axes_of(attributes: Dict[str, Any], tensor: Any = None) -> Any:
    """Axes as an attribute or, since opset 13 or 18, as an input."""
    if tensor is not None:
        return [int(axis) for axis in numbers(tensor)]
    return attributes.get("axes")


# Elementwise.

def elementwise(function: Any) -> Any:
    return lambda attributes, *inputs: function(*inputs)


def variadic(function: Any) -> Any:
    def fold(attributes: Dict[str, Any], first: Any, *others: Any) -> Any:
        for other in others:
            first = function(first, other)
        return first
    return fold


def mean_of(attributes: Dict[str, Any], *inputs: Any) -> Any:
    return variadic(pf.add)(attributes, *inputs) / len(inputs)


def divide(attributes: Dict[str, Any], a: Any, b: Any) -> Any:
    if a.dtype.is_floating_point:
        return a / b
    whole = pf.floor_divide(pf.abs(a), pf.abs(b))
    return pf.where((a < 0) == (b < 0), whole, -whole)


def modulo(attributes: Dict[str, Any], a: Any, b: Any) -> Any:
    if not attributes.get("fmod", 0):
        return pf.remainder(a, b)
    rest = pf.remainder(pf.abs(a), pf.abs(b))
    return pf.where(a < 0, -rest, rest)


def power(attributes: Dict[str, Any], a: Any, b: Any) -> Any:
    result = pf.pow(a, b.to(a.dtype)) if a.dtype.is_floating_point else pf.pow(a.to(pf.float64), b.to(pf.float64))
    return result.to(a.dtype)


def shift(attributes: Dict[str, Any], a: Any, b: Any) -> Any:
    return a << b if text(attributes["direction"]) == "LEFT" else a >> b


def clip(attributes: Dict[str, Any], x: Any, low: Any = None, high: Any = None) -> Any:
    low = attributes.get("min") if low is None else low
    high = attributes.get("max") if high is None else high
    if low is not None:
        x = pf.maximum(x, pf.full_like(x, low) if isinstance(low, float) else low)
    if high is not None:
        x = pf.minimum(x, pf.full_like(x, high) if isinstance(high, float) else high)
    return x


def is_inf(attributes: Dict[str, Any], x: Any) -> Any:
    found = pf.isinf(x)
    if not attributes.get("detect_positive", 1):
        found = found & (x < 0)
    if not attributes.get("detect_negative", 1):
        found = found & (x > 0)
    return found


def gelu(attributes: Dict[str, Any], x: Any) -> Any:
    return pf.gelu(x, approximate=text(attributes.get("approximate", "none")))


def celu(attributes: Dict[str, Any], x: Any) -> Any:
    alpha = attributes.get("alpha", 1.0)
    return pf.maximum(x, x * 0) + pf.minimum(alpha * pf.expm1(x / alpha), x * 0)


def selu(attributes: Dict[str, Any], x: Any) -> Any:
    alpha, gamma = attributes.get("alpha", 1.67326319217681884765625), attributes.get("gamma", 1.05070102214813232421875)
    return gamma * pf.where(x > 0, x, alpha * pf.exp(x) - alpha)


def prelu(attributes: Dict[str, Any], x: Any, slope: Any) -> Any:
    return pf.where(x < 0, slope * x, x)


def hard_sigmoid(attributes: Dict[str, Any], x: Any) -> Any:
    return pf.clamp(attributes.get("alpha", 0.2) * x + attributes.get("beta", 0.5), 0.0, 1.0)


def hard_swish(attributes: Dict[str, Any], x: Any) -> Any:
    return x * pf.clamp(x / 6 + 0.5, 0.0, 1.0)


def swish(attributes: Dict[str, Any], x: Any) -> Any:
    return x * pf.sigmoid(attributes.get("alpha", 1.0) * x)


def softsign(attributes: Dict[str, Any], x: Any) -> Any:
    return x / (1 + pf.abs(x))


def thresholded_relu(attributes: Dict[str, Any], x: Any) -> Any:
    return pf.where(x > attributes.get("alpha", 1.0), x, pf.zeros_like(x))


def shrink(attributes: Dict[str, Any], x: Any) -> Any:
    bias, bound = attributes.get("bias", 0.0), attributes.get("lambd", 0.5)
    return pf.where(x < -bound, x + bias, pf.where(x > bound, x - bias, pf.zeros_like(x)))


def cast(attributes: Dict[str, Any], x: Any) -> Any:
    if attributes.get("saturate", 1) != 1:
        raise NotImplementedError("a cast without saturation")
    return x.to(dtype_of(attributes["to"]))


# Reductions.

def reduction(function: Any) -> Any:
    def reduce(attributes: Dict[str, Any], x: Any, given: Any = None) -> Any:
        axes = axes_of(attributes, given)
        keepdim = bool(attributes.get("keepdims", 1))
        if not axes:
            if attributes.get("noop_with_empty_axes", 0):
                return function(x, (), keepdim)
            axes = list(range(len(x.shape)))
        return function(x, tuple(axes), keepdim)
    return reduce


def over(function: Any) -> Any:
    """A reduction of pyflame over several axes."""
    def reduce(x: Any, axes: Any, keepdim: Any) -> Any:
        return function(x, dim=axes, keepdim=keepdim) if axes else x
    return reduce


def one_by_one(function: Any) -> Any:
    """A reduction that takes one axis at a time."""
    def reduce(x: Any, axes: Any, keepdim: Any) -> Any:
        for axis in sorted((axis % max(len(x.shape), 1) for axis in axes), reverse=True):
            x = function(x, dim=axis, keepdim=keepdim)
        return x
    return reduce


def in_its_type(function: Any) -> Any:
    """Sums of integers keep their type."""
    return lambda x, axes, keepdim: function(x, axes, keepdim).to(x.dtype)


def of_nothing(function: Any, value: Any) -> Any:
    """Maximum and minimum of no elements, which pyflame rejects: the smallest or largest value of the type."""
    def reduce(x: Any, axes: Any, keepdim: Any) -> Any:
        if 0 not in x.shape:
            return over(function)(x, axes, keepdim)
        lengths = [1 if axis in axes else length for axis, length in enumerate(x.shape)]
        kept = [length for axis, length in enumerate(x.shape) if axis not in axes]
        return pf.full(lengths if keepdim else kept, value > 0 if x.dtype == pf.bool_ else value, dtype=x.dtype)
    return reduce


SUM, MAX, MIN = in_its_type(over(pf.sum)), of_nothing(pf.amax, -math.inf), of_nothing(pf.amin, math.inf)


def mean(x: Any, axes: Any, keepdim: Any) -> Any:
    if x.dtype.is_floating_point:
        return over(pf.mean)(x, axes, keepdim)
    return pf.mean(x.to(pf.float64), dim=axes, keepdim=keepdim).to(x.dtype) if axes else x


def log_sum_exp(x: Any, axes: Any, keepdim: Any) -> Any:
    return of_nothing(pf.logsumexp, -math.inf)(x, axes, keepdim)


def arg(function: Any) -> Any:
    def reduce(attributes: Dict[str, Any], x: Any) -> Any:
        axis, keepdim = attributes.get("axis", 0), bool(attributes.get("keepdims", 1))
        if not attributes.get("select_last_index", 0):
            return function(x, dim=axis, keepdim=keepdim)
        return x.shape[axis] - 1 - function(pf.flip(x, (axis,)), dim=axis, keepdim=keepdim)
    return reduce


def cumulative(function: Any) -> Any:
    def run(attributes: Dict[str, Any], x: Any, axis: Any) -> Any:
        axis = int(numbers(axis)[0])
        if attributes.get("reverse", 0):
            x = pf.flip(x, (axis,))
        result = function(x, dim=axis).to(x.dtype)
        if attributes.get("exclusive", 0):
            first = pf.zeros_like(x) if function is pf.cumsum else pf.ones_like(x)
            length = x.shape[axis]
            result = pf.cat([first.narrow(axis, 0, 1), result.narrow(axis, 0, length - 1)], dim=axis)
        return pf.flip(result, (axis,)) if attributes.get("reverse", 0) else result
    return run


# Shapes.

def constant(attributes: Dict[str, Any]) -> Any:
    for name in ("value", "value_float", "value_int", "value_floats", "value_ints"):
        if name in attributes:
            kind = {"value_float": np.float32, "value_floats": np.float32}.get(name, np.int64)
            value = attributes[name]
            return pf.tensor(value if name == "value" else np.asarray(value, kind))
    raise NotImplementedError("a string or sparse constant")


def constant_of_shape(attributes: Dict[str, Any], shape: Any) -> Any:
    value = attributes.get("value", np.zeros(1, np.float32))
    return pf.full(numbers(shape), value.reshape(-1)[0].item(), dtype=pf.tensor(value).dtype)


def shape(attributes: Dict[str, Any], x: Any) -> Any:
    lengths = list(x.shape)[attributes.get("start", 0):attributes.get("end")]
    return pf.tensor(np.asarray(lengths, np.int64))


def size(attributes: Dict[str, Any], x: Any) -> Any:
    return pf.tensor(np.asarray(math.prod(x.shape), np.int64))


def reshape(attributes: Dict[str, Any], x: Any, to: Any = None) -> Any:
    wanted = [int(n) for n in (numbers(to) if to is not None else attributes["shape"])]
    if not attributes.get("allowzero", 0):
        wanted = [x.shape[axis] if n == 0 else n for axis, n in enumerate(wanted)]
    return x.reshape(wanted)


def flatten(attributes: Dict[str, Any], x: Any) -> Any:
    axis = attributes.get("axis", 1)
    axis += len(x.shape) if axis < 0 else 0
    return x.reshape([math.prod(x.shape[:axis]), math.prod(x.shape[axis:])])


def transpose(attributes: Dict[str, Any], x: Any) -> Any:
    return x.permute(attributes.get("perm", list(range(len(x.shape)))[::-1]))


def squeeze(attributes: Dict[str, Any], x: Any, given: Any = None) -> Any:
    axes = axes_of(attributes, given)
    axes = [axis % len(x.shape) for axis in axes] if axes is not None else [n for n, s in enumerate(x.shape) if s == 1]
    return x.reshape([length for axis, length in enumerate(x.shape) if axis not in axes])


def unsqueeze(attributes: Dict[str, Any], x: Any, given: Any = None) -> Any:
    axes = axes_of(attributes, given)
    rank = len(x.shape) + len(axes)
    axes = {axis % rank for axis in axes}
    lengths = iter(x.shape)
    return x.reshape([1 if axis in axes else next(lengths) for axis in range(rank)])


def expand(attributes: Dict[str, Any], x: Any, to: Any) -> Any:
    return x.broadcast_to(list(np.broadcast_shapes(tuple(x.shape), tuple(int(n) for n in numbers(to)))))


def concat(attributes: Dict[str, Any], *inputs: Any) -> Any:
    return pf.cat(list(inputs), dim=attributes["axis"])


def split(attributes: Dict[str, Any], x: Any, given: Any = None) -> Any:
    axis = attributes.get("axis", 0)
    length = x.shape[axis]
    parts = [int(n) for n in numbers(given)] if given is not None else attributes.get("split")
    if parts is None:
        count = attributes.get("num_outputs", attributes["outputs"])
        each = -(-length // count)
        parts = [min(each, length - begin) for begin in range(0, length, each)]
    bounds = np.cumsum([0] + list(parts)).tolist()
    return tuple(x.narrow(axis, begin, end - begin) for begin, end in zip(bounds, bounds[1:]))


def slice_(attributes: Dict[str, Any], x: Any, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None) -> Any:
    starts = numbers(starts) if starts is not None else attributes["starts"]
    ends = numbers(ends) if ends is not None else attributes["ends"]
    axes = numbers(axes) if axes is not None else attributes.get("axes", list(range(len(starts))))
    steps = numbers(steps) if steps is not None else [1] * len(starts)
    for begin, end, axis, step in zip(starts, ends, axes, steps):
        first, last, step = slice(begin, end, step).indices(x.shape[axis]) if step > 0 else \
            _backwards(begin, end, step, x.shape[axis])
        if step < 0:
            x = pf.flip(x, (axis,))
            length = x.shape[axis]
            first, last, step = length - 1 - first, length - 1 - last, -step
        picks = [slice(None)] * len(x.shape)
        picks[axis] = slice(first, max(first, last), step)
        x = x[tuple(picks)]
    return x


def _backwards(begin: Any, end: Any, step: Any, length: Any) -> Any:
    begin = begin + length if begin < 0 else begin
    end = end + length if end < 0 else end
    return min(max(begin, -1), length - 1), min(max(end, -1), length - 1), step


def pad(attributes: Dict[str, Any], x: Any, pads: Any = None, value: Any = None, axes: Any = None) -> Any:
    mode = text(attributes.get("mode", "constant"))
    amounts = [int(n) for n in (numbers(pads) if pads is not None else attributes["pads"])]
    rank = len(x.shape)
    axes = [int(axis) % rank for axis in numbers(axes)] if axes is not None else list(range(rank))
    if mode != "constant":
        raise NotImplementedError(f"padding by {mode}")
    fill = numbers(value)[0] if value is not None and numbers(value) else attributes.get("value", 0)
    widths = [(0, 0)] * rank
    for place, axis in enumerate(axes):
        widths[axis] = (amounts[place], amounts[place + len(axes)])
    for axis, (before, after) in enumerate(widths):
        x = x.narrow(axis, max(-before, 0), x.shape[axis] - max(-before, 0) - max(-after, 0))
    flat = [max(n, 0) for pair in reversed(widths) for n in pair]
    return pf.nn.functional.pad(x, flat, value=fill)


def tile(attributes: Dict[str, Any], x: Any, times: Any) -> Any:
    return pf.tile(x, [int(n) for n in numbers(times)])


def range_(attributes: Dict[str, Any], start: Any, limit: Any, step: Any) -> Any:
    first, last, by = (numbers(n)[0] for n in (start, limit, step))
    count = max(math.ceil((last - first) / by), 0)
    return (pf.arange(count).to(pf.float64) * by + first).to(start.dtype)


def trilu(attributes: Dict[str, Any], x: Any, k: Any = None) -> Any:
    k = int(numbers(k)[0]) if k is not None else 0
    rows, columns = pf.arange(x.shape[-2]).reshape([-1, 1]), pf.arange(x.shape[-1]).reshape([1, -1])
    kept = columns - rows >= k if attributes.get("upper", 1) else columns - rows <= k
    return pf.where(kept, x, pf.zeros_like(x))


def eye_like(attributes: Dict[str, Any], x: Any) -> Any:
    dtype = dtype_of(attributes["dtype"]) if "dtype" in attributes else x.dtype
    rows, columns = pf.arange(x.shape[0]).reshape([-1, 1]), pf.arange(x.shape[1]).reshape([1, -1])
    return (columns - rows == attributes.get("k", 0)).to(dtype)


def depth_to_space(attributes: Dict[str, Any], x: Any) -> Any:
    b, c, h, w = x.shape
    size = attributes["blocksize"]
    if text(attributes.get("mode", "DCR")) == "DCR":
        parts = x.reshape([b, size, size, c // size ** 2, h, w]).permute([0, 3, 4, 1, 5, 2])
    else:
        parts = x.reshape([b, c // size ** 2, size, size, h, w]).permute([0, 1, 4, 2, 5, 3])
    return parts.reshape([b, c // size ** 2, h * size, w * size])


def space_to_depth(attributes: Dict[str, Any], x: Any) -> Any:
    b, c, h, w = x.shape
    size = attributes["blocksize"]
    order = [0, 3, 5, 1, 2, 4] if text(attributes.get("mode", "DCR")) == "DCR" else [0, 1, 3, 5, 2, 4]
    parts = x.reshape([b, c, h // size, size, w // size, size]).permute(order)
    return parts.reshape([b, c * size ** 2, h // size, w // size])


# Indices.

def positive(indices: Any, length: Any) -> Any:
    return pf.where(indices < 0, indices + length, indices).to(pf.int64)


def gather(attributes: Dict[str, Any], x: Any, indices: Any) -> Any:
    axis = attributes.get("axis", 0) % len(x.shape)
    picked = pf.index_select(x, axis, positive(indices, x.shape[axis]).reshape([-1]))
    return picked.reshape(list(x.shape[:axis]) + list(indices.shape) + list(x.shape[axis + 1:]))


def gather_elements(attributes: Dict[str, Any], x: Any, indices: Any) -> Any:
    axis = attributes.get("axis", 0)
    return pf.gather(x, axis, positive(indices, x.shape[axis]))


def scatter_elements(attributes: Dict[str, Any], x: Any, indices: Any, updates: Any) -> Any:
    axis, how = attributes.get("axis", 0), text(attributes.get("reduction", "none"))
    indices = positive(indices, x.shape[axis])
    if how == "none":
        return pf.scatter(x, axis, indices, updates)
    if how == "add":
        return pf.scatter_add(x, axis, indices, updates)
    raise NotImplementedError(f"scattering by {how}")


def one_hot(attributes: Dict[str, Any], indices: Any, depth: Any, values: Any) -> Any:
    depth, (off, on) = int(numbers(depth)[0]), numbers(values)
    rank = len(indices.shape)
    axis = attributes.get("axis", -1)
    axis += rank + 1 if axis < 0 else 0
    lengths = [1] * (rank + 1)
    lengths[axis] = depth
    places = pf.arange(depth).reshape(lengths)
    found = positive(indices.to(pf.int64), depth).unsqueeze(axis) == places
    return pf.where(found, pf.full([1], on, dtype=values.dtype), pf.full([1], off, dtype=values.dtype))


def top_k(attributes: Dict[str, Any], x: Any, k: Any) -> Any:
    axis, k = attributes.get("axis", -1), int(numbers(k)[0])
    values, indices = pf.sort(x, dim=axis, descending=bool(attributes.get("largest", 1)))
    return values.narrow(axis, 0, k), indices.narrow(axis, 0, k)


def compress(attributes: Dict[str, Any], x: Any, condition: Any) -> Any:
    kept = pf.tensor(np.flatnonzero(condition.numpy()).astype(np.int64))
    if "axis" not in attributes:
        x = x.reshape([-1])
    return pf.index_select(x, attributes.get("axis", 0) % len(x.shape), kept)


def non_zero(attributes: Dict[str, Any], x: Any) -> Any:
    return pf.nonzero(x).permute([1, 0])


# Products, convolutions, pools.

def gemm(attributes: Dict[str, Any], a: Any, b: Any, c: Any = None) -> Any:
    a = a.permute([1, 0]) if attributes.get("transA", 0) else a
    b = b.permute([1, 0]) if attributes.get("transB", 0) else b
    result = attributes.get("alpha", 1.0) * pf.matmul(a, b)
    return result if c is None else result + attributes.get("beta", 1.0) * c


def einsum(attributes: Dict[str, Any], *inputs: Any) -> Any:
    return pf.einsum(text(attributes["equation"]), *inputs)


def window(attributes: Dict[str, Any], lengths: Any, kernel: Any) -> Any:
    """Strides, dilations and the padding (before, after) along every spatial axis."""
    rank = len(kernel)
    strides = attributes.get("strides", [1] * rank)
    dilations = attributes.get("dilations", [1] * rank)
    how = text(attributes.get("auto_pad", "NOTSET"))
    if how == "NOTSET":
        pads = attributes.get("pads", [0] * 2 * rank)
        return strides, dilations, list(zip(pads[:rank], pads[rank:]))
    if how == "VALID":
        return strides, dilations, [(0, 0)] * rank
    padding = []
    for length, size, stride, dilation in zip(lengths, kernel, strides, dilations):
        whole = max((-(-length // stride) - 1) * stride + (size - 1) * dilation + 1 - length, 0)
        less, more = whole // 2, whole - whole // 2
        padding.append((less, more) if how == "SAME_UPPER" else (more, less))
    return strides, dilations, padding


def framed(x: Any, padding: Any, value: float = 0.0) -> Any:
    flat = [n for pair in reversed(padding) for n in pair]
    return pf.nn.functional.pad(x, flat, value=value) if any(flat) else x


def conv(attributes: Dict[str, Any], x: Any, w: Any, b: Any = None) -> Any:
    strides, dilations, padding = window(attributes, x.shape[2:], w.shape[2:])
    function = {1: pf.conv1d, 2: pf.conv2d, 3: pf.conv3d}[len(strides)]
    return function(framed(x, padding), w, b, stride=tuple(strides), dilation=tuple(dilations),
                    groups=attributes.get("group", 1))


def conv_transpose(attributes: Dict[str, Any], x: Any, w: Any, b: Any = None) -> Any:
    rank = len(x.shape) - 2
    kernel = w.shape[2:]
    strides = attributes.get("strides", [1] * rank)
    dilations = attributes.get("dilations", [1] * rank)
    more = attributes.get("output_padding", [0] * rank)
    how = text(attributes.get("auto_pad", "NOTSET"))
    pads = attributes.get("pads", [0] * 2 * rank)
    padding = list(zip(pads[:rank], pads[rank:]))
    whole = [(n - 1) * s + (k - 1) * d + 1 + o for n, s, k, d, o in zip(x.shape[2:], strides, kernel, dilations, more)]
    if "output_shape" in attributes or how.startswith("SAME"):
        wanted = attributes.get("output_shape", [n * s for n, s in zip(x.shape[2:], strides)])
        spare = [have - want for have, want in zip(whole, wanted[-rank:])]
        padding = [(n - n // 2, n // 2) if how != "SAME_UPPER" else (n // 2, n - n // 2) for n in spare]
    function = {1: pf.conv_transpose1d, 2: pf.conv_transpose2d, 3: pf.conv_transpose3d}[rank]
    result = function(x, w, b, stride=tuple(strides), dilation=tuple(dilations), groups=attributes.get("group", 1))
    result = framed(result, [(0, o) for o in more])
    # The cropping may be negative, if the requested shape is larger.
    result = framed(result, [(max(-before, 0), max(-after, 0)) for before, after in padding])
    for axis, (before, after) in enumerate(padding):
        before, after = max(before, 0), max(after, 0)
        result = result.narrow(axis + 2, before, result.shape[axis + 2] - before - after)
    return result


def with_ceiling(attributes: Dict[str, Any], lengths: Any, kernel: Any, strides: Any, dilations: Any, padding: Any) -> Any:
    """Additional padding at the end, so that the last window of a rounded-up count is complete."""
    if not attributes.get("ceil_mode", 0):
        return padding
    result = []
    for length, size, stride, dilation, (before, after) in zip(lengths, kernel, strides, dilations, padding):
        reach = (size - 1) * dilation + 1
        count = -(-(length + before + after - reach) // stride) + 1
        if (count - 1) * stride >= length + before:
            count -= 1
        result.append((before, max(after, (count - 1) * stride + reach - length - before)))
    return result


def max_pool(attributes: Dict[str, Any], x: Any) -> Any:
    if attributes.get("outputs", 1) > 1:
        raise NotImplementedError("max pooling with indices")
    kernel = attributes["kernel_shape"]
    strides, dilations, padding = window(attributes, x.shape[2:], kernel)
    padding = with_ceiling(attributes, x.shape[2:], kernel, strides, dilations, padding)
    low = -math.inf if x.dtype.is_floating_point else np.iinfo(str(x.dtype).split(".")[-1]).min
    function = {1: pf.max_pool1d, 2: pf.max_pool2d, 3: pf.max_pool3d}[len(kernel)]
    return function(framed(x, padding, low), tuple(kernel), stride=tuple(strides), dilation=tuple(dilations))


def sums_of_windows(x: Any, kernel: Any, strides: Any, dilations: Any) -> Any:
    """Sums over windows, as a convolution of every channel with ones."""
    function = {1: pf.conv1d, 2: pf.conv2d, 3: pf.conv3d}[len(kernel)]
    n, c = x.shape[:2]
    single = x.reshape([n * c, 1] + list(x.shape[2:]))
    sums = function(single, pf.ones([1, 1] + list(kernel), dtype=x.dtype), stride=tuple(strides), dilation=tuple(dilations))
    return sums.reshape([n, c] + list(sums.shape[2:]))


def average_pool(attributes: Dict[str, Any], x: Any) -> Any:
    kernel = attributes["kernel_shape"]
    strides, dilations, padding = window(attributes, x.shape[2:], kernel)
    whole = with_ceiling(attributes, x.shape[2:], kernel, strides, dilations, padding)
    counted = pf.ones_like(x)
    if attributes.get("count_include_pad", 0):
        counted = framed(counted, padding, 1.0)
        beyond = [(0, all_[1] - own[1]) for all_, own in zip(whole, padding)]
    else:
        beyond = whole
    sums = sums_of_windows(framed(x, whole), kernel, strides, dilations)
    return sums / sums_of_windows(framed(counted, beyond), kernel, strides, dilations)


def lp_pool(attributes: Dict[str, Any], x: Any) -> Any:
    p, kernel = attributes.get("p", 2), attributes["kernel_shape"]
    strides, dilations, padding = window(attributes, x.shape[2:], kernel)
    padding = with_ceiling(attributes, x.shape[2:], kernel, strides, dilations, padding)
    return pf.pow(sums_of_windows(framed(pf.pow(pf.abs(x), p), padding), kernel, strides, dilations), 1.0 / p)


def globally(function: Any) -> Any:
    return lambda attributes, x: function(x, dim=tuple(range(2, len(x.shape))), keepdim=True)


# Norms, softmax, losses.

def batch_normalization(attributes: Dict[str, Any], x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
    if attributes.get("training_mode", 0):
        axes = tuple(axis for axis in range(len(x.shape)) if axis != 1)
        now = pf.mean(x, dim=axes)
        spread = pf.mean((x - now.reshape([1, -1] + [1] * (len(x.shape) - 2))) ** 2, dim=axes)
        momentum = attributes.get("momentum", 0.9)
        result = pf.batch_norm(x, now, spread, scale, bias, eps=attributes.get("epsilon", 1e-5))
        return result, mean * momentum + now * (1 - momentum), variance * momentum + spread * (1 - momentum)
    return pf.batch_norm(x, mean, variance, scale, bias, eps=attributes.get("epsilon", 1e-5))


def layer_normalization(attributes: Dict[str, Any], x: Any, scale: Any, bias: Any = None) -> Any:
    axis = attributes.get("axis", -1) % len(x.shape)
    lengths, epsilon = list(x.shape[axis:]), attributes.get("epsilon", 1e-5)
    result = pf.layer_norm(x, lengths, scale.broadcast_to(lengths), None if bias is None else bias.broadcast_to(lengths), eps=epsilon)
    if attributes.get("outputs", 1) == 1:
        return result
    axes = tuple(range(axis, len(x.shape)))
    mean_ = pf.mean(x, dim=axes, keepdim=True)
    return result, mean_, 1 / pf.sqrt(pf.mean((x - mean_) ** 2, dim=axes, keepdim=True) + epsilon)


def rms_normalization(attributes: Dict[str, Any], x: Any, scale: Any) -> Any:
    axis = attributes.get("axis", -1) % len(x.shape)
    axes = tuple(range(axis, len(x.shape)))
    wide = x.to(pf.float32) if x.dtype in (pf.float16, pf.bfloat16) else x
    normal = wide / pf.sqrt(pf.mean(wide * wide, dim=axes, keepdim=True) + attributes.get("epsilon", 1e-5))
    return normal.to(x.dtype) * scale


def instance_normalization(attributes: Dict[str, Any], x: Any, scale: Any, bias: Any) -> Any:
    return pf.instance_norm(x, weight=scale, bias=bias, eps=attributes.get("epsilon", 1e-5))


def group_normalization(attributes: Dict[str, Any], x: Any, scale: Any, bias: Any) -> Any:
    return pf.group_norm(x, attributes["num_groups"], scale, bias, eps=attributes.get("epsilon", 1e-5))


def mean_variance_normalization(attributes: Dict[str, Any], x: Any) -> Any:
    axes = tuple(attributes.get("axes", [0, 2, 3]))
    centred = x - pf.mean(x, dim=axes, keepdim=True)
    return centred / (pf.sqrt(pf.mean(centred * centred, dim=axes, keepdim=True)) + 1e-9)


def lp_normalization(attributes: Dict[str, Any], x: Any) -> Any:
    axis = attributes.get("axis", -1)
    length = pf.sum(pf.abs(x), dim=axis, keepdim=True) if attributes.get("p", 2) == 1 else \
        pf.sqrt(pf.sum(x * x, dim=axis, keepdim=True))
    return pf.where(length == 0, pf.zeros_like(x), x / length)


def along(function: Any) -> Any:
    def apply(attributes: Dict[str, Any], x: Any) -> Any:
        if attributes["opset"] < 13:
            axis = attributes.get("axis", 1)
            return function(flatten({"axis": axis}, x), dim=-1).reshape(list(x.shape))
        return function(x, dim=attributes.get("axis", -1))
    return apply


def hardmax(attributes: Dict[str, Any], x: Any) -> Any:
    axis = attributes.get("axis", -1) % len(x.shape)
    lengths = [1] * len(x.shape)
    lengths[axis] = x.shape[axis]
    return (pf.argmax(x, dim=axis, keepdim=True) == pf.arange(x.shape[axis]).reshape(lengths)).to(x.dtype)


def nll(attributes: Dict[str, Any], scores: Any, target: Any, weight: Any = None) -> Any:
    return pf.nll_loss(scores, target.to(pf.int64), weight=weight, reduction=text(attributes.get("reduction", "mean")),
                       ignore_index=attributes.get("ignore_index", -100))


def softmax_cross_entropy(attributes: Dict[str, Any], scores: Any, target: Any, weight: Any = None) -> Any:
    logs = pf.log_softmax(scores, dim=1)
    loss = nll(attributes, logs, target, weight)
    return (loss, logs) if attributes.get("outputs", 1) > 1 else loss


def dropout(attributes: Dict[str, Any], x: Any, ratio: Any = None, training: Any = None) -> Any:
    if training is not None and numbers(training)[0] and (ratio is None or numbers(ratio)[0] != 0):
        raise NotImplementedError("random numbers cannot be compared")
    mask = pf.ones_like(x).to(pf.bool_)
    return (x, mask) if attributes.get("outputs", 1) > 1 else x


OPERATORS = {
    # elementwise
    **{name: elementwise(function) for name, function in {
        "Abs": pf.abs, "Neg": pf.neg, "Sqrt": pf.sqrt, "Exp": pf.exp, "Log": pf.log, "Sin": pf.sin, "Cos": pf.cos, "Tan": pf.tan,
        "Asin": pf.asin, "Acos": pf.acos, "Atan": pf.atan, "Sinh": pf.sinh, "Cosh": pf.cosh, "Tanh": pf.tanh, "Asinh": pf.asinh,
        "Acosh": pf.acosh, "Atanh": pf.atanh, "Erf": pf.erf, "Sigmoid": pf.sigmoid, "Relu": pf.relu, "Floor": pf.floor,
        "Ceil": pf.ceil, "Round": pf.round, "Sign": pf.sign, "IsNaN": pf.isnan, "Reciprocal": pf.reciprocal,
        "Mish": pf.mish, "Softplus": pf.softplus,
        "Add": pf.add, "Sub": pf.sub, "Mul": pf.mul, "Equal": pf.eq, "Less": pf.lt, "LessOrEqual": pf.le, "Greater": pf.gt,
        "GreaterOrEqual": pf.ge, "And": pf.logical_and, "Or": pf.logical_or, "Xor": pf.logical_xor, "Not": pf.logical_not,
        "BitwiseAnd": pf.bitwise_and, "BitwiseOr": pf.bitwise_or, "BitwiseXor": pf.bitwise_xor, "BitwiseNot": pf.bitwise_not,
        "Where": pf.where, "MatMul": pf.matmul, "Identity": lambda x: x, "CastLike": lambda x, like: x.to(like.dtype),
    }.items()},
    "Sum": variadic(pf.add), "Max": variadic(pf.maximum), "Min": variadic(pf.minimum), "Mean": mean_of,
    "Div": divide, "Mod": modulo, "Pow": power, "BitShift": shift, "Clip": clip, "IsInf": is_inf, "Cast": cast,
    "Gelu": gelu, "Elu": lambda attributes, x: pf.elu(x, attributes.get("alpha", 1.0)), "Celu": celu, "Selu": selu,
    "LeakyRelu": lambda attributes, x: pf.leaky_relu(x, attributes.get("alpha", 0.01)), "PRelu": prelu, "HardSigmoid": hard_sigmoid,
    "HardSwish": hard_swish, "Swish": swish, "Softsign": softsign,
    "ThresholdedRelu": thresholded_relu, "Shrink": shrink,
    # reductions
    "ReduceSum": reduction(SUM), "ReduceMax": reduction(MAX), "ReduceMin": reduction(MIN), "ReduceMean": reduction(mean),
    "ReduceProd": reduction(in_its_type(one_by_one(pf.prod))),
    "ReduceL1": reduction(lambda x, axes, keep: SUM(pf.abs(x), axes, keep)),
    "ReduceL2": reduction(lambda x, axes, keep: pf.sqrt(SUM(x * x, axes, keep))),
    "ReduceSumSquare": reduction(lambda x, axes, keep: SUM(x * x, axes, keep)),
    "ReduceLogSum": reduction(lambda x, axes, keep: pf.log(SUM(x, axes, keep))),
    "ReduceLogSumExp": reduction(log_sum_exp),
    "ArgMax": arg(pf.argmax), "ArgMin": arg(pf.argmin), "CumSum": cumulative(pf.cumsum), "CumProd": cumulative(pf.cumprod),
    # shapes
    "Constant": constant, "ConstantOfShape": constant_of_shape, "Shape": shape, "Size": size, "Reshape": reshape,
    "Flatten": flatten, "Transpose": transpose, "Squeeze": squeeze, "Unsqueeze": unsqueeze, "Expand": expand, "Concat": concat,
    "Split": split, "Slice": slice_, "Pad": pad, "Tile": tile, "Range": range_, "Trilu": trilu, "EyeLike": eye_like,
    "DepthToSpace": depth_to_space, "SpaceToDepth": space_to_depth,
    # indices
    "Gather": gather, "GatherElements": gather_elements, "ScatterElements": scatter_elements, "Scatter": scatter_elements,
    "OneHot": one_hot, "TopK": top_k, "Compress": compress, "NonZero": non_zero,
    # products, convolutions, pools
    "Gemm": gemm, "Einsum": einsum, "Conv": conv, "ConvTranspose": conv_transpose, "MaxPool": max_pool,
    "AveragePool": average_pool, "LpPool": lp_pool, "GlobalAveragePool": globally(pf.mean), "GlobalMaxPool": globally(pf.amax),
    # norms, softmax, losses
    "BatchNormalization": batch_normalization, "LayerNormalization": layer_normalization, "RMSNormalization": rms_normalization,
    "InstanceNormalization": instance_normalization, "GroupNormalization": group_normalization,
    "MeanVarianceNormalization": mean_variance_normalization, "LpNormalization": lp_normalization,
    "Softmax": along(pf.softmax), "LogSoftmax": along(pf.log_softmax), "Hardmax": hardmax,
    "NegativeLogLikelihoodLoss": nll, "SoftmaxCrossEntropyLoss": softmax_cross_entropy, "Dropout": dropout,
}
