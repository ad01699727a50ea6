"""Rows: join a source and a target into one row, with its right answers, and begin a search.

    separated   s1 … sn end begin y1 … ym end       T-D; the begin token is its separator
    running     begin s1 … sn y1 … ym               a text, cut anywhere, that goes on
    continued   s1 … sn y1 … ym end                 GPT-2; begin is read where there is no source
    begun       begin s1 … sn y1 … ym end           Llama

Corpora put an end token behind either side. Where the target continues the source, the source's end
is removed, and in a running text the target's too; a removed token has no loss.

Paper: Liu et al. 2018, section 4.2.1; Radford et al. 2019.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from jaxtyping import Int
from torch import Tensor

from regard.data.subword_kinds import BOS, EOS, PAD
from regard.models.shapes import SourceTokens, TargetTokens, Tokens

NOWHERE = -1
"""The place of a token that is not read."""


class LossRows(NamedTuple):
    """A row as the model reads it, and the right token after each of its tokens."""

    read: Tokens
    gold: Tokens
    """Padding where there is no loss."""


class SearchStart(NamedTuple):
    """The tokens that are read before the first step, and the token that the first step reads."""

    prefix: SourceTokens
    first: Int[Tensor, " b"] | None
    """The first step's token in place of the begin token; None for the begin token."""


class RowLayout(NamedTuple):
    """A source and a target in one row, and the position of each token; some are `NOWHERE`."""

    row: Tokens
    predicting_positions: TargetTokens
    """The position at which the token after each target token is predicted."""
    source: SourceTokens
    """The position of each source token."""
    target: TargetTokens
    """The position of each target token."""


@final
@dataclass(frozen=True)
class Rows:
    """How sources and targets are joined into rows."""

    continues_source: bool
    """Whether a target continues its source, which then loses its end token and may be empty."""
    begins: bool = True
    """Whether every row has the begin token; else only one whose source is empty."""
    ends: bool = True
    """Whether a target keeps its end token."""

    def joined(self, source: SourceTokens, target: TargetTokens, *, asks_all: bool) -> LossRows:
        """The rows that a loss takes, padding last; it is on the target alone, or on all tokens."""
        begun = torch.cat(self._begun(source, _begin(source)), 1)
        target = target if self.ends else target.masked_fill(target == EOS, PAD)
        rows, gold = _gapless(
            torch.cat([begun, target], 1), torch.cat([begun * asks_all, target], 1)
        )
        # a row's last token has no successor to predict, and so is not read
        return LossRows(rows[:, :-1].masked_fill(rows[:, 1:] == PAD, PAD), gold[:, 1:])

    def layout(self, source: SourceTokens, target: TargetTokens) -> RowLayout:
        """A source with its end token and a target with its begin token, as a search reads them."""
        begun = self._begun(source, target[:, :1])
        whole = torch.cat([*begun, target[:, 1:]], 1)
        there = whole != PAD
        places = (there.cumsum(1) - 1).masked_fill(~there, NOWHERE)
        own, begin, rest = places.split([part.shape[1] for part in (*begun, target[:, 1:])], 1)
        if self.continues_source:
            own, begin = begin, own
        n_begun = there[:, : source.shape[1] + 1].sum(1, keepdim=True)
        predicting = n_begun - 1 + torch.arange(target.shape[1], device=target.device)
        return RowLayout(_gapless(whole, whole)[0], predicting, own, torch.cat([begin, rest], 1))

    def search_start(self, source: SourceTokens) -> SearchStart:
        """The beginning of a search: the first step reads the token before the target."""
        if not self.continues_source:
            return SearchStart(source, None)
        row = torch.cat(self._begun(source, _begin(source)), 1)
        row, _ = _gapless(row, row)
        last = (row != PAD).sum(1, keepdim=True) - 1
        return SearchStart(row.scatter(1, last, PAD)[:, :-1], row.gather(1, last).squeeze(1))

    def _begun(self, source: SourceTokens, begin: Int[Tensor, "b 1"]) -> tuple[Tensor, Tensor]:
        """Source and begin token in their order; padding stands for a token that is left out."""
        if not self.continues_source:
            return source, begin
        source = source.masked_fill(source == EOS, PAD)
        if not self.begins:
            begin = begin.masked_fill((source != PAD).any(1, keepdim=True), PAD)
        return begin, source


ROWS: Mapping[str, Rows] = {
    "separated": Rows(continues_source=False),
    "running": Rows(continues_source=True, ends=False),
    "continued": Rows(continues_source=True, begins=False),
    "begun": Rows(continues_source=True),
}
"""The names that `model.rows` may have."""


def _begin(source: SourceTokens) -> Int[Tensor, "b 1"]:
    return source.new_full((len(source), 1), BOS)


def _gapless(rows: Tokens, answers: Tokens) -> tuple[Tokens, Tokens]:
    """Both tensors with each row's padding moved behind its tokens, without sorting."""
    there = rows != PAD
    place = torch.where(there, there.cumsum(1), there.sum(1, keepdim=True) + (~there).cumsum(1)) - 1
    return torch.zeros_like(rows).scatter(1, place, rows), torch.zeros_like(answers).scatter(
        1, place, answers
    )


def joined(source: SourceTokens, target: TargetTokens) -> LossRows:
    """The tokens to read and the right answers: one row of source, begin and target, padding last.

    >>> read, gold = joined(torch.tensor([[7, 2, 0], [8, 9, 2]]), torch.tensor([[5, 2], [6, 2]]))
    >>> read
    tensor([[7, 2, 1, 5, 0],
            [8, 9, 2, 1, 6]])
    >>> gold
    tensor([[0, 0, 5, 2, 0],
            [0, 0, 0, 6, 2]])
    """
    return ROWS["separated"].joined(source, target, asks_all=False)
