"""Band kernel: the keys near each query, joined with what far kernels gave for the others.

    c = j - i + reach,   score[i,j] = scale · q[i] · k[j] + by_distance[i,c]     |j - i| < reach
    far left:   lse_left[i] + by_distance[i,0],          context_left[i] + to_values[0]
    far right:  lse_right[i] + by_distance[i,2·reach],   context_right[i] + to_values[2·reach]

A row begins with the two far attentions, as if it had seen their keys already, and goes on over the
few tiles that its band reaches. The far right runs with rows and keys in reverse order, in which it
is causal; `turned_rows` makes that order. Written in Triton, which comes with torch where there is
a GPU; import this module only there.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.attention.engine.related_kernel import table_of
from regard.attention.engine.shared_kernel import LOG2_E, existing, plain, strides_of

TURNED = 128
"""Rows that are turned at a time."""

NOT_SPECIALISED = ["heads", "n", "reach", "lead", "rb", "rh", "rn", "th"]
"""Numbers that get no kernels of their own for 1 and for multiples of 16."""


@triton.jit
def rows_at(pointer, b, h, at, first, end, stride_b, stride_h, stride_n, D: tl.constexpr):
    """One head's rows; zero before `first`, which is the tensor's own first row, and from `end`."""
    head = pointer + b.to(tl.int64) * stride_b + h.to(tl.int64) * stride_h
    places = (at - first)[:, None].to(tl.int64) * stride_n
    is_row = ((at >= first) & (at < end))[:, None]
    return tl.load(head + places + tl.arange(0, D)[None, :], mask=is_row, other=0.0)


@triton.jit
def seen_in_band(
    valid, b, rows, columns, n, reach, IS_CAUSAL: tl.constexpr, HAS_VALID: tl.constexpr
):
    """The pairs of the band that exist and may see each other; one axis for rows, one for keys."""
    offsets, is_key = columns - rows, (columns >= 0) & (columns < n)
    seen = (offsets > -reach) & (offsets < reach) & (rows >= 0) & (rows < n) & is_key
    if HAS_VALID:
        exists = tl.load(valid + b.to(tl.int64) * n + columns, mask=is_key, other=0)
        seen = seen & (exists != 0)
    if IS_CAUSAL:
        seen = seen & (offsets <= 0)
    return seen


@triton.jit
def at_band(numbers, rows, columns, n, reach, stride):
    """A row's numbers by distance at every pair of the band."""
    offsets = columns - rows
    is_inner = (offsets > -reach) & (offsets < reach) & (rows >= 0) & (rows < n)
    cell = rows * stride + (offsets + reach)
    return tl.load(numbers + cell, mask=is_inner, other=0.0).to(tl.float32)


@triton.jit
def far_number(numbers, rows, first, end, other: tl.constexpr):
    """A number of each row from a tensor that begins at row `first`."""
    return tl.load(numbers + (rows - first), mask=(rows >= first) & (rows < end), other=other)


@triton.jit
def by_distance_of(tile, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """Rotate each row of a tile so that columns are offsets.

    Column t of row i becomes pair (i, (i + t) % WIDTH): where the first result is True, offset
    t - WIDTH from the tile's corner, else offset t.
    """
    turned = tl.arange(0, ROWS)[:, None] + tl.arange(0, WIDTH)[None, :]
    return turned >= WIDTH, tl.gather(tile, turned % WIDTH, 1)


@triton.jit
def band_vectors(table, begin, reach, WIDTH: tl.constexpr, E: tl.constexpr):
    """The vectors of the offsets from `begin` on, zeros outside the band."""
    c = begin + tl.arange(0, WIDTH)
    is_inner = ((c > -reach) & (c < reach))[:, None]
    return tl.load(table + (c + reach)[:, None] * E + tl.arange(0, E)[None, :], is_inner, other=0.0)


@triton.jit(do_not_specialize=NOT_SPECIALISED)
def _forward(
    Q, K, V, R, T, CL, LL, CR, LR, O, L, valid, heads, n, reach, lead, scale,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, rb, rh, rn, th, clb, clh, cln, crb, crh, crn, ob, oh, on,
    D: tl.constexpr, E: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
    HAS_LEFT: tl.constexpr, HAS_RIGHT: tl.constexpr, IS_CAUSAL: tl.constexpr,
    HAS_VALID: tl.constexpr, HAS_VALUES: tl.constexpr, IS_ONE_TILE: tl.constexpr,
):  # fmt: skip
    block, program = tl.program_id(0), tl.program_id(1)
    b, h = program // heads, program % heads
    begin = block * ROWS
    rows = begin + tl.arange(0, ROWS)
    over_e = tl.arange(0, E)
    q = rows_at(Q, b, h, rows, 0, n, qb, qh, qn, D)
    relation, table = R + b.to(tl.int64) * rb + h * rh, T + h * th
    far = program.to(tl.int64) * (n - reach)
    top = tl.full([ROWS], -1e30, tl.float32)
    left, right = top, top
    if HAS_LEFT:
        number = tl.load(relation + rows.to(tl.int64) * rn, mask=rows < n, other=0.0)
        left = far_number(LL + far, rows, reach, n, float("-inf")) + number.to(tl.float32)
        left = left * LOG2_E
        top = tl.maximum(top, left)
    if HAS_RIGHT:
        number = tl.load(relation + rows.to(tl.int64) * rn + 2 * reach, mask=rows < n, other=0.0)
        # the far right has its rows in reverse order
        back = n - 1 - rows
        right = far_number(LR + far, back, reach, n, float("-inf")) + number.to(tl.float32)
        right = right * LOG2_E
        top = tl.maximum(top, right)
    total = tl.zeros([ROWS], tl.float32)
    context = tl.zeros([ROWS, E], tl.float32)
    if HAS_LEFT:
        share = tl.exp2(left - top)
        total += share
        from_far = rows_at(CL, b, h, rows, reach, n, clb, clh, cln, E).to(tl.float32)
        if HAS_VALUES:
            from_far += tl.load(table + over_e).to(tl.float32)[None, :]
        context += share[:, None] * from_far
    if HAS_RIGHT:
        share = tl.exp2(right - top)
        total += share
        from_far = rows_at(CR, b, h, n - 1 - rows, reach, n, crb, crh, crn, E).to(tl.float32)
        if HAS_VALUES:
            from_far += tl.load(table + 2 * reach * E + over_e).to(tl.float32)[None, :]
        context += share[:, None] * from_far
    for corner in range(begin - lead, begin + ROWS + reach - 1, WIDTH):
        columns = corner + tl.arange(0, WIDTH)
        k = rows_at(K, b, h, columns, 0, n, kb, kh, kn, D)
        v = rows_at(V, b, h, columns, 0, n, vb, vh, vn, E)
        seen = seen_in_band(
            valid, b, rows[:, None], columns[None, :], n, reach, IS_CAUSAL, HAS_VALID
        )
        related = at_band(relation, rows[:, None], columns[None, :], n, reach, rn)
        scores = (tl.dot(q, tl.trans(k)) * scale + related) * LOG2_E
        scores = tl.where(seen, scores, -1e30)
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = tl.where(seen, tl.exp2(scores - higher[:, None]), 0.0)
        shrink = tl.exp2(top - higher)
        total = total * shrink + tl.sum(weights, 1)
        low = weights.to(v.dtype)
        context = tl.dot(low, v, context * shrink[:, None])
        if HAS_VALUES:
            is_lower, turned = by_distance_of(low, ROWS, WIDTH)
            zero = tl.zeros_like(turned)
            near = band_vectors(table, corner - begin, reach, WIDTH, E)
            context = tl.dot(tl.where(is_lower, zero, turned), near, context)
            if not IS_ONE_TILE:
                near = band_vectors(table, corner - begin - WIDTH, reach, WIDTH, E)
                context = tl.dot(tl.where(is_lower, turned, zero), near, context)
        top = higher
    # a row that sees nothing gives zeros
    is_empty = total == 0.0
    some = tl.where(is_empty, 1.0, total)
    out = O + b.to(tl.int64) * ob + h.to(tl.int64) * oh + rows[:, None].to(tl.int64) * on
    tl.store(
        out + over_e[None, :],
        (context / some[:, None]).to(O.dtype.element_ty),
        mask=(rows < n)[:, None],
    )
    lse = tl.where(is_empty, 0.0, top / LOG2_E + tl.log(some))
    tl.store(L + program.to(tl.int64) * n + rows, lse, mask=rows < n)


@triton.jit
def _turned_vectors(
    X, b, h, rows, first, n, xb, xh, xn, D: tl.constexpr, IS_REVERSED: tl.constexpr
):
    source = first + rows
    if IS_REVERSED:
        source = first + n - 1 - rows
    place = source[:, None].to(tl.int64) * xn + tl.arange(0, D)[None, :]
    head = X + b.to(tl.int64) * xb + h.to(tl.int64) * xh
    return tl.load(head + place, mask=(rows < n)[:, None], other=0.0)


@triton.jit(do_not_specialize=["heads", "n", "f0", "f1", "f2", "f3", "f4"])
def _turn(
    X0, X1, X2, X3, X4, Y, T, heads, n, th, f0, f1, f2, f3, f4,
    b0, h0, n0, b1, h1, n1, b2, h2, n2, b3, h3, n3, b4, h4, n4,
    D: tl.constexpr, ROWS: tl.constexpr, IS_REVERSED: tl.constexpr, HAS_TABLE: tl.constexpr,
):  # fmt: skip
    block, program, which = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    b, h = program // heads, program % heads
    rows, over_d = block * ROWS + tl.arange(0, ROWS), tl.arange(0, D)
    if which == 0:
        vectors = _turned_vectors(X0, b, h, rows, f0, n, b0, h0, n0, D, IS_REVERSED)
    elif which == 1:
        vectors = _turned_vectors(X1, b, h, rows, f1, n, b1, h1, n1, D, IS_REVERSED)
    elif which == 2:
        vectors = _turned_vectors(X2, b, h, rows, f2, n, b2, h2, n2, D, IS_REVERSED)
    elif which == 3:
        vectors = _turned_vectors(X3, b, h, rows, f3, n, b3, h3, n3, D, IS_REVERSED)
    else:
        vectors = _turned_vectors(X4, b, h, rows, f4, n, b4, h4, n4, D, IS_REVERSED)
    if HAS_TABLE:
        less = tl.load(T + h * th + over_d).to(tl.float32)
        less = tl.where(which == 0, less, 0.0)
        vectors = (vectors.to(tl.float32) - less[None, :]).to(vectors.dtype)
    at = (which * tl.num_programs(1) + program).to(tl.int64) * n + rows[:, None]
    tl.store(Y + at * D + over_d[None, :], vectors, mask=(rows < n)[:, None])


class Shape(NamedTuple):
    """How a band is cut: rows of a program, keys of a tile, and keys before the first row."""

    rows: int
    width: int
    lead: int

    @classmethod
    def of(cls, reach: int) -> "Shape":
        """One tile for a short reach, else several."""
        if reach <= 17:
            return cls(32, 64, 16)
        return cls(64, 64, triton.cdiv(reach - 1, 64) * 64)

    @property
    def options(self) -> dict[str, int]:
        """The kernels' constants; a single tile needs none loaded ahead."""
        stages = 1 if self.lead < self.rows else 2
        sizes = {"ROWS": self.rows, "WIDTH": self.width}
        return {**sizes, "num_warps": self.rows // 16, "num_stages": stages}


def attend_band(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    by_distance: Tensor,
    to_values: Tensor | None,
    far: list[Tensor],
    valid: Tensor | None,
    reach: int,
    is_causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Context and log-sum-exp of whole rows; `far` holds those of the far left, then of the right.

    A far log-sum-exp is minus infinity for a row that sees nothing there, and leaves the relation
    out.
    """
    query, key, value, by_distance = (plain(x) for x in (query, key, value, by_distance))
    context, lse = empty_results(query, key, value)
    b, h, n, d = query.shape
    table, table_h = table_of(to_values, value)
    # any tensors serve for arguments that are never read
    left, right = (far[:2] or [query, lse]), (far[2:] or [query, lse])
    shape = Shape.of(reach)
    _forward[(triton.cdiv(n, shape.rows), b * h)](
        query, key, value, by_distance, table, *left, *right, context, lse, existing(valid, query),
        h, n, reach, shape.lead, scale,
        *strides_of(query, key, value), *by_distance.expand(b, h, n, -1).stride()[:3], table_h,
        *strides_of(left[0], right[0], context),
        D=d, E=value.shape[-1], HAS_LEFT=len(far) > 0, HAS_RIGHT=len(far) > 2,
        IS_CAUSAL=is_causal, HAS_VALID=valid is not None, HAS_VALUES=to_values is not None,
        IS_ONE_TILE=shape.lead < shape.rows, **shape.options,
    )  # fmt: skip
    return context, lse


def empty_results(
    query: Tensor, key: Tensor, value: Tensor, *others: object
) -> tuple[Tensor, Tensor]:
    """Empty tensors for the results of `attend_band`."""
    return torch.empty_like(value), query.new_empty(query.shape[:-1], dtype=torch.float32)


def _turned(
    vectors: list[Tensor], first: list[int], n: int, is_reversed: bool, less: Tensor | None
) -> Tensor:
    """`n` rows of each from its `first` on, maybe reversed; those of the first less a vector."""
    vectors, found = [plain(x) for x in vectors], _rows(vectors, first, n)
    table, table_h = table_of(less, vectors[0])
    k, b, h, _, d = found.shape
    # any tensors serve for arguments that are never read
    every, begins = (vectors * 5)[:5], (first * 5)[:5]
    _turn[(triton.cdiv(n, TURNED), b * h, k)](
        *every, found, table, h, n, table_h, *begins, *strides_of(*every),
        D=d, ROWS=TURNED, IS_REVERSED=is_reversed, HAS_TABLE=less is not None, num_warps=4,
    )  # fmt: skip
    return found


def _rows(vectors: list[Tensor], first: list[int], n: int, *others: object) -> Tensor:
    """An empty tensor for the result of `_turned`."""
    b, h, _, d = vectors[0].shape
    return vectors[0].new_empty(len(vectors), b, h, n, d)


# registered as torch operators, which torch.compile does not trace into
_LIBRARY = torch.library.Library("regard", "FRAGMENT")
_LIBRARY.define(
    "band(Tensor q, Tensor k, Tensor v, Tensor by_distance, Tensor? to_values, Tensor[] far,"
    " Tensor? valid, int reach, bool causal, float scale) -> (Tensor, Tensor)"
)
_LIBRARY.define(
    "turned_rows(Tensor[] x, int[] first, int n, bool reversed, Tensor? less) -> Tensor"
)
for _name, _compute, _room in (
    ("band", attend_band, empty_results),
    ("turned_rows", _turned, _rows),
):
    _LIBRARY.impl(_name, _compute, "CUDA")
    _LIBRARY.impl(_name, _room, "Meta")
