"""Token maps: attention maps between tokens, also of layers whose columns are memory slots.

    a[i,j] = a[i, slot of j] / stride       where the slot was complete when i looked

A slot of a compressed memory stands for the tokens that were merged into it; each gets an equal
share of the slot's weight, so that rows still sum to one. Before there is a complete slot, all
weight is the first token's.
"""

from dataclasses import dataclass, replace
from typing import Any, final

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from regard.attention import AttentionMap
from regard.attention.links import Grid, Pattern, Selection
from regard.attention.masks import split_padding
from regard.attention.memories.memory_compressed import CompleteSlots
from regard.attention.shapes import Mask, Queries, Scores, Weights
from regard.attention.tables import name_of
from regard.models.language.rows import NOWHERE
from regard.places import Places


@final
@dataclass(frozen=True)
class SlotsOfTokens(Pattern):
    """A token is seen once the slot that holds it is complete; the first one before as well.

    Record files name this class.
    """

    stride: int

    def visible(self, places: Places) -> Bool[Tensor, "*b q k"]:
        """True for tokens of complete slots."""
        end = (places.key // self.stride + 1) * self.stride - 1
        return (end <= places.query) | self.is_first(places)

    def is_first(self, places: Places) -> Bool[Tensor, "*b q k"]:
        """True where a query that sees no slot looks at the first token."""
        waits = (places.query >= 0) & (places.query < self.stride - 1)
        return waits & (places.key == 0)

    def touches(self, grid: Grid) -> Bool[Tensor, "nq nk"]:
        """All blocks that are not wholly in the future."""
        return grid.k_first <= grid.q_last


@final
@dataclass(frozen=True)
class Shared(Selection):
    """A selection among slots, whose weights their tokens share; record files name this class."""

    among: Selection
    tokens: SlotsOfTokens

    @property
    def own_name(self) -> str:
        """The name in records, as the class is in no table."""
        return f"{name_of(self.among)}, among slots of {self.tokens.stride} tokens"

    def summarise(
        self, scores: Scores, mask: Mask, query: Queries, places: Places
    ) -> tuple[Tensor, ...]:
        """The row numbers of the selection among slots."""
        return self.among.summarise(scores, mask, query, places)

    def weigh(self, scores: Scores, mask: Mask, rows: Any, places: Places) -> Weights:
        """An equal share of the slot's weight; all for the first token if no slot is seen."""
        shares = self.among.weigh(scores, mask, rows, places) / self.tokens.stride
        return torch.where(self.tokens.is_first(places), torch.ones_like(shares), shares)


def by_token(one: AttentionMap) -> AttentionMap:
    """A map whose columns are tokens; one whose columns are slots is spread over theirs."""
    parts, _ = split_padding(one.mask)
    complete = next((part for part in parts if isinstance(part, CompleteSlots)), None)
    if complete is None:
        return one
    n, device = one.shape[-2], one.key.device
    tokens, slots = torch.arange(n, device=device), SlotsOfTokens(complete.stride)
    return replace(
        one,
        key=one.key[..., 1 + tokens // slots.stride, :],
        value=None,
        places=Places(one.places.query, tokens[None], n, one.places.past),
        mask=slots,
        select=Shared(one.select, slots),
        columns="keys",
    )


def part_of(
    one: AttentionMap, rows: Int[Tensor, "b r"], columns: Int[Tensor, "b c"]
) -> AttentionMap:
    """A map of some rows and columns of a map; a key at `NOWHERE` has no weight.

    Args:
        one: a causal map between tokens.
        rows: the queries of each sentence; a row at `NOWHERE` is all zeros.
        columns: the keys of each sentence.
    """
    here, there = rows.clamp(min=0), columns.clamp(min=0)
    # later than every query, and so hidden from all of them; or before every key
    position = columns.masked_fill(columns == NOWHERE, 2 * one.shape[-1])
    query = rows.masked_fill(rows == NOWHERE, -2 * one.shape[-1])
    n_heads = one.shape[1]
    return replace(
        one,
        query=_at(one.query, here),
        key=_at(one.key, there),
        value=None if one.value is None else _at(one.value, there),
        rows=type(one.rows)(*[_at(number, here) for number in one.rows]),
        places=Places(
            _shared(query, n_heads)[..., None],
            _shared(position, n_heads)[..., None, :],
            one.places.length,
        ),
    )


def _at(
    numbers: Shaped[Tensor, "b h n d"], places: Int[Tensor, "b p"]
) -> Shaped[Tensor, "b h p d"]:
    """The values at each sentence's own positions."""
    return numbers.take_along_dim(places[:, None, :, None], dim=-2)


def _shared(places: Int[Tensor, "b p"], n_heads: int) -> Int[Tensor, "*bh p"]:
    """The positions of one sentence, or of each sentence repeated for every head."""
    return places[0] if len(places) == 1 else places[:, None].expand(-1, n_heads, -1)
