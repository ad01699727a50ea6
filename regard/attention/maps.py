"""Attention maps are lazy: any rectangle of the weights, rebuilt from query, key and row numbers.

    soft:  a[i,j] = exp(score(i,j) - lse[i])

A run keeps a few numbers per row, never the q × k weights; every method below works tile by tile,
so that 50,000 tokens can be looked at without 50,000² numbers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.links import Grid, Pattern, Relation, Score, Selection
from regard.errors import LengthError
from regard.places import Places

TILE_NUMBERS = 1 << 20
"""How many weights are rebuilt at a time."""

DENSE_BYTES = 4 << 30
"""The largest matrix that `dense()` agrees to make."""


class Top(NamedTuple):
    """The largest weights of each row and the columns they stand in."""

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
    """What the columns stand for: keys, or memory slots where a memory shortened them."""

    def __post_init__(self) -> None:
        # a map that is kept must not keep the whole graph of the step that made it
        rows = type(self.rows)(*[number.detach() for number in self.rows])
        for name, kept in (
            ("query", self.query.detach()),
            ("key", self.key.detach()),
            ("rows", rows),
        ):
            object.__setattr__(self, name, kept)

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
        with torch.no_grad():
            query, key = self.query[..., rows, :], self.key[..., columns, :]
            places = self.places.tile(rows, columns)
            numbers = [number[..., rows, :] for number in self.rows]
            scores = self.score(query, key, places) + self.relation.to_scores(query, places)
            mask = self.mask.visible(places)
            return self.select.weigh(scores, mask, type(self.rows)(*numbers), places)

    def row(self, i: int) -> Float[Tensor, "*b k"]:
        """The weights of one query over all keys."""
        i = range(self.shape[-2])[i]
        return self.tile(slice(i, i + 1), slice(None)).squeeze(-2)

    def dense(self) -> Float[Tensor, "*b q k"]:
        """The whole matrix, where it is small enough to hold."""
        size = self.query.element_size() * torch.Size(self.shape).numel()
        if size > DENSE_BYTES:
            raise LengthError(
                f"map: the whole matrix of shape {self.shape} would take {size / 2**30:.1f} GiB. "
                "Look at a part: tile(rows, columns), row(i), pooled(size) or top(count)."
            )
        return self.tile(slice(None), slice(None))

    def entropy(self) -> Float[Tensor, "*b q"]:
        """How spread each row is, in nats: 0 for one key, log k for all alike."""
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
        touched = self._touched(height, width)
        for r, top in enumerate(range(0, n_rows, height)):
            for c, left in enumerate(range(0, n_columns, width)):
                if touched is None or touched[r, c]:
                    rows, columns = slice(top, top + height), slice(left, left + width)
                    yield rows, columns, self.tile(rows, columns)

    def _touched(self, height: int, width: int) -> Bool[Tensor, "nr nc"] | None:
        if self.places.past is None:
            return None
        n_rows, n_columns = self.shape[-2:]
        grid = Grid.over(self.places, n_rows, n_columns, q_size=height, k_size=width)
        return self.mask.touches(grid)
