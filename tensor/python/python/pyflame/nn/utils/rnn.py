"""Batches of sequences of different lengths."""

from __future__ import annotations

from typing import List, Optional, Sequence

from ... import _pyflame as _pf
from ..._pyflame import Tensor

__all__ = ["pad_sequence", "unpad_sequence"]


def pad_sequence(sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0) -> Tensor:
    """Sequences as one tensor, as long as the longest: [length, batch, ...], or [batch, length, ...]."""
    if not sequences:
        raise ValueError("pad_sequence: there are no sequences")
    longest = max(x.shape[0] for x in sequences)
    padded = [x.pad([0, 0] * (x.ndim - 1) + [0, longest - x.shape[0]], padding_value) for x in sequences]
    return _pf.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded: Tensor, lengths: Optional[Tensor] = None, batch_first: bool = False) -> List[Tensor]:
    """The sequences of a padded batch, with these lengths."""
    rows = padded if batch_first else padded.transpose(0, 1)
    sizes = [rows.shape[1]] * rows.shape[0] if lengths is None else [int(length) for length in lengths.tolist()]
    return [row[:size] for row, size in zip(rows, sizes)]
