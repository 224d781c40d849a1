"""The kernels, as Triton users write them."""

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
