"""Trainable: the interface of a model for training."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, final, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.data.subword_kinds import BOS, PAD
from regard.models.shapes import NewStates, NewTokens, SourceTokens, TargetTokens

Extra = Callable[[Float[Tensor, "b t"]], Float[Tensor, ""]]
"""The log-probability of each right answer (0 where there is no loss; no gradient) → a term that is
added to the sum of the batch's losses, before that sum is scaled."""


@final
@dataclass(frozen=True)
class LossInputs:
    """The output layer's inputs for a batch, and the right answers: `hidden, gold = inputs`."""

    hidden: NewStates
    """The output layer's inputs; a loss computes logits from them in chunks."""
    gold: NewTokens
    """The right answers; padding (0) where there is no loss."""
    extra: Extra | None = None
    """One more term of the loss. Each row of the batch may then have several adjacent readings, and
    the loss is their mean."""
    first: int = 0
    """The token of the output layer's first row; not 0 where special tokens have no rows."""

    def __iter__(self) -> Iterator[Tensor]:
        yield from (self.hidden, self.gold)


@runtime_checkable
class Trainable(Protocol):
    """A model that can be trained on batches of tokens; it is an `nn.Module` as well."""

    output: nn.Linear
    """Maps `b t m` to a score for every answer; it has no bias."""

    def loss_inputs(self, source: SourceTokens, target: TargetTokens) -> LossInputs:
        """Read a batch with its answers; give the output layer's inputs and the right answers."""


def shifted(target: TargetTokens) -> TargetTokens:
    """The input of a decoder: the begin token, then all target tokens but the last.

    >>> shifted(torch.tensor([[5, 6, 2], [7, 2, 0]]))
    tensor([[1, 5, 6],
            [1, 7, 0]])
    """
    start = torch.full_like(target[:, :1], BOS)
    read = torch.cat([start, target[:, :-1]], 1)
    # a row's end token has no successor to predict, and so is not read
    return read.masked_fill(target == PAD, PAD)
