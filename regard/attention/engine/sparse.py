"""Sparse path: rows in chunks, each against the blocks of keys it can see; O(n · visible).

The same function serves masks no kernel knows and biases that are not learned: whatever the
pattern, no more than one chunk of it exists at a time, forward and backward.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.attend import Attended
from regard.attention.engine.case import Case, Cost, not_softmax_of_dot
from regard.attention.engine.kernels import softmax_attention, softmax_attention_backward
from regard.attention.links import NO_RELATION, Grid

CHUNKS = (64, 128, 256, 512)
"""Rows in a chunk, and keys in a block: the cheapest of these is taken."""

PAIRS_PER_CALL = 100_000
"""What one more kernel call costs, in pairs that could be computed meanwhile (2 cores)."""


class Chunk(NamedTuple):
    """Some rows and the columns they can see."""

    rows: slice
    columns: slice | Int[Tensor, " c"]
    n_columns: int


@dataclass(frozen=True)
class Layout:
    """How the map is cut: which columns each chunk of rows is computed against."""

    chunks: tuple[Chunk, ...]
    n_computed: int
    """Pairs that are computed, of one head."""

    @classmethod
    def best(cls, case: Case) -> "Layout":
        """The cheapest cut among a few sizes."""
        n_heads = case.query.shape[0] * case.query.shape[1]
        return min(
            (cls.cut(case, size) for size in CHUNKS),
            key=lambda cut: cut.n_computed * n_heads + PAIRS_PER_CALL * len(cut.chunks),
        )

    @classmethod
    def cut(cls, case: Case, size: int) -> "Layout":
        """Cut rows and columns into blocks of `size`."""
        n_queries, n_keys = case.query.shape[-2], case.key.shape[-2]
        grid = Grid.over(case.places, n_queries, n_keys, q_size=size, k_size=size)
        chunks = []
        for r, blocks in enumerate(case.mask.touches(grid)):
            rows = slice(r * size, min((r + 1) * size, n_queries))
            chunks.append(_chunk(rows, blocks, size, n_keys, case.key.device))
        pairs = sum((c.rows.stop - c.rows.start) * c.n_columns for c in chunks)
        return cls(tuple(chunks), pairs)


def _chunk(
    rows: slice, blocks: Bool[Tensor, " nk"], size: int, n_keys: int, device: torch.device
) -> Chunk:
    seen = blocks.nonzero().squeeze(-1)
    if len(seen) == 0:
        return Chunk(rows, slice(0, 0), 0)
    first, last = int(seen[0]), int(seen[-1])
    if last - first + 1 == len(seen):
        columns = slice(first * size, min((last + 1) * size, n_keys))
        return Chunk(rows, columns, columns.stop - columns.start)
    index = (seen[:, None] * size + torch.arange(size)).flatten()
    index = index[index < n_keys].to(device)
    return Chunk(rows, index, len(index))


@final
class SparsePath:
    """Compute only the blocks that may hold a visible pair."""

    name = "sparse"

    def why_not(self, case: Case) -> str | None:
        """Not a softmax of dot products, or a relation with something to learn."""
        if reason := not_softmax_of_dot(case):
            return reason
        if case.places.past is None:
            return "the rows or columns have gaps"
        if case.relation is NO_RELATION:
            return None
        bias = case.relation.as_bias(case.places.tile(slice(0, 1), slice(0, 1)))
        if bias is None:
            return f"{type(case.relation).__name__} depends on the query"
        if bias.requires_grad and torch.is_grad_enabled():
            return f"{type(case.relation).__name__} learns its bias, which the kernels cannot"
        return None

    def why(self, case: Case) -> str:
        """How much of the map is computed."""
        layout = Layout.best(case)
        whole = case.query.shape[-2] * case.key.shape[-2]
        rows = layout.chunks[0].rows.stop
        return f"{100 * layout.n_computed / whole:.0f} % of the map, in chunks of {rows} rows"

    def cost(self, case: Case) -> Cost:
        """The products of the computed blocks; one chunk's mask and one normaliser per row."""
        layout = Layout.best(case)
        b, h, q, d = case.query.shape
        chunk = max((c.rows.stop - c.rows.start) * c.n_columns for c in layout.chunks)
        work = b * h * layout.n_computed * (d + case.value.shape[-1])
        return Cost(multiply_adds=work, numbers=b * h * q + chunk)

    def run(self, case: Case) -> Attended:
        """Chunk by chunk."""
        assert case.dot is not None and case.softmax is not None
        context, lse = _Chunked.apply(
            case.dot.query,
            case.dot.key,
            case.value,
            Layout.best(case),
            case,
            case.dot.scale * case.softmax,
        )
        return case.attended(context, case.soft_rows(lse))


class _Chunked(torch.autograd.Function):
    """softmax(scale · q kᵀ + bias) v by chunks, forward and backward; only the lse is stored."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        layout: Layout,
        case: Case,
        scale: float,
    ) -> tuple[Tensor, Tensor]:
        out = query.new_zeros(*query.shape[:-1], value.shape[-1])
        lse = query.new_zeros(query.shape[:-1])
        for rows, columns, n_columns in layout.chunks:
            if n_columns:
                out[..., rows, :], lse[..., rows] = softmax_attention(
                    query[..., rows, :],
                    key[..., columns, :],
                    value[..., columns, :],
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
        for rows, columns, n_columns in ctx.layout.chunks:
            if not n_columns:
                continue
            dq, dk, dv = softmax_attention_backward(
                grad[..., rows, :],
                query[..., rows, :],
                key[..., columns, :],
                value[..., columns, :],
                out[..., rows, :],
                lse[..., rows],
                _bias(ctx.case, rows, columns, query),
                scale=ctx.scale,
            )
            d_query[..., rows, :] = dq
            _add(d_key, columns, dk)
            _add(d_value, columns, dv)
        return d_query, d_key, d_value, None, None, None


def _add(total: Tensor, columns: slice | Tensor, part: Tensor) -> None:
    if isinstance(columns, slice):
        total[..., columns, :] += part
    else:
        total.index_add_(-2, columns, part)


def _bias(
    case: Case, rows: slice, columns: slice | Tensor, like: Tensor
) -> Float[Tensor, "b h r c"] | None:
    """Minus infinity where a pair is hidden, plus the relation's bias; None if all is zero."""
    places = case.places.tile(rows, columns)
    hidden = ~case.mask.visible(places)
    bias = case.relation.as_bias(places)
    if bias is None and not bool(hidden.any()):
        return None
    shown = like.new_zeros(()) if bias is None else bias.detach().to(like.dtype)
    added = torch.where(hidden, -torch.inf, shown)
    n_rows, n_columns = places.query.shape[-2], places.key.shape[-1]
    return added.expand(*like.shape[:2], n_rows, n_columns)


SPARSE = SparsePath()
