"""Losses that are compositions of other functions."""

from __future__ import annotations

import math
from typing import Any, Callable, Optional

from .. import _pyflame as _pf
from .._pyflame import Tensor


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise ValueError(f"reduction must be 'mean', 'sum' or 'none', not {reduction!r}")


def _distance(x1: Tensor, x2: Tensor, p: float, eps: float, keepdim: bool = False) -> Tensor:
    return (x1 - x2 + eps).norm(p, -1, keepdim)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The distance between vectors along the last axis."""
    return _distance(x1, x2, p, eps, keepdim)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The distances between all pairs of rows."""
    from ..operations.shapes import triu_indices

    rows, columns = triu_indices(input.shape[0], input.shape[0], 1, device=input.device)
    return (input[rows] - input[columns]).norm(p, 1)


def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean") -> Tensor:
    """How far the pairs are from the order that the target's sign asks for."""
    return _reduced((-target * (input1 - input2) + margin).clamp(min=0), reduction)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """The distance itself where the target is 1, and what is missing to the margin where it is -1."""
    apart = (margin - input).clamp(min=0)
    zero = _pf.zeros_like(input)
    return _reduced(_pf.where(target != 1, apart, zero) + _pf.where(target != -1, input, zero), reduction)


def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean") -> Tensor:
    """One minus the cosine where the target is 1, and the cosine above the margin where it is -1."""
    product, eps = (input1 * input2).sum(-1), 1e-12
    cosine = product / (((input1 * input1).sum(-1) + eps) * ((input2 * input2).sum(-1) + eps)).sqrt()
    return _reduced(_pf.where(target == 1, 1 - cosine, (cosine - margin).clamp(min=0)), reduction)


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-6, swap: bool = False,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """How much closer than the margin the negative example is, compared with the positive one."""
    return triplet_margin_with_distance_loss(
        anchor, positive, negative, distance_function=lambda a, b: _distance(a, b, p, eps), margin=margin, swap=swap,
        reduction=reduction,
    )  # fmt: skip


def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Optional[Callable[[Tensor, Tensor], Tensor]] = None,
    margin: float = 1.0, swap: bool = False, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """`triplet_margin_loss` with another distance."""
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return _reduced((near - far + margin).clamp(min=0), reduction)


def soft_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """`log(1 + exp(-target * input))` for targets 1 and -1."""
    return _reduced((-target * input).exp().log1p(), reduction)


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Optional[Tensor] = None, reduction: str = "mean"
) -> Tensor:
    """The binary cross-entropy of all classes, averaged for each example."""
    loss = (-input).softplus() * target + input.softplus() * (1 - target)
    if weight is not None:
        loss = loss * weight
    return _reduced(loss.mean(-1), reduction)


def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Optional[Tensor] = None, reduction: str = "mean"
) -> Tensor:
    """How much the scores of other classes come closer than the margin to that of the right one."""
    x = input.reshape(1, -1) if input.ndim < 2 else input
    right = target.reshape(-1, 1)
    gap = (margin - x.gather(1, right) + x).clamp(min=0) ** p
    if weight is not None:
        gap = gap * weight[right]
    own = _pf.arange(x.shape[1], device=x.device) == right
    loss = _pf.where(own, _pf.zeros_like(gap), gap).sum(1) / x.shape[1]
    return _reduced(loss.reshape(()) if input.ndim < 2 else loss, reduction)


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"
) -> Tensor:
    """The negative logarithm of Poisson likelihoods, with Stirling's approximation of the constant if it is full."""
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + _pf.where(target > 1, stirling, _pf.zeros_like(stirling))
    return _reduced(loss, reduction)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """The negative logarithm of normal likelihoods with given variances."""
    spread = var if isinstance(var, Tensor) else _pf.full_like(input, var)
    if spread.ndim == input.ndim - 1:
        spread = spread.unsqueeze(-1)
    bounded = spread + (spread.clamp(min=eps) - spread).detach()
    difference = input - target
    loss = (bounded.log() + difference * difference / bounded) / 2
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduced(loss, reduction)


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """The negative logarithm of the probability of sequences of labels, over all alignments with [time, batch, classes]."""
    single = log_probs.ndim == 2
    scores = log_probs.unsqueeze(1) if single else log_probs

    def numbers(lengths: Any) -> list[int]:
        values = lengths.tolist() if isinstance(lengths, Tensor) else lengths
        return [int(values)] if isinstance(values, int) else [int(value) for value in values]

    times, counts = numbers(input_lengths), numbers(target_lengths)
    flat = targets.reshape(-1) if targets.ndim == 1 and not single else None
    losses, start = [], 0
    for item, (steps, count) in enumerate(zip(times, counts)):
        if flat is not None:
            labels = flat[start : start + count]
            start += count
        else:
            labels = (targets.reshape(1, -1) if single else targets)[item, :count]
        loss = _ctc_of_one(scores[:steps, item], [int(label) for label in labels.tolist()], blank)
        if zero_infinity:
            loss = _pf.where(loss == math.inf, _pf.zeros_like(loss), loss)
        losses.append(loss)
    each = _pf.stack(losses)
    if reduction == "mean":
        sizes = _pf.tensor([max(count, 1) for count in counts], dtype=each.dtype, device=each.device)
        return (each / sizes).mean()
    return _reduced(each.squeeze(0) if single else each, reduction)


def _ctc_of_one(scores: Tensor, labels: list[int], blank: int) -> Tensor:
    """The forward algorithm over the labels with blanks between them."""
    states = [blank]
    for label in labels:
        states += [label, blank]
    emitted = scores.index_select(1, _pf.tensor(states, dtype=_pf.int64, device=scores.device))
    # Finite, so that no difference of infinities becomes NaN in gradients.
    nothing = -1e30
    skips = [0.0 if at >= 2 and states[at] != blank and states[at] != states[at - 2] else nothing for at in range(len(states))]
    skip = _pf.tensor(skips, dtype=scores.dtype, device=scores.device)
    first = [0.0 if at < 2 else nothing for at in range(len(states))]
    alpha = emitted[0] + _pf.tensor(first, dtype=scores.dtype, device=scores.device)
    for time in range(1, scores.shape[0]):
        one = alpha.pad([1, -1], nothing)
        two = alpha.pad([2, -2], nothing) + skip if len(states) > 1 else one
        alpha = _pf.stack([alpha, one, two.clamp(min=nothing)]).logsumexp(0) + emitted[time]
    last = alpha[-2:] if len(states) > 1 else alpha
    total = last.logsumexp(0)
    return _pf.where(total < nothing / 2, _pf.full_like(total, math.inf), -total)
