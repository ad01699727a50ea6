"""Focus: turns scores of a picture's cells into weights, and adds their term to the loss.

    soft   ẑ[t] = Σ_i α[t,i] a[i],                     loss + λ Σ_i (1 - Σ_t α[t,i])²
    hard   ẑ[t] = a[s[t]],  s[t] ~ Multinoulli(α[t]),  loss - λ_r (R - b) log p(s | a) - λ_e H
    where  R = log p(y | s, a),  log p(s | a) = Σ_t log α[t,s[t]],  H = Σ_t H[α[t]]

The estimator is that of all hard attention (hard_attention.py); nothing has a gradient through ẑ
but an expectation that `learns_from_expected`.

Paper: Xu et al. 2015, sections 4.1 and 4.2, equations 11, 12 and 14. The authors' code has one lot
for a whole batch, and R by the word: `credit = "word"`.
Cost: one softmax a step; hard focus a draw beside it.
"""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple, cast, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.links import wide
from regard.attention.selections.hard import HardSelection
from regard.models.captioner.spec import CaptionerSpec
from regard.models.hard_attention import expectation_rows, reinforced
from regard.models.trainable import Extra
from regard.places import Places


class Draw(NamedTuple):
    """The log-probability and the entropy of the draws; both have gradients."""

    log_prob: Float[Tensor, "*b"]
    """Log-probability of the drawn cell; 0 where nothing was drawn."""
    entropy: Float[Tensor, "*b"]
    """Entropy of the distribution that was drawn from."""


class Focused(NamedTuple):
    """The weights of some rows."""

    weights: Float[Tensor, "b w k"]
    """The weights that make the context."""
    likely: Float[Tensor, "r k"]
    """The softmax of the scores, which is what a map shows."""
    chance: Draw | None
    """None if nothing is drawn."""


class CaptionLooks(NamedTuple):
    """The weights of whole captions, and the steps that belong to them."""

    likely: Float[Tensor, "r t k"]
    chance: Draw | None
    valid: Bool[Tensor, "r t"]
    """Steps that read a word."""


@final
class SoftFocus(nn.Module):
    """Soft weights; with the penalty λ the weights of each cell sum to about 1 over a caption."""

    n_readings = 1
    """How often a caption is read for its loss."""

    def __init__(self, spec: CaptionerSpec) -> None:
        super().__init__()
        self.penalty = spec.penalty

    def expectation_rows(self, n_rows: int, device: torch.device) -> None:
        """Soft attention needs no draws."""

    def forward(self, scores: Float[Tensor, "b w k"], expectation_rows: None = None) -> Focused:
        """The softmax."""
        likely = scores.softmax(-1)
        return Focused(likely, likely.flatten(0, 1), None)

    def extra(self, watched: CaptionLooks) -> Extra | None:
        """The term of the loss for the weights of captions: the penalty, if there is one."""
        return partial(self._term, watched) if self.penalty else None

    def _term(self, watched: CaptionLooks, _: Float[Tensor, "r t"]) -> Float[Tensor, ""]:
        return self.penalty * uneven(watched.likely, watched.valid).sum()


@final
class HardFocus(nn.Module):
    """One cell, drawn at random in training; REINFORCE trains the scores."""

    baseline: Tensor

    def __init__(self, spec: CaptionerSpec) -> None:
        super().__init__()
        self.spec, self.n_readings = spec, spec.n_samples
        self.select = HardSelection(at_test=spec.at_test)
        # a buffer, since the baseline is learned and saved with the weights
        self.register_buffer("baseline", torch.zeros(()))

    def expectation_rows(self, n_rows: int, device: torch.device) -> Bool[Tensor, " r"] | None:
        """A random share of the captions, in training: these take the expectation, not a draw."""
        return expectation_rows(self.spec, n_rows, device) if self.training else None

    def forward(
        self, scores: Float[Tensor, "b w k"], expectation_rows: Bool[Tensor, " r"] | None = None
    ) -> Focused:
        """Draw a cell for each row, or take the expectation."""
        scores = wide(scores)
        mask = torch.ones(1, 1, dtype=torch.bool, device=scores.device)
        places = Places.between(*scores.shape[-2:], device=scores.device)
        rows = self.select.summarise(scores, mask, scores, places)
        if expectation_rows is not None:
            rows = rows.expecting(expectation_rows.view(*scores.shape[:2], 1))
        weights = self.select.weigh(scores, mask, rows, places)
        likely = (scores - rows.lse).exp().flatten(0, 1)
        if self.training and not self.spec.learns_from_expected:
            weights = weights.detach()
        return Focused(weights, likely, Draw(rows.log_prob.flatten(), rows.entropy.flatten()))

    def extra(self, watched: CaptionLooks) -> Extra:
        """The terms of REINFORCE and of the draws' entropy."""
        return partial(self._term, watched)

    def _term(self, watched: CaptionLooks, log_p: Float[Tensor, "r t"]) -> Float[Tensor, ""]:
        spec, valid = self.spec, watched.valid
        log_prob, entropy = ((each * valid).sum(1) for each in cast(Draw, watched.chance))
        gained = reinforced(spec, self.baseline, log_p, valid.sum(1), log_prob, entropy)
        lost = spec.penalty * uneven(watched.likely, valid) if spec.penalty else 0.0
        return (lost - gained).sum()


Focus = SoftFocus | HardFocus

FOCUSES: Mapping[str, type[Focus]] = {"soft": SoftFocus, "hard": HardFocus}
"""What `model.select` may name."""


def uneven(likely: Float[Tensor, "r t k"], valid: Bool[Tensor, "r t"]) -> Float[Tensor, " r"]:
    """How far the weights of each cell are from a sum of 1 over a caption: Σ_i (1 - Σ_t α[t,i])².

    Its C words have C looks for L cells, so that it is no less than L (1 - C / L)².
    """
    return (1 - (likely * valid[..., None]).sum(1)).square().sum(-1)
