"""Random permutations and selections."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator, Optional, Sequence, Union

from .. import _pyflame as _pf
from .._pyflame import Generator, Tensor


def randperm(
    n: int, *, generator: Optional[Generator] = None, dtype: Any = _pf.int64, device: Optional[str] = None, pin_memory: bool = False
) -> Tensor:
    """The numbers from zero to below `n` in random order."""
    keys = _pf.rand(n, dtype=_pf.float64, device=device, generator=generator)
    return keys.argsort(0).to(dtype)


def bernoulli(input: Tensor, p: Optional[float] = None, *, generator: Optional[Generator] = None) -> Tensor:
    """Ones with the probabilities that the elements are, or with probability `p`; else zeros."""
    chance = input if p is None else p
    uniform = _pf.rand(*input.shape, device=input.device, generator=generator)
    return (uniform < chance).to(input.dtype)


def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Optional[Generator] = None
) -> Tensor:
    """Indices drawn with the weights of a vector, or of every row of a matrix."""
    if input.ndim not in (1, 2) or not input.dtype.is_floating_point:
        raise ValueError(f"multinomial: expected weights as a vector or matrix of floats, got {tuple(input.shape)} of {input.dtype.name}")
    weights = input.detach().to(_pf.float64 if input.dtype == _pf.float64 else _pf.float32)
    rows = weights.unsqueeze(0) if input.ndim == 1 else weights
    bad = ((rows < 0) | ~rows.isfinite()).any() | (rows.sum(1) <= 0).any()
    if not replacement:
        bad = bad | ((rows > 0).sum(1) < num_samples).any()
    if bool(bad):
        raise ValueError(
            f"multinomial: weights must be finite and not negative, and as many positive ones are needed as samples ({num_samples})"
        )
    if replacement:
        bounds = rows.cumsum(1)
        uniform = _pf.rand(rows.shape[0], num_samples, dtype=rows.dtype, device=rows.device, generator=generator)
        wanted = uniform * bounds.narrow(1, rows.shape[1] - 1, 1)
        drawn = (bounds.unsqueeze(1) <= wanted.unsqueeze(2)).sum(2).clamp(max=rows.shape[1] - 1)
    else:
        # The first arrivals of independent exponential clocks are a weighted sample without replacement.
        uniform = _pf.rand(*rows.shape, dtype=rows.dtype, device=rows.device, generator=generator)
        arrival = -(1 - uniform).log() / rows
        arrival = _pf.where(rows > 0, arrival, float("inf"))
        drawn = arrival.argsort(1).narrow(1, 0, num_samples).clone()
    return drawn.squeeze(0) if input.ndim == 1 else drawn


def normal(
    mean: Union[float, Tensor], std: Union[float, Tensor] = 1.0, size: Optional[Sequence[int]] = None, *,
    generator: Optional[Generator] = None, dtype: Any = None, device: Optional[str] = None
) -> Tensor:  # fmt: skip
    """Normal random numbers with the given means and deviations."""
    like = mean if isinstance(mean, Tensor) else std
    if isinstance(like, Tensor):
        shape = (mean * std).shape if isinstance(mean, Tensor) and isinstance(std, Tensor) else like.shape
        noise = _pf.randn(*shape, dtype=like.dtype, device=like.device, generator=generator)
    elif size is not None:
        noise = _pf.randn(*size, dtype=dtype or _pf.float32, device=device, generator=generator)
    else:
        raise TypeError("normal: size is needed if mean and std are numbers")
    return noise * std + mean


def randint_like(input: Tensor, low: int, high: Optional[int] = None, *, dtype: Any = None, device: Optional[str] = None) -> Tensor:
    """Random integers in the shape of another tensor."""
    low, high = (0, low) if high is None else (low, high)
    return _pf.randint(low, high, tuple(input.shape), dtype=dtype or input.dtype, device=device or input.device)


def initial_seed() -> int:
    """The seed of the process's random numbers."""
    return _pf.get_rng_state()[0]


def seed() -> int:
    """Seeds the process's random numbers from the system, and returns the seed."""
    fresh = Generator().seed()
    _pf.manual_seed(fresh)
    return fresh


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True) -> Iterator[None]:
    """Restores the state of the process's random numbers at the end."""
    state = _pf.get_rng_state()
    try:
        yield
    finally:
        if enabled:
            _pf.set_rng_state(state)


METHODS = (bernoulli, multinomial)
FUNCTIONS = METHODS + (randperm, normal, randint_like, initial_seed, seed, fork_rng)
