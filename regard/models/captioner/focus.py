"""Focus: how scores of a picture's cells become weights, and what the loss says about them.

    soft   ẑ[t] = Σ_i α[t,i] a[i],                     loss + λ Σ_i (1 - Σ_t α[t,i])²
    hard   ẑ[t] = a[s[t]],  s[t] ~ Multinoulli(α[t]),  loss - λ_r (R - b) log p(s | a) - λ_e H
    where  R = log p(y | s, a),  log p(s | a) = Σ_t log α[t,s[t]],  H = Σ_t H[α[t]],
           b ← 0.9 b + 0.1 mean of R

The loss of hard focus has for its gradient, on average over draws, that of the variational bound
L = Σ_s p(s | a) log p(y | s, a) <= log p(y | a), if λ_r is 1 and λ_e is 0. The credit R goes to all
draws of a caption alike, and has no gradient; nor has ẑ through α. Of each caption it is decided by
lot whether it is read with draws or with their expectation Σ_i α[t,i] a[i], all of it. To what is
expected no credit can be given: it teaches nothing about where to look, unless
`learns_from_expected` lets the gradient through, as soft focus does.

Paper: Xu et al. 2015, sections 4.1 and 4.2, equations 11, 12 and 14. The authors' code has one lot
for a whole batch, and R by the word: `credit = "word"`.
Cost: one softmax a step; hard focus a draw beside it.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, Protocol, cast, final, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.links import wide
from regard.attention.selections.hard import NO_KEY, HardSelection
from regard.choices import find
from regard.models.learner import Extra
from regard.places import Places

KEEPS = 0.9
"""How much of the baseline a batch leaves."""

Credit = Callable[[Float[Tensor, " r"], Int[Tensor, " r"]], Float[Tensor, " r"]]
"""A caption's log-probability and its number of words → what its draws are credited with."""

CREDITS: Mapping[str, Credit] = {
    "caption": lambda total, _: total,
    "word": lambda total, n_words: total / n_words,
}
"""What `model.credit` may name."""


class Chance(NamedTuple):
    """What was drawn; both have gradients."""

    log_prob: Float[Tensor, "*b"]
    """How likely the drawn cell was; 0 where nothing was drawn."""
    entropy: Float[Tensor, "*b"]
    """How open the draw was."""


class Focused(NamedTuple):
    """Where some rows look."""

    weights: Float[Tensor, "b w k"]
    """What the context is made with."""
    likely: Float[Tensor, "r k"]
    """The softmax of the scores, which is what a map shows."""
    chance: Chance | None
    """None if nothing is drawn."""


class Watched(NamedTuple):
    """Where whole captions have looked, and where they are over."""

    likely: Float[Tensor, "r t k"]
    chance: Chance | None
    valid: Bool[Tensor, "r t"]
    """Steps that read a word."""


@runtime_checkable
class Focus(Protocol):
    """A way to look at cells, and to learn where."""

    n_readings: int
    """How often a caption is read in a lesson."""

    def lots(self, n_rows: int, device: torch.device) -> Bool[Tensor, " r"] | None:
        """For each caption, whether it is read with expectations; None if there are no lots."""

    def __call__(self, scores: Float[Tensor, "b w k"], lots: Bool[Tensor, " r"] | None) -> Focused:
        """Look."""

    def extra(self, watched: Watched) -> Extra | None:
        """What the loss says about where captions have looked; None if nothing."""


@final
class SoftFocus(nn.Module):
    """Every cell counts; a penalty asks that each is looked at about once in a caption.

    Args:
        penalty: λ.
    """

    n_readings = 1

    def __init__(self, *, penalty: float = 0.0) -> None:
        super().__init__()
        self.penalty = penalty

    def lots(self, n_rows: int, device: torch.device) -> None:
        """Nothing is left to chance."""

    def forward(self, scores: Float[Tensor, "b w k"], lots: None = None) -> Focused:
        """The softmax."""
        likely = scores.softmax(-1)
        return Focused(likely, likely.flatten(0, 1), None)

    def extra(self, watched: Watched) -> Extra | None:
        """The penalty, if there is any."""
        return partial(self._term, watched) if self.penalty else None

    def _term(self, watched: Watched, _: Float[Tensor, "r t"]) -> Float[Tensor, ""]:
        return self.penalty * uneven(watched.likely, watched.valid).sum()


@final
class HardFocus(nn.Module):
    """One cell counts, drawn by lot in training; where to look is learned by REINFORCE.

    Args:
        n_samples: N, how often a caption is drawn for in a lesson.
        reinforce: λ_r.
        entropy: λ_e.
        expected_share: how likely a caption is read with expectations.
        learns_from_expected: whether such a caption teaches where to look.
        credit: "caption" (its log-probability), or "word" (that of a word on average).
        at_test: "expected" or "argmax"; nothing is drawn outside training.
        penalty: λ, as of soft focus; the paper has none here.
    """

    baseline: Tensor

    def __init__(
        self,
        *,
        n_samples: int = 1,
        reinforce: float = 0.1,
        entropy: float = 0.002,
        expected_share: float = 0.5,
        learns_from_expected: bool = False,
        credit: str = "caption",
        at_test: str = "expected",
        penalty: float = 0.0,
    ) -> None:
        super().__init__()
        self.select = HardSelection(at_test=at_test)
        self.n_readings, self.reinforce, self.entropy = n_samples, reinforce, entropy
        self.expected_share, self.penalty = expected_share, penalty
        self.learns_from_expected = learns_from_expected
        self.credit = find(credit, CREDITS)
        # a part of what was learned: it is saved with the weights
        self.register_buffer("baseline", torch.zeros(()))

    def lots(self, n_rows: int, device: torch.device) -> Bool[Tensor, " r"] | None:
        """One for each caption, in training."""
        if not self.training or not self.expected_share:
            return None
        return torch.rand(n_rows, device=device) < self.expected_share

    def forward(
        self, scores: Float[Tensor, "b w k"], lots: Bool[Tensor, " r"] | None = None
    ) -> Focused:
        """Draw a cell for each row, or take what is expected."""
        scores = wide(scores)
        mask = torch.ones(1, 1, dtype=torch.bool, device=scores.device)
        places = Places.between(*scores.shape[-2:], device=scores.device)
        rows = self.select.summarise(scores, mask, scores, places)
        if lots is not None:
            expects = lots.view(*scores.shape[:2], 1)
            rows = rows._replace(
                chosen=torch.where(expects, NO_KEY, rows.chosen),
                log_prob=rows.log_prob.masked_fill(expects, 0.0),
            )
        weights = self.select.weigh(scores, mask, rows, places)
        likely = (scores - rows.lse).exp().flatten(0, 1)
        if self.training and not self.learns_from_expected:
            weights = weights.detach()
        return Focused(weights, likely, Chance(rows.log_prob.flatten(), rows.entropy.flatten()))

    def extra(self, watched: Watched) -> Extra:
        """What REINFORCE adds, and what draws should be like."""
        return partial(self._term, watched)

    def _term(self, watched: Watched, log_p: Float[Tensor, "r t"]) -> Float[Tensor, ""]:
        valid = watched.valid
        log_prob, entropy = ((each * valid).sum(1) for each in cast(Chance, watched.chance))
        credit = self.credit(log_p.detach().sum(1), valid.sum(1))
        gained = self.reinforce * (credit - self.baseline) * log_prob + self.entropy * entropy
        self._follow(credit)
        lost = self.penalty * uneven(watched.likely, valid) if self.penalty else 0.0
        return (lost - gained).sum()

    @torch.no_grad()
    def _follow(self, credit: Float[Tensor, " r"]) -> None:
        """The baseline takes in a batch, where it is in memory."""
        self.baseline.lerp_(credit.mean().to(self.baseline.dtype), 1 - KEEPS)


def uneven(likely: Float[Tensor, "r t k"], valid: Bool[Tensor, "r t"]) -> Float[Tensor, " r"]:
    """How far a caption is from looking at every cell once: Σ_i (1 - Σ_t α[t,i])².

    Its C words have C looks for L cells, so that it is no less than L (1 - C / L)².
    """
    return (1 - (likely * valid[..., None]).sum(1)).square().sum(-1)
