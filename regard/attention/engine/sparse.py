"""Sparse path: rows in chunks, each against the blocks of keys it can see; O(n · visible).

The same function serves masks no kernel knows and biases that are not learned: whatever the
pattern, no more than one chunk of it exists at a time, forward and backward. On a GPU, where a
chunk's calls would cost more than its numbers, one kernel walks over all visible tiles
(sparse_kernel.py), if it takes the case.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, cast, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from regard.attention.attend import Attended
from regard.attention.engine.case import Case, Cost, Path, not_softmax_of_dot
from regard.attention.engine.kernels import (
    HALF,
    TILE_WIDTHS,
    softmax_attention,
    softmax_attention_backward,
)
from regard.attention.engine.tiles import Tiling, differs_by_head
from regard.attention.links import Grid, wide

CHUNKS = (64, 128, 256, 512)
"""Rows in a chunk, and keys in a block: the cheapest of these is taken."""

PAIRS_PER_CALL = 100_000
"""What one more kernel call costs, in pairs that could be computed meanwhile (2 cores)."""


class Chunk(NamedTuple):
    """Some rows and the stretches of columns they can see."""

    rows: slice
    columns: tuple[slice, ...]

    @property
    def n_pairs(self) -> int:
        """Pairs that are computed for it, of one head."""
        return (self.rows.stop - self.rows.start) * sum(c.stop - c.start for c in self.columns)


@dataclass(frozen=True)
class BlockLayout:
    """How the map is cut: which columns each chunk of rows is computed against."""

    chunks: tuple[Chunk, ...]
    n_computed: int
    """Pairs that are computed, of one head."""

    @classmethod
    def best(cls, case: Case) -> "BlockLayout":
        """The cheapest cut among a few sizes."""
        n_heads = case.query.shape[0] * case.query.shape[1]
        return min(
            (cls.cut(case, size) for size in CHUNKS),
            key=lambda cut: cut.n_computed * n_heads + PAIRS_PER_CALL * len(cut.chunks),
        )

    @classmethod
    def cut(cls, case: Case, size: int) -> "BlockLayout":
        """Cut rows and columns into blocks of `size`."""
        n_queries, n_keys = case.query.shape[-2], case.key.shape[-2]
        grid = Grid.over(case.places, n_queries, n_keys, q_size=size, k_size=size)
        chunks = []
        for r, blocks in enumerate(case.mask.touches(grid)):
            rows = slice(r * size, min((r + 1) * size, n_queries))
            chunks.append(Chunk(rows, _stretches(blocks, size, n_keys)))
        return cls(tuple(chunks), sum(chunk.n_pairs for chunk in chunks))


def _stretches(blocks: Bool[Tensor, " nk"], size: int, n_keys: int) -> tuple[slice, ...]:
    """Neighbouring blocks as one slice."""
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
        """Not a softmax of dot products, or a relation with something to learn."""
        if reason := not_softmax_of_dot(case):
            return reason
        if case.places.past is None:
            return "the rows or columns have gaps"
        if case.relation.is_zero:
            return None
        bias = case.relation.as_bias(case.places.tile(slice(0, 1), slice(0, 1)))
        if bias is None:
            return f"{type(case.relation).__name__} depends on the query"
        if bias.requires_grad and torch.is_grad_enabled():
            return f"{type(case.relation).__name__} learns its bias, which the kernels cannot"
        return None

    def why(self, case: Case) -> str:
        """How much of the map is computed."""
        layout = BlockLayout.best(case)
        whole = case.query.shape[-2] * case.key.shape[-2]
        rows = layout.chunks[0].rows.stop
        return f"{100 * layout.n_computed / whole:.0f} % of the map, in chunks of {rows} rows"

    def cost(self, case: Case) -> Cost:
        """The products of the computed blocks; one chunk's mask and one normaliser per row."""
        layout = BlockLayout.best(case)
        b, h, q, d = case.query.shape
        chunk = max(chunk.n_pairs for chunk in layout.chunks)
        work = b * h * layout.n_computed * (d + case.value.shape[-1])
        return Cost(multiply_adds=work, numbers=b * h * q + chunk)

    def run(self, case: Case) -> Attended:
        """Tile by tile on a GPU, else chunk by chunk; how to cut is not for a compiler."""
        if torch.compiler.is_compiling():
            return cast("Attended", torch.compiler.disable(_run)(case))
        return _run(case)


def _run(case: Case) -> Attended:
    assert case.dot is not None and case.softmax is not None
    tensors, scale = (case.dot.query, case.dot.key, case.value), case.dot.scale * case.softmax
    if _fits_tiles(case):
        # Triton comes with torch only where there is a GPU
        from regard.attention.engine.sparse_kernel import AttendInTiles

        n_queries, n_keys = case.query.shape[-2], case.key.shape[-2]
        tiling = Tiling.of(case.mask, case.places, n_queries, n_keys)
        context, lse = AttendInTiles.apply(*tensors, tiling, scale)
    else:
        context, lse = _Chunked.apply(*tensors, BlockLayout.best(case), case, scale)
    return case.attended(context, case.soft_rows(lse))


def _fits_tiles(case: Case) -> bool:
    """Whether the kernel for tiles takes it."""
    assert case.dot is not None
    kinds = {(x.dtype, x.shape[-1]) for x in (case.dot.query, case.dot.key, case.value)}
    return (
        case.query.is_cuda
        and len(kinds) == 1
        and kinds <= {(dtype, width) for dtype in HALF for width in TILE_WIDTHS}
        and case.relation.is_zero
        and not differs_by_head(case.mask, case.places)
    )


class _Chunked(torch.autograd.Function):
    """softmax(scale · q kᵀ + bias) v by chunks, forward and backward; only the lse is stored."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        layout: BlockLayout,
        case: Case,
        scale: float,
    ) -> tuple[Tensor, Tensor]:
        out = query.new_zeros(*query.shape[:-1], value.shape[-1])
        lse = wide(query[..., 0]).new_zeros(query.shape[:-1])
        for rows, columns in layout.chunks:
            if columns:
                out[..., rows, :], lse[..., rows] = softmax_attention(
                    query[..., rows, :],
                    _at(key, columns, -2),
                    _at(value, columns, -2),
                    _bias(case, rows, columns, query),
                    is_causal=False,
                    scale=scale,
                )
        ctx.save_for_backward(query, key, value, out, lse)
        ctx.layout, ctx.case, ctx.scale = layout, case, scale
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, out, lse = ctx.saved_tensors
        d_query, d_key, d_value = (torch.zeros_like(x) for x in (query, key, value))
        for rows, columns in ctx.layout.chunks:
            if not columns:
                continue
            d_query[..., rows, :], dk, dv = softmax_attention_backward(
                grad[..., rows, :],
                query[..., rows, :],
                _at(key, columns, -2),
                _at(value, columns, -2),
                out[..., rows, :],
                lse[..., rows],
                _bias(ctx.case, rows, columns, query),
                scale=ctx.scale,
            )
            _add(d_key, columns, dk)
            _add(d_value, columns, dv)
        return d_query, d_key, d_value, None, None, None


def _at(whole: Tensor, columns: tuple[slice, ...], axis: int) -> Tensor:
    """The stretches side by side; a single one is not copied."""
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
    places = every.at_keys(_at(every.key, columns, -1))
    hidden = ~case.mask.visible(places)
    bias = case.relation.as_bias(places)
    # a GPU is not asked, it would have to finish first
    if bias is None and like.is_cpu and not bool(hidden.any()):
        return None
    # a temperature divides the whole score, the bias included
    shown = like.new_zeros(()) if bias is None else bias.detach().to(like.dtype) * case.softmax
    added = torch.where(hidden, -torch.inf, shown)
    n_rows, n_columns = places.query.shape[-2], places.key.shape[-1]
    return added.expand(*like.shape[:2], n_rows, n_columns)


SPARSE = SparsePath()
