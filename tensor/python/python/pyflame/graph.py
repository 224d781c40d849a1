"""The lazy graph, as text."""

from __future__ import annotations

from typing import Any

from . import _pyflame as _pf


def get_graph(*tensors: Any) -> Any:
    """The pending computation of these tensors, and its launches."""
    return _pf.explain(*tensors)


def print_graph(*tensors: Any) -> None:
    """Prints the pending operations of tensors."""
    print(_pf.explain(*tensors))
