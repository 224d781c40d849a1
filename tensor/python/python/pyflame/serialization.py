"""Tensors in safetensors files: a length, a header in JSON, and the elements. Nothing in a file is ever executed."""

import json
import os
import struct

from . import _pyflame as _pf

_NAMES = {
    "bool": "BOOL",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}

# The format's limit for the header.
_LONGEST_HEADER = 100_000_000


def save(tensors, path, metadata=None):
    """Writes a tensor, or a dictionary of names and tensors such as `model.state_dict()`. `metadata`: names and strings."""
    if isinstance(tensors, _pf.Tensor):
        tensors = {"tensor": tensors}
    if not isinstance(tensors, dict):
        raise TypeError(f"save: expected a tensor or a dictionary of tensors, not {type(tensors).__name__}")
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, _pf.Tensor):
            raise TypeError(f"save: names must be strings and values tensors; {name!r} is a {type(tensor).__name__}")
    _pf.eval(*tensors.values())
    header, parts, offset = {}, [], 0
    if metadata:
        header["__metadata__"] = {str(name): str(text) for name, text in metadata.items()}
    # Wide elements first, so that all are aligned to their size.
    for name, tensor in sorted(tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])):
        dtype, shape, data, _ = tensor.detach().to_parts()
        header[name] = {"dtype": _NAMES[dtype], "shape": shape, "data_offsets": [offset, offset + len(data)]}
        parts.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    temporary = f"{os.fspath(path)}.{os.getpid()}.part"
    try:
        with open(temporary, "wb") as file:
            file.write(struct.pack("<Q", len(text)))
            file.write(text)
            for part in parts:
                file.write(part)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)


def load(path, device=None):
    """Returns the dictionary of tensors in a file."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        entries, begin = _header(file, size, path)
        tensors = {}
        for name, (dtype, shape, start, end) in entries.items():
            file.seek(begin + start)
            data = file.read(end - start)
            if len(data) != end - start:
                raise ValueError(f"{path}: the data of {name!r} is truncated")
            tensors[name] = _pf.from_parts(dtype, shape, data, device)
        return tensors


def _header(file, size, path):
    first = file.read(8)
    if len(first) != 8:
        raise ValueError(f"{path}: not a safetensors file: shorter than the 8-byte header length")
    (length,) = struct.unpack("<Q", first)
    if length > min(_LONGEST_HEADER, size - 8):
        raise ValueError(f"{path}: not a safetensors file: a header length of {length} bytes")
    try:
        header = json.loads(file.read(length).decode("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: the header is not valid JSON: {error}") from None
    if not isinstance(header, dict):
        raise ValueError(f"{path}: the header is not a JSON object")
    entries, room = {}, size - 8 - length
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        entries[name] = _entry(name, entry, room, path)
    return entries, 8 + length


def _entry(name, entry, room, path):
    try:
        dtype, shape, (start, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        numbers = list(shape) + [start, end]
        if not all(isinstance(number, int) and not isinstance(number, bool) and number >= 0 for number in numbers):
            raise ValueError("lengths and offsets must not be negative")
        if len(shape) > 64:
            raise ValueError("more than 64 dimensions")
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"{path}: the entry of {name!r} is invalid: {error}") from None
    if dtype not in _DTYPES:
        raise ValueError(f"{path}: {name!r} has the unsupported element type {dtype}")
    elements = 1
    for number in shape:
        elements *= number
    if end < start or end > room or end - start != elements * _pf.dtype_of(_DTYPES[dtype]).itemsize:
        raise ValueError(f"{path}: {name!r} of {shape} {dtype} does not match bytes {start} to {end} of {room}")
    return _DTYPES[dtype], shape, start, end
