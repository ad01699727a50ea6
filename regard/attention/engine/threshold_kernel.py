"""Threshold kernel: sparsemax and top-k of dot products on a GPU, a tile of the map at a time.

    weight[i,j] = max(score[i,j] - t[i], 0)            sparsemax: t such that a row sums to 1
    weight[i,j] = exp(score[i,j] - lse[i]) or 0        top-k: 0 where score[i,j] < t[i]

A row is never held. One pass over the keys keeps the best score of each of `KEYS` groups, which
gives a number that few scores exceed and the threshold cannot lie below. A second pass collects
those scores; where they are more than there is room for, the number is raised and the pass done
again. Tiles that hold no weight are left out of all that follows. No two programs share a sum, so
the same input gives the same bits. Written in Triton, which comes with torch where there is a GPU;
import this module only there.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.attention.engine.kernels import like_rows
from regard.attention.engine.shared_kernel import existing, head_rows, plain
from regard.attention.engine.thresholded import TILE_KEYS, TILE_ROWS
from regard.attention.selections.top_k import ROUNDING

FEW_KEPT, ROOM = 32, (64, 128)
"""Scores of a row that are collected at a time: up to so many best keys, and for more."""

LEAST = tl.constexpr(-3.4028234663852886e38)
"""The threshold of a row that keeps all keys."""

TIED = tl.constexpr(ROUNDING * 2.0**-23)
"""The share of a row's best score by which tied scores may differ."""

NEAR, STEPS = tl.constexpr(1e-6), tl.constexpr(48)
"""How far a row's sum may be above 1, and the most steps of Newton's method."""

WIDE = 64
"""The width of vectors beyond which one tile less is loaded ahead."""


class Launch(NamedTuple):
    """How many warps compute a tile, and how many tiles are loaded ahead."""

    warps: int
    stages: int

    def options(self, query: Tensor) -> dict[str, int]:
        """Triton's options; wide vectors leave memory for fewer tiles."""
        stages = self.stages if query.shape[-1] <= WIDE else self.stages - 1
        return {"num_warps": self.warps, "num_stages": stages}


BOUND = FIND = COMBINE = Launch(warps=8, stages=3)


@triton.jit
def tile_scores(
    q, k, valid, b, rows, columns, nk, past, scale, IS_CAUSAL: tl.constexpr, HAS_VALID: tl.constexpr
):
    """A tile's scores, minus infinity where a pair is hidden."""
    seen = (columns < nk)[None, :]
    if HAS_VALID:
        exists = tl.load(valid + b.to(tl.int64) * nk + columns, mask=columns < nk, other=0)
        seen = seen & (exists != 0)[None, :]
    if IS_CAUSAL:
        seen = seen & (columns[None, :] <= (rows + past)[:, None])
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    return tl.where(seen, scores, float("-inf"))


@triton.jit
def tile_weights(scores, threshold, normaliser, BEST: tl.constexpr):
    """The weights of a tile."""
    if BEST == 0:
        return tl.maximum(scores - threshold[:, None], 0.0)
    kept = scores >= threshold[:, None]
    return tl.where(kept, tl.exp(tl.where(kept, scores - normaliser[:, None], 0.0)), 0.0)


@triton.jit
def _kth(scores, K: tl.constexpr, ROWS: tl.constexpr):
    """The K-th largest score of each row, built bit by bit."""
    bits = scores.to(tl.int32, bitcast=True)
    # whole numbers in the order of the scores
    bits = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    found = tl.full([ROWS], -2147483648, tl.int32)
    for i in range(32):
        trial = found ^ (tl.full([ROWS], 1, tl.int32) << (31 - i))
        enough = tl.sum((bits >= trial[:, None]).to(tl.int32), 1) >= K
        found = tl.where(enough, trial, found)
    return tl.where(found < 0, found ^ 0x7FFFFFFF, found).to(tl.float32, bitcast=True)


@triton.jit
def _root(scores, bound, ROWS: tl.constexpr):
    """The threshold above which the scores sum to 1, from a number not above it; their count."""
    before = tl.full([ROWS], -1, tl.int32)
    kept = tl.zeros([ROWS], tl.int32)
    step, is_moving = 0, True
    while is_moving:
        is_above = scores > bound[:, None]
        total = tl.sum(tl.where(is_above, scores - bound[:, None], 0.0), 1)
        kept = tl.sum(is_above.to(tl.int32), 1)
        bound += tl.where(kept > 0, (total - 1.0) / tl.maximum(kept, 1), 0.0)
        step += 1
        is_moving = (tl.max((kept != before).to(tl.int32), 0) > 0) & (step < STEPS)
        before = kept
    return bound, kept


@triton.jit
def _collected(held, line, room, count):
    """The scores that were collected; minus infinity in empty places."""
    is_filled = room[None, :] < count[:, None]
    return tl.load(held + (line + room[None, :]), mask=is_filled, other=float("-inf"))


@triton.jit(do_not_specialize=["nq", "nk", "heads", "past"])
def _bound(
    Q, K, T, Z, valid, heads, nq, nk, past, scale,
    qb, qh, qn, kb, kh, kn,
    D: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, BEST: tl.constexpr,
    IS_CAUSAL: tl.constexpr, HAS_VALID: tl.constexpr,
):  # fmt: skip
    """A number not above each row's threshold, and the row's best score."""
    # under a causal mask the last blocks have most keys, so they come first
    block, program = tl.num_programs(0) - 1 - tl.program_id(0), tl.program_id(1)
    b, h = program // heads, program % heads
    side, rows = tl.arange(0, KEYS), block * ROWS + tl.arange(0, ROWS)
    q = head_rows(Q, b, h, nq, qb, qh, qn, rows, D)
    stop = nk
    if IS_CAUSAL:
        stop = tl.minimum(nk, past + (block + 1) * ROWS)
    groups = tl.full([ROWS, KEYS], float("-inf"), tl.float32)
    for first in range(0, stop, KEYS):
        columns = first + side
        k = head_rows(K, b, h, nk, kb, kh, kn, columns, D)
        seen = tile_scores(q, k, valid, b, rows, columns, nk, past, scale, IS_CAUSAL, HAS_VALID)
        groups = tl.maximum(groups, seen)
    top = tl.max(groups, 1)
    if BEST == 0:
        bound, _ = _root(groups, tl.where(top == float("-inf"), 0.0, top) - 1.0, ROWS)
    else:
        # one more than is kept, so that the next score is known too
        bound = _kth(groups, min(BEST + 1, KEYS), ROWS)
    out = program.to(tl.int64) * nq + rows
    tl.store(T + out, bound, mask=rows < nq)
    tl.store(Z + out, top, mask=rows < nq)


@triton.jit(do_not_specialize=["nq", "nk", "heads", "past"])
def _find(
    Q, K, T, Z, TILES, COLLECTED, valid, heads, nq, nk, past, scale,
    qb, qh, qn, kb, kh, kn,
    D: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, BEST: tl.constexpr,
    IS_CAUSAL: tl.constexpr, HAS_VALID: tl.constexpr, ROOM: tl.constexpr,
):  # fmt: skip
    """Threshold and normaliser, in the place of the numbers that `_bound` gives."""
    block, program = tl.num_programs(0) - 1 - tl.program_id(0), tl.program_id(1)
    b, h = program // heads, program % heads
    side, rows = tl.arange(0, KEYS), block * ROWS + tl.arange(0, ROWS)
    q = head_rows(Q, b, h, nq, qb, qh, qn, rows, D)
    stop = nk
    if IS_CAUSAL:
        stop = tl.minimum(nk, past + (block + 1) * ROWS)
    out = program.to(tl.int64) * nq + rows
    bound = tl.load(T + out, mask=rows < nq, other=0.0)
    top = tl.load(Z + out, mask=rows < nq, other=float("-inf"))
    is_empty = top == float("-inf")
    margin = tl.where(is_empty, 0.0, tl.abs(top) * TIED)
    room = tl.arange(0, ROOM)
    place = (program.to(tl.int64) * tl.num_programs(0) + block) * ROWS * ROOM
    held, line = COLLECTED + place, (tl.arange(0, ROWS) * ROOM)[:, None]
    n_tiles = tl.cdiv(nk, KEYS)
    flags = TILES + (program.to(tl.int64) * tl.num_programs(0) + block) * n_tiles
    found, normaliser = bound, tl.zeros([ROWS], tl.float32)
    before = tl.full([ROWS], -1, tl.int32)
    step, is_open = 0, True
    while is_open:
        count, total = tl.zeros([ROWS], tl.int32), tl.zeros([ROWS], tl.float32)
        for first in range(0, stop, KEYS):
            columns = first + side
            k = head_rows(K, b, h, nk, kb, kh, kn, columns, D)
            seen = tile_scores(q, k, valid, b, rows, columns, nk, past, scale, IS_CAUSAL, HAS_VALID)
            is_above = seen > bound[:, None]
            one = is_above.to(tl.int32)
            at = count[:, None] + tl.cumsum(one, 1) - 1
            tl.store(held + (line + at), seen, mask=is_above & (at < ROOM))
            count += tl.sum(one, 1)
            if BEST == 0:
                total += tl.sum(tl.where(is_above, seen - bound[:, None], 0.0), 1)
                near = is_above
            else:
                near = seen >= tl.maximum(bound - margin, LEAST)[:, None]
            tl.store(flags + first // KEYS, tl.max(tl.max(near.to(tl.int32), 1), 0).to(tl.uint8))
        # other threads of this program wrote what is read
        tl.debug_barrier()
        is_full = (count > ROOM) & (rows < nq)
        some = _collected(held, line, room, count)
        if BEST == 0:
            inner, kept = _root(some, bound, ROWS)
            outer = bound + (total - 1.0) / tl.maximum(count, 1)
            is_solved = (count == before) | (total <= 1.0 + NEAR) | (step >= STEPS)
            found = tl.where(is_full, outer, inner)
            normaliser = tl.where(is_full, count, kept).to(tl.float32)
            bound = tl.where(is_full & ~is_solved, tl.maximum(inner, outer), bound)
            is_full = is_full & ~is_solved
        else:
            found = tl.maximum(_kth(some, BEST, ROWS), bound)
            bound = tl.where(is_full, found, bound)
        before = count
        step += 1
        is_open = tl.max(is_full.to(tl.int32), 0) > 0
        # what is collected next must not overtake what is read
        tl.debug_barrier()

    if BEST > 0:
        has_few = found == float("-inf")
        least = tl.where(has_few, LEAST, found - margin)
        is_near = (least <= bound) & ~has_few & (rows < nq)
        shift = tl.where(is_empty, 0.0, top)
        # not kept from the loop, where registers are scarce
        some = _collected(held, line, room, before)
        is_kept = some >= least[:, None]
        last = tl.min(tl.where(is_kept, some, float("inf")), 1)
        below = tl.maximum(tl.max(tl.where(is_kept, float("-inf"), some), 1), bound)
        total = tl.sum(tl.where(is_kept, tl.exp(some - shift[:, None]), 0.0), 1)
        if tl.max(is_near.to(tl.int32), 0) > 0:
            # ties reach below what was collected, so that all keys are looked at once more
            last = tl.full([ROWS], float("inf"), tl.float32)
            below = tl.full([ROWS], float("-inf"), tl.float32)
            total = tl.zeros([ROWS], tl.float32)
            for first in range(0, stop, KEYS):
                columns = first + side
                k = head_rows(K, b, h, nk, kb, kh, kn, columns, D)
                seen = tile_scores(
                    q, k, valid, b, rows, columns, nk, past, scale, IS_CAUSAL, HAS_VALID
                )
                tied = seen >= least[:, None]
                last = tl.minimum(last, tl.min(tl.where(tied, seen, float("inf")), 1))
                below = tl.maximum(below, tl.max(tl.where(tied, float("-inf"), seen), 1))
                total += tl.sum(tl.where(tied, tl.exp(seen - shift[:, None]), 0.0), 1)
        # halfway to the next score, so that a score made again falls on the same side
        half = last / 2 + tl.maximum(below, LEAST) / 2
        found = tl.where(has_few | is_empty, LEAST, half)
        normaliser = tl.where(is_empty, 0.0, shift + tl.log(tl.where(is_empty, 1.0, total)))
    tl.store(T + out, found, mask=rows < nq)
    tl.store(Z + out, normaliser, mask=rows < nq)


@triton.jit(do_not_specialize=["nq", "nk", "heads", "past"])
def _combine(
    Q, K, V, O, T, Z, order, length, valid, heads, nq, nk, past, scale,
    qb, qh, qn, kb, kh, kn, vb, vh, vn,
    D: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, BEST: tl.constexpr,
    IS_CAUSAL: tl.constexpr, HAS_VALID: tl.constexpr,
):  # fmt: skip
    block, program = tl.num_programs(0) - 1 - tl.program_id(0), tl.program_id(1)
    b, h = program // heads, program % heads
    side, rows = tl.arange(0, KEYS), block * ROWS + tl.arange(0, ROWS)
    q = head_rows(Q, b, h, nq, qb, qh, qn, rows, D)
    at = program.to(tl.int64) * nq + rows
    threshold = tl.load(T + at, mask=rows < nq, other=0.0)
    normaliser = tl.load(Z + at, mask=rows < nq, other=0.0)
    context = tl.zeros([ROWS, D], tl.float32)
    listed = program.to(tl.int64) * tl.num_programs(0) + block
    tiles = order + listed * tl.cdiv(nk, KEYS)
    for t in range(tl.load(length + listed)):
        columns = tl.load(tiles + t) * KEYS + side
        k = head_rows(K, b, h, nk, kb, kh, kn, columns, D)
        v = head_rows(V, b, h, nk, vb, vh, vn, columns, D)
        seen = tile_scores(q, k, valid, b, rows, columns, nk, past, scale, IS_CAUSAL, HAS_VALID)
        weights = tile_weights(seen, threshold, normaliser, BEST)
        context += tl.dot(weights.to(v.dtype), v, input_precision="ieee")
    out = O + ((b.to(tl.int64) * nq + rows[:, None]) * heads + h) * D + tl.arange(0, D)[None, :]
    tl.store(out, context.to(q.dtype), mask=(rows < nq)[:, None])


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    valid: Tensor | None,
    past: int | None,
    count: int,
    scale: float,
) -> tuple[Tensor, ...]:
    """Context, threshold, normaliser, and for each tile whether it may hold a weight."""
    query, key, value = (plain(x) for x in (query, key, value))
    (b, h, nq, _), nk = query.shape, key.shape[-2]
    grid = (triton.cdiv(nq, TILE_ROWS), b * h)
    threshold = query.new_empty(b, h, nq, dtype=torch.float32)
    normaliser, context = torch.empty_like(threshold), like_rows(query)
    tiles = query.new_zeros(b, h, grid[0], triton.cdiv(nk, TILE_KEYS), dtype=torch.uint8)
    room = ROOM[count > FEW_KEPT]
    collected = threshold.new_empty(b * h * grid[0] * TILE_ROWS * room)
    shown = (existing(valid, query), h, nq, nk, past or 0, scale)
    strides = (*query.stride()[:3], *key.stride()[:3])
    settings = constants(query, valid, past, count)
    _bound[grid](
        query, key, threshold, normaliser, *shown, *strides,
        **settings, **BOUND.options(query),
    )  # fmt: skip
    _find[grid](
        query, key, threshold, normaliser, tiles, collected, *shown, *strides,
        **settings, ROOM=room, **FIND.options(query),
    )  # fmt: skip
    del collected
    _combine[grid](
        query, key, value, context, threshold, normaliser, *tile_lists(tiles), *shown,
        *strides, *value.stride()[:3],
        **settings, **COMBINE.options(query),
    )  # fmt: skip
    return context, threshold, normaliser, tiles


def constants(query: Tensor, valid: Tensor | None, past: int | None, count: int) -> dict[str, int]:
    """The constants of all kernels."""
    return {
        "D": query.shape[-1], "ROWS": TILE_ROWS, "KEYS": TILE_KEYS, "BEST": count,
        "IS_CAUSAL": past is not None, "HAS_VALID": valid is not None,
    }  # fmt: skip


def tile_lists(tiles: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers of the tiles that may hold a weight, first in each row, and how many they are."""
    order = tiles.sort(dim=-1, descending=True, stable=True).indices
    return order.int().contiguous(), tiles.sum(-1, dtype=torch.int32)
