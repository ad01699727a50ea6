"""Rules: what a search is told beside the model. Each takes log-probabilities and gives others.

    repetition_penalty   log p · penalty for tokens that were written before
    no_repeated_ngrams   0 probability for a token that would end an n-gram for the second time
    forbidden            0 probability for some tokens

A rule only ever lowers a number, so that searches may stop early. What the model itself says is
kept beside: `Hypothesis.log_probability` knows no rules.

Paper: Keskar et al. 2019 (CTRL), section 4.1; Paulus et al. 2018, section 2.5 (trigrams).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, final, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import SettingError
from regard.models.stepper import PAD


class Written(NamedTuple):
    """What each row holds so far."""

    tokens: Int[Tensor, "r t"]
    sentence: Int[Tensor, " r"]
    """Which sentence of the search each row writes."""

    @classmethod
    def nothing(cls, n_sentences: int, device: torch.device) -> "Written":
        """Before the first token."""
        sentence = torch.arange(n_sentences, device=device)
        return cls(sentence.new_zeros(n_sentences, 0), sentence)

    def then(self, rows: Int[Tensor, " n"], tokens: Int[Tensor, " n"]) -> "Written":
        """Some rows, each with one more token."""
        kept = self.keep(rows)
        return Written(torch.cat([kept.tokens, tokens[:, None]], 1), kept.sentence)

    def keep(self, rows: Int[Tensor, " n"]) -> "Written":
        """Some rows."""
        return Written(self.tokens.index_select(0, rows), self.sentence.index_select(0, rows))


@runtime_checkable
class Rule(Protocol):
    """Lowers some log-probabilities, given what was written."""

    def __call__(self, scores: Float[Tensor, "r v"], written: Written) -> Float[Tensor, "r v"]:
        """The new ones; those given stay as they are."""

    def on(self, device: torch.device) -> "Rule":
        """The same rule, with what it needs on a device: while it is recorded nothing can come."""


@final
@dataclass(frozen=True)
class RepetitionPenalty:
    """Makes tokens that were written before less likely."""

    penalty: float = 1.2

    def __post_init__(self) -> None:
        if self.penalty < 1.0:
            raise SettingError(
                f"repetition_penalty: penalty must be at least 1, got {self.penalty}."
            )

    def on(self, device: torch.device) -> "RepetitionPenalty":
        """Itself, since it needs nothing."""
        return self

    def __call__(self, scores: Float[Tensor, "r v"], written: Written) -> Float[Tensor, "r v"]:
        """Multiply their log-probabilities, which are below 0."""
        lower = scores.gather(1, written.tokens) * self.penalty
        return scores.scatter(1, written.tokens, lower)


@final
@dataclass(frozen=True)
class NoRepeatedNgrams:
    """No n tokens in a row come twice."""

    size: int = 3

    def __post_init__(self) -> None:
        if self.size < 1:
            raise SettingError(f"no_repeated_ngrams: size must be at least 1, got {self.size}.")

    def on(self, device: torch.device) -> "NoRepeatedNgrams":
        """Itself, since it needs nothing."""
        return self

    def __call__(self, scores: Float[Tensor, "r v"], written: Written) -> Float[Tensor, "r v"]:
        """Close every token that once followed what was written last."""
        tokens, before = written.tokens, self.size - 1
        if tokens.shape[1] < self.size:
            return scores
        ngrams = tokens.unfold(1, self.size, 1)
        last = tokens[:, None, tokens.shape[1] - before :]
        again = (ngrams[..., :before] == last).all(-1)
        # padding is never written, so closing it changes nothing
        closed = torch.where(again, ngrams[..., before], PAD)
        return scores.scatter(1, closed, -torch.inf)


@final
@dataclass(frozen=True)
class Forbidden:
    """Some tokens are never written."""

    tokens: Sequence[int] | Int[Tensor, " n"]

    def on(self, device: torch.device) -> "Forbidden":
        """With the tokens there."""
        return Forbidden(torch.as_tensor(self.tokens, dtype=torch.int64, device=device))

    def __call__(self, scores: Float[Tensor, "r v"], written: Written) -> Float[Tensor, "r v"]:
        """Close them."""
        # a tensor that is there already stays itself
        columns = torch.as_tensor(self.tokens, dtype=torch.int64, device=scores.device)
        return scores.index_fill(1, columns, -torch.inf)


@final
@dataclass(frozen=True)
class ForcedPrefix:
    """Each sentence's answer begins with given tokens."""

    forced: Int[Tensor, "b p"]
    """Filled up with padding."""

    def on(self, device: torch.device) -> "ForcedPrefix":
        """With the tokens there."""
        return ForcedPrefix(self.forced.to(device))

    def __call__(self, scores: Float[Tensor, "r v"], written: Written) -> Float[Tensor, "r v"]:
        """Close everything but the token that must come."""
        at = written.tokens.shape[1]
        if at >= self.forced.shape[1]:
            return scores
        token = self.forced[written.sentence, at][:, None]
        only = torch.full_like(scores, -torch.inf).scatter(1, token, scores.gather(1, token))
        return torch.where(token == PAD, scores, only)


RULES: Mapping[str, Callable[[Any], Rule]] = {
    "repetition_penalty": RepetitionPenalty,
    "no_repeated_ngrams": NoRepeatedNgrams,
    "forbidden": Forbidden,
}
"""Rules by name, each with its one setting."""
