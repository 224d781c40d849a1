"""Tensors in files: safetensors (a length, a header in JSON, and the elements), PyTorch's `.pt`, and NumPy's `.npz`. Nothing in a
file is ever executed."""

from __future__ import annotations

import io
import json
import os
import struct
from typing import IO, Any, BinaryIO, Callable, Dict, Optional, Union

from . import _pyflame as _pf

# A file by its name, or one that is open.
Path = Union[str, "os.PathLike[str]", IO[bytes]]

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


# How much compressed NumPy arrays may expand: so many times, and to so many bytes in any case.
_MOST_EXPANDED = 100
_ALWAYS_EXPANDED = 1 << 28

# Endings of the names of files in PyTorch's format.
_OF_TORCH = (".pt", ".pth", ".ckpt", ".bin")


def save(tensors: Any, path: Path, metadata: Optional[Dict[str, str]] = None) -> None:
    """Writes tensors to a file, or to a file object that is open for writing.

    A tensor, or a dictionary of names and tensors such as `model.state_dict()`, becomes a safetensors file. Nested dictionaries and
    lists with numbers and texts, such as a checkpoint with an optimizer's state, become a file that PyTorch reads as well, and so
    does everything that is saved under a name that ends in .pt, .pth, .ckpt or .bin. `.npz` files are NumPy's. `metadata`: names and
    strings for a safetensors file.
    """
    kind = _ending(path)
    flat = {"tensor": tensors} if isinstance(tensors, _pf.Tensor) else tensors
    plain = isinstance(flat, dict) and all(
        isinstance(name, str) and isinstance(tensor, _pf.Tensor) for name, tensor in flat.items()
    )
    if kind in _OF_TORCH or (not plain and kind == ""):
        from . import torch_files

        if metadata:
            raise ValueError("save: only safetensors files have metadata")
        _written(path, lambda file: torch_files.save(tensors, file))
        return
    if not isinstance(flat, dict):
        raise TypeError(f"save: expected a tensor or a dictionary of tensors, not {type(tensors).__name__}; a .pt file can have others")
    for name, tensor in flat.items():
        if not isinstance(name, str) or not isinstance(tensor, _pf.Tensor):
            raise TypeError(
                f"save: names must be strings and values tensors; {name!r} is a {type(tensor).__name__}; a .pt file can have others"
            )
    if kind == ".npz":
        import numpy

        arrays = {name: tensor.detach().numpy() for name, tensor in flat.items()}
        _written(path, lambda file: numpy.savez(file, **arrays))
        return
    _pf.eval(*flat.values())
    _written(path, lambda file: _write_safetensors(flat, file, metadata))


def _ending(path: Path) -> str:
    return os.path.splitext(os.fspath(path))[1] if isinstance(path, (str, bytes, os.PathLike)) else ""


def _written(path: Any, write: Callable[[Any], None]) -> None:
    """Writes to a file object; or to a new file that replaces the one with this name when it is complete."""
    if hasattr(path, "write"):
        write(path)
        return
    temporary = f"{os.fspath(path)}.{os.getpid()}.part"
    try:
        with open(temporary, "wb") as file:
            write(file)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)


def _write_safetensors(tensors: Any, file: Any, metadata: Any) -> None:
    header: Dict[str, Any] = {}
    parts, offset = [], 0
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
    file.write(struct.pack("<Q", len(text)))
    file.write(text)
    for part in parts:
        file.write(part)


def load(path: Path, device: Optional[str] = None, map_location: Optional[str] = None, weights_only: bool = True) -> Any:
    """Returns what is in a safetensors, `.pt` or `.npz` file, or in a file object that is open for reading.

    Of `.pt` files, only tensors, containers, numbers and texts are read, whatever `weights_only` is; others are refused with an error
    that names what they contain. On the CPU, tensors of safetensors and `.pt` files stay in the file until they are first used: do not
    change a file in place while tensors of it exist (`save` replaces it instead). `device`, or `map_location` as PyTorch calls it, is where
    the tensors go.
    """
    device = device if device is not None else map_location
    if device is not None and not isinstance(device, str):
        raise TypeError(f"load: the device must be a name, not {type(device).__name__}")
    if hasattr(path, "read"):
        return _loaded(path, getattr(path, "name", "the file object"), device)
    with open(path, "rb") as file:
        return _loaded(file, path, device)


def _loaded(file: Any, path: Any, device: Optional[str]) -> Any:
    start = file.tell() if file.seekable() else None
    first = file.read(4)
    if start is None:
        file, start = io.BytesIO(first + file.read()), 0
    file.seek(start)
    if first == b"PK\x03\x04":
        return _of_zip(file, path, device)
    if first[:1] == b"\x80":
        raise ValueError(f"{path}: a pickle, or a file of PyTorch before 1.6, is not read; save it with a newer PyTorch")
    file.seek(0, os.SEEK_END)
    size = file.tell() - start
    file.seek(start)
    entries, begin = _header(file, size, path)
    mapped = mapping(file, start + size)
    tensors = {}
    for name, (dtype, shape, first, last) in entries.items():
        if mapped is not None and last > first:
            tensors[name] = mapped.tensor(dtype, shape, start + begin + first, device)
            continue
        file.seek(start + begin + first)
        part = file.read(last - first)
        if len(part) != last - first:
            raise ValueError(f"{path}: the data of {name!r} is truncated")
        tensors[name] = _pf.from_parts(dtype, shape, part, device)
    return tensors


def mapping(file: BinaryIO, size: int) -> Optional[_pf.MappedFile]:
    """The first bytes of a file as memory; None if it is not a file of the system."""
    try:
        return _pf.MappedFile(file.fileno(), size)
    except (AttributeError, OSError):
        return None


def _of_zip(file: Any, path: Any, device: Optional[str]) -> Any:
    from . import torch_files

    try:
        archive, size = torch_files.opened(file)
        arrays = [entry for entry in archive.infolist() if entry.filename.endswith(".npy")]
        file.seek(0)
        if not arrays:
            return torch_files.load(file, device)
    except ValueError as error:
        raise type(error)(f"{path}: {error}") from None
    expanded, most = sum(entry.file_size for entry in arrays), _MOST_EXPANDED * size + _ALWAYS_EXPANDED
    if expanded > most:
        raise ValueError(
            f"{path}: the {size} bytes of the archive expand to {expanded}, and at most {most} are allowed; "
            "if you trust the file, read it with numpy.load"
        )
    import numpy

    try:
        with numpy.load(file, allow_pickle=False) as found:
            return {name: _pf.tensor(found[name], device=device) for name in found.files}
    except (MemoryError, *torch_files.DAMAGED) as error:
        raise ValueError(f"{path}: {error}") from None


def _header(file: Any, size: int, path: Any) -> Any:
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


def _entry(name: str, entry: Any, room: int, path: Any) -> Any:
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
