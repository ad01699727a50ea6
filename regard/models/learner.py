"""Learner: what training needs of a model, and nothing more."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, final, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.data.kinds import BOS, PAD

Extra = Callable[[Float[Tensor, "b t"]], Float[Tensor, ""]]
"""The log-probability of each right answer (0 where nothing is asked, and without a gradient) → a
term that is added to the sum of the batch's losses, before that sum is scaled."""


class Lesson(NamedTuple):
    """What a model read of a batch, and what it should have said there."""

    hidden: Float[Tensor, "b t m"]
    """What the output layer reads; a loss that never holds all logits starts from here."""
    gold: Int[Tensor, "b t"]
    """The right answers; padding (0) where nothing is asked."""

    @property
    def extra(self) -> Extra | None:
        """What the loss has beside the right answers; nothing, as a rule."""
        return None


@final
class LessonWithExtra(Lesson):
    """A lesson whose loss has one more term; it is taken apart like any other.

    Each row of the batch may have been read several times over, side by side: the loss is then the
    mean over its readings.
    """

    _extra: Extra

    def __new__(
        cls, hidden: Float[Tensor, "r t m"], gold: Int[Tensor, "r t"], extra: Extra
    ) -> "LessonWithExtra":
        """Hidden states and right answers, and the term."""
        lesson = super().__new__(cls, hidden, gold)
        lesson._extra = extra
        return lesson

    @property
    def extra(self) -> Extra:
        """The term."""
        return self._extra


@runtime_checkable
class Learner(Protocol):
    """A model that can be trained on batches of tokens; it is an `nn.Module` as well."""

    output: nn.Linear
    """Maps `b t m` to a score for every answer; it has no bias."""

    def lesson(self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]) -> Lesson:
        """Read a batch with the answers at hand."""


def shifted(target: Int[Tensor, "b t"]) -> Int[Tensor, "b t"]:
    """What a decoder reads: the start token, then all target tokens but the last.

    >>> shifted(torch.tensor([[5, 6, 2], [7, 2, 0]]))
    tensor([[1, 5, 6],
            [1, 7, 0]])
    """
    start = torch.full_like(target[:, :1], BOS)
    read = torch.cat([start, target[:, :-1]], 1)
    # a row's end token stands before its padding, and is nothing to read on from
    return read.masked_fill(target == PAD, PAD)
