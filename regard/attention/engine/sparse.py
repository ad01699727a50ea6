"""Sparse path: rows in chunks, each against the blocks of keys it can see; O(n · visible).

The same function serves masks no kernel knows and biases that are not learned: whatever the
pattern, no more than one chunk of it exists at a time, forward and backward. On a GPU, where a
chunk's calls would cost more than its numbers, one kernel walks over all visible tiles
(sparse_kernel.py), if it takes the case.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from regard.attention.attend import Attended
from regard.attention.engine import kernels
from regard.attention.engine.agreement import disagreement
from regard.attention.engine.case import Case, Cost, Path, not_softmax_of_dot
from regard.attention.engine.tiled_band import MAX_REACH, attend_over_tiles, fits_tiles
from regard.attention.engine.tiles import SIDE, Tiling, differs_by_head
from regard.attention.links import Grid, SoftRows, wide
from regard.attention.masks import split_padding

CHUNKS = (64, 128, 256, 512)
"""Candidate sizes of chunks and blocks; the cheapest is taken."""

PAIRS_PER_CALL = 100_000
"""The cost of a kernel call, in pairs that could be computed in its time (2 cores)."""

TRIED, TRIED_SHORT = 150, 50
"""Queries and keys with which the kernels for relations are tried: several tiles, and one."""


class Chunk(NamedTuple):
    """Some rows and the ranges of columns they can see."""

    rows: slice
    columns: tuple[slice, ...]

    @property
    def n_pairs(self) -> int:
        """Pairs of one head that are computed for the chunk."""
        return (self.rows.stop - self.rows.start) * sum(c.stop - c.start for c in self.columns)


def best_cut(case: Case) -> tuple[Chunk, ...]:
    """Every chunk of rows, with the columns it is computed against: the cheapest of a few sizes."""
    n_heads = case.query.shape[0] * case.query.shape[1]
    return min(
        (_cut(case, size) for size in CHUNKS),
        key=lambda chunks: _n_pairs(chunks) * n_heads + PAIRS_PER_CALL * len(chunks),
    )


def _cut(case: Case, size: int) -> tuple[Chunk, ...]:
    """Rows and columns in blocks of `size`."""
    rows, columns = range(case.query.shape[-2]), range(case.key.shape[-2])
    grid = Grid.over(case.places, rows, columns, q_size=size, k_size=size)
    return tuple(
        Chunk(slice(first, min(first + size, len(rows))), stretches(blocks, size, len(columns)))
        for first, blocks in zip(rows[::size], case.mask.touches(grid), strict=True)
    )


def _n_pairs(chunks: Iterable[Chunk]) -> int:
    """Pairs that are computed, of one head."""
    return sum(chunk.n_pairs for chunk in chunks)


def stretches(blocks: Bool[Tensor, " nk"], size: int, n_keys: int) -> tuple[slice, ...]:
    """The blocks, neighbouring ones joined into one slice."""
    edges = pad(blocks.int(), (1, 1)).diff()
    starts, stops = (edges == 1).nonzero().flatten(), (edges == -1).nonzero().flatten()
    return tuple(
        slice(size * start, min(size * stop, n_keys))
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
    )


@final
class SparsePath(Path):
    """Compute only the blocks that may hold a visible pair."""

    name = "sparse"

    def why_not(self, case: Case) -> str | None:
        """The reason, if not a softmax of dot products, or if the relation has parameters."""
        if reason := not_softmax_of_dot(case):
            return reason
        if case.places.past is None:
            return "the rows or columns have gaps"
        if kernels.is_transformed():
            return "torch.func cannot transform its chunks"
        if torch.compiler.is_compiling() and (reason := _not_compiled(case)):
            return reason
        if case.relation.is_zero or _is_related(case):
            return None
        bias = case.relation.as_bias(case.places.tile(slice(0, 1), slice(0, 1)))
        if bias is None:
            return f"{type(case.relation).__name__} depends on the query"
        if bias.requires_grad and torch.is_grad_enabled():
            return f"{type(case.relation).__name__} learns its bias, which the kernels cannot"
        return None

    def why(self, case: Case) -> str:
        """The share of the map that is computed."""
        chunks, whole = best_cut(case), case.query.shape[-2] * case.key.shape[-2]
        share, rows = 100 * _n_pairs(chunks) / whole, chunks[0].rows.stop
        return f"{share:.0f} % of the map, in chunks of {rows} rows"

    def cost(self, case: Case) -> Cost:
        """The cost of the computed blocks, one chunk's mask, and one normaliser per row."""
        chunks, (b, h, q, d) = best_cut(case), case.query.shape
        work = b * h * _n_pairs(chunks) * (d + case.value.shape[-1])
        return Cost(work, b * h * q + max(chunk.n_pairs for chunk in chunks))

    def run(self, case: Case) -> Attended:
        """Run tile by tile on a GPU, else chunk by chunk; a compiler sees one operator."""
        if _is_related(case):
            return attend_over_tiles(case)
        assert case.dot is not None and case.softmax is not None
        tensors, scale = (case.dot.query, case.dot.key, case.value), case.dot.scale * case.softmax
        if torch.compiler.is_compiling():
            # it knows this module's cuts and kernels
            from regard.attention.engine.sparse_operator import attend_by_operator

            context, lse = attend_by_operator(*tensors, case.mask, case.places, scale)
        elif _fits_tiles(case):
            # Triton comes with torch only where there is a GPU
            from regard.attention.engine.sparse_kernel import AttendInTiles

            n_queries, n_keys = case.query.shape[-2], case.key.shape[-2]
            tiling = Tiling.of(case.mask, case.places, n_queries, n_keys)
            context, lse = AttendInTiles.apply(*tensors, tiling, scale)
        else:
            context, lse = _Chunked.apply(*tensors, best_cut(case), case, scale)
        return case.attended(context, SoftRows(lse.unsqueeze(-1)))


def _not_compiled(case: Case) -> str | None:
    """The reason why no operator of a compiler's graph can cut the map, or None."""
    if not case.relation.is_zero:
        return f"{type(case.relation).__name__} has no text from which an operator builds it"
    for part in split_padding(case.mask)[0]:
        if part.as_text() is None:
            return f"{type(part).__name__} has no text from which an operator builds it"
    return None


def _fits_tiles(case: Case) -> bool:
    """Whether the kernel for tiles can run the case."""
    assert case.dot is not None
    return (
        fits_tiles(case.dot.query, case.dot.key, case.value)
        and case.relation.is_zero
        and not differs_by_head(case.mask, case.places)
    )


def _is_related(case: Case) -> bool:
    """Whether the kernel for tiles takes the relation: constant far away, and not too far."""
    assert case.dot is not None
    if case.relation.is_zero or not fits_tiles(case.dot.query, case.dot.key, case.value):
        return False
    reach = case.relation.reach
    if reach is None or reach > MAX_REACH or case.relation.has_slope:
        return False
    if differs_by_head(case.mask, case.places):
        return False
    n = TRIED_SHORT if max(case.query.shape[-2], case.key.shape[-2]) <= SIDE else TRIED
    return disagreement(case, attend_over_tiles, n) is None


class _Chunked(torch.autograd.Function):
    """softmax(scale · q kᵀ + bias) v by chunks, forward and backward; only the lse is stored."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        chunks: tuple[Chunk, ...],
        case: Case,
        scale: float,
    ) -> tuple[Tensor, Tensor]:
        out, lse = attend_in_chunks(query, key, value, chunks, case, scale)
        ctx.save_for_backward(query, key, value, out, lse)
        ctx.chunks, ctx.case, ctx.scale = chunks, case, scale
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, out, lse = ctx.saved_tensors
        found = differentiate_in_chunks(
            grad, query, key, value, out, lse, ctx.chunks, ctx.case, ctx.scale
        )
        return (*found, None, None, None)


def attend_in_chunks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    chunks: tuple[Chunk, ...],
    case: Case,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Context and log-sum-exp, chunk by chunk."""
    out = query.new_zeros(*query.shape[:-1], value.shape[-1])
    lse = wide(query[..., 0]).new_zeros(query.shape[:-1])
    for rows, columns in chunks:
        if columns:
            out[..., rows, :], lse[..., rows] = kernels.softmax_attention(
                query[..., rows, :],
                at_columns(key, columns, -2),
                at_columns(value, columns, -2),
                _bias(case, rows, columns, query),
                is_causal=False,
                scale=scale,
            )
    return out, lse


def differentiate_in_chunks(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    chunks: tuple[Chunk, ...],
    case: Case,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value, chunk by chunk."""
    d_query = torch.zeros_like(query)
    # every chunk may see the same key
    d_key, d_value = (torch.zeros_like(x, dtype=wide(x[:0]).dtype) for x in (key, value))
    for rows, columns in chunks:
        if not columns:
            continue
        d_query[..., rows, :], dk, dv = kernels.softmax_attention_backward(
            grad[..., rows, :],
            query[..., rows, :],
            at_columns(key, columns, -2),
            at_columns(value, columns, -2),
            out[..., rows, :],
            lse[..., rows],
            _bias(case, rows, columns, query),
            scale=scale,
        )
        _add(d_key, columns, dk)
        _add(d_value, columns, dv)
    return d_query, d_key.to(key.dtype), d_value.to(value.dtype)


def at_columns(whole: Tensor, columns: tuple[slice, ...], axis: int) -> Tensor:
    """The ranges joined; a single one is not copied."""
    parts = [whole.narrow(axis, c.start, c.stop - c.start) for c in columns]
    return parts[0] if len(parts) == 1 else torch.cat(parts, axis)


def _add(total: Tensor, columns: tuple[slice, ...], part: Tensor) -> None:
    for c, piece in zip(columns, part.split([c.stop - c.start for c in columns], -2), strict=True):
        total[..., c, :] += piece


def _bias(
    case: Case, rows: slice, columns: tuple[slice, ...], like: Tensor
) -> Float[Tensor, "b h r c"] | None:
    """Minus infinity where a pair is hidden, plus the relation's bias; None if all is zero."""
    assert case.softmax is not None
    every = case.places.tile(rows, slice(None))
    places = every.at_keys(at_columns(every.key, columns, -1))
    hidden = ~case.mask.visible(places)
    bias = case.relation.as_bias(places)
    # on a GPU this check would wait for the device
    if bias is None and like.is_cpu and not bool(hidden.any()):
        return None
    # a temperature divides the whole score, the bias included
    shown = like.new_zeros(()) if bias is None else bias.detach().to(like.dtype) * case.softmax
    added = torch.where(hidden, -torch.inf, shown)
    n_rows, n_columns = places.query.shape[-2], places.key.shape[-1]
    return added.expand(*like.shape[:2], n_rows, n_columns)
