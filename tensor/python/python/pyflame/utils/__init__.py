"""Tools around training: data sets and loaders, and gradient checkpoints."""

from . import checkpoint, data

__all__ = ["checkpoint", "data"]
