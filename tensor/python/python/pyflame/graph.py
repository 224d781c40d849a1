"""The lazy graph, as text."""

from . import _pyflame as _pf


def get_graph(*tensors):
    """What is still to be computed for these tensors, and by which launches."""
    return _pf.explain(*tensors)


def print_graph(*tensors):
    print(_pf.explain(*tensors))
