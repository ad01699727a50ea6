"""Slope kernel: softmax attention under a bias that falls with the distance, on a GPU.

    d = position_j - position_i
    bias(d) = left - slope (d + 1) if d < 0,   right + slope (d - 1) if d > 0,   middle if d = 0
    context = softmax(scale · q kᵀ + bias) v,   lse = log of each row's normaliser

A head's keys beyond its limit are left out (sloped.py). Written in Triton, which comes with torch
where there is a GPU; import this module only there.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.attention.engine.kernels import like_rows
from regard.attention.engine.shared_kernel import (
    LOG2_E,
    existing,
    head_rows,
    levels_of,
    plain,
    softmax_step,
    store_rows,
    strides_of,
)

NOT_SPECIALISED = ["heads", "nq", "nk", "past"]
"""Numbers that get no kernels of their own for 1 and for multiples of 16."""


class SlopeLaunch(NamedTuple):
    """Rows or columns of a program and of its tiles, warps, and tiles loaded ahead."""

    own: int
    other: int
    warps: int
    stages: int

    def options(
        self, query: Tensor, valid: Tensor | None, *, is_whole: bool, is_causal: bool
    ) -> dict[str, int]:
        """The kernels' constants; wide vectors leave memory for fewer tiles.

        No tile of a whole map ends beyond the last key.
        """
        return {
            "D": query.shape[-1],
            "OWN": self.own,
            "OTHER": self.other,
            "IS_CAUSAL": is_causal,
            "HAS_VALID": valid is not None,
            "IS_WHOLE": is_whole,
            "num_warps": self.warps,
            "num_stages": self.stages if query.shape[-1] <= WIDE else 2,
        }


WIDE = 64
"""The width of vectors beyond which fewer tiles are loaded ahead."""

FORWARD = TO_QUERIES = TO_KEYS = SlopeLaunch(own=64, other=64, warps=4, stages=3)


@triton.jit
def _biased(scores, rows, columns, left, middle, right, slope, STRETCH: tl.constexpr):
    """The scores of a tile in base 2 with their bias; rows and columns count from one origin.

    A tile whose rows are keys has left and right exchanged.
    """
    if STRETCH == 0:
        return scores + ((left - slope * (columns + 1))[None, :] + (slope * rows)[:, None])
    if STRETCH == 2:
        return scores + ((right + slope * (columns - 1))[None, :] - (slope * rows)[:, None])
    d = columns[None, :] - rows[:, None]
    ends = tl.where(d < 0, left - slope * (d + 1), right + slope * (d - 1))
    return scores + tl.where(d == 0, middle, ends)


@triton.jit
def _seen(
    valid, b, rows, columns, nk, past, IS_CAUSAL: tl.constexpr, HAS_VALID: tl.constexpr,
    STRETCH: tl.constexpr,
):  # fmt: skip
    """The pairs of a tile that exist and may see each other; one axis for rows, one for keys."""
    seen = columns < nk
    if HAS_VALID:
        exists = tl.load(valid + b.to(tl.int64) * nk + columns, mask=seen, other=0)
        seen = seen & (exists != 0)
    if IS_CAUSAL and STRETCH == 1:
        seen = seen & (columns <= rows + past)
    return seen


@triton.jit
def _line_of(LINE, LIMIT, program, h):
    """The numbers of a head in base 2, and how far it sees."""
    left, middle = tl.load(LINE + h * 4) * LOG2_E, tl.load(LINE + h * 4 + 1) * LOG2_E
    right, slope = tl.load(LINE + h * 4 + 2) * LOG2_E, tl.load(LINE + h * 4 + 3) * LOG2_E
    return left, middle, right, slope, tl.load(LIMIT + program)


@triton.jit
def _stretch_of(origin, stop, limit, OWN: tl.constexpr, OTHER: tl.constexpr):
    """Where the tiles before, at and after the positions from `origin` on begin and end."""
    stop = tl.minimum(stop, origin + OWN + limit)
    begin = tl.minimum(tl.maximum(origin - limit, 0) // OTHER * OTHER, stop)
    near = tl.minimum(tl.maximum(origin // OTHER * OTHER, begin), tl.maximum(stop, begin))
    far = tl.minimum(tl.cdiv(origin + OWN, OTHER) * OTHER, stop)
    return begin, near, tl.maximum(far, near), tl.maximum(stop, near)


@triton.jit(do_not_specialize=NOT_SPECIALISED)
def _forward(
    Q, K, V, O, L, LINE, LIMIT, valid, heads, nq, nk, past, scale,
    qb, qh, qn, kb, kh, kn, vb, vh, vn,
    D: tl.constexpr, OWN: tl.constexpr, OTHER: tl.constexpr,
    IS_CAUSAL: tl.constexpr, HAS_VALID: tl.constexpr, IS_WHOLE: tl.constexpr,
):  # fmt: skip
    # under a causal mask the last blocks have most keys, so they come first
    block, program = tl.num_programs(0) - 1 - tl.program_id(0), tl.program_id(1)
    b, h = program // heads, program % heads
    own, other = tl.arange(0, OWN), tl.arange(0, OTHER)
    rows = block * OWN + own
    q = head_rows(Q, b, h, nq, qb, qh, qn, rows, D)
    left, middle, right, slope, limit = _line_of(LINE, LIMIT, program, h)
    top = tl.full([OWN], -1e30, tl.float32)
    total = tl.zeros([OWN], tl.float32)
    context = tl.zeros([OWN, D], tl.float32)
    origin = block * OWN + past
    stop = nk
    if IS_CAUSAL:
        stop = tl.minimum(nk, origin + OWN)
    begin, near, far, end = _stretch_of(origin, stop, limit, OWN, OTHER)
    for stretch in tl.static_range(3):
        if stretch == 0:
            first, last = begin, near
        elif stretch == 1:
            first, last = near, far
        else:
            first, last = far, end
        for corner in range(first, last, OTHER):
            columns = corner + other
            k = head_rows(K, b, h, nk, kb, kh, kn, columns, D)
            v = head_rows(V, b, h, nk, vb, vh, vn, columns, D)
            scores = tl.dot(q, tl.trans(k)) * (scale * LOG2_E)
            scores = _biased(scores, own, columns - origin, left, middle, right, slope, stretch)
            if HAS_VALID or not IS_WHOLE or (IS_CAUSAL and stretch == 1):
                seen = _seen(
                    valid, b, rows[:, None], columns[None, :], nk, past,
                    IS_CAUSAL, HAS_VALID, stretch,
                )  # fmt: skip
                scores = tl.where(seen, scores, float("-inf"))
            _, top, total, context = softmax_step(scores, v, top, total, context)
    store_rows(O, L, b, h, heads, nq, rows, top, total, context, D, 0.0)


@triton.jit(do_not_specialize=NOT_SPECIALISED)
def _to_queries(
    Q, K, V, O, G, L, DQ, LEVEL, LINE, LIMIT, valid, heads, nq, nk, past, scale,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, ob, oh, on, gb, gh, gn,
    D: tl.constexpr, OWN: tl.constexpr, OTHER: tl.constexpr,
    IS_CAUSAL: tl.constexpr, HAS_VALID: tl.constexpr, IS_WHOLE: tl.constexpr,
):  # fmt: skip
    block, program = tl.num_programs(0) - 1 - tl.program_id(0), tl.program_id(1)
    b, h = program // heads, program % heads
    own, other = tl.arange(0, OWN), tl.arange(0, OTHER)
    rows = block * OWN + own
    q = head_rows(Q, b, h, nq, qb, qh, qn, rows, D)
    o = head_rows(O, b, h, nq, ob, oh, on, rows, D)
    g = head_rows(G, b, h, nq, gb, gh, gn, rows, D)
    at = program.to(tl.int64) * nq + rows
    lse = tl.load(L + at, mask=rows < nq, other=0.0) * LOG2_E
    level = levels_of(o, g)
    tl.store(LEVEL + at, level, mask=rows < nq)
    left, middle, right, slope, limit = _line_of(LINE, LIMIT, program, h)
    d_query = tl.zeros([OWN, D], tl.float32)
    origin = block * OWN + past
    stop = nk
    if IS_CAUSAL:
        stop = tl.minimum(nk, origin + OWN)
    begin, near, far, end = _stretch_of(origin, stop, limit, OWN, OTHER)
    for stretch in tl.static_range(3):
        if stretch == 0:
            first, last = begin, near
        elif stretch == 1:
            first, last = near, far
        else:
            first, last = far, end
        for corner in range(first, last, OTHER):
            columns = corner + other
            k = head_rows(K, b, h, nk, kb, kh, kn, columns, D)
            v = head_rows(V, b, h, nk, vb, vh, vn, columns, D)
            scores = tl.dot(q, tl.trans(k)) * (scale * LOG2_E)
            scores = _biased(scores, own, columns - origin, left, middle, right, slope, stretch)
            if HAS_VALID or not IS_WHOLE or (IS_CAUSAL and stretch == 1):
                seen = _seen(
                    valid, b, rows[:, None], columns[None, :], nk, past,
                    IS_CAUSAL, HAS_VALID, stretch,
                )  # fmt: skip
                scores = tl.where(seen, scores, float("-inf"))
            weights = tl.exp2(scores - lse[:, None])
            d_scores = weights * (tl.dot(g, tl.trans(v)) - level[:, None])
            d_query = tl.dot(d_scores.to(k.dtype), k, d_query)
    out = DQ + ((b.to(tl.int64) * nq + rows[:, None]) * heads + h) * D + tl.arange(0, D)[None, :]
    tl.store(out, (d_query * scale).to(q.dtype), mask=(rows < nq)[:, None])


@triton.jit(do_not_specialize=NOT_SPECIALISED)
def _to_keys(
    Q, K, V, G, L, DK, DV, LEVEL, LINE, LIMIT, valid, heads, nq, nk, past, scale,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, gb, gh, gn,
    D: tl.constexpr, OWN: tl.constexpr, OTHER: tl.constexpr,
    IS_CAUSAL: tl.constexpr, HAS_VALID: tl.constexpr, IS_WHOLE: tl.constexpr,
):  # fmt: skip
    # the first keys are seen by most queries
    block, program = tl.program_id(0), tl.program_id(1)
    b, h = program // heads, program % heads
    own, other = tl.arange(0, OWN), tl.arange(0, OTHER)
    columns = block * OWN + own
    k = head_rows(K, b, h, nk, kb, kh, kn, columns, D)
    v = head_rows(V, b, h, nk, vb, vh, vn, columns, D)
    left, middle, right, slope, limit = _line_of(LINE, LIMIT, program, h)
    d_key = tl.zeros([OWN, D], tl.float32)
    d_value = tl.zeros([OWN, D], tl.float32)
    # the row at the position of the first key; rows before it have these keys on their right
    origin = block * OWN - past
    begin, near, far, end = _stretch_of(origin, nq, limit, OWN, OTHER)
    if IS_CAUSAL:
        begin = near
    for stretch in tl.static_range(3):
        if stretch == 0:
            first, last = begin, near
        elif stretch == 1:
            first, last = near, far
        else:
            first, last = far, end
        for corner in range(first, last, OTHER):
            rows = corner + other
            q = head_rows(Q, b, h, nq, qb, qh, qn, rows, D)
            g = head_rows(G, b, h, nq, gb, gh, gn, rows, D)
            at = program.to(tl.int64) * nq + rows
            lse = tl.load(L + at, mask=rows < nq, other=0.0) * LOG2_E
            level = tl.load(LEVEL + at, mask=rows < nq, other=0.0)
            # a row of the tile is a key: its products need no transposed weights
            scores = tl.dot(k, tl.trans(q)) * (scale * LOG2_E)
            scores = _biased(scores, own, rows - origin, right, middle, left, slope, stretch)
            if HAS_VALID or not IS_WHOLE or (IS_CAUSAL and stretch == 1):
                seen = _seen(
                    valid, b, rows[None, :], columns[:, None], nk, past,
                    IS_CAUSAL, HAS_VALID, stretch,
                )  # fmt: skip
                scores = tl.where(seen, scores, float("-inf"))
            weights = tl.exp2(scores - lse[None, :])
            # rows past the last have zeros for queries and gradients, and so add nothing
            d_value = tl.dot(weights.to(g.dtype), g, d_value)
            d_scores = weights * (tl.dot(v, tl.trans(g)) - level[None, :])
            d_key = tl.dot(d_scores.to(q.dtype), q, d_key)
    out = ((b.to(tl.int64) * nk + columns[:, None]) * heads + h) * D + tl.arange(0, D)[None, :]
    tl.store(DK + out, (d_key * scale).to(k.dtype), mask=(columns < nk)[:, None])
    tl.store(DV + out, d_value.to(v.dtype), mask=(columns < nk)[:, None])


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    numbers: Tensor,
    limit: Tensor,
    valid: Tensor | None,
    past: int,
    is_causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor]:
    query, key, value = (plain(x) for x in (query, key, value))
    (b, h, nq, _), nk = query.shape, key.shape[-2]
    out, lse = _results(query)
    options = FORWARD.options(query, valid, is_whole=nk % FORWARD.other == 0, is_causal=is_causal)
    _forward[(triton.cdiv(nq, FORWARD.own), b * h)](
        query, key, value, out, lse, numbers, limit, existing(valid, query), h, nq, nk, past, scale,
        *strides_of(query, key, value), **options,
    )  # fmt: skip
    return out, lse


def _differentiate(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    numbers: Tensor,
    limit: Tensor,
    valid: Tensor | None,
    past: int,
    is_causal: bool,
    scale: float,
) -> tuple[Tensor, ...]:
    grad, query, key, value, out = (plain(x) for x in (grad, query, key, value, out))
    (b, h, nq, _), nk = query.shape, key.shape[-2]
    d_query, d_key, d_value = _gradients(grad, query, key)
    level, exists = torch.empty_like(lse), existing(valid, query)
    sizes = (h, nq, nk, past, scale, *strides_of(query, key, value))
    options = TO_QUERIES.options(
        query, valid, is_whole=nk % TO_QUERIES.other == 0, is_causal=is_causal
    )
    _to_queries[(triton.cdiv(nq, TO_QUERIES.own), b * h)](
        query, key, value, out, grad, lse, d_query, level, numbers, limit, exists, *sizes,
        *strides_of(out, grad), **options,
    )  # fmt: skip
    options = TO_KEYS.options(query, valid, is_whole=nk % TO_KEYS.own == 0, is_causal=is_causal)
    _to_keys[(triton.cdiv(nk, TO_KEYS.own), b * h)](
        query, key, value, grad, lse, d_key, d_value, level, numbers, limit, exists, *sizes,
        *strides_of(grad), **options,
    )  # fmt: skip
    return d_query, d_key, d_value


def _results(query: Tensor, *others: object) -> tuple[Tensor, Tensor]:
    """Empty tensors for the results of `_attend`."""
    return like_rows(query), query.new_empty(query.shape[:-1], dtype=torch.float32)


def _gradients(grad: Tensor, query: Tensor, key: Tensor, *others: object) -> tuple[Tensor, ...]:
    """Empty tensors for the results of `_differentiate`."""
    return like_rows(query), like_rows(key), like_rows(key)


# registered as torch operators, which torch.compile does not trace into
_LIBRARY = torch.library.Library("regard", "FRAGMENT")
_SETTINGS = "Tensor numbers, Tensor limit, Tensor? valid, int past, bool causal, float scale"
_LIBRARY.define(f"sloped(Tensor q, Tensor k, Tensor v, {_SETTINGS}) -> (Tensor, Tensor)")
_LIBRARY.define(
    "sloped_backward(Tensor g, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse,"
    f" {_SETTINGS}) -> (Tensor, Tensor, Tensor)"
)
for _name, _compute, _room in (
    ("sloped", _attend, _results),
    ("sloped_backward", _differentiate, _gradients),
):
    _LIBRARY.impl(_name, _compute, "CUDA")
    _LIBRARY.impl(_name, _room, "Meta")
