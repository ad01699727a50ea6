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
    table_of,
    vectors,
    with_vectors,
)
from regard.attention.engine.shared_kernel import (
    LOG2_E,
    existing,
    head_rows,
    levels_of,
    plain,
    store_rows,
    strides_of,
)
from regard.attention.engine.short_kernel import tile_side, tile_warps

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
def _along(g, table, past, side, reach, E: tl.constexpr, SIDE: tl.constexpr):
    """grad[i] · table[c] of every pair."""
    lower = tl.dot(g, tl.trans(vectors(table, 1 - SIDE - past, side, reach, E)))
    upper = tl.dot(g, tl.trans(vectors(table, 1 - past, side, reach, E)))
    is_lower = side[:, None] + side[None, :] + 1 >= SIDE
    turned = (side[None, :] - side[:, None] + SIDE - 1) % SIDE
    return tl.gather(tl.where(is_lower, lower, upper), turned, 1)


@triton.jit
def _scores(
    q, k, relation, table, offsets, past, side, nq, reach, rn, scale,
    D: tl.constexpr, SIDE: tl.constexpr, HAS_KEYS: tl.constexpr,
):  # fmt: skip
    """The scores in base 2, relation included."""
    if HAS_KEYS:
        related = _along(q, table, past, side, reach, D, SIDE)
        return (tl.dot(q, tl.trans(k)) + related) * (scale * LOG2_E)
    left, right = at_ends(relation, side, nq, reach, rn)
    cell = side[:, None] * rn + reach + offsets
    related = at_pairs(
        relation, offsets, left[:, None], right[:, None], cell, (side < nq)[:, None], reach
    )
    return tl.dot(q, tl.trans(k), related / scale) * (scale * LOG2_E)


@triton.jit
def _store_vectors(pointer, pairs, rows, past, side, reach, D: tl.constexpr, SIDE: tl.constexpr):
    """Store the sum of pairs[i,j] · rows[i] for each distance, and 0 where there is no pair."""
    is_lower, turned = by_offset(pairs, side, SIDE)
    zero, over_d = tl.zeros_like(turned), tl.arange(0, D)[None, :]
    lower = tl.dot(tl.trans(tl.where(is_lower, turned, zero)), rows)
    upper = tl.dot(tl.trans(tl.where(is_lower, zero, turned)), rows)
    # offsets of the two halves' rows, each offset once
    at = (side + 1 - past)[:, None]
    below, above = at - SIDE, at
    left = tl.sum(tl.where(below <= -reach, lower, 0.0) + tl.where(above <= -reach, upper, 0.0), 0)
    right = tl.sum(tl.where(below >= reach, lower, 0.0) + tl.where(above >= reach, upper, 0.0), 0)
    tl.store(pointer + tl.arange(0, D), left)
    tl.store(pointer + 2 * reach * D + tl.arange(0, D), right)
    is_inner = (below > -reach) & (below < reach)
    tl.store(pointer + (below + reach) * D + over_d, lower, mask=is_inner)
    is_inner = (above > -reach) & (above < reach)
    tl.store(pointer + (above + reach) * D + over_d, upper, mask=is_inner)
    for begin in range(0, 2 * reach + 1, SIDE):
        c = (begin + side)[:, None]
        place = past + c - reach
        is_free = ((place < 1 - SIDE) | (place > SIDE)) & (c > 0) & (c < 2 * reach)
        tl.store(pointer + c * D + over_d, tl.zeros([SIDE, D], tl.float32), mask=is_free)


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
    Q, K, V, R, TK, T, O, L, valid, heads, nq, nk, past, reach, scale,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, rb, rh, rn, tkh, th,
    D: tl.constexpr, E: tl.constexpr, SIDE: tl.constexpr, IS_CAUSAL: tl.constexpr,
    HAS_VALID: tl.constexpr, HAS_KEYS: tl.constexpr, HAS_VALUES: tl.constexpr,
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
    table = TK + h * tkh
    scores = _scores(
        q, k, relation, table, offsets, past, side, nq, reach, rn, scale, D, SIDE, HAS_KEYS
    )
    scores = tl.where(seen, scores, -1e30)
    top = tl.max(scores, 1)
    weights = tl.where(seen, tl.exp2(scores - top[:, None]), 0.0)
    total = tl.sum(weights, 1)
    context = tl.dot(weights.to(v.dtype), v)
    if HAS_VALUES:
        low = weights.to(v.dtype)
        context += with_vectors(low, T + h * th, -past, side, reach, E, SIDE)
    # an empty row gives no weight to its piece when pieces are joined
    store_rows(O, L, b, h, heads, nq, side, top, total, context, E, float("-inf"))


@triton.jit(do_not_specialize=NOT_SPECIALISED)
def _backward(
    Q, K, V, R, TK, T, O, L, G, DQ, DK, DV, DR, DTK, DT, valid, heads, nq, nk, past, reach, scale,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, rb, rh, rn, tkh, th, ob, oh, on, gb, gh, gn,
    D: tl.constexpr, E: tl.constexpr, SIDE: tl.constexpr, IS_CAUSAL: tl.constexpr,
    HAS_VALID: tl.constexpr, HAS_KEYS: tl.constexpr, HAS_VALUES: tl.constexpr,
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
    table = TK + h * tkh
    scores = _scores(
        q, k, relation, table, offsets, past, side, nq, reach, rn, scale, D, SIDE, HAS_KEYS
    )
    scores -= lse[:, None]
    weights = tl.where(seen, tl.exp2(scores), 0.0)
    level = levels_of(o, g)
    d_weights = tl.dot(g, tl.trans(v)) - level[:, None]
    if HAS_VALUES:
        d_weights += _along(g, T + h * th, past, side, reach, E, SIDE)
        vectors_of = DT + program.to(tl.int64) * n_distances * E
        _store_vectors(vectors_of, weights.to(g.dtype), g, past, side, reach, E, SIDE)
    d_scores = weights * d_weights
    low = (d_scores * scale).to(q.dtype)
    d_query = tl.dot(low, k)
    if HAS_KEYS:
        d_query += with_vectors(low, table, -past, side, reach, D, SIDE)
        vectors_of = DTK + program.to(tl.int64) * n_distances * D
        _store_vectors(vectors_of, low, q, past, side, reach, D, SIDE)
    elif BY_ROW:
        d_relation = DR + of_head * n_distances
        _store_by_distance(d_relation, d_scores, offsets, past, side, nq, reach, SIDE)
    else:
        d_relation = DR + program.to(tl.int64) * n_distances
        _store_sums(d_relation, d_scores, offsets, past, side, reach, SIDE)
    at_query = (b.to(tl.int64) * nq + side[:, None]) * heads + h
    at_key = (b.to(tl.int64) * nk + side[:, None]) * heads + h
    is_query, is_key = (side < nq)[:, None], (side < nk)[:, None]
    over_d, over_e = tl.arange(0, D)[None, :], tl.arange(0, E)[None, :]
    tl.store(DQ + at_query * D + over_d, d_query.to(q.dtype), mask=is_query)
    tl.store(DK + at_key * D + over_d, tl.dot(tl.trans(low), q).to(k.dtype), mask=is_key)
    d_value = tl.dot(tl.trans(weights.to(g.dtype)), g)
    tl.store(DV + at_key * E + over_e, d_value.to(v.dtype), mask=is_key)


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    by_distance: Tensor | None,
    to_keys: Tensor | None,
    to_values: Tensor | None,
    valid: Tensor | None,
    is_causal: bool,
    reach: int,
    past: int,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Context and log-sum-exp, as `attend_related`, of at most 64 queries and keys.

    The relation adds numbers to the scores, or vectors `h r d` to the keys.
    """
    query, key, value = (plain(x) for x in (query, key, value))
    # any tensor serves for an argument that is never read
    numbers = query if by_distance is None else plain(by_distance)
    context, lse = empty_results(query, key, value)
    (keys, keys_h), (table, table_h) = table_of(to_keys, key), table_of(to_values, value)
    nq, nk = query.shape[-2], key.shape[-2]
    _forward[(lse.shape[0] * lse.shape[1],)](
        query, key, value, numbers, keys, table, context, lse,
        existing(valid, query), lse.shape[1], nq, nk, past, reach, scale,
        *strides_of(query, key, value), *_steps(query, by_distance), keys_h, table_h,
        D=query.shape[-1], E=value.shape[-1], SIDE=tile_side(max(nq, nk)), IS_CAUSAL=is_causal,
        HAS_VALID=valid is not None, HAS_KEYS=to_keys is not None,
        HAS_VALUES=to_values is not None, num_warps=tile_warps(nq, nk),
    )  # fmt: skip
    return context, lse


def _differentiate(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    by_distance: Tensor | None,
    to_keys: Tensor | None,
    to_values: Tensor | None,
    context: Tensor,
    lse: Tensor,
    valid: Tensor | None,
    is_causal: bool,
    reach: int,
    past: int,
    scale: float,
) -> tuple[Tensor, ...]:
    """Gradients of queries, keys, values, numbers by distance, and of the vectors by sentence."""
    grad, query, key, value, context = (plain(x) for x in (grad, query, key, value, context))
    numbers = query if by_distance is None else plain(by_distance)
    inputs = (grad, query, key, value, by_distance, to_keys, to_values)
    found = _gradients(*inputs, context, lse, valid, is_causal, reach)
    (keys, keys_h), (table, table_h) = table_of(to_keys, key), table_of(to_values, value)
    nq, nk = query.shape[-2], key.shape[-2]
    _backward[(lse.shape[0] * lse.shape[1],)](
        query, key, value, numbers, keys, table, context, lse.contiguous(), grad,
        *found, existing(valid, query), lse.shape[1], nq, nk, past, reach, scale,
        *strides_of(query, key, value), *_steps(query, by_distance), keys_h, table_h,
        *strides_of(context, grad), D=query.shape[-1], E=value.shape[-1],
        SIDE=tile_side(max(nq, nk)), IS_CAUSAL=is_causal, HAS_VALID=valid is not None,
        HAS_KEYS=to_keys is not None, HAS_VALUES=to_values is not None,
        BY_ROW=by_distance is not None and by_distance.shape[-2] == nq,
        # sums of vectors take many registers, which more threads bring along
        num_warps=tile_warps(nq, nk) * (1 if to_keys is None else 2),
    )  # fmt: skip
    return found


def _steps(query: Tensor, by_distance: Tensor | None) -> tuple[int, ...]:
    """The strides of the numbers by distance, if there are any."""
    return (0, 0, 0) if by_distance is None else steps_of(query, by_distance)


def _gradients(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    by_distance: Tensor | None,
    to_keys: Tensor | None,
    to_values: Tensor | None,
    context: Tensor,
    lse: Tensor,
    valid: Tensor | None,
    is_causal: bool,
    reach: int,
    *others: object,
) -> tuple[Tensor, ...]:
    """Empty tensors for the results of `_differentiate`."""
    (b, h, nq, _), nk, n_distances = query.shape, key.shape[-2], 2 * reach + 1
    rows = 0 if by_distance is None else by_distance.shape[-2]
    of_keys, of_values = (0 if x is None else n_distances for x in (to_keys, to_values))
    return (
        like_rows(query, nq),
        like_rows(key, nk),
        like_rows(value, nk),
        lse.new_empty(b, h, rows, n_distances),
        lse.new_empty(b, h, of_keys, query.shape[-1]),
        lse.new_empty(b, h, of_values, value.shape[-1]),
    )


# registered as torch operators, which torch.compile does not trace into
_LIBRARY = torch.library.Library("regard", "FRAGMENT")
_LIBRARY.define(
    "related_tile(Tensor q, Tensor k, Tensor v, Tensor? by_distance, Tensor? to_keys,"
    " Tensor? to_values, Tensor? valid, bool causal, int reach, int past, float scale)"
    " -> (Tensor, Tensor)"
)
_LIBRARY.define(
    "related_tile_backward(Tensor g, Tensor q, Tensor k, Tensor v, Tensor? by_distance,"
    " Tensor? to_keys, Tensor? to_values, Tensor out, Tensor lse, Tensor? valid, bool causal,"
    " int reach, int past, float scale) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
for _name, _compute, _room in (
    ("related_tile", _attend, empty_results),
    ("related_tile_backward", _differentiate, _gradients),
):
    _LIBRARY.impl(_name, _compute, "CUDA")
    _LIBRARY.impl(_name, _room, "Meta")
