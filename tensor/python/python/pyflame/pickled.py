"""A reader and a writer for the part of the pickle format that PyTorch's files use. Nothing in a file is ever executed.

Only containers, numbers, texts and tensors are read: the few functions that a file may name are in a table here, and stand for what
this module does itself. Everything else is refused.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from typing import Any, Callable, Dict, Iterable, List, Optional

# Files are small programs for a stack machine; these are limits for those of unreasonable size.
_LONGEST_TEXT = 1 << 28
_MOST_NESTED = 1 << 20
# Of a dictionary's key and a set's item. Python hashes nested tuples by recursion without a limit, and every use of a tuple hashes all
# of it again.
_DEEPEST_KEY = 8
_LONGEST_KEY = 256


class UnsafeFileError(ValueError):
    """A file contains something other than tensors, containers, numbers and texts."""


_MARK = object()


def key_trouble(key: Any) -> Optional[str]:
    """Why an object may not be the key of a dictionary or the item of a set; None if it may."""
    left, level, depth = _LONGEST_KEY, [key], 0
    while level:
        inner: List[Any] = []
        for part in level:
            left -= 1
            if isinstance(part, tuple):
                inner.extend(part[: left + 1])
            elif isinstance(part, int):
                # Hashes are remainders: larger numbers could all be chosen to have the same.
                if part.bit_length() > 64:
                    return f"a number of {part.bit_length()} bits; at most 64 are possible"
            elif not isinstance(part, (str, float, bytes, type(None))):
                return f"an object of type {type(part).__name__}; numbers, texts and tuples of them are possible"
            if left < 0:
                return f"a tuple of more than {_LONGEST_KEY} parts"
        level, depth = inner, depth + 1
        if level and depth > _DEEPEST_KEY:
            return f"a tuple with tuples nested more than {_DEEPEST_KEY} deep"
    return None


class Reader:
    """Runs the instructions of a file. `called` maps names to what they stand for; `persistent` finds what is stored elsewhere."""

    def __init__(self, data: bytes, called: Dict[str, Any], persistent: Callable[[Any], Any]) -> None:
        self.data, self.at = data, 0
        self.called, self.persistent = called, persistent
        self.stack: List[Any] = []
        self.memo: Dict[int, Any] = {}
        self.copied = 0

    def copy(self, items: Any, most: Optional[int] = None) -> List[Any]:
        """The items of a list or tuple that a call is given. A file that copies one list again and again would need memory that
        grows with the square of its length; one that copies each list once has at least one byte for every item."""
        if not isinstance(items, (list, tuple)):
            raise UnsafeFileError(f"a call before byte {self.at} needs a list, not an object of type {type(items).__name__}")
        self.copied += len(items)
        if self.copied > len(self.data) or (most is not None and len(items) > most):
            raise UnsafeFileError(f"calls before byte {self.at} copy {self.copied} items, more than {len(self.data)} bytes can describe")
        return list(items)

    def keys(self, items: Iterable[Any], what: str) -> None:
        """Checks the keys of a dictionary, or the items of a set, before Python hashes them."""
        for item in items:
            trouble = key_trouble(item)
            if trouble is not None:
                raise UnsafeFileError(f"the {what} before byte {self.at} is {trouble}")

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if count < 0 or count > len(self.data) - self.at:
            raise UnsafeFileError(f"the file ends at byte {len(self.data)}, {count} more bytes were expected at {self.at}")
        part = self.data[self.at : self.at + count]
        self.at += count
        return part

    def line(self) -> str:
        """The text up to the next end of a line."""
        end = self.data.find(b"\n", self.at, self.at + 4096)
        if end < 0:
            raise UnsafeFileError(f"a line at byte {self.at} does not end")
        text = self.take(end + 1 - self.at)[:-1]
        return text.decode("utf-8")

    def number(self, form: str) -> Any:
        """A number in binary form."""
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def pop(self) -> Any:
        """The top of the stack."""
        if not self.stack or self.stack[-1] is _MARK:
            raise UnsafeFileError(f"an instruction before byte {self.at} has no operand")
        return self.stack.pop()

    def marked(self) -> List[Any]:
        """Everything above the last mark."""
        for place in range(len(self.stack) - 1, -1, -1):
            if self.stack[place] is _MARK:
                items = self.stack[place + 1 :]
                del self.stack[place:]
                return items
        raise UnsafeFileError(f"an instruction before byte {self.at} has no mark")

    def top(self, kind: Any) -> Any:
        """The top of the stack, which must have a type."""
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise UnsafeFileError(f"an instruction before byte {self.at} needs another operand")
        return self.stack[-1]

    def name(self, module: str, name: str) -> Any:
        """What a name stands for."""
        known = self.called.get(f"{module}.{name}")
        if known is None:
            # A name can be as long as the file.
            module, name = module[:100], name[:100]
            raise UnsafeFileError(
                f"the file uses {module}.{name}, which is not allowed: only tensors, containers, numbers and texts are read, "
                "and no code is ever executed; save a state_dict() instead of the object"
            )
        return known

    def read(self) -> Any:
        """The object that the file describes."""
        while True:
            code = self.take(1)
            if code == b".":
                return self.pop()
            step = _STEPS.get(code)
            if step is None:
                raise UnsafeFileError(f"instruction {code!r} at byte {self.at - 1} is not one of PyTorch's files")
            step(self)
            if len(self.stack) > _MOST_NESTED:
                raise UnsafeFileError("the file nests too deeply")


def _call(reader: Reader) -> None:
    arguments, function = reader.pop(), reader.pop()
    if not callable(function) or not isinstance(arguments, tuple):
        raise UnsafeFileError(f"a call before byte {reader.at} is not one of an allowed function")
    try:
        reader.stack.append(function(*arguments))
    except UnsafeFileError:
        raise
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        raise UnsafeFileError(f"a call before byte {reader.at} has wrong arguments: {error}") from None


def _set_items(reader: Reader, items: List[Any]) -> None:
    target = reader.top(dict)
    if len(items) % 2:
        raise UnsafeFileError(f"a dictionary before byte {reader.at} has a key without a value")
    reader.keys(items[::2], "key of a dictionary")
    target.update(zip(items[::2], items[1::2]))


def _build(reader: Reader) -> None:
    """A state for an object. Ordered dictionaries have one of no use (`_metadata`); other objects have none."""
    reader.pop()
    reader.top(OrderedDict)


def _get(reader: Reader, number: int) -> None:
    if number not in reader.memo:
        raise UnsafeFileError(f"an object before byte {reader.at} refers to one that does not exist")
    reader.stack.append(reader.memo[number])


def _put(reader: Reader, number: int) -> None:
    reader.memo[number] = reader.top(object)


def _text(reader: Reader, length: int) -> None:
    if length > _LONGEST_TEXT:
        raise UnsafeFileError(f"a text of {length} bytes is too long")
    reader.stack.append(reader.take(length).decode("utf-8", "surrogatepass"))


def _long(reader: Reader, length: int) -> None:
    if length > 1024:
        raise UnsafeFileError(f"a number of {length} bytes is too long")
    reader.stack.append(int.from_bytes(reader.take(length), "little", signed=True))


def _global(reader: Reader) -> None:
    module = reader.line()
    reader.stack.append(reader.name(module, reader.line()))


def _stack_global(reader: Reader) -> None:
    name, module = reader.pop(), reader.pop()
    if not isinstance(name, str) or not isinstance(module, str):
        raise UnsafeFileError(f"a name before byte {reader.at} is not a text")
    reader.stack.append(reader.name(module, name))


def _append(reader: Reader) -> None:
    value = reader.pop()
    reader.top(list).append(value)


def _appends(reader: Reader) -> None:
    items = reader.marked()
    reader.top(list).extend(items)


def _set_item(reader: Reader) -> None:
    value, key = reader.pop(), reader.pop()
    _set_items(reader, [key, value])


def _tuple(count: int) -> Callable[[Reader], None]:
    def step(reader: Reader) -> None:
        items = [reader.pop() for _ in range(count)]
        reader.stack.append(tuple(reversed(items)))

    return step


def _adds(reader: Reader) -> None:
    items = reader.marked()
    reader.keys(items, "item of a set")
    reader.top(set).update(items)


_STEPS: Dict[bytes, Callable[[Reader], Any]] = {
    b"\x80": lambda r: r.take(1),
    b"\x95": lambda r: r.take(8),
    b"(": lambda r: r.stack.append(_MARK),
    b"0": lambda r: r.pop(),
    b"N": lambda r: r.stack.append(None),
    b"\x88": lambda r: r.stack.append(True),
    b"\x89": lambda r: r.stack.append(False),
    b"J": lambda r: r.stack.append(r.number("<i")),
    b"K": lambda r: r.stack.append(r.number("<B")),
    b"M": lambda r: r.stack.append(r.number("<H")),
    b"G": lambda r: r.stack.append(r.number(">d")),
    b"\x8a": lambda r: _long(r, r.number("<B")),
    b"\x8b": lambda r: _long(r, r.number("<I")),
    b"X": lambda r: _text(r, r.number("<I")),
    b"\x8c": lambda r: _text(r, r.number("<B")),
    b"\x8d": lambda r: _text(r, r.number("<Q")),
    b"U": lambda r: _text(r, r.number("<B")),
    b"C": lambda r: r.stack.append(r.take(r.number("<B"))),
    b"B": lambda r: r.stack.append(r.take(r.number("<I"))),
    b"}": lambda r: r.stack.append({}),
    b"]": lambda r: r.stack.append([]),
    b")": lambda r: r.stack.append(()),
    b"\x8f": lambda r: r.stack.append(set()),
    b"\x90": _adds,
    b"a": _append,
    b"e": _appends,
    b"s": _set_item,
    b"u": lambda r: _set_items(r, r.marked()),
    b"t": lambda r: r.stack.append(tuple(r.marked())),
    b"l": lambda r: r.stack.append(list(r.marked())),
    b"\x85": _tuple(1),
    b"\x86": _tuple(2),
    b"\x87": _tuple(3),
    b"q": lambda r: _put(r, r.number("<B")),
    b"r": lambda r: _put(r, r.number("<I")),
    b"\x94": lambda r: _put(r, len(r.memo)),
    b"h": lambda r: _get(r, r.number("<B")),
    b"j": lambda r: _get(r, r.number("<I")),
    b"c": _global,
    b"\x93": _stack_global,
    b"R": _call,
    b"b": _build,
    b"Q": lambda r: r.stack.append(r.persistent(r.pop())),
}


class Writer:
    """Writes objects in protocol 2, which all versions of PyTorch read."""

    def __init__(self, tensor: Callable[["Writer", Any], bool]) -> None:
        self.parts: List[bytes] = []
        self.tensor = tensor
        self.inside: List[int] = []

    def written(self, value: Any) -> bytes:
        """The file's content."""
        self.parts = [b"\x80\x02"]
        self.write(value)
        return b"".join(self.parts) + b"."

    def name(self, module: str, name: str) -> None:
        """A class or function."""
        self.parts.append(f"c{module}\n{name}\n".encode())

    def write(self, value: Any) -> None:
        """One object."""
        if value is None or value is True or value is False:
            self.parts.append({None: b"N", True: b"\x88", False: b"\x89"}[value])
        elif isinstance(value, int):
            self._integer(int(value))
        elif isinstance(value, float):
            self.parts.append(b"G" + struct.pack(">d", value))
        elif isinstance(value, str):
            text = str(value).encode("utf-8", "surrogatepass")
            self.parts.append(b"X" + struct.pack("<I", len(text)) + text)
        elif isinstance(value, (dict, list, tuple, set)):
            self._container(value)
        elif not self.tensor(self, value):
            raise TypeError(
                f"save: a {type(value).__name__} cannot be saved; only tensors, dictionaries, lists, tuples, sets, numbers and texts can"
            )

    def _check(self, key: Any, what: str) -> None:
        """Refuses what `load` would refuse."""
        trouble = key_trouble(key)
        if trouble is not None:
            raise TypeError(f"save: the {what} is {trouble}")

    def _integer(self, value: int) -> None:
        if -(1 << 31) <= value < 1 << 31:
            self.parts.append(b"J" + struct.pack("<i", value))
            return
        length = value.bit_length() // 8 + 1
        if length > 255:
            raise ValueError(f"save: a number with {value.bit_length()} bits is too large")
        self.parts.append(b"\x8a" + bytes([length]) + value.to_bytes(length, "little", signed=True))

    def _container(self, value: Any) -> None:
        if id(value) in self.inside:
            raise ValueError("save: a container contains itself")
        self.inside.append(id(value))
        if isinstance(value, dict):
            if isinstance(value, OrderedDict):
                self.name("collections", "OrderedDict")
                self.parts.append(b")R")
            else:
                self.parts.append(b"}")
            self.parts.append(b"(")
            for key, item in value.items():
                self._check(key, "key of a dictionary")
                self.write(key)
                self.write(item)
            self.parts.append(b"u")
        elif isinstance(value, list):
            self.parts.append(b"](")
            for item in value:
                self.write(item)
            self.parts.append(b"e")
        else:
            is_set = isinstance(value, set)
            if is_set:
                self.name("builtins", "set")
                for item in value:
                    self._check(item, "item of a set")
            self.parts.append(b"(")
            for item in [sorted(value, key=repr)] if is_set else value:
                self.write(item)
            self.parts.append(b"tR" if is_set else b"t")
        self.inside.pop()
