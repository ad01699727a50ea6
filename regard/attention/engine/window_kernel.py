"""Window kernel: local attention on a GPU, computed in tiles of rows that are sorted by centre.

    a[i,j] = softmax over |j - floor(p[i])| <= D of scale · q[i] · k[j]  ·  exp(-rate (j - p[i])²)

Rows that are neighbours in the text may look at opposite ends of it. Sorted by their centres, rows
of one tile look at nearly the same keys, so that the matrix becomes a band, which tensor cores
multiply; and the rows whose windows reach a block of keys are consecutive, so that one program
sums the gradients of its keys, always in the same order. No window is written to memory: the
backward pass rebuilds the weights from each row's log-sum-exp. Written in Triton, which comes with
torch where there is a GPU; import this module only there.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention.engine.kernels import like_rows
from regard.attention.engine.shared_kernel import existing, levels_of, plain


class TileSize(NamedTuple):
    """Rows and keys of a tile, and the warps that compute it."""

    rows: int
    keys: int
    warps: int


@triton.jit
def _block_and_head(n, SIZE: tl.constexpr):
    """Which block of which head the program computes."""
    n_blocks = tl.cdiv(n, SIZE)
    return tl.program_id(0) % n_blocks, tl.program_id(0) // n_blocks


@triton.jit
def _vectors(
    pointer, b, h, stride_b, stride_h, stride_n, at, exists,
    WIDTH: tl.constexpr, POWER: tl.constexpr,
):  # fmt: skip
    """Vectors of one head at any positions, filled up with zeros to a power of two."""
    wide = tl.arange(0, POWER)[None, :]
    head = pointer + b.to(tl.int64) * stride_b + h.to(tl.int64) * stride_h
    mask = exists[:, None]
    if WIDTH != POWER:
        mask = mask & (wide < WIDTH)
    return tl.load(head + at[:, None].to(tl.int64) * stride_n + wide, mask=mask, other=0.0)


@triton.jit
def _keep(pointer, numbers, b, h, heads, n, at, exists, WIDTH: tl.constexpr, POWER: tl.constexpr):
    """Write vectors of one head, laid out as `b n h d`."""
    wide = tl.arange(0, POWER)[None, :]
    places = ((b.to(tl.int64) * n + at[:, None]) * heads + h) * WIDTH + wide
    mask = exists[:, None]
    if WIDTH != POWER:
        mask = mask & (wide < WIDTH)
    tl.store(pointer + places, numbers.to(pointer.dtype.element_ty), mask=mask)


@triton.jit
def _window(centre, rows, exists, nk, past, reach, IS_CAUSAL: tl.constexpr):
    """First and last key of each row; a row without a key ends before the first."""
    middle = tl.floor(centre).to(tl.int32)
    first = tl.maximum(middle - reach, 0)
    last = tl.minimum(middle + reach, nk - 1)
    if IS_CAUSAL:
        last = tl.minimum(last, rows + past)
    return first, tl.where(exists & (first <= last), last, -1)


@triton.jit
def _seen(valid, b, nk, columns, first, last, HAS_VALID: tl.constexpr):
    """Which keys of a tile lie in the rows' windows, and exist."""
    seen = (columns[None, :] >= first[:, None]) & (columns[None, :] <= last[:, None])
    if HAS_VALID:
        real = tl.load(valid + b.to(tl.int64) * nk + columns, mask=columns < nk, other=0)
        seen = seen & (real != 0)[None, :]
    return seen


@triton.jit
def _fade(columns, centre, rate):
    """How much of its share each key keeps, by its distance from the centre."""
    away = columns[None, :].to(tl.float32) - centre[:, None]
    return tl.exp(-rate * away * away)


@triton.jit
def _next_key(first, last, start, nk):
    """The first key at `start` or later that a row still has to see; `nk` if there is none."""
    return tl.min(tl.where(last >= start, tl.maximum(first, start), nk), 0)


@triton.jit(do_not_specialize=["nq", "nk", "heads", "past", "reach"])
def _forward(
    Q, K, V, C, order, O, L, valid, heads, nq, nk, past, reach, rate, scale,
    qb, qh, qn, kb, kh, kn, vb, vh, vn,
    D: tl.constexpr, DP: tl.constexpr, DV: tl.constexpr, DVP: tl.constexpr,
    ROWS: tl.constexpr, KEYS: tl.constexpr,
    IS_CAUSAL: tl.constexpr, HAS_VALID: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    block, head = _block_and_head(nq, ROWS)
    b, h = head // heads, head % heads
    slots = block * ROWS + tl.arange(0, ROWS)
    exists, of_head = slots < nq, head.to(tl.int64) * nq
    rows = tl.load(order + of_head + slots, mask=exists, other=0)
    centre = tl.load(C + of_head + rows, mask=exists, other=0.0)
    first, last = _window(centre, rows, exists, nk, past, reach, IS_CAUSAL)
    q = _vectors(Q, b, h, qb, qh, qn, rows, exists, D, DP)
    top = tl.full([ROWS], -1e30, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    context = tl.zeros([ROWS, DVP], tl.float32)
    start = _next_key(first, last, 0, nk)
    while start < nk:
        columns = start + tl.arange(0, KEYS)
        k = _vectors(K, b, h, kb, kh, kn, columns, columns < nk, D, DP)
        v = _vectors(V, b, h, vb, vh, vn, columns, columns < nk, DV, DVP)
        seen = _seen(valid, b, nk, columns, first, last, HAS_VALID)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
        scores = tl.where(seen, scores, -1e30)
        higher = tl.maximum(top, tl.max(scores, 1))
        shares = tl.where(seen, tl.exp(scores - higher[:, None]), 0.0)
        shrink = tl.exp(top - higher)
        total = total * shrink + tl.sum(shares, 1)
        faded = (shares * _fade(columns, centre, rate)).to(v.dtype)
        context = context * shrink[:, None] + tl.dot(faded, v, input_precision=PRECISION)
        top = higher
        start = _next_key(first, last, start + KEYS, nk)
    # a row that sees nothing gives zeros
    is_empty = total == 0.0
    some = tl.where(is_empty, 1.0, total)
    _keep(O, context / some[:, None], b, h, heads, nq, rows, exists, DV, DVP)
    lse = tl.where(is_empty, 0.0, top + tl.log(some))
    tl.store(L + of_head + rows, lse, mask=exists)


@triton.jit(do_not_specialize=["nq", "nk", "heads", "past", "reach"])
def _to_rows(
    Q, K, V, C, order, O, L, G, DQUERY, DCENTRE, LEVEL, valid,
    heads, nq, nk, past, reach, rate, scale,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, ob, oh, on, gb, gh, gn,
    D: tl.constexpr, DP: tl.constexpr, DV: tl.constexpr, DVP: tl.constexpr,
    ROWS: tl.constexpr, KEYS: tl.constexpr,
    IS_CAUSAL: tl.constexpr, HAS_VALID: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    block, head = _block_and_head(nq, ROWS)
    b, h = head // heads, head % heads
    slots = block * ROWS + tl.arange(0, ROWS)
    exists, of_head = slots < nq, head.to(tl.int64) * nq
    rows = tl.load(order + of_head + slots, mask=exists, other=0)
    centre = tl.load(C + of_head + rows, mask=exists, other=0.0)
    lse = tl.load(L + of_head + rows, mask=exists, other=0.0)
    first, last = _window(centre, rows, exists, nk, past, reach, IS_CAUSAL)
    q = _vectors(Q, b, h, qb, qh, qn, rows, exists, D, DP)
    o = _vectors(O, b, h, ob, oh, on, rows, exists, DV, DVP)
    g = _vectors(G, b, h, gb, gh, gn, rows, exists, DV, DVP)
    level = levels_of(o, g)
    tl.store(LEVEL + of_head + rows, level, mask=exists)
    d_query = tl.zeros([ROWS, DP], tl.float32)
    d_centre = tl.zeros([ROWS], tl.float32)
    start = _next_key(first, last, 0, nk)
    while start < nk:
        columns = start + tl.arange(0, KEYS)
        k = _vectors(K, b, h, kb, kh, kn, columns, columns < nk, D, DP)
        v = _vectors(V, b, h, vb, vh, vn, columns, columns < nk, DV, DVP)
        seen = _seen(valid, b, nk, columns, first, last, HAS_VALID)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale - lse[:, None]
        shares = tl.where(seen, tl.exp(tl.where(seen, scores, 0.0)), 0.0)
        d_weights = tl.dot(g, tl.trans(v), input_precision=PRECISION)
        weighed = shares * _fade(columns, centre, rate) * d_weights
        away = columns[None, :].to(tl.float32) - centre[:, None]
        d_centre += tl.sum(weighed * away, 1)
        d_scores = (weighed - shares * level[:, None]).to(k.dtype)
        d_query += tl.dot(d_scores, k, input_precision=PRECISION)
        start = _next_key(first, last, start + KEYS, nk)
    _keep(DQUERY, d_query * scale, b, h, heads, nq, rows, exists, D, DP)
    tl.store(DCENTRE + of_head + rows, d_centre * 2 * rate, mask=exists)


@triton.jit(do_not_specialize=["nq", "nk", "heads", "past", "reach"])
def _to_keys(
    Q, K, V, C, order, bounds, L, G, LEVEL, DKEY, DVALUE, valid,
    heads, nq, nk, past, reach, rate, scale,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, gb, gh, gn,
    D: tl.constexpr, DP: tl.constexpr, DV: tl.constexpr, DVP: tl.constexpr,
    ROWS: tl.constexpr, KEYS: tl.constexpr,
    IS_CAUSAL: tl.constexpr, HAS_VALID: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    block, head = _block_and_head(nk, KEYS)
    b, h = head // heads, head % heads
    columns, of_head = block * KEYS + tl.arange(0, KEYS), head.to(tl.int64) * nq
    is_key = columns < nk
    k = _vectors(K, b, h, kb, kh, kn, columns, is_key, D, DP)
    v = _vectors(V, b, h, vb, vh, vn, columns, is_key, DV, DVP)
    d_key = tl.zeros([KEYS, DP], tl.float32)
    d_value = tl.zeros([KEYS, DVP], tl.float32)
    at_bounds = bounds + tl.program_id(0).to(tl.int64) * 2
    begin, end = tl.load(at_bounds), tl.load(at_bounds + 1)
    for slot in range(begin, end, ROWS):
        slots = slot + tl.arange(0, ROWS)
        exists = slots < end
        rows = tl.load(order + of_head + slots, mask=exists, other=0)
        centre = tl.load(C + of_head + rows, mask=exists, other=0.0)
        lse = tl.load(L + of_head + rows, mask=exists, other=0.0)
        level = tl.load(LEVEL + of_head + rows, mask=exists, other=0.0)
        first, last = _window(centre, rows, exists, nk, past, reach, IS_CAUSAL)
        q = _vectors(Q, b, h, qb, qh, qn, rows, exists, D, DP)
        g = _vectors(G, b, h, gb, gh, gn, rows, exists, DV, DVP)
        seen = _seen(valid, b, nk, columns, first, last, HAS_VALID)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale - lse[:, None]
        shares = tl.where(seen, tl.exp(tl.where(seen, scores, 0.0)), 0.0)
        weights = shares * _fade(columns, centre, rate)
        d_weights = tl.dot(g, tl.trans(v), input_precision=PRECISION)
        d_scores = (weights * d_weights - shares * level[:, None]).to(q.dtype)
        d_key += tl.dot(tl.trans(d_scores), q, input_precision=PRECISION)
        d_value += tl.dot(tl.trans(weights.to(g.dtype)), g, input_precision=PRECISION)
    _keep(DKEY, d_key * scale, b, h, heads, nk, columns, is_key, D, DP)
    _keep(DVALUE, d_value, b, h, heads, nk, columns, is_key, DV, DVP)


def tile_of(query: Tensor, value: Tensor) -> TileSize:
    """The largest tile that the registers hold for these widths."""
    width = max(_power(query.shape[-1]), _power(value.shape[-1]))
    if query.dtype == torch.float32:
        few = TileSize(16, 32, 4) if width == 64 else TileSize(16, 16, 8)
        return TileSize(32, 32, 4) if width < 64 else few
    return TileSize(64, 32, 4) if width <= 128 else TileSize(16, 16, 4)


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    centre: Tensor,
    valid: Tensor | None,
    is_causal: bool,
    past: int,
    reach: int,
    rate: float,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Context (laid out as `b q h d`), log-sum-exp, and each head's rows sorted by centre."""
    b, h, nq, _ = query.shape
    query, key, value = (plain(x) for x in (query, key, value))
    context, lse, _ = _results(query, key, value)
    order = centre.sort(stable=True).indices.int()
    tile = tile_of(query, value)
    _forward[(triton.cdiv(nq, tile.rows) * b * h,)](
        query, key, value, centre, order, context, lse, existing(valid, query),
        h, nq, key.shape[-2], past, reach, rate, scale,
        *query.stride()[:3], *key.stride()[:3], *value.stride()[:3],
        **_constants(query, value, tile, valid, is_causal),
    )  # fmt: skip
    return context, lse, order


def _results(
    query: Tensor, key: Tensor, value: Tensor, *others: object
) -> tuple[Tensor, Tensor, Tensor]:
    """Empty tensors for the results of `_attend`."""
    rows = query.shape[:-1]
    lse, order = (query.new_empty(rows, dtype=kind) for kind in (torch.float32, torch.int32))
    return like_rows(value, rows[-1]), lse, order


def _differentiate(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    centre: Tensor,
    context: Tensor,
    lse: Tensor,
    order: Tensor,
    valid: Tensor | None,
    is_causal: bool,
    past: int,
    reach: int,
    rate: float,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of query, key, value and centre: first along the rows, then down the columns."""
    b, h, nq, _ = query.shape
    nk = key.shape[-2]
    grad, query, key, value, context = (plain(x) for x in (grad, query, key, value, context))
    d_query, d_key, d_value, d_centre = _gradients(grad, query, key, value, centre)
    level, tile, shown = torch.empty_like(lse), tile_of(query, value), existing(valid, query)
    sizes = (h, nq, nk, past, reach, rate, scale)
    strides = (*query.stride()[:3], *key.stride()[:3], *value.stride()[:3])
    constants = _constants(query, value, tile, valid, is_causal)
    _to_rows[(triton.cdiv(nq, tile.rows) * b * h,)](
        query, key, value, centre, order, context, lse, grad, d_query, d_centre, level, shown,
        *sizes, *strides, *context.stride()[:3], *grad.stride()[:3], **constants,
    )  # fmt: skip
    bounds = _bounds(centre, order, nk, reach, tile.keys)
    _to_keys[(bounds.shape[-2] * b * h,)](
        query, key, value, centre, order, bounds, lse, grad, level, d_key, d_value, shown,
        *sizes, *strides, *grad.stride()[:3], **constants,
    )  # fmt: skip
    return d_query, d_key, d_value, d_centre


def _gradients(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, centre: Tensor, *others: object
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Empty tensors for the results of `_differentiate`."""
    nq, nk = query.shape[-2], key.shape[-2]
    return (
        like_rows(query, nq),
        like_rows(key, nk),
        like_rows(value, nk),
        torch.empty_like(centre),
    )


def _bounds(centre: Tensor, order: Tensor, n_keys: int, reach: int, size: int) -> Tensor:
    """First and last (exclusive) of the sorted rows whose windows reach each block of keys."""
    middles = centre.gather(-1, order.long()).floor()
    begins = torch.arange(0, n_keys, size, device=centre.device, dtype=centre.dtype)
    # a window's middle lies at most `reach` before the block, or after it
    edges = torch.stack([begins - reach, begins + (size + reach)], -1).flatten()
    edges = edges.expand(*centre.shape[:-1], -1).contiguous()
    found = torch.searchsorted(middles, edges, out_int32=True)
    return found.unflatten(-1, (-1, 2))


def _constants(
    query: Tensor, value: Tensor, tile: TileSize, valid: Tensor | None, is_causal: bool
) -> dict[str, Any]:
    """What the kernels are compiled for."""
    d, dv = query.shape[-1], value.shape[-1]
    # tensor cores round single precision to ten bits, and take three products to be exact
    precision = "tf32x3" if query.dtype == torch.float32 else "tf32"
    return {
        "D": d, "DP": _power(d), "DV": dv, "DVP": _power(dv),
        "ROWS": tile.rows, "KEYS": tile.keys, "num_warps": tile.warps,
        "IS_CAUSAL": is_causal, "HAS_VALID": valid is not None, "PRECISION": precision,
    }  # fmt: skip


def _power(width: int) -> int:
    """The power of two that holds a vector, 16 at least."""
    return max(16, triton.next_power_of_2(width))


# registered as torch operators, which torch.compile does not trace into
_LIBRARY = torch.library.Library("regard", "FRAGMENT")
_LIBRARY.define(
    "windows(Tensor q, Tensor k, Tensor v, Tensor centre, Tensor? valid, bool causal, int past,"
    " int reach, float rate, float scale) -> (Tensor, Tensor, Tensor)"
)
_LIBRARY.define(
    "windows_backward(Tensor g, Tensor q, Tensor k, Tensor v, Tensor centre, Tensor out,"
    " Tensor lse, Tensor order, Tensor? valid, bool causal, int past, int reach, float rate,"
    " float scale) -> (Tensor, Tensor, Tensor, Tensor)"
)
for _name, _compute, _room in (
    ("windows", _attend, _results),
    ("windows_backward", _differentiate, _gradients),
):
    _LIBRARY.impl(_name, _compute, "CUDA")
    _LIBRARY.impl(_name, _room, "Meta")


class AttendInWindows(torch.autograd.Function):
    """Context and log-sum-exp, differentiable in query, key, value and centre."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        centre: Tensor,
        valid: Tensor | None,
        is_causal: bool,
        past: int,
        reach: int,
        rate: float,
        scale: float,
    ) -> tuple[Tensor, Tensor]:
        """Attend."""
        setting = (is_causal, past, reach, rate, scale)
        out, lse, order = torch.ops.regard.windows(query, key, value, centre, valid, *setting)
        ctx.save_for_backward(query, key, value, centre, out, lse, order, valid)
        ctx.setting = setting
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """Rebuild the weights and differentiate."""
        found = torch.ops.regard.windows_backward(grad, *ctx.saved_tensors, *ctx.setting)
        return (*found, None, None, None, None, None, None)
