"""Stepper: the interface of a model for greedy search, beam search and sampling.

A batch of b sentences has b · w rows, w adjacent ones for each sentence; w is 1 at first. State of
the sentence alone, such as its source's keys and values, is kept once.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from regard.data.subword_kinds import BOS, EOS, PAD, UNK
from regard.models.shapes import Logits, NewTokens, SourceTokens

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "UNK",
    "DecodingState",
    "Stepper",
    "at_rows",
    "rows_of",
]


@runtime_checkable
class Stepper(Protocol):
    """A model that writes one token after another. The state is passed in and returned."""

    def start(self, source: SourceTokens) -> Any:
        """Read the source, and give the state before the first token."""

    def step(self, state: Any, tokens: NewTokens) -> tuple[Logits, Any]:
        """The logits after each new token, which the caller may overwrite, and the new state."""

    def select(self, state: Any, rows: Int[Tensor, " r"]) -> Any:
        """The state of some rows, all or none of a sentence's, each with its sentence."""

    def branch(self, state: Any, parents: Int[Tensor, "b w"]) -> Any:
        """Continue in w rows a sentence: row j of sentence i continues its old row `parents[i, j]`.

        The old state is used up.
        """


class DecodingState(NamedTuple):
    """The state of a model between steps, in nested tuples of tensors."""

    source: Any
    """State of each sentence, kept once for all of its rows."""
    rows: Any
    """State of each row."""
    length: int = 0
    """Target tokens seen so far."""

    def select(self, rows: Int[Tensor, " r"]) -> "DecodingState":
        """Some rows, all or none of a sentence's, each with its sentence."""
        width = count_rows(self.rows) // max(1, count_rows(self.source))
        sentences = rows[::width] // width
        return DecodingState(at_rows(self.source, sentences), at_rows(self.rows, rows), self.length)

    def branch(self, parents: Int[Tensor, "b w"]) -> "DecodingState":
        """Continue in w rows a sentence; the state of the sentence is not copied."""
        return self._replace(rows=at_rows(self.rows, rows_of(parents, count_rows(self.rows))))


def count_rows(parts: Any) -> int:
    """How many rows nested tuples of tensors have."""
    return len(parts) if isinstance(parts, Tensor) else count_rows(parts[0])


def at_rows(parts: Any, rows: Int[Tensor, " r"]) -> Any:
    """Some rows of every tensor in nested tuples."""
    if isinstance(parts, Tensor):
        return parts.index_select(0, rows)
    found = [at_rows(part, rows) for part in parts]
    return type(parts)(*found) if hasattr(parts, "_fields") else tuple(found)


def rows_of(parents: Int[Tensor, "b w"], n_rows: int) -> Int[Tensor, " r"]:
    """Batch indices of rows that are given as indices within each sentence.

    >>> rows_of(torch.tensor([[0, 0], [1, 0]]), n_rows=6)
    tensor([0, 0, 4, 3])
    """
    n_sentences = parents.shape[0]
    first = torch.arange(n_sentences, device=parents.device) * (n_rows // n_sentences)
    return (first[:, None] + parents).flatten()
