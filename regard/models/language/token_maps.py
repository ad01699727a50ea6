"""Maps of a row between its tokens, whatever the columns of a layer are.

    a[i,j] = a[i, slot of j] / stride       where the slot was complete when i looked

A slot of a compressed memory stands for the tokens that were merged into it; each gets an equal
share of the slot's weight, so that rows still sum to one. Before there is a complete slot, all
weight is the first token's.
"""

from dataclasses import dataclass, replace
from typing import Any, final

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from regard.attention import AttentionMap
from regard.attention.links import Grid, Pattern, Selection, Window
from regard.attention.masks import apart
from regard.attention.memories.memory_compressed import CompleteSlots
from regard.models.language.rows import NOWHERE
from regard.places import Places


@final
@dataclass(frozen=True)
class SlotsOfTokens(Pattern):
    """A token is seen once the slot that holds it is complete; the first one before as well."""

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
        """Whatever is not wholly in the future."""
        return grid.k_first <= grid.q_last


@final
@dataclass(frozen=True)
class Shared(Selection):
    """A selection among slots, whose weights their tokens share."""

    among: Selection
    tokens: SlotsOfTokens

    def summarise(
        self,
        scores: Float[Tensor, "*b q k"],
        mask: Bool[Tensor, "*bm #q #k"],
        query: Float[Tensor, "*b q d"],
        places: Places,
    ) -> tuple[Tensor, ...]:
        """As it was among the slots."""
        return self.among.summarise(scores, mask, query, places)

    def weigh(
        self,
        scores: Float[Tensor, "*b q k"],
        mask: Bool[Tensor, "*bm #q #k"],
        rows: Any,
        places: Places,
    ) -> Float[Tensor, "*b q k"]:
        """A share of the slot's weight; all of it for the first token, where it is alone."""
        shares = self.among.weigh(scores, mask, rows, places) / self.tokens.stride
        return torch.where(self.tokens.is_first(places), torch.ones_like(shares), shares)

    def as_softmax(self) -> None:
        """It is none."""

    def as_window(self) -> Window | None:
        """It has none."""
        return None


def by_token(one: AttentionMap) -> AttentionMap:
    """A map whose columns are tokens; one whose columns are slots is spread over theirs."""
    parts, _ = apart(one.mask)
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
    """Some rows and columns of a map as a map; what stands nowhere is seen by nobody.

    Args:
        one: a causal map between tokens.
        rows: the queries of each sentence; a row that is nowhere is all zeros.
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
    """Of each sentence what stands at its own places."""
    return numbers.take_along_dim(places[:, None, :, None], dim=-2)


def _shared(places: Int[Tensor, "b p"], n_heads: int) -> Int[Tensor, "*bh p"]:
    """The places of one sentence, or of each sentence for every head."""
    return places[0] if len(places) == 1 else places[:, None].expand(-1, n_heads, -1)
