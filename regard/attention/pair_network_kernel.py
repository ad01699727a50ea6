"""Pair network kernel: the number of every pair on a GPU, whose hidden vectors are never stored.

    e[i,j] = sum_f v[f] · act(a[i,f] + b[j,f])
    d_a[i,f] = v[f] sum_j g[i,j] act'(a[i,f] + b[j,f])
    d_v[f] = sum_ij g[i,j] act(a[i,f] + b[j,f])

A program holds the numbers of a tile and goes through the hidden units one after another, so that
only their activations cost anything. The gradient of the columns is that of the rows with both
exchanged. No two programs share a sum, so the same input gives the same bits. Written in Triton,
which comes with torch where there is a GPU; import this module only there.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

SIDE, SPAN = 64, 1024
"""Rows and columns of a tile, and columns of a program that sums a gradient."""

WARPS = 4

NOT_SPECIALISED = ["n_rows", "n_columns", "g_head", "g_row", "g_column"]
"""Numbers that get no kernels of their own for 1 and for multiples of 16."""


@triton.jit
def _tanh(x, IS_ROUGH: tl.constexpr):
    if IS_ROUGH:
        # as near as half precision can tell, in one instruction
        return tl.inline_asm_elementwise(
            "tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return 1.0 - 2.0 / (tl.exp(2.0 * tl.minimum(x, 40.0)) + 1.0)


@triton.jit
def _activated(x, ACTIVATION: tl.constexpr, IS_ROUGH: tl.constexpr):
    """Hidden units, and their slopes, by the activation's name."""
    if ACTIVATION == "relu":
        out = tl.maximum(x, 0.0)
        return out, tl.where(x > 0, 1.0, 0.0)
    if ACTIVATION == "sigmoid":
        out = 0.5 + 0.5 * _tanh(0.5 * x, IS_ROUGH)
        return out, out * (1.0 - out)
    out = _tanh(x, IS_ROUGH)
    return out, 1.0 - out * out


@triton.jit(do_not_specialize=NOT_SPECIALISED)
def _numbers(
    A, B, V, E, n_rows, n_columns, width,
    SIDE: tl.constexpr, ACTIVATION: tl.constexpr, IS_ROUGH: tl.constexpr,
):  # fmt: skip
    head, side = tl.program_id(2).to(tl.int64), tl.arange(0, SIDE)
    rows, columns = tl.program_id(1) * SIDE + side, tl.program_id(0) * SIDE + side
    a, b = A + head * width * n_rows + rows, B + head * width * n_columns + columns
    total = tl.zeros([SIDE, SIDE], tl.float32)
    for f in range(width):
        row = tl.load(a + f * n_rows, mask=rows < n_rows, other=0.0).to(tl.float32)
        column = tl.load(b + f * n_columns, mask=columns < n_columns, other=0.0).to(tl.float32)
        out, _ = _activated(row[:, None] + column[None, :], ACTIVATION, IS_ROUGH)
        total += tl.load(V + head * width + f).to(tl.float32) * out
    at = (head * n_rows + rows[:, None]) * n_columns + columns[None, :]
    seen = (rows < n_rows)[:, None] & (columns < n_columns)[None, :]
    tl.store(E + at, total.to(E.dtype.element_ty), mask=seen)


@triton.jit(do_not_specialize=NOT_SPECIALISED)
def _sums(
    A, B, V, G, DA, DV, n_rows, n_columns, width, g_head, g_row, g_column,
    SIDE: tl.constexpr, SPAN: tl.constexpr, WIDTH: tl.constexpr, ACTIVATION: tl.constexpr,
    IS_ROUGH: tl.constexpr, WITH_V: tl.constexpr,
):  # fmt: skip
    head, side, span = tl.program_id(2).to(tl.int64), tl.arange(0, SIDE), tl.program_id(0)
    rows, units = tl.program_id(1) * SIDE + side, tl.arange(0, WIDTH)
    a = A + head * width * n_rows + rows
    d_rows = tl.zeros([SIDE, WIDTH], tl.float32)
    d_v = tl.zeros([WIDTH], tl.float32)
    for first in range(span * SPAN, tl.minimum((span + 1) * SPAN, n_columns), SIDE):
        columns = first + side
        b = B + head * width * n_columns + columns
        seen = (rows < n_rows)[:, None] & (columns < n_columns)[None, :]
        place = rows[:, None].to(tl.int64) * g_row + columns[None, :].to(tl.int64) * g_column
        gains = tl.load(G + head * g_head + place, mask=seen, other=0.0).to(tl.float32)
        for f in range(width):
            row = tl.load(a + f * n_rows, mask=rows < n_rows, other=0.0).to(tl.float32)
            column = tl.load(b + f * n_columns, mask=columns < n_columns, other=0.0).to(tl.float32)
            out, slope = _activated(row[:, None] + column[None, :], ACTIVATION, IS_ROUGH)
            of_rows = tl.sum(gains * slope, 1)
            d_rows += tl.where((units == f)[None, :], of_rows[:, None], 0.0)
            if WITH_V:
                d_v += tl.where(units == f, tl.sum(tl.sum(gains * out, 1), 0), 0.0)
    v = tl.load(V + head * width + units, mask=units < width, other=0.0).to(tl.float32)
    part = span * tl.num_programs(2) + head
    at = (part * n_rows + rows[:, None]) * width + units[None, :]
    tl.store(DA + at, d_rows * v[None, :], mask=(rows < n_rows)[:, None] & (units < width)[None, :])
    if WITH_V:
        place = (part * tl.num_programs(1) + tl.program_id(1)) * width + units
        tl.store(DV + place, d_v, mask=units < width)


def numbers_of(rows: Tensor, columns: Tensor, v: Tensor, activation: str) -> Tensor:
    """The number of every pair; rows and columns are `n q f` and `n k f`, v is `n f`."""
    rows, columns = _by_unit(rows), _by_unit(columns)
    (n, width, n_rows), n_columns = rows.shape, columns.shape[-1]
    numbers = rows.new_empty(n, n_rows, n_columns)
    _numbers[(triton.cdiv(n_columns, SIDE), triton.cdiv(n_rows, SIDE), n)](
        rows, columns, v.contiguous(), numbers, n_rows, n_columns, width,
        SIDE=SIDE, ACTIVATION=activation, IS_ROUGH=rows.element_size() < 4, num_warps=WARPS,
    )  # fmt: skip
    return numbers


def gradients_of(
    rows: Tensor, columns: Tensor, v: Tensor, grad: Tensor, activation: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of rows, columns and v, in single precision."""
    rows, columns, v = _by_unit(rows), _by_unit(columns), v.contiguous()
    d_rows, d_v = _summed(rows, columns, v, grad, activation, with_v=True)
    d_columns, _ = _summed(columns, rows, v, grad.mT, activation, with_v=False)
    return d_rows, d_columns, d_v


def _by_unit(vectors: Tensor) -> Tensor:
    """The numbers of each hidden unit one after another, as a program reads them."""
    return vectors.mT.contiguous()


def _summed(
    rows: Tensor, columns: Tensor, v: Tensor, grad: Tensor, activation: str, *, with_v: bool
) -> tuple[Tensor, Tensor]:
    """The gradient of rows, and of v if that is wanted; rows and columns are `n f q`."""
    (n, width, n_rows), n_columns = rows.shape, columns.shape[-1]
    n_spans, n_blocks = triton.cdiv(n_columns, SPAN), triton.cdiv(n_rows, SIDE)
    parts = rows.new_empty(n_spans, n, n_rows, width, dtype=torch.float32)
    of_v = rows.new_empty(n_spans, n, n_blocks if with_v else 0, width, dtype=torch.float32)
    _sums[(n_spans, n_blocks, n)](
        rows, columns, v, grad, parts, of_v, n_rows, n_columns, width, *grad.stride(),
        SIDE=SIDE, SPAN=SPAN, WIDTH=triton.next_power_of_2(width), ACTIVATION=activation,
        IS_ROUGH=rows.element_size() < 4, WITH_V=with_v, num_warps=WARPS,
    )  # fmt: skip
    return parts.sum(0), of_v.sum((0, 2))
