"""ONNX files: reading, computing, and damaged ones."""

import struct

import numpy as np
import pytest

import pyflame as pf
import pyflame.nn as nn
from pyflame import onnx


def _number(value):
    out = b""
    while True:
        value, byte = value >> 7, value & 127
        if not value:
            return out + bytes([byte])
        out += bytes([byte | 128])


def _field(number, value):
    if isinstance(value, int):
        return _number(number << 3) + _number(value & (1 << 64) - 1)
    value = value.encode() if isinstance(value, str) else value
    return _number(number << 3 | 2) + _number(len(value)) + value


def _tensor(name, array):
    array = np.asarray(array, np.float32)
    return b"".join(_field(1, length) for length in array.shape) + _field(2, 1) + _field(8, name) + _field(9, array.tobytes())


def _node(operator, inputs, outputs, *attributes):
    return (
        b"".join(_field(1, name) for name in inputs) + b"".join(_field(2, name) for name in outputs) + _field(4, operator)
        + b"".join(_field(5, attribute) for attribute in attributes)
    )  # fmt: skip


def _model(nodes, parameters, inputs, outputs, opset=17):
    graph = b"".join(_field(1, node) for node in nodes) + b"".join(_field(5, tensor) for tensor in parameters)
    graph += b"".join(_field(11, _field(1, name)) for name in inputs) + b"".join(_field(12, _field(1, name)) for name in outputs)
    return _field(1, 8) + _field(8, _field(2, opset)) + _field(7, graph)


WEIGHT, BIAS = np.array([[1, 2], [3, 4], [5, 6]], np.float32), np.array([1, -100], np.float32)
TRANSPOSED = _field(1, "transB") + _field(3, 0) + _field(20, 2)
LINEAR = _model(
    [_node("Gemm", ["x", "w", "b"], ["y"], TRANSPOSED), _node("Relu", ["y"], ["z"])],
    [_tensor("w", WEIGHT), _tensor("b", BIAS)], ["x"], ["z"],
)  # fmt: skip


def test_a_model_computes_what_its_nodes_say(device, tmp_path):
    (tmp_path / "m.onnx").write_bytes(LINEAR)
    model = onnx.load(tmp_path / "m.onnx")
    x = np.array([[1, 0, -1], [2, 2, 2]], np.float32)
    np.testing.assert_allclose(model(x).numpy(), np.maximum(x @ WEIGHT + BIAS, 0))
    np.testing.assert_allclose(model(x=pf.tensor(x)).numpy(), np.maximum(x @ WEIGHT + BIAS, 0))
    assert model.inputs == ["x"] and model.outputs == ["z"] and set(model.parameters) == {"w", "b"} and model.opset == 17
    for wrong in ({"y": x}, {}):
        with pytest.raises(TypeError):
            model(**wrong)


def test_every_damaged_file_is_an_error_of_its_own_kind():
    rng = np.random.default_rng(0)
    for length in range(len(LINEAR)):
        try:
            onnx.load(LINEAR[:length])
        except (onnx.ModelError, NotImplementedError):
            pass
    for _ in range(2000):
        data = bytearray(LINEAR)
        for place in rng.integers(0, len(data), 3):
            data[place] = rng.integers(0, 256)
        try:
            onnx.load(bytes(data))
        except (onnx.ModelError, NotImplementedError):
            pass


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 20,
        _field(7, b"\x0a\xff\xff\xff\xff\x7f"),
        b"\x3a" + _number(1 << 62),
        b"\x3b",
        b"\x00\x01",
        _model([], [], [], ["nobody"]),
        _model([], [_field(1, 1 << 40) + _field(2, 1) + _field(8, "w") + _field(9, b"1234")], [], []),
        _model([], [_field(1, (1 << 64) - 1) + _field(2, 1) + _field(8, "w")], [], []),
        _model([], [_field(1, 3) + _field(2, 1) + _field(4, struct.pack("<2f", 1, 2)) + _field(8, "w")], [], []),
    ],
)
def test_damaged_files_are_model_errors(data):
    with pytest.raises(onnx.ModelError):
        onnx.load(data)


def test_unknown_operators_are_named():
    with pytest.raises(NotImplementedError, match="Frobnicate"):
        onnx.load(_model([_node("Frobnicate", ["x"], ["y"])], [], ["x"], ["y"]))
    late = onnx.load(_model([_node("Relu", ["later"], ["y"]), _node("Relu", ["x"], ["later"])], [], ["x"], ["y"]))
    with pytest.raises(onnx.ModelError, match="later"):
        late(pf.ones(1))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.project, self.out = nn.Embedding(11, 8), nn.Linear(8, 24), nn.Linear(8, 5)
        self.norm = nn.LayerNorm(8)

    def forward(self, numbers):
        x = self.norm(self.table(numbers))
        q, k, v = (part.reshape(2, 4, 2, 4).transpose(1, 2) for part in self.project(x).chunk(3, -1))
        weights = (q @ k.transpose(-2, -1) / 2.0).softmax(-1)
        x = x + (weights @ v).transpose(1, 2).reshape(2, 4, 8)
        return self.out(nn.functional.gelu(x)[:, -1]), x.mean(dim=(1, 2))


def test_models_are_written_and_compute_the_same(device, tmp_path):
    pf.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3, padding="same"),
        nn.Sigmoid(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(4, 5),
    )  # fmt: skip
    network(pf.randn(4, 3, 16, 16))
    for model, x in ((network, pf.randn(2, 3, 16, 16)), (Attention(), pf.randint(0, 11, (2, 4)))):
        pf.onnx.export(model, x, tmp_path / "m.onnx", input_names=["x"])
        read = onnx.load(tmp_path / "m.onnx")
        model.eval()
        wanted, found = model(x), read(x=x)
        pairs = [(wanted, found)] if isinstance(wanted, pf.Tensor) else list(zip(wanted, found))
        for ours, theirs in pairs:
            np.testing.assert_allclose(theirs.numpy(), ours.detach().numpy(), rtol=1e-4, atol=1e-5)
        assert read.inputs == ["x"] and len(read.parameters) >= len(list(model.parameters()))
    assert any(name == "0.weight" for name in onnx.load(_written(network)).parameters)
    # Nothing stays replaced.
    assert type(vars(pf.Tensor)["relu"]).__name__ == "method_descriptor" and (pf.ones(2) + 1).tolist() == [2.0, 2.0]


def _written(network):
    import io

    file = io.BytesIO()
    pf.onnx.export(network, pf.randn(2, 3, 16, 16), file)
    return file.getvalue()


def test_what_cannot_be_written_is_refused_and_nothing_is_written(tmp_path):
    class Sorted(nn.Module):
        def forward(self, x):
            return x.sort(0)[0] * 2

    class Branching(nn.Module):
        def forward(self, x):
            return x * float(x.sum())

    for model in (Sorted(), Branching()):
        with pytest.raises(NotImplementedError):
            pf.onnx.export(model, pf.randn(4), tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []
