"""Printing of tensors."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any, Iterator, Optional

if TYPE_CHECKING:
    from ._pyflame import Tensor
    from .nn.module import Module

_options = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80}


def set_printoptions(
    precision: Any = None, threshold: Optional[float] = None, edgeitems: Any = None, linewidth: Any = None
) -> None:
    """Sets how tensors are printed."""
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    _options.update({name: value for name, value in given.items() if value is not None})


def _edges(tensor: Tensor) -> Any:
    """The elements that will be shown, so that only those are downloaded from a remote device."""
    from . import _pyflame as _pf

    edge = _options["edgeitems"]
    for axis in range(tensor.ndim):
        length = tensor.shape[axis]
        if length > 2 * edge:
            tensor = _pf.cat([tensor.narrow(axis, 0, edge), tensor.narrow(axis, length - edge, edge)], axis)
    return tensor


def _numbers(values: Any) -> Iterator[Any]:
    if isinstance(values, list):
        for value in values:
            yield from _numbers(value)
    else:
        yield values


def _format(values: Any, tensor: Tensor) -> Any:
    """Returns a function that formats every number of this tensor."""
    digits = _options["precision"]
    if tensor.dtype.name == "bool":
        return str
    if tensor.dtype.is_complex:
        return lambda z: f"{z.real:.{digits}f}{z.imag:+.{digits}f}j"
    if not tensor.dtype.is_floating_point:
        return str
    finite = [abs(v) for v in values if math.isfinite(v)]
    nonzero = [v for v in finite if v]
    if all(v == int(v) for v in finite) and (not finite or max(finite) < 1e8):
        return lambda v: f"{v:.0f}." if math.isfinite(v) else str(v)
    largest, smallest = max(nonzero), min(nonzero)
    if largest >= 1e8 or largest / smallest > 1e3 and smallest < 1e-3 or smallest < 1e-4:
        return lambda v: f"{v:.{digits}e}"
    return lambda v: f"{v:.{digits}f}"


def _lines(values: Any, write: Any, shape: Any, full: Any, indent: int) -> Any:
    if not shape:
        return write(values)
    cut = shape[0] != full[0]
    edge = _options["edgeitems"]
    parts = [_lines(value, write, shape[1:], full[1:], indent + 1) for value in values]
    if cut:
        parts.insert(edge, "...")
    if len(shape) > 1:
        return "[" + (",\n" * (len(shape) - 1) + " " * (indent + 1)).join(parts) + "]"
    lines, line = [], ""
    for part in parts:
        if line and indent + len(line) + len(part) + 2 > _options["linewidth"]:
            lines.append(line)
            line = ""
        line += (", " if line else "") + part
    return "[" + (",\n" + " " * (indent + 1)).join(lines + [line]) + "]"


def html(tensor: Tensor) -> str:
    """Vectors and matrices as a table for notebooks, others as text."""
    if tensor.ndim not in (1, 2) or tensor.nelement() == 0:
        return f"<pre>{escape(show(tensor))}</pre>"
    seen = _edges(tensor.detach())
    rows = seen.tolist() if tensor.ndim == 2 else [seen.tolist()]
    number = _format(list(_numbers(rows)), tensor)
    edge = _options["edgeitems"]

    def shortened(parts: Any, length: Any, gap: Any) -> Any:
        return parts[:edge] + [gap] + parts[-edge:] if length > 2 * edge else parts

    cells = [shortened([escape(number(value)) for value in row], tensor.shape[-1], "…") for row in rows]
    if tensor.ndim == 2:
        cells = shortened(cells, tensor.shape[0], ["⋮"] * len(cells[0]))
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in cells)
    shape = " × ".join(str(length) for length in tensor.shape)
    return f"<table><caption>tensor {shape}, {tensor.dtype.name}, {escape(tensor.device)}</caption>{body}</table>"


def module_html(module: Module) -> str:
    """A table of the parts of a module for notebooks: their names, kinds, shapes of parameters and numbers of elements."""
    rows = []
    for path, part in module.named_modules():
        own = list(part.named_parameters(recurse=False))
        count = sum(parameter.nelement() for _, parameter in own)
        shapes = ", ".join(f"{name} {' × '.join(str(length) for length in parameter.shape) or 'number'}" for name, parameter in own)
        cells = (path or "(whole)", f"{type(part).__name__}({part.extra_repr()})", shapes, f"{count:,}" if count else "")
        rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    # A parameter of two modules is one.
    total = sum(parameter.nelement() for parameter in module.parameters())
    devices = ", ".join(sorted({parameter.device for parameter in module.parameters()}))
    caption = f"{type(module).__name__}: {total:,} parameters" + (f" on {devices}" if devices else "")
    head = "".join(f"<th>{name}</th>" for name in ("name", "module", "shapes", "parameters"))
    return f"<table><caption>{escape(caption)}</caption><tr>{head}</tr>{''.join(rows)}</table>"


def show(tensor: Tensor) -> Any:
    """The text of a tensor."""
    values_of = tensor.detach()
    full = tuple(values_of.shape)
    if values_of.nelement() > _options["threshold"]:
        values_of = _edges(values_of)
    values = values_of.tolist()
    flat = list(_numbers(values))
    number = _format(flat, tensor)
    width = max((len(number(v)) for v in flat), default=0) if tensor.ndim else 0
    text = _lines(values, lambda v: number(v).rjust(width), tuple(values_of.shape), full, len("tensor("))
    if 0 in full and len(full) > 1:
        text = f"[], size={full}"
    notes = []
    natural = {"float32", "int64", "bool", "complex64"}
    if tensor.dtype.name not in natural or (0 in full and tensor.dtype.name != "float32"):
        notes.append(f"dtype={tensor.dtype}")
    if tensor.device != "cpu":
        notes.append(f"device='{tensor.device}'")
    if tensor.grad_fn is not None:
        notes.append(f"grad_fn={tensor.grad_fn}")
    elif tensor.requires_grad:
        notes.append("requires_grad=True")
    return "tensor(" + ", ".join([text] + notes) + ")"
