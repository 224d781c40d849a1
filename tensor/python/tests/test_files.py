"""Saving and loading models, and damaged files."""

import json
import struct

import numpy as np
import pytest

import pyflame as pf
import pyflame.nn as nn


def test_a_model_comes_back_from_a_file(device, tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    pf.save(model.state_dict(), tmp_path / "model.safetensors", metadata={"epoch": 3})
    other = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    other.load_state_dict(pf.load(tmp_path / "model.safetensors"))
    for (name, ours), theirs in zip(model.state_dict().items(), other.state_dict().values()):
        assert ours.tolist() == theirs.tolist(), name


def test_types_and_shapes_are_kept(tmp_path):
    tensors = {
        "half": pf.tensor([1.5, 2.0], dtype=pf.float16),
        "brain": pf.tensor([[1.0]], dtype=pf.bfloat16),
        "flag": pf.tensor([True, False]),
        "none": pf.zeros(0, 3),
        "number": pf.tensor(7),
    }
    pf.save(tensors, tmp_path / "t.safetensors")
    back = pf.load(tmp_path / "t.safetensors", device="cpu")
    for name, tensor in tensors.items():
        assert back[name].dtype is tensor.dtype and back[name].shape == tensor.shape
        assert back[name].tolist() == tensor.tolist()


def test_the_format_is_the_one_that_others_read(tmp_path):
    pf.save({"a": pf.tensor([1.0, 2.0])}, tmp_path / "a.safetensors")
    raw = (tmp_path / "a.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    assert json.loads(raw[8 : 8 + length]) == {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    assert np.frombuffer(raw[8 + length :], np.float32).tolist() == [1.0, 2.0]


def _file(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"1234",
        struct.pack("<Q", 1 << 60) + b"{}",
        _file(b"not json"),
        _file([1, 2]),
        _file({"a": 3}),
        _file({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}),
        _file({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}, bytes(8)),
        _file({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 8]}}, bytes(8)),
        _file({"a": {"dtype": "F99", "shape": [2], "data_offsets": [0, 8]}}, bytes(8)),
        _file({"a": {"dtype": "F32", "shape": [1 << 62, 1 << 62], "data_offsets": [0, 8]}}, bytes(8)),
        _file({"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}, bytes(8)),
    ],
)
def test_damaged_files_are_value_errors(tmp_path, content):
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(ValueError, match="bad"):
        pf.load(tmp_path / "bad")


def test_a_safetensors_file_has_only_tensors(tmp_path):
    with pytest.raises(TypeError):
        pf.save({"a": [1, 2]}, tmp_path / "a.safetensors")
    with pytest.raises(TypeError):
        pf.save([pf.ones(1)], tmp_path / "a.safetensors")
    assert list(tmp_path.iterdir()) == []
