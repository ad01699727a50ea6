"""Related kernel: softmax attention over listed tiles with a banded relation, on a GPU.

    c = clip(position_j - position_i, -reach, reach) + reach
    score[i,j] = scale · q[i] · k[j] + by_distance[i,c],   lse[i] = log sum_j exp(score[i,j])
    context[i] = sum_j exp(score[i,j] - lse[i]) (v[j] + to_values[c])

The tiles of a block of rows come in three stretches: left of the band, in it, and right of it. One
that lies wholly beyond the band adds one number to each row; only tiles in the band read
`by_distance` pair by pair. Each row meets each inner distance once, so that the gradients by
distance (related_backward_kernel.py) are stored and never added. No two programs share a sum, so
the same input gives the same bits. Written in Triton, which comes with torch where there is a GPU;
import this module only there.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.attention.engine.kernels import like_rows
from regard.attention.engine.shared_kernel import (
    LOG2_E,
    existing,
    head_rows,
    plain,
    softmax_step,
    store_rows,
    strides_of,
)
from regard.attention.engine.sparse_kernel import hidden
from regard.attention.engine.tiles import SIDE, Tiling

WARPS, NARROW, STAGES = 4, 64, 3
"""Groups of threads for a tile, the widest head that they serve, and tiles in flight."""

NOT_SPECIALISED = [
    "heads", "nq", "nk", "past", "reach", "bits_b", "rb", "rh", "rn", "th", "ub", "uh", "un",
    "heads_in_all",
]  # fmt: skip
"""Numbers that get no kernels of their own for 1 and for multiples of 16."""


@triton.jit
def stretches(other, begin, end, origin, reach, SIDE: tl.constexpr):
    """Where the tiles in the band begin and end, between those of lower and of higher blocks."""
    n_below, n_above = 0, 0
    for t in range(begin, end, 2 * SIDE):
        at = t + tl.arange(0, 2 * SIDE)
        place = tl.load(other + at, mask=at < end, other=0) * SIDE - origin
        n_below += tl.sum(((at < end) & (place <= 1 - SIDE - reach)).to(tl.int32), 0)
        n_above += tl.sum(((at < end) & (place >= SIDE - 1 + reach)).to(tl.int32), 0)
    return begin + n_below, end - n_above


@triton.jit
def at_pairs(numbers, offsets, left, right, cell, is_row, reach):
    """A row's numbers by distance at every pair of a tile; those of the two ends are given.

    What belongs to rows has one axis for them and one for keys.
    """
    is_inner = (offsets > -reach) & (offsets < reach)
    inner = tl.load(numbers + cell, mask=is_inner & is_row, other=0.0).to(tl.float32)
    return tl.where(is_inner, inner, tl.where(offsets < 0, left, right))


@triton.jit
def at_ends(numbers, rows, nq, reach, stride):
    """The numbers of each row at the two ends of the band."""
    left = tl.load(numbers + rows * stride, mask=rows < nq, other=0.0)
    right = tl.load(numbers + rows * stride + 2 * reach, mask=rows < nq, other=0.0)
    return left.to(tl.float32), right.to(tl.float32)


@triton.jit
def vectors(table, begin, side, reach, E: tl.constexpr):
    """The vectors of the offsets from `begin` on, as many as a tile has columns."""
    c = tl.minimum(tl.maximum(begin + side, -reach), reach) + reach
    return tl.load(table + c[:, None] * E + tl.arange(0, E)[None, :])


@triton.jit
def by_offset(tile, side, SIDE: tl.constexpr):
    """Rotate each row of a tile so that columns are offsets.

    Column t of row i becomes pair (i, (i + t + 1) % SIDE): where the first result is True, offset
    t + 1 - SIDE from the tile's first, else offset t + 1.
    """
    turned = side[:, None] + side[None, :] + 1
    return turned >= SIDE, tl.gather(tile, turned % SIDE, 1)


@triton.jit
def with_vectors(weights, table, first, side, reach, E: tl.constexpr, SIDE: tl.constexpr):
    """The sum of weight[i,j] · table[c] over a tile's keys; `first` is the offset of its corner."""
    is_lower, turned = by_offset(weights, side, SIDE)
    zero = tl.zeros_like(turned)
    lower, upper = tl.where(is_lower, turned, zero), tl.where(is_lower, zero, turned)
    summed = tl.dot(lower, vectors(table, first + 1 - SIDE, side, reach, E))
    return tl.dot(upper, vectors(table, first + 1, side, reach, E), summed)


@triton.jit(do_not_specialize=NOT_SPECIALISED)
def _forward(
    Q, K, V, R, T, O, L, bits, full, valid, order, start, other,
    heads, nq, nk, past, reach, scale, bits_b,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, rb, rh, rn, th,
    D: tl.constexpr, E: tl.constexpr, SIDE: tl.constexpr,
    HAS_VALID: tl.constexpr, HAS_VALUES: tl.constexpr,
):  # fmt: skip
    block, program = tl.load(order + tl.program_id(0)), tl.program_id(1)
    b, h = program // heads, program % heads
    side, wide = tl.arange(0, SIDE), tl.arange(0, E)
    rows = block * SIDE + side
    q = head_rows(Q, b, h, nq, qb, qh, qn, rows, D)
    relation, table = R + b.to(tl.int64) * rb + h * rh, T + h * th
    left, right = at_ends(relation, rows, nq, reach, rn)
    top = tl.full([SIDE], -1e30, tl.float32)
    total = tl.zeros([SIDE], tl.float32)
    context = tl.zeros([SIDE, E], tl.float32)
    begin, end = tl.load(start + block), tl.load(start + block + 1)
    origin = block * SIDE + past
    near, far = stretches(other, begin, end, origin, reach, SIDE)
    for stretch in tl.static_range(3):
        if stretch == 0:
            first, last, its_shift = begin, near, left * LOG2_E
        elif stretch == 1:
            first, last, its_shift = near, far, left
        else:
            first, last, its_shift = far, end, right * LOG2_E
        mass = tl.zeros([SIDE], tl.float32)
        before = top
        for t in tl.range(first, last, disable_licm=True):
            column = tl.load(other + t) * SIDE
            columns = column + side
            k = head_rows(K, b, h, nk, kb, kh, kn, columns, D)
            v = head_rows(V, b, h, nk, vb, vh, vn, columns, E)
            if stretch == 1:
                offsets = column - origin + side[None, :] - side[:, None]
                cell = rows[:, None] * rn + reach + offsets
                related = at_pairs(
                    relation, offsets, left[:, None], right[:, None], cell, (rows < nq)[:, None],
                    reach,
                )  # fmt: skip
                # summed by the product, which spares a change of layout
                scores = tl.dot(q, tl.trans(k), related / scale) * (scale * LOG2_E)
            else:
                scores = tl.dot(q, tl.trans(k)) * (scale * LOG2_E) + its_shift[:, None]
            scores = hidden(
                scores, bits, full, valid, b, bits_b, t, side, columns, nk, SIDE, HAS_VALID, False
            )
            weights, top, mass, context = softmax_step(scores, v, top, mass, context)
            if HAS_VALUES and stretch == 1:
                context += with_vectors(
                    weights.to(v.dtype), table, column - origin, side, reach, E, SIDE
                )
        total = total * tl.exp2(before - top) + mass
        if HAS_VALUES and stretch != 1:
            vector = tl.load(table + (stretch * reach) * E + wide).to(tl.float32)
            context += mass[:, None] * vector[None, :]
    # an empty row gives no weight to its piece when pieces are joined
    store_rows(O, L, b, h, heads, nq, rows, top, total, context, E, float("-inf"))


def attend_related(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    by_distance: Tensor,
    to_values: Tensor | None,
    tiling: Tiling,
    past: int,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Context and log-sum-exp over the tiles; minus infinity for a row that sees nothing.

    `by_distance` is `b h q r` and `to_values` is `h r dv`, r = 2 · reach + 1; an axis of the first
    may have length 1, and so may the heads of the second.
    """
    rows, shown = list(tiling.by_row[:3]), (tiling.bits, tiling.full, tiling.valid)
    return torch.ops.regard.related(
        query, key, value, by_distance, to_values, rows, *shown, past, scale
    )


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    by_distance: Tensor,
    to_values: Tensor | None,
    rows: list[Tensor],
    bits: Tensor,
    full: Tensor,
    valid: Tensor | None,
    past: int,
    scale: float,
) -> tuple[Tensor, Tensor]:
    query, key, value, by_distance = (plain(x) for x in (query, key, value, by_distance))
    context, lse = empty_results(query, key, value)
    table, table_h = table_of(to_values, value)
    sizes = sizes_of(query, key, by_distance, past, scale, bits)
    _forward[(len(rows[0]), lse.shape[0] * lse.shape[1])](
        query, key, value, by_distance, table, context, lse,
        bits, full, existing(valid, query), *rows, *sizes,
        *strides_of(query, key, value), *steps_of(query, by_distance), table_h,
        D=query.shape[-1], E=value.shape[-1], SIDE=SIDE,
        HAS_VALID=valid is not None, HAS_VALUES=to_values is not None,
        num_warps=warps_of(query, value), num_stages=STAGES,
    )  # fmt: skip
    return context, lse


def table_of(to_values: Tensor | None, value: Tensor) -> tuple[Tensor, int]:
    """The vectors in the precision of the values, and the step from head to head.

    Any tensor serves for an argument that is never read.
    """
    if to_values is None:
        return value, 0
    table = to_values.to(value.dtype).contiguous()
    return table, 0 if len(table) == 1 else table[0].numel()


def empty_results(
    query: Tensor, key: Tensor, value: Tensor, *others: object
) -> tuple[Tensor, Tensor]:
    """Empty tensors for the results of `_attend`."""
    lse = query.new_empty(query.shape[:-1], dtype=torch.float32)
    return like_rows(value, query.shape[-2]), lse


def sizes_of(
    query: Tensor, key: Tensor, by_distance: Tensor, past: int, scale: float, bits: Tensor
) -> tuple[float, ...]:
    """The numbers of heads, queries and keys, the positions before, the reach, and so on."""
    reach = by_distance.shape[-1] // 2
    # all sentences may see the same
    bits_stride = 0 if len(bits) == 1 else bits.stride(0)
    return query.shape[1], query.shape[-2], key.shape[-2], past, reach, scale, bits_stride


def warps_of(query: Tensor, value: Tensor) -> int:
    """Groups of threads: twice as many for wide heads, whose tiles need more registers."""
    return WARPS if max(query.shape[-1], value.shape[-1]) <= NARROW else 2 * WARPS


def steps_of(query: Tensor, by_distance: Tensor) -> tuple[int, ...]:
    """The strides of `by_distance`, 0 along an axis that all share."""
    return by_distance.expand(*query.shape[:-1], -1).stride()[:3]


# registered as a torch operator, which torch.compile does not trace into
_LIBRARY = torch.library.Library("regard", "FRAGMENT")
_LIBRARY.define(
    "related(Tensor q, Tensor k, Tensor v, Tensor by_distance, Tensor? to_values, Tensor[] rows,"
    " Tensor bits, Tensor full, Tensor? valid, int past, float scale) -> (Tensor, Tensor)"
)
_LIBRARY.impl("related", _attend, "CUDA")
_LIBRARY.impl("related", empty_results, "Meta")
