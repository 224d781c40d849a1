"""Small result types that support two calling conventions."""


class Count(int):
    """A number of elements: `x.numel` and `x.numel()` are the same."""

    __slots__ = ()

    def __call__(self):
        return int(self)


class ValuesAndIndices(tuple):
    """The result of `max(dim)` and similar: `values` and `indices`. All other attributes are those of the values."""

    def __new__(cls, values, indices, name="max"):
        pair = super().__new__(cls, (values, indices))
        pair._name = name
        return pair

    values = property(lambda self: self[0])
    indices = property(lambda self: self[1])

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self[0], name)

    def __array__(self, *args, **kwargs):
        return self[0].__array__(*args, **kwargs)

    def __reduce__(self):
        return ValuesAndIndices, (self[0], self[1], self._name)

    def __repr__(self):
        return f"pyflame.{self._name}(\nvalues={self[0]!r},\nindices={self[1]!r})"
