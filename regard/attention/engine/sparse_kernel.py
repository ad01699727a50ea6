"""Sparse kernel: softmax attention over the listed tiles of a sparse map, on a GPU.

    context = softmax(scale · q kᵀ) v over the visible pairs,   lse = log of each row's normaliser

The forward pass and the queries' gradient loop over the tiles of a block of rows, the gradients of
keys and values over those of a block of columns. No two programs share a sum, so the same input
gives the same bits. Memory: the lse and one number more per row. Written in Triton, which comes
with torch where there is a GPU; import this module only there.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention.engine.kernels import like_rows
from regard.attention.engine.shared_kernel import (
    LOG2_E,
    existing,
    head_rows,
    levels_of,
    plain,
    softmax_step,
    store_rows,
)
from regard.attention.engine.tiles import SIDE, Tiling

WARPS, STAGES = 4, 3
"""Groups of threads for a tile, and tiles that are loaded ahead."""

NOT_SPECIALISED = ["nq", "nk", "heads", "ahead", "n_blocks", "n_heads"]
"""Numbers that get no kernels of their own for 1 and for multiples of 16."""


@triton.jit
def program_of(order, ahead, n_blocks, n_heads):
    """Block and head of a program: the longest blocks of all heads first, then head by head."""
    program = tl.program_id(0)
    rest, later = n_blocks - ahead, program - ahead * n_heads
    block = tl.where(later < 0, program // n_heads, ahead + later % rest)
    return tl.load(order + block), tl.where(later < 0, program % n_heads, later // rest)


@triton.jit
def hidden(
    scores, bits, full, valid, b, stride_b, tile, side, columns, nk,
    SIDE: tl.constexpr, HAS_VALID: tl.constexpr, IS_TURNED: tl.constexpr,
):  # fmt: skip
    """The scores of a tile, minus infinity where a pair is hidden; most tiles hide none.

    A turned tile has keys for rows.
    """
    if tl.load(full + tile) == 0:
        rows = tl.load(bits + b.to(tl.int64) * stride_b + tile * SIDE + side)
        if IS_TURNED:
            seen = ((rows[None, :] >> side[:, None].to(tl.int64)) & 1) != 0
        else:
            seen = ((rows[:, None] >> side[None, :].to(tl.int64)) & 1) != 0
        scores = tl.where(seen, scores, float("-inf"))
    if HAS_VALID:
        exists = tl.load(valid + b.to(tl.int64) * nk + columns, mask=columns < nk, other=0) != 0
        if IS_TURNED:
            scores = tl.where(exists[:, None], scores, float("-inf"))
        else:
            scores = tl.where(exists[None, :], scores, float("-inf"))
    return scores


@triton.jit(do_not_specialize=NOT_SPECIALISED)
def _forward(
    Q, K, V, O, L, bits, full, valid, order, start, other, ahead, n_blocks, n_heads,
    heads, nq, nk, scale, bits_b,
    qb, qh, qn, kb, kh, kn, vb, vh, vn,
    D: tl.constexpr, SIDE: tl.constexpr, HAS_VALID: tl.constexpr,
):  # fmt: skip
    block, program = program_of(order, ahead, n_blocks, n_heads)
    b, h = program // heads, program % heads
    side = tl.arange(0, SIDE)
    rows = block * SIDE + side
    q = head_rows(Q, b, h, nq, qb, qh, qn, rows, D)
    top = tl.full([SIDE], -1e30, tl.float32)
    total = tl.zeros([SIDE], tl.float32)
    context = tl.zeros([SIDE, D], tl.float32)
    for t in range(tl.load(start + block), tl.load(start + block + 1)):
        columns = tl.load(other + t) * SIDE + side
        k = head_rows(K, b, h, nk, kb, kh, kn, columns, D)
        v = head_rows(V, b, h, nk, vb, vh, vn, columns, D)
        scores = tl.dot(q, tl.trans(k)) * (scale * LOG2_E)
        scores = hidden(
            scores, bits, full, valid, b, bits_b, t, side, columns, nk, SIDE, HAS_VALID, False
        )
        _, top, total, context = softmax_step(scores, v, top, total, context)
    store_rows(O, L, b, h, heads, nq, rows, top, total, context, D, 0.0)


@triton.jit(do_not_specialize=NOT_SPECIALISED)
def _to_queries(
    Q, K, V, O, L, G, DQ, LEVEL, bits, full, valid, order, start, other, ahead, n_blocks, n_heads,
    heads, nq, nk, scale, bits_b,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, ob, oh, on, gb, gh, gn,
    D: tl.constexpr, SIDE: tl.constexpr, HAS_VALID: tl.constexpr,
):  # fmt: skip
    block, program = program_of(order, ahead, n_blocks, n_heads)
    b, h = program // heads, program % heads
    side, wide = tl.arange(0, SIDE), tl.arange(0, D)[None, :]
    rows = block * SIDE + side
    q = head_rows(Q, b, h, nq, qb, qh, qn, rows, D)
    o = head_rows(O, b, h, nq, ob, oh, on, rows, D)
    g = head_rows(G, b, h, nq, gb, gh, gn, rows, D)
    at = program.to(tl.int64) * nq + rows
    lse = tl.load(L + at, mask=rows < nq, other=0.0) * LOG2_E
    level = levels_of(o, g)
    tl.store(LEVEL + at, level, mask=rows < nq)
    d_query = tl.zeros([SIDE, D], tl.float32)
    for t in range(tl.load(start + block), tl.load(start + block + 1)):
        columns = tl.load(other + t) * SIDE + side
        k = head_rows(K, b, h, nk, kb, kh, kn, columns, D)
        v = head_rows(V, b, h, nk, vb, vh, vn, columns, D)
        scores = tl.dot(q, tl.trans(k)) * (scale * LOG2_E)
        scores = hidden(
            scores, bits, full, valid, b, bits_b, t, side, columns, nk, SIDE, HAS_VALID, False
        )
        weights = tl.exp2(scores - lse[:, None])
        d_scores = weights * (tl.dot(g, tl.trans(v)) - level[:, None])
        d_query = tl.dot(d_scores.to(k.dtype), k, d_query)
    out = DQ + ((b.to(tl.int64) * nq + rows[:, None]) * heads + h) * D + wide
    tl.store(out, (d_query * scale).to(q.dtype), mask=(rows < nq)[:, None])


@triton.jit(do_not_specialize=NOT_SPECIALISED)
def _to_keys(
    Q, K, V, L, G, LEVEL, DK, DV, bits, full, valid, order, start, other, tile,
    ahead, n_blocks, n_heads, heads, nq, nk, scale, bits_b,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, gb, gh, gn,
    D: tl.constexpr, SIDE: tl.constexpr, HAS_VALID: tl.constexpr,
):  # fmt: skip
    block, program = program_of(order, ahead, n_blocks, n_heads)
    b, h = program // heads, program % heads
    side, wide = tl.arange(0, SIDE), tl.arange(0, D)[None, :]
    columns = block * SIDE + side
    k = head_rows(K, b, h, nk, kb, kh, kn, columns, D)
    v = head_rows(V, b, h, nk, vb, vh, vn, columns, D)
    d_key = tl.zeros([SIDE, D], tl.float32)
    d_value = tl.zeros([SIDE, D], tl.float32)
    for t in range(tl.load(start + block), tl.load(start + block + 1)):
        rows = tl.load(other + t) * SIDE + side
        q = head_rows(Q, b, h, nq, qb, qh, qn, rows, D)
        g = head_rows(G, b, h, nq, gb, gh, gn, rows, D)
        at = program.to(tl.int64) * nq + rows
        lse = tl.load(L + at, mask=rows < nq, other=0.0) * LOG2_E
        level = tl.load(LEVEL + at, mask=rows < nq, other=0.0)
        # a row of the tile is a key: its products need no transposed weights
        scores = tl.dot(k, tl.trans(q)) * (scale * LOG2_E)
        scores = hidden(
            scores, bits, full, valid, b, bits_b, tl.load(tile + t), side, columns, nk,
            SIDE, HAS_VALID, True,
        )  # fmt: skip
        weights = tl.exp2(scores - lse[None, :])
        d_value = tl.dot(weights.to(g.dtype), g, d_value)
        d_scores = weights * (tl.dot(v, tl.trans(g)) - level[None, :])
        d_key = tl.dot(d_scores.to(q.dtype), q, d_key)
    out = ((b.to(tl.int64) * nk + columns[:, None]) * heads + h) * D + wide
    tl.store(DK + out, (d_key * scale).to(k.dtype), mask=(columns < nk)[:, None])
    tl.store(DV + out, d_value.to(k.dtype), mask=(columns < nk)[:, None])


class AttendInTiles(torch.autograd.Function):
    """Context and log-sum-exp, differentiable in query, key and value."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, tiling: Tiling, scale: float
    ) -> tuple[Tensor, Tensor]:
        """Attend."""
        out, lse = attend_in_tiles(query, key, value, tiling, scale)
        ctx.save_for_backward(query, key, value, out, lse)
        ctx.tiling, ctx.scale = tiling, scale
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """Rebuild the weights and differentiate."""
        query, key, value, out, lse = ctx.saved_tensors
        found = differentiate_in_tiles(grad, query, key, value, out, lse, ctx.tiling, ctx.scale)
        return (*found, None, None)


def attend_in_tiles(
    query: Tensor, key: Tensor, value: Tensor, tiling: Tiling, scale: float
) -> tuple[Tensor, Tensor]:
    """Context (laid out as `b q h d`, ready to be joined) and log-sum-exp."""
    query, key, value = (plain(x) for x in (query, key, value))
    b, h, nq, d = query.shape
    out, lse = like_rows(query, nq), query.new_empty(b, h, nq, dtype=torch.float32)
    rows = tiling.by_row
    _forward[(len(rows.order) * b * h,)](
        query, key, value, out, lse,
        tiling.bits, tiling.full, existing(tiling.valid, query), *rows[:3],
        tiling.long_rows, len(rows.order), b * h, h, nq, key.shape[-2], scale, batch_stride(tiling),
        *query.stride()[:3], *key.stride()[:3], *value.stride()[:3],
        D=d, SIDE=SIDE, HAS_VALID=tiling.valid is not None, num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip
    return out, lse


def differentiate_in_tiles(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    tiling: Tiling,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value, first along the rows, then down the columns."""
    query, key, value, out, grad = (plain(x) for x in (query, key, value, out, grad))
    b, h, nq, d = query.shape
    nk = key.shape[-2]
    d_query, level = like_rows(query, nq), torch.empty_like(lse)
    d_key, d_value = like_rows(query, nk), like_rows(query, nk)
    strides = (*query.stride()[:3], *key.stride()[:3], *value.stride()[:3])
    sizes = (h, nq, nk, scale, batch_stride(tiling))
    shown = (tiling.bits, tiling.full, existing(tiling.valid, query))
    has_valid = tiling.valid is not None
    rows, columns = tiling.by_row, tiling.by_column
    _to_queries[(len(rows.order) * b * h,)](
        query, key, value, out, lse, grad, d_query, level, *shown, *rows[:3],
        tiling.long_rows, len(rows.order), b * h,
        *sizes, *strides, *out.stride()[:3], *grad.stride()[:3],
        D=d, SIDE=SIDE, HAS_VALID=has_valid, num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip
    _to_keys[(len(columns.order) * b * h,)](
        query, key, value, lse, grad, level, d_key, d_value, *shown, *columns,
        tiling.long_columns, len(columns.order), b * h, *sizes, *strides, *grad.stride()[:3],
        D=d, SIDE=SIDE, HAS_VALID=has_valid, num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip
    return d_query, d_key, d_value


def batch_stride(tiling: Tiling) -> int:
    """The stride between the bits of two sentences; 0 if all see the same."""
    return 0 if len(tiling.bits) == 1 else tiling.bits.stride(0)
