"""ONNX models: reading their files, and computing them."""

from __future__ import annotations

import math
import os
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import pyflame as pf

from . import wire
from .operators import NUMPY_TYPES, OPERATORS
from .wire import ModelError

# Where TensorProto has the elements of each type, if not as raw bytes.
_FLOATS, _INT32, _INT64, _DOUBLES, _UINT64 = 4, 5, 7, 10, 11
_FIELDS = {
    1: _FLOATS, 2: _INT32, 3: _INT32, 4: _INT32, 5: _INT32, 6: _INT32, 7: _INT64, 9: _INT32, 10: _INT32, 11: _DOUBLES,
    12: _UINT64, 13: _UINT64, 14: _FLOATS, 16: _INT32,
}  # fmt: skip


class Node:
    """One operation of a graph."""

    def __init__(self, operator: str, inputs: List[str], outputs: List[str], attributes: Dict[str, Any], domain: str) -> None:
        self.operator, self.inputs, self.outputs = operator, inputs, outputs
        self.attributes, self.domain = attributes, domain

    def __repr__(self) -> str:
        return f"{self.operator}({', '.join(self.inputs)}) -> {', '.join(self.outputs)}"


class Model:
    """A model: call it with its inputs, by position or by name. The result is a tensor, or a tuple of them.

    `inputs` and `outputs` are names, `parameters` the tensors in the file by name, and `nodes` the operations in order.
    """

    def __init__(
        self, nodes: List[Node], inputs: List[str], outputs: List[str], parameters: Dict[str, Any], opset: int,
        device: Optional[str]
    ) -> None:
        self.nodes, self.inputs, self.outputs = nodes, inputs, outputs
        self.parameters, self.opset = parameters, opset
        self._device = device
        missing = sorted({node.operator for node in nodes if node.domain not in ("", "ai.onnx") or node.operator not in OPERATORS})
        if missing:
            raise NotImplementedError(f"operators that are not supported: {', '.join(missing)}")

    def __call__(self, *args: Any, **named: Any) -> Any:
        if len(args) > len(self.inputs):
            raise TypeError(f"the model has the inputs {', '.join(self.inputs)}; {len(args)} were given")
        values: Dict[str, Any] = {"": None, **self.parameters}
        given = {**dict(zip(self.inputs, args)), **named}
        unknown, absent = set(given) - set(self.inputs), [name for name in self.inputs if name not in given]
        if unknown or absent:
            raise TypeError(f"inputs that the model does not have: {sorted(unknown)}; inputs that are missing: {absent}")
        for name, value in given.items():
            values[name] = value if isinstance(value, pf.Tensor) else pf.tensor(value, device=self._device)
        for node in self.nodes:
            absent = [name for name in node.inputs if name not in values]
            if absent:
                raise ModelError(f"{node!r} uses {absent[0]!r}, which nothing has computed before")
            attributes = {**node.attributes, "outputs": len(node.outputs), "opset": self.opset}
            made = OPERATORS[node.operator](attributes, *(values[name] for name in node.inputs))
            values.update(zip(node.outputs, made if isinstance(made, tuple) else (made,)))
        answers = tuple(values[name] for name in self.outputs)
        return answers[0] if len(answers) == 1 else answers

    def __repr__(self) -> str:
        return f"Model({', '.join(self.inputs)} -> {', '.join(self.outputs)}; {len(self.nodes)} nodes, opset {self.opset})"


def load(source: Union[str, bytes, "os.PathLike[str]", Any], device: Optional[str] = None) -> Model:
    """Reads a model from a file, a file object, or bytes."""
    if isinstance(source, (bytes, bytearray)):
        return read(bytes(source), device)
    if hasattr(source, "read"):
        return read(source.read(), device)
    with open(source, "rb") as file:
        return read(file.read(), device)


def read(data: bytes, device: Optional[str] = None) -> Model:
    """The model in the bytes of a file."""
    message = wire.fields(data)
    opset = 1
    for entry in wire.messages(message, 8):
        found = wire.fields(entry)
        if wire.text(found, 1) in ("", "ai.onnx"):
            opset = wire.whole(found, 2, 1)
    if 7 not in message:
        raise ModelError("the file has no graph; it is not an ONNX model")
    graph = wire.fields(wire.raw(message, 7))
    parameters: Dict[str, Any] = {}
    for entry in wire.messages(graph, 5):
        name, array = _tensor(entry)
        parameters[name] = pf.tensor(array, device=device)
    nodes = [_node(entry) for entry in wire.messages(graph, 1)]
    inputs = [wire.text(wire.fields(entry), 1) for entry in wire.messages(graph, 11)]
    outputs = [wire.text(wire.fields(entry), 1) for entry in wire.messages(graph, 12)]
    produced = {name for node in nodes for name in node.outputs} | set(inputs) | set(parameters)
    for name in outputs:
        if name not in produced:
            raise ModelError(f"nothing computes the output {name!r}")
    return Model(nodes, [name for name in inputs if name not in parameters], outputs, parameters, opset, device)


def _node(data: bytes) -> Node:
    message = wire.fields(data)
    names = [[wire.decoded(name) for name in message.get(number, [])] for number in (1, 2)]
    attributes = dict(_attribute(entry) for entry in wire.messages(message, 5))
    return Node(wire.text(message, 4), names[0], names[1], attributes, wire.text(message, 7))


def _attribute(data: bytes) -> Tuple[str, Any]:
    """The name and the value of an attribute; texts are bytes, tensors are NumPy arrays."""
    message = wire.fields(data)
    name, kind = wire.text(message, 1), wire.whole(message, 20)
    if kind == 1:
        numbers = wire.floats(message, 2)
        if not numbers:
            raise ModelError(f"the attribute {name!r} has no value")
        return name, numbers[-1]
    if kind == 2:
        return name, wire.whole(message, 3)
    if kind == 3:
        return name, wire.raw(message, 4)
    if kind == 4:
        return name, _tensor(wire.raw(message, 5))[1]
    if kind == 6:
        return name, wire.floats(message, 7)
    if kind == 7:
        return name, wire.integers(message, 8)
    if kind == 8:
        return name, wire.messages(message, 9)
    raise NotImplementedError(f"the attribute {name!r} has the kind {kind}, such as a subgraph; it is not supported")


def _tensor(data: bytes) -> Tuple[str, Any]:
    """The name and the elements of a tensor, as a NumPy array."""
    import numpy as np

    message = wire.fields(data)
    name, number, shape = wire.text(message, 8), wire.whole(message, 2), wire.integers(message, 1)
    if wire.whole(message, 14) == 1:
        raise NotImplementedError(f"the elements of {name!r} are in another file, which is not supported")
    if number not in NUMPY_TYPES:
        raise NotImplementedError(f"element type {number} of {name!r}")
    kind = NUMPY_TYPES[number]
    if any(length < 0 for length in shape) or math.prod(max(length, 1) for length in shape) >= 1 << 60 or len(shape) > 64:
        raise ModelError(f"{name!r} has the shape {shape[:64]}")
    elements = math.prod(shape)
    # bfloat16 is read as the upper half of float32.
    stored = np.dtype("uint16" if kind == "bfloat16" else kind).newbyteorder("<")
    if 9 in message:
        content = wire.raw(message, 9)
        if len(content) != elements * stored.itemsize:
            raise ModelError(f"{name!r} of {shape} {kind} has {len(content)} bytes")
        array = np.frombuffer(content, stored)
    else:
        array = _listed(message, number, kind, stored)
        if array.size != elements:
            raise ModelError(f"{name!r} of {shape} {kind} has {array.size} elements")
    if kind == "bfloat16":
        array = (array.astype(np.uint32) << 16).view(np.float32)
        return name, pf.tensor(array.reshape(shape)).to(pf.bfloat16).numpy()
    return name, array.astype(stored.newbyteorder("=")).reshape(shape)


def _listed(message: Any, number: int, kind: str, stored: Any) -> Any:
    """Elements as a list of numbers."""
    import numpy as np

    field = _FIELDS[number]
    if field in (_FLOATS, _DOUBLES):
        values: Sequence[Any] = wire.floats(message, field, "f" if field == _FLOATS else "d")
        wide = np.array(values, np.float32 if field == _FLOATS else np.float64)
        return wide.view(np.complex64) if kind == "complex64" else wide
    values = wire.integers(message, field)
    if kind in ("float16", "bfloat16"):
        # Half types are in the lower 16 bits.
        bits = np.array([value & 0xFFFF for value in values], np.uint16)
        return bits.view(np.float16) if kind == "float16" else bits
    limits = None if kind == "bool" else np.iinfo(stored)
    if kind == "uint64":
        values = [value & (1 << 64) - 1 for value in values]
    if limits is not None and any(not limits.min <= value <= limits.max for value in values):
        raise ModelError(f"a number is not one of {kind}")
    return np.array(values, stored)
