"""Sentences: the inputs of a search, each with its constraints, and limits for all of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.rules import ForcedPrefix, Rule
from regard.errors import SettingError
from regard.models.stepper import BOS, EOS, PAD

SIGNS = (PAD, BOS, EOS)
"""Special tokens, which no answer can be forced to contain."""


@runtime_checkable
class Follower(Protocol):
    """The caller's view of a search that runs: it is told of tokens, and may end the answer."""

    def wants_more(self) -> bool:
        """Asked before each step; once it is false, the answer ends as if its limit were here."""

    def write(self, token: int) -> None:
        """Told each token, the end token too, of an answer that is never taken back.

        So it is with greedy search and one sample; a beam tells none.
        """


@dataclass(frozen=True)
class Sentence:
    """One source, and the constraints on its answer."""

    source: Sequence[int]
    prefix: Sequence[int] = ()
    """Tokens the answer begins with."""
    must_contain: Sequence[Sequence[int]] = ()
    """Phrases that the answer must contain, in any order; they may overlap. Beam search only."""
    seed: int = 0
    """The seed of its draws in sampling."""
    follower: Follower | None = None
    """Who follows the search; a search engine, which takes no steps here, ignores it."""

    def __post_init__(self) -> None:
        if not (self.prefix or self.must_contain):
            return
        for name, phrase in (
            ("prefix", self.prefix),
            *(("must_contain", phrase) for phrase in self.must_contain),
        ):
            if signs := [token for token in phrase if token in SIGNS]:
                raise SettingError(
                    f"decoding: {name} holds token {signs[0]}, which is padding, begin or end "
                    f"({', '.join(map(str, SIGNS))}); an answer holds none of them. Leave it out."
                )
        if any(not phrase for phrase in self.must_contain):
            raise SettingError("decoding: must_contain holds an empty phrase. Leave it out.")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How short and how long an answer may be, in tokens without the end token."""

    max_tokens: int = 256
    """The longest answer; a longer one is cut, and its `Hypothesis.has_ended` is False."""
    min_tokens: int = 0
    """The end token is not written before."""
    beyond_source: int | None = None
    """At most so many tokens more than the source has; 50 in the Transformer paper."""

    def __post_init__(self) -> None:
        if not 0 <= self.min_tokens <= self.max_tokens or self.max_tokens < 1:
            raise SettingError(
                "decoding: expected 0 <= min_tokens <= max_tokens and max_tokens >= 1, got "
                f"min_tokens = {self.min_tokens} and max_tokens = {self.max_tokens}."
            )
        if self.beyond_source is not None and self.beyond_source < 1:
            raise SettingError(
                f"decoding: beyond_source must be at least 1, got {self.beyond_source}."
            )

    def of(self, sentence: Sentence) -> int:
        """The most tokens that this sentence's answer may have."""
        most = self.max_tokens
        if self.beyond_source is not None:
            most = min(most, max(self.min_tokens, len(sentence.source) + self.beyond_source))
        phrases = set(map(tuple, sentence.must_contain))
        if (needed := len(sentence.prefix) + sum(map(len, phrases))) > most:
            raise SettingError(
                f"decoding: prefix and must_contain take up to {needed} tokens, but the answer may "
                f"have {most} at most. Raise max_tokens (or beyond_source), or leave some out."
            )
        return most


class SentenceBatch(NamedTuple):
    """Sentences as tensors."""

    source: Int[Tensor, "b s"]
    most: Int[Tensor, " b"]
    """The most tokens each answer may have."""
    longest: int
    """The most tokens any answer may have."""
    forced: Int[Tensor, "b p"]
    """What each answer begins with, filled up with padding."""
    is_full: bool
    """Whether the sources have no padding, known without asking the device."""
    chances: Float[Tensor, "b n t"] | None = None
    """Random numbers in [0, 1) for each sample and step, where answers are drawn."""

    @classmethod
    def of(
        cls, sentences: Sequence[Sentence], limits: Limits, device: torch.device
    ) -> "SentenceBatch":
        """Put some sentences side by side."""
        most = [limits.of(sentence) for sentence in sentences]
        # an empty source is one token of padding, which models mask
        source = padded_tokens([sentence.source or [PAD] for sentence in sentences])
        return cls(
            source.to(device),
            torch.tensor(most, device=device),
            max(most),
            padded_tokens([sentence.prefix for sentence in sentences], device),
            bool((source != PAD).all()),
        )

    def wider(self, count: int) -> "SentenceBatch":
        """The same with so many more columns of padding behind the sources."""
        if count == 0:
            return self
        source = torch.nn.functional.pad(self.source, (0, count), value=PAD)
        return self._replace(source=source, is_full=False)

    def rules(self, others: Sequence[Rule]) -> list[Rule]:
        """These rules, and the prefixes if there are any, where the sentences are."""
        rules = [*others, *([ForcedPrefix(self.forced)] if self.forced.numel() else [])]
        return [rule.to(self.source.device) for rule in rules]


def cut_short(
    most: Int[Tensor, " b"], followers: Sequence[Follower | None], t: int
) -> Int[Tensor, " b"]:
    """The most tokens of each answer: t where a follower wants no more."""
    over = [one is not None and not one.wants_more() for one in followers]
    if not any(over):
        return most
    return most.masked_fill(torch.tensor(over, device=most.device), t)


def padded_tokens(
    rows: Sequence[Sequence[int]], device: torch.device | str = "cpu"
) -> Int[Tensor, "b n"]:
    """Rows of tokens as one tensor, the shorter ones filled up with padding."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    filled = np.full((len(rows), lengths.max(initial=0)), PAD)
    # one array of all tokens is made much faster than a tensor of lists of lists
    filled[np.arange(filled.shape[1]) < lengths[:, None]] = np.fromiter(
        chain.from_iterable(rows), np.int64, lengths.sum()
    )
    return torch.from_numpy(filled).to(device)
