"""PyTorch's `.pt` files: a zip archive with a pickle and one file for each tensor's memory."""

from __future__ import annotations

import math
import os
import struct
import zipfile
import zlib
from collections import OrderedDict
from typing import Any, BinaryIO, Dict, List, Optional, Set, Tuple, Union

from . import _pyflame as _pf
from ._pyflame import Tensor
from .pickled import Reader, UnsafeFileError, Writer
from .serialization import mapping

# PyTorch's names of memory with elements of one type.
_STORAGES = {
    "FloatStorage": "float32", "DoubleStorage": "float64", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8",
    "BoolStorage": "bool", "ComplexFloatStorage": "complex64",
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in _STORAGES.items()}

# What loading a file may cost: tensors of this many times the file's size, and of this many bytes in any case. More comes from tensors
# that repeat or share the elements of one memory.
_MOST_COPIES = 4
_ALWAYS = 1 << 24
# The shortest description of a tensor in a file, in bytes; a tensor in memory is much larger.
_SHORTEST_TENSOR = 16


class _Memory:
    """Where the elements of tensors are in a file."""

    def __init__(self, dtype: str, data: Union[bytes, Tuple[_pf.MappedFile, int]], elements: int, device: Optional[str]) -> None:
        self.dtype, self.data, self.elements, self.device = dtype, data, elements, device
        self._whole: Optional[Tensor] = None

    def part(self, shape: List[int], offset: int) -> Tensor:
        """Elements that follow each other."""
        wide = _pf.dtype_of(self.dtype).itemsize
        size = math.prod(shape) * wide
        if isinstance(self.data, tuple):
            mapped, start = self.data
            return mapped.tensor(self.dtype, shape, start + offset * wide, self.device)
        return _pf.from_parts(self.dtype, shape, self.data[offset * wide : offset * wide + size], self.device)

    def whole(self) -> Tensor:
        """All elements in one axis."""
        if self._whole is None:
            self._whole = self.part([self.elements], 0)
        return self._whole


class _Kind:
    """A storage class."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype


class _Archive:
    """What a file's pickle may refer to."""

    def __init__(self, archive: zipfile.ZipFile, prefix: str, size: int, mapped: Optional[_pf.MappedFile], device: Optional[str]) -> None:
        self.archive, self.prefix, self.mapped, self.device = archive, prefix, mapped, device
        self.known: Dict[str, _Memory] = {}
        self.size, self.made, self.tensors = size, 0, 0
        program = _content(archive, f"{prefix}/data.pkl", None)
        self.most_tensors = len(program) // _SHORTEST_TENSOR + 16
        self.reader = Reader(program, self.names(), self.persistent)

    def charge(self, count: int, what: str) -> None:
        """Counts bytes that are created for tensors."""
        self.made += count
        most = _MOST_COPIES * self.size + _ALWAYS
        if self.made > most:
            raise UnsafeFileError(
                f"{what} needs {count} bytes; with it the tensors of this file of {self.size} bytes need {self.made}, and at most {most} "
                "are allowed: its tensors repeat or share elements; save a clone() of each instead"
            )

    def persistent(self, place: Any) -> _Memory:
        """The memory with this description."""
        if not (isinstance(place, tuple) and len(place) == 5 and place[0] == "storage" and isinstance(place[1], _Kind)):
            raise UnsafeFileError("a tensor's memory has a description of an unknown kind")
        _, kind, key, _, elements = place
        if not isinstance(key, str) or len(key) > 100 or not isinstance(elements, int) or not 0 <= elements < 1 << 60:
            raise UnsafeFileError("a tensor's memory has a name that is not a text, or an invalid number of elements")
        if key not in self.known:
            size = elements * _pf.dtype_of(kind.dtype).itemsize
            name = f"{self.prefix}/data/{key}"
            where = None if self.mapped is None else _place(self.archive, self.mapped, name, size)
            data = _content(self.archive, name, size) if self.mapped is None or where is None else (self.mapped, where)
            self.known[key] = _Memory(kind.dtype, data, elements, self.device)
        return self.known[key]

    def tensor(
        self, memory: Any, offset: Any, size: Any, stride: Any, requires_grad: Any = False, hooks: Any = None, metadata: Any = None
    ) -> Tensor:
        """A tensor in a memory."""
        self.tensors += 1
        if self.tensors > self.most_tensors:
            raise UnsafeFileError(f"the file describes more than {self.most_tensors} tensors in {len(self.reader.data)} bytes")
        sequences = isinstance(size, (tuple, list)) and isinstance(stride, (tuple, list))
        if not isinstance(memory, _Memory) or not sequences or len(size) != len(stride) or len(size) > 64:
            raise UnsafeFileError("a tensor has no memory, or other strides than axes")
        numbers = [offset, *size, *stride]
        if not all(isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 1 << 60 for number in numbers):
            raise UnsafeFileError("a tensor has an invalid offset, length or stride")
        what = f"a tensor of {list(size)} with strides {list(stride)}"
        last = offset + sum((length - 1) * step for length, step in zip(size, stride))
        if 0 not in size and last >= memory.elements:
            raise UnsafeFileError(f"{what} reads beyond its {memory.elements} elements")
        if math.prod(max(length, 1) for length in size) >= 1 << 60:
            raise UnsafeFileError(f"{what} has too many elements")
        wide = _pf.dtype_of(memory.dtype).itemsize
        contiguous, expected = True, 1
        for length, step in zip(reversed(size), reversed(stride)):
            contiguous = contiguous and (length == 1 or step == expected)
            expected *= length
        self.charge(expected * wide, what)
        if 0 in size:
            made = _pf.from_parts(memory.dtype, list(size), b"", self.device)
        elif contiguous:
            made = memory.part(list(size), offset)
        else:
            made = memory.whole().as_strided(list(size), list(stride), offset).clone()
        return made.requires_grad_() if requires_grad is True else made

    def parameter(self, data: Any, requires_grad: Any = True, hooks: Any = None) -> Any:
        """A parameter."""
        from .nn.parameter import Parameter

        if not isinstance(data, Tensor):
            raise UnsafeFileError("a parameter has no tensor")
        return Parameter(data.detach(), requires_grad is True)

    def lengths(self, lengths: Any = ()) -> Tuple[Any, ...]:
        """A shape."""
        return tuple(self.reader.copy(lengths, 64))

    def ordered(self, items: Any = ()) -> "OrderedDict[Any, Any]":
        """A dictionary of pairs."""
        pairs = self.reader.copy(items)
        if not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
            raise UnsafeFileError("an ordered dictionary is not made of pairs")
        self.reader.keys((pair[0] for pair in pairs), "key of a dictionary")
        return OrderedDict(pairs)

    def unordered(self, items: Any = ()) -> Set[Any]:
        """A set."""
        parts = self.reader.copy(items)
        self.reader.keys(parts, "item of a set")
        return set(parts)

    def names(self) -> Dict[str, Any]:
        """All classes and functions that a file may use."""
        known: Dict[str, Any] = {f"torch.{name}": _Kind(dtype) for name, dtype in _STORAGES.items()}
        known.update({f"torch.{dtype}": _pf.dtype_of(dtype) for dtype in _NAMES})
        known.update({
            "torch._utils._rebuild_tensor_v2": self.tensor,
            "torch._utils._rebuild_parameter": self.parameter,
            "torch.device": _device,
            "torch.Size": self.lengths,
            "collections.OrderedDict": self.ordered,
            "builtins.set": self.unordered,
            "__builtin__.set": self.unordered,
        })  # fmt: skip
        return known


def _device(*parts: Any) -> str:
    return ":".join(str(part) for part in parts if isinstance(part, (str, int)))


def _entry(archive: zipfile.ZipFile, name: str, size: Optional[int]) -> zipfile.ZipInfo:
    """The directory's entry of a file of the archive, of an expected size."""
    try:
        entry = archive.getinfo(name)
    except KeyError:
        raise UnsafeFileError(f"the archive has no file {name!r}") from None
    if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
        # PyTorch never compresses; a small file could expand without limit.
        raise UnsafeFileError(f"the file {name!r} in the archive is compressed")
    if size is not None and entry.file_size < size:
        raise UnsafeFileError(f"the file {name!r} has {entry.file_size} bytes instead of {size}")
    return entry


def _place(archive: zipfile.ZipFile, mapped: _pf.MappedFile, name: str, size: int) -> Optional[int]:
    """Where a file of the archive starts. None if its header there is not as expected."""
    entry = _entry(archive, name, size)
    header = struct.unpack("<I22xHH", mapped.read(entry.header_offset, 30))
    start: int = entry.header_offset + 30 + header[1] + header[2]
    # An archive may follow something else in the file; the module zipfile then corrects offsets.
    return start if header[0] == 0x04034B50 and start + entry.file_size <= archive.start_dir else None


def _content(archive: zipfile.ZipFile, name: str, size: Optional[int]) -> bytes:
    """A file of the archive, of an expected size."""
    entry = _entry(archive, name, size)
    try:
        return archive.read(entry)
    except DAMAGED as error:
        raise UnsafeFileError(f"the file {name!r} in the archive is damaged: {error}") from None


# What the module zipfile raises for damaged archives.
DAMAGED = (
    zipfile.BadZipFile, EOFError, zlib.error, OSError, struct.error, NotImplementedError, RuntimeError, ValueError, OverflowError,
    IndexError,
)  # fmt: skip


def opened(file: BinaryIO) -> Tuple[zipfile.ZipFile, int]:
    """A zip archive whose files do not overlap, and its size: so what they contain before decompression is not more than that."""
    try:
        archive = zipfile.ZipFile(file)
        size = file.seek(0, os.SEEK_END)
    except DAMAGED as error:
        raise UnsafeFileError(f"the archive is damaged: {error}") from None
    end = 0
    for entry in sorted(archive.infolist(), key=lambda entry: entry.header_offset):
        if entry.header_offset < end:
            raise UnsafeFileError(f"the file {entry.filename[:100]!r} in the archive overlaps the one before it")
        # A header of 30 bytes, the name, and the content.
        end = entry.header_offset + 30 + len(entry.orig_filename) + entry.compress_size
    if end > size:
        raise UnsafeFileError(f"the files in the archive end at byte {end}, but it has {size} bytes")
    return archive, size


def load(file: BinaryIO, device: Optional[str] = None) -> Any:
    """The object in a `.pt` file."""
    archive, size = opened(file)
    found = [name for name in archive.namelist() if name.endswith("/data.pkl")]
    if len(found) != 1:
        raise UnsafeFileError("not a file of PyTorch: the archive has no data.pkl; files of torch.jit.save are not read")
    prefix = found[0][: -len("/data.pkl")]
    order = f"{prefix}/byteorder"
    if order in archive.namelist() and _content(archive, order, None) != b"little":
        raise UnsafeFileError("the file was written on a big-endian machine")
    try:
        return _Archive(archive, prefix, size, mapping(file, size), device).reader.read()
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

