"""Constraints: phrases that an answer must contain, met by sharing the beam among its hypotheses.

Hypotheses are grouped into banks by how many tokens of their sentence's phrases they contain. Each
bank in turn, from the one with most tokens, keeps its best hypothesis until the beam is full; so a
hypothesis that continues a phrase always survives, however unlikely, together with likely ones. No
hypothesis ends before it contains its phrases; one too long to complete them is dropped.

Paper: Hokamp & Liu 2017 (grid beam search); Post & Vilar 2018 (dynamic beam allocation).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor

from regard.decoding.sentences import Sentence
from regard.decoding.token_scores import Logits, Scorer, TokenScores
from regard.decoding.trellis import Chosen, SearchState
from regard.models.stepper import EOS

Phrase = tuple[int, ...]


class PhraseProgress(NamedTuple):
    """The progress of an answer through its phrases."""

    met: int
    """Tokens of the phrases that it contains, and of the one it has begun."""
    missing: int
    helpful: frozenset[int]
    """Tokens that would begin or continue a phrase."""


def progress(tokens: Sequence[int], phrases: Sequence[Phrase]) -> PhraseProgress:
    """Count the tokens of phrases in an answer.

    >>> progress([7, 8, 5], [(7, 8), (5, 6)])
    PhraseProgress(met=3, missing=1, helpful=frozenset({6}))
    """
    missing = [phrase for phrase in phrases if not _holds(tokens, phrase)]
    begun = [_begun(tokens, phrase) for phrase in missing]
    met = sum(map(len, phrases)) - sum(map(len, missing)) + max(begun, default=0)
    helpful = frozenset(phrase[done] for phrase, done in zip(missing, begun, strict=True))
    return PhraseProgress(met, sum(map(len, phrases)) - met, helpful)


class _Continuation(NamedTuple):
    """A row of a sentence, and the token that it would write."""

    score: float
    parent: int
    token: int
    own: float


@final
@dataclass(frozen=True)
class ConstrainedChooser:
    """A chooser under which every sentence's answer contains its phrases."""

    width: int
    scorer: Scorer
    sentences: Sequence[Sentence]
    most: Sequence[int]
    """The most tokens that each sentence's answer may have."""

    def __call__(self, logits: Logits, before: SearchState) -> Chosen:
        """Share each sentence's places among its banks."""
        written = before.written
        answers, names = written.tokens.tolist(), written.sentence.tolist()
        follows = self._follows(self.scorer.every(logits, written), answers, names)
        width, scores = before.live.shape[1], before.live.tolist()
        chosen = []
        for i, free in enumerate(before.places.tolist()):
            first = i * width
            banks: dict[int, list[_Continuation]] = {}
            for parent in range(width):
                answer = answers[first + parent]
                for token, (score, own) in follows[first + parent].items():
                    total = scores[i][parent] + score
                    bank = self._bank(names[first], answer, token)
                    if bank is not None and total > -math.inf:
                        banks.setdefault(bank, []).append(_Continuation(total, parent, token, own))
            chosen.append(list(_in_turn(banks))[:free])
        return _as_tensors(chosen, before.live)

    def _follows(
        self, scores: TokenScores, answers: list[list[int]], names: list[int]
    ) -> list[dict[int, tuple[float, float]]]:
        """For every row the likeliest tokens and the helpful ones, with both log-probabilities."""
        rows = zip(*(x.tolist() for x in scores.best(self.width)), strict=True)
        found = [dict(zip(row[0], zip(row[1], row[2], strict=True), strict=True)) for row in rows]
        pairs = [
            (row, token)
            for row, (answer, name) in enumerate(zip(answers, names, strict=True))
            if len(answer) >= len(self.sentences[name].prefix)
            for token in progress(answer, self._phrases(name)).helpful
        ]
        if pairs:
            # a constraint outweighs a rule
            at, tokens = (list(part) for part in zip(*pairs, strict=True))
            for (row, token), own in zip(pairs, scores.own[at, tokens].tolist(), strict=True):
                found[row][token] = (own, own)
        return found

    def _bank(self, name: int, answer: list[int], token: int) -> int | None:
        """The bank of a continuation; None if it may not end yet or is too long for its phrases."""
        phrases = self._phrases(name)
        if token == EOS:
            now = progress(answer, phrases)
            return None if now.missing else now.met
        then = progress([*answer, token], phrases)
        return then.met if then.missing < self.most[name] - len(answer) else None

    def _phrases(self, name: int) -> list[Phrase]:
        return sorted({tuple(phrase) for phrase in self.sentences[name].must_contain})


def _in_turn(banks: Mapping[int, Sequence[_Continuation]]) -> Iterator[_Continuation]:
    """The best of each bank, the fullest bank first; then the second best of each; and so on."""
    ranked = [sorted(banks[bank], reverse=True) for bank in sorted(banks, reverse=True)]
    for rank in range(max(map(len, ranked), default=0)):
        yield from (bank[rank] for bank in ranked if rank < len(bank))


def _holds(tokens: Sequence[int], phrase: Phrase) -> bool:
    n = len(phrase)
    return any(tuple(tokens[i : i + n]) == phrase for i in range(len(tokens) - n + 1))


def _begun(tokens: Sequence[int], phrase: Phrase) -> int:
    """How many of the phrase's first tokens are at the end of the answer."""
    longest = min(len(tokens), len(phrase) - 1)
    ends = (n for n in range(longest, 0, -1) if tuple(tokens[len(tokens) - n :]) == phrase[:n])
    return next(ends, 0)


def _as_tensors(chosen: list[list[_Continuation]], like: Float[Tensor, "b w"]) -> Chosen:
    """Tensors of one width; sentences with fewer rows are filled up with empty rows."""
    width = max(1, *map(len, chosen))
    none = _Continuation(-math.inf, 0, EOS, 0.0)
    rows = [[*found, *[none] * (width - len(found))] for found in chosen]
    score, parent, token, own = (
        torch.tensor([[row[column] for row in found] for found in rows], device=like.device)
        for column in range(4)
    )
    return Chosen(token, parent, own.to(like.dtype), score.to(like.dtype))
