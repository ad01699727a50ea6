"""Rules: change a search's log-probabilities after the model has computed them.

    repetition_penalty   log p · penalty for tokens that were written before
    no_repeated_ngrams   0 probability for a token that would end an n-gram for the second time
    forbidden            0 probability for some tokens

A rule only lowers numbers, so that searches may stop early. The model's own log-probability is kept
separately: `Hypothesis.log_probability` is without rules.

Paper: Keskar et al. 2019 (CTRL), section 4.1; Paulus et al. 2018, section 2.5 (trigrams).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, final, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import check_least
from regard.models.stepper import PAD


class GeneratedTokens(NamedTuple):
    """The tokens of each row so far."""

    tokens: Int[Tensor, "r t"]
    sentence: Int[Tensor, " r"]
    """Which sentence of the search each row writes."""

    @classmethod
    def nothing(cls, n_sentences: int, device: torch.device) -> "GeneratedTokens":
        """The empty rows before the first token."""
        sentence = torch.arange(n_sentences, device=device)
        return cls(sentence.new_zeros(n_sentences, 0), sentence)

    def then(self, rows: Int[Tensor, " n"], tokens: Int[Tensor, " n"]) -> "GeneratedTokens":
        """Some rows, each with one more token."""
        return self.keep(rows).longer(tokens)

    def longer(self, tokens: Int[Tensor, " r"]) -> "GeneratedTokens":
        """The same rows, each with one more token."""
        return GeneratedTokens(torch.cat([self.tokens, tokens[:, None]], 1), self.sentence)

    def keep(self, rows: Int[Tensor, " n"]) -> "GeneratedTokens":
        """Some rows."""
        return GeneratedTokens(
            self.tokens.index_select(0, rows), self.sentence.index_select(0, rows)
        )


@runtime_checkable
class Rule(Protocol):
    """Lowers some log-probabilities, given what was written."""

    def __call__(
        self, scores: Float[Tensor, "r v"], written: GeneratedTokens
    ) -> Float[Tensor, "r v"]:
        """The new log-probabilities; the given tensor is not changed."""

    def to(self, device: torch.device) -> "Rule":
        """The same rule with its tensors on `device`, as a CUDA graph cannot move them."""
        return self


@final
@dataclass(frozen=True)
class RepetitionPenalty(Rule):
    """Makes tokens that were written before less likely."""

    penalty: float = 1.2

    def __post_init__(self) -> None:
        check_least("repetition_penalty: penalty", self.penalty, 1)

    def __call__(
        self, scores: Float[Tensor, "r v"], written: GeneratedTokens
    ) -> Float[Tensor, "r v"]:
        """Multiply their log-probabilities, which are below 0."""
        lower = scores.gather(1, written.tokens) * self.penalty
        return scores.scatter(1, written.tokens, lower)


@final
@dataclass(frozen=True)
class NoRepeatedNgrams(Rule):
    """No n tokens in a row come twice."""

    size: int = 3

    def __post_init__(self) -> None:
        check_least("no_repeated_ngrams: size", self.size, 1)

    def __call__(
        self, scores: Float[Tensor, "r v"], written: GeneratedTokens
    ) -> Float[Tensor, "r v"]:
        """Set every token that would complete an n-gram for the second time to 0 probability."""
        tokens, before = written.tokens, self.size - 1
        if tokens.shape[1] < self.size:
            return scores
        ngrams = tokens.unfold(1, self.size, 1)
        last = tokens[:, None, tokens.shape[1] - before :]
        again = (ngrams[..., :before] == last).all(-1)
        # padding is never written, so forbidding it changes nothing
        closed = torch.where(again, ngrams[..., before], PAD)
        return scores.scatter(1, closed, -torch.inf)


@final
@dataclass(frozen=True)
class Forbidden:
    """Some tokens are never written."""

    tokens: Sequence[int] | Int[Tensor, " n"]

    def to(self, device: torch.device) -> "Forbidden":
        """The same rule with its tokens on `device`."""
        return Forbidden(torch.as_tensor(self.tokens, dtype=torch.int64, device=device))

    def __call__(
        self, scores: Float[Tensor, "r v"], written: GeneratedTokens
    ) -> Float[Tensor, "r v"]:
        """Set their probability to 0."""
        # `as_tensor` gives back a tensor that is on the device already
        columns = torch.as_tensor(self.tokens, dtype=torch.int64, device=scores.device)
        return scores.index_fill(1, columns, -torch.inf)


@final
@dataclass(frozen=True)
class ForcedPrefix:
    """Each sentence's answer begins with given tokens."""

    forced: Int[Tensor, "b p"]
    """The tokens of each sentence, padded."""

    def to(self, device: torch.device) -> "ForcedPrefix":
        """The same rule with its tokens on `device`."""
        return ForcedPrefix(self.forced.to(device))

    def __call__(
        self, scores: Float[Tensor, "r v"], written: GeneratedTokens
    ) -> Float[Tensor, "r v"]:
        """Set all tokens but the next one of the prefix to 0 probability."""
        at = written.tokens.shape[1]
        if at >= self.forced.shape[1]:
            return scores
        token = self.forced[written.sentence, at][:, None]
        only = torch.full_like(scores, -torch.inf).scatter(1, token, scores.gather(1, token))
        return torch.where(token == PAD, scores, only)
