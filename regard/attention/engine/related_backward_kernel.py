"""Gradients of the related kernel: attention over tiles with a banded relation, on a GPU.

    weight[i,j] = exp(score[i,j] - lse[i]),   c = clip(position_j - position_i, ±reach) + reach
    d_score[i,j] = weight[i,j] (grad[i] · (v[j] + to_values[c]) - grad[i] · context[i])
    d_by_distance[i,c] = sum of d_score,   mass[i,c] = sum of weight, over the keys of distance c

One pass along the rows, then one down the columns, over the tiles of related_kernel.py. The tiles
may be a piece of a larger attention: the gradients are those of the piece, for the context and lse
of the whole. A row meets each inner distance once, which is stored and never added; the sums of the
two ends stay in registers. Import this module only where there is a GPU.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.attention.banded import products_by_distance
from regard.attention.engine.kernels import like_rows
from regard.attention.engine.related_kernel import (
    NOT_SPECIALISED,
    STAGES,
    at_ends,
    at_pairs,
    by_offset,
    sizes_of,
    steps_of,
    stretches,
    warps_of,
)
from regard.attention.engine.shared_kernel import (
    LOG2_E,
    existing,
    head_rows,
    levels_of,
    plain,
    strides_of,
)
from regard.attention.engine.sparse_kernel import hidden
from regard.attention.engine.tiles import SIDE, Tiling


@triton.jit
def _store_sums(DR, sums, row, offsets, reach):
    """Store the sums of half a tile by offset."""
    is_inner = (offsets > -reach) & (offsets < reach)
    tl.store(DR + row * (2 * reach + 1) + offsets + reach, sums, mask=is_inner)


@triton.jit(do_not_specialize=NOT_SPECIALISED)
def _to_queries(
    Q, K, V, R, U, O, L, G, DQ, DR, M, LSES, LEVELS, bits, full, valid, order, start, other,
    heads, nq, nk, past, reach, scale, bits_b, heads_in_all,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, rb, rh, rn, ub, uh, un, ob, oh, on, gb, gh, gn,
    D: tl.constexpr, E: tl.constexpr, SIDE: tl.constexpr,
    HAS_VALID: tl.constexpr, HAS_VALUES: tl.constexpr, BY_ROW: tl.constexpr,
):  # fmt: skip
    block, program = tl.load(order + tl.program_id(0)), tl.program_id(1)
    b, h = program // heads, program % heads
    side = tl.arange(0, SIDE)
    rows = block * SIDE + side
    is_row, n_distances = rows < nq, 2 * reach + 1
    q = head_rows(Q, b, h, nq, qb, qh, qn, rows, D)
    o = head_rows(O, b, h, nq, ob, oh, on, rows, E)
    g = head_rows(G, b, h, nq, gb, gh, gn, rows, E)
    of_head = program.to(tl.int64) * nq
    relation = R + b.to(tl.int64) * rb + h * rh
    d_relation = DR + of_head * n_distances
    masses = M + (h * (heads_in_all // heads) + b).to(tl.int64) * nq * n_distances
    lse = tl.load(L + of_head + rows, mask=is_row, other=0.0)
    left, right = at_ends(relation, rows, nq, reach, rn)
    lse_left, lse_right = (lse - left) * LOG2_E, (lse - right) * LOG2_E
    level = levels_of(o, g)
    level_left, level_right = level, level
    if HAS_VALUES:
        along = U + b.to(tl.int64) * ub + h.to(tl.int64) * uh
        along_left, along_right = at_ends(along, rows, nq, reach, un)
        level_left, level_right = level - along_left, level - along_right
    # with these a tile beyond the band is as quick as without a relation
    kind = heads_in_all.to(tl.int64) * nq
    at = of_head + rows
    tl.store(LSES + at, lse * LOG2_E, mask=is_row)
    tl.store(LSES + kind + at, lse_left, mask=is_row)
    tl.store(LSES + 2 * kind + at, lse_right, mask=is_row)
    tl.store(LEVELS + at, level, mask=is_row)
    tl.store(LEVELS + kind + at, level_left, mask=is_row)
    tl.store(LEVELS + 2 * kind + at, level_right, mask=is_row)
    d_left, d_right = tl.zeros([SIDE], tl.float32), tl.zeros([SIDE], tl.float32)
    on_left, on_right = tl.zeros([SIDE], tl.float32), tl.zeros([SIDE], tl.float32)
    d_query = tl.zeros([SIDE, D], tl.float32)
    begin, end = tl.load(start + block), tl.load(start + block + 1)
    origin = block * SIDE + past
    near, far = stretches(other, begin, end, origin, reach, SIDE)
    for stretch in tl.static_range(3):
        if stretch == 0:
            first, last, its_lse, its_level = begin, near, lse_left, level_left
        elif stretch == 1:
            first, last, its_lse, its_level = near, far, lse * LOG2_E, level
        else:
            first, last, its_lse, its_level = far, end, lse_right, level_right
        for t in tl.range(first, last, disable_licm=True):
            column = tl.load(other + t) * SIDE
            columns = column + side
            k = head_rows(K, b, h, nk, kb, kh, kn, columns, D)
            v = head_rows(V, b, h, nk, vb, vh, vn, columns, E)
            scores, d_weights = (
                tl.zeros([SIDE, SIDE], tl.float32),
                tl.zeros([SIDE, SIDE], tl.float32),
            )
            if stretch == 1:
                # summed by the products, which spares a change of layout
                offsets = column - origin + side[None, :] - side[:, None]
                cell = rows[:, None] * rn + reach + offsets
                scores = at_pairs(
                    relation, offsets, left[:, None], right[:, None], cell, is_row[:, None], reach
                ) / scale  # fmt: skip
                if HAS_VALUES:
                    cell = rows[:, None] * un + reach + offsets
                    d_weights = at_pairs(
                        along, offsets, along_left[:, None], along_right[:, None], cell,
                        is_row[:, None], reach,
                    )  # fmt: skip
            scores = tl.dot(q, tl.trans(k), scores) * (scale * LOG2_E) - its_lse[:, None]
            d_weights = tl.dot(g, tl.trans(v), d_weights) - its_level[:, None]
            scores = hidden(
                scores, bits, full, valid, b, bits_b, t, side, columns, nk, SIDE, HAS_VALID, False
            )
            weights = tl.exp2(scores)
            d_scores = weights * d_weights
            d_query = tl.dot(d_scores.to(k.dtype), k, d_query)
            if stretch == 0:
                d_left += tl.sum(d_scores, 1)
                if HAS_VALUES:
                    on_left += tl.sum(weights, 1)
            elif stretch == 2:
                d_right += tl.sum(d_scores, 1)
                if HAS_VALUES:
                    on_right += tl.sum(weights, 1)
            else:
                is_left, is_right = offsets <= -reach, offsets >= reach
                is_inner = (offsets > -reach) & (offsets < reach)
                cell = rows[:, None] * n_distances + reach + offsets
                d_left += tl.sum(tl.where(is_left, d_scores, 0.0), 1)
                d_right += tl.sum(tl.where(is_right, d_scores, 0.0), 1)
                if HAS_VALUES:
                    on_left += tl.sum(tl.where(is_left, weights, 0.0), 1)
                    on_right += tl.sum(tl.where(is_right, weights, 0.0), 1)
                    low = weights.to(M.dtype.element_ty)
                    tl.store(masses + cell, low, mask=is_inner & is_row[:, None])
                if BY_ROW:
                    tl.store(d_relation + cell, d_scores, mask=is_inner & is_row[:, None])
                else:
                    is_lower, turned = by_offset(d_scores, side, SIDE)
                    half = (program.to(tl.int64) * tl.cdiv(nq, SIDE) + block) * 2
                    sums = tl.sum(tl.where(is_lower, turned, 0.0), 0)
                    _store_sums(DR, sums, half, column - origin + 1 - SIDE + side, reach)
                    sums = tl.sum(tl.where(is_lower, 0.0, turned), 0)
                    _store_sums(DR, sums, half + 1, column - origin + 1 + side, reach)
    out = DQ + ((b.to(tl.int64) * nq + rows[:, None]) * heads + h) * D + tl.arange(0, D)[None, :]
    tl.store(out, (d_query * scale).to(q.dtype), mask=is_row[:, None])
    ends = rows * n_distances
    if BY_ROW:
        tl.store(d_relation + ends, d_left, mask=is_row)
        tl.store(d_relation + ends + 2 * reach, d_right, mask=is_row)
    else:
        half = (program.to(tl.int64) * tl.cdiv(nq, SIDE) + block) * 2
        tl.store(DR + half * n_distances, tl.sum(d_left, 0))
        tl.store(DR + half * n_distances + 2 * reach, tl.sum(d_right, 0))
    if HAS_VALUES:
        tl.store(masses + ends, on_left.to(M.dtype.element_ty), mask=is_row)
        tl.store(masses + ends + 2 * reach, on_right.to(M.dtype.element_ty), mask=is_row)


@triton.jit(do_not_specialize=NOT_SPECIALISED)
def _to_keys(
    Q, K, V, R, U, G, DK, DV, LSES, LEVELS, bits, full, valid, order, start, other, tile,
    heads, nq, nk, past, reach, scale, bits_b, heads_in_all,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, rb, rh, rn, ub, uh, un, gb, gh, gn,
    D: tl.constexpr, E: tl.constexpr, SIDE: tl.constexpr,
    HAS_VALID: tl.constexpr, HAS_VALUES: tl.constexpr,
):  # fmt: skip
    block, program = tl.load(order + tl.program_id(0)), tl.program_id(1)
    b, h = program // heads, program % heads
    side = tl.arange(0, SIDE)
    columns = block * SIDE + side
    k = head_rows(K, b, h, nk, kb, kh, kn, columns, D)
    v = head_rows(V, b, h, nk, vb, vh, vn, columns, E)
    of_head = program.to(tl.int64) * nq
    relation = R + b.to(tl.int64) * rb + h * rh
    along = U + b.to(tl.int64) * ub + h.to(tl.int64) * uh
    d_key = tl.zeros([SIDE, D], tl.float32)
    d_value = tl.zeros([SIDE, E], tl.float32)
    begin, end = tl.load(start + block), tl.load(start + block + 1)
    origin = block * SIDE - past
    near, far = stretches(other, begin, end, origin, reach, SIDE)
    # a column's first rows lie right of their band: their keys come after them
    for stretch in tl.static_range(3):
        if stretch == 0:
            first, last, kind = begin, near, 2
        elif stretch == 1:
            first, last, kind = near, far, 0
        else:
            first, last, kind = far, end, 1
        of_kind = of_head + (heads_in_all * kind).to(tl.int64) * nq
        for t in tl.range(first, last, disable_licm=True):
            row = tl.load(other + t) * SIDE
            rows = row + side
            is_row = rows < nq
            q = head_rows(Q, b, h, nq, qb, qh, qn, rows, D)
            g = head_rows(G, b, h, nq, gb, gh, gn, rows, E)
            lse = tl.load(LSES + of_kind + rows, mask=is_row, other=0.0)
            level = tl.load(LEVELS + of_kind + rows, mask=is_row, other=0.0)
            # a row of the tile is a key: its products need no transposed weights
            scores, d_weights = (
                tl.zeros([SIDE, SIDE], tl.float32),
                tl.zeros([SIDE, SIDE], tl.float32),
            )
            if stretch == 1:
                # summed by the products, which spares a change of layout
                offsets = origin - row + side[:, None] - side[None, :]
                left, right = at_ends(relation, rows, nq, reach, rn)
                cell = rows[None, :] * rn + reach + offsets
                scores = at_pairs(
                    relation, offsets, left[None, :], right[None, :], cell, is_row[None, :], reach
                ) / scale  # fmt: skip
                if HAS_VALUES:
                    left, right = at_ends(along, rows, nq, reach, un)
                    cell = rows[None, :] * un + reach + offsets
                    d_weights = at_pairs(
                        along, offsets, left[None, :], right[None, :], cell, is_row[None, :], reach
                    )
            scores = tl.dot(k, tl.trans(q), scores) * (scale * LOG2_E) - lse[None, :]
            d_weights = tl.dot(v, tl.trans(g), d_weights) - level[None, :]
            scores = hidden(
                scores, bits, full, valid, b, bits_b, tl.load(tile + t), side, columns, nk,
                SIDE, HAS_VALID, True,
            )  # fmt: skip
            weights = tl.exp2(scores)
            d_value = tl.dot(weights.to(g.dtype), g, d_value)
            d_scores = weights * d_weights
            d_key = tl.dot(d_scores.to(q.dtype), q, d_key)
    at_key = (b.to(tl.int64) * nk + columns[:, None]) * heads + h
    is_column = (columns < nk)[:, None]
    d_key = (d_key * scale).to(k.dtype)
    tl.store(DK + at_key * D + tl.arange(0, D)[None, :], d_key, mask=is_column)
    tl.store(DV + at_key * E + tl.arange(0, E)[None, :], d_value.to(v.dtype), mask=is_column)


def differentiate_related(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    context: Tensor,
    lse: Tensor,
    by_distance: Tensor,
    to_values: Tensor | None,
    tiling: Tiling,
    past: int,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients of query, key, value and `by_distance`, and each row's weight by distance.

    `context` and `lse` may be those of a larger attention of which the tiles are a piece. The
    query's gradient leaves out what goes through `by_distance`, whose own is `b h q r` in single
    precision, or `b h 1 r` if all queries share it. The weights by distance are `b h q r` in the
    precision of the values; without `to_values` there are none.
    """
    *found, mass = torch.ops.regard.related_backward(
        grad, query, key, value, context, lse, by_distance, to_values,
        list(tiling.by_row[:3]), list(tiling.by_column), tiling.bits, tiling.full, tiling.valid,
        past, scale,
    )  # fmt: skip
    return (*found, None if to_values is None else mass)


def _differentiate(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    context: Tensor,
    lse: Tensor,
    by_distance: Tensor,
    to_values: Tensor | None,
    rows: list[Tensor],
    columns: list[Tensor],
    bits: Tensor,
    full: Tensor,
    valid: Tensor | None,
    past: int,
    scale: float,
) -> tuple[Tensor, ...]:
    tensors = (grad, query, key, value, context, by_distance)
    grad, query, key, value, context, by_distance = (plain(x) for x in tensors)
    b, h, nq, d = query.shape
    is_by_row = by_distance.shape[-2] > 1 or nq == 1
    d_query, d_key, d_value, d_relation, mass = _gradients(
        grad, query, key, value, context, lse, by_distance, to_values
    )
    if not is_by_row:
        n_halves = 2 * len(rows[0])
        d_relation = d_relation.new_zeros(b, h, n_halves, by_distance.shape[-1])
    lses, levels = (lse.new_empty(3, *lse.shape) for _ in range(2))
    sizes = (*sizes_of(query, key, by_distance, past, scale, bits), b * h)
    # the gradient along each distance's vector, made by one product for all tiles
    along = (
        query[..., :1]
        if to_values is None
        else products_by_distance(grad, to_values.to(grad.dtype))
    )
    strides = (*strides_of(query, key, value), *steps_of(query, by_distance), *strides_of(along))
    kinds = {
        "D": d,
        "E": value.shape[-1],
        "SIDE": SIDE,
        "HAS_VALID": valid is not None,
        "HAS_VALUES": to_values is not None,
        "num_warps": warps_of(query, value),
        "num_stages": STAGES,
    }
    shown = (bits, full, existing(valid, query))
    _to_queries[(len(rows[0]), b * h)](
        query, key, value, by_distance, along, context, lse.contiguous(), grad,
        d_query, d_relation, mass, lses, levels, *shown, *rows, *sizes, *strides,
        *strides_of(context, grad), BY_ROW=is_by_row, **kinds,
    )  # fmt: skip
    _to_keys[(len(columns[0]), b * h)](
        query, key, value, by_distance, along, grad, d_key, d_value, lses, levels,
        *shown, *columns, *sizes, *strides, *strides_of(grad), **kinds,
    )  # fmt: skip
    d_relation = d_relation if is_by_row else d_relation.sum(-2, keepdim=True)
    return d_query, d_key, d_value, d_relation, mass


def _gradients(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    context: Tensor,
    lse: Tensor,
    by_distance: Tensor,
    to_values: Tensor | None,
    *others: object,
) -> tuple[Tensor, ...]:
    """Tensors for the results of `_differentiate`; zero at distances that no tile reaches."""
    (b, h, nq, _), nk, n_distances = query.shape, key.shape[-2], by_distance.shape[-1]
    # the caller's product with the gradient has a matrix for each head, with all sentences' rows
    shape = (h, b, nq, n_distances) if to_values is not None else (0, 0)
    return (
        like_rows(query, nq),
        like_rows(key, nk),
        like_rows(value, nk),
        lse.new_zeros(b, h, min(nq, by_distance.shape[-2]), n_distances),
        value.new_zeros(shape).transpose(0, 1),
    )


# registered as a torch operator, which torch.compile does not trace into
_LIBRARY = torch.library.Library("regard", "FRAGMENT")
_LIBRARY.define(
    "related_backward(Tensor g, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse,"
    " Tensor by_distance, Tensor? to_values, Tensor[] rows, Tensor[] columns, Tensor bits,"
    " Tensor full, Tensor? valid, int past, float scale)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)
_LIBRARY.impl("related_backward", _differentiate, "CUDA")
_LIBRARY.impl("related_backward", _gradients, "Meta")
