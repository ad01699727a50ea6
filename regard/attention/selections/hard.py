"""Hard selection: look at one key, drawn from the weights; learn by REINFORCE.

    s[i] ~ Multinoulli(softmax(e[i])),   a[i,j] = 1 if j = s[i] else 0

Paper: Xu et al. 2015 (Show, Attend and Tell), section 4.1.
Cost: time O(q · k); normaliser, draw, its log-probability and the entropy are kept per row.
"""

from collections.abc import Mapping
from typing import NamedTuple, final

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from regard.attention.links import Selection, largest_negative, log_normaliser, normalised
from regard.attention.shapes import Mask, Queries, RowNumber, Scores, Weights
from regard.choices import find
from regard.dims import Dims
from regard.places import Places


class HardRows(NamedTuple):
    """What a REINFORCE loss needs; log-probability and entropy carry gradients, the draw none."""

    lse: RowNumber
    chosen: Int[Tensor, "*b q 1"]
    log_prob: RowNumber
    entropy: RowNumber

    def expecting(self, rows: Bool[Tensor, "..."]) -> "HardRows":
        """The same, but these rows take the expectation, and draw nothing."""
        return self._replace(
            chosen=torch.where(rows, NO_KEY, self.chosen),
            log_prob=self.log_prob.masked_fill(rows, 0.0),
        )


NO_KEY = -2
"""The choice of a row that sees no key, or that takes the expectation."""

AT_TEST: Mapping[str, bool] = {"argmax": True, "expected": False}


@final
class HardSelection(nn.Module, Selection):
    """One key per row: a sample in training; at test the likeliest key or the expectation."""

    is_movable = True

    def __init__(self, dims: Dims | None = None, *, at_test: str = "argmax") -> None:
        super().__init__()
        self.picks_at_test = find(at_test, AT_TEST)
        self.expects: Tensor | None = None
        """Rows of the batch that take the expectation in training."""
        self.learns_from_expected = True
        """Whether the expectation lets a gradient through in training."""

    def extra_repr(self) -> str:
        """What it does at test."""
        return "" if self.picks_at_test else "at_test=expected"

    def expecting(self, rows: Bool[Tensor, "..."], *, learns: bool) -> "HardSelection":
        """The same selection, but these rows of the batch take the expectation in training."""
        made = HardSelection(at_test="argmax" if self.picks_at_test else "expected")
        made.expects, made.learns_from_expected = rows, learns
        return made.train(self.training)

    def summarise(self, scores: Scores, mask: Mask, query: Queries, places: Places) -> HardRows:
        """Draw a key for each row (Gumbel's trick), with its log-probability."""
        lse = log_normaliser(scores, mask)
        weights = normalised(scores, mask, lse)
        log_weights = torch.where(mask, scores - lse, 0.0)
        entropy = -(weights * log_weights).sum(-1, keepdim=True)
        noise = -torch.empty_like(scores).exponential_().log() if self.training else 0.0
        open_scores = (scores.detach() + noise).masked_fill(~mask, largest_negative(scores))
        best = open_scores.argmax(-1, keepdim=True)
        log_prob = log_weights.gather(-1, best)
        sees = mask.expand(scores.shape).any(-1, keepdim=True)
        picks = sees & (self.training or self.picks_at_test)
        chosen = torch.where(picks, places.key.expand(scores.shape).gather(-1, best), NO_KEY)
        found = HardRows(lse, chosen, log_prob * picks, entropy)
        return found if self.expects is None else found.expecting(self.expects)

    def weigh(self, scores: Scores, mask: Mask, rows: HardRows, places: Places) -> Weights:
        """One at the chosen key; the softmax in rows that take the expectation."""
        one_hot = (places.key == rows.chosen).to(scores.dtype)
        soft = normalised(scores, mask, rows.lse)
        if self.training and not self.learns_from_expected:
            soft = soft.detach()
        return torch.where(rows.chosen == NO_KEY, soft, one_hot)
