"""Related short kernel: attention of short sequences with a banded relation, on a GPU.

    c = clip(position_j - position_i, ±reach) + reach
    score[i,j] = scale · q[i] · k[j] + by_distance[i,c],   lse[i] = log sum_j exp(score[i,j])
    context[i] = sum_j exp(score[i,j] - lse[i]) (v[j] + to_values[c])

What related_kernel.py does over listed tiles, for sequences of at most 64: one program for each
head, whose whole matrix fits into registers. Import this module only where there is a GPU.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.attention.engine.kernels import like_rows
from regard.attention.engine.related_kernel import (
    at_ends,
    at_pairs,
    by_offset,
    empty_results,
    steps_of,
    strides_of,
    table_of,
    vectors,
    with_vectors,
)
from regard.attention.engine.short_kernel import (
    existing,
    head_rows,
    plain,
    tile_side,
    tile_warps,
)
from regard.attention.engine.sparse_kernel import LOG2_E

NOT_SPECIALISED = ["heads", "nq", "nk", "past", "reach", "rb", "rh", "rn", "th"]
"""Numbers that get no kernels of their own for 1 and for multiples of 16."""


@triton.jit
def _seen(valid, b, nq, nk, past, side, IS_CAUSAL: tl.constexpr, HAS_VALID: tl.constexpr):
    """Which pairs exist and may see each other."""
    seen = (side < nk)[None, :] & (side < nq)[:, None]
    if HAS_VALID:
        exists = tl.load(valid + b.to(tl.int64) * nk + side, mask=side < nk, other=0)
        seen = seen & (exists != 0)[None, :]
    if IS_CAUSAL:
        seen = seen & (side[None, :] <= side[:, None] + past)
    return seen


@triton.jit
def _scores(q, k, relation, offsets, side, nq, reach, rn, scale):
    """The scores in base 2, relation included."""
    left, right = at_ends(relation, side, nq, reach, rn)
    cell = side[:, None] * rn + reach + offsets
    related = at_pairs(
        relation, offsets, left[:, None], right[:, None], cell, (side < nq)[:, None], reach
    )
    return tl.dot(q, tl.trans(k), related / scale) * (scale * LOG2_E)


@triton.jit
def _along(g, table, past, side, reach, E: tl.constexpr, SIDE: tl.constexpr):
    """grad[i] · table[c] of every pair."""
    lower = tl.dot(g, tl.trans(vectors(table, 1 - SIDE - past, side, reach, E)))
    upper = tl.dot(g, tl.trans(vectors(table, 1 - past, side, reach, E)))
    is_lower = side[:, None] + side[None, :] + 1 >= SIDE
    turned = (side[None, :] - side[:, None] + SIDE - 1) % SIDE
    return tl.gather(tl.where(is_lower, lower, upper), turned, 1)


@triton.jit
def _store_by_distance(pointer, pairs, offsets, past, side, nq, reach, SIDE: tl.constexpr):
    """Store the numbers of all pairs by distance: the sums of both ends, and 0 where none is."""
    n_distances, is_row = 2 * reach + 1, (side < nq)[:, None]
    is_inner = (offsets > -reach) & (offsets < reach)
    row = pointer + side[:, None] * n_distances
    numbers = pairs.to(pointer.dtype.element_ty)
    tl.store(row + offsets + reach, numbers, mask=is_inner & is_row)
    left = tl.sum(tl.where(offsets <= -reach, pairs, 0.0), 1).to(pointer.dtype.element_ty)
    right = tl.sum(tl.where(offsets >= reach, pairs, 0.0), 1).to(pointer.dtype.element_ty)
    tl.store(row, left[:, None], mask=is_row)
    tl.store(row + 2 * reach, right[:, None], mask=is_row)
    for begin in range(0, n_distances, SIDE):
        c = begin + side[None, :]
        place = side[:, None] + past + c - reach
        is_free = ((place < 0) | (place >= SIDE)) & (c > 0) & (c < 2 * reach)
        tl.store(row + c, tl.zeros_like(numbers), mask=is_free & is_row)


@triton.jit
def _store_sums(pointer, pairs, offsets, past, side, reach, SIDE: tl.constexpr):
    """Store the sums of all rows by distance, and 0 where there is no pair."""
    is_inner = (offsets > -reach) & (offsets < reach)
    is_lower, turned = by_offset(tl.where(is_inner, pairs, 0.0), side, SIDE)
    lower, upper = tl.where(is_lower, turned, 0.0), tl.where(is_lower, 0.0, turned)
    at = side + 1 - past
    tl.store(pointer + at - SIDE + reach, tl.sum(lower, 0),
             mask=(at - SIDE > -reach) & (at - SIDE < reach))  # fmt: skip
    tl.store(pointer + at + reach, tl.sum(upper, 0), mask=(at > -reach) & (at < reach))
    tl.store(pointer, tl.sum(tl.sum(tl.where(offsets <= -reach, pairs, 0.0), 1), 0))
    tl.store(pointer + 2 * reach, tl.sum(tl.sum(tl.where(offsets >= reach, pairs, 0.0), 1), 0))
    for begin in range(0, 2 * reach + 1, SIDE):
        c = begin + side
        place = past + c - reach
        is_free = ((place < 1 - SIDE) | (place > SIDE)) & (c > 0) & (c < 2 * reach)
        tl.store(pointer + c, tl.zeros_like(at).to(tl.float32), mask=is_free)


@triton.jit(do_not_specialize=NOT_SPECIALISED)
def _forward(
    Q, K, V, R, T, O, L, valid, heads, nq, nk, past, reach, scale,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, rb, rh, rn, th,
    D: tl.constexpr, E: tl.constexpr, SIDE: tl.constexpr,
    IS_CAUSAL: tl.constexpr, HAS_VALID: tl.constexpr, HAS_VALUES: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    b, h = program // heads, program % heads
    side = tl.arange(0, SIDE)
    q = head_rows(Q, b, h, nq, qb, qh, qn, side, D)
    k = head_rows(K, b, h, nk, kb, kh, kn, side, D)
    v = head_rows(V, b, h, nk, vb, vh, vn, side, E)
    relation = R + b.to(tl.int64) * rb + h * rh
    offsets = side[None, :] - side[:, None] - past
    seen = _seen(valid, b, nq, nk, past, side, IS_CAUSAL, HAS_VALID)
    scores = _scores(q, k, relation, offsets, side, nq, reach, rn, scale)
    scores = tl.where(seen, scores, -1e30)
    top = tl.max(scores, 1)
    weights = tl.where(seen, tl.exp2(scores - top[:, None]), 0.0)
    total = tl.sum(weights, 1)
    context = tl.dot(weights.to(v.dtype), v)
    if HAS_VALUES:
        low = weights.to(v.dtype)
        context += with_vectors(low, T + h * th, -past, side, reach, E, SIDE)
    # a row that sees nothing gives zeros, and no weight to its piece when pieces are joined
    is_empty = total == 0.0
    some = tl.where(is_empty, 1.0, total)
    out = O + ((b.to(tl.int64) * nq + side[:, None]) * heads + h) * E + tl.arange(0, E)[None, :]
    tl.store(out, (context / some[:, None]).to(O.dtype.element_ty), mask=(side < nq)[:, None])
    lse = tl.where(is_empty, float("-inf"), top / LOG2_E + tl.log(some))
    tl.store(L + program.to(tl.int64) * nq + side, lse, mask=side < nq)


@triton.jit(do_not_specialize=NOT_SPECIALISED)
def _backward(
    Q, K, V, R, T, O, L, G, DQ, DK, DV, DR, M, valid, heads, nq, nk, past, reach, scale,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, rb, rh, rn, th, ob, oh, on, gb, gh, gn,
    D: tl.constexpr, E: tl.constexpr, SIDE: tl.constexpr,
    IS_CAUSAL: tl.constexpr, HAS_VALID: tl.constexpr, HAS_VALUES: tl.constexpr,
    BY_ROW: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    b, h = program // heads, program % heads
    side, n_distances = tl.arange(0, SIDE), 2 * reach + 1
    q = head_rows(Q, b, h, nq, qb, qh, qn, side, D)
    k = head_rows(K, b, h, nk, kb, kh, kn, side, D)
    v = head_rows(V, b, h, nk, vb, vh, vn, side, E)
    o = head_rows(O, b, h, nq, ob, oh, on, side, E)
    g = head_rows(G, b, h, nq, gb, gh, gn, side, E)
    relation = R + b.to(tl.int64) * rb + h * rh
    of_head = program.to(tl.int64) * nq
    lse = tl.load(L + of_head + side, mask=side < nq, other=0.0) * LOG2_E
    offsets = side[None, :] - side[:, None] - past
    seen = _seen(valid, b, nq, nk, past, side, IS_CAUSAL, HAS_VALID)
    scores = _scores(q, k, relation, offsets, side, nq, reach, rn, scale) - lse[:, None]
    weights = tl.where(seen, tl.exp2(scores), 0.0)
    level = tl.sum(o.to(tl.float32) * g.to(tl.float32), 1)
    d_weights = tl.dot(g, tl.trans(v)) - level[:, None]
    if HAS_VALUES:
        d_weights += _along(g, T + h * th, past, side, reach, E, SIDE)
        masses = M + of_head * n_distances
        _store_by_distance(masses, weights, offsets, past, side, nq, reach, SIDE)
    d_scores = weights * d_weights
    if BY_ROW:
        d_relation = DR + of_head * n_distances
        _store_by_distance(d_relation, d_scores, offsets, past, side, nq, reach, SIDE)
    else:
        d_relation = DR + program.to(tl.int64) * n_distances
        _store_sums(d_relation, d_scores, offsets, past, side, reach, SIDE)
    low = (d_scores * scale).to(q.dtype)
    at_query = (b.to(tl.int64) * nq + side[:, None]) * heads + h
    at_key = (b.to(tl.int64) * nk + side[:, None]) * heads + h
    is_query, is_key = (side < nq)[:, None], (side < nk)[:, None]
    over_d, over_e = tl.arange(0, D)[None, :], tl.arange(0, E)[None, :]
    tl.store(DQ + at_query * D + over_d, tl.dot(low, k).to(q.dtype), mask=is_query)
    tl.store(DK + at_key * D + over_d, tl.dot(tl.trans(low), q).to(k.dtype), mask=is_key)
    d_value = tl.dot(tl.trans(weights.to(g.dtype)), g)
    tl.store(DV + at_key * E + over_e, d_value.to(v.dtype), mask=is_key)


def attend_related_short(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    by_distance: Tensor,
    to_values: Tensor | None,
    valid: Tensor | None,
    is_causal: bool,
    past: int,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Context and log-sum-exp, as `attend_related`, of at most 64 queries and keys."""
    return torch.ops.regard.related_tile(
        query, key, value, by_distance, to_values, valid, is_causal, past, scale
    )


def differentiate_related_short(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    context: Tensor,
    lse: Tensor,
    by_distance: Tensor,
    to_values: Tensor | None,
    valid: Tensor | None,
    is_causal: bool,
    past: int,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients and each row's weight by distance, as `differentiate_related`."""
    *found, mass = torch.ops.regard.related_tile_backward(
        grad, query, key, value, context, lse, by_distance, to_values, valid, is_causal, past, scale
    )
    return (*found, None if to_values is None else mass)


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    by_distance: Tensor,
    to_values: Tensor | None,
    valid: Tensor | None,
    is_causal: bool,
    past: int,
    scale: float,
) -> tuple[Tensor, Tensor]:
    query, key, value, by_distance = (plain(x) for x in (query, key, value, by_distance))
    context, lse = empty_results(query, key, value)
    table, table_h = table_of(to_values, value)
    nq, nk, reach = query.shape[-2], key.shape[-2], by_distance.shape[-1] // 2
    _forward[(lse.shape[0] * lse.shape[1],)](
        query, key, value, by_distance, table, context, lse,
        existing(valid, query), lse.shape[1], nq, nk, past, reach, scale,
        *strides_of(query, key, value), *steps_of(query, by_distance), table_h,
        D=query.shape[-1], E=value.shape[-1], SIDE=tile_side(max(nq, nk)), IS_CAUSAL=is_causal,
        HAS_VALID=valid is not None, HAS_VALUES=to_values is not None, num_warps=tile_warps(nq, nk),
    )  # fmt: skip
    return context, lse


def _differentiate(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    context: Tensor,
    lse: Tensor,
    by_distance: Tensor,
    to_values: Tensor | None,
    valid: Tensor | None,
    is_causal: bool,
    past: int,
    scale: float,
) -> tuple[Tensor, ...]:
    tensors = (grad, query, key, value, context, by_distance)
    grad, query, key, value, context, by_distance = (plain(x) for x in tensors)
    found = _gradients(grad, query, key, value, context, lse, by_distance, to_values)
    table, table_h = table_of(to_values, value)
    nq, nk, reach = query.shape[-2], key.shape[-2], by_distance.shape[-1] // 2
    _backward[(lse.shape[0] * lse.shape[1],)](
        query, key, value, by_distance, table, context, lse.contiguous(), grad,
        *found, existing(valid, query), lse.shape[1], nq, nk, past, reach, scale,
        *strides_of(query, key, value), *steps_of(query, by_distance), table_h,
        *strides_of(context, grad), D=query.shape[-1], E=value.shape[-1],
        SIDE=tile_side(max(nq, nk)), IS_CAUSAL=is_causal, HAS_VALID=valid is not None,
        HAS_VALUES=to_values is not None, BY_ROW=by_distance.shape[-2] == nq,
        num_warps=tile_warps(nq, nk),
    )  # fmt: skip
    return found


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
    """Empty tensors for the results of `_differentiate`."""
    (b, h, nq, _), nk, n_distances = query.shape, key.shape[-2], by_distance.shape[-1]
    shape = (b, h, nq, n_distances) if to_values is not None else (0, 0)
    return (
        like_rows(query, nq),
        like_rows(key, nk),
        like_rows(value, nk),
        lse.new_empty(b, h, by_distance.shape[-2], n_distances),
        value.new_empty(shape),
    )


# registered as torch operators, which torch.compile does not trace into
_LIBRARY = torch.library.Library("regard", "FRAGMENT")
_LIBRARY.define(
    "related_tile(Tensor q, Tensor k, Tensor v, Tensor by_distance, Tensor? to_values,"
    " Tensor? valid, bool causal, int past, float scale) -> (Tensor, Tensor)"
)
_LIBRARY.define(
    "related_tile_backward(Tensor g, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse,"
    " Tensor by_distance, Tensor? to_values, Tensor? valid, bool causal, int past, float scale)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)
for _name, _compute, _room in (
    ("related_tile", _attend, empty_results),
    ("related_tile_backward", _differentiate, _gradients),
):
    _LIBRARY.impl(_name, _compute, "CUDA")
    _LIBRARY.impl(_name, _room, "Meta")
