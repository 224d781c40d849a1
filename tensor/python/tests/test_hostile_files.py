"""Files that are made to crash a reader, or to make it use far more memory or time than their size: all are refused with an error."""

import io
import pickle
import random
import struct
import subprocess
import sys
import time
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest

import pyflame as pf
from pyflame import onnx
from pyflame.pickled import UnsafeFileError


def _archive(program, kind=zipfile.ZIP_STORED, **files):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", kind) as archive:
        archive.writestr("x/data.pkl", program)
        for name, data in files.items():
            archive.writestr(f"x/data/{name}", data)
    file.seek(0)
    return file


def _integer(number):
    return b"\x8a\x08" + struct.pack("<q", number)


def _numbers(values):
    return b"(" + b"".join(_integer(value) for value in values) + b"t"


def _text(text):
    return b"X" + struct.pack("<I", len(text)) + text.encode()


def _tensor(size, stride, elements, offset=0, key="0"):
    """The instructions that make a tensor of float32."""
    memory = b"(" + _text("storage") + b"ctorch\nFloatStorage\n" + _text(key) + _text("cpu") + _integer(elements) + b"tQ"
    layout = _integer(offset) + _numbers(size) + _numbers(stride)
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + memory + layout + b"\x89ccollections\nOrderedDict\n)RtR"


def _peak(load):
    """The error of a call, and the most bytes that Python had allocated during it."""
    tracemalloc.start()
    try:
        with pytest.raises(UnsafeFileError) as caught:
            load()
        return str(caught.value), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# Python's hash of it needs more stack than there is.
NESTED = b")" + b"\x85" * 150_000


def test_tuples_that_are_nested_far_too_deep_do_not_crash_the_process(tmp_path):
    programs = [
        b"}" + NESTED + b"K\x01s.",
        b"}(" + NESTED + b"K\x01u.",
        b"\x8f(" + NESTED + b"\x90.",
        b"cbuiltins\nset\n](" + NESTED + b"e\x85R.",
        b"ccollections\nOrderedDict\n](" + NESTED + b"K\x01\x86e\x85R.",
        b"(" + NESTED + b"NNNNtQ.",
    ]
    for number, program in enumerate(programs):
        (tmp_path / f"{number}.pt").write_bytes(_archive(b"\x80\x02" + program).getvalue())
    code = (
        f"import pyflame as pf\nfor number in range({len(programs)}):\n    print(number)\n"
        f"    try:\n        pf.load(f'{tmp_path}/{{number}}.pt')\n    except ValueError:\n        pass"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and not done.stderr, (done.returncode, done.stdout, done.stderr[-500:])


def test_keys_are_refused_by_depth_length_and_size():
    def key(value):
        return b"\x80\x02}" + pickle.dumps(value, 2)[2:-1] + b"K\x01s."

    eight = 1
    for _ in range(8):
        eight = (eight, "a")
    for fine in (1, "a", None, 1.5, True, (1, ("a", 2)), eight, (0,) * 200, -(1 << 63)):
        assert pf.load(_archive(key(fine))) == {fine: 1}
    for wrong, what in ((((eight, 1), 1), "nested"), ((0,) * 300, "more than 256"), (1 << 80, "81 bits"), ((1, [2]), "list")):
        with pytest.raises(UnsafeFileError, match=what):
            pf.load(_archive(key(wrong)))
        if what != "list":
            with pytest.raises(TypeError, match=what):
                pf.save({wrong: 1}, io.BytesIO())
            with pytest.raises(TypeError, match=what):
                pf.save([{wrong}], io.BytesIO())


def test_a_tuple_that_doubles_forty_times_is_refused_as_a_key_at_once():
    doubled = b")" + b"".join(b"q\x000h\x00h\x00\x86" for _ in range(40))
    started = time.monotonic()
    with pytest.raises(UnsafeFileError, match="key"):
        pf.load(_archive(b"\x80\x02}" + doubled + b"K\x01s."))
    for program in (b"(" + doubled + b"NNNNtQ.", b"ctorch._utils\n_rebuild_tensor_v2\n(N" + doubled * 3 + b"tR."):
        with pytest.raises(UnsafeFileError):
            pf.load(_archive(b"\x80\x02" + program))
    assert time.monotonic() - started < 2


def test_a_tensor_with_strides_of_zero_is_refused_beyond_the_size_of_its_file():
    file = _archive(b"\x80\x02" + _tensor([1 << 34], [0], 1) + b".", **{"0": bytes(4)})
    message, peak = _peak(lambda: pf.load(file))
    assert "strides [0]" in message and str(4 << 34) in message and "clone" in message
    assert peak < 1 << 20
    small = _archive(b"\x80\x02" + _tensor([3, 2], [0, 1], 2) + b".", **{"0": np.float32([1, 2]).tobytes()})
    assert pf.load(small).tolist() == [[1, 2]] * 3


def test_many_tensors_of_one_memory_are_refused_beyond_the_size_of_the_file():
    count, elements = 400, 1 << 18
    program = b"\x80\x02](" + _tensor([elements], [1], elements) * count + b"e."
    message, peak = _peak(lambda: pf.load(_archive(program, **{"0": bytes(4 * elements)})))
    assert "share elements" in message
    # Without the limit: 400 MiB.
    assert peak < 8 << 20
    # The same with memory that has to be rearranged.
    side = 1 << 9
    program = b"\x80\x02](" + _tensor([side, side], [1, side], elements) * count + b"e."
    assert "share elements" in _peak(lambda: pf.load(_archive(program, **{"0": bytes(4 * elements)})))[0]
    tied = b"\x80\x02](" + _tensor([elements], [1], elements) * 2 + b"e."
    assert [x.shape for x in pf.load(_archive(tied, **{"0": bytes(4 * elements)}))] == [(elements,)] * 2


def test_a_file_cannot_describe_more_tensors_than_fit_into_it():
    one = b"\x80\x02](" + _tensor([1], [1], 1)[:-1] + b"q\x000ctorch._utils\n_rebuild_tensor_v2\nq\x010"
    program = one + b"h\x01h\x00R" * 50_000 + b"e."
    with pytest.raises(UnsafeFileError, match="tensors in"):
        pf.load(_archive(program, **{"0": bytes(4)}))


def test_a_list_that_is_copied_again_and_again_is_refused():
    program = b"\x80\x02](" + b"K\x00" * 50_000 + b"e\x85q\x000cbuiltins\nset\nq\x010](" + b"h\x01h\x00R" * 50_000 + b"e."
    started = time.monotonic()
    with pytest.raises(UnsafeFileError, match="items"):
        pf.load(_archive(program))
    assert time.monotonic() - started < 2


def _directory(entries, content, method=0):
    """A zip archive of a content and a directory of (name, offset, stored size, size)."""
    directory = b"".join(
        struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 20, 20, 0, method, 0, 0, zlib.crc32(b"\x80\x02N."), stored, size, len(name), 0, 0, 0, 0, 0, at) + name.encode()
        for name, at, stored, size in entries
    )
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, len(entries), len(entries), len(directory), len(content), 0)
    return io.BytesIO(content + directory + end)


def test_archives_whose_files_overlap_or_exceed_them_are_refused():
    whole = _archive(b"\x80\x02N.").getvalue()
    content = whole[: whole.index(b"PK\x01\x02")]
    pkl = ("x/data.pkl", 0, 4, 4)
    assert pf.load(_directory([pkl], content)) is None
    with pytest.raises(UnsafeFileError, match="overlaps"):
        pf.load(_directory([pkl] + [(f"x/data/{n}", 0, 4, 4) for n in range(100)], content))
    with pytest.raises(UnsafeFileError, match="end at byte"):
        pf.load(_directory([("x/data.pkl", 0, 1 << 30, 1 << 30)], content))
    with pytest.raises(UnsafeFileError, match="compressed"):
        pf.load(_directory([("x/data.pkl", 0, 4, 1 << 30)], content))


def test_archives_that_expand_without_limit_are_refused():
    with pytest.raises(UnsafeFileError, match="compressed"):
        pf.load(_archive(b"\x80\x02N." + bytes(1 << 20), zipfile.ZIP_DEFLATED))
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    data = block * 400 + packer.flush()
    header = struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, 8, 0, 0, 0, len(data), 400 << 20, 5, 0) + b"a.npy"
    file = _directory([("a.npy", 0, len(data), 400 << 20)], header + data, 8)
    assert len(file.getvalue()) < 1 << 20
    with pytest.raises(ValueError, match="expand to"):
        pf.load(file)
    zeros = io.BytesIO()
    np.savez_compressed(zeros, a=np.zeros((1000, 1000)))
    zeros.seek(0)
    assert pf.load(zeros)["a"].shape == (1000, 1000)


def test_an_onnx_tensor_without_elements_has_lengths_of_reason():
    def field(number, value):
        data = value if isinstance(value, bytes) else None
        if data is None:
            out = b""
            while value > 127:
                out, value = out + bytes([value & 127 | 128]), value >> 7
            return bytes([number << 3]) + out + bytes([value])
        return bytes([number << 3 | 2]) + field(0, len(data))[1:] + data

    tensor = field(1, 0) + field(1, (1 << 63) - 1) + field(1, (1 << 63) - 1) + field(2, 1) + field(8, b"w") + field(9, b"")
    with pytest.raises(onnx.ModelError):
        onnx.load(field(7, field(5, tensor)))


def _mutated(data, rng):
    """A copy with a few bytes changed, removed, repeated or moved."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at, length = rng.randrange(len(data)), rng.randint(1, 16)
        kind = rng.randrange(5)
        if kind == 0:
            data[at] = rng.randrange(256)
        elif kind == 1:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del data[at : at + length]
        elif kind == 3:
            data[at:at] = data[at : at + length]
        else:
            other = rng.randrange(len(data))
            data[at : at + length] = data[other : other + length]
        if not data:
            return b"\0"
    return bytes(data)


@pytest.mark.parametrize("form", ["pt", "pickle", "npz", "safetensors", "onnx"])
def test_every_mutation_of_a_file_loads_or_is_a_value_error(form):
    value = {"a": pf.ones(3, 2), "b": [pf.arange(4), (1, 2.5, "text", None)], "c": {1, 2}}
    file = io.BytesIO()
    read = pf.load
    if form == "safetensors":
        pf.save({"a": value["a"]}, file)
    elif form == "npz":
        np.savez_compressed(file, a=np.ones((3, 2)))
    elif form == "onnx":
        pf.onnx.export(pf.nn.Linear(3, 2), pf.ones(1, 3), file)
        read = onnx.load
    else:
        pf.save(value, file)
    data = file.getvalue()
    if form == "pickle":
        # Mutations of the pickle only, in an archive whose checksums are right.
        with zipfile.ZipFile(file) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        data = parts.pop("archive/data.pkl")

        def read(changed):
            made = io.BytesIO()
            with zipfile.ZipFile(made, "w") as archive:
                archive.writestr("archive/data.pkl", changed.getvalue())
                for name, part in parts.items():
                    archive.writestr(name, part)
            made.seek(0)
            return pf.load(made)

    rng = random.Random(form)
    loaded, started = 0, time.monotonic()
    tracemalloc.start()
    for _ in range(200):
        changed = _mutated(data, rng)
        try:
            read(io.BytesIO(changed))
            loaded += 1
        # An ONNX model may use what is not supported, and says so.
        except (ValueError, NotImplementedError) as error:
            assert form == "onnx" or not isinstance(error, NotImplementedError), error
            assert str(error)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert loaded < 200 and peak < 32 << 20 and time.monotonic() - started < 20
