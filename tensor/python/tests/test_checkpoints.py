"""Nested checkpoints, PyTorch's files, npz files, file objects, and files that must be refused."""

import io
import pickle
import struct
import zipfile
from collections import OrderedDict

import numpy as np
import pytest

import pyflame as pf
import pyflame.nn as nn


def _trained():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    optimizer = pf.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(3):
        model.zero_grad()
        (model(pf.ones(5, 3) * 0.5) ** 2).sum().backward()
        optimizer.step()
    return model, optimizer


def _same(a, b):
    if isinstance(a, pf.Tensor):
        assert isinstance(b, pf.Tensor) and a.dtype is b.dtype and a.shape == b.shape
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            _same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert type(a) is type(b) and len(a) == len(b)
        for left, right in zip(a, b):
            _same(left, right)
    else:
        assert a == b and type(a) is type(b)


def test_a_checkpoint_with_an_optimizers_state_continues_the_training(device, tmp_path):
    model, optimizer = _trained()
    pf.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "notes": ["a", None, 1.5]}, tmp_path / "c.pt")
    state = pf.load(tmp_path / "c.pt")
    assert state["epoch"] == 3 and state["notes"] == ["a", None, 1.5]
    other, resumed = _trained()
    other.load_state_dict(state["model"])
    resumed.load_state_dict(state["optimizer"])
    for net, rule in ((model, optimizer), (other, resumed)):
        net.zero_grad()
        (net(pf.ones(5, 3)) ** 2).sum().backward()
        rule.step()
    for own, theirs in zip(model.parameters(), other.parameters()):
        np.testing.assert_array_equal(own.detach().numpy(), theirs.detach().numpy())


def test_every_kind_of_value_comes_back(tmp_path):
    value = {
        "tensors": [pf.arange(6).reshape(2, 3), pf.tensor([1.5], dtype=pf.bfloat16), pf.zeros(0, 2), pf.tensor(True)],
        "numbers": (0, -1, 255, 1 << 40, -(1 << 70), 0.1, float("inf"), True, False, None),
        7: OrderedDict([("text", "\u00e4\n"), ("empty", [])]),
        "set": {1, 2},
        "type": pf.float16,
    }
    pf.save(value, tmp_path / "x")
    _same(value, pf.load(tmp_path / "x"))


def test_file_objects_are_written_and_read():
    for value in ({"a": pf.ones(2)}, {"a": [pf.ones(2), 1]}):
        file = io.BytesIO()
        pf.save(value, file)
        file.seek(0)
        _same(value, pf.load(file))


def test_npz_files_are_those_of_numpy(tmp_path):
    pf.save({"a": pf.arange(3), "b": pf.ones(2, 2)}, tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz") as found:
        np.testing.assert_array_equal(found["a"], np.arange(3))
    np.savez(tmp_path / "y.npz", c=np.eye(2))
    np.testing.assert_array_equal(pf.load(tmp_path / "y.npz")["c"].numpy(), np.eye(2))
    np.savez(tmp_path / "z.npz", c=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="z.npz"):
        pf.load(tmp_path / "z.npz")


def _archive(program, **files):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x/data.pkl", program)
        for name, data in files.items():
            archive.writestr(f"x/data/{name}", data)
    file.seek(0)
    return file


class _Harmful:
    def __reduce__(self):
        return print, ("executed",)


@pytest.mark.parametrize("value", [_Harmful(), {"a": [_Harmful()]}, nn.Module, struct.Struct("b"), [1, _Harmful()]])
def test_code_in_a_file_is_refused_and_not_executed(value, capsys):
    for protocol in (2, 4):
        try:
            program = pickle.dumps(value, protocol)
        except TypeError:
            continue
        with pytest.raises(ValueError, match="not allowed"):
            pf.load(_archive(program))
    assert capsys.readouterr().out == ""


def _tensor(offset=0, size=(2,), stride=(1,), elements=2):
    """The program of a tensor of float32 in memory '0'."""
    def integer(number):
        return b"J" + struct.pack("<i", number)

    def numbers(values):
        return b"(" + b"".join(integer(value) for value in values) + b"t"

    memory = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu" + integer(elements) + b"tQ"
    return (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + memory + integer(offset) + numbers(size) + numbers(stride)
            + b"\x89ccollections\nOrderedDict\n)RtR.")


def test_tensors_are_read_with_their_strides():
    data = np.arange(6, dtype=np.float32).tobytes()
    found = pf.load(_archive(_tensor(1, (2, 2), (1, 2), 6), **{"0": data}))
    assert found.tolist() == [[1.0, 3.0], [2.0, 4.0]]


@pytest.mark.parametrize(
    "program",
    [
        _tensor(size=(3,)),
        _tensor(offset=1),
        _tensor(stride=(2,)),
        _tensor(offset=-1),
        _tensor(size=(-1,)),
        _tensor(size=(1 << 30, 1 << 30), stride=(1, 1)),
        _tensor(elements=1 << 30),
        _tensor(size=(2, 2)),
        _tensor()[:-20],
        b"",
        b"\x80\x02",
        b"\x80\x02.",
        b"\x80\x02(.",
        b"\x80\x02R.",
        b"\x80\x02)b.",
        b"\x80\x02K\x01u.",
        b"\x80\x02h\x05.",
        b"\x80\x02X\xff\xff\xff\xffa.",
        b"\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\xff.",
        b"\x80\x02\x8b\xff\xff\xff\x7f.",
        b"\x80\x02}]K\x01s.",
        b"\x80\x02ccollections\nOrderedDict\nK\x01R.",
        b"\x80\x02cos\nsystem\n.",
        b"\x80\x02i\n.",
        b"\x80\x02K\x01Q.",
    ],
)
def test_damaged_programs_are_value_errors(program):
    with pytest.raises(ValueError):
        pf.load(_archive(program, **{"0": bytes(8)}))


def test_compressed_and_incomplete_archives_are_value_errors():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/data.pkl", _tensor())
    file.seek(0)
    with pytest.raises(ValueError, match="compressed"):
        pf.load(file)
    with pytest.raises(ValueError, match="no file"):
        pf.load(_archive(_tensor()))
    whole = _archive(_tensor(), **{"0": bytes(8)}).getvalue()
    for length in range(4, len(whole), 37):
        with pytest.raises(ValueError):
            pf.load(io.BytesIO(whole[:length]))


def test_values_that_no_file_can_hold_are_type_errors(tmp_path):
    for value in ({"a": object()}, [lambda: 1], nn.Linear(1, 1), {(object(),): 1}):
        with pytest.raises(TypeError):
            pf.save(value, tmp_path / "x.pt")
    endless = []
    endless.append(endless)
    with pytest.raises(ValueError):
        pf.save(endless, tmp_path / "x.pt")
    with pytest.raises(TypeError):
        pf.save({"a": [1]}, tmp_path / "x.safetensors")
    assert list(tmp_path.iterdir()) == []
