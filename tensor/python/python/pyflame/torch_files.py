"""PyTorch's `.pt` files: a zip archive with a pickle and one file for each tensor's memory."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections import OrderedDict
from typing import Any, BinaryIO, Dict, List, Optional, Tuple

from . import _pyflame as _pf
from ._pyflame import Tensor
from .pickled import Reader, UnsafeFileError, Writer

# PyTorch's names of memory with elements of one type.
_STORAGES = {
    "FloatStorage": "float32", "DoubleStorage": "float64", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8",
    "BoolStorage": "bool", "ComplexFloatStorage": "complex64",
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in _STORAGES.items()}


class _Memory:
    """Where the elements of tensors are in a file."""

    def __init__(self, dtype: str, data: bytes, elements: int) -> None:
        self.dtype, self.data, self.elements = dtype, data, elements


class _Kind:
    """A storage class."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype


class _Archive:
    """What a file's pickle may refer to."""

    def __init__(self, archive: zipfile.ZipFile, prefix: str, device: Optional[str]) -> None:
        self.archive, self.prefix, self.device = archive, prefix, device
        self.known: Dict[str, _Memory] = {}

    def persistent(self, place: Any) -> _Memory:
        """The memory with this description."""
        if not (isinstance(place, tuple) and len(place) == 5 and place[0] == "storage" and isinstance(place[1], _Kind)):
            raise UnsafeFileError(f"a tensor's memory has the unknown description {place!r}")
        _, kind, key, _, elements = place
        if not isinstance(key, str) or not isinstance(elements, int) or elements < 0:
            raise UnsafeFileError(f"a tensor's memory has the invalid description {key!r}, {elements!r}")
        if key not in self.known:
            size = elements * _pf.dtype_of(kind.dtype).itemsize
            data = _content(self.archive, f"{self.prefix}/data/{key}", size)
            self.known[key] = _Memory(kind.dtype, data, elements)
        return self.known[key]

    def tensor(
        self, memory: Any, offset: Any, size: Any, stride: Any, requires_grad: Any = False, hooks: Any = None, metadata: Any = None
    ) -> Tensor:
        """A tensor in a memory."""
        numbers = [offset, *size, *stride]
        if not isinstance(memory, _Memory) or len(size) != len(stride) or len(size) > 64:
            raise UnsafeFileError("a tensor has no memory, or other strides than axes")
        if not all(isinstance(number, int) and not isinstance(number, bool) and number >= 0 for number in numbers):
            raise UnsafeFileError(f"a tensor has the invalid layout {numbers}")
        last = offset + sum((length - 1) * step for length, step in zip(size, stride))
        if 0 not in size and last >= memory.elements:
            raise UnsafeFileError(f"a tensor of {list(size)} with strides {list(stride)} reads beyond its {memory.elements} elements")
        wide = _pf.dtype_of(memory.dtype).itemsize
        contiguous, expected = True, 1
        for length, step in zip(reversed(size), reversed(stride)):
            contiguous = contiguous and (length == 1 or step == expected)
            expected *= length
        if 0 in size or contiguous:
            made = _pf.from_parts(memory.dtype, list(size), memory.data[offset * wide : (offset + expected) * wide], self.device)
        else:
            whole = _pf.from_parts(memory.dtype, [memory.elements], memory.data, self.device)
            made = whole.as_strided(list(size), list(stride), offset).clone()
        return made.requires_grad_() if requires_grad is True else made

    def parameter(self, data: Any, requires_grad: Any = True, hooks: Any = None) -> Any:
        """A parameter."""
        from .nn.parameter import Parameter

        if not isinstance(data, Tensor):
            raise UnsafeFileError("a parameter has no tensor")
        return Parameter(data.detach(), requires_grad is True)  # type: ignore[no-untyped-call]

    def names(self) -> Dict[str, Any]:
        """All classes and functions that a file may use."""
        known: Dict[str, Any] = {f"torch.{name}": _Kind(dtype) for name, dtype in _STORAGES.items()}
        known.update({f"torch.{dtype}": _pf.dtype_of(dtype) for dtype in _NAMES})
        known.update({
            "torch._utils._rebuild_tensor_v2": self.tensor,
            "torch._utils._rebuild_parameter": self.parameter,
            "torch.device": _device,
            "torch.Size": _size,
            "collections.OrderedDict": _ordered,
            "builtins.set": _set,
            "__builtin__.set": _set,
        })  # fmt: skip
        return known


def _device(*parts: Any) -> str:
    return ":".join(str(part) for part in parts if isinstance(part, (str, int)))


def _size(lengths: Any = ()) -> Tuple[Any, ...]:
    return tuple(lengths)


def _ordered(items: Any = ()) -> "OrderedDict[Any, Any]":
    return OrderedDict((key, value) for key, value in items)


def _set(items: Any = ()) -> Any:
    return set(items)


def _content(archive: zipfile.ZipFile, name: str, size: Optional[int]) -> bytes:
    """A file of the archive, of an expected size."""
    try:
        entry = archive.getinfo(name)
    except KeyError:
        raise UnsafeFileError(f"the archive has no file {name!r}") from None
    if entry.compress_type != zipfile.ZIP_STORED:
        # PyTorch never compresses; a small file could expand without limit.
        raise UnsafeFileError(f"the file {name!r} in the archive is compressed")
    if size is not None and entry.file_size < size:
        raise UnsafeFileError(f"the file {name!r} has {entry.file_size} bytes instead of {size}")
    try:
        return archive.read(entry)
    except (zipfile.BadZipFile, EOFError, zlib.error, OSError) as error:
        raise UnsafeFileError(f"the file {name!r} in the archive is damaged: {error}") from None


def load(file: BinaryIO, device: Optional[str] = None) -> Any:
    """The object in a `.pt` file."""
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, OSError, struct.error) as error:
        raise UnsafeFileError(f"not a file of PyTorch 1.6 or newer: {error}") from None
    found = [name for name in archive.namelist() if name.endswith("/data.pkl")]
    if len(found) != 1:
        raise UnsafeFileError("not a file of PyTorch: the archive has no data.pkl; files of torch.jit.save are not read")
    prefix = found[0][: -len("/data.pkl")]
    order = f"{prefix}/byteorder"
    if order in archive.namelist() and _content(archive, order, None) != b"little":
        raise UnsafeFileError("the file was written on a big-endian machine")
    content = _Archive(archive, prefix, device)
    try:
        return Reader(_content(archive, found[0], None), content.names(), content.persistent).read()
    except (RecursionError, UnicodeDecodeError, struct.error, OverflowError) as error:
        raise UnsafeFileError(f"the file is damaged: {error}") from None


def save(value: Any, file: BinaryIO) -> None:
    """Writes an object as a `.pt` file."""
    memories: List[bytes] = []
    # Tensors that share elements are read as copies; only the same object is written once.
    numbers: Dict[int, Tuple[int, Any]] = {}

    def tensor(writer: Writer, item: Any) -> bool:
        from .nn.parameter import Parameter

        if isinstance(item, _pf.dtype):
            writer.name("torch", item.name)
            return True
        if not isinstance(item, Tensor):
            return False
        if id(item) not in numbers:
            dtype, shape, data, _ = item.detach().to_parts()
            if dtype not in _NAMES:
                raise TypeError(f"save: PyTorch's files have no elements of type {dtype}; use a .safetensors file")
            numbers[id(item)] = (len(memories), item)
            memories.append(data)
        number, dtype, shape = numbers[id(item)][0], item.dtype.name, [int(length) for length in item.shape]
        strides = [1] * len(shape)
        for at in range(len(shape) - 2, -1, -1):
            strides[at] = strides[at + 1] * max(shape[at + 1], 1)
        is_parameter = isinstance(item, Parameter)
        if is_parameter:
            writer.name("torch._utils", "_rebuild_parameter")
            writer.parts.append(b"(")
        writer.name("torch._utils", "_rebuild_tensor_v2")
        writer.parts.append(b"((")
        writer.write("storage")
        writer.name("torch", _NAMES[dtype])
        writer.write(str(number))
        writer.write("cpu")
        writer.write(item.nelement())
        writer.parts.append(b"tQ")
        needs = bool(item.requires_grad and item.is_leaf and not is_parameter)
        layout: Tuple[Any, ...] = (0, tuple(shape), tuple(strides), needs, OrderedDict())
        for part in layout:
            writer.write(part)
        writer.parts.append(b"tR")
        if is_parameter:
            writer.write(bool(item.requires_grad))
            writer.write(OrderedDict())
            writer.parts.append(b"tR")
        return True

    program = Writer(tensor).written(value)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, "archive/data.pkl", program)
        _add(archive, "archive/byteorder", b"little")
        for number, data in enumerate(memories):
            _add(archive, f"archive/data/{number}", data)
        _add(archive, "archive/version", b"3\n")


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    """Adds a file whose data is aligned to 64 bytes, as PyTorch does for mapping it into memory."""
    entry = zipfile.ZipInfo(name)
    start = archive.fp.tell() + 30 + len(name)  # type: ignore[union-attr]
    room = -(start + 4) % 64
    entry.extra = struct.pack("<HH", 0x4246, room) + b"Z" * room
    archive.writestr(entry, data)

