"""Objectives: what is minimised over a batch, given a model's lesson on it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Int
from torch import Tensor, nn

from regard.models import Lesson
from regard.training.losses import Loss, token_loss
from regard.training.r_drop import divergence
from regard.training.recipes import TrainingRecipe

Reading = Callable[[Tensor, Tensor], Lesson]
"""A model's `lesson`, compiled or not."""


@runtime_checkable
class Objective(Protocol):
    """Anything that can be minimised batch by batch."""

    def __call__(
        self,
        lesson: Reading,
        output: nn.Linear,
        source: Int[Tensor, "b s"],
        target: Int[Tensor, "b t"],
        *,
        scale: Tensor | float | int,
    ) -> Loss:
        """Sum over the batch's tokens, times `scale`."""


@dataclass(frozen=True)
class Smoothed:
    """Cross-entropy with label smoothing."""

    smoothing: float | int = 0.0

    def __call__(
        self,
        lesson: Reading,
        output: nn.Linear,
        source: Int[Tensor, "b s"],
        target: Int[Tensor, "b t"],
        *,
        scale: Tensor | float | int = 1.0,
    ) -> Loss:
        """One pass."""
        hidden, gold = lesson(source, target)
        return token_loss(hidden, output.weight, gold, smoothing=float(self.smoothing), scale=scale)


@dataclass(frozen=True)
class RDrop:
    """The same over two passes whose dropout differs, and how far they lie apart (R-Drop).

        loss = ½ · (CE(p) + CE(q) + α · ½ · (KL(p ‖ q) + KL(q ‖ p)))

    Without dropout both passes are one, and so this is plain cross-entropy.
    """

    smoothing: float | int
    alpha: float | int

    def __call__(
        self,
        lesson: Reading,
        output: nn.Linear,
        source: Int[Tensor, "b s"],
        target: Int[Tensor, "b t"],
        *,
        scale: Tensor | float | int = 1.0,
    ) -> Loss:
        """Both passes at once: the batch stands twice in its own."""
        hidden, gold = lesson(source.repeat(2, 1), target.repeat(2, 1))
        weight, smoothing = output.weight, float(self.smoothing)
        entropy = token_loss(hidden, weight, gold, smoothing=smoothing, scale=scale / 2)
        first, second = hidden.chunk(2)
        apart = divergence(first, second, weight, gold.chunk(2)[0], scale=scale * self.alpha / 4)
        return Loss(entropy.total + apart, entropy.nll / 2)


def objective(training: TrainingRecipe) -> Objective:
    """What a recipe minimises."""
    if training.r_drop:
        return RDrop(training.label_smoothing, training.r_drop)
    return Smoothed(training.label_smoothing)
