"""The wire format of protocol buffers: fields with numbers, in a file that may be damaged. Every length is checked."""

from __future__ import annotations

import struct
from typing import Dict, List, Tuple, Union

# A message inside of a message, and so on: models have subgraphs, but not this many.
DEEPEST = 64

Field = Union[int, bytes]


class ModelError(ValueError):
    """A file is not a valid ONNX model."""


def _varint(data: bytes, at: int) -> Tuple[int, int]:
    """A number in groups of seven bits, and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ModelError(f"the file ends in a number at byte {at}")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (1 << 64) - 1, at
    raise ModelError(f"a number before byte {at} has more than 64 bits")


def fields(data: bytes) -> Dict[int, List[Field]]:
    """The fields of a message by number: integers, 4 or 8 bytes, or a length of bytes."""
    found: Dict[int, List[Field]] = {}
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        value: Field
        if number == 0:
            raise ModelError(f"a field before byte {at} has the number zero")
        if kind == 0:
            value, at = _varint(data, at)
        elif kind in (1, 2, 5):
            length = {1: 8, 5: 4}.get(kind, 0)
            if kind == 2:
                length, at = _varint(data, at)
            if length > len(data) - at:
                raise ModelError(f"field {number} at byte {at} has {length} bytes, {len(data) - at} are left")
            value = data[at : at + length]
            at += length
        else:
            raise ModelError(f"field {number} before byte {at} has the unknown kind {kind}")
        found.setdefault(number, []).append(value)
    return found


def signed(value: int) -> int:
    """A 64-bit number as a signed one."""
    return value - (1 << 64) if value >> 63 else value


def whole(message: Dict[int, List[Field]], number: int, default: int = 0) -> int:
    """A field with an integer."""
    value = message.get(number, [default])[-1]
    if not isinstance(value, int):
        raise ModelError(f"field {number} is not an integer")
    return signed(value)


def raw(message: Dict[int, List[Field]], number: int) -> bytes:
    """A field with bytes; empty if there is none."""
    value = message.get(number, [b""])[-1]
    if not isinstance(value, bytes):
        raise ModelError(f"field {number} is not a length of bytes")
    return value


def text(message: Dict[int, List[Field]], number: int) -> str:
    """A field with a text."""
    return decoded(raw(message, number))


def decoded(data: Field) -> str:
    """Bytes as a text."""
    if not isinstance(data, bytes):
        raise ModelError("a text is not a length of bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ModelError(f"the text {data[:20]!r} is not UTF-8") from None


def messages(message: Dict[int, List[Field]], number: int) -> List[bytes]:
    """All fields of a number that contain messages or bytes."""
    values: List[bytes] = []
    for value in message.get(number, []):
        if not isinstance(value, bytes):
            raise ModelError(f"field {number} is not a length of bytes")
        values.append(value)
    return values


def integers(message: Dict[int, List[Field]], number: int) -> List[int]:
    """A repeated integer, packed or not."""
    values: List[int] = []
    for value in message.get(number, []):
        if isinstance(value, int):
            values.append(signed(value))
            continue
        at = 0
        while at < len(value):
            one, at = _varint(value, at)
            values.append(signed(one))
    return values


def floats(message: Dict[int, List[Field]], number: int, form: str = "f") -> List[float]:
    """A repeated floating point number, packed or not."""
    data = b"".join(messages(message, number))
    size = struct.calcsize(form)
    if len(data) % size:
        raise ModelError(f"field {number} has {len(data)} bytes, not a multiple of {size}")
    return list(struct.unpack(f"<{len(data) // size}{form}", data))
