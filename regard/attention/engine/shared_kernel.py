"""Shared kernel parts: how the kernels for GPUs load, sum and store rows.

Scores are in base 2, in which a GPU takes exponentials. Written in Triton, which comes with torch
where there is a GPU; import this module only there.
"""

import triton
import triton.language as tl
from torch import Tensor

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def head_rows(pointer, b, h, n, stride_b, stride_h, stride_n, at, D: tl.constexpr):
    """One head's rows; zero past the last."""
    wide = tl.arange(0, D)[None, :]
    first = pointer + b.to(tl.int64) * stride_b + h.to(tl.int64) * stride_h
    places = at[:, None].to(tl.int64) * stride_n
    return tl.load(first + places + wide, mask=(at < n)[:, None], other=0.0)


@triton.jit
def softmax_step(scores, v, top, total, context):
    """The weights of a tile, and each row's maximum, normaliser and context after it.

    Weights, normaliser and context are relative to the maximum.
    """
    higher = tl.maximum(top, tl.max(scores, 1))
    weights = tl.exp2(scores - higher[:, None])
    shrink = tl.exp2(top - higher)
    total = total * shrink + tl.sum(weights, 1)
    context = tl.dot(weights.to(v.dtype), v, context * shrink[:, None])
    return weights, higher, total, context


@triton.jit
def store_rows(
    O, L, b, h, heads, n, rows, top, total, context, D: tl.constexpr, EMPTY: tl.constexpr
):  # fmt: skip
    """Store the context (laid out as `b q h d`) and the log-sum-exp of rows.

    A row that sees nothing gives zeros, and EMPTY for its log-sum-exp.
    """
    is_empty = total == 0.0
    some = tl.where(is_empty, 1.0, total)
    out = O + ((b.to(tl.int64) * n + rows[:, None]) * heads + h) * D + tl.arange(0, D)[None, :]
    tl.store(out, (context / some[:, None]).to(O.dtype.element_ty), mask=(rows < n)[:, None])
    lse = tl.where(is_empty, EMPTY, top / LOG2_E + tl.log(some))
    tl.store(L + (b * heads + h).to(tl.int64) * n + rows, lse, mask=rows < n)


@triton.jit
def levels_of(o, g):
    """The number that the gradients of each row's weights are relative to: dO · o."""
    return tl.sum(o.to(tl.float32) * g.to(tl.float32), 1)


def plain(x: Tensor) -> Tensor:
    """The same tensor with contiguous vectors."""
    return x if x.stride(-1) == 1 else x.contiguous()


def existing(valid: Tensor | None, query: Tensor) -> Tensor:
    """Which keys exist, for each sentence; any tensor for an argument that is never read."""
    return query if valid is None else valid.expand(len(query), -1).contiguous()


def strides_of(*tensors: Tensor) -> tuple[int, ...]:
    """The first three strides of each."""
    return tuple(step for x in tensors for step in x.stride()[:3])
