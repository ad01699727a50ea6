"""Stepper: what greedy search, beam search and sampling need of a model, and nothing more."""

from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from regard.data.kinds import BOS, EOS, PAD, UNK

__all__ = ["BOS", "EOS", "PAD", "UNK", "Stepper"]


@runtime_checkable
class Stepper(Protocol):
    """A model that writes one token after another. The state is passed in and returned."""

    def start(self, source: Int[Tensor, "b s"]) -> Any:
        """Read the source; the state before the first token."""

    def step(self, state: Any, tokens: Int[Tensor, "b t"]) -> tuple[Float[Tensor, "b t v"], Any]:
        """The logits after each of the new tokens, and the state that knows them."""

    def select(self, state: Any, rows: Int[Tensor, " r"]) -> Any:
        """The state of some rows, in a new order, as a beam search asks for."""
