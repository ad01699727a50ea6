"""Gradients of the band kernel, joined with the gradients that far kernels gave.

    weight[i,j] = exp(score[i,j] - lse[i]),   c = j - i + reach,   |j - i| < reach
    d_score[i,j] = weight[i,j] (grad[i] · (v[j] + to_values[c]) - grad[i] · context[i])
    d_by_distance[i,c] = d_score[i,j],        mass[i,c] = weight[i,j]
    far left:  share = exp(lse_left + by_distance[i,0] - lse[i]),   mass[i,0] = share
               d_by_distance[i,0] = share (grad[i] · (context_left[i] + to_values[0] - context[i]))
    far right: d_by_distance[i,2·reach] = minus the sum of all others, as a row's d_scores sum to 0

A program begins with the far gradients of its rows, or of its keys, and adds the band's. No two
programs share a sum, so the same input gives the same bits. Import this module only where there is
a GPU.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.attention.banded import WHOLE
from regard.attention.engine.band_kernel import (
    NOT_SPECIALISED,
    Shape,
    at_band,
    by_distance_of,
    far_number,
    rows_at,
    seen_in_band,
)
from regard.attention.engine.shared_kernel import LOG2_E, existing, levels_of, plain, strides_of


@triton.jit
def _start(Left, Right, b, h, at, n, reach, lb, lh, ln, rb, rh, rn,
           D: tl.constexpr, N: tl.constexpr, HAS_LEFT: tl.constexpr,
           HAS_RIGHT: tl.constexpr, IS_KEY: tl.constexpr):  # fmt: skip
    """What far pieces gave to some rows, or to some keys."""
    total = tl.zeros([N, D], tl.float32)
    back = n - 1 - at
    if HAS_LEFT:
        if IS_KEY:
            total += rows_at(Left, b, h, at, 0, n - reach, lb, lh, ln, D).to(tl.float32)
        else:
            total += rows_at(Left, b, h, at, reach, n, lb, lh, ln, D).to(tl.float32)
    if HAS_RIGHT:
        if IS_KEY:
            total += rows_at(Right, b, h, back, 0, n - reach, rb, rh, rn, D).to(tl.float32)
        else:
            total += rows_at(Right, b, h, back, reach, n, rb, rh, rn, D).to(tl.float32)
    return total


@triton.jit(do_not_specialize=NOT_SPECIALISED)
def _to_queries(
    Q, K, V, R, U, O, G, L, CL, LL, LR, FL, FR, DQ, DR, M, LEVEL, valid,
    heads, n, reach, lead, scale, n_cells,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, rb, rh, rn, ub, uh, un, ob, oh, on, gb, gh, gn,
    clb, clh, cln, flb, flh, fln, frb, frh, frn, dqb, dqh, dqn,
    D: tl.constexpr, E: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
    HAS_LEFT: tl.constexpr, HAS_RIGHT: tl.constexpr, IS_CAUSAL: tl.constexpr,
    HAS_VALID: tl.constexpr, HAS_VALUES: tl.constexpr, BY_ROW: tl.constexpr,
):  # fmt: skip
    block, program = tl.program_id(0), tl.program_id(1)
    b, h = program // heads, program % heads
    begin = block * ROWS
    rows = begin + tl.arange(0, ROWS)
    is_row = rows < n
    q = rows_at(Q, b, h, rows, 0, n, qb, qh, qn, D)
    g = rows_at(G, b, h, rows, 0, n, gb, gh, gn, E)
    o = rows_at(O, b, h, rows, 0, n, ob, oh, on, E)
    relation = R + b.to(tl.int64) * rb + h * rh
    along = U + b.to(tl.int64) * ub + h.to(tl.int64) * uh
    of_head = program.to(tl.int64) * n
    far = program.to(tl.int64) * (n - reach)
    lse = tl.load(L + of_head + rows, mask=is_row, other=0.0)
    level = levels_of(o, g)
    tl.store(LEVEL + of_head + rows, level, mask=is_row)
    cells = of_head * n_cells
    d_relation, masses = DR + cells, M + cells
    d_query = tl.zeros([ROWS, D], tl.float32)
    d_near = tl.zeros([ROWS], tl.float32)
    half = (program.to(tl.int64) * tl.num_programs(0) + block) * 2
    for corner in range(begin - lead, begin + ROWS + reach - 1, WIDTH):
        columns = corner + tl.arange(0, WIDTH)
        k = rows_at(K, b, h, columns, 0, n, kb, kh, kn, D)
        v = rows_at(V, b, h, columns, 0, n, vb, vh, vn, E)
        seen = seen_in_band(
            valid, b, rows[:, None], columns[None, :], n, reach, IS_CAUSAL, HAS_VALID
        )
        related = at_band(relation, rows[:, None], columns[None, :], n, reach, rn)
        scores = (tl.dot(q, tl.trans(k)) * scale + related - lse[:, None]) * LOG2_E
        weights = tl.where(seen, tl.exp2(scores), 0.0)
        d_weights = tl.dot(g, tl.trans(v)) - level[:, None]
        if HAS_VALUES:
            d_weights += at_band(along, rows[:, None], columns[None, :], n, reach, un)
        d_scores = weights * d_weights
        d_near += tl.sum(d_scores, 1)
        d_query = tl.dot(d_scores.to(k.dtype), k, d_query)
        over = tl.arange(0, WIDTH)[None, :]
        is_lower, turned = by_distance_of(d_scores, ROWS, WIDTH)
        offsets = corner - begin + over - tl.where(is_lower, WIDTH, 0)
        is_inner = (offsets > -reach) & (offsets < reach) & is_row[:, None]
        if BY_ROW:
            place = d_relation + rows[:, None] * n_cells + offsets + reach
            tl.store(place, turned.to(DR.dtype.element_ty), mask=is_inner)
        else:
            at = corner - begin + tl.arange(0, WIDTH)
            sums = tl.sum(tl.where(is_lower, 0.0, turned), 0)
            inside = (at > -reach) & (at < reach)
            tl.store(DR + half * n_cells + at + reach, sums, mask=inside)
            at -= WIDTH
            sums = tl.sum(tl.where(is_lower, turned, 0.0), 0)
            inside = (at > -reach) & (at < reach)
            tl.store(DR + (half + 1) * n_cells + at + reach, sums, mask=inside)
        if HAS_VALUES:
            _, turned = by_distance_of(weights.to(M.dtype.element_ty), ROWS, WIDTH)
            tl.store(masses + rows[:, None] * n_cells + offsets + reach, turned, mask=is_inner)
    d_query *= scale
    d_query += _start(FL, FR, b, h, rows, n, reach, flb, flh, fln, frb, frh, frn,
                      D, ROWS, HAS_LEFT, HAS_RIGHT, False)  # fmt: skip
    out = DQ + b.to(tl.int64) * dqb + h.to(tl.int64) * dqh + rows[:, None].to(tl.int64) * dqn
    tl.store(out + tl.arange(0, D)[None, :], d_query.to(q.dtype), mask=is_row[:, None])
    first = rows.to(tl.int64)
    share, d_left = tl.zeros([ROWS], tl.float32), tl.zeros([ROWS], tl.float32)
    if HAS_LEFT:
        number = tl.load(relation + first * rn, mask=is_row, other=0.0).to(tl.float32)
        own = far_number(LL + far, rows, reach, n, float("-inf"))
        share = tl.exp2((own + number - lse) * LOG2_E)
        from_far = rows_at(CL, b, h, rows, reach, n, clb, clh, cln, E).to(tl.float32)
        gain = tl.sum(from_far * g.to(tl.float32), 1)
        if HAS_VALUES:
            gain += tl.load(along + first * un, mask=is_row, other=0.0).to(tl.float32)
        d_left = share * (gain - level)
    ends = rows * n_cells
    if HAS_VALUES:
        tl.store(masses + ends, share.to(M.dtype.element_ty), mask=is_row)
    share, d_right = tl.zeros([ROWS], tl.float32), tl.zeros([ROWS], tl.float32)
    if HAS_RIGHT:
        number = tl.load(relation + first * rn + 2 * reach, mask=is_row, other=0.0).to(tl.float32)
        own = far_number(LR + far, n - 1 - rows, reach, n, float("-inf"))
        share = tl.exp2((own + number - lse) * LOG2_E)
        d_right = tl.where(share > 0, -d_left - d_near, 0.0)
    if HAS_VALUES:
        tl.store(masses + ends + 2 * reach, share.to(M.dtype.element_ty), mask=is_row)
    if BY_ROW:
        tl.store(d_relation + ends, d_left.to(DR.dtype.element_ty), mask=is_row)
        tl.store(d_relation + ends + 2 * reach, d_right.to(DR.dtype.element_ty), mask=is_row)
    else:
        tl.store(DR + half * n_cells, tl.sum(d_left, 0))
        tl.store(DR + half * n_cells + 2 * reach, tl.sum(d_right, 0))


@triton.jit(do_not_specialize=NOT_SPECIALISED)
def _to_keys(
    Q, K, V, R, U, G, L, LEVEL, FKL, FKR, FVL, FVR, DK, DV, valid,
    heads, n, reach, lead, scale,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, rb, rh, rn, ub, uh, un, gb, gh, gn,
    klb, klh, kln, krb, krh, krn, vlb, vlh, vln, vrb, vrh, vrn, dkb, dkh, dkn, dvb, dvh, dvn,
    D: tl.constexpr, E: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
    HAS_LEFT: tl.constexpr, HAS_RIGHT: tl.constexpr, IS_CAUSAL: tl.constexpr,
    HAS_VALID: tl.constexpr, HAS_VALUES: tl.constexpr,
):  # fmt: skip
    block, program = tl.program_id(0), tl.program_id(1)
    b, h = program // heads, program % heads
    begin = block * ROWS
    columns = begin + tl.arange(0, ROWS)
    k = rows_at(K, b, h, columns, 0, n, kb, kh, kn, D)
    v = rows_at(V, b, h, columns, 0, n, vb, vh, vn, E)
    relation = R + b.to(tl.int64) * rb + h * rh
    along = U + b.to(tl.int64) * ub + h.to(tl.int64) * uh
    of_head = program.to(tl.int64) * n
    d_key = tl.zeros([ROWS, D], tl.float32)
    d_value = tl.zeros([ROWS, E], tl.float32)
    for corner in range(begin - lead, begin + ROWS + reach - 1, WIDTH):
        rows = corner + tl.arange(0, WIDTH)
        is_row = (rows >= 0) & (rows < n)
        q = rows_at(Q, b, h, rows, 0, n, qb, qh, qn, D)
        g = rows_at(G, b, h, rows, 0, n, gb, gh, gn, E)
        lse = tl.load(L + of_head + rows, mask=is_row, other=0.0)
        level = tl.load(LEVEL + of_head + rows, mask=is_row, other=0.0)
        # a row of the tile is a key: its products need no transposed weights
        seen = seen_in_band(
            valid, b, rows[None, :], columns[:, None], n, reach, IS_CAUSAL, HAS_VALID
        )
        related = at_band(relation, rows[None, :], columns[:, None], n, reach, rn)
        scores = (tl.dot(k, tl.trans(q)) * scale + related - lse[None, :]) * LOG2_E
        weights = tl.where(seen, tl.exp2(scores), 0.0)
        d_value = tl.dot(weights.to(g.dtype), g, d_value)
        d_weights = tl.dot(v, tl.trans(g)) - level[None, :]
        if HAS_VALUES:
            d_weights += at_band(along, rows[None, :], columns[:, None], n, reach, un)
        d_scores = weights * d_weights
        d_key = tl.dot(d_scores.to(q.dtype), q, d_key)
    d_key *= scale
    d_key += _start(FKL, FKR, b, h, columns, n, reach, klb, klh, kln, krb, krh, krn,
                    D, ROWS, HAS_LEFT, HAS_RIGHT, True)  # fmt: skip
    d_value += _start(FVL, FVR, b, h, columns, n, reach, vlb, vlh, vln, vrb, vrh, vrn,
                      E, ROWS, HAS_LEFT, HAS_RIGHT, True)  # fmt: skip
    is_column = (columns < n)[:, None]
    place = columns[:, None].to(tl.int64)
    out = DK + b.to(tl.int64) * dkb + h.to(tl.int64) * dkh + place * dkn
    tl.store(out + tl.arange(0, D)[None, :], d_key.to(k.dtype), mask=is_column)
    out = DV + b.to(tl.int64) * dvb + h.to(tl.int64) * dvh + place * dvn
    tl.store(out + tl.arange(0, E)[None, :], d_value.to(v.dtype), mask=is_column)


def _for_queries(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    by_distance: Tensor,
    along: Tensor | None,
    context: Tensor,
    lse: Tensor,
    far: list[Tensor],
    found: list[Tensor],
    valid: Tensor | None,
    reach: int,
    is_causal: bool,
    scale: float,
) -> tuple[Tensor, ...]:
    """Gradients of queries and `by_distance`, weights by distance, and grad · context of each row.

    `along` is each row's product with the vector of each distance. `far` holds context and
    log-sum-exp of the far left, and then the log-sum-exp of the far right; `found` the gradients
    that they gave to queries. Numbers by distance come in rows of whole groups. The query's
    gradient leaves out what goes through `by_distance`.
    """
    tensors = (grad, query, key, value, by_distance, context)
    grad, query, key, value, by_distance, context = (plain(x) for x in tensors)
    (b, h, n, d), shape = query.shape, Shape.of(reach)
    results = _query_results(grad, query, key, value, by_distance, along, context, lse)
    d_query, d_relation, mass, level = results
    n_blocks, n_cells, sums = triton.cdiv(n, shape.rows), d_relation.shape[-1], d_relation
    if not (is_by_row := _is_by_row(by_distance, n)):
        sums = lse.new_zeros(b, h, 2 * n_blocks, n_cells)
    # any tensors serve for arguments that are never read
    left, right = (found * 2 or [query] * 2)[:2]
    own, steps = [*far, *(context, lse, lse)[len(far) :]], query if along is None else along
    _to_queries[(n_blocks, b * h)](
        query, key, value, by_distance, steps, context, grad, lse, *own, left, right,
        d_query, sums, mass, level, existing(valid, query), h, n, reach, shape.lead, scale, n_cells,
        *strides_of(query, key, value), *by_distance.expand(b, h, n, -1).stride()[:3],
        *strides_of(steps, context, grad, own[0], left, right, d_query),
        D=d, E=value.shape[-1], HAS_LEFT=len(found) > 0, HAS_RIGHT=len(found) > 1,
        IS_CAUSAL=is_causal, HAS_VALID=valid is not None, HAS_VALUES=along is not None,
        BY_ROW=is_by_row, **shape.options,
    )  # fmt: skip
    if not is_by_row:
        d_relation.copy_(sums.sum(-2, keepdim=True))
    return results


def _for_keys(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    by_distance: Tensor,
    along: Tensor | None,
    lse: Tensor,
    level: Tensor,
    found: list[Tensor],
    valid: Tensor | None,
    reach: int,
    is_causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Gradients of keys and values; `found` holds what the far left gave to both, then the right.

    `level` is grad · context of each row.
    """
    tensors = (grad, query, key, value, by_distance)
    grad, query, key, value, by_distance = (plain(x) for x in tensors)
    (b, h, n, d), shape = query.shape, Shape.of(reach)
    d_key, d_value = _key_results(grad, query, key, value)
    # any tensors serve for arguments that are never read
    far, steps = (found * 2 or [key, value] * 2)[:4], query if along is None else along
    _to_keys[(triton.cdiv(n, shape.rows), b * h)](
        query, key, value, by_distance, steps, grad, lse, level, far[0], far[2], far[1], far[3],
        d_key, d_value, existing(valid, query), h, n, reach, shape.lead, scale,
        *strides_of(query, key, value), *by_distance.expand(b, h, n, -1).stride()[:3],
        *strides_of(steps, grad, far[0], far[2], far[1], far[3], d_key, d_value),
        D=d, E=value.shape[-1], HAS_LEFT=len(found) > 0, HAS_RIGHT=len(found) > 2,
        IS_CAUSAL=is_causal, HAS_VALID=valid is not None, HAS_VALUES=along is not None,
        **shape.options,
    )  # fmt: skip
    return d_key, d_value


def _is_by_row(by_distance: Tensor, n: int) -> bool:
    """Whether each row has numbers of its own."""
    return by_distance.shape[-2] > 1 or n == 1


def _query_results(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    by_distance: Tensor,
    along: Tensor | None,
    context: Tensor,
    lse: Tensor,
    *others: object,
) -> tuple[Tensor, ...]:
    """Empty tensors for the results of `_for_queries`."""
    b, h, n, _ = query.shape
    n_cells = by_distance.shape[-1] + -by_distance.shape[-1] % WHOLE
    is_by_row = _is_by_row(by_distance, n)
    numbers = query if is_by_row else lse
    return (
        torch.empty_like(query),
        numbers.new_empty(b, h, n if is_by_row else 1, n_cells),
        value.new_empty((b, h, n, n_cells) if along is not None else (0, 0)),
        torch.empty_like(lse),
    )


def _key_results(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *others: object
) -> tuple[Tensor, Tensor]:
    """Empty tensors for the results of `_for_keys`."""
    return torch.empty_like(key), torch.empty_like(value)


# registered as torch operators, which torch.compile does not trace into
_LIBRARY = torch.library.Library("regard", "FRAGMENT")
_LIBRARY.define(
    "band_to_queries(Tensor g, Tensor q, Tensor k, Tensor v, Tensor by_distance, Tensor? along,"
    " Tensor out, Tensor lse, Tensor[] far, Tensor[] found, Tensor? valid, int reach, bool causal,"
    " float scale) -> (Tensor, Tensor, Tensor, Tensor)"
)
_LIBRARY.define(
    "band_to_keys(Tensor g, Tensor q, Tensor k, Tensor v, Tensor by_distance, Tensor? along,"
    " Tensor lse, Tensor level, Tensor[] found, Tensor? valid, int reach, bool causal,"
    " float scale) -> (Tensor, Tensor)"
)
for _name, _compute, _room in (
    ("band_to_queries", _for_queries, _query_results),
    ("band_to_keys", _for_keys, _key_results),
):
    _LIBRARY.impl(_name, _compute, "CUDA")
    _LIBRARY.impl(_name, _room, "Meta")
