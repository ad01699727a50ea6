"""Stepper: what greedy search, beam search and sampling need of a model, and nothing more.

A batch of b sentences is written in b · w rows, w of them for each sentence and side by side; w is
1 at first. What belongs to a sentence alone, such as its source's keys and values, is kept once.
"""

from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.data.kinds import BOS, EOS, PAD, UNK

__all__ = ["BOS", "EOS", "PAD", "UNK", "ReadsUnasked", "Stepper", "rows_of"]


@runtime_checkable
class Stepper(Protocol):
    """A model that writes one token after another. The state is passed in and returned."""

    def start(self, source: Int[Tensor, "b s"]) -> Any:
        """Read the source; the state before the first token."""

    def step(self, state: Any, tokens: Int[Tensor, "r t"]) -> tuple[Float[Tensor, "r t v"], Any]:
        """The logits after each of the new tokens, the caller's to change; and the new state."""

    def select(self, state: Any, rows: Int[Tensor, " r"]) -> Any:
        """The state of some rows, all or none of a sentence's, each with its sentence."""

    def branch(self, state: Any, parents: Int[Tensor, "b w"]) -> Any:
        """Go on in w rows a sentence: row j continues the sentence's old row `parents[i, j]`.

        The old state is used up.
        """


@runtime_checkable
class ReadsUnasked(Protocol):
    """A stepper that can read a source without a look at its numbers, so that it is recorded."""

    @property
    def is_recordable(self) -> bool:
        """Whether this one can, as it is built."""

    def read(self, source: Int[Tensor, "b s"], *, is_full: bool) -> Any:
        """What `start` does, told whether all tokens exist; nothing waits for the device."""


def rows_of(parents: Int[Tensor, "b w"], n_rows: int) -> Int[Tensor, " r"]:
    """The rows of the batch that are meant by rows counted within each sentence.

    >>> rows_of(torch.tensor([[0, 0], [1, 0]]), n_rows=6)
    tensor([0, 0, 4, 3])

    Args:
        parents: for each sentence, some of its rows.
        n_rows: the rows of all sentences together.
    """
    n_sentences = parents.shape[0]
    first = torch.arange(n_sentences, device=parents.device) * (n_rows // n_sentences)
    return (first[:, None] + parents).flatten()
