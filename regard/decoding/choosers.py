"""Choosers: which continuations of its hypotheses a sentence goes on with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, final, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.rules import Rule, Written
from regard.decoding.token_scores import Best, best_next, judge
from regard.decoding.trellis import Chosen


@runtime_checkable
class Chooser(Protocol):
    """Chooses among the continuations of each sentence's rows."""

    def __call__(
        self,
        logits: Float[Tensor, "r v"],
        live: Float[Tensor, "b w"],
        places: Int[Tensor, " b"],
        written: Written,
    ) -> Chosen:
        """The chosen ones.

        Args:
            logits: of the next token of every row; they are used up.
            live: the score of every row; minus infinity for a row that is none.
            places: how many rows each sentence may go on with; those behind are not used.
            written: what every row holds.
        """


@final
@dataclass(frozen=True)
class Likeliest:
    """The likeliest continuations, with nobody else to ask."""

    width: int
    min_tokens: int

    def __call__(
        self,
        logits: Float[Tensor, "r v"],
        live: Float[Tensor, "b w"],
        places: Int[Tensor, " b"],
        written: Written,
    ) -> Chosen:
        """The best of each row's best."""
        may_end = written.tokens.shape[1] >= self.min_tokens
        return likeliest(best_next(logits, self.width, may_end=may_end), live, self.width)


@final
@dataclass(frozen=True)
class Ruled:
    """The likeliest continuations, after rules."""

    width: int
    min_tokens: int
    rules: Sequence[Rule]

    def __call__(
        self,
        logits: Float[Tensor, "r v"],
        live: Float[Tensor, "b w"],
        places: Int[Tensor, " b"],
        written: Written,
    ) -> Chosen:
        """The best of each row's best."""
        may_end = written.tokens.shape[1] >= self.min_tokens
        judged = judge(logits, self.rules, written, may_end=may_end)
        return likeliest(judged.best(self.width), live, self.width)


def likeliest(best: Best, live: Float[Tensor, "b w"], count: int) -> Chosen:
    """The best continuations of each sentence, from the best ones of each of its rows."""
    b, width = live.shape
    each = best.tokens.shape[1]
    # a row that is none stays none, whatever the model makes of it
    scores = live[..., None] + best.scores.view(b, width, each)
    scores = scores.where(live[..., None] > -torch.inf, -torch.inf).flatten(1)
    score, at = scores.topk(min(count, width * each))
    token, own = (x.view(b, -1).gather(1, at) for x in (best.tokens, best.own))
    return Chosen(token, at // each, own, score)
