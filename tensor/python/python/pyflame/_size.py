"""Small result types: numbers that can be called, pairs that act as their first part, names of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Tuple

if TYPE_CHECKING:
    from typing_extensions import Self


class Count(int):
    """A number of elements: `x.numel` and `x.numel()` are the same."""

    __slots__ = ()

    def __call__(self) -> int:
        return int(self)


class ValuesAndIndices(Tuple[Any, Any]):
    """The result of `max(dim)` and similar: `values` and `indices`. All other attributes are those of the values."""

    _name: str

    def __new__(cls, values: Any, indices: Any, name: str = "max") -> Self:
        pair = super().__new__(cls, (values, indices))
        pair._name = name
        return pair

    values = property(lambda self: self[0])
    indices = property(lambda self: self[1])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self[0], name)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self[0].__array__(*args, **kwargs)

    def __reduce__(self) -> Any:
        return ValuesAndIndices, (self[0], self[1], self._name)

    def __repr__(self) -> str:
        return f"pyflame.{self._name}(\nvalues={self[0]!r},\nindices={self[1]!r})"


class device(str):
    """The name of a device: 'cpu', 'rocm' or 'rocm:1'. `type` is its kind and `index` its number, or None."""

    __slots__ = ()

    def __new__(cls, type: str = "cpu", index: Optional[int] = None) -> "device":
        return super().__new__(cls, type if index is None else f"{type}:{index}")

    @property
    def type(self) -> str:
        """The kind of the device."""
        return self.split(":")[0]

    @property
    def index(self) -> Optional[int]:  # type: ignore[override]
        """The number of the device among those of its kind, if the name has one."""
        kind, _, number = self.partition(":")
        return int(number) if number else None

    def __repr__(self) -> str:
        return f"device({str.__repr__(self)})"
