"""What a language model remembers between steps: a past for each layer, and rows of one length.

Where a layer counts positions from the row's first token (blocks, slots, global tokens), padding in
front of a row would move them. Rows of unequal length are then kept apart, each with its like.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.caches import KeyValues, Past, reordered


class LanguageState(NamedTuple):
    """What decoding remembers: every layer's past, and what in it is padding."""

    caches: tuple[Past | None, ...]
    length: int
    """Positions read so far, padding counted."""
    valid: Bool[Tensor, "r k"] | None
    """The positions that hold a token; None if all do, which the fastest kernels want to know."""
    skipped: Int[Tensor, " r"]
    """How many positions before a row's first token are padding."""
    first: Int[Tensor, " r"] | None = None
    """What the next step reads in place of its first token; None if that token itself."""

    @property
    def kept(self) -> tuple[int, ...]:
        """How many keys each layer still holds."""
        return tuple(0 if past is None else past.n_kept for past in self.caches)

    def select(self, rows: Int[Tensor, " r"]) -> "LanguageState":
        """The state of some rows, each with its own prefix."""
        return self._at(rows, tuple(past and past.select(rows) for past in self.caches))

    def branch(self, rows: Int[Tensor, " r"]) -> "LanguageState":
        """The same for a search; this state is used up."""
        whole = [past for past in self.caches if isinstance(past, KeyValues)]
        if len(whole) < len(self.caches) or not whole:
            return self.select(rows)
        return self._at(rows, tuple(reordered(whole, rows)))

    def _at(self, rows: Int[Tensor, " r"], caches: tuple[Past | None, ...]) -> "LanguageState":
        return LanguageState(
            caches,
            self.length,
            None if self.valid is None else self.valid[rows],
            self.skipped[rows],
            None if self.first is None else self.first[rows],
        )


@final
class Apart(NamedTuple):
    """States of rows that have different lengths, and the rows that each is for."""

    states: tuple[LanguageState, ...]
    rows: tuple[Int[Tensor, " g"], ...]

    @property
    def kept(self) -> tuple[int, ...]:
        """How many keys each layer still holds, in the longest row."""
        return tuple(max(layer) for layer in zip(*(one.kept for one in self.states), strict=True))

    def each(
        self, step: Callable[[LanguageState, Int[Tensor, " g"]], tuple[Tensor, LanguageState]]
    ) -> tuple[Tensor, "Apart"]:
        """Let every state go on with its rows, and put what they say in the rows' order."""
        said, states = zip(*map(step, self.states, self.rows), strict=True)
        order = torch.cat(self.rows).argsort()
        return torch.cat(said)[order], Apart(states, self.rows)

    def select(self, rows: Int[Tensor, " r"]) -> "Apart":
        """The states of some rows."""
        return self._moved(rows, LanguageState.select)

    def branch(self, rows: Int[Tensor, " r"]) -> "Apart":
        """The same for a search; this state is used up."""
        return self._moved(rows, LanguageState.branch)

    def _moved(
        self,
        rows: Int[Tensor, " r"],
        move: Callable[[LanguageState, Int[Tensor, " g"]], LanguageState],
    ) -> "Apart":
        states: list[LanguageState] = []
        places: list[Tensor] = []
        for state, own in zip(self.states, self.rows, strict=True):
            is_own = rows[:, None] == own
            here = is_own.any(1).nonzero().squeeze(1)
            if len(here):
                states.append(move(state, is_own[here].long().argmax(1)))
                places.append(here)
        return Apart(tuple(states), tuple(places))


def by_length(lengths: Sequence[int]) -> list[list[int]]:
    """Rows of one length together.

    >>> by_length([3, 5, 3])
    [[0, 2], [1]]
    """
    found: dict[int, list[int]] = {}
    for row, length in enumerate(lengths):
        found.setdefault(length, []).append(row)
    return list(found.values())
