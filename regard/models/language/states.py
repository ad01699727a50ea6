"""States: what a language model keeps between steps, namely the cache of each layer.

Where a layer counts positions from the row's first token (blocks, slots, global tokens), padding in
front of a row would shift them. The rows of each length then have a state of their own.
"""

from collections.abc import Callable
from typing import NamedTuple, final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.caches import KeyValues, Past, reordered
from regard.models.stepper import rows_of


class LanguageState(NamedTuple):
    """The state of decoding: every layer's cache, and the padding in it."""

    caches: tuple[Past | None, ...]
    length: int
    """Positions read so far, padding counted."""
    valid: Bool[Tensor, "r k"] | None
    """True for positions that hold a token; None if all do, so that the fastest kernels can run."""
    skipped: Int[Tensor, " r"]
    """How many positions before a row's first token are padding."""
    first: Int[Tensor, " r"] | None = None
    """The token that the next step reads in place of its first one; None to keep that one."""

    @property
    def kept(self) -> tuple[int, ...]:
        """How many keys each layer still holds."""
        return tuple(0 if past is None else past.n_kept for past in self.caches)

    def select(self, rows: Int[Tensor, " r"]) -> "LanguageState":
        """The state of some rows, each with its own prefix."""
        return self._at(rows, tuple(past and past.select(rows) for past in self.caches))

    def branch(self, parents: Int[Tensor, "b w"]) -> "LanguageState":
        """Continue in w rows a sentence; a prefix is part of its row, and this state is used up."""
        return self.moved(rows_of(parents, len(self.skipped)))

    def moved(self, rows: Int[Tensor, " r"]) -> "LanguageState":
        """The same as `select`; this state is used up."""
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
class StatesByLength(NamedTuple):
    """States of rows that have different lengths, and the rows that each is for."""

    states: tuple[LanguageState, ...]
    rows: tuple[Int[Tensor, " g"], ...]

    @property
    def kept(self) -> tuple[int, ...]:
        """How many keys each layer still holds, in the longest row."""
        return tuple(max(layer) for layer in zip(*(one.kept for one in self.states), strict=True))

    def each(
        self, step: Callable[[LanguageState, Int[Tensor, " g"]], tuple[Tensor, LanguageState]]
    ) -> tuple[Tensor, "StatesByLength"]:
        """Step every state with its rows, and put the outputs into the order of the rows."""
        said, states = zip(*map(step, self.states, self.rows), strict=True)
        order = torch.cat(self.rows).argsort()
        return torch.cat(said)[order], StatesByLength(states, self.rows)

    def select(self, rows: Int[Tensor, " r"]) -> "StatesByLength":
        """The states of some rows."""
        return self._moved(rows, LanguageState.select)

    def branch(self, parents: Int[Tensor, "b w"]) -> "StatesByLength":
        """Continue in w rows a sentence; this state is used up."""
        return self._moved(rows_of(parents, sum(map(len, self.rows))), LanguageState.moved)

    def _moved(
        self,
        rows: Int[Tensor, " r"],
        move: Callable[[LanguageState, Int[Tensor, " g"]], LanguageState],
    ) -> "StatesByLength":
        states: list[LanguageState] = []
        places: list[Tensor] = []
        for state, own in zip(self.states, self.rows, strict=True):
            is_own = rows[:, None] == own
            here = is_own.any(1).nonzero().squeeze(1)
            if len(here):
                states.append(move(state, is_own[here].long().argmax(1)))
                places.append(here)
        return StatesByLength(tuple(states), tuple(places))
