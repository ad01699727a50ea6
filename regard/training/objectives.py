"""Objectives: what is minimised over a batch, given a model's lesson on it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Int, Shaped
from torch import Tensor, nn

from regard.errors import SettingError
from regard.models import Lesson
from regard.models.learner import Extra
from regard.recipes.recipe import TrainingRecipe
from regard.training.losses import Loss, token_loss, token_losses
from regard.training.r_drop import divergence

Reading = Callable[[Tensor, Tensor], Lesson]
"""A model's `lesson`, compiled or not."""


@runtime_checkable
class Objective(Protocol):
    """Anything that can be minimised batch by batch."""

    def __call__(
        self,
        lesson: Reading,
        output: nn.Linear,
        source: Shaped[Tensor, "b ..."],
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
        source: Shaped[Tensor, "b ..."],
        target: Int[Tensor, "b t"],
        *,
        scale: Tensor | float | int = 1.0,
    ) -> Loss:
        """One pass."""
        read = lesson(source, target)
        (hidden, gold), weight, smoothing = read, output.weight, float(self.smoothing)
        if read.extra is None:
            return token_loss(hidden, weight, gold, smoothing=smoothing, scale=scale)
        return _with_extra(read, read.extra, weight, smoothing, scale, len(gold) // len(target))


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
        source: Shaped[Tensor, "b ..."],
        target: Int[Tensor, "b t"],
        *,
        scale: Tensor | float | int = 1.0,
    ) -> Loss:
        """Both passes at once: the batch stands twice in its own."""
        twice = source.repeat(2, *(1,) * (source.dim() - 1))
        read = lesson(twice, target.repeat(2, 1))
        if read.extra is not None:
            raise SettingError(
                "training.r_drop: two passes are compared by what they say, but this model's loss "
                "has a term besides. Set r_drop = 0, or take the term away: select = 'soft' with "
                "penalty = 0 for a captioner, experts.balance = 0 for a mixture of experts."
            )
        (hidden, gold), weight, smoothing = read, output.weight, float(self.smoothing)
        entropy = token_loss(hidden, weight, gold, smoothing=smoothing, scale=scale / 2)
        first, second = hidden.chunk(2)
        apart = divergence(first, second, weight, gold.chunk(2)[0], scale=scale * self.alpha / 4)
        return Loss(entropy.total + apart, entropy.nll / 2, entropy.asked // 2)


def _with_extra(
    read: Lesson,
    extra: Extra,
    output: Tensor,
    smoothing: float,
    scale: Tensor | float | int,
    n_readings: int,
) -> Loss:
    """The mean over the readings of each row, of its tokens' losses and of the term beside them."""
    each = scale / n_readings
    loss, nll = token_losses(read.hidden, output, read.gold, smoothing=smoothing, scale=each)
    return Loss(loss.total + extra(-nll) * each, loss.nll / n_readings, loss.asked // n_readings)


def objective(training: TrainingRecipe) -> Objective:
    """What a recipe minimises."""
    if training.r_drop:
        return RDrop(training.label_smoothing, training.r_drop)
    return Smoothed(training.label_smoothing)
