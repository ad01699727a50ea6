"""Focus: turns scores of a picture's cells into weights, and adds their term to the loss.

    soft   ẑ[t] = Σ_i α[t,i] a[i],                     loss + λ Σ_i (1 - Σ_t α[t,i])²
    hard   ẑ[t] = a[s[t]],  s[t] ~ Multinoulli(α[t]),  loss - λ_r (R - b) log p(s | a) - λ_e H
    where  R = log p(y | s, a),  log p(s | a) = Σ_t log α[t,s[t]],  H = Σ_t H[α[t]],
           b ← 0.9 b + 0.1 mean of R

The loss of hard focus has for its gradient, on average over draws, that of the variational bound
L = Σ_s p(s | a) log p(y | s, a) <= log p(y | a), if λ_r is 1 and λ_e is 0. The credit R goes to all
draws of a caption alike, and has no gradient; nor has ẑ through α. Each caption is read either
with draws or, chosen at random, with their expectation Σ_i α[t,i] a[i] throughout. An expectation
gets no credit R: it does not train the scores, unless `learns_from_expected` lets the gradient
through, as in soft focus.

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
from regard.attention.selections.hard import NO_KEY, HardSelection
from regard.models.captioner.spec import CaptionerSpec
from regard.models.trainable import Extra
from regard.places import Places

BASELINE_KEPT = 0.9
"""Decay of the baseline for each batch."""


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
        if not self.training or not self.spec.expected_share:
            return None
        return torch.rand(n_rows, device=device) < self.spec.expected_share

    def forward(
        self, scores: Float[Tensor, "b w k"], expectation_rows: Bool[Tensor, " r"] | None = None
    ) -> Focused:
        """Draw a cell for each row, or take the expectation."""
        scores = wide(scores)
        mask = torch.ones(1, 1, dtype=torch.bool, device=scores.device)
        places = Places.between(*scores.shape[-2:], device=scores.device)
        rows = self.select.summarise(scores, mask, scores, places)
        if expectation_rows is not None:
            expects = expectation_rows.view(*scores.shape[:2], 1)
            rows = rows._replace(
                chosen=torch.where(expects, NO_KEY, rows.chosen),
                log_prob=rows.log_prob.masked_fill(expects, 0.0),
            )
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
        credit = log_p.detach().sum(1)
        credit = credit / valid.sum(1) if spec.credit == "word" else credit
        gained = spec.reinforce * (credit - self.baseline) * log_prob + spec.entropy * entropy
        self._move_baseline(credit)
        lost = spec.penalty * uneven(watched.likely, valid) if spec.penalty else 0.0
        return (lost - gained).sum()

    @torch.no_grad()
    def _move_baseline(self, credit: Float[Tensor, " r"]) -> None:
        """Move the baseline towards a batch, in place."""
        self.baseline.lerp_(credit.mean().to(self.baseline.dtype), 1 - BASELINE_KEPT)


Focus = SoftFocus | HardFocus

FOCUSES: Mapping[str, type[Focus]] = {"soft": SoftFocus, "hard": HardFocus}
"""What `model.select` may name."""


def uneven(likely: Float[Tensor, "r t k"], valid: Bool[Tensor, "r t"]) -> Float[Tensor, " r"]:
    """How far the weights of each cell are from a sum of 1 over a caption: Σ_i (1 - Σ_t α[t,i])².

    Its C words have C looks for L cells, so that it is no less than L (1 - C / L)².
    """
    return (1 - (likely * valid[..., None]).sum(1)).square().sum(-1)
