"""Writing ONNX models: the operations of one call of a model, as a graph."""

from __future__ import annotations

import os
import struct
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import pyflame as pf
import pyflame._pyflame as core
from pyflame import nn

from .model import load
from .operators import NUMPY_TYPES

OPSET = 20
_TYPES = {name: number for number, name in NUMPY_TYPES.items()}
_LONGEST = (1 << 31) - 1


def _number(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _field(number: int, value: Union[int, str, bytes, float]) -> bytes:
    if isinstance(value, float):
        return _number(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return _number(number << 3) + _number(value)
    data = value.encode() if isinstance(value, str) else value
    return _number(number << 3 | 2) + _number(len(data)) + data


def _attribute(name: str, value: Any) -> bytes:
    if isinstance(value, float):
        return _field(1, name) + _field(2, value) + _field(20, 1)
    if isinstance(value, int):
        return _field(1, name) + _field(3, value) + _field(20, 2)
    if isinstance(value, str):
        return _field(1, name) + _field(4, value) + _field(20, 3)
    return _field(1, name) + b"".join(_field(8, int(item)) for item in value) + _field(20, 7)


def _described(name: str, tensor: Any) -> bytes:
    """Name, type and shape of an input or output."""
    shape = b"".join(_field(1, _field(1, int(length))) for length in tensor.shape)
    kind = _field(1, _TYPES[tensor.dtype.name]) + _field(2, shape)
    return _field(1, name) + _field(2, _field(1, kind))


class Recorder:
    """The graph of the operations that are called while it is active."""

    def __init__(self) -> None:
        self.nodes: List[bytes] = []
        self.parameters: List[bytes] = []
        self.names: Dict[int, str] = {}
        # Names are by identity, so no tensor may go away.
        self.kept: List[Any] = []
        self.known: Dict[str, str] = {}
        self.busy = False

    def name(self, tensor: Any, name: Optional[str] = None) -> str:
        """A name for a new tensor."""
        made = name or f"t{len(self.names)}"
        self.names[id(tensor)] = made
        self.kept.append(tensor)
        return made

    def of(self, value: Any, like: Any = None) -> str:
        """The name of an operand; what no operation has made becomes a constant."""
        if value is None:
            return ""
        if not isinstance(value, pf.Tensor):
            value = pf.tensor(value, dtype=like.dtype if like is not None else None)
        if id(value) in self.names:
            return self.names[id(value)]
        dtype, shape, data, _ = value.detach().to_parts()
        name = self.name(value, self.known.get(str(id(value))) or f"c{len(self.names)}")
        content = b"".join(_field(1, int(length)) for length in shape) + _field(2, _TYPES[dtype]) + _field(8, name) + _field(9, data)
        self.parameters.append(content)
        return name

    def node(self, operator: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> None:
        """One operation."""
        content = b"".join(_field(1, name) for name in inputs) + b"".join(_field(2, name) for name in outputs)
        content += _field(4, operator) + b"".join(_field(5, _attribute(name, value)) for name, value in attributes.items())
        self.nodes.append(content)

    def emit(self, operator: str, inputs: Sequence[Any], result: Any, **attributes: Any) -> None:
        """One operation with one result; the inputs are names, tensors or numbers."""
        names = [value if isinstance(value, str) else self.of(value) for value in inputs]
        self.node(operator, names, [self.name(result)], **attributes)

    def integers(self, values: Sequence[int]) -> str:
        """A constant vector of integers."""
        return self.of(pf.tensor(list(values), dtype=pf.int64))


Handler = Callable[..., None]


def _binary(operator: str, reflected: bool = False) -> Handler:
    def handle(r: Recorder, result: Any, x: Any, other: Any, **options: Any) -> None:
        if any(value is not None for value in options.values()):
            raise NotImplementedError(f"{operator} with {', '.join(options)}")
        tensors = [value for value in (x, other) if isinstance(value, pf.Tensor)]
        wide = tensors[0].dtype
        for tensor in tensors[1:]:
            if tensor.dtype != wide:
                raise NotImplementedError(f"{operator} of {wide.name} and {tensor.dtype.name}; convert one of them")
        if result.dtype not in (wide, pf.bool_):
            raise NotImplementedError(f"{operator} of {wide.name} with a result of {result.dtype.name}")
        pair = [r.of(x, tensors[0]), r.of(other, tensors[0])]
        r.emit(operator, pair[::-1] if reflected else pair, result)

    return handle


def _unary(operator: str, **attributes: Any) -> Handler:
    return lambda r, result, x: r.emit(operator, [x], result, **attributes)


def _same(r: Recorder, result: Any, x: Any, *_: Any, **__: Any) -> None:
    r.emit("Identity", [x], result)


def _reshaped(r: Recorder, result: Any, x: Any, *_: Any, **__: Any) -> None:
    r.emit("Reshape", [x, r.integers([int(n) for n in result.shape])], result)


def _transposed(r: Recorder, result: Any, x: Any, dim0: int, dim1: int) -> None:
    order = list(range(x.ndim))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    r.emit("Transpose", [x], result, perm=order)


def _permuted(r: Recorder, result: Any, x: Any, *axes: Any, dims: Any = None) -> None:
    given = dims if dims is not None else axes[0] if len(axes) == 1 and isinstance(axes[0], (list, tuple)) else axes
    r.emit("Transpose", [x], result, perm=[int(axis) % x.ndim for axis in given])


def _linear(r: Recorder, result: Any, x: Any, weight: Any, bias: Any = None) -> None:
    flipped = f"{r.of(weight)}.T{len(r.nodes)}"
    r.node("Transpose", [r.of(weight)], [flipped], perm=[1, 0])
    product = f"{flipped}.product"
    if bias is None:
        r.emit("MatMul", [x, flipped], result)
        return
    r.node("MatMul", [r.of(x), flipped], [product])
    r.emit("Add", [product, bias], result)


def _each(value: Any, dims: int) -> List[int]:
    return [int(value)] * dims if isinstance(value, int) else [int(part) for part in value]


def _conv(dims: int) -> Handler:
    def handle(
        r: Recorder, result: Any, x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1,
    ) -> None:  # fmt: skip
        if x.ndim != dims + 2:
            raise NotImplementedError("a convolution without a batch axis")
        attributes: Dict[str, Any] = {"strides": _each(stride, dims), "dilations": _each(dilation, dims), "group": groups}
        if isinstance(padding, str):
            attributes["auto_pad"] = {"same": "SAME_UPPER", "valid": "VALID"}[padding]
        else:
            attributes["pads"] = _each(padding, dims) * 2
        r.emit("Conv", [x, weight] + ([] if bias is None else [bias]), result, **attributes)

    return handle


def _max_pool(dims: int) -> Handler:
    def handle(
        r: Recorder, result: Any, x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ) -> None:  # fmt: skip
        if return_indices or x.ndim != dims + 2:
            raise NotImplementedError("a pool with indices, or without a batch axis")
        kernel = _each(kernel_size, dims)
        r.emit(
            "MaxPool", [x], result, kernel_shape=kernel, strides=kernel if stride is None else _each(stride, dims),
            pads=_each(padding, dims) * 2, dilations=_each(dilation, dims), ceil_mode=int(ceil_mode),
        )  # fmt: skip

    return handle


def _avg_pool(dims: int) -> Handler:
    def handle(
        r: Recorder, result: Any, x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: Any = None,
    ) -> None:  # fmt: skip
        if divisor_override is not None or x.ndim != dims + 2:
            raise NotImplementedError("a pool with a divisor, or without a batch axis")
        kernel = _each(kernel_size, dims)
        r.emit(
            "AveragePool", [x], result, kernel_shape=kernel, strides=kernel if stride is None else _each(stride, dims),
            pads=_each(padding, dims) * 2, ceil_mode=int(ceil_mode), count_include_pad=int(count_include_pad),
        )  # fmt: skip

    return handle


def _adaptive(dims: int) -> Handler:
    def handle(r: Recorder, result: Any, x: Any, output_size: Any) -> None:
        lengths, sizes = x.shape[x.ndim - dims :], result.shape[x.ndim - dims :]
        if x.ndim != dims + 2 or any(length % size for length, size in zip(lengths, sizes)):
            raise NotImplementedError("an adaptive pool whose windows differ")
        kernel = [length // size for length, size in zip(lengths, sizes)]
        r.emit("AveragePool", [x], result, kernel_shape=kernel, strides=kernel)

    return handle


def _batch_norm(
    r: Recorder, result: Any, x: Any, running_mean: Any = None, running_var: Any = None, weight: Any = None, bias: Any = None,
    training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> None:  # fmt: skip
    if training or running_mean is None:
        raise NotImplementedError("batch normalisation while training; call model.eval()")
    scale = pf.ones_like(running_mean) if weight is None else weight
    shift = pf.zeros_like(running_mean) if bias is None else bias
    r.emit("BatchNormalization", [x, scale, shift, running_mean, running_var], result, epsilon=float(eps))


def _layer_norm(
    r: Recorder, result: Any, x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> None:
    shape = [normalized_shape] if isinstance(normalized_shape, int) else [int(length) for length in normalized_shape]
    scale = pf.ones(*shape, dtype=x.dtype) if weight is None else weight
    r.emit("LayerNormalization", [x, scale] + ([] if bias is None else [bias]), result, axis=-len(shape), epsilon=float(eps))


def _softmax(operator: str) -> Handler:
    def handle(r: Recorder, result: Any, x: Any, dim: int = -1, dtype: Any = None, *, axis: Optional[int] = None) -> None:
        if result.dtype != x.dtype:
            raise NotImplementedError(f"{operator} with a dtype")
        r.emit(operator, [x], result, axis=int(dim if axis is None else axis))

    return handle


def _reduction(operator: str) -> Handler:
    def handle(
        r: Recorder, result: Any, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, axis: Any = None,
        keepdims: bool = False,
    ) -> None:  # fmt: skip
        if result.dtype != x.dtype:
            raise NotImplementedError(f"{operator} of {x.dtype.name} with a result of {result.dtype.name}")
        axes = dim if dim is not None else axis
        chosen = list(range(x.ndim)) if axes is None else [axes] if isinstance(axes, int) else list(axes)
        r.emit(operator, [x, r.integers(chosen)], result, keepdims=int(keepdim or keepdims))

    return handle


def _item(r: Recorder, result: Any, x: Any, key: Any) -> None:
    """Slices and numbers: one Slice, then a Reshape for axes that disappear or are new."""
    parts = list(key) if isinstance(key, tuple) else [key]
    if any(not (part is None or part is Ellipsis or isinstance(part, (int, slice))) or isinstance(part, bool) for part in parts):
        raise NotImplementedError("indexing with tensors or lists")
    used = sum(part is not None and part is not Ellipsis for part in parts)
    starts: List[int] = []
    ends: List[int] = []
    axes: List[int] = []
    steps: List[int] = []
    axis = 0
    for part in parts:
        if part is Ellipsis:
            axis += x.ndim - used
        elif part is not None:
            length = int(x.shape[axis])
            if isinstance(part, int):
                start, end, step = part % length, part % length + 1, 1
            else:
                start, end, step = part.indices(length)
                end = -_LONGEST if step < 0 and end < 0 else end
            starts, ends, axes, steps = [*starts, start], [*ends, end], [*axes, axis], [*steps, step]
            axis += 1
    inner = f"{r.of(x)}.slice{len(r.nodes)}"
    if axes:
        r.node("Slice", [r.of(x), *(r.integers(values) for values in (starts, ends, axes, steps))], [inner])
    else:
        r.node("Identity", [r.of(x)], [inner])
    r.emit("Reshape", [inner, r.integers([int(n) for n in result.shape])], result)


def _parts(r: Recorder, results: Sequence[Any], x: Any, _: Any, dim: int = 0) -> None:
    lengths = r.integers([int(part.shape[dim]) for part in results])
    r.node("Split", [r.of(x), lengths], [r.name(part) for part in results], axis=dim % x.ndim)


def _expanded(r: Recorder, result: Any, x: Any, *_: Any, **__: Any) -> None:
    r.emit("Expand", [x, r.integers([int(n) for n in result.shape])], result)


def _gelu(r: Recorder, result: Any, x: Any, approximate: str = "none") -> None:
    r.emit("Gelu", [x], result, approximate=approximate)


def _clamped(r: Recorder, result: Any, x: Any, min: Any = None, max: Any = None) -> None:
    if isinstance(min, pf.Tensor) or isinstance(max, pf.Tensor) or result.dtype != x.dtype:
        raise NotImplementedError("clamp with tensors, or with a result of another type")
    bounds = ["" if bound is None else r.of(pf.tensor(bound, dtype=x.dtype)) for bound in (min, max)]
    r.emit("Clip", [x, *bounds], result)


def _joined(r: Recorder, result: Any, tensors: Sequence[Any], dim: int = 0, *, axis: Optional[int] = None) -> None:
    r.emit("Concat", [r.of(x) for x in tensors], result, axis=int(dim if axis is None else axis))


def _looked_up(r: Recorder, result: Any, indices: Any, weight: Any, padding_idx: Any = None) -> None:
    r.emit("Gather", [weight, indices], result, axis=0)


def _chosen(r: Recorder, result: Any, condition: Any, x: Any, y: Any) -> None:
    r.emit("Where", [r.of(condition), r.of(x, result), r.of(y, result)], result)


def _dropped(r: Recorder, result: Any, x: Any, p: float = 0.5, training: bool = True) -> None:
    if training and p:
        raise NotImplementedError("dropout while training; call model.eval()")
    r.emit("Identity", [x], result)


def _converted(r: Recorder, result: Any, x: Any, *_: Any, **__: Any) -> None:
    r.emit("Cast", [x], result, to=_TYPES[result.dtype.name])


METHODS: Dict[str, Handler] = {
    **{name: _binary(operator) for name, operator in {
        "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "__add__": "Add", "__sub__": "Sub", "__mul__": "Mul",
        "__truediv__": "Div", "pow": "Pow", "__pow__": "Pow", "matmul": "MatMul", "mm": "MatMul", "bmm": "MatMul",
        "__matmul__": "MatMul", "maximum": "Max", "minimum": "Min", "__gt__": "Greater", "__lt__": "Less", "__ge__": "GreaterOrEqual",
        "__le__": "LessOrEqual", "__eq__": "Equal",
    }.items()},
    **{name: _binary(operator, True) for name, operator in {
        "__radd__": "Add", "__rsub__": "Sub", "__rmul__": "Mul", "__rtruediv__": "Div",
    }.items()},
    **{name: _unary(operator) for name, operator in {
        "neg": "Neg", "__neg__": "Neg", "abs": "Abs", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "erf": "Erf", "relu": "Relu",
        "sigmoid": "Sigmoid", "tanh": "Tanh", "sin": "Sin", "cos": "Cos", "floor": "Floor", "ceil": "Ceil", "reciprocal": "Reciprocal",
    }.items()},
    **{name: _reshaped for name in ("reshape", "view", "flatten", "ravel", "unsqueeze", "squeeze", "select_view")},
    **{name: _same for name in ("contiguous", "clone", "detach")},
    **{name: _expanded for name in ("expand", "expand_as", "broadcast_to")},
    **{name: _converted for name in ("float", "double", "half", "long", "int", "bool", "type_as")},
    **{f"conv{dims}d": _conv(dims) for dims in (1, 2, 3)},
    **{f"max_pool{dims}d": _max_pool(dims) for dims in (1, 2, 3)},
    **{f"avg_pool{dims}d": _avg_pool(dims) for dims in (1, 2, 3)},
    **{f"adaptive_avg_pool{dims}d": _adaptive(dims) for dims in (1, 2, 3)},
    **{name: _reduction(operator) for name, operator in {
        "sum": "ReduceSum", "mean": "ReduceMean", "amax": "ReduceMax", "amin": "ReduceMin", "prod": "ReduceProd",
    }.items()},
    "linear": _linear, "transpose": _transposed, "permute": _permuted, "batch_norm": _batch_norm, "layer_norm": _layer_norm,
    "softmax": _softmax("Softmax"), "log_softmax": _softmax("LogSoftmax"), "gelu": _gelu, "clamp": _clamped, "__getitem__": _item,
    "split": _parts, "chunk": _parts, "dropout": _dropped,
}  # fmt: skip
FUNCTIONS: Dict[str, Handler] = {"cat": _joined, "concat": _joined, "embedding": _looked_up, "where": _chosen}


def _wrapped(recorder: Recorder, original: Callable[..., Any], handler: Handler) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if recorder.busy:
            return original(*args, **kwargs)
        recorder.busy = True
        try:
            result = original(*args, **kwargs)
            if isinstance(result, pf.Tensor) or isinstance(result, list):
                handler(recorder, result, *args, **kwargs)
            return result
        finally:
            recorder.busy = False

    return call


def _recorded(recorder: Recorder, model: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Calls the model while every function of the tables is replaced by one that records it."""
    spaces: List[Any] = [pf, core, nn.functional]
    layers = [kind for kind in vars(nn).values() if isinstance(kind, type) and "_function" in vars(kind)]
    changed: List[Tuple[Any, str, Any]] = []
    try:
        for name, handler in METHODS.items():
            original = vars(pf.Tensor).get(name)
            if original is None:
                continue
            wrapped = _wrapped(recorder, original, handler)
            for space in spaces:
                for other, value in list(vars(space).items()):
                    if value is original:
                        changed.append((space, other, value))
                        setattr(space, other, wrapped)
            for kind in layers:
                if vars(kind)["_function"].__func__ is original:
                    changed.append((kind, "_function", vars(kind)["_function"]))
                    setattr(kind, "_function", staticmethod(wrapped))
            changed.append((pf.Tensor, name, original))
            setattr(pf.Tensor, name, wrapped)
        for name, handler in FUNCTIONS.items():
            original = getattr(core, name)
            wrapped = _wrapped(recorder, original, handler)
            for space in spaces:
                for other, value in list(vars(space).items()):
                    if value is original:
                        changed.append((space, other, value))
                        setattr(space, other, wrapped)
        with pf.no_grad():
            return model(*args)
    finally:
        for space, name, value in reversed(changed):
            setattr(space, name, value)


def export(
    model: Any, args: Any, path: Union[str, "os.PathLike[str]", Any], input_names: Optional[Sequence[str]] = None,
    output_names: Optional[Sequence[str]] = None,
) -> None:  # fmt: skip
    """Writes the operations of `model(*args)` as an ONNX model, for inputs of these shapes.

    The file is read again and computed for these and for other inputs. If the results differ from the model's, because it contains an
    operation that cannot be written or depends on the elements of its inputs, nothing is written and an error is raised.
    """
    given = [args] if isinstance(args, pf.Tensor) else list(args)
    was_training = getattr(model, "training", False)
    if was_training:
        model.eval()
    try:
        data = _exported(model, given, input_names, output_names)
        _check(model, data, given)
    finally:
        if was_training:
            model.train()
    if hasattr(path, "write"):
        path.write(data)
        return
    with open(path, "wb") as file:
        file.write(data)


def _exported(model: Any, given: List[Any], input_names: Optional[Sequence[str]], output_names: Optional[Sequence[str]]) -> bytes:
    recorder = Recorder()
    names = list(input_names or [f"input{number}" for number in range(len(given))])
    if len(names) != len(given):
        raise ValueError(f"export: {len(names)} input_names for {len(given)} inputs")
    if hasattr(model, "named_parameters"):
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            recorder.known[str(id(tensor))] = name
    for name, tensor in zip(names, given):
        recorder.name(tensor, name)
    made = _recorded(recorder, model, given)
    results = [made] if isinstance(made, pf.Tensor) else list(made)
    wanted = list(output_names or [f"output{number}" for number in range(len(results))])
    if len(wanted) != len(results):
        raise ValueError(f"export: {len(wanted)} output_names for {len(results)} outputs")
    for name, tensor in zip(wanted, results):
        recorder.node("Identity", [recorder.of(tensor)], [name])
    graph = b"".join(_field(1, node) for node in recorder.nodes) + _field(2, type(model).__name__)
    graph += b"".join(_field(5, parameter) for parameter in recorder.parameters)
    graph += b"".join(_field(11, _described(name, tensor)) for name, tensor in zip(names, given))
    graph += b"".join(_field(12, _described(name, tensor)) for name, tensor in zip(wanted, results))
    return _field(1, 9) + _field(2, "pyflame") + _field(7, graph) + _field(8, _field(1, "") + _field(2, OPSET))


def _check(model: Any, data: bytes, given: List[Any]) -> None:
    again = load(data)
    state = pf.get_rng_state()
    for inputs in (given, [_other(tensor) for tensor in given]):
        with pf.no_grad():
            wanted, found = model(*inputs), again(*inputs)
        for ours, theirs in zip(*([made] if isinstance(made, pf.Tensor) else list(made) for made in (wanted, found))):
            scale = max(float(ours.double().abs().amax()), 1.0) if ours.nelement() else 1.0
            same = tuple(ours.shape) == tuple(theirs.shape) and ours.dtype == theirs.dtype
            if not same or (ours.nelement() and not float((ours.double() - theirs.double()).abs().amax()) <= 1e-3 * scale):
                raise NotImplementedError(
                    "export: the written model computes something else than this one, which contains an operation that cannot be "
                    "written or depends on the elements of its inputs"
                )
    pf.set_rng_state(state)


def _other(tensor: Any) -> Any:
    """Other elements that a model is likely to accept where it accepts these."""
    if tensor.dtype.is_floating_point:
        return tensor + pf.randn_like(tensor)
    # The same numbers in another order are valid indices if these are.
    return tensor.flip(*range(tensor.ndim)) if tensor.ndim else tensor
