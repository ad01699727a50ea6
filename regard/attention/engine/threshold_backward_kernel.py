"""Threshold backward kernel: gradients of sparsemax and top-k of dot products on a GPU.

    d_score[i,j] = d_weight[i,j] - mean of d_weight[i,:] over the kept keys      sparsemax
    d_score[i,j] = weight[i,j] · (d_weight[i,j] - sum of weight · d_weight)      top-k

The weights of each tile are made again from the row numbers. One kernel walks along the rows for
the gradient of the queries, and one down the columns for those of keys and values; both leave out
tiles without a weight. Written in Triton, which comes with torch where there is a GPU; import this
module only there.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.attention.engine.kernels import like_rows
from regard.attention.engine.shared_kernel import existing, head_rows, levels_of, plain
from regard.attention.engine.threshold_kernel import (
    Launch,
    constants,
    tile_lists,
    tile_scores,
    tile_weights,
)
from regard.attention.engine.thresholded import TILE_KEYS, TILE_ROWS

TO_QUERIES = TO_KEYS = Launch(warps=8, stages=3)


@triton.jit(do_not_specialize=["nq", "nk", "heads", "past"])
def _to_queries(
    Q, K, V, O, G, T, Z, LEVEL, DQ, order, length, valid, heads, nq, nk, past, scale,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, ob, oh, on, gb, gh, gn,
    D: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, BEST: tl.constexpr,
    IS_CAUSAL: tl.constexpr, HAS_VALID: tl.constexpr,
):  # fmt: skip
    block, program = tl.num_programs(0) - 1 - tl.program_id(0), tl.program_id(1)
    b, h = program // heads, program % heads
    side, rows = tl.arange(0, KEYS), block * ROWS + tl.arange(0, ROWS)
    q = head_rows(Q, b, h, nq, qb, qh, qn, rows, D)
    o = head_rows(O, b, h, nq, ob, oh, on, rows, D)
    g = head_rows(G, b, h, nq, gb, gh, gn, rows, D)
    at = program.to(tl.int64) * nq + rows
    threshold = tl.load(T + at, mask=rows < nq, other=0.0)
    normaliser = tl.load(Z + at, mask=rows < nq, other=0.0)
    # exact for a softmax; else a first guess, corrected by what is left after all tiles
    level = levels_of(o, g)
    d_query = tl.zeros([ROWS, D], tl.float32)
    kept_keys = tl.zeros([ROWS, D], tl.float32)
    rest = tl.zeros([ROWS], tl.float32)
    listed = program.to(tl.int64) * tl.num_programs(0) + block
    tiles = order + listed * tl.cdiv(nk, KEYS)
    for t in range(tl.load(length + listed)):
        columns = tl.load(tiles + t) * KEYS + side
        k = head_rows(K, b, h, nk, kb, kh, kn, columns, D)
        v = head_rows(V, b, h, nk, vb, vh, vn, columns, D)
        seen = tile_scores(q, k, valid, b, rows, columns, nk, past, scale, IS_CAUSAL, HAS_VALID)
        d_scores = tl.dot(g, tl.trans(v), input_precision="ieee") - level[:, None]
        if BEST == 0:
            kept = seen > threshold[:, None]
            d_scores = tl.where(kept, d_scores, 0.0)
            rest += tl.sum(d_scores, 1)
            kept_keys += tl.dot(tl.where(kept, 1.0, 0.0).to(k.dtype), k, input_precision="ieee")
        else:
            d_scores = d_scores * tile_weights(seen, threshold, normaliser, BEST)
        d_query += tl.dot(d_scores.to(k.dtype), k, input_precision="ieee")
    if BEST == 0:
        rest = rest / tl.maximum(normaliser, 1.0)
        d_query -= rest[:, None] * kept_keys
        level += rest
    tl.store(LEVEL + at, level, mask=rows < nq)
    out = DQ + ((b.to(tl.int64) * nq + rows[:, None]) * heads + h) * D + tl.arange(0, D)[None, :]
    tl.store(out, (d_query * scale).to(q.dtype), mask=(rows < nq)[:, None])


@triton.jit(do_not_specialize=["nq", "nk", "heads", "past"])
def _to_keys(
    Q, K, V, G, T, Z, LEVEL, DK, DV, order, length, valid, heads, nq, nk, past, scale,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, gb, gh, gn,
    D: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, BEST: tl.constexpr,
    IS_CAUSAL: tl.constexpr, HAS_VALID: tl.constexpr,
):  # fmt: skip
    # the first keys are seen by most queries
    block, program = tl.program_id(0), tl.program_id(1)
    b, h = program // heads, program % heads
    side, columns = tl.arange(0, ROWS), block * KEYS + tl.arange(0, KEYS)
    k = head_rows(K, b, h, nk, kb, kh, kn, columns, D)
    v = head_rows(V, b, h, nk, vb, vh, vn, columns, D)
    d_key = tl.zeros([KEYS, D], tl.float32)
    d_value = tl.zeros([KEYS, D], tl.float32)
    listed = program.to(tl.int64) * tl.num_programs(0) + block
    tiles = order + listed * tl.cdiv(nq, ROWS)
    for t in range(tl.load(length + listed)):
        rows = tl.load(tiles + t) * ROWS + side
        q = head_rows(Q, b, h, nq, qb, qh, qn, rows, D)
        g = head_rows(G, b, h, nq, gb, gh, gn, rows, D)
        at = program.to(tl.int64) * nq + rows
        # rows past the last have zeros for queries and gradients, and so add nothing
        threshold = tl.load(T + at, mask=rows < nq, other=0.0)
        normaliser = tl.load(Z + at, mask=rows < nq, other=0.0)
        level = tl.load(LEVEL + at, mask=rows < nq, other=0.0)
        seen = tile_scores(q, k, valid, b, rows, columns, nk, past, scale, IS_CAUSAL, HAS_VALID)
        weights = tile_weights(seen, threshold, normaliser, BEST)
        d_value += tl.dot(tl.trans(weights.to(g.dtype)), g, input_precision="ieee")
        d_scores = tl.dot(g, tl.trans(v), input_precision="ieee") - level[:, None]
        if BEST == 0:
            d_scores = tl.where(seen > threshold[:, None], d_scores, 0.0)
        else:
            d_scores = d_scores * weights
        d_key += tl.dot(tl.trans(d_scores.to(q.dtype)), q, input_precision="ieee")
    out = ((b.to(tl.int64) * nk + columns[:, None]) * heads + h) * D + tl.arange(0, D)[None, :]
    tl.store(DK + out, (d_key * scale).to(k.dtype), mask=(columns < nk)[:, None])
    tl.store(DV + out, d_value.to(k.dtype), mask=(columns < nk)[:, None])


def differentiate(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    context: Tensor,
    threshold: Tensor,
    normaliser: Tensor,
    tiles: Tensor,
    valid: Tensor | None,
    past: int | None,
    count: int,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value."""
    query, key, value, context, grad = (plain(x) for x in (query, key, value, context, grad))
    (b, h, nq, _), nk = query.shape, key.shape[-2]
    d_query, d_key, d_value = (like_rows(x) for x in (query, key, value))
    level = torch.empty_like(threshold)
    shown = (existing(valid, query), h, nq, nk, past or 0, scale)
    inputs = (*query.stride()[:3], *key.stride()[:3], *value.stride()[:3])
    settings = constants(query, valid, past, count)
    _to_queries[(triton.cdiv(nq, TILE_ROWS), b * h)](
        query, key, value, context, grad, threshold, normaliser, level, d_query,
        *tile_lists(tiles), *shown, *inputs, *context.stride()[:3], *grad.stride()[:3],
        **settings, **TO_QUERIES.options(query),
    )  # fmt: skip
    _to_keys[(triton.cdiv(nk, TILE_KEYS), b * h)](
        query, key, value, grad, threshold, normaliser, level, d_key, d_value,
        *tile_lists(tiles.mT), *shown, *inputs, *grad.stride()[:3],
        **settings, **TO_KEYS.options(query),
    )  # fmt: skip
    return d_query, d_key, d_value
