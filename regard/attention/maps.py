"""Maps: lazy attention weights; any rectangle is rebuilt from query, key and numbers of each row.

    soft:  a[i,j] = exp(score(i,j) - lse[i])

A map keeps a few numbers per row, never the q × k weights; every method below works tile by tile,
so that a map of 50,000 tokens needs no 50,000² numbers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.links import (
    Dot,
    Grid,
    Pattern,
    Relation,
    Score,
    Selection,
    SoftRows,
    wide,
)
from regard.attention.tables import chain_text
from regard.errors import LengthError, SettingError
from regard.places import Places

TILE_NUMBERS = 1 << 20
"""How many weights are rebuilt at a time."""

DENSE_BYTES = 4 << 30
"""The most weights that `dense()` makes."""


class Top(NamedTuple):
    """The largest weights of each row and their columns."""

    weights: Float[Tensor, "*b q t"]
    columns: Int[Tensor, "*b q t"]


@dataclass(frozen=True, kw_only=True)
class AttentionMap:
    """The weights of one attention, of shape `b h q k`, none of them stored."""

    query: Float[Tensor, "*b q dq"]
    key: Float[Tensor, "*b k dk"]
    rows: tuple[Tensor, ...]
    places: Places
    mask: Pattern
    score: Score
    relation: Relation
    select: Selection
    columns: str = "keys"
    """The unit of the columns: keys, or memory slots if a memory shortened them."""
    precision: torch.dtype | None = None
    """The dtype for computing, if query and key are stored in a smaller one (saved records)."""
    value: Float[Tensor, "*b k dv"] | None = None
    """The values that were weighed, if they were captured."""
    output: Float[Tensor, "h dv m"] | None = None
    """The layer's output projection for each head's context, if there is one."""
    norms: Float[Tensor, "*b k"] | None = None
    """The values' norms, if the values themselves are not stored (saved records)."""

    def __post_init__(self) -> None:
        # a stored map must not keep the autograd graph of its step alive
        for name in ("query", "key", "value", "output"):
            tensor = getattr(self, name)
            object.__setattr__(self, name, None if tensor is None else tensor.detach())
        object.__setattr__(self, "rows", self._each_row(Tensor.detach))

    def __repr__(self) -> str:
        links = chain_text(self.score, self.relation, self.mask, self.select)
        return f"AttentionMap({' × '.join(map(str, self.shape))} {self.columns}, {links})"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole matrix."""
        return (*self.query.shape[:-1], self.key.shape[-2])

    def tile(self, rows: slice, columns: slice) -> Float[Tensor, "*b r c"]:
        """The weights of one rectangle.

        >>> from regard.attention import attend
        >>> x = torch.eye(3)
        >>> attend(x, x, x).map.tile(slice(0, 1), slice(1, 3))
        tensor([[0.2645, 0.2645]])
        """
        for name, part in (("rows", rows), ("columns", columns)):
            if not isinstance(part, slice):
                raise SettingError(
                    f"map: {name} must be a slice, got {part!r:.40}. Row 3 alone is slice(3, 4)."
                )
        with torch.no_grad():
            query, key = self.query[..., rows, :], self.key[..., columns, :]
            if self.precision is not None:
                # a score's own weights may be in a smaller precision than the scores
                own = self.score.parameters() if isinstance(self.score, nn.Module) else iter(())
                dtype = next((weight.dtype for weight in own), self.precision)
                query, key = query.to(dtype), key.to(dtype)
            numbers = self._each_row(lambda number: number[..., rows, :])
            places = self.places.tile(rows, columns)
            dot, softmax = self.score.as_dot(query, key), self.select.as_softmax()
            if dot is None or softmax is None or not self.relation.is_zero:
                if dot is None or self.precision is None:
                    scores = self.score(query, key, places)
                else:
                    exact = (x.to(self.precision) for x in (dot.query, dot.key.mT))
                    scores = torch.matmul(*exact) * dot.scale
                scores = scores + self.relation.to_scores(query, places)
                mask = self.mask.visible(places)
                return self.select.weigh(scores, mask, numbers, places)
            return self._softmax(dot, softmax, numbers, places, columns)

    def tile_of(self, head: int, rows: slice, columns: slice) -> Float[Tensor, "r c"]:
        """The weights of one rectangle of one head, for a batch of one sentence.

        A score without parameters is computed for this head alone.
        """
        is_plain = isinstance(self.score, nn.Module) and not any(
            True for _ in self.score.parameters()
        )
        one = self._head(head) if is_plain and self.relation.is_zero else self
        weights = one.tile(rows, columns)[0]
        # a mask may still have a row for every head
        return weights[head if len(weights) > 1 else 0]

    def context(self, rows: slice = slice(None)) -> Float[Tensor, "*b r dv"]:
        """The chain's context for these queries, rebuilt from weights and values."""
        weights, places = self.tile(rows, slice(None)), self.places.tile(rows, slice(None))
        with torch.no_grad():
            read = weights @ self._values().to(weights.dtype)
            return read + self.relation.to_context(weights, places)

    def value_norms(self) -> Float[Tensor, "*b k"]:
        """The norm of each value after the layer's output projection.

        A weight times this norm measures what a key contributes to the output, a weight alone only
        how much it is attended to (Kobayashi et al. 2020).
        """
        if self.norms is not None:
            return self.norms
        value = wide(self._values())
        if self.output is None:
            return value.norm(dim=-1)
        # |v W|² = v (W Wᵀ) vᵀ, which needs no vector of the model's width
        output = wide(self.output)
        return ((value @ (output @ output.mT)) * value).sum(-1).clamp(min=0).sqrt()

    def _values(self) -> Float[Tensor, "*b k dv"]:
        if self.value is None:
            raise SettingError(
                "map: this map has no values; it was made without them. Take one from "
                "captured(model) or capture(model), which keep them."
            )
        return self.value

    def may_hold(
        self, rows: slice, columns: slice, *, size: int | None = None
    ) -> Bool[Tensor, "nr nc"]:
        """False for blocks of a rectangle that surely hold no weight; True for all others.

        A block is `size` queries by `size` keys; the whole rectangle unless given.
        """
        down, across = (
            range(n)[part] for part, n in zip((rows, columns), self.shape[-2:], strict=True)
        )
        if size == 1:
            visible = self.mask.visible(self.places.tile(rows, columns))
            flat = visible.expand(*visible.shape[:-2], len(down), len(across))
            return flat.reshape(-1, len(down), len(across)).any(0).cpu()
        return self._touched(down, across, size or len(down) or 1, size or len(across) or 1)

    def _touched(self, rows: range, columns: range, high: int, wide: int) -> Bool[Tensor, "nr nc"]:
        """The blocks of a rectangle that the mask may show; all of them if places have gaps."""
        if self.places.past is None:
            return torch.ones(-(-len(rows) // high), -(-len(columns) // wide), dtype=torch.bool)
        grid = Grid.over(self.places, rows, columns, q_size=high, k_size=wide)
        return self.mask.touches(grid).expand(len(grid.q_first), grid.k_first.shape[-1])

    def allowed(self, rows: slice = slice(None), *, example: int = 0) -> Int[Tensor, " r"]:
        """How many keys each query of one sentence of the batch may see."""
        kernel, n_keys = self.mask.as_kernel(), self.shape[-1]
        at = _of(example, self.places.query)[..., rows, :].flatten()
        keys = _of(example, self.places.key).flatten()
        if kernel is not None and self.columns == "keys":
            if kernel.valid is not None:
                valid = kernel.valid[example]
                keys = keys[valid[keys.clamp(max=len(valid) - 1)]]
            # a part of a map has keys and queries at arbitrary positions
            behind = torch.searchsorted(keys.sort().values, at.contiguous(), right=True)
            return behind if kernel.is_causal else torch.full_like(at, len(keys))
        counts, whole = [], range(self.shape[-2])[rows]
        for first in range(0, len(whole), 256):
            part = whole[first : first + 256]
            some = slice(part.start, part.stop, part.step)
            visible = self.mask.visible(self.places.tile(some, slice(None)))
            visible = visible.expand(*visible.shape[:-2], len(part), n_keys)
            each = visible.reshape(-1, len(part), n_keys)
            # a pattern's result has no batch dimension, and a mask's may have one for heads
            counts.append(each[example * len(each) // self.query.shape[0]].sum(-1))
        return torch.cat(counts) if counts else at.new_zeros(0)

    def row(self, i: int) -> Float[Tensor, "*b k"]:
        """The weights of one query over all keys."""
        i = range(self.shape[-2])[i]
        return self.tile(slice(i, i + 1), slice(None)).squeeze(-2)

    def dense(self) -> Float[Tensor, "*b q k"]:
        """The whole matrix, if it is small enough."""
        size = self.query.element_size() * torch.Size(self.shape).numel()
        if size > DENSE_BYTES:
            raise LengthError(
                f"map: the whole matrix of shape {self.shape} would take {size / 2**30:.1f} GiB. "
                "Look at a part: tile(rows, columns), row(i), pooled(size) or top(count)."
            )
        return self.tile(slice(None), slice(None))

    def entropy(self) -> Float[Tensor, "*b q"]:
        """The entropy of each row in nats: 0 for one key, log k for a uniform row."""
        out = self.query.new_zeros(self.shape[:-1])
        for rows, _, tile in self._tiles():
            out[..., rows] -= torch.special.xlogy(tile, tile).sum(-1)
        return out

    def received(self) -> Float[Tensor, "*b k"]:
        """How much weight each key receives from all queries together."""
        out = self.query.new_zeros(*self.shape[:-2], self.shape[-1])
        for _, columns, tile in self._tiles():
            out[..., columns] += tile.sum(-2)
        return out

    def top(self, count: int) -> Top:
        """The largest weights of each row, best first."""
        count = min(count, self.shape[-1])
        best = self.query.new_full((*self.shape[:-1], count), -1.0)
        where = torch.zeros_like(best, dtype=torch.int64)
        for rows, columns, tile in self._tiles():
            at = torch.arange(self.shape[-1], device=tile.device)[columns].expand(tile.shape)
            found = tile.topk(min(count, tile.shape[-1]))
            weights = torch.cat([best[..., rows, :], found.values], -1)
            names = torch.cat([where[..., rows, :], at.gather(-1, found.indices)], -1)
            keep = weights.topk(count)
            best[..., rows, :], where[..., rows, :] = keep.values, names.gather(-1, keep.indices)
        return Top(best.clamp(min=0), where)

    def pooled(self, size: int) -> Float[Tensor, "*b g c"]:
        """The map in at most size × size bins: mean over a bin's rows, sum over its columns."""
        n_rows, n_columns = self.shape[-2:]
        row_bins, column_bins = min(size, n_rows), min(size, n_columns)
        out = self.query.new_zeros(*self.shape[:-2], row_bins, column_bins)
        row_bin = torch.arange(n_rows, device=out.device) * row_bins // n_rows
        column_bin = torch.arange(n_columns, device=out.device) * column_bins // n_columns
        for rows, columns, tile in self._tiles():
            by_column = tile.new_zeros(*tile.shape[:-1], column_bins)
            by_column.index_add_(-1, column_bin[columns], tile)
            out.index_add_(-2, row_bin[rows], by_column)
        return out / row_bin.bincount().unsqueeze(-1)

    def _tiles(self) -> Iterator[tuple[slice, slice, Float[Tensor, "*b r c"]]]:
        """Every rectangle that may hold a weight, a bounded number of weights at a time."""
        n_rows, n_columns = self.shape[-2:]
        per_pair = max(1, torch.Size(self.shape[:-2]).numel())
        side = max(1, int((TILE_NUMBERS / per_pair) ** 0.5))
        # a row of tiles shares its queries, so tiles are wide
        height, width = max(1, side // 2), max(1, side * 2)
        touched = self._touched(range(n_rows), range(n_columns), height, width)
        for r, top in enumerate(range(0, n_rows, height)):
            for c, left in enumerate(range(0, n_columns, width)):
                if touched[r, c]:
                    rows, columns = slice(top, top + height), slice(left, left + width)
                    yield rows, columns, self.tile(rows, columns)

    def _head(self, head: int) -> "AttentionMap":
        one = slice(head, range(self.shape[-3])[head] + 1)
        rows = self._each_row(lambda number: number[:, one])
        query, key = self.query[:, one], self.key[:, one]
        return replace(self, query=query, key=key, rows=rows, value=None, output=None, norms=None)

    def _each_row(self, change: Callable[[Tensor], Tensor]) -> tuple[Tensor, ...]:
        return type(self.rows)(*[change(number) for number in self.rows])

    def _softmax(
        self, dot: Dot, softmax: float, numbers: tuple[Tensor, ...], places: Places, columns: slice
    ) -> Float[Tensor, "*b r c"]:
        """The same for a softmax of dot products, in as few passes as possible."""
        assert isinstance(numbers, SoftRows)
        weights = wide(dot.query) * (dot.scale * softmax) @ wide(dot.key).mT
        weights = weights.sub_(numbers.lse).exp_()
        if not self._is_open(places, columns):
            weights.masked_fill_(~self.mask.visible(places), 0.0)
        return weights.to(dot.query.dtype)

    def _is_open(self, places: Places, columns: slice) -> bool:
        """Whether a mask that kernels know hides nothing of a rectangle."""
        kernel = self.mask.as_kernel()
        if kernel is None or not places.query.numel() or not places.key.numel():
            return False
        if kernel.is_causal and int(places.key.max()) > int(places.query.min()):
            return False
        return kernel.valid is None or bool(kernel.valid[:, : self.shape[-1]][:, columns].all())


def _of(example: int, places: Int[Tensor, "*b q k"]) -> Int[Tensor, "q k"]:
    """The places of one sentence, from places that are shared or of each sentence."""
    return places if places.dim() == 2 else places[example, 0]
