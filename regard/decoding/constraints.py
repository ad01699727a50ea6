"""Wishes: phrases that an answer must contain, met by sharing the beam among those who are near.

Hypotheses are sorted into banks by how many tokens of their sentence's phrases they hold. Every
bank in turn, the fullest first, keeps its best hypothesis until the beam is full; so one that meets
its next wish always survives, however unlikely, and likely ones survive beside it. Nobody ends
before its wishes are met, and who has no time left to meet them is dropped.

Paper: Hokamp & Liu 2017 (grid beam search); Post & Vilar 2018 (dynamic beam allocation).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.rules import Rule, Written
from regard.decoding.sentences import Sentence
from regard.decoding.token_scores import Judged, judge
from regard.decoding.trellis import Chosen
from regard.models.stepper import EOS

Phrase = tuple[int, ...]


class Progress(NamedTuple):
    """How far an answer is with its phrases."""

    met: int
    """Tokens of phrases that it holds, and of the one that it is in the middle of."""
    missing: int
    helpful: frozenset[int]
    """Tokens that would start a phrase or go on with one."""


def progress(tokens: Sequence[int], phrases: Sequence[Phrase]) -> Progress:
    """Count what is there.

    >>> progress([7, 8, 5], [(7, 8), (5, 6)])
    Progress(met=3, missing=1, helpful=frozenset({6}))
    """
    missing = [phrase for phrase in phrases if not _holds(tokens, phrase)]
    begun = [_begun(tokens, phrase) for phrase in missing]
    met = sum(map(len, phrases)) - sum(map(len, missing)) + max(begun, default=0)
    helpful = frozenset(phrase[done] for phrase, done in zip(missing, begun, strict=True))
    return Progress(met, sum(map(len, phrases)) - met, helpful)


class Candidate(NamedTuple):
    """A continuation of one of a sentence's rows."""

    score: float
    parent: int
    token: int
    own: float


@final
@dataclass(frozen=True)
class Wishes:
    """A chooser that sees to it that every sentence's phrases are met."""

    width: int
    min_tokens: int
    rules: Sequence[Rule]
    sentences: Sequence[Sentence]
    most: Sequence[int]
    """The most tokens that each sentence's answer may have."""

    def __call__(
        self,
        logits: Float[Tensor, "r v"],
        live: Float[Tensor, "b w"],
        places: Int[Tensor, " b"],
        written: Written,
    ) -> Chosen:
        """Share each sentence's places among its banks."""
        may_end = written.tokens.shape[1] >= self.min_tokens
        judged = judge(logits, self.rules, written, may_end=may_end)
        answers, names = written.tokens.tolist(), written.sentence.tolist()
        follows = self._follows(judged, answers, names)
        width, scores = live.shape[1], live.tolist()
        chosen = []
        for i, free in enumerate(places.tolist()):
            first = i * width
            banks: dict[int, list[Candidate]] = {}
            for parent in range(width):
                answer = answers[first + parent]
                for token, (score, own) in follows[first + parent].items():
                    total = scores[i][parent] + score
                    bank = self._bank(names[first], answer, token)
                    if bank is not None and total > -math.inf:
                        banks.setdefault(bank, []).append(Candidate(total, parent, token, own))
            chosen.append(list(in_turn(banks))[:free])
        return _as_tensors(chosen, live)

    def _follows(
        self, judged: Judged, answers: list[list[int]], names: list[int]
    ) -> list[dict[int, tuple[float, float]]]:
        """For every row the likeliest tokens and those that help, with score and own."""
        rows = zip(*(x.tolist() for x in judged.best(self.width)), strict=True)
        found = [dict(zip(row[0], zip(row[1], row[2], strict=True), strict=True)) for row in rows]
        pairs = [
            (row, token)
            for row, (answer, name) in enumerate(zip(answers, names, strict=True))
            if len(answer) >= len(self.sentences[name].prefix)
            for token in progress(answer, self._phrases(name)).helpful
        ]
        if pairs:
            # a wish outweighs a rule
            at, tokens = (list(part) for part in zip(*pairs, strict=True))
            for (row, token), own in zip(pairs, judged.own[at, tokens].tolist(), strict=True):
                found[row][token] = (own, own)
        return found

    def _bank(self, name: int, answer: list[int], token: int) -> int | None:
        """How many tokens are met then; None where it may not end yet, or has no time left."""
        phrases = self._phrases(name)
        if token == EOS:
            now = progress(answer, phrases)
            return None if now.missing else now.met
        then = progress([*answer, token], phrases)
        return then.met if then.missing < self.most[name] - len(answer) else None

    def _phrases(self, name: int) -> list[Phrase]:
        return sorted({tuple(phrase) for phrase in self.sentences[name].must_contain})


def in_turn(banks: Mapping[int, Sequence[Candidate]]) -> Iterator[Candidate]:
    """The best of each bank, the fullest bank first; then the second best of each; and so on."""
    ranked = [sorted(banks[bank], reverse=True) for bank in sorted(banks, reverse=True)]
    for rank in range(max(map(len, ranked), default=0)):
        yield from (bank[rank] for bank in ranked if rank < len(bank))


def _holds(tokens: Sequence[int], phrase: Phrase) -> bool:
    n = len(phrase)
    return any(tuple(tokens[i : i + n]) == phrase for i in range(len(tokens) - n + 1))


def _begun(tokens: Sequence[int], phrase: Phrase) -> int:
    """How many of the phrase's first tokens stand at the end."""
    longest = min(len(tokens), len(phrase) - 1)
    ends = (n for n in range(longest, 0, -1) if tuple(tokens[len(tokens) - n :]) == phrase[:n])
    return next(ends, 0)


def _as_tensors(chosen: list[list[Candidate]], like: Float[Tensor, "b w"]) -> Chosen:
    """Rows of one length; the rest of a shorter one is no row."""
    width = max(1, *map(len, chosen))
    none = Candidate(-math.inf, 0, EOS, 0.0)
    rows = [[*found, *[none] * (width - len(found))] for found in chosen]
    score, parent, token, own = (
        torch.tensor([[row[column] for row in found] for found in rows], device=like.device)
        for column in range(4)
    )
    return Chosen(token, parent, own.to(like.dtype), score.to(like.dtype))
