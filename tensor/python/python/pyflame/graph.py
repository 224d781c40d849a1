"""The lazy graph, as text."""

from . import _pyflame as _pf


def get_graph(*tensors):
    """The pending computation of these tensors, and its launches."""
    return _pf.explain(*tensors)


def print_graph(*tensors):
    """Prints the pending operations of tensors."""
    print(_pf.explain(*tensors))
