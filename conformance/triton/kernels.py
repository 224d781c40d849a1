"""The kernels, written as Triton users write them."""

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    tl.store(out + offsets, tl.load(x + offsets, mask=inside) + tl.load(y + offsets, mask=inside), mask=inside)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    values = tl.load(x + row * columns + offsets, mask=inside, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * columns + offsets, powers / tl.sum(powers, axis=0), mask=inside)


@triton.jit
def matmul(
    a,
    b,
    c,
    rows,
    columns,
    inner,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    INNER: tl.constexpr,
    PRECISION: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, inner, INNER):
        k = start + tl.arange(0, INNER)
        left = tl.load(
            a + row[:, None] * inner + k[None, :], mask=(row[:, None] < rows) & (k[None, :] < inner), other=0.0
        )
        right = tl.load(
            b + k[:, None] * columns + column[None, :],
            mask=(k[:, None] < inner) & (column[None, :] < columns),
            other=0.0,
        )
        total = tl.dot(left, right, total, input_precision=PRECISION)
    tl.store(
        c + row[:, None] * columns + column[None, :],
        total,
        mask=(row[:, None] < rows) & (column[None, :] < columns),
    )


@triton.jit
def layer_norm(x, weight, bias, out, mean_out, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    values = tl.load(x + row * columns + offsets, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(values, axis=0) / columns
    centred = tl.where(inside, values - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / columns + epsilon)
    gain = tl.load(weight + offsets, mask=inside)
    offset = tl.load(bias + offsets, mask=inside)
    tl.store(out + row * columns + offsets, centred * scale * gain + offset, mask=inside)
    tl.store(mean_out + row, mean)


@triton.jit
def attention(
    q,
    k,
    v,
    out,
    length,
    scale,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    """One block of queries of one head against all keys, with online softmax."""
    head = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    depth = tl.arange(0, DEPTH)
    start = head * length * DEPTH
    queries = tl.load(q + start + row[:, None] * DEPTH + depth[None, :], mask=row[:, None] < length, other=0.0)
    largest = tl.full((ROWS,), -float("inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    mixed = tl.zeros((ROWS, DEPTH), tl.float32)
    end = length
    if CAUSAL:
        end = tl.minimum(length, (tl.program_id(0) + 1) * ROWS)
    for first in range(0, end, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        keys = tl.load(
            k + start + column[None, :] * DEPTH + depth[:, None], mask=column[None, :] < length, other=0.0
        )
        values = tl.load(
            v + start + column[:, None] * DEPTH + depth[None, :], mask=column[:, None] < length, other=0.0
        )
        scores = tl.dot(queries, keys) * scale
        seen = column[None, :] < length
        if CAUSAL:
            seen = seen & (column[None, :] <= row[:, None])
        scores = tl.where(seen, scores, -float("inf"))
        larger = tl.maximum(largest, tl.max(scores, axis=1))
        powers = tl.exp2((scores - larger[:, None]) * 1.4426950408889634)
        shrink = tl.exp2((largest - larger) * 1.4426950408889634)
        total = total * shrink + tl.sum(powers, axis=1)
        mixed = tl.dot(powers.to(values.dtype), values, mixed * shrink[:, None])
        largest = larger
    tl.store(
        out + start + row[:, None] * DEPTH + depth[None, :], mixed / total[:, None], mask=row[:, None] < length
    )
