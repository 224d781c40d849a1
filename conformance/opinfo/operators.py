"""Entries of torch's OpInfo database in terms of pyflame: a table with one line per entry.

Every function takes the arguments of the entry's own function, with tensors, element types and devices converted. Most are pyflame's
function of the same name. A sample that needs what pyflame's function does not support raises NotOurs, with the reason.
"""

import operator

import torch

import pyflame as pf
import pyflame.nn.functional as F
from pyflame import array_api

# torch's element types that pyflame supports, and their names there.
TYPES = {torch.float32: "float32", torch.float64: "float64", torch.float16: "float16", torch.bfloat16: "bfloat16",
         torch.uint8: "uint8", torch.int8: "int8", torch.int16: "int16", torch.int32: "int32", torch.int64: "int64",
         torch.bool: "bool", torch.complex64: "complex64", torch.complex128: "complex128"}


class NotOurs(Exception):
    """A sample for something that pyflame does not support."""


class Unpredictable:
    """A function with random or uninitialised results, of which only shape and type can be compared."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *arguments, **named):
        return self.function(*arguments, **named)


class Chosen(Unpredictable):
    """A function whose indices, or whose only result, select elements along an axis. Equal elements may be selected in any order, unless
    the order must be stable: the selected elements are compared, and that no index is used twice."""

    def picked(self, x, indices, dim):
        """The elements that the indices of either library select."""
        if x.ndim == 0:
            return [x]
        picked = x.gather(dim, indices)
        ordered = indices.sort(dim)
        ordered = ordered.values if hasattr(ordered, "values") else ordered[0]
        return [picked, ordered.narrow(dim, 1, ordered.shape[dim] - 1) != ordered.narrow(dim, 0, ordered.shape[dim] - 1)]


def tensor_of(given, leaves):
    """The same elements, with the same strides."""
    if given.layout is not torch.strided:
        raise NotOurs("tensors that are not dense")
    if given.dtype not in TYPES:
        raise NotOurs(f"an argument of type {given.dtype}")
    plain = given.detach().resolve_conj().resolve_neg()
    name = TYPES[plain.dtype]
    if plain.is_contiguous() or plain.numel() == 0:
        made = pf._pyflame.from_parts(name, list(plain.shape), bytes_of(plain.contiguous().reshape(-1)))
    else:
        span = 1 + sum((length - 1) * stride for length, stride in zip(plain.shape, plain.stride()))
        memory = torch.as_strided(plain, (span,), (1,), plain.storage_offset())
        made = pf._pyflame.from_parts(name, [span], bytes_of(memory)).as_strided(list(plain.shape), list(plain.stride()))
    if given.requires_grad:
        made = made.detach().requires_grad_()
        if leaves is not None:
            leaves.append((given, made))
    return made


def bytes_of(vector):
    if vector.numel() == 0:
        return b""
    return vector.view(torch.int16).numpy().tobytes() if vector.dtype is torch.bfloat16 else vector.numpy().tobytes()


def convert(value, leaves=None):
    """Converts an argument of torch to pyflame's; tensors that require gradients are also added to `leaves`, with their conversions."""
    if isinstance(value, torch.Tensor):
        return tensor_of(value, leaves)
    if isinstance(value, torch.dtype):
        if value not in TYPES:
            raise NotOurs(f"an argument of type {value}")
        return getattr(pf, TYPES[value])
    if isinstance(value, (torch.layout, torch.memory_format)):
        if value in (torch.strided, torch.contiguous_format, torch.preserve_format):
            return value
        raise NotOurs(f"a layout {value}")
    if isinstance(value, slice):
        return slice(*(convert(part, leaves) for part in (value.start, value.stop, value.step)))
    if isinstance(value, dict):
        return {name: convert(part, leaves) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        parts = [convert(part, leaves) for part in value]
        return parts if isinstance(value, list) else tuple(parts)
    return value


# Adapters.

def made(function):
    """A function that creates tensors: pyflame's device is set once, and layouts are ignored."""
    def make(*arguments, **named):
        if named.pop("layout", None) not in (None, torch.strided):
            raise NotOurs("tensors that are not dense")
        for name in ("device", "pin_memory", "memory_format"):
            named.pop(name, None)
        return function(*arguments, **named)
    return make


def method(name):
    return lambda x, *arguments, **named: getattr(x, name)(*arguments, **named)


def attribute(name):
    return lambda x: getattr(x, name)


def cast(name):
    def call(x, memory_format=None):
        return getattr(x, name)()
    return call


def tensors_of(function):
    """A function of a list of tensors, which torch also accepts as separate arguments."""
    return lambda first, *others, **named: function(*(first if isinstance(first, (list, tuple)) else (first, *others)), **named)


# Entries that are not just a function of the same name.

def arange(first, *others, **named):
    if len(others) == 2 and (others[0] - first) * others[1] < 0:
        raise NotOurs("a range in the wrong direction is empty, as in the Array API standard")
    return made(pf.arange)(first, *others, **named)


def of_tensors(function):
    """A function of two tensors; pyflame also accepts a number as the second."""
    def call(x, other):
        if isinstance(other, (int, float)):
            raise NotOurs("pyflame accepts a number in place of a tensor")
        return function(x, other)
    return call


def by_index(function):
    """An operation by index, which may have any integer type."""
    def call(x, dim, index, *others, **named):
        if index.dtype in (pf.int8, pf.int16, pf.int32, pf.uint8):
            raise NotOurs("pyflame accepts indices of all integer types")
        if named.get("reduce") == "multiply":
            raise NotOurs("scatter that multiplies")
        return function(x, dim, index, *others, **named)
    return call


def extreme(function):
    def call(x, *arguments, **named):
        if x.ndim > 64:
            raise NotOurs("pyflame accepts more than 64 dimensions")
        return function(x, *arguments, **named)
    return call


def item(x, key):
    """Converts a list of indices, which this torch still treats as a tuple, to a tuple."""
    if isinstance(key, list) and not all(isinstance(part, int) for part in key):
        key = tuple(key)
    return x[key]


def random(function):
    def call(*arguments, **named):
        types = [getattr(part, "dtype", None) for part in arguments] + [named.get("dtype")]
        if pf.complex64 in types or pf.complex128 in types:
            raise NotOurs("random complex numbers")
        return function(*arguments, **named)
    return Unpredictable(call)


def raised(x, base):
    """torch copies the base first, which then has no gradient."""
    return pf.Tensor.__rpow__(x, base.detach() if isinstance(base, pf.Tensor) else base)


def to(x, *arguments, **named):
    if len(arguments) > 4 or named.pop("memory_format", None) is not None:
        raise NotOurs("a memory format")
    arguments = [pf.get_device() if isinstance(part, torch.device) else part for part in arguments]
    return x.to(*("cpu" if part == "cpu" else part for part in arguments), **named)


def embedding(weight, index, **named):
    for name in ("max_norm", "scale_grad_by_freq", "sparse"):
        if named.pop(name, None):
            raise NotOurs(f"embedding with {name}")
    named.pop("norm_type", None)
    return pf.embedding(index, weight, **named)


def where(x, condition, other):
    return pf.where(condition, x, other)


def attention(query, key, value, attn_mask=None, dropout_p=0.0, need_attn_weights=False, is_causal=False):
    if dropout_p:
        raise NotOurs("attention with dropout")
    # torch returns the weights whether they are requested or not.
    found = F.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal)
    if is_causal:
        attn_mask = F.causal_mask(query.shape[-2], key.shape[-2], query.dtype, query.device)
    return found, F.attention_with_weights(query, key, value, attn_mask)[1]


def changed(name):
    """An in-place method."""
    def change(x, *arguments, **named):
        x = x.clone()
        getattr(x, name)(*arguments, **named)
        return x
    return change


def along(x, indices, dim=None):
    """The array API has neither a flattened default axis nor broadcast indices."""
    if dim is None:
        return array_api.take_along_axis(x.reshape(-1), indices.reshape(-1), axis=0)
    lengths = [max(a, b) if axis != dim % x.ndim else None for axis, (a, b) in enumerate(zip(x.shape, indices.shape))]
    wide = [[own if length is None else length for own, length in zip(tensor.shape, lengths)] for tensor in (x, indices)]
    return array_api.take_along_axis(x.expand(wide[0]), indices.expand(wide[1]), axis=dim)


OPERATORS = {
    # Elementwise, of one tensor.
    "abs": pf.abs,
    "acos": pf.acos,
    "acosh": pf.acosh,
    "asin": pf.asin,
    "asinh": pf.asinh,
    "atan": pf.atan,
    "atanh": pf.atanh,
    "bitwise_not": pf.bitwise_not,
    "ceil": pf.ceil,
    "clamp": pf.clamp,
    "conj": pf.conj,
    "cos": pf.cos,
    "cosh": pf.cosh,
    "erf": pf.erf,
    "exp": pf.exp,
    "exp2": pf.exp2,
    "expm1": pf.expm1,
    "floor": pf.floor,
    "imag": attribute("imag"),
    "isfinite": pf.isfinite,
    "isinf": pf.isinf,
    "isnan": pf.isnan,
    "log": pf.log,
    "log10": pf.log10,
    "log1p": pf.log1p,
    "log2": pf.log2,
    "logical_not": pf.logical_not,
    "positive": array_api.positive,
    "signbit": array_api.signbit,
    "neg": pf.neg,
    "real": attribute("real"),
    "reciprocal": pf.reciprocal,
    "round": pf.round,
    "round.decimals_0": pf.round,
    "round.decimals_3": pf.round,
    "round.decimals_neg_3": pf.round,
    "rsqrt": pf.rsqrt,
    "sigmoid": pf.sigmoid,
    "sign": pf.sign,
    "sin": pf.sin,
    "sinh": pf.sinh,
    "sqrt": pf.sqrt,
    "square": pf.square,
    "tan": pf.tan,
    "tanh": pf.tanh,
    "trunc": pf.trunc,
    # Elementwise, of several.
    "add": pf.add,
    "allclose": pf.allclose,
    "atan2": of_tensors(pf.atan2),
    "bitwise_and": pf.bitwise_and,
    "bitwise_left_shift": pf.bitwise_left_shift,
    "bitwise_or": pf.bitwise_or,
    "bitwise_right_shift": pf.bitwise_right_shift,
    "bitwise_xor": pf.bitwise_xor,
    "copysign": pf.copysign,
    "div.no_rounding_mode": pf.div,
    "div.trunc_rounding": pf.div,
    "div.floor_rounding": pf.div,
    "true_divide": pf.true_divide,
    "eq": pf.eq,
    "equal": pf.equal,
    "floor_divide": pf.floor_divide,
    "ge": pf.ge,
    "gt": pf.gt,
    "hypot": of_tensors(pf.hypot),
    "isclose": pf.isclose,
    "le": pf.le,
    "logaddexp": pf.logaddexp,
    "logical_and": of_tensors(pf.logical_and),
    "logical_or": of_tensors(pf.logical_or),
    "logical_xor": of_tensors(pf.logical_xor),
    "lt": pf.lt,
    "max.binary": pf.max,
    "maximum": of_tensors(pf.maximum),
    "min.binary": pf.min,
    "minimum": of_tensors(pf.minimum),
    "mul": pf.mul,
    "ne": pf.ne,
    "nextafter": of_tensors(pf.nextafter),
    "pow": pf.pow,
    "remainder": pf.remainder,
    "sub": pf.sub,
    "where": where,
    "__radd__": pf.Tensor.__radd__,
    "__rand__": pf.Tensor.__rand__,
    "__rdiv__": pf.Tensor.__rtruediv__,
    "__rmatmul__": pf.Tensor.__rmatmul__,
    "__rmod__": pf.Tensor.__rmod__,
    "__rmul__": pf.Tensor.__rmul__,
    "__ror__": pf.Tensor.__ror__,
    "__rpow__": raised,
    "__rsub__": pf.Tensor.__rsub__,
    "__rxor__": pf.Tensor.__rxor__,
    # Reductions, and along an axis.
    "all": pf.all,
    "amax": extreme(pf.amax),
    "amin": extreme(pf.amin),
    "any": pf.any,
    "argmax": pf.argmax,
    "argmin": pf.argmin,
    "argsort": Chosen(pf.argsort),
    "cumprod": pf.cumprod,
    "cumsum": pf.cumsum,
    "log_softmax": pf.log_softmax,
    "log_softmax.dtype": pf.log_softmax,
    "logsumexp": pf.logsumexp,
    "max.reduction_no_dim": pf.max,
    "max.reduction_with_dim": pf.max,
    "mean": pf.mean,
    "min.reduction_no_dim": pf.min,
    "min.reduction_with_dim": pf.min,
    "norm": pf.norm,
    "norm.fro": pf.norm,
    "norm.inf": pf.norm,
    "prod": pf.prod,
    "softmax": pf.softmax,
    "softmax.with_dtype": pf.softmax,
    "sort": Chosen(pf.sort),
    "std": pf.std,
    "sum": pf.sum,
    "topk": Chosen(pf.topk),
    "var": pf.var,
    "count_nonzero": lambda x, dim=None: array_api.count_nonzero(x, axis=dim),
    "diff": lambda x, n=1, dim=-1, prepend=None, append=None: array_api.diff(x, n=n, axis=dim, prepend=prepend, append=append),
    # Products.
    "linalg.vecdot": lambda x, y, dim=-1: array_api.vecdot(x, y, axis=dim),
    "tensordot": lambda x, y, dims=2: array_api.tensordot(x, y, axes=dims),
    "bmm": pf.bmm,
    "dot": pf.dot,
    "einsum": lambda operands, equation: pf.einsum(equation, *operands),
    "matmul": pf.matmul,
    "mm": pf.mm,
    "outer": pf.outer,
    "nn.functional.linear": F.linear,
    # Shapes.
    "T": attribute("T"),
    "as_strided": pf.as_strided,
    "broadcast_to": pf.broadcast_to,
    "broadcast_tensors": array_api.broadcast_arrays,
    "cat": pf.cat,
    "chunk": pf.chunk,
    "clone": made(pf.clone),
    "constant_pad_nd": lambda x, pad, value=0: F.pad(x, pad, value=value),
    "contiguous": made(pf.contiguous),
    "expand": pf.expand,
    "expand_as": pf.expand_as,
    "flatten": pf.flatten,
    "flip": pf.flip,
    "mT": attribute("mT"),
    "meshgrid.list_of_tensors": pf.meshgrid,
    "meshgrid.variadic_tensors": pf.meshgrid,
    "movedim": pf.movedim,
    "narrow": pf.narrow,
    "nn.functional.pad.circular": F.pad,
    "nn.functional.pad.constant": F.pad,
    "nn.functional.pad.reflect": F.pad,
    "nn.functional.pad.replicate": F.pad,
    "permute": pf.permute,
    "ravel": pf.ravel,
    "repeat": pf.repeat,
    "repeat_interleave": pf.repeat_interleave,
    "reshape": pf.reshape,
    "reshape_as": pf.reshape_as,
    "roll": pf.roll,
    "select": pf.select,
    "slice": pf.slice,
    "split": pf.split,
    "split.list_args": pf.split,
    "split_with_sizes": pf.split,
    "squeeze": pf.squeeze,
    "stack": pf.stack,
    "t": pf.t,
    "tile": pf.tile,
    "transpose": pf.transpose,
    "tril": pf.tril,
    "triu": pf.triu,
    "unbind": pf.unbind,
    "unfold": pf.unfold,
    "unsqueeze": pf.unsqueeze,
    "view": pf.view,
    "view_as": method("view_as"),
    # By index.
    "__getitem__": item,
    "gather": by_index(pf.gather),
    "index_select": pf.index_select,
    "masked_fill": pf.masked_fill,
    "masked_select": pf.masked_select,
    "nn.functional.embedding": embedding,
    "nn.functional.one_hot": F.one_hot,
    "nonzero": pf.nonzero,
    "scatter": by_index(pf.scatter),
    "scatter_add": by_index(pf.scatter_add),
    "take": pf.take,
    "take_along_dim": along,
    # Types.
    "bfloat16": cast("bfloat16"),
    "bool": cast("bool"),
    "double": cast("double"),
    "float": cast("float"),
    "half": cast("half"),
    "int": cast("int"),
    "long": cast("long"),
    "short": cast("short"),
    "to": to,
    # New tensors.
    "arange": arange,
    "empty": Unpredictable(made(pf.empty)),
    "empty_like": Unpredictable(made(pf.empty_like)),
    "eye": made(pf.eye),
    "fill": changed("fill_"),
    "full_like": made(pf.full_like),
    "linspace": made(pf.linspace),
    "ones": made(pf.ones),
    "ones_like": made(pf.ones_like),
    "rand_like": random(made(pf.rand_like)),
    "randn": random(made(pf.randn)),
    "randn_like": random(made(pf.randn_like)),
    "uniform": random(changed("uniform_")),
    "zero_": changed("zero_"),
    "zeros": made(pf.zeros),
    "zeros_like": made(pf.zeros_like),
    # Layers.
    "nn.functional._scaled_dot_product_attention": attention,
    "nn.functional.adaptive_avg_pool1d": F.adaptive_avg_pool1d,
    "nn.functional.adaptive_avg_pool2d": F.adaptive_avg_pool2d,
    "nn.functional.adaptive_avg_pool3d": F.adaptive_avg_pool3d,
    "nn.functional.avg_pool1d": F.avg_pool1d,
    "nn.functional.avg_pool2d": F.avg_pool2d,
    "nn.functional.avg_pool3d": F.avg_pool3d,
    "nn.functional.batch_norm": F.batch_norm,
    "nn.functional.batch_norm.without_cudnn": F.batch_norm,
    "nn.functional.conv1d": F.conv1d,
    "nn.functional.conv2d": F.conv2d,
    "nn.functional.conv_transpose1d": F.conv_transpose1d,
    "nn.functional.conv_transpose2d": F.conv_transpose2d,
    "nn.functional.conv_transpose3d": F.conv_transpose3d,
    "nn.functional.cosine_similarity": F.cosine_similarity,
    "nn.functional.dropout": Unpredictable(F.dropout),
    "nn.functional.dropout2d": Unpredictable(F.dropout2d),
    "nn.functional.elu": F.elu,
    "nn.functional.gelu": F.gelu,
    "nn.functional.group_norm": F.group_norm,
    "nn.functional.hardsigmoid": F.hardsigmoid,
    "nn.functional.hardswish": F.hardswish,
    "nn.functional.hardtanh": F.hardtanh,
    "nn.functional.instance_norm": F.instance_norm,
    "nn.functional.layer_norm": F.layer_norm,
    "nn.functional.leaky_relu": F.leaky_relu,
    "nn.functional.logsigmoid": F.logsigmoid,
    "nn.functional.max_pool1d": F.max_pool1d,
    "nn.functional.max_pool2d": F.max_pool2d,
    "nn.functional.max_pool3d": F.max_pool3d,
    "nn.functional.mish": F.mish,
    "nn.functional.normalize": F.normalize,
    "nn.functional.prelu": F.prelu,
    "nn.functional.relu": F.relu,
    "nn.functional.relu6": F.relu6,
    "nn.functional.selu": F.selu,
    "nn.functional.silu": F.silu,
    "nn.functional.silu.complex": F.silu,
    "nn.functional.softplus": F.softplus,
    "nn.functional.softsign": F.softsign,
    # Losses.
    "nn.functional.binary_cross_entropy": F.binary_cross_entropy,
    "nn.functional.binary_cross_entropy_with_logits": F.binary_cross_entropy_with_logits,
    "nn.functional.cross_entropy": F.cross_entropy,
    "nn.functional.huber_loss": F.huber_loss,
    "nn.functional.kl_div": F.kl_div,
    "nn.functional.l1_loss": F.l1_loss,
    "nn.functional.mse_loss": F.mse_loss,
    "nn.functional.nll_loss": F.nll_loss,
    "nn.functional.smooth_l1_loss": F.smooth_l1_loss,
}
