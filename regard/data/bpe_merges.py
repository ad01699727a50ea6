"""BPE merges: applies learned merges to words, with dropout; subword_kinds.py learns them.

    at every turn each possible merge is dropped with probability p;
    of the others the one learned first is applied; a word is done when none is left

Merges are drawn in the order in which they were learned, up to the first that is not dropped. One
geometric draw gives the number of merges until the next one that is dropped.

Paper: Provilkov, Emelianenko & Voita 2020 (BPE-dropout), algorithm 1.
Cost: O(n log n) for n characters, without dropout and with little of it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import pairwise
from random import Random
from typing import final

MAX_CACHED_WORDS = 1 << 17
"""Words whose merges without dropout are cached."""


@dataclass(frozen=True)
class Dropping:
    """How `encode_all` drops merges: the same in one epoch, different in the next."""

    dropout: float
    """The probability that a merge is left out."""
    seed: str
    """The seed of the draws: the pieces are a pure function of the seed and the text."""
    max_pieces: int
    """A text that dropout would cut into more pieces than this is cut without dropout."""


@final
class Merging:
    """Applies the merges of a vocabulary to words.

    Args:
        merges: pairs of pieces, in the order in which they were learned.
        numbers: the id of every piece.
    """

    def __init__(self, merges: Sequence[tuple[str, str]], numbers: Mapping[str, int]) -> None:
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}
        self._numbers = numbers
        self._plain = lru_cache(maxsize=MAX_CACHED_WORDS)(self._merged_plainly)

    def merged(self, word: str, dropout: float, random: Random) -> Sequence[int]:
        """The ids of a word's pieces, each merge dropped with probability `dropout`."""
        turns, numbers = self._plain(word)
        kept = _run(dropout, random)
        # in most words no merge is dropped, and the cached pieces hold
        return numbers if kept >= turns else self._walk(word, _Draws(dropout, random, kept))[1]

    def _merged_plainly(self, word: str) -> tuple[int, list[int]]:
        return self._walk(word, _Draws(0.0, Random(0), math.inf))

    def _walk(self, word: str, draws: "_Draws") -> tuple[int, list[int]]:
        """The number of merges applied to the word, and the ids of the resulting pieces."""
        line, ranks, turns = _Line(word), self._ranks, 0
        waiting = [(ranks[pair], i) for i, pair in enumerate(pairwise(word)) if pair in ranks]
        heapify(waiting)
        left_out: list[tuple[int, int]] = []
        while waiting:
            rank, place = heappop(waiting)
            if ranks.get(line.pair(place)) != rank:
                # one piece of the pair has already been merged with another piece
                continue
            if draws.leaves_out():
                left_out.append((rank, place))
                continue
            turns += 1
            for changed in line.merge(place):
                if (new := ranks.get(line.pair(changed))) is not None:
                    heappush(waiting, (new, changed))
            # a merge that was dropped is possible again in the next turn
            while left_out:
                heappush(waiting, left_out.pop())
        return turns, [self._numbers[piece] for piece in line.pieces if piece]


class _Draws:
    """A stream of decisions: whether the next merge is dropped."""

    def __init__(self, dropout: float, random: Random, kept: float | int) -> None:
        self.dropout, self.random, self.kept = dropout, random, kept

    def leaves_out(self) -> bool:
        if self.kept:
            self.kept -= 1
            return False
        self.kept = _run(self.dropout, self.random)
        return True


def _run(dropout: float, random: Random) -> int:
    """The number of merges until the next one that is dropped."""
    if dropout == 1.0:
        return 0
    return int(math.log1p(-random.random()) / math.log1p(-dropout))


class _Line:
    """A linked list of pieces; a merged piece takes the place of its left part."""

    def __init__(self, word: str) -> None:
        self.pieces = list(word)
        self.after = list(range(1, len(word) + 1))
        self.before = list(range(-1, len(word) - 1))

    def pair(self, place: int) -> tuple[str, str]:
        """A piece and the one after it; empty where there is none."""
        after = self.after[place]
        return self.pieces[place], self.pieces[after] if after < len(self.pieces) else ""

    def merge(self, place: int) -> list[int]:
        """Merge a piece with the one after it, and return the places of the new pairs."""
        gone = self.after[place]
        self.pieces[place] += self.pieces[gone]
        self.pieces[gone] = ""
        self.after[place] = self.after[gone]
        if self.after[gone] < len(self.pieces):
            self.before[self.after[gone]] = place
        return [place] if self.before[place] < 0 else [self.before[place], place]
