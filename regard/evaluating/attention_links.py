"""Attention links: word links read from attention maps, their error rate for every head, the best.

alignment.py has the links themselves, their files and the error rate; regard/runs/alignment.py
scores the heads of a run.

A decoder's row i is the step that predicts target token i; its input is token i − 1. Row i + 1 has
token i as its input, and often points at the right source word better (Chen et al. 2020). Both
readings are scored. Weights of sub-words become weights of words: summed over a source word's
pieces (it received them all), averaged over a target word's pieces (each is one decision). Each
target word then links to the source word it weighs most.

A head chosen on the sentences it is reported on looks better than it is: `best_head` takes two
tables, one to choose by and one to report.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import ShapeError
from regard.evaluating.alignment import AlignmentCounts, Gold, Link

LEFT_OUT = -1
"""The word number of a piece without a word: an end token, or a hyphen without links."""


class DecoderRow(Enum):
    """The decoder row whose weights count for a target token; the value is the shift."""

    PREDICTING = 0
    NEXT = 1


@dataclass(frozen=True)
class PieceWords:
    """The word that each piece of a sentence pair belongs to, or `LEFT_OUT`."""

    source: Sequence[int]
    target: Sequence[int]


@dataclass(frozen=True)
class HeadView:
    """A source of links: a head, a layer's mean, or the mean of all heads, and a decoder row."""

    layer: int | None
    head: int | None
    row: DecoderRow = DecoderRow.PREDICTING

    @property
    def is_head(self) -> bool:
        """Whether it is one head rather than a mean."""
        return self.head is not None

    def __str__(self) -> str:
        if self.layer is None:
            place = "mean of all heads"
        elif self.head is None:
            place = f"layer {self.layer + 1}, mean"
        else:
            place = f"layer {self.layer + 1}, head {self.head + 1}"
        return f"{place}, {self.row.name.lower()} row"


def views(layers: int, heads: int, row: DecoderRow = DecoderRow.PREDICTING) -> list[HeadView]:
    """Every head, then every layer's mean, then the mean of all."""
    each = [(layer, head) for layer in range(layers) for head in range(heads)]
    means = [(layer, None) for layer in range(layers)]
    return [HeadView(*place, row) for place in (*each, *means, (None, None))]


def merge_pieces(
    weights: Float[Tensor, "*heads rows columns"],
    pieces: PieceWords,
    row: DecoderRow = DecoderRow.PREDICTING,
) -> Float[Tensor, "*heads t s"]:
    """Turn weights of pieces into weights of words: summed over source, averaged over target.

    There is a row for each decoder step, the end's included, and a column for each source piece.
    """
    needed = (len(pieces.target) + row.value, len(pieces.source))
    if weights.shape[-2] < needed[0] or weights.shape[-1] != needed[1]:
        raise ShapeError(
            f"heads: expected at least {needed[0]} rows and exactly {needed[1]} columns for "
            f"{len(pieces.target)} target and {len(pieces.source)} source pieces read at the "
            f"{row.name.lower()} row, got {weights.shape[-2]} and {weights.shape[-1]}."
        )
    read = weights[..., row.value : row.value + len(pieces.target), :]
    source = _membership(pieces.source, read)
    target = _membership(pieces.target, read)
    shares = target / target.sum(dim=0, keepdim=True).clamp(min=1)
    return torch.einsum("...ij,it,js->...ts", read, shares, source)


def argmax_links(weights: Float[Tensor, "t s"], targets: Iterable[int]) -> frozenset[Link]:
    """Link each of these target words to the source word it weighs most; the first where equal.

    A target word that weighs no source word at all stays without a link.
    """
    if not weights.shape[-1]:
        return frozenset()
    most, best = (numbers.tolist() for numbers in weights.max(dim=-1))
    return frozenset((best[target], target) for target in targets if most[target] > 0)


def view_links(
    weights: Float[Tensor, "layers heads rows columns"],
    pieces: PieceWords,
    row: DecoderRow = DecoderRow.PREDICTING,
) -> dict[HeadView, frozenset[Link]]:
    """The links of one sentence pair by every head, every layer's mean and the mean of all."""
    words = weights_by_view(merge_pieces(weights, pieces, row), row)
    targets = {word for word in pieces.target if word != LEFT_OUT}
    return {view: argmax_links(one, targets) for view, one in words.items()}


def weights_by_view(
    words: Float[Tensor, "layers heads t s"], row: DecoderRow
) -> dict[HeadView, Float[Tensor, "t s"]]:
    """Weights between words: those of every head, every layer's mean, and the mean of all."""
    stacked = [*words.flatten(0, 1), *words.mean(dim=1), words.mean(dim=(0, 1))]
    layers, heads = words.shape[:2]
    return dict(zip(views(layers, heads, row), stacked, strict=True))


def view_table(
    sentences: Iterable[tuple[Float[Tensor, "layers heads rows columns"], PieceWords, Gold]],
) -> dict[HeadView, AlignmentCounts]:
    """Alignment errors of every view over a corpus, for both rows."""
    table: dict[HeadView, AlignmentCounts] = defaultdict(AlignmentCounts)
    for weights, pieces, gold in sentences:
        for row in DecoderRow:
            for view, links in view_links(weights, pieces, row).items():
                table[view] += AlignmentCounts.of(links, gold)
    return dict(table)


@dataclass(frozen=True)
class BestHead:
    """A head chosen on some sentences and its errors on those and on others."""

    view: HeadView
    chosen_on: AlignmentCounts
    reported_on: AlignmentCounts


def best_head(
    chosen_on: Mapping[HeadView, AlignmentCounts], reported_on: Mapping[HeadView, AlignmentCounts]
) -> BestHead:
    """Choose the head and row with the fewest errors by one table; report it by the other.

    Means cannot be chosen: they are not heads, and are in the table for comparison.
    """
    heads = [view for view in chosen_on if view.is_head]
    missing = [view for view in heads if view not in reported_on]
    if not heads or missing:
        raise ShapeError(
            f"best_head: expected the same heads in both tables and at least one, got {len(heads)} "
            f"to choose from, {len(missing)} of them without a report."
        )
    view = min(heads, key=lambda head: chosen_on[head].error_rate)
    return BestHead(view, chosen_on[view], reported_on[view])


def _membership(words: Sequence[int], like: Tensor) -> Float[Tensor, "pieces words"]:
    columns = torch.arange(max(words, default=LEFT_OUT) + 1)
    return (torch.tensor(words, dtype=torch.long)[:, None] == columns).to(like)
