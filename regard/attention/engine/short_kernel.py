"""Short kernel: softmax attention of short sequences on a GPU, one program for each head.

    context = softmax(scale · q kᵀ) v,   lse = log of each row's normaliser

A head's matrix of at most 64 keys fits into registers, so that only inputs and results use memory;
the large kernels, made for long rows, waste most of their tiles here. Written in Triton, which
comes with torch where there is a GPU; import this module only there.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention.engine.kernels import like_rows
from regard.attention.engine.shared_kernel import existing, head_rows, levels_of, plain


@triton.jit
def _seen(valid, b, nq, nk, rows, columns, IS_CAUSAL: tl.constexpr, HAS_VALID: tl.constexpr):
    """Which pairs exist and may see each other."""
    seen = (columns < nk)[None, :] & (rows < nq)[:, None]
    if HAS_VALID:
        exists = tl.load(valid + b * nk + columns, mask=columns < nk, other=0)
        seen = seen & (exists != 0)[None, :]
    if IS_CAUSAL:
        seen = seen & (columns[None, :] <= rows[:, None])
    return seen


@triton.jit(do_not_specialize=["nq", "nk", "heads"])
def _forward(
    Q, K, V, O, L, valid, heads, nq, nk, scale,
    qb, qh, qn, kb, kh, kn, vb, vh, vn,
    D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    IS_CAUSAL: tl.constexpr, HAS_VALID: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    b, h = program // heads, program % heads
    rows, columns, wide = tl.arange(0, ROWS), tl.arange(0, COLUMNS), tl.arange(0, D)[None, :]
    q = head_rows(Q, b, h, nq, qb, qh, qn, rows, D)
    k = head_rows(K, b, h, nk, kb, kh, kn, columns, D)
    v = head_rows(V, b, h, nk, vb, vh, vn, columns, D)
    seen = _seen(valid, b, nq, nk, rows, columns, IS_CAUSAL, HAS_VALID)
    scores = tl.where(seen, tl.dot(q, tl.trans(k)) * scale, -1e30)
    top = tl.max(scores, 1)
    weights = tl.where(seen, tl.exp(scores - top[:, None]), 0.0)
    total = tl.sum(weights, 1)
    # a row that sees nothing gives zeros
    is_empty = total == 0.0
    context = tl.dot(weights.to(v.dtype), v) / tl.where(is_empty, 1.0, total)[:, None]
    out = O + ((b.to(tl.int64) * nq + rows[:, None]) * heads + h) * D + wide
    tl.store(out, context.to(v.dtype), mask=(rows < nq)[:, None])
    tl.store(L + program.to(tl.int64) * nq + rows,
             tl.where(is_empty, 0.0, top + tl.log(tl.where(is_empty, 1.0, total))),
             mask=rows < nq)  # fmt: skip


@triton.jit(do_not_specialize=["nq", "nk", "heads"])
def _backward(
    Q, K, V, O, L, G, DQ, DK, DV, valid, heads, nq, nk, scale,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, ob, oh, on, gb, gh, gn,
    D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    IS_CAUSAL: tl.constexpr, HAS_VALID: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    b, h = program // heads, program % heads
    rows, columns, wide = tl.arange(0, ROWS), tl.arange(0, COLUMNS), tl.arange(0, D)[None, :]
    q = head_rows(Q, b, h, nq, qb, qh, qn, rows, D)
    k = head_rows(K, b, h, nk, kb, kh, kn, columns, D)
    v = head_rows(V, b, h, nk, vb, vh, vn, columns, D)
    o = head_rows(O, b, h, nq, ob, oh, on, rows, D)
    g = head_rows(G, b, h, nq, gb, gh, gn, rows, D)
    lse = tl.load(L + program.to(tl.int64) * nq + rows, mask=rows < nq, other=0.0)
    seen = _seen(valid, b, nq, nk, rows, columns, IS_CAUSAL, HAS_VALID)
    scores = tl.dot(q, tl.trans(k)) * scale
    weights = tl.where(seen, tl.exp(tl.where(seen, scores - lse[:, None], 0.0)), 0.0)
    level = levels_of(o, g)
    d_scores = weights * (tl.dot(g, tl.trans(v)) - level[:, None]) * scale
    low = d_scores.to(v.dtype)
    base = b.to(tl.int64)
    at_rows = ((base * nq + rows[:, None]) * heads + h) * D + wide
    at_columns = ((base * nk + columns[:, None]) * heads + h) * D + wide
    tl.store(DQ + at_rows, tl.dot(low, k).to(v.dtype), mask=(rows < nq)[:, None])
    tl.store(DK + at_columns, tl.dot(tl.trans(low), q).to(v.dtype), mask=(columns < nk)[:, None])
    d_value = tl.dot(tl.trans(weights.to(v.dtype)), g)
    tl.store(DV + at_columns, d_value.to(v.dtype), mask=(columns < nk)[:, None])


def _attend(
    query: Tensor, key: Tensor, value: Tensor, valid: Tensor | None, is_causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    """Context (laid out as `b q h d`, ready to be joined) and log-sum-exp."""
    b, h, nq, d = query.shape
    nk = key.shape[-2]
    query, key, value = (plain(x) for x in (query, key, value))
    context, lse = _results(query)
    _forward[(b * h,)](
        query, key, value, context, lse, existing(valid, query), h, nq, nk, scale,
        *query.stride()[:3], *key.stride()[:3], *value.stride()[:3],
        D=d, ROWS=tile_side(nq), COLUMNS=tile_side(nk), IS_CAUSAL=is_causal,
        HAS_VALID=valid is not None, num_warps=tile_warps(nq, nk),
    )  # fmt: skip
    return context, lse


def _results(query: Tensor, *others: object) -> tuple[Tensor, Tensor]:
    """Empty tensors for the results of `_attend`."""
    b, h, nq, _ = query.shape
    return like_rows(query, nq), query.new_empty(b, h, nq, dtype=torch.float32)


def _differentiate(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    context: Tensor,
    lse: Tensor,
    valid: Tensor | None,
    is_causal: bool,
    scale: float,
) -> tuple[Tensor, ...]:
    """Gradients of query, key and value."""
    b, h, nq, d = query.shape
    nk = key.shape[-2]
    query, key, value, context, grad = (plain(x) for x in (query, key, value, context, grad))
    found = _gradients(grad, query, key)
    _backward[(b * h,)](
        query, key, value, context, lse, grad, *found, existing(valid, query), h, nq, nk, scale,
        *query.stride()[:3], *key.stride()[:3], *value.stride()[:3], *context.stride()[:3],
        *grad.stride()[:3],
        D=d, ROWS=tile_side(nq), COLUMNS=tile_side(nk), IS_CAUSAL=is_causal,
        HAS_VALID=valid is not None, num_warps=tile_warps(nq, nk),
    )  # fmt: skip
    return found


def _gradients(grad: Tensor, query: Tensor, key: Tensor, *others: object) -> tuple[Tensor, ...]:
    """Empty tensors for the results of `_differentiate`."""
    nq, nk = query.shape[-2], key.shape[-2]
    return like_rows(query, nq), like_rows(query, nk), like_rows(query, nk)


# registered as torch operators, which torch.compile does not trace into
_LIBRARY = torch.library.Library("regard", "DEF")
_LIBRARY.define(
    "tile(Tensor q, Tensor k, Tensor v, Tensor? valid, bool causal, float scale)"
    " -> (Tensor, Tensor)"
)
_LIBRARY.define(
    "tile_backward(Tensor g, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor? valid,"
    " bool causal, float scale) -> (Tensor, Tensor, Tensor)"
)
for _name, _compute, _room in (
    ("tile", _attend, _results),
    ("tile_backward", _differentiate, _gradients),
):
    _LIBRARY.impl(_name, _compute, "CUDA")
    _LIBRARY.impl(_name, _room, "Meta")


class AttendInATile(torch.autograd.Function):
    """Context and log-sum-exp, differentiable in query, key and value."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        valid: Tensor | None,
        is_causal: bool,
        scale: float,
    ) -> tuple[Tensor, Tensor]:
        """Attend."""
        out, lse = torch.ops.regard.tile(query, key, value, valid, is_causal, scale)
        ctx.save_for_backward(query, key, value, out, lse, valid)
        ctx.is_causal, ctx.scale = is_causal, scale
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """Rebuild the weights and differentiate."""
        found = torch.ops.regard.tile_backward(grad, *ctx.saved_tensors, ctx.is_causal, ctx.scale)
        return (*found, None, None, None)


def tile_side(n: int) -> int:
    """The tile's side: a power of two, 16 at least."""
    return max(16, 1 << (n - 1).bit_length())


def tile_warps(nq: int, nk: int) -> int:
    """Groups of threads for a tile."""
    return 4 if max(nq, nk) > 32 else 2
